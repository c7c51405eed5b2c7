//! Collected output: a pipe that is always read, into a tail in memory and, where asked for, into a spill file. Owns the
//! rule that a flood never blocks the process that makes it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::pump::Pump;
use super::spill::SpillWriter;
use crate::subprocess::TailBuffer;
use crate::{OutputPage, Tail};

/// How long a file may still be written after the stop. A disk that does not answer costs the file, not the end.
const WRITE_PATIENCE: Duration = Duration::from_secs(1);

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
    /// Nobody can ask for the file any more.
    is_abandoned: bool,
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
                is_abandoned: false,
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

    /// Says that the handle is gone: a file is removed, and none is made any more.
    pub(super) fn abandon(&self) {
        let finished = {
            let mut state = self.state();
            state.is_abandoned = true;
            state.spill_path = None;
            state.finished_spill.take()
        };
        if let Some(spill) = finished {
            spill.discard();
        }
    }

    /// Reads the stream to its end. Afterwards the collection, and the spill file, are complete.
    pub(super) async fn fill(
        self: Arc<Self>,
        mut pump: Pump,
        mut spill: Option<SpillWriter>,
        stop: CancellationToken,
    ) {
        while let Some(chunk) = pump.next().await {
            let Some(overflow) = self.take(chunk, spill.is_some()) else {
                continue;
            };
            let Some(writer) = spill.take() else { continue };
            if self.state().is_abandoned {
                writer.discard();
            } else {
                spill = self.append(writer, overflow, chunk.to_vec(), &stop).await;
            }
        }
        if let Some(writer) = spill {
            spill = self.write(writer, &stop, SpillWriter::finish).await;
        }
        let surplus = {
            let mut state = self.state();
            state.buffer.seal();
            if state.is_abandoned {
                spill
            } else {
                state.finished_spill = spill;
                None
            }
        };
        if let Some(spill) = surplus {
            spill.discard();
        }
    }

    /// Takes one chunk into the tail; tells what a spill file needs when the tail no longer holds the whole.
    fn take(&self, chunk: &[u8], is_spilled: bool) -> Option<Overflow> {
        let mut state = self.state();
        let total = state.buffer.total_bytes() + chunk.len() as u64;
        let overflows = is_spilled && !state.buffer.holds(total);
        // Nothing was spilled yet while the tail still held the whole.
        let head = if overflows && !state.buffer.is_truncated() {
            state.buffer.kept()
        } else {
            Bytes::new()
        };
        state.buffer.push(chunk);
        overflows.then_some(Overflow { head, total })
    }

    /// Appends a chunk to the file.
    async fn append(
        &self,
        writer: SpillWriter,
        overflow: Overflow,
        chunk: Vec<u8>,
        stop: &CancellationToken,
    ) -> Option<SpillWriter> {
        if writer.discards_at(overflow.total) {
            self.state().spill_path = None;
        }
        let append = move |writer: &mut SpillWriter| {
            writer.append(&overflow.head, &chunk, overflow.total);
        };
        self.write(writer, stop, append).await
    }

    /// Works on the file on the blocking pool; meanwhile the pipe is not read, so that memory stays bounded. A file that
    /// is still being written when the patience is over is given up: whoever writes it removes it.
    async fn write(
        &self,
        mut writer: SpillWriter,
        stop: &CancellationToken,
        work: impl FnOnce(&mut SpillWriter) + Send + 'static,
    ) -> Option<SpillWriter> {
        let write = move || {
            work(&mut writer);
            writer
        };
        let patience = async {
            stop.cancelled().await;
            tokio::time::sleep(WRITE_PATIENCE).await;
        };
        let writer = tokio::select! {
            biased;
            written = tokio::task::spawn_blocking(write) => written.ok(),
            () = patience => None,
        };
        let mut state = self.state();
        state.spill_path = writer
            .as_ref()
            .and_then(SpillWriter::path)
            .filter(|_| !state.is_abandoned);
        writer
    }
}

impl Drop for Collected {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(spill) = state.finished_spill.take() {
            spill.discard();
        }
    }
}
