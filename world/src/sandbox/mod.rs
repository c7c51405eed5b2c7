//! The sandbox seam: what a process may touch. Owns the vocabulary of confinement; a mode that cannot be enforced is an
//! error before the spawn and never a wider mode in silence.

use std::ffi::OsString;
use std::fmt::Debug;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::WorldId;

/// How far a process is confined, from the narrowest to the widest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// Nothing of the world can be changed.
    ReadOnly,
    /// Only the policy's writable roots can be changed.
    WorkspaceWrite,
    /// Not confined.
    DangerFullAccess,
}

/// The confinement that one process asks for. It travels with each spec and is never a provider's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxPolicy {
    /// The mode.
    pub mode: SandboxMode,
    /// Whether the process may use the network. Not looked at under [`SandboxMode::DangerFullAccess`].
    pub network: bool,
    /// Absolute folders that [`SandboxMode::WorkspaceWrite`] leaves writable.
    pub writable_roots: Vec<PathBuf>,
}

impl SandboxPolicy {
    /// No confinement.
    pub fn unconfined() -> Self {
        Self {
            mode: SandboxMode::DangerFullAccess,
            network: true,
            writable_roots: Vec::new(),
        }
    }

    /// Whether the policy needs a sandbox.
    pub fn is_confined(&self) -> bool {
        self.mode != SandboxMode::DangerFullAccess
    }
}

/// What a sandbox enforces of one aspect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Enforcement {
    /// Wholly.
    Full,
    /// In part; the documentation of the sandbox says which part.
    Partial,
    /// Not at all.
    Not,
}

/// What a sandbox can do here and now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SandboxFacts {
    /// The name of the mechanism, for people.
    pub backend: String,
    /// Changes of files outside of the writable roots.
    pub writes: Enforcement,
    /// Changes of permissions, owners and times outside of the writable roots.
    pub metadata: Enforcement,
    /// The network.
    pub network: Enforcement,
    /// Signals to processes outside.
    pub signals: Enforcement,
    /// Tracing of processes outside.
    pub ptrace: Enforcement,
    /// Protected paths inside of the writable roots.
    pub protected_paths: Enforcement,
}

/// A command as the sandbox wants it started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfinedCommand {
    /// The argument list that runs the command confined; its first element is absolute.
    pub argv: Vec<OsString>,
    /// What is enforced for this command.
    pub facts: SandboxFacts,
}

/// Why a command could not be confined.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The mode cannot be enforced here: `SANDBOX_UNAVAILABLE`.
    #[error("the mode {mode:?} cannot be enforced: {reason}")]
    Unavailable {
        /// The refused mode.
        mode: SandboxMode,
        /// What is missing, and what the operator can do.
        reason: String,
    },
}

impl SandboxError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unavailable { .. } => "SANDBOX_UNAVAILABLE",
        }
    }
}

/// A sandbox of one world.
#[async_trait]
pub trait Sandbox: Send + Sync + Debug {
    /// The world whose processes this sandbox confines.
    fn world_id(&self) -> &WorldId;

    /// What can be enforced in `mode`.
    ///
    /// Gives `SANDBOX_UNAVAILABLE` when the mode cannot be enforced at all.
    async fn facts(&self, mode: SandboxMode) -> Result<SandboxFacts, SandboxError>;

    /// Turns a command into one that runs confined. `cwd` is absolute.
    ///
    /// Gives `SANDBOX_UNAVAILABLE` when the policy cannot be enforced.
    async fn confine(
        &self,
        argv: &[OsString],
        cwd: &Path,
        policy: &SandboxPolicy,
    ) -> Result<ConfinedCommand, SandboxError>;
}
