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
    has_ended: bool,
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
                    break;
                }
                collector.note(&buffer[..count]);
            }
            lock(&collector.state).has_ended = true;
            collector.changed.notify_all();
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
        let absent = |state: &mut State| !String::from_utf8_lossy(&state.tail).contains(text);
        self.wait_while(&format!("{text:?} on stderr"), absent)
    }

    pub(super) fn wait_end(&self) -> Result<(), KitError> {
        self.wait_while("the end of stderr", |state| !state.has_ended)
    }

    fn wait_while(
        &self,
        what: &str,
        is_missing: impl Fn(&mut State) -> bool,
    ) -> Result<(), KitError> {
        let state = lock(&self.state);
        let (state, result) = self
            .changed
            .wait_timeout_while(state, deadline(), is_missing)
            .unwrap_or_else(PoisonError::into_inner);
        if result.timed_out() {
            return Err(KitError::Timeout {
                what: what.to_owned(),
                waited: deadline(),
                account: String::from_utf8_lossy(&state.tail).into_owned(),
            });
        }
        Ok(())
    }
}
