//! The complete description of a process to start. Owns the rule that nothing is defaulted here and that no value of an
//! environment is printed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use crate::{Environment, SandboxPolicy, ScrubRules, TreeMarker};

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
#[derive(Clone)]
pub struct SpawnSpec {
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
    /// The file mode creation mask, at most `0o777`; `None` leaves the provider's own.
    pub umask: Option<u32>,
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
    /// The confinement.
    pub sandbox: SandboxPolicy,
}

impl SpawnSpec {
    /// The environment that the process gets under the given rules: base, scrub, overrides, marker, in this order.
    pub fn child_environment(&self, rules: &ScrubRules) -> Environment {
        let base = if self.scrub {
            self.environment.scrubbed(rules)
        } else {
            self.environment.clone()
        };
        let mut environment = base.overridden(&self.overrides);
        if let Some(marker) = &self.marker {
            environment.set(&marker.name, &marker.value);
        }
        environment
    }
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

impl fmt::Debug for SpawnSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let overrides = Overrides(&self.overrides);
        formatter
            .debug_struct("SpawnSpec")
            .field("argv", &self.argv)
            .field("cwd", &self.cwd)
            .field("environment", &self.environment)
            .field("overrides", &overrides)
            .field("scrub", &self.scrub)
            .field("marker", &self.marker)
            .field("umask", &self.umask)
            .field("stdin", &self.stdin)
            .field("stdout", &self.stdout)
            .field("stderr", &self.stderr)
            .field("grace", &self.grace)
            .field("sandbox", &self.sandbox)
            .finish_non_exhaustive()
    }
}

/// Prints explicit entries without their values.
pub(crate) struct Overrides<'a>(pub(crate) &'a BTreeMap<OsString, Option<OsString>>);

impl fmt::Debug for Overrides<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut entries = formatter.debug_map();
        for (name, value) in self.0 {
            entries.entry(name, &if value.is_some() { "set" } else { "removed" });
        }
        entries.finish()
    }
}
