//! Reading an output that lspool itself empties. Owns the end of such a reading: the end of the stream, or the stop and
//! then what the pipe holds at that moment and no more. A descendant that never ceases to write therefore delays nobody,
//! and nothing is lost that was written before the stop.

use std::io;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

/// What a quiet stream costs.
const FIRST_CHUNK_BYTES: usize = 4 * 1024;

/// What a pipe holds on Linux; larger reads gain nothing.
const LAST_CHUNK_BYTES: usize = 64 * 1024;

/// The reading end of one output stream.
pub(super) struct Pump {
    pipe: pipe::Receiver,
    stop: CancellationToken,
    chunk: Vec<u8>,
    /// How many bytes are still to be read; known once the stop was seen.
    left: Option<u64>,
}

impl Pump {
    /// Reads `pipe` until its end or until `stop`.
    pub(super) fn new(pipe: pipe::Receiver, stop: CancellationToken) -> Self {
        Self {
            pipe,
            stop,
            chunk: vec![0; FIRST_CHUNK_BYTES],
            left: None,
        }
    }

    /// The next bytes of the stream, never none; `None` at its end. Can be dropped and called again.
    pub(super) async fn next(&mut self) -> Option<&[u8]> {
        let read = if let Some(left) = self.left {
            self.read_left(left)
        } else {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => self.stopped(),
                read = self.pipe.read(&mut self.chunk) => read,
            }
        };
        let length = read.unwrap_or_else(|error| {
            tracing::debug!(%error, "an output stream could not be read to its end");
            0
        });
        if length == self.chunk.len() && length < LAST_CHUNK_BYTES {
            self.chunk.resize(2 * length, 0);
        }
        (length > 0).then(|| &self.chunk[..length])
    }

    fn stopped(&mut self) -> io::Result<usize> {
        self.read_left(rustix::io::ioctl_fionread(&self.pipe)?)
    }

    /// Reads without waiting, and asks the system itself: the runtime may not have heard yet of the last bytes.
    fn read_left(&mut self, left: u64) -> io::Result<usize> {
        let limit =
            usize::try_from(left).map_or(self.chunk.len(), |left| left.min(self.chunk.len()));
        let length = if limit == 0 {
            0
        } else {
            rustix::io::read(&self.pipe, &mut self.chunk[..limit])?
        };
        self.left = Some(left - length as u64);
        Ok(length)
    }
}
