//! Owns the child process: its start, its signals and its end.
//!
//! Invariant: a signal goes only to a child that is not reaped yet, so never to a stranger that got its
//! process id.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::conversation::lock;
use super::launch::Launch;
use super::message::Exit;
use super::stderr::Stderr;
use crate::error::{KitError, deadline};

const POLL_INTERVAL: Duration = Duration::from_millis(2);

pub(super) struct Process {
    pid: u32,
    child: Mutex<Child>,
}

pub(super) struct Pipes {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

impl Process {
    pub(super) fn start(launch: &Launch) -> Result<(Self, Pipes), KitError> {
        let program = launch.argv.first().cloned().unwrap_or_default();
        let start_error = |source| KitError::Start {
            program: program.to_string_lossy().into_owned(),
            source,
        };
        let mut child = Command::new(&program)
            .args(launch.argv.iter().skip(1))
            .current_dir(&launch.cwd)
            .env_clear()
            .envs(launch.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(start_error)?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(start_error(std::io::Error::other("a pipe is missing")));
        };
        Ok((
            Self {
                pid: child.id(),
                child: Mutex::new(child),
            },
            Pipes {
                stdin,
                stdout,
                stderr,
            },
        ))
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    pub(super) fn exit(&self) -> Option<Exit> {
        lock(&self.child).try_wait().ok().flatten().map(exit_of)
    }

    pub(super) fn signal(&self, signal: Signal) {
        let mut child = lock(&self.child);
        if matches!(child.try_wait(), Ok(None)) {
            // The child cannot have been reaped while the lock is held; an error means that it is a zombie.
            let _ = kill(Pid::from_raw(self.pid.cast_signed()), signal);
        }
    }

    pub(super) fn wait(&self, stderr: &Stderr) -> Result<Exit, KitError> {
        let end = Instant::now() + deadline();
        loop {
            if let Some(exit) = self.exit() {
                return Ok(exit);
            }
            if Instant::now() >= end {
                return Err(KitError::Timeout {
                    what: format!("the end of process {}", self.pid),
                    waited: deadline(),
                    account: format!("stderr: {}", stderr.tail()),
                });
            }
            std::thread::park_timeout(POLL_INTERVAL);
        }
    }

    /// Kills the child if it still runs, and reaps it.
    pub(super) fn end(&self) {
        let mut child = lock(&self.child);
        // Both fail only for a child that has been reaped.
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or_default()),
    }
}
