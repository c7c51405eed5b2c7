//! Terminals: a program on a terminal of its own, and the handle that owns its whole session.

use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{ExitFacts, LaunchSpec, OutputPipe, TerminalError, TerminateError, TreeUsage};

/// The size of a terminal in character cells, each from 1 to 1,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TerminalSize {
    /// Rows.
    pub rows: u16,
    /// Columns.
    pub columns: u16,
}

impl TerminalSize {
    /// The most rows, and the most columns.
    pub const MAX: u16 = 1_000;

    /// Whether a terminal can have this size.
    pub fn is_possible(self) -> bool {
        let range = 1..=Self::MAX;
        range.contains(&self.rows) && range.contains(&self.columns)
    }
}

/// A terminal to open, complete. What the program sees as TERM is an entry of its environment like any other.
#[derive(Clone, Debug)]
pub struct TerminalSpec {
    /// The program and what it begins with.
    pub launch: LaunchSpec,
    /// The size at the start.
    pub size: TerminalSize,
    /// How long each step of the termination waits before the next. More than zero.
    pub grace: Duration,
    /// Whether SIGKILL is refused while the program itself is in the foreground, as for a shell at its own prompt.
    pub protects_program: bool,
    /// Cancels the allocation; once the handle is given, the handle alone owns the lifetime.
    pub cancel: CancellationToken,
}

/// A signal that can be sent to the foreground of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum TerminalSignal {
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGKILL; refused where the target is a program that the spec protects.
    Kill,
    /// SIGTSTP.
    Stop,
    /// SIGHUP.
    HangUp,
}

/// What runs in the foreground of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Foreground {
    /// The foreground process group.
    pub group: u32,
    /// Whether it is proved that the group waits for input from the terminal.
    pub waits_for_input: bool,
}

/// A terminal session. Dropping the handle ends it as [`TerminalHandle::terminate`] does.
#[async_trait]
pub trait TerminalHandle: Send + Sync {
    /// The id of the program on the terminal, where it is known (yet).
    fn pid(&self) -> Option<u32>;

    /// The output in order, every byte of it; the first call gets it. What is not read blocks the writers. It ends after
    /// the last byte once the program has ended, also when a background process still holds the device.
    fn take_output(&self) -> Option<OutputPipe>;

    /// Writes input; answers when the terminal has taken all of it. Calls are written whole and in the order in which
    /// they were made. A call that is dropped may have written a part. A terminal that reads by lines holds only so much
    /// of an unfinished line (4,095 bytes on Linux) and drops the rest of it, as one with a keyboard does.
    ///
    /// Gives `TERMINAL_EXITED` after the program's end, `TERMINAL_CLOSING` once the termination has begun, and
    /// `TERMINAL_FAILED`.
    async fn write(&self, bytes: &[u8]) -> Result<(), TerminalError>;

    /// Changes the size and tells the foreground.
    ///
    /// Gives `INVALID_PARAMS` for a size outside of 1 to 1,000, and the errors of [`TerminalHandle::write`].
    async fn resize(&self, size: TerminalSize) -> Result<(), TerminalError>;

    /// What runs in the foreground; `None` where that is not known. Processes that it sees for the first time belong to
    /// the session from now on, also when they leave it.
    async fn inspect_foreground(&self) -> Option<Foreground>;

    /// Signals the foreground group and gives the group that was signalled.
    ///
    /// Gives `SIGNAL_FORBIDDEN` for SIGKILL where the foreground is the group of a protected program, `TERMINAL_FAILED`
    /// where the group is not known or empty, and the errors of [`TerminalHandle::write`]. A live group that cannot be
    /// signalled breaks the terminal: this and all later calls give `TERMINAL_FAILED`, and the session is ended.
    async fn signal_foreground(&self, signal: TerminalSignal) -> Result<u32, TerminalError>;

    /// What the session uses now; `None` where that cannot be told, and after its end.
    async fn usage(&self) -> Option<TreeUsage>;

    /// Waits for the exit of the program itself.
    async fn done(&self) -> ExitFacts;

    /// Ends the session and all that it started, the program last; answers when nothing is left and every call in flight
    /// on this handle has been answered. Concurrent calls join the first; a failed one can be repeated.
    ///
    /// Gives `EXEC_SURVIVORS` or `EXEC_UNPROVED`.
    async fn terminate(&self) -> Result<ExitFacts, TerminateError>;
}
