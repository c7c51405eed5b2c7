//! A process to start, with where its streams go. Owns the rule that nothing is defaulted here.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::LaunchSpec;

/// Where the standard input of a process comes from.
#[derive(Clone)]
pub enum StdinMode {
    /// It is empty.
    Ignore,
    /// The owner of the handle writes it.
    Pipe,
    /// These bytes, then the end. A process that does not read them is no error.
    Data(Bytes),
}

/// One of the two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Where an output stream of a process goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputMode {
    /// Nowhere.
    Ignore,
    /// The owner of the handle reads it. What is not read blocks the process.
    Pipe,
    /// To the provider's own diagnostics: its log, each line with the process named, or its own standard error.
    Inherit,
    /// Into memory: always read, so that the process never waits.
    Collect {
        /// How many of the last bytes are kept.
        tail_bytes: usize,
        /// Whether the whole is also written to a file once it is longer than the tail.
        spill: Option<Spill>,
    },
}

/// The limit of a spill file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spill {
    /// A stream longer than this many bytes has its file discarded whole.
    pub max_bytes: u64,
}

/// A process to start, complete: the seam adds no default.
#[derive(Clone, Debug)]
pub struct SpawnSpec {
    /// The program and what it begins with.
    pub launch: LaunchSpec,
    /// Standard input.
    pub stdin: StdinMode,
    /// Standard output.
    pub stdout: OutputMode,
    /// Standard error.
    pub stderr: OutputMode,
    /// How long the tree has between SIGTERM and SIGKILL, and a collected stream after the exit to come to its end.
    /// More than zero.
    pub grace: Duration,
    /// Ends the tree as `terminate` does; before the start it prevents it.
    pub cancel: CancellationToken,
}

impl fmt::Debug for StdinMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ignore => formatter.write_str("Ignore"),
            Self::Pipe => formatter.write_str("Pipe"),
            Self::Data(data) => write!(formatter, "Data({} bytes)", data.len()),
        }
    }
}
