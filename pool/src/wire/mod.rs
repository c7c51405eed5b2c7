//! Bytes to messages and back, without I/O: framing, the envelope, ids and splicing.
//!
//! This module keeps the invariant "byte-faithful": a message is a [`bytes::Bytes`] with spans, what
//! routing needs is read in place, and what must change (an id, a token, a version) is spliced, so that
//! every other byte arrives as it was sent.
//!
//! ```text
//! bytes ─ Framer ─▶ FrameItem::Body ─ Message::parse ─▶ Message ─ Outgoing::with_id ─▶ segments
//! ```

mod envelope;
mod escape;
mod framer;
mod header;
#[cfg(test)]
pub(crate) mod hostile;
mod id;
mod message;
mod outgoing;
mod scan;

pub use envelope::{EnvelopeError, EnvelopeErrorKind, FULL_SCAN_LIMIT, Peek};
pub use escape::unescape;
pub use framer::{FrameError, FrameItem, Framer, FramerLimits, TOO_LARGE_HEAD};
pub use id::RawId;
pub use message::{Kind, Message, quoted};
pub use outgoing::Outgoing;
