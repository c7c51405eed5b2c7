//! The guardian: the single-threaded parent of a daemon, or of a `--no-daemon` session.
//!
//! It is the subreaper of everything below it, so a process whose parent ends becomes its child whatever session or
//! group it moved to. When the guarded process ends for any reason the guardian ends what is left below it, and it
//! exits only when it has no child any more, which for a subreaper means that no descendant is left. It runs no
//! runtime and has no thread: the guarded process asked to be told when *this thread* dies.

pub(crate) mod marker;
pub(crate) mod sweep;

use std::ffi::OsString;
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::time::Instant;

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::{set_child_subreaper, set_pdeathsig};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::stat::{Mode, umask};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, chdir, getpid, getppid, setsid};

use crate::defaults::{GUARDIAN_PAUSE, SWEEP_TIMEOUT};
use crate::local::binary;
use crate::local::processes::Snapshot;
use crate::standard_streams;
use crate::system;

/// The code with which lspool ends when its own machinery failed.
const INTERNAL: u8 = 70;

/// Signals that end a guarded process and are handed on to it.
const FORWARDED: [Signal; 4] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
];

/// Leaves the face's session and starts the guardian of a daemon, so that neither the terminal, the session nor the
/// process tree of the editor that happened to need it first has a hold on the daemon.
pub(crate) fn detach() -> ExitCode {
    if system::close_inherited().is_err() || setsid().is_err() {
        return ExitCode::from(INTERNAL);
    }
    system::reset_dispositions();
    umask(Mode::from_bits_truncate(0o077));
    // The face's folder must stay removable.
    if chdir("/").is_err() {
        return ExitCode::from(INTERNAL);
    }
    match binary::start_guardian() {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(INTERNAL),
    }
}

/// Guards the daemon that a face started.
pub(crate) fn guard_daemon() -> ExitCode {
    guard(&[binary::DAEMON.into()], true)
}

/// Guards a process of lspool's own with these arguments, its streams being those of this process; answers its exit
/// code, 128 + N when signal N ended it.
pub(crate) fn guard(arguments: &[OsString], fresh: bool) -> ExitCode {
    match Guardian::start(arguments, fresh) {
        Ok(guardian) => guardian.run(),
        Err(error) => {
            standard_streams::complain(&format!("lspool cannot start its own process: {error}"));
            ExitCode::from(INTERNAL)
        }
    }
}

/// Ties this process to its guardian: the guardian's death sends SIGTERM. Ends the process when that death has already
/// happened.
pub(crate) fn accept_guard(guardian: u32) {
    let blocked = SigSet::empty();
    // Blocked signals are inherited from the guardian, which reads them from a descriptor.
    let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&blocked), None);
    let tied = set_pdeathsig(Signal::SIGTERM);
    if tied.is_err() || is_guardian_gone(guardian) {
        std::process::exit(i32::from(INTERNAL));
    }
}

/// Whether the guardian of this process has died.
pub(crate) fn is_guardian_gone(guardian: u32) -> bool {
    getppid().as_raw() != guardian.cast_signed()
}

struct Guardian {
    child: Pid,
    signals: SignalFd,
}

impl Guardian {
    fn start(arguments: &[OsString], fresh: bool) -> std::io::Result<Self> {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        for signal in FORWARDED {
            mask.add(signal);
        }
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&mask), None)?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        set_child_subreaper(true)?;
        let child = binary::start_guarded(arguments, fresh)?;
        // The pipes of the session, and the one that says that the daemon is ready, must end with the guarded process.
        standard_streams::silence_input_and_output()?;
        Ok(Self {
            child: Pid::from_raw(child.id().cast_signed()),
            signals,
        })
    }

    fn run(self) -> ExitCode {
        let code = loop {
            if let Some(code) = self.reap_until_child() {
                break code;
            }
            self.wait(PollTimeout::NONE);
            self.forward_signals();
        };
        if !self.end_everything_below() {
            standard_streams::complain("lspool could not end every process that it had started");
        }
        ExitCode::from(code)
    }

    /// Reaps what has ended; the exit code once the guarded process was among it.
    fn reap_until_child(&self) -> Option<u8> {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == self.child => {
                    return Some(code.to_le_bytes()[0]);
                }
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == self.child => {
                    return Some(128 + signal as u8);
                }
                // Without a child at all the guarded one is gone too; this cannot be seen before its own status.
                Err(Errno::ECHILD) => return Some(INTERNAL),
                Ok(WaitStatus::StillAlive) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    fn forward_signals(&self) {
        while let Ok(Some(info)) = self.signals.read_signal() {
            // What the terminal sends reaches its whole foreground group, the guarded process included.
            let from_kernel = info.ssi_code == libc::SI_KERNEL;
            if let Ok(signal) = Signal::try_from(info.ssi_signo.cast_signed())
                && FORWARDED.contains(&signal)
                && !from_kernel
            {
                let _ = kill(self.child, signal);
            }
        }
    }

    fn wait(&self, timeout: PollTimeout) {
        let mut waited = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        // An interrupted wait is as good as an ended one: the caller looks again.
        let _ = poll(&mut waited, timeout);
    }

    /// Ends all that is below this process, in fresh snapshots until it has no child; `false` when some did not end.
    fn end_everything_below(&self) -> bool {
        let deadline = Instant::now() + SWEEP_TIMEOUT;
        loop {
            let below = Snapshot::take().below(getpid().as_raw());
            below.iter().for_each(sweep::end);
            loop {
                match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                    Err(Errno::ECHILD) => return true,
                    Ok(WaitStatus::StillAlive) | Err(_) => break,
                    Ok(_) => {}
                }
            }
            if Instant::now() > deadline {
                return false;
            }
            // A signal that arrives now only shortens the wait.
            while let Ok(Some(_)) = self.signals.read_signal() {}
            self.wait(PollTimeout::try_from(GUARDIAN_PAUSE).unwrap_or(PollTimeout::ZERO));
        }
    }
}
