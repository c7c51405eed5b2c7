//! The process seam on this machine.
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::{LocalOptions, executable};
use crate::subprocess::PidKnowledge;
use crate::{
    Environment, ExecutableError, ExecutableIdentity, ProcessHandle, ScrubRules, SpawnError,
    SpawnSpec, Subprocess, SubprocessFacts, TerminalHandle, TerminalSpec, TerminateError, WorldId,
};

/// The processes of this machine.
#[derive(Debug)]
pub struct LocalSubprocess {
    world_id: WorldId,
    options: LocalOptions,
}

impl LocalSubprocess {
    /// The processes of this machine.
    pub fn new(options: LocalOptions) -> Self {
        Self {
            world_id: WorldId::local(),
            options,
        }
    }
}

#[async_trait]
impl Subprocess for LocalSubprocess {
    fn world_id(&self) -> &WorldId {
        &self.world_id
    }

    fn facts(&self) -> SubprocessFacts {
        SubprocessFacts {
            pid: PidKnowledge::AtSpawn,
            terminals: false,
            stdin_wait_proof: false,
            identity_fence: cfg!(target_os = "linux"),
            escaped_processes: cfg!(target_os = "linux"),
            confinement: false,
            spill: true,
        }
    }

    fn scrub_rules(&self) -> &ScrubRules {
        &self.options.scrub_rules
    }

    async fn resolve_executable(
        &self,
        command: &OsStr,
        environment: &Environment,
        cwd: &Path,
    ) -> Result<PathBuf, ExecutableError> {
        let (command, cwd) = (command.to_os_string(), cwd.to_path_buf());
        let search_path = executable::search_path(environment).map(OsStr::to_os_string);
        unless_cancelled(tokio::task::spawn_blocking(move || {
            executable::resolve(&command, search_path.as_deref(), &cwd)
        }))
        .await
    }

    async fn executable_identity(
        &self,
        executable: &Path,
    ) -> Result<ExecutableIdentity, ExecutableError> {
        let executable = executable.to_path_buf();
        unless_cancelled(tokio::task::spawn_blocking(move || {
            executable::identify(&executable)
        }))
        .await
    }

    async fn spawn(&self, _spec: SpawnSpec) -> Result<Box<dyn ProcessHandle>, SpawnError> {
        Err(SpawnError::Unsupported { operation: "spawn" })
    }

    async fn spawn_terminal(&self, _: TerminalSpec) -> Result<Box<dyn TerminalHandle>, SpawnError> {
        Err(SpawnError::Unsupported {
            operation: "spawn_terminal",
        })
    }

    async fn shutdown(&self) -> Result<(), TerminateError> {
        Ok(())
    }
}

/// The result of a look-up on the blocking pool; a runtime that ends meanwhile answers that nothing was found.
async fn unless_cancelled<T>(
    task: tokio::task::JoinHandle<Result<T, ExecutableError>>,
) -> Result<T, ExecutableError> {
    match task.await {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(ExecutableError::Invalid {
            command: String::new(),
            reason: "the look-up was given up",
        }),
    }
}
