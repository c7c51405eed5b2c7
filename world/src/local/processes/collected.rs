//! Collected output: a pipe that is always read, into a tail in memory and, where asked for, into a spill file. Owns the
//! rule that a flood never blocks the process that makes it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::sync::CancellationToken;

use super::spill::{SpillFolder, SpillWriter};
use crate::subprocess::TailBuffer;
use crate::{OutputPage, Spill, Tail};

const CHUNK_BYTES: usize = 64 * 1024;

/// What was collected of one stream, shared by its reader and the handle.
#[derive(Debug)]
pub(super) struct Collected {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    buffer: TailBuffer,
    spill: Option<SpillWriter>,
}

impl Collected {
    /// An empty collection. `spill` comes with the folder that its file is made in.
    pub(super) fn new(tail_bytes: usize, spill: Option<(Spill, Arc<SpillFolder>)>) -> Self {
        let spill = spill.map(|(spill, folder)| SpillWriter::new(spill.max_bytes, folder));
        Self {
            state: Mutex::new(State {
                buffer: TailBuffer::new(tail_bytes),
                spill,
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
            spill_path: state.spill_path(),
        }
    }

    /// What the stream has from `offset` on.
    pub(super) fn read_from(&self, offset: u64) -> OutputPage {
        let state = self.state();
        OutputPage {
            spill_path: state.spill_path(),
            ..state.buffer.read_from(offset)
        }
    }

    /// Reads the pipe until its end, or until `stop`. Afterwards the collection is complete.
    pub(super) async fn fill(
        self: Arc<Self>,
        mut pipe: impl AsyncRead + Unpin,
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
            self.take(&chunk[..length]);
        }
        self.state().buffer.seal();
    }

    /// Takes one chunk. The file is written here, under the lock: a reader then never sees a path without its bytes, and
    /// a slow disk slows this one stream.
    fn take(&self, chunk: &[u8]) {
        let mut state = self.state();
        let State { buffer, spill } = &mut *state;
        let before = buffer.total_bytes();
        let overflows = !buffer.is_truncated();
        let kept = if overflows && spill.is_some() {
            Some(buffer.kept())
        } else {
            None
        };
        buffer.push(chunk);
        if let Some(spill) = spill
            && buffer.is_truncated()
        {
            let head = kept.unwrap_or_default();
            spill.append(&head, chunk, before + chunk.len() as u64);
        }
    }
}

impl State {
    fn spill_path(&self) -> Option<PathBuf> {
        self.spill.as_ref().and_then(SpillWriter::path)
    }
}
