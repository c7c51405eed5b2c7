//! What is written to a link: the bytes of a message with the named places replaced.
//!
//! Invariant: every byte outside the edits is the sender's own, shared and not copied.

use std::ops::Range;

use bytes::Bytes;

use super::id::RawId;
use super::message::Message;

/// A body ready to be written, in segments that follow each other without a gap.
#[derive(Clone, Debug, Default)]
pub struct Outgoing(Vec<Bytes>);

impl Outgoing {
    /// The message under another id; a message without one is unchanged.
    pub fn with_id(message: &Message, id: &RawId) -> Self {
        match message.id_span() {
            Some(span) => Self::splice(message, &[(span, id.raw())]),
            None => Self::from(message.clone()),
        }
    }

    /// The message with the bytes of each range replaced by a text. Ranges are byte ranges of the body in
    /// any order that do not overlap; one that does, or that reaches past the end, is a mistake of
    /// the caller and is left out.
    pub fn splice(message: &Message, edits: &[(Range<usize>, &str)]) -> Self {
        let body = message.bytes();
        let mut ordered: Vec<&(Range<usize>, &str)> = edits.iter().collect();
        ordered.sort_by_key(|(range, _)| range.start);
        let mut segments = Vec::with_capacity(2 * ordered.len() + 1);
        let mut written = 0;
        for (range, text) in ordered {
            let fits =
                written <= range.start && range.start <= range.end && range.end <= body.len();
            debug_assert!(fits, "edit {range:?} overlaps another or leaves the body");
            if fits {
                push(&mut segments, body.slice(written..range.start));
                push(&mut segments, Bytes::copy_from_slice(text.as_bytes()));
                written = range.end;
            }
        }
        push(&mut segments, body.slice(written..));
        Self(segments)
    }

    /// The segments, none of them empty.
    pub fn segments(&self) -> &[Bytes] {
        &self.0
    }

    /// The body's length in bytes.
    pub fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    /// Whether the body has no byte.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The canonical header block that goes before the body.
    pub fn header(&self) -> Bytes {
        Bytes::from(format!("Content-Length: {}\r\n\r\n", self.len()))
    }

    /// The body in one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        self.0.concat()
    }
}

fn push(segments: &mut Vec<Bytes>, segment: Bytes) {
    if !segment.is_empty() {
        segments.push(segment);
    }
}

impl From<Message> for Outgoing {
    fn from(message: Message) -> Self {
        Self::from(message.bytes().clone())
    }
}

impl From<Bytes> for Outgoing {
    fn from(body: Bytes) -> Self {
        let mut segments = Vec::with_capacity(1);
        push(&mut segments, body);
        Self(segments)
    }
}

impl PartialEq for Outgoing {
    /// Equal content is equal, however it is cut.
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.0.iter().flatten().eq(other.0.iter().flatten())
    }
}

impl Eq for Outgoing {}
