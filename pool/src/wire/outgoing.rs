//! What is written to a link: the bytes of a message with the named places replaced.
//!
//! Invariant: every byte outside the edits is the sender's own, shared and not copied.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use xxhash_rust::xxh3::Xxh3;

use super::id::RawId;
use super::message::Message;

/// A body ready to be written, in segments that follow each other without a gap.
#[derive(Clone, Default)]
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

impl fmt::Debug for Outgoing {
    /// Length and digest: a body can hold a document, and no log may. Different content is shown differently, however
    /// it is cut.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut digest = Xxh3::new();
        for segment in &self.0 {
            digest.update(segment);
        }
        write!(
            formatter,
            "Outgoing({:032x}, {} bytes)",
            digest.digest128(),
            self.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::hostile::{Generator, Message as Hostile};

    fn message(body: &str) -> Message {
        Message::parse(Bytes::copy_from_slice(body.as_bytes())).unwrap()
    }

    #[test]
    fn what_is_shown_tells_contents_apart_and_holds_none_of_them() {
        let shown = |body: &'static str| {
            let body = Bytes::from_static(body.as_bytes());
            let whole = format!("{:?}", Outgoing::from(body.clone()));
            let cut = Outgoing(vec![body.slice(..3), body.slice(3..)]);
            assert_eq!(format!("{cut:?}"), whole);
            whole
        };
        let secret = shown("secret");
        assert!(!secret.contains("secret"), "{secret}");
        assert_ne!(secret, shown("secres"));
    }

    #[test]
    fn edits_replace_their_ranges_and_nothing_else() {
        let message = message(r#"{"id":1,"method":"m","params":[10,20,30]}"#);
        let at = |text: &str| {
            let start = String::from_utf8_lossy(message.bytes()).find(text).unwrap();
            start..start + text.len()
        };
        let outgoing = Outgoing::splice(
            &message,
            &[(at("30"), ""), (at("10"), "\"a\""), (at("1"), "7")],
        );
        assert_eq!(
            outgoing.to_vec(),
            br#"{"id":7,"method":"m","params":["a",20,]}"#
        );
        assert_eq!(outgoing.len(), outgoing.to_vec().len());
        assert_eq!(
            outgoing.header(),
            format!("Content-Length: {}\r\n\r\n", outgoing.len())
        );
        assert_eq!(outgoing, Outgoing::from(Bytes::from(outgoing.to_vec())));
        assert_ne!(outgoing, Outgoing::from(message));
    }

    #[test]
    fn every_byte_but_the_ids_is_shared_with_the_message() {
        let mut generator = Generator::new(3);
        let mut checked = 0;
        for _ in 0..20_000 {
            let Hostile { body, .. } = generator.message();
            let Ok(message) = Message::parse(Bytes::from(body)) else {
                continue;
            };
            let outgoing = Outgoing::with_id(&message, &RawId::number(77));
            let sent = message.bytes();
            match message.id_span() {
                None => assert_eq!(&outgoing.to_vec(), sent),
                Some(span) => {
                    let expected = [&sent[..span.start], b"77", &sent[span.end..]].concat();
                    assert_eq!(outgoing.to_vec(), expected);
                    let read = Message::parse_whole(Bytes::from(outgoing.to_vec())).unwrap();
                    assert_eq!(read.id(), Some(&RawId::number(77)));
                    assert_eq!(read.kind(), message.kind());
                    let texts = |it: &Message| {
                        let texts = [it.params(), it.result_json(), it.error_json()];
                        texts.map(|text| text.map(str::to_owned))
                    };
                    assert_eq!(texts(&read), texts(&message));
                    checked += 1;
                }
            }
        }
        assert!(checked > 5_000, "{checked}");
    }
}
