//! What a server is told about its clients, and how its answers become what one client announced.
//!
//! A profile is a function of one client: [`raise`] sets the keys of [`table::ROWS`] and leaves every other byte as the
//! client sent it; its digest decides who shares a server (`sharing.md`, "Handshake and capabilities"). For each client
//! the [`ClientOffer`] remembers what that client really announced; [`lower`], [`allows_server_message`] and
//! [`filter_registrations`] turn the richer traffic back.
//!
//! Invariants: `raise` is idempotent; `raise(full())` has the digest of `full()`; a key is raised only if what follows
//! from it is turned back here or answered by the pool.

mod lower;
mod markdown;
mod messages;
mod offer;
mod raise;
pub mod table;

pub use lower::{lower, needs_lowering};
pub use markdown::plain_text;
pub use messages::{Filtered, allows_server_message, filter_registrations, filter_unregistrations};
pub use offer::{ClientOffer, HoverFormats};
pub use raise::{CapabilitiesError, Raised, raise};

/// What queries announce: a complete set such as an editor sends, already raised.
///
/// Everything in it is either used by queries, turned back here, or answered by the pool with the protocol's neutral
/// answer, so an editor that sends exactly this shares its server with queries.
pub fn full() -> &'static str {
    include_str!("full.json")
}
