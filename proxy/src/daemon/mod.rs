//! The daemon: one process a user that holds the pool, and the same host inside a `--no-daemon` process.
//!
//! A daemon is the only one of its runtime folder because it holds the folder's lock for as long as its socket exists.
//! It leaves when it is idle, when it is told to, and on a signal; each way is the same end ladder.

mod connection;
mod door;
pub(crate) mod host;
mod signals;
pub(crate) mod streams;

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use nix::sys::stat::{Mode, umask};
use nix::unistd::{chdir, setsid};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::task::TaskTracker;

use crate::config::Settings;
use crate::defaults::{BLOCKED_TIMEOUT, LOCK_SLICE, LOCK_TIMEOUT, SWEEP_TIMEOUT};
use crate::guardian::sweep;
use crate::local::folder::{FolderError, FolderLock, RuntimeFolder};
use crate::local::{Places, log};
use crate::{standard_streams, system};
use door::Door;
use host::Host;
use signals::EndSignals;

/// What a starting daemon says on its readiness pipe when it serves.
pub(crate) const READY: &str = "ready";
/// What it says when another daemon already serves.
pub(crate) const ANOTHER: &str = "another";

/// Where a daemon says how its start went.
enum Starter {
    /// A face waits at the other end of this pipe, until it was told once.
    Face(Option<File>),
    /// A person sees stderr.
    Terminal,
}

/// Runs the daemon that a face started.
pub(crate) fn run_for_face(guardian: u32) -> ExitCode {
    let prepared = (|| {
        let pipe = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        standard_streams::silence()?;
        system::reset_dispositions();
        // The guardian leads the session of the detached start; the daemon has one of its own.
        setsid()?;
        chdir("/")?;
        umask(Mode::from_bits_truncate(0o077));
        Ok::<_, io::Error>(pipe)
    })();
    match prepared {
        Ok(pipe) => run(guardian, Starter::Face(Some(pipe))),
        Err(_) => ExitCode::from(70),
    }
}

/// Runs the daemon of `lspool daemon --foreground`.
pub(crate) fn run_in_foreground(guardian: u32) -> ExitCode {
    umask(Mode::from_bits_truncate(0o077));
    run(guardian, Starter::Terminal)
}

fn run(guardian: u32, mut starter: Starter) -> ExitCode {
    let places = Places::from_environment();
    log::start(places.log_folder().as_deref());
    log_panics();
    match start_and_serve(guardian, &places, &mut starter) {
        Ok(code) => code,
        Err(message) => {
            tracing::error!(message, "the daemon cannot start");
            starter.say(&format!("error {message}"));
            ExitCode::from(70)
        }
    }
}

fn start_and_serve(
    guardian: u32,
    places: &Places,
    starter: &mut Starter,
) -> Result<ExitCode, String> {
    let folder = RuntimeFolder::open(places).map_err(|error| error.to_string())?;
    let Some(lock) = become_the_only_one(&folder).map_err(|error| error.to_string())? else {
        starter.say(ANOTHER);
        return Ok(ExitCode::SUCCESS);
    };
    let swept = sweep::end_abandoned(SWEEP_TIMEOUT);
    if swept.processes > 0 || swept.groups > 0 || !swept.is_complete {
        tracing::warn!(?swept, "ended what a dead daemon had left");
    }
    let runtime = build_runtime().map_err(|error| error.to_string())?;
    let settings = Settings::load(places);
    let outcome = runtime.block_on(async {
        let signals = EndSignals::listen().map_err(|error| error.to_string())?;
        let door = Door::open(&folder, lock).map_err(|error| error.to_string())?;
        let host = Arc::new(Host::start(settings, guardian));
        tracing::info!(socket = %folder.socket_path().display(), version = env!("CARGO_PKG_VERSION"), "ready");
        starter.say(READY);
        serve(host, door, signals).await
    });
    // Blocking work that hangs in a dead file system must not hold the process.
    runtime.shutdown_timeout(BLOCKED_TIMEOUT);
    outcome.map(|()| ExitCode::SUCCESS)
}

/// Takes the daemon's lock; `None` when another daemon serves.
fn become_the_only_one(folder: &RuntimeFolder) -> Result<Option<FolderLock>, FolderError> {
    if let Some(lock) = folder.try_daemon_lock()? {
        return Ok(Some(lock));
    }
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        if folder.connect()?.is_some() {
            return Ok(None);
        }
        // The holder is about to bind, or is leaving.
        match folder.daemon_lock(LOCK_SLICE) {
            Err(FolderError::Busy(_)) if Instant::now() < deadline => {}
            outcome => return outcome.map(Some),
        }
    }
}

async fn serve(host: Arc<Host>, door: Door<'_>, signals: EndSignals) -> Result<(), String> {
    let connections = TaskTracker::new();
    let watching = connections.spawn(watch_signals(Arc::clone(&host), signals));
    let mut door = Some(door);
    tokio::select! {
        () = accept(&host, &mut door, &connections) => {}
        () = host.leave_when_idle() => tracing::info!("leaving: idle"),
        () = host.left() => tracing::info!("leaving"),
    }
    // From here on the next daemon may start: it finds neither the socket nor the lock.
    if let Some(door) = door {
        door.close();
    }
    let outcome = host.end().await;
    // Every session has ended with the pool; what is left says its last line.
    watching.abort();
    connections.close();
    connections.wait().await;
    outcome
}

/// Serves whoever comes in for as long as the door can be kept open; after that the sessions that there are go on, and
/// this never resolves.
async fn accept(host: &Arc<Host>, door: &mut Option<Door<'_>>, connections: &TaskTracker) {
    while let Some(open) = door {
        match open.next().await {
            Ok(control) => {
                drop(connections.spawn(connection::serve(control, Arc::clone(host))));
            }
            Err(error) => {
                tracing::error!(%error, "serving only who is attached: the next daemon may start");
                *door = None;
            }
        }
    }
    std::future::pending::<()>().await;
}

/// The first signal starts the end ladder, the next ends the process at once.
async fn watch_signals(host: Arc<Host>, mut signals: EndSignals) {
    let number = signals.next().await;
    tracing::info!(number, "leaving: signal");
    host.leave();
    let number = signals.next().await;
    tracing::warn!(number, "ending at once: second signal");
    std::process::exit(128 + number);
}

/// Serves one control socket in a thread of this process, for `--no-daemon`. The thread ends when the session and the
/// pool behind it have ended; a signal ends them, and then the process with 128 + its number.
pub(crate) fn serve_in_process(
    control: StdUnixStream,
    guardian: u32,
) -> io::Result<JoinHandle<()>> {
    let places = Places::from_environment();
    log::start(places.log_folder().as_deref());
    let settings = Settings::load(&places);
    let runtime = build_runtime()?;
    std::thread::Builder::new()
        .name("pool".to_owned())
        .spawn(move || {
            runtime.block_on(serve_one(control, settings, guardian));
            runtime.shutdown_timeout(BLOCKED_TIMEOUT);
        })
}

async fn serve_one(control: StdUnixStream, settings: Settings, guardian: u32) {
    let (Ok(mut signals), Ok(control)) = (EndSignals::listen(), from_std(control)) else {
        // Dropping the socket tells the face that nobody serves it.
        return;
    };
    let host = Arc::new(Host::start(settings, guardian));
    let sessions = TaskTracker::new();
    sessions.spawn(connection::serve(control, Arc::clone(&host)));
    sessions.close();
    tokio::select! {
        () = sessions.wait() => {
            // The ladder logs its own failure, and the session's code stands.
            let _ = host.end().await;
        }
        // The session asked for it.
        () = host.left() => {
            let _ = host.end().await;
            sessions.wait().await;
        }
        number = signals.next() => {
            host.leave();
            tokio::select! {
                _ = host.end() => {}
                _ = signals.next() => {}
            }
            std::process::exit(128 + number);
        }
    }
}

fn build_runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
}

fn listen(listener: std::os::unix::net::UnixListener) -> io::Result<UnixListener> {
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

fn from_std(stream: StdUnixStream) -> io::Result<UnixStream> {
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// A daemon has no stderr, so a panic goes to the log.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| tracing::error!(%panic, "a task panicked")));
}

impl Starter {
    fn say(&mut self, line: &str) {
        match self {
            Self::Face(pipe) => {
                if let Some(mut pipe) = pipe.take() {
                    // The face may be gone; the daemon serves the next one all the same.
                    let _ = writeln!(pipe, "{line}");
                }
            }
            Self::Terminal => standard_streams::complain(&format!("lspool daemon: {line}")),
        }
    }
}
