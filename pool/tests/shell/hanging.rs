//! A start that comes to no end, as on a file system that does not answer.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use lspool_world::{
    Environment, ExecutableError, ExecutableIdentity, ProcessHandle, ScrubRules, SpawnError,
    SpawnSpec, Subprocess, SubprocessFacts, TerminalHandle, TerminalSpec, TerminateError, World,
    WorldId,
};
use tokio::sync::mpsc;

use crate::embedded::{INITIALIZE, Peer, SERVER, local, pool_in, server, within};

/// The processes of a world where no start comes back.
#[derive(Debug)]
struct Hanging {
    real: Arc<dyn Subprocess>,
    /// Told of each start.
    starts: mpsc::Sender<()>,
}

#[async_trait]
impl Subprocess for Hanging {
    fn world_id(&self) -> &WorldId {
        self.real.world_id()
    }

    fn facts(&self) -> SubprocessFacts {
        self.real.facts()
    }

    fn scrub_rules(&self) -> &ScrubRules {
        self.real.scrub_rules()
    }

    async fn resolve_executable(
        &self,
        command: &OsStr,
        environment: &Environment,
        cwd: &Path,
    ) -> Result<PathBuf, ExecutableError> {
        self.real
            .resolve_executable(command, environment, cwd)
            .await
    }

    async fn executable_identity(
        &self,
        executable: &Path,
    ) -> Result<ExecutableIdentity, ExecutableError> {
        self.real.executable_identity(executable).await
    }

    async fn spawn(&self, spec: SpawnSpec) -> Result<Box<dyn ProcessHandle>, SpawnError> {
        self.starts.send(()).await.unwrap();
        spec.cancel.cancelled().await;
        std::future::pending().await
    }

    async fn spawn_terminal(
        &self,
        spec: TerminalSpec,
    ) -> Result<Box<dyn TerminalHandle>, SpawnError> {
        self.real.spawn_terminal(spec).await
    }

    async fn shutdown(&self) -> Result<(), TerminateError> {
        self.real.shutdown().await
    }
}

#[tokio::test(start_paused = true)]
async fn given_a_start_that_hangs_when_the_pool_ends_then_that_is_told_and_not_waited_for() {
    let (starts, mut started) = mpsc::channel(1);
    let world = local();
    let hanging = Hanging {
        real: world.subprocess().clone(),
        starts,
    };
    let world = World::new(world.fs().clone(), Arc::new(hanging), None).unwrap();
    let pool = pool_in(world);
    let mut peer = Peer::attach(&pool, server(SERVER), 0o022, 64 * 1024);
    peer.send(INITIALIZE).await;
    within(started.recv()).await.unwrap();

    let error = within(pool.shutdown()).await.unwrap_err();

    assert!(error.to_string().contains("still being started"), "{error}");
    peer.ended().await;
}
