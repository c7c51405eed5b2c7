//! The process seam on this machine. Owns the start of a process: whatever happens to the caller meanwhile, a child that
//! was started has a supervisor, and a supervisor is tracked until its tree is gone.

mod collected;
mod contained;
mod control;
mod exit_watch;
mod handle;
mod inherited;
mod observation;
mod registry;
mod signals;
mod spill;
mod start;
mod supervisor;
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "only Linux has a process table to read")
)]
mod table;
mod tree;

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::collected::Collected;
use self::contained::{Contained, Pause};
use self::exit_watch::ExitWatch;
use self::handle::LocalProcess;
use self::registry::{Place, Registry};
use self::spill::{SpillFolder, SpillWriter};
use self::supervisor::{Pumps, Supervisor};
use super::{LocalOptions, executable};
use crate::subprocess::{OutputPipe, PidKnowledge};
use crate::{
    EndCause, Environment, ExecutableError, ExecutableIdentity, OutputMode, OutputStream,
    ProcessHandle, ScrubRules, SpawnError, SpawnSpec, StdinMode, Subprocess, SubprocessFacts,
    TerminalHandle, TerminalSpec, TerminateError, WorldId,
};

/// How long an end waits for a start that hangs, as on a file system that does not answer.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// The processes of this machine.
#[derive(Debug)]
pub struct LocalSubprocess {
    world_id: WorldId,
    options: LocalOptions,
    registry: Arc<Registry>,
    spills: Arc<SpillFolder>,
    supervisors: TaskTracker,
}

impl LocalSubprocess {
    /// The processes of this machine. Dropping it ends nothing: each handle owns its tree.
    pub fn new(options: LocalOptions) -> Self {
        Self {
            world_id: WorldId::local(),
            options,
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
        start::check(&spec)?;
        let place = self.registry.admit(spec.marker.as_ref())?;
        let launch = Launch {
            spec,
            place,
            options: self.options.clone(),
            spills: Arc::clone(&self.spills),
        };
        let (answer, answered) = oneshot::channel();
        // A task of its own: a caller that gives up the wait must not leave a child without a supervisor.
        self.supervisors.spawn(launch.run(answer));
        answered.await.unwrap_or(Err(SpawnError::Disposed))
    }

    async fn spawn_terminal(&self, _: TerminalSpec) -> Result<Box<dyn TerminalHandle>, SpawnError> {
        Err(SpawnError::Unsupported {
            operation: "spawn_terminal",
        })
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

/// A process that is being started.
struct Launch {
    spec: SpawnSpec,
    place: Place,
    options: LocalOptions,
    spills: Arc<SpillFolder>,
}

/// The ends of a child's streams after the modes were applied.
#[derive(Default)]
struct Streams {
    stdin: Option<pipe::Sender>,
    stdout: Option<OutputPipe>,
    stderr: Option<OutputPipe>,
    collected_stdout: Option<Arc<Collected>>,
    collected_stderr: Option<Arc<Collected>>,
    pumps: Pumps,
}

impl Launch {
    /// Starts the process, hands its handle out and supervises it until its tree is gone.
    async fn run(self, answer: oneshot::Sender<Result<Box<dyn ProcessHandle>, SpawnError>>) {
        let Self {
            spec,
            place,
            options,
            spills,
        } = self;
        let start = {
            let (spec, options) = (spec.clone(), options);
            move || start::start(&spec, &options.scrub_rules, options.inherited_output)
        };
        let started = match tokio::task::spawn_blocking(start).await {
            Ok(started) => started,
            Err(error) => Err(refused(&spec, io::Error::other(error))),
        };
        let supervised = started.and_then(|contained| {
            supervise(contained, place, &spec, &spills).map_err(|error| refused(&spec, error))
        });
        match supervised {
            Ok((process, supervisor)) => {
                // A caller that is gone drops the handle, which ends the tree.
                drop(answer.send(Ok(Box::new(process))));
                supervisor.run().await;
            }
            Err(error) => drop(answer.send(Err(error))),
        }
    }
}

fn refused(spec: &SpawnSpec, source: io::Error) -> SpawnError {
    SpawnError::Refused {
        executable: PathBuf::from(&spec.argv[0]),
        cwd: spec.cwd.clone(),
        source,
    }
}

/// Connects a started child with a handle and a supervisor. An error drops the child's owner, which ends it.
fn supervise(
    mut contained: Contained,
    place: Place,
    spec: &SpawnSpec,
    spills: &Arc<SpillFolder>,
) -> io::Result<(LocalProcess, Supervisor)> {
    let pid = contained.pid();
    let exit_watch = ExitWatch::new(pid)?;
    let streams = connect_streams(&mut contained, spec, spills)?;
    let (control, orders) = control::connect();
    let control = Arc::new(control);
    place.started(Arc::clone(&control));
    let released = CancellationToken::new();
    let process = LocalProcess {
        pid,
        stdin: Mutex::new(streams.stdin.map(|stdin| Box::new(stdin) as _)),
        stdout: Mutex::new(streams.stdout),
        stderr: Mutex::new(streams.stderr),
        collected_stdout: streams.collected_stdout,
        collected_stderr: streams.collected_stderr,
        control,
        _release: released.clone().drop_guard(),
    };
    let (grace, cancel, pumps) = (spec.grace, spec.cancel.clone(), streams.pumps);
    Ok((
        process,
        Supervisor {
            contained,
            place,
            exit_watch,
            pumps,
            orders,
            grace,
            cancel,
            released,
        },
    ))
}

fn connect_streams(
    contained: &mut Contained,
    spec: &SpawnSpec,
    spills: &Arc<SpillFolder>,
) -> io::Result<Streams> {
    let pid = contained.pid();
    let child = contained.child_mut();
    let mut streams = Streams::default();
    if let Some(stdin) = child.stdin.take() {
        let stdin = pipe::Sender::from_owned_fd(OwnedFd::from(stdin))?;
        match &spec.stdin {
            StdinMode::Data(data) => {
                streams.pumps.inputs.spawn(feed(stdin, data.clone()));
            }
            StdinMode::Ignore | StdinMode::Pipe => streams.stdin = Some(stdin),
        }
    }
    let stdout = child.stdout.take().map(OwnedFd::from);
    let stderr = child.stderr.take().map(OwnedFd::from);
    for (which, descriptor) in [
        (OutputStream::Stdout, stdout),
        (OutputStream::Stderr, stderr),
    ] {
        if let Some(descriptor) = descriptor {
            let pipe = pipe::Receiver::from_owned_fd(descriptor)?;
            streams.connect_output(which, pipe, spec, pid, spills);
        }
    }
    Ok(streams)
}

impl Streams {
    fn connect_output(
        &mut self,
        which: OutputStream,
        pipe: pipe::Receiver,
        spec: &SpawnSpec,
        pid: u32,
        spills: &Arc<SpillFolder>,
    ) {
        let (mode, given, collected) = match which {
            OutputStream::Stdout => (&spec.stdout, &mut self.stdout, &mut self.collected_stdout),
            OutputStream::Stderr => (&spec.stderr, &mut self.stderr, &mut self.collected_stderr),
        };
        let stop = self.pumps.stop.clone();
        match mode {
            OutputMode::Ignore => {}
            OutputMode::Pipe => *given = Some(Box::new(pipe)),
            OutputMode::Inherit => {
                let program = spec.argv[0].to_string_lossy().into_owned();
                self.pumps
                    .outputs
                    .spawn(inherited::log_lines(pipe, program, pid, which, stop));
            }
            OutputMode::Collect { tail_bytes, spill } => {
                let spill =
                    spill.map(|spill| SpillWriter::new(spill.max_bytes, Arc::clone(spills)));
                let stream = Arc::new(Collected::new(*tail_bytes));
                self.pumps
                    .outputs
                    .spawn(Arc::clone(&stream).fill(pipe, spill, stop));
                *collected = Some(stream);
            }
        }
    }
}

/// Writes the given input and closes it. A process that does not read it is no error.
async fn feed(mut stdin: pipe::Sender, data: bytes::Bytes) {
    if let Err(error) = stdin.write_all(&data).await {
        tracing::debug!(%error, "a process did not read all of its input");
    }
}
