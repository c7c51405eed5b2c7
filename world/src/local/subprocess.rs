//! The process seam on this machine: what piped processes and terminals share. Owns the closing of the door: whatever
//! happens to a caller, a child that was started has a supervisor, and a supervisor is tracked until its tree is gone.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::processes::{SpillFolder, Start};
use super::terminals::Opening;
use super::trees::contained::Pause;
use super::trees::registry::Registry;
use super::{LocalOptions, executable, launch, terminals};
use crate::subprocess::{Containment, PidKnowledge};
use crate::{
    EndCause, Environment, ExecutableError, ExecutableIdentity, ProcessHandle, ScrubRules,
    SpawnError, SpawnSpec, Subprocess, SubprocessFacts, TerminalHandle, TerminalSpec,
    TerminateError, WorldId,
};

/// How long an end waits for a start that hangs, as on a file system that does not answer.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// The processes of this machine.
#[derive(Debug)]
pub struct LocalSubprocess {
    world_id: WorldId,
    options: Arc<LocalOptions>,
    registry: Arc<Registry>,
    spills: Arc<SpillFolder>,
    supervisors: TaskTracker,
}

impl LocalSubprocess {
    /// The processes of this machine. Dropping it ends nothing: each handle owns its tree.
    pub fn new(options: LocalOptions) -> Self {
        launch::keep_from_children();
        Self {
            world_id: WorldId::local(),
            options: Arc::new(options),
            registry: Arc::default(),
            spills: Arc::default(),
            supervisors: TaskTracker::new(),
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
            terminals: true,
            stdin_wait_proof: terminals::PROVES_WAITING,
            identity_fence: cfg!(target_os = "linux"),
            escaped_processes: cfg!(target_os = "linux"),
            containment: if self.options.control_groups.is_some() {
                Containment::ControlGroup
            } else if cfg!(target_os = "linux") {
                Containment::ProcessTable
            } else {
                Containment::Group
            },
            usage: cfg!(target_os = "linux"),
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
        look_up(move || executable::resolve(&command, search_path.as_deref(), &cwd)).await
    }

    async fn executable_identity(
        &self,
        executable: &Path,
    ) -> Result<ExecutableIdentity, ExecutableError> {
        let executable = executable.to_path_buf();
        look_up(move || executable::identify(&executable)).await
    }

    async fn spawn(&self, spec: SpawnSpec) -> Result<Box<dyn ProcessHandle>, SpawnError> {
        launch::check(&spec.launch, spec.grace, &spec.cancel)?;
        let place = self.registry.admit(spec.launch.marker.as_ref())?;
        let start = Start {
            spec,
            place,
            options: Arc::clone(&self.options),
            spills: Arc::clone(&self.spills),
            supervisors: self.supervisors.clone(),
        };
        start.run().await
    }

    async fn spawn_terminal(
        &self,
        spec: TerminalSpec,
    ) -> Result<Box<dyn TerminalHandle>, SpawnError> {
        launch::check(&spec.launch, spec.grace, &spec.cancel)?;
        terminals::check(spec.size)?;
        let place = self.registry.admit(spec.launch.marker.as_ref())?;
        let opening = Opening {
            spec,
            place,
            options: Arc::clone(&self.options),
            supervisors: self.supervisors.clone(),
        };
        opening.run().await
    }

    async fn shutdown(&self) -> Result<(), TerminateError> {
        self.registry.close();
        let mut survivors = Vec::new();
        let mut pause = Pause::default();
        let begun = Instant::now();
        while survivors.is_empty() && !self.registry.is_empty() {
            let mut endings = tokio::task::JoinSet::new();
            for control in self.registry.controls() {
                endings.spawn(async move { control.end(EndCause::Shutdown).await });
            }
            for ended in endings.join_all().await {
                match ended {
                    Ok(_) => {}
                    Err(TerminateError::Survivors { pids }) => survivors.extend(pids),
                    Err(error @ TerminateError::Unproved { .. }) => return Err(error),
                }
            }
            if begun.elapsed() > START_PATIENCE && self.registry.only_starts() {
                let reason = "a program is still being started".to_owned();
                return Err(TerminateError::Unproved { reason });
            }
            pause.wait().await;
        }
        if !survivors.is_empty() {
            return Err(TerminateError::Survivors { pids: survivors });
        }
        self.supervisors.close();
        self.supervisors.wait().await;
        self.spills.settled().await;
        Ok(())
    }
}

/// Runs a look-up on the blocking pool; one that the end of the runtime cut off has found nothing.
async fn look_up<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ExecutableError> + Send + 'static,
) -> Result<T, ExecutableError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(ExecutableError::Invalid {
            command: String::new(),
            reason: "the look-up was given up",
        }),
    }
}
