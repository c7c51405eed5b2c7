//! Terminals: a program on a terminal of its own, and the handle that owns its whole session.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::spec::Overrides;
use super::{ExitFacts, OutputPipe, TerminateError};
use crate::{Environment, SandboxPolicy, TreeMarker};

/// The size of a terminal in character cells, each from 1 to 1,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TerminalSize {
    /// Rows.
    pub rows: u16,
    /// Columns.
    pub columns: u16,
}

/// A terminal to open, complete.
#[derive(Clone)]
pub struct TerminalSpec {
    /// The arguments; the first is the absolute path of the executable.
    pub argv: Vec<OsString>,
    /// The absolute working directory.
    pub cwd: PathBuf,
    /// The full base environment.
    pub environment: Environment,
    /// Explicit entries, which win over the base and the scrub; `None` removes a name.
    pub overrides: BTreeMap<OsString, Option<OsString>>,
    /// Whether credential-shaped and managed names are taken out of the base.
    pub scrub: bool,
    /// The variable that marks the tree, set after everything else.
    pub marker: Option<TreeMarker>,
    /// The size at the start.
    pub size: TerminalSize,
    /// How long each step of the termination waits before the next. More than zero.
    pub grace: Duration,
    /// Cancels the allocation; once the handle is given, the handle alone owns the lifetime.
    pub cancel: CancellationToken,
    /// The confinement.
    pub sandbox: SandboxPolicy,
}

impl fmt::Debug for TerminalSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let overrides = Overrides(&self.overrides);
        formatter
            .debug_struct("TerminalSpec")
            .field("argv", &self.argv)
            .field("cwd", &self.cwd)
            .field("environment", &self.environment)
            .field("overrides", &overrides)
            .field("scrub", &self.scrub)
            .field("marker", &self.marker)
            .field("size", &self.size)
            .field("grace", &self.grace)
            .field("sandbox", &self.sandbox)
            .finish_non_exhaustive()
    }
}

/// A signal that can be sent to the foreground of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum TerminalSignal {
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGKILL; refused where the target is the session's own shell.
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

    /// The output in order; the first call gets it. It ends after the last byte once the program has ended.
    fn take_output(&self) -> Option<OutputPipe>;

    /// Writes input; answers when the terminal has taken it.
    ///
    /// Gives `EXEC_UNPROVED` after the program's end.
    async fn write(&self, bytes: &[u8]) -> Result<(), TerminateError>;

    /// Changes the size and tells the foreground.
    ///
    /// Gives `EXEC_UNPROVED` after the program's end.
    async fn resize(&self, size: TerminalSize) -> Result<(), TerminateError>;

    /// What runs in the foreground; `None` where that is not known.
    async fn inspect_foreground(&self) -> Option<Foreground>;

    /// Signals the foreground group and gives the group that was signalled.
    ///
    /// Gives `EXEC_UNPROVED` where the group is not known or may not be signalled so.
    async fn signal_foreground(&self, signal: TerminalSignal) -> Result<u32, TerminateError>;

    /// Waits for the exit of the program itself.
    async fn done(&self) -> ExitFacts;

    /// Ends the session and all that it started; answers when nothing is left. Concurrent calls join the first; a
    /// failed one can be repeated.
    ///
    /// Gives `EXEC_SURVIVORS` or `EXEC_UNPROVED`.
    async fn terminate(&self) -> Result<ExitFacts, TerminateError>;
}
