//! Piped processes: the start of one, and where the bytes of its streams go. Owns the modes of the streams; its tree is
//! looked after by [`super::trees`].

mod collected;
mod handle;
mod inherited;
mod pump;
mod spill;
mod start;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::collected::Collected;
use self::handle::LocalProcess;
use self::pump::Pump;
use self::spill::SpillWriter;
use super::trees::contained::Contained;
use super::trees::control;
use super::trees::exit_watch::ExitWatch;
use super::trees::ladder::Order;
use super::trees::registry::Place;
use super::trees::supervisor::{Pumps, Supervisor};
use super::{LocalOptions, launch};
use crate::subprocess::OutputPipe;
use crate::{OutputMode, OutputStream, ProcessHandle, SpawnError, SpawnSpec, StdinMode};

pub(super) use self::spill::SpillFolder;

/// A process that is being started. Whatever becomes of the caller, it holds its place until nothing of it is left.
pub(super) struct Start {
    pub(super) spec: SpawnSpec,
    pub(super) place: Place,
    pub(super) options: Arc<LocalOptions>,
    pub(super) spills: Arc<SpillFolder>,
    pub(super) supervisors: TaskTracker,
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

impl Start {
    /// Starts the process on the blocking pool and hands its handle out; its supervisor runs from then on. A caller that
    /// gives up the wait drops the handle as soon as it is made, which ends the tree.
    pub(super) async fn run(self) -> Result<Box<dyn ProcessHandle>, SpawnError> {
        // Taken before the wait, so that a shutdown that begins meanwhile waits for this start too.
        let tracked = self.supervisors.token();
        let start = move || {
            let process = self.start();
            drop(tracked);
            process
        };
        match tokio::task::spawn_blocking(start).await {
            Ok(process) => process,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(SpawnError::Disposed),
        }
    }

    /// Blocks until the new program runs.
    fn start(self) -> Result<Box<dyn ProcessHandle>, SpawnError> {
        let Self {
            spec,
            place,
            options,
            spills,
            supervisors,
        } = self;
        let contained = start::start(&spec, &options)?;
        let (process, supervisor) = supervise(contained, place, &spec, &spills)
            .map_err(|error| launch::refused(&spec.launch, error))?;
        supervisors.spawn(supervisor.run());
        Ok(Box::new(process))
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
        view: contained.view(),
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
            order: Order::Together,
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
                let program = spec.launch.argv[0].to_string_lossy().into_owned();
                let log = inherited::log_lines(Pump::new(pipe, stop), program, pid, which);
                self.pumps.outputs.spawn(log);
            }
            OutputMode::Collect { tail_bytes, spill } => {
                let spill = spill.map(|spill| {
                    let label = format!("{}-{pid}", name(which));
                    SpillWriter::new(spill.max_bytes, label, Arc::clone(spills))
                });
                let stream = Arc::new(Collected::new(*tail_bytes));
                let pump = Pump::new(pipe, stop.clone());
                let fill = Arc::clone(&stream).fill(pump, spill, stop);
                self.pumps.outputs.spawn(fill);
                *collected = Some(stream);
            }
        }
    }
}

/// The name of a stream in that of a file.
fn name(which: OutputStream) -> &'static str {
    match which {
        OutputStream::Stdout => "stdout",
        OutputStream::Stderr => "stderr",
    }
}

/// Writes the given input and closes it. A process that does not read it is no error.
async fn feed(mut stdin: pipe::Sender, data: bytes::Bytes) {
    if let Err(error) = stdin.write_all(&data).await {
        tracing::debug!(%error, "a process did not read all of its input");
    }
}
