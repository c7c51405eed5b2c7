//! Starting a server's process, waiting for its end, and ending it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lspool_world::{
    LaunchSpec, OutputMode, ProcessHandle, ProcessOutcome, SandboxPolicy, SpawnSpec, StdinMode,
    TreeMarker, World,
};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::core::{Event, ExitReport, Generation, InstanceId, ServerLaunch};

use super::driver::Input;

/// How long after the exit the output of a process may still come.
const DRAIN: Duration = Duration::from_millis(500);
/// How long a start that was given up may take to come to an outcome.
const GIVEN_UP: Duration = Duration::from_secs(10);

/// The complete spec of a server's process.
pub(super) fn spec(
    launch: &ServerLaunch,
    marker: Option<TreeMarker>,
    grace: Duration,
    cancel: CancellationToken,
) -> SpawnSpec {
    SpawnSpec {
        launch: LaunchSpec {
            argv: launch.argv.clone(),
            cwd: launch.cwd.clone(),
            environment: launch.environment.clone(),
            overrides: BTreeMap::new(),
            scrub: launch.scrub,
            marker,
            // As umask(2) does, with the bits of a mask alone.
            umask: Some(launch.umask & 0o777),
            sandbox: SandboxPolicy::unconfined(),
        },
        stdin: StdinMode::Pipe,
        stdout: OutputMode::Pipe,
        stderr: OutputMode::Pipe,
        grace,
        cancel,
    }
}

/// Starts a process and hands its handle to the driver.
pub(super) async fn start(
    world: World,
    spec: SpawnSpec,
    instance: InstanceId,
    generation: Generation,
    inputs: mpsc::Sender<Input>,
) {
    let result = world.subprocess().spawn(spec).await;
    let result = result.map(Arc::from).map_err(|error| error.to_string());
    // The driver is gone only when the pool is; a handle that is dropped ends its tree.
    let _ = inputs
        .send(Input::Started {
            instance,
            generation,
            result,
        })
        .await;
}

/// Waits for a start that was given up to come to an outcome, which is its end; reports one that hangs, since what may
/// still come of it cannot be called gone.
pub(super) async fn given_up(
    over: CancellationToken,
    instance: InstanceId,
    generation: Generation,
    inputs: mpsc::Sender<Input>,
) {
    let seconds = GIVEN_UP.as_secs();
    if tokio::time::timeout(GIVEN_UP, over.cancelled())
        .await
        .is_err()
    {
        let text = format!("its program is still being started {seconds} s after it was given up");
        let _ = inputs
            .send(Input::Terminated {
                instance,
                generation,
                result: Err(text),
            })
            .await;
    }
}

/// The readers of a process's output, as its waiter knows them.
pub(super) struct OutputWatch {
    /// Cancelled when standard output was read to its end.
    pub(super) stdout_read: CancellationToken,
    /// Cancelling it ends the reading of standard error.
    pub(super) finished: CancellationToken,
    /// The end of standard error.
    pub(super) stderr_tail: oneshot::Receiver<String>,
}

/// Waits for the end of a process and of what it printed, then reports it.
pub(super) async fn wait(
    handle: Arc<dyn ProcessHandle>,
    instance: InstanceId,
    generation: Generation,
    output: OutputWatch,
    inputs: mpsc::Sender<Input>,
) {
    let facts = handle.done().await;
    // Answers that were printed before the exit count; a grandchild that holds the pipe does not.
    let _ = tokio::time::timeout(DRAIN, output.stdout_read.cancelled()).await;
    let outcome = match facts.outcome {
        Some(ProcessOutcome::Exited(code)) => format!("exit code {code}"),
        Some(ProcessOutcome::Signaled(signal)) => format!("signal {signal}"),
        None => "an end that could not be observed".to_owned(),
    };
    output.finished.cancel();
    let stderr = output.stderr_tail.await.unwrap_or_default();
    let report = ExitReport { outcome, stderr };
    let _ = inputs
        .send(Input::Event(Event::Exited {
            instance,
            generation,
            report,
        }))
        .await;
}

/// Ends a process tree and reports the proof.
pub(super) async fn terminate(
    handle: Arc<dyn ProcessHandle>,
    instance: InstanceId,
    generation: Generation,
    inputs: mpsc::Sender<Input>,
) {
    let result = handle
        .terminate()
        .await
        .map(|_| ())
        .map_err(|error| error.to_string());
    let _ = inputs
        .send(Input::Terminated {
            instance,
            generation,
            result,
        })
        .await;
}
