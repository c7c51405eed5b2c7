//! Owns what the peer writes to stderr: the last MiB of it and how much it was.

use std::io::Read;
use std::process::ChildStderr;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::conversation::lock;
use crate::error::{KitError, deadline};

const KEPT_BYTES: usize = 1024 * 1024;

#[derive(Default)]
pub(super) struct Stderr {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    tail: Vec<u8>,
    total: u64,
}

impl Stderr {
    /// Starts the thread that drains the pipe; it ends with the stream and is not joined, because a
    /// grandchild of the peer can hold the stream open.
    pub(super) fn collect(mut stream: ChildStderr) -> Arc<Self> {
        let stderr = Arc::new(Self::default());
        let collector = Arc::clone(&stderr);
        std::thread::spawn(move || {
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(count) = stream.read(&mut buffer) {
                if count == 0 {
                    return;
                }
                collector.note(&buffer[..count]);
            }
        });
        stderr
    }

    fn note(&self, bytes: &[u8]) {
        let mut state = lock(&self.state);
        state.total += bytes.len() as u64;
        state.tail.extend_from_slice(bytes);
        // Cut seldom, so that a flood costs no copy for each read.
        if state.tail.len() > 2 * KEPT_BYTES {
            let surplus = state.tail.len() - KEPT_BYTES;
            state.tail.drain(..surplus);
        }
        self.changed.notify_all();
    }

    pub(super) fn tail(&self) -> String {
        let state = lock(&self.state);
        let from = state.tail.len().saturating_sub(KEPT_BYTES);
        String::from_utf8_lossy(&state.tail[from..]).into_owned()
    }

    pub(super) fn total(&self) -> u64 {
        lock(&self.state).total
    }

    pub(super) fn wait_for(&self, text: &str) -> Result<(), KitError> {
        let state = lock(&self.state);
        let absent = |state: &mut State| !String::from_utf8_lossy(&state.tail).contains(text);
        let (state, result) = self
            .changed
            .wait_timeout_while(state, deadline(), absent)
            .unwrap_or_else(PoisonError::into_inner);
        if result.timed_out() {
            return Err(KitError::Timeout {
                what: format!("{text:?} on stderr"),
                waited: deadline(),
                account: String::from_utf8_lossy(&state.tail).into_owned(),
            });
        }
        Ok(())
    }
}
