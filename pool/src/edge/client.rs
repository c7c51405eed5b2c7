//! Messages of a client, decoded before they become events.

use std::collections::BTreeMap;

use super::{Decoded, Text};
use crate::wire::Message;

/// The decoder of one client's messages; it owns the client's texts.
#[derive(Debug, Default)]
pub struct ClientEdge {
    texts: BTreeMap<String, Text>,
}

impl ClientEdge {
    /// A decoder at the start of a connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// What the core needs of a message beyond its envelope.
    pub fn decode(&mut self, message: &Message) -> Decoded {
        let _ = (&self.texts, message);
        Decoded::Plain
    }
}
