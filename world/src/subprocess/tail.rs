//! Collected output without I/O: the last bytes of a stream, byte-exact, and reads by offset. Offsets count the bytes of
//! the whole stream from zero. A page never ends or begins inside of a character of UTF-8.

use std::collections::VecDeque;
use std::path::PathBuf;

use bytes::Bytes;

/// The last bytes of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The bytes, exactly the last ones of the stream.
    pub bytes: Bytes,
    /// How many bytes the stream has had.
    pub total_bytes: u64,
    /// Whether bytes before these were let go.
    pub truncated: bool,
    /// The file with the whole stream, where one was asked for and the stream is longer than the tail.
    pub spill_path: Option<PathBuf>,
}

impl Tail {
    /// The tail as text: a character that the cut split is left out, other bytes that are not UTF-8 become U+FFFD.
    pub fn text(&self) -> String {
        let skipped = if self.truncated {
            leading_continuation(&self.bytes)
        } else {
            0
        };
        String::from_utf8_lossy(&self.bytes[skipped..]).into_owned()
    }
}

/// A part of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputPage {
    /// The offset of the first byte of `bytes`.
    pub from: u64,
    /// The offset at which the next read goes on.
    pub next_offset: u64,
    /// The bytes, in whole characters as far as they are UTF-8.
    pub bytes: Bytes,
    /// Whether bytes from the asked offset on were let go.
    pub lossy: bool,
    /// As in [`Tail`].
    pub spill_path: Option<PathBuf>,
}

impl OutputPage {
    /// The page as text; bytes that are not UTF-8 become U+FFFD.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// How many bytes before the tail are remembered, to tell whether the tail begins inside of a character.
const CONTEXT_BYTES: usize = 3;

/// Keeps the last bytes of a stream.
#[derive(Debug)]
pub struct TailBuffer {
    /// The tail, with up to [`CONTEXT_BYTES`] bytes before it.
    remembered: VecDeque<u8>,
    capacity: usize,
    total: u64,
    sealed: bool,
}

impl TailBuffer {
    /// A buffer that keeps `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        Self {
            remembered: VecDeque::new(),
            capacity,
            total: 0,
            sealed: false,
        }
    }

    /// Takes the next bytes of the stream.
    pub fn push(&mut self, chunk: &[u8]) {
        let limit = self.capacity.saturating_add(CONTEXT_BYTES);
        self.total = self.total.saturating_add(chunk.len() as u64);
        let chunk = &chunk[chunk.len().saturating_sub(limit)..];
        let surplus = (self.remembered.len() + chunk.len()).saturating_sub(limit);
        self.remembered.drain(..surplus);
        let needed = self.remembered.len() + chunk.len();
        if needed > self.remembered.capacity() {
            // Grown in doublings as any buffer, but never past what can be kept.
            let grown = needed.saturating_mul(2).min(limit);
            self.remembered.reserve_exact(grown - self.remembered.len());
        }
        self.remembered.extend(chunk);
    }

    /// Says that nothing follows: an unfinished character at the end is given too.
    pub fn seal(&mut self) {
        self.sealed = true;
    }

    /// How many bytes the stream has had.
    pub fn total_bytes(&self) -> u64 {
        self.total
    }

    /// Whether bytes were let go.
    pub fn is_truncated(&self) -> bool {
        !self.holds(self.total)
    }

    /// Whether a stream of so many bytes is kept whole.
    pub fn holds(&self, total: u64) -> bool {
        total <= self.capacity as u64
    }

    /// The bytes that are kept.
    pub fn kept(&self) -> Bytes {
        let context = self.remembered.len().saturating_sub(self.capacity);
        self.copied_from(context)
    }

    /// The remembered bytes from a position on.
    fn copied_from(&self, position: usize) -> Bytes {
        let (front, back) = self.remembered.as_slices();
        let mut bytes = Vec::with_capacity(self.remembered.len() - position);
        bytes.extend_from_slice(front.get(position..).unwrap_or_default());
        bytes.extend_from_slice(&back[position.saturating_sub(front.len())..]);
        bytes.into()
    }

    /// What the stream has from `offset` on. An offset past the end gives nothing and the same offset.
    pub fn read_from(&self, offset: u64) -> OutputPage {
        let page = |from, bytes: Bytes, lossy| {
            let next_offset = from + bytes.len() as u64;
            OutputPage {
                from,
                next_offset,
                bytes,
                lossy,
                spill_path: None,
            }
        };
        if offset >= self.total {
            return page(offset, Bytes::new(), false);
        }
        let tail_start = self.total.saturating_sub(self.capacity as u64);
        let from = offset.max(tail_start);
        let asked = (self.total - from) as usize;
        let before = self.remembered.len() - asked;
        let remembered = self.copied_from(before.saturating_sub(CONTEXT_BYTES));
        let position = remembered.len() - asked;
        let start = character_start(&remembered, position);
        let end = if self.sealed {
            remembered.len()
        } else {
            remembered.len() - unfinished_at_end(&remembered)
        };
        let bytes = remembered.slice(start.min(end)..end);
        page(
            from + (start.min(end).max(position) - position) as u64,
            bytes,
            offset < tail_start,
        )
    }
}

/// The first position from `position` on that is not inside of a character that begins before it.
fn character_start(bytes: &[u8], position: usize) -> usize {
    for back in 1..=position.min(CONTEXT_BYTES) {
        let byte = bytes[position - back];
        if is_continuation(byte) {
            continue;
        }
        let missing = character_length(byte).saturating_sub(back);
        return position
            + bytes[position..]
                .iter()
                .take(missing)
                .take_while(|byte| is_continuation(**byte))
                .count();
    }
    position
}

/// How many bytes a character has that begins with `byte`; 1 for a byte that begins none.
fn character_length(byte: u8) -> usize {
    match byte {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    }
}

/// How many bytes at the beginning continue a character that began before them: at most three.
fn leading_continuation(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .take(3)
        .take_while(|byte| is_continuation(**byte))
        .count()
}

/// How many bytes at the end begin a character that is not complete.
fn unfinished_at_end(bytes: &[u8]) -> usize {
    for (back, &byte) in bytes.iter().rev().take(3).enumerate() {
        if is_continuation(byte) {
            continue;
        }
        let length = character_length(byte);
        return if back + 1 < length { back + 1 } else { 0 };
    }
    0
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A stream in pieces: text, and bytes that are or are not parts of characters.
    fn pieces() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let byte = prop_oneof![
            any::<u8>(),
            proptest::sample::select(
                b"a\x80\xbf\xc3\xe2\x82\xac\xed\xa0\xf0\x9f\x92\xf4\x90".to_vec()
            ),
        ];
        let piece = prop_oneof![
            proptest::collection::vec(byte, 0..6),
            ".{0,3}".prop_map(String::into_bytes),
        ];
        proptest::collection::vec(piece, 0..40)
    }

    #[test]
    fn a_burst_after_a_read_gives_the_tail_and_says_so() {
        let mut buffer = TailBuffer::new(10);
        buffer.push(b"01234");
        assert_eq!(buffer.read_from(0).text(), "01234");
        buffer.push(b"abcdefghijklmnop");

        let page = buffer.read_from(5);

        assert_eq!(
            (
                page.text().as_str(),
                page.lossy,
                page.from,
                page.next_offset
            ),
            ("ghijklmnop", true, 11, 21)
        );
    }

    #[test]
    fn exactly_the_capacity_is_not_truncated() {
        let mut buffer = TailBuffer::new(4);
        buffer.push(b"abcd");
        assert!(!buffer.is_truncated());
        buffer.push(b"e");
        assert!(buffer.is_truncated());
        assert_eq!(&buffer.kept()[..], b"bcde");
    }

    #[test]
    fn an_offset_past_the_end_is_given_back() {
        let mut buffer = TailBuffer::new(4);
        buffer.push(b"ab");

        let page = buffer.read_from(7);

        assert_eq!(
            (page.from, page.next_offset, page.bytes.len(), page.lossy),
            (7, 7, 0, false)
        );
    }

    #[test]
    fn an_unfinished_character_is_given_once_the_stream_is_sealed() {
        let mut buffer = TailBuffer::new(8);
        buffer.push(b"a\xe2\x82");
        assert_eq!(buffer.read_from(0).next_offset, 1);
        buffer.seal();
        assert_eq!(buffer.read_from(1).next_offset, 3);
    }

    proptest! {
        #[test]
        fn the_kept_bytes_are_the_last_ones(chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..12), 0..8), capacity in 0usize..20) {
            let mut buffer = TailBuffer::new(capacity);
            for chunk in &chunks {
                buffer.push(chunk);
            }
            let whole = chunks.concat();
            prop_assert_eq!(&buffer.kept()[..], &whole[whole.len().saturating_sub(capacity)..]);
            prop_assert_eq!(buffer.total_bytes(), whole.len() as u64);
        }

        #[test]
        fn reads_in_a_row_give_the_whole_text_in_whole_characters(text in ".{0,30}", size in 1usize..5) {
            let mut buffer = TailBuffer::new(1000);
            let (mut offset, mut read) = (0, String::new());
            for chunk in text.as_bytes().chunks(size) {
                buffer.push(chunk);
                let page = buffer.read_from(offset);
                read.push_str(std::str::from_utf8(&page.bytes).unwrap());
                offset = page.next_offset;
            }
            prop_assert_eq!(read, text);
        }

        #[test]
        fn pages_of_a_growing_stream_decode_as_the_whole_does(stream in pieces(), reads in proptest::collection::vec(any::<bool>(), 0..40)) {
            let mut buffer = TailBuffer::new(10_000);
            let (mut offset, mut text) = (0, String::new());
            let mut read = |buffer: &TailBuffer| {
                let page = buffer.read_from(offset);
                assert_eq!((page.from, page.lossy), (offset, false));
                text.push_str(&page.text());
                offset = page.next_offset;
            };
            for (number, piece) in stream.iter().enumerate() {
                buffer.push(piece);
                if reads.get(number).copied().unwrap_or(true) {
                    read(&buffer);
                }
            }
            buffer.seal();
            read(&buffer);
            prop_assert_eq!(offset, buffer.total_bytes());
            let whole = stream.concat();
            prop_assert_eq!(text, String::from_utf8_lossy(&whole));
        }

        #[test]
        fn pages_of_a_tail_are_parts_of_the_stream_and_say_what_was_let_go(stream in pieces(), capacity in 0usize..30, offset in 0u64..200) {
            let mut buffer = TailBuffer::new(capacity);
            let mut whole = Vec::new();
            for piece in &stream {
                buffer.push(piece);
                whole.extend_from_slice(piece);
                let (total, page) = (whole.len() as u64, buffer.read_from(offset));
                let start = total.saturating_sub(capacity as u64);
                if offset >= total {
                    prop_assert_eq!((page.from, page.next_offset, page.bytes.len(), page.lossy), (offset, offset, 0, false));
                    continue;
                }
                prop_assert_eq!(page.lossy, offset < start);
                prop_assert!(page.from >= offset.max(start) && page.from <= offset.max(start) + 3);
                prop_assert_eq!(&page.bytes[..], &whole[page.from as usize..page.next_offset as usize]);
                prop_assert!(total - page.next_offset <= 3, "more is held back than a character");
            }
        }

        #[test]
        fn a_cut_tail_of_text_is_text(text in ".{1,30}", capacity in 0usize..40, offset in 0u64..100) {
            let mut buffer = TailBuffer::new(capacity);
            buffer.push(text.as_bytes());
            buffer.seal();
            prop_assert!(std::str::from_utf8(&buffer.read_from(offset).bytes).is_ok());
        }
    }
}
