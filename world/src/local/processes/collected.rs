//! Collected output: a pipe that is always read, into a tail in memory and, where asked for, into a spill file. Owns the
//! rule that a flood never blocks the process that makes it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::sync::CancellationToken;

use super::spill::SpillWriter;
use crate::subprocess::TailBuffer;
use crate::{OutputPage, Tail};

const CHUNK_BYTES: usize = 64 * 1024;

/// What was collected of one stream, shared by its reader and the handle. The lock is never held while a file is written.
#[derive(Debug)]
pub(super) struct Collected {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    buffer: TailBuffer,
    spill_path: Option<PathBuf>,
    /// The file of an ended stream, which is removed with this.
    finished_spill: Option<SpillWriter>,
}

/// What a spill file needs once a stream is longer than its tail.
struct Overflow {
    /// All that the stream had before the chunk that made it too long; empty for later chunks.
    head: Bytes,
    /// The length of the stream with the chunk.
    total: u64,
}

impl Collected {
    /// An empty collection.
    pub(super) fn new(tail_bytes: usize) -> Self {
        let buffer = TailBuffer::new(tail_bytes);
        Self {
            state: Mutex::new(State {
                buffer,
                spill_path: None,
                finished_spill: None,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The end of the stream so far.
    pub(super) fn tail(&self) -> Tail {
        let state = self.state();
        Tail {
            bytes: state.buffer.kept(),
            total_bytes: state.buffer.total_bytes(),
            truncated: state.buffer.is_truncated(),
            spill_path: state.spill_path.clone(),
        }
    }

    /// What the stream has from `offset` on.
    pub(super) fn read_from(&self, offset: u64) -> OutputPage {
        let state = self.state();
        OutputPage {
            spill_path: state.spill_path.clone(),
            ..state.buffer.read_from(offset)
        }
    }

    /// Reads the pipe until its end, or until `stop`. Afterwards the collection, and the spill file, are complete.
    pub(super) async fn fill(
        self: Arc<Self>,
        mut pipe: impl AsyncRead + Unpin,
        mut spill: Option<SpillWriter>,
        stop: CancellationToken,
    ) {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let length = tokio::select! {
                biased;
                read = pipe.read(&mut chunk) => read.unwrap_or(0),
                () = stop.cancelled() => 0,
            };
            if length == 0 {
                break;
            }
            if let Some(overflow) = self.take(&chunk[..length])
                && let Some(writer) = spill.take()
            {
                spill = self
                    .append(writer, overflow, chunk[..length].to_vec())
                    .await;
            }
        }
        let mut state = self.state();
        state.buffer.seal();
        state.finished_spill = spill;
    }

    /// Takes one chunk into the tail; tells what a spill file needs when the tail no longer holds the whole.
    fn take(&self, chunk: &[u8]) -> Option<Overflow> {
        let mut state = self.state();
        let head = if state.buffer.is_truncated() {
            Bytes::new()
        } else {
            state.buffer.kept()
        };
        state.buffer.push(chunk);
        let total = state.buffer.total_bytes();
        state
            .buffer
            .is_truncated()
            .then_some(Overflow { head, total })
    }

    /// Appends a chunk to the file on the blocking pool; meanwhile the pipe is not read, so that memory stays bounded.
    async fn append(
        &self,
        mut writer: SpillWriter,
        overflow: Overflow,
        chunk: Vec<u8>,
    ) -> Option<SpillWriter> {
        if writer.discards_at(overflow.total) {
            self.state().spill_path = None;
        }
        let write = move || {
            writer.append(&overflow.head, &chunk, overflow.total);
            writer
        };
        let writer = tokio::task::spawn_blocking(write).await.ok();
        self.state().spill_path = writer.as_ref().and_then(SpillWriter::path);
        writer
    }
}
