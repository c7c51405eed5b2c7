//! The process seam. Owns the trait, complete specs, outcomes and handles.
//!
//! A spec that reaches the seam has no default left in it. A handle owns a whole process tree: ending it ends all of the
//! tree, and a stop that returns means that nothing of it is left.

mod error;
mod handle;
mod launch;
mod outcome;
mod spec;
mod tail;
mod terminal;
mod usage;

use std::ffi::OsStr;
use std::fmt::{self, Debug};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Serialize, Serializer};

use crate::{Environment, ScrubRules, WorldId};

pub use error::{ExecutableError, SpawnError, TerminalError, TerminateError};
pub use handle::{InputPipe, OutputPipe, ProcessHandle};
pub use launch::LaunchSpec;
pub use outcome::{EndCause, ExitFacts, ProcessOutcome, Transport};
pub use spec::{OutputMode, OutputStream, SpawnSpec, Spill, StdinMode};
pub use tail::{OutputPage, Tail, TailBuffer};
pub use terminal::{Foreground, TerminalHandle, TerminalSignal, TerminalSize, TerminalSpec};
pub use usage::TreeUsage;

/// What a process provider can do and can observe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own; no two of them form a state"
)]
pub struct SubprocessFacts {
    /// When a handle knows its process id.
    pub pid: PidKnowledge,
    /// Whether terminals can be opened.
    pub terminals: bool,
    /// Whether it can be proved that a terminal's program waits for input.
    pub stdin_wait_proof: bool,
    /// Whether signals are fenced by identity, so that a reused process id is never signalled.
    pub identity_fence: bool,
    /// Whether a process that left its group and its parents is still found, by the tree marker.
    pub escaped_processes: bool,
    /// What holds a tree together.
    pub containment: Containment,
    /// Whether memory and processor time of a tree can be read.
    pub usage: bool,
    /// Whether confined modes can be enforced.
    pub confinement: bool,
    /// Whether collected output can be spilled to a file.
    pub spill: bool,
}

/// What holds a process tree together, from the strongest to the weakest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Containment {
    /// A control group: no process leaves it.
    ControlGroup,
    /// The process table: group, session, ancestry and marker. A process that leaves all of them before it was ever seen
    /// is not found.
    ProcessTable,
    /// The process group alone.
    Group,
}

/// When a handle knows its process id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PidKnowledge {
    /// From the spawn on.
    AtSpawn,
    /// At some time after the spawn.
    Later,
    /// Never.
    Never,
}

/// The identity of an executable, for a launch digest: equal for every path that leads to the same unchanged file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutableIdentity(Arc<str>);

impl ExecutableIdentity {
    /// An identity with the given text, made by a provider.
    pub fn from_text(text: &str) -> Self {
        Self(Arc::from(text))
    }

    /// The text, to be compared and digested, never to be read.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ExecutableIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Serialize for ExecutableIdentity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// The processes of one world.
#[async_trait]
pub trait Subprocess: Send + Sync + Debug {
    /// The world whose processes these are.
    fn world_id(&self) -> &WorldId;

    /// What this provider can do.
    fn facts(&self) -> SubprocessFacts;

    /// The rules of [`LaunchSpec::scrub`] in this world.
    fn scrub_rules(&self) -> &ScrubRules;

    /// Finds the executable for a command. Dropping the future cancels the search.
    ///
    /// An absolute command is given back as it is; a bare name is searched in the PATH of `environment`, which is the
    /// child's own (after scrub and overrides; see [`LaunchSpec::child_environment`]). Relative and empty PATH entries
    /// are below `cwd`, which is absolute. Folders and files that cannot be executed are skipped.
    ///
    /// Gives [`ExecutableError::Missing`], [`ExecutableError::NotExecutable`] when nothing but such candidates was
    /// found, and [`ExecutableError::Invalid`] for an empty command or a relative one with a separator.
    async fn resolve_executable(
        &self,
        command: &OsStr,
        environment: &Environment,
        cwd: &Path,
    ) -> Result<PathBuf, ExecutableError>;

    /// The identity of an executable: its real path, device, inode and modification time.
    ///
    /// Gives [`ExecutableError::Missing`] or [`ExecutableError::NotExecutable`].
    async fn executable_identity(
        &self,
        executable: &Path,
    ) -> Result<ExecutableIdentity, ExecutableError>;

    /// Starts a process in a process group of its own. An error means that nothing runs.
    ///
    /// Gives the codes of [`SpawnError`].
    async fn spawn(&self, spec: SpawnSpec) -> Result<Box<dyn ProcessHandle>, SpawnError>;

    /// Starts a program on a terminal of its own.
    ///
    /// Gives the codes of [`SpawnError`]; `WORLD_UNSUPPORTED` where the facts say that there are no terminals.
    async fn spawn_terminal(
        &self,
        spec: TerminalSpec,
    ) -> Result<Box<dyn TerminalHandle>, SpawnError>;

    /// Ends every live tree, refuses new ones, and joins all that this provider runs. Can be repeated after a failure.
    ///
    /// Gives `EXEC_SURVIVORS` naming the processes that would not end.
    async fn shutdown(&self) -> Result<(), TerminateError>;
}
