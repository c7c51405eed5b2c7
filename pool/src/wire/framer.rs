//! The base protocol's frames, sans I/O: bytes are pushed, heads and bodies are pulled.
//!
//! Invariants: the items do not depend on how the bytes were cut into reads; no announced length allocates
//! ahead of the bytes that came; junk costs its own bytes and never the session. A `Head` comes before its
//! `Body`, so that a reader takes byte credit between the two.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;
use tokio_util::codec::Decoder;

use super::header::{self, Line};

/// How much of a body over the cap is kept, in bytes: enough to find its id.
pub const TOO_LARGE_HEAD: usize = 64 * 1024;

/// How much skipped junk is kept for the log, in bytes.
const SAMPLE: usize = 4 * 1024;

/// The first reservation for an announced body, in bytes; beyond it the buffer grows as bytes come.
const FIRST_RESERVATION: usize = 1024 * 1024;

/// The room that a reader finds while a header is awaited, in bytes.
const READ_ROOM: usize = 16 * 1024;

/// Bodies up to this many bytes are copied out, so that a small message that is kept does not keep the
/// whole read buffer.
const COPY_LIMIT: usize = 16 * 1024;

/// The bounds of a [`Framer`], in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramerLimits {
    /// The longest header block and the longest line; more is junk.
    pub max_header: usize,
    /// The longest body that is handed out; a longer one is skipped ([`FrameItem::TooLarge`]).
    pub max_body: usize,
    /// How much junk may stand before the first header; `None` for any amount.
    pub max_preamble: Option<usize>,
}

impl Default for FramerLimits {
    /// 64 KiB of header, 256 MiB of body, 64 KiB of preamble.
    fn default() -> Self {
        Self {
            max_header: 64 * 1024,
            max_body: 256 * 1024 * 1024,
            max_preamble: Some(64 * 1024),
        }
    }
}

/// What a [`Framer`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameItem {
    /// A header block ended; its body of `length` bytes is the next item.
    Head {
        /// The body's length in bytes, at most `max_body`.
        length: usize,
    },
    /// A whole body.
    Body(Bytes),
    /// Something that is no frame stood before a header, or at the end of the input.
    Skipped {
        /// How many bytes were skipped.
        total: usize,
        /// The first of them, at most 4 KiB.
        sample: Vec<u8>,
    },
    /// A body over `max_body` was read to its end and dropped. No `Head` came for it.
    TooLarge {
        /// The announced length in bytes.
        length: u64,
        /// The body's first bytes, at most [`TOO_LARGE_HEAD`].
        head: Bytes,
    },
}

/// Why a link cannot be read on.
#[derive(Debug, Error)]
pub enum FrameError {
    /// `FRAME_PREAMBLE`: more junk before the first header than `max_preamble`.
    #[error(
        "no header within the first {total} bytes of output, which begins {:?}",
        String::from_utf8_lossy(sample)
    )]
    Preamble {
        /// How many bytes of junk were counted.
        total: usize,
        /// The first of them, at most 4 KiB.
        sample: Vec<u8>,
    },
    /// `FRAME_TRUNCATED`: the input ended within a body.
    #[error("the input ended after {received} of the {length} bytes of a body")]
    Truncated {
        /// The announced length in bytes.
        length: u64,
        /// How many of them came.
        received: u64,
    },
    /// `FRAME_IO`: the reader below a [`Decoder`] failed.
    #[error("the link cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl FrameError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Preamble { .. } => "FRAME_PREAMBLE",
            Self::Truncated { .. } => "FRAME_TRUNCATED",
            Self::Io(_) => "FRAME_IO",
        }
    }
}

/// The sans-I/O framer of one direction of one link.
#[derive(Debug)]
pub struct Framer {
    limits: FramerLimits,
    buffer: BytesMut,
    state: State,
    junk: Junk,
    /// Whether a header was seen, after which `max_preamble` no longer counts.
    begun: bool,
}

#[derive(Debug)]
enum State {
    /// Within a header block, of which the first `accepted` bytes of the buffer are whole lines.
    Header(Block),
    /// The head of a body was handed out.
    Body { length: usize },
    /// Within a body that is over the cap.
    Skip {
        length: u64,
        remaining: u64,
        head: BytesMut,
    },
}

#[derive(Debug, Default)]
struct Block {
    accepted: usize,
    /// How far behind `accepted` no line end stands.
    searched: usize,
    length: Option<u64>,
    /// Whether the start of the current line was dropped, so that it is no header by itself.
    beheaded: bool,
}

#[derive(Debug, Default)]
struct Junk {
    total: usize,
    sample: Vec<u8>,
}

impl Framer {
    /// A framer at the start of a stream.
    pub fn new(limits: FramerLimits) -> Self {
        Self {
            limits,
            buffer: BytesMut::new(),
            state: State::Header(Block::default()),
            junk: Junk::default(),
            begun: false,
        }
    }

    /// Appends bytes that were read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The buffer, to read into its end directly; nothing in it may be changed. After
    /// [`Framer::next`] gave `None` it has room for a good read.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The next item, `None` when more bytes are needed.
    ///
    /// # Errors
    /// `FRAME_PREAMBLE`, after which the link is of no use.
    // An iterator ends; this goes on when more bytes come, and it fails.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<FrameItem>, FrameError> {
        let item = match &mut self.state {
            State::Header(_) => self.next_header()?,
            State::Body { length } => {
                let length = *length;
                self.take_body(length)
            }
            State::Skip { .. } => self.skip_body(),
        };
        if item.is_none() {
            self.make_room();
        }
        Ok(item)
    }

    /// What is left when the input has ended, after [`Framer::next`] gave `None`.
    ///
    /// # Errors
    /// `FRAME_TRUNCATED` when a body is incomplete, `FRAME_PREAMBLE` as in [`Framer::next`].
    pub fn finish(&mut self) -> Result<Option<FrameItem>, FrameError> {
        match &self.state {
            State::Header(_) => {
                let rest = self.buffer.len();
                self.drop_junk(rest)?;
                Ok(self.take_junk())
            }
            State::Body { length } => Err(FrameError::Truncated {
                length: *length as u64,
                received: self.buffer.len() as u64,
            }),
            State::Skip {
                length, remaining, ..
            } => Err(FrameError::Truncated {
                length: *length,
                received: length - remaining,
            }),
        }
    }

    fn next_header(&mut self) -> Result<Option<FrameItem>, FrameError> {
        loop {
            let State::Header(block) = &mut self.state else {
                return Ok(None);
            };
            let line_start = block.accepted;
            let Some(found) = memchr::memchr(b'\n', &self.buffer[line_start + block.searched..])
            else {
                block.searched = self.buffer.len() - line_start;
                self.drop_endless_line(line_start)?;
                return Ok(None);
            };
            let line_end = line_start + block.searched + found + 1;
            block.searched = 0;
            if let Some(length) = self.take_line(line_start, line_end)? {
                return Ok(self.end_block(line_end, length));
            }
        }
    }

    /// Takes the line of the buffer at `start..end` into the block or drops it; gives the body's length
    /// when the line ended a block.
    fn take_line(&mut self, start: usize, end: usize) -> Result<Option<u64>, FrameError> {
        let State::Header(block) = &mut self.state else {
            return Ok(None);
        };
        let line = &self.buffer[start..end];
        let whole = !std::mem::take(&mut block.beheaded) && line.len() <= self.limits.max_header;
        let kind = if whole {
            header::classify(line)
        } else {
            Line::Junk
        };
        let fits = end <= self.limits.max_header;
        match (kind, block.length) {
            (Line::Blank, Some(length)) => return Ok(Some(length)),
            (Line::Length(length), None) if fits => {
                block.length = Some(length);
                block.accepted = end;
            }
            (Line::Length(length), Some(earlier)) if fits && length == earlier => {
                block.accepted = end;
            }
            (Line::Length(length), _) => {
                // A block that begins anew: what came before it was cut off by its sender.
                self.drop_junk(start)?;
                self.begin_block(end - start, length);
            }
            (Line::Other { .. }, Some(_)) if fits => block.accepted = end,
            (Line::Other { certain }, None)
                if header::length_at_line_end(line).is_none() && certain && fits =>
            {
                block.accepted = end;
            }
            (Line::Blank | Line::Other { .. } | Line::Junk, _) => {
                if let Some((offset, length)) = header::length_at_line_end(line) {
                    self.drop_junk(start + offset)?;
                    self.begin_block(end - start - offset, length);
                } else {
                    self.drop_junk(end)?;
                }
            }
        }
        Ok(None)
    }

    fn begin_block(&mut self, accepted: usize, length: u64) {
        self.state = State::Header(Block {
            accepted,
            length: Some(length),
            ..Block::default()
        });
    }

    /// Consumes a whole block and gives the item that it means: the junk before it first. `None` for a
    /// body that is being skipped.
    fn end_block(&mut self, block_end: usize, length: u64) -> Option<FrameItem> {
        if let Some(skipped) = self.take_junk() {
            // The block stays in the buffer; the next call finds its blank line again.
            return Some(skipped);
        }
        self.begun = true;
        self.buffer.advance(block_end);
        if let Some(length) = usize::try_from(length)
            .ok()
            .filter(|&length| length <= self.limits.max_body)
        {
            self.state = State::Body { length };
            return Some(FrameItem::Head { length });
        }
        self.state = State::Skip {
            length,
            remaining: length,
            head: BytesMut::new(),
        };
        self.skip_body()
    }

    fn take_body(&mut self, length: usize) -> Option<FrameItem> {
        if self.buffer.len() < length {
            return None;
        }
        self.state = State::Header(Block::default());
        if length > COPY_LIMIT {
            return Some(FrameItem::Body(self.buffer.split_to(length).freeze()));
        }
        let body = Bytes::copy_from_slice(&self.buffer[..length]);
        self.buffer.advance(length);
        Some(FrameItem::Body(body))
    }

    fn skip_body(&mut self) -> Option<FrameItem> {
        let State::Skip {
            length,
            remaining,
            head,
        } = &mut self.state
        else {
            return None;
        };
        let available = usize::try_from(*remaining)
            .unwrap_or(usize::MAX)
            .min(self.buffer.len());
        let kept = available.min(TOO_LARGE_HEAD - head.len());
        head.extend_from_slice(&self.buffer[..kept]);
        self.buffer.advance(available);
        *remaining -= available as u64;
        if *remaining > 0 {
            return None;
        }
        let item = FrameItem::TooLarge {
            length: *length,
            head: std::mem::take(head).freeze(),
        };
        self.state = State::Header(Block::default());
        Some(item)
    }

    /// Drops a line that is longer than a header can be, but for the end that can still become one.
    fn drop_endless_line(&mut self, line_start: usize) -> Result<(), FrameError> {
        let length = self.buffer.len() - line_start;
        if length <= self.limits.max_header + header::LONGEST_TAIL {
            return Ok(());
        }
        self.drop_junk(self.buffer.len() - header::LONGEST_TAIL)?;
        self.state = State::Header(Block {
            searched: header::LONGEST_TAIL,
            beheaded: true,
            ..Block::default()
        });
        Ok(())
    }

    /// Counts and drops the first `count` bytes of the buffer and forgets the block.
    fn drop_junk(&mut self, count: usize) -> Result<(), FrameError> {
        let sampled = count.min(SAMPLE - self.junk.sample.len());
        self.junk.sample.extend_from_slice(&self.buffer[..sampled]);
        self.junk.total += count;
        self.buffer.advance(count);
        self.state = State::Header(Block::default());
        match self.limits.max_preamble {
            Some(limit) if !self.begun && self.junk.total > limit => Err(FrameError::Preamble {
                total: self.junk.total,
                sample: self.junk.sample.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// The junk so far as an item; blank lines alone are not worth one.
    fn take_junk(&mut self) -> Option<FrameItem> {
        let Junk { total, sample } = std::mem::take(&mut self.junk);
        let blank = total == sample.len() && sample.trim_ascii().is_empty();
        (!blank).then_some(FrameItem::Skipped { total, sample })
    }

    fn make_room(&mut self) {
        let room = match &self.state {
            State::Body { length } => {
                let missing = length.saturating_sub(self.buffer.len());
                missing.min(FIRST_RESERVATION.max(self.buffer.len()))
            }
            State::Header(_) | State::Skip { .. } => READ_ROOM,
        };
        if self.buffer.capacity() - self.buffer.len() < room.min(READ_ROOM) {
            self.buffer.reserve(room);
        }
    }
}

/// For the scriptable server, tests and fuzzing; a reader that takes credit uses [`Framer::next`].
impl Decoder for Framer {
    type Item = FrameItem;
    type Error = FrameError;

    fn decode(&mut self, source: &mut BytesMut) -> Result<Option<FrameItem>, FrameError> {
        self.push(source);
        source.clear();
        self.next()
    }

    fn decode_eof(&mut self, source: &mut BytesMut) -> Result<Option<FrameItem>, FrameError> {
        match self.decode(source)? {
            Some(item) => Ok(Some(item)),
            None => self.finish(),
        }
    }
}

#[cfg(test)]
mod tests;
