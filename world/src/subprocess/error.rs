//! The errors of the process seam and their codes.

use std::io;
use std::path::PathBuf;

use crate::sandbox::SandboxError;

/// Why an executable could not be found. All have the code `EXEC_NOT_FOUND`; [`ExecutableError::reason`] tells them apart.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecutableError {
    /// There is no such file, or none on PATH.
    #[error("{command} was not found{}", if *.on_path { " on PATH" } else { "" })]
    Missing {
        /// The command as it was given.
        command: String,
        /// Whether it was searched on PATH.
        on_path: bool,
    },
    /// There is a file, but it cannot be executed.
    #[error("{} is not an executable file", path.display())]
    NotExecutable {
        /// The first such candidate.
        path: PathBuf,
    },
    /// The command cannot be looked up.
    #[error("{command:?} is no command: {reason}")]
    Invalid {
        /// The command as it was given.
        command: String,
        /// Why not.
        reason: &'static str,
    },
}

impl ExecutableError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        "EXEC_NOT_FOUND"
    }

    /// `missing`, `notExecutable` or `invalid`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "missing",
            Self::NotExecutable { .. } => "notExecutable",
            Self::Invalid { .. } => "invalid",
        }
    }
}

/// Why a process was not started. Nothing of it runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The spec is not complete or not possible: `INVALID_PARAMS`.
    #[error("the process cannot be started: {field} {reason}")]
    InvalidSpec {
        /// The field of the spec.
        field: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The executable is missing or not executable: `EXEC_NOT_FOUND`.
    #[error(transparent)]
    Executable(#[from] ExecutableError),
    /// The working directory does not exist: `FS_NOT_FOUND`.
    #[error("the working directory {} was not found", cwd.display())]
    CwdMissing {
        /// The working directory.
        cwd: PathBuf,
    },
    /// The working directory is something else: `FS_NOT_DIRECTORY`.
    #[error("the working directory {} is not a folder", cwd.display())]
    CwdNotDirectory {
        /// The working directory.
        cwd: PathBuf,
    },
    /// The system refused: `EXEC_SPAWN_FAILED`.
    #[error("{} could not be started in {}: {reason}", executable.display(), cwd.display())]
    Refused {
        /// The executable.
        executable: PathBuf,
        /// The working directory.
        cwd: PathBuf,
        /// What that means, for people.
        reason: String,
        /// The system's own error.
        #[source]
        source: io::Error,
    },
    /// The policy is confined and cannot be enforced: `SANDBOX_UNAVAILABLE`.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// Another live tree has the same marker: `EXEC_MARKER_IN_USE`.
    #[error("another live process tree carries the marker {marker}; every tree needs its own")]
    MarkerInUse {
        /// The marker as NAME=VALUE.
        marker: String,
    },
    /// The spec's cancellation was already asked for: `EXEC_CANCELLED`.
    #[error("the start was cancelled")]
    Cancelled,
    /// The provider is shutting down: `WORLD_DISPOSED`.
    #[error("the world is closed; nothing can be started in it")]
    Disposed,
    /// The provider does not have this operation: `WORLD_UNSUPPORTED`.
    #[error("this world does not support {operation}")]
    Unsupported {
        /// The name of the operation.
        operation: &'static str,
    },
}

impl SpawnError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidSpec { .. } => "INVALID_PARAMS",
            Self::Executable(error) => error.code(),
            Self::CwdMissing { .. } => "FS_NOT_FOUND",
            Self::CwdNotDirectory { .. } => "FS_NOT_DIRECTORY",
            Self::Refused { .. } => "EXEC_SPAWN_FAILED",
            Self::Sandbox(error) => error.code(),
            Self::MarkerInUse { .. } => "EXEC_MARKER_IN_USE",
            Self::Cancelled => "EXEC_CANCELLED",
            Self::Disposed => "WORLD_DISPOSED",
            Self::Unsupported { .. } => "WORLD_UNSUPPORTED",
        }
    }
}

/// Why the end of a tree could not be proved. The call can be repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TerminateError {
    /// Processes did not end after SIGKILL: `EXEC_SURVIVORS`.
    #[error("processes are still alive after SIGKILL: {pids:?}")]
    Survivors {
        /// Their process ids.
        pids: Vec<u32>,
    },
    /// The world could not be asked: `EXEC_UNPROVED`.
    #[error("the end of the process tree could not be proved: {reason}")]
    Unproved {
        /// What failed.
        reason: String,
    },
}

impl TerminateError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Survivors { .. } => "EXEC_SURVIVORS",
            Self::Unproved { .. } => "EXEC_UNPROVED",
        }
    }
}

/// Why a call on a terminal failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TerminalError {
    /// The size is not one that a terminal can have: `INVALID_PARAMS`.
    #[error("a terminal has from 1 to 1,000 rows and columns, not {rows} and {columns}")]
    InvalidSize {
        /// The rows asked for.
        rows: u16,
        /// The columns asked for.
        columns: u16,
    },
    /// The program on the terminal has ended: `TERMINAL_EXITED`.
    #[error("the program on the terminal has ended")]
    Exited,
    /// The termination has begun: `TERMINAL_CLOSING`.
    #[error("the terminal is being closed")]
    Closing,
    /// SIGKILL would end the session's own program: `SIGNAL_FORBIDDEN`.
    #[error("SIGKILL to the program of the session is not allowed; close the terminal instead")]
    Forbidden,
    /// The terminal could not be asked or reached: `TERMINAL_FAILED`.
    #[error("the terminal failed: {reason}")]
    Failed {
        /// What failed.
        reason: String,
    },
}

impl TerminalError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidSize { .. } => "INVALID_PARAMS",
            Self::Exited => "TERMINAL_EXITED",
            Self::Closing => "TERMINAL_CLOSING",
            Self::Forbidden => "SIGNAL_FORBIDDEN",
            Self::Failed { .. } => "TERMINAL_FAILED",
        }
    }
}
