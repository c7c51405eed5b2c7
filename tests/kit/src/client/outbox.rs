//! Owns what waits to be written to the peer.
//!
//! Invariant: at most [`LIMIT_BYTES`] wait; a test that would queue more is told, never blocked.

use std::collections::VecDeque;
use std::io::Write;
use std::process::ChildStdin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::conversation::lock;
use crate::error::{KitError, deadline};

/// The most that waits for a peer that does not read.
const LIMIT_BYTES: usize = 256 * 1024 * 1024;

pub(super) struct Outbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Vec<u8>>,
    /// Bytes in the queue and in the write under way.
    bytes: usize,
    closed: Option<String>,
}

impl Outbox {
    /// Starts the thread that writes. It ends when the outbox is closed and empty, or the pipe breaks;
    /// a write to a peer that never reads ends with the peer.
    pub(super) fn start(mut input: ChildStdin) -> Arc<Self> {
        let outbox = Arc::new(Self {
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
        });
        let writer = Arc::clone(&outbox);
        std::thread::spawn(move || {
            while let Some(bytes) = writer.take() {
                let written = input.write_all(&bytes);
                writer.note_written(bytes.len(), written);
            }
        });
        outbox
    }

    pub(super) fn push(&self, bytes: Vec<u8>) -> Result<(), KitError> {
        let mut state = lock(&self.state);
        if let Some(reason) = &state.closed {
            return Err(KitError::InputClosed {
                reason: reason.clone(),
            });
        }
        if state.bytes + bytes.len() > LIMIT_BYTES {
            return Err(KitError::OutboxFull { bytes: state.bytes });
        }
        state.bytes += bytes.len();
        state.queue.push_back(bytes);
        self.changed.notify_all();
        Ok(())
    }

    /// Takes nothing more; the pipe is closed when the queue is empty.
    pub(super) fn close(&self) {
        lock(&self.state)
            .closed
            .get_or_insert_with(|| "the client closed it".to_owned());
        self.changed.notify_all();
    }

    pub(super) fn waiting_bytes(&self) -> usize {
        lock(&self.state).bytes
    }

    pub(super) fn wait_empty(&self) -> Result<(), KitError> {
        let state = lock(&self.state);
        let (state, _) = self
            .changed
            .wait_timeout_while(state, deadline(), |state| state.bytes > 0)
            .unwrap_or_else(PoisonError::into_inner);
        match state.bytes {
            0 => Ok(()),
            bytes => Err(KitError::OutboxFull { bytes }),
        }
    }

    fn take(&self) -> Option<Vec<u8>> {
        let state = lock(&self.state);
        let mut state = self
            .changed
            .wait_while(state, |state| {
                state.queue.is_empty() && state.closed.is_none()
            })
            .unwrap_or_else(PoisonError::into_inner);
        state.queue.pop_front()
    }

    fn note_written(&self, bytes: usize, written: std::io::Result<()>) {
        let mut state = lock(&self.state);
        state.bytes -= bytes;
        if let Err(error) = written {
            state.closed = Some(error.to_string());
            state.queue.clear();
            state.bytes = 0;
        }
        self.changed.notify_all();
    }
}
