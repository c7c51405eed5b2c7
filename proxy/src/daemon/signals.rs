//! The signals that end a daemon or an in-process session: the first starts the end ladder, a second one ends at once.

use std::time::Instant;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::defaults::SIGNAL_ECHO;

/// The signals that end this process, from the moment this value exists.
pub(crate) struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    quit: Signal,
    last: Option<Instant>,
}

impl EndSignals {
    /// Starts to listen; until now such a signal ended the process by its default action.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
            last: None,
        })
    }

    /// Waits for the next signal and answers its number. What follows within [`SIGNAL_ECHO`] is the same signal on its
    /// second way, through the guardian.
    pub(crate) async fn next(&mut self) -> i32 {
        loop {
            let kind = tokio::select! {
                _ = self.terminate.recv() => SignalKind::terminate(),
                _ = self.interrupt.recv() => SignalKind::interrupt(),
                _ = self.hangup.recv() => SignalKind::hangup(),
                _ = self.quit.recv() => SignalKind::quit(),
            };
            let now = Instant::now();
            let is_echo = self
                .last
                .is_some_and(|last| now.duration_since(last) < SIGNAL_ECHO);
            if !is_echo {
                self.last = Some(now);
                return kind.as_raw_value();
            }
        }
    }
}
