//! Attaching: a hello to the daemon, which is started when there is none, or to a host inside this process.
//!
//! Invariant: not a byte of the session is read before the acknowledgement, so an attachment that a leaving daemon
//! turned away is simply made again.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use thiserror::Error;

use crate::daemon;
use crate::defaults::{
    ACKNOWLEDGEMENT_TIMEOUT, END_TIMEOUT, SOCKET_PROTOCOL, SOCKET_TIMEOUT, START_ATTEMPTS,
    START_TIMEOUT,
};
use crate::hello::{Hello, HelloError, HelloFace, OsText, RefusalCode, Reply, descriptors};
use crate::local::folder::{FolderError, RuntimeFolder};
use crate::local::{Places, binary};

/// How long a face rests before it looks again for the socket of a daemon that has none at the moment.
const SOCKET_STEP: Duration = Duration::from_millis(20);

/// Where a face gets its session.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    /// From the user's daemon, started on demand.
    Shared,
    /// From the user's daemon if there is one.
    SharedIfRunning,
    /// From this very process, below the guardian of this id.
    InProcess {
        /// The guardian's process id.
        guardian: u32,
    },
}

/// Why there is no session.
#[derive(Debug, Error)]
pub(crate) enum AttachError {
    /// The runtime folder cannot be used; the variants of [`FolderError`] say why.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// `DAEMON_START_FAILED`: the daemon did not come up.
    #[error("the lspool daemon did not start: {0}")]
    Start(String),
    /// The daemon refused, with its own code.
    #[error("{message}")]
    Refused {
        /// The daemon's code.
        code: RefusalCode,
        /// The daemon's words.
        message: String,
    },
    /// `HELLO_INVALID`: the hello cannot be sent, its environment is too large.
    #[error(transparent)]
    Hello(#[from] HelloError),
    /// `DAEMON_LOST`: it went away while it was asked.
    #[error("the lspool daemon went away while it was asked; try again, its log says more")]
    Lost,
    /// `DAEMON_UNREACHABLE`: it holds its lock and has no socket.
    #[error(
        "an lspool daemon holds {0} and has no socket: it is starting, or its socket was taken away; try again, or end \
         the process that `fuser {0}` names"
    )]
    Unreachable(PathBuf),
    /// `DAEMON_HUNG`: it is there and does not answer.
    #[error(
        "the lspool daemon (process {pid}) did not answer within {} ms; `kill -CONT {pid}` lets it go on if somebody \
         stopped it, `kill -KILL {pid}` ends it and all that it runs",
        after.as_millis()
    )]
    Hung {
        /// The daemon's process id.
        pid: i32,
        /// How long it was waited for.
        after: Duration,
    },
    /// No daemon is running and none was to be started.
    #[error("no lspool daemon is running")]
    NotRunning,
}

impl AttachError {
    /// Whether only the shared daemon is missing, so that a session without it can be had.
    pub(crate) fn is_want_of_daemon(&self) -> bool {
        matches!(
            self,
            Self::Folder(_)
                | Self::Start(_)
                | Self::Lost
                | Self::Unreachable(_)
                | Self::Hung { .. }
        )
    }
}

/// A session that was acknowledged.
pub(crate) struct Attachment {
    /// Lines from the daemon; its end without an exit code is the loss of the daemon.
    pub(crate) control: BufReader<UnixStream>,
    /// What is written here is the session's input.
    pub(crate) input: UnixStream,
    /// What is read here is the session's output.
    pub(crate) output: UnixStream,
    /// The daemon's process id.
    pub(crate) daemon_pid: u32,
    /// The daemon's version.
    pub(crate) daemon_version: String,
    in_process: Option<JoinHandle<()>>,
}

impl Attachment {
    /// Opens a session for this face, with this process's working directory, environment and mask.
    ///
    /// A daemon that does not acknowledge it in time is [`AttachError::Hung`].
    pub(crate) fn open(face: HelloFace, how: How, patience: Duration) -> Result<Self, AttachError> {
        let hello = own_hello(face);
        // What runs in this very process cannot be stopped by itself, and nothing else could be had in its place.
        let patience = match how {
            How::Shared | How::SharedIfRunning => Some(patience),
            How::InProcess { .. } => None,
        };
        for _ in 0..START_ATTEMPTS {
            let (control, in_process) = match reach(how) {
                Err(AttachError::Lost) => continue,
                reached => reached?,
            };
            if let Some(mut attachment) = Self::attach(control, &hello, patience)? {
                attachment.in_process = in_process;
                return Ok(attachment);
            }
            match how {
                // It was leaving; the next one is found or started.
                How::Shared => {}
                How::SharedIfRunning => return Err(AttachError::NotRunning),
                How::InProcess { .. } => break,
            }
        }
        Err(AttachError::Lost)
    }

    /// Waits until a host inside this process has ended all that it started. Does nothing for a daemon's session.
    pub(crate) fn finish(self) {
        let Self {
            control,
            input,
            output,
            in_process,
            ..
        } = self;
        drop((control, input, output));
        if let Some(thread) = in_process {
            // A panic of that thread is in the log and changes nothing here.
            let _ = thread.join();
        }
    }

    /// Sends the hello and waits for its answer; `None` when the other side was leaving.
    fn attach(
        mut control: UnixStream,
        hello: &Hello,
        patience: Option<Duration>,
    ) -> Result<Option<Self>, AttachError> {
        let message = hello.encode()?;
        let (input, far_input) = UnixStream::pair().map_err(HelloError::from)?;
        let (output, far_output) = UnixStream::pair().map_err(HelloError::from)?;
        let peer = bound(&control, patience)?;
        let sent = descriptors::send(
            &mut control,
            &message,
            &[far_input.as_fd(), far_output.as_fd()],
        );
        drop((far_input, far_output));
        let sent = in_time(sent, peer, patience)?;
        // A refusal may already be there although sending failed, so the answer is read all the same.
        let mut control = BufReader::new(control);
        match in_time(read_reply(&mut control), peer, patience)? {
            Ok(Some(Reply::Accepted { pid, version })) if sent.is_ok() => {
                bound(control.get_ref(), None)?;
                Ok(Some(Self {
                    control,
                    input,
                    output,
                    daemon_pid: pid,
                    daemon_version: version,
                    in_process: None,
                }))
            }
            Ok(Some(Reply::Refused { code, message })) => {
                Err(AttachError::Refused { code, message })
            }
            _ => Ok(None),
        }
    }
}

/// Asks the running daemon to end, and waits until it has.
pub(crate) fn stop_daemon(force: bool) -> Result<(), AttachError> {
    let hello = own_hello(HelloFace::Stop { force });
    let folder = RuntimeFolder::open(&Places::from_environment())?;
    let Some(mut control) = connect_to_running(&folder)? else {
        return Err(AttachError::NotRunning);
    };
    let patience = Some(ACKNOWLEDGEMENT_TIMEOUT);
    let peer = bound(&control, patience)?;
    let sent = descriptors::send(&mut control, &hello.encode()?, &[]);
    let sent = in_time(sent, peer, patience)?;
    let mut control = BufReader::new(control);
    let mut reply = in_time(read_reply(&mut control), peer, patience)?;
    if let Ok(Some(Reply::Accepted { .. })) = reply {
        // It has heard; ending its servers is allowed to take longer.
        let patience = Some(END_TIMEOUT);
        bound(control.get_ref(), patience)?;
        reply = in_time(read_reply(&mut control), peer, patience)?;
    }
    match reply {
        Ok(Some(Reply::Exit { code: 0 })) => Ok(()),
        Ok(Some(Reply::Refused { code, message })) => Err(AttachError::Refused { code, message }),
        // It was leaving already, or had just left.
        Ok(None) if sent.is_err() => Err(AttachError::NotRunning),
        _ => Err(AttachError::Lost),
    }
}

/// Bounds every read and write of a control socket; answers the process at its other end.
fn bound(control: &UnixStream, patience: Option<Duration>) -> Result<i32, AttachError> {
    let bounded = control
        .set_read_timeout(patience)
        .and_then(|()| control.set_write_timeout(patience));
    bounded.map_err(HelloError::from)?;
    let peer = getsockopt(control, PeerCredentials)
        .map_err(|error| HelloError::from(io::Error::from(error)))?;
    Ok(peer.pid())
}

/// Tells the end of the patience from every other outcome.
fn in_time<T>(
    outcome: io::Result<T>,
    pid: i32,
    patience: Option<Duration>,
) -> Result<io::Result<T>, AttachError> {
    match (outcome, patience) {
        (Err(error), Some(after)) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(AttachError::Hung { pid, after })
        }
        (outcome, _) => Ok(outcome),
    }
}

/// Reads the next line of a control socket; `None` at its end.
pub(crate) fn read_reply(control: &mut BufReader<UnixStream>) -> io::Result<Option<Reply>> {
    let mut line = Vec::new();
    if control.read_until(b'\n', &mut line)? == 0 || line.last() != Some(&b'\n') {
        return Ok(None);
    }
    serde_json::from_slice(&line)
        .map(Some)
        .map_err(io::Error::from)
}

fn own_hello(face: HelloFace) -> Hello {
    // A removed working directory is no reason to fail; nothing relative can be named then.
    let cwd = std::env::current_dir().unwrap_or_else(|_| "/".into());
    Hello {
        protocol: SOCKET_PROTOCOL,
        face,
        cwd: OsText::from(cwd.as_path()),
        environment: std::env::vars_os()
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
        umask: crate::standard_streams::file_mask(),
        pid: std::process::id(),
    }
}

fn reach(how: How) -> Result<(UnixStream, Option<JoinHandle<()>>), AttachError> {
    match how {
        How::InProcess { guardian } => {
            let (near, far) = UnixStream::pair().map_err(HelloError::from)?;
            let thread = daemon::serve_in_process(far, guardian)
                .map_err(|error| AttachError::Start(error.to_string()))?;
            Ok((near, Some(thread)))
        }
        How::Shared => connect_or_start().map(|control| (control, None)),
        How::SharedIfRunning => {
            let folder = RuntimeFolder::open(&Places::from_environment())?;
            let control = connect_to_running(&folder)?.ok_or(AttachError::NotRunning)?;
            Ok((control, None))
        }
    }
}

fn connect_or_start() -> Result<UnixStream, AttachError> {
    let places = Places::from_environment();
    let folder = RuntimeFolder::open(&places)?;
    if let Some(control) = folder.connect()? {
        return Ok(control);
    }
    // One of several faces starts the daemon while it holds this lock; the others wait for the lock and find it.
    let _starting = folder.start_lock(START_TIMEOUT)?;
    if let Some(control) = connect_to_running(&folder)? {
        return Ok(control);
    }
    let said = start_daemon()?;
    match said.as_str() {
        daemon::READY | daemon::ANOTHER => folder
            .connect()?
            // A daemon that serves others may have left by now.
            .ok_or(AttachError::Lost),
        said => {
            let log = places.log_folder().map_or_else(String::new, |folder| {
                format!("; its log is in {}", folder.display())
            });
            let reason = said
                .strip_prefix("error ")
                .unwrap_or("it ended before it was ready");
            Err(AttachError::Start(format!("{reason}{log}")))
        }
    }
}

/// Connects to the daemon, `None` when there is none. One that holds its lock is about to bind its socket, or puts it
/// back.
fn connect_to_running(folder: &RuntimeFolder) -> Result<Option<UnixStream>, AttachError> {
    let deadline = Instant::now() + SOCKET_TIMEOUT;
    loop {
        if let Some(control) = folder.connect()? {
            return Ok(Some(control));
        }
        if !folder.is_daemon_locked()? {
            return Ok(None);
        }
        if Instant::now() > deadline {
            return Err(AttachError::Unreachable(folder.daemon_lock_path()));
        }
        std::thread::sleep(SOCKET_STEP);
    }
}

/// Starts the daemon and waits for the line that it says about its start; empty when it ended without one.
fn start_daemon() -> Result<String, AttachError> {
    let mut pipe =
        binary::start_detached().map_err(|error| AttachError::Start(error.to_string()))?;
    let (sender, receiver) = mpsc::sync_channel(1);
    let deadline = Instant::now() + START_TIMEOUT;
    std::thread::spawn(move || {
        let mut line = Vec::new();
        let mut byte = [0];
        while matches!(pipe.read(&mut byte), Ok(1)) && byte != *b"\n" {
            line.push(byte[0]);
        }
        let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
    });
    receiver
        .recv_timeout(deadline.saturating_duration_since(Instant::now()))
        .map_err(|_| {
            AttachError::Start(format!(
                "it was not ready after {} s",
                START_TIMEOUT.as_secs()
            ))
        })
}
