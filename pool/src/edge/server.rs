//! Messages of a server, decoded before they become events.

use super::Decoded;
use crate::wire::Message;

/// The decoder of one server's messages.
#[derive(Debug)]
pub struct ServerEdge {
    initialize_id: u64,
}

impl ServerEdge {
    /// A decoder for a server whose `initialize` was sent under this id.
    pub fn new(initialize_id: u64) -> Self {
        Self { initialize_id }
    }

    /// What the core needs of a message beyond its envelope.
    pub fn decode(&mut self, message: &Message) -> Decoded {
        let _ = (self.initialize_id, message);
        Decoded::Plain
    }
}
