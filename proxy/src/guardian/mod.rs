//! The guardian: the single-threaded parent of a daemon, or of a `--no-daemon` session.
//!
//! It is the subreaper of everything below it, so a process whose parent ends becomes its child whatever session or
//! group it moved to. When the guarded process ends for any reason the guardian ends what is left below it, and it
//! exits only when it has no child any more, which for a subreaper means that no descendant is left, and when its control
//! groups are empty and removed. It runs no runtime and has no thread: the guarded process asked to be told when *this
//! thread* dies.

pub(crate) mod detached;
pub(crate) mod groups;
pub(crate) mod marker;
pub(crate) mod sweep;

use std::ffi::OsString;
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::{set_child_subreaper, set_pdeathsig};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getppid};

use self::sweep::{Sweep, Swept};
use crate::config::Settings;
use crate::defaults::{GUARDIAN_PAUSE, SWEEP_TIMEOUT};
use crate::local::processes::ControlGroups;
use crate::local::{Places, binary, log};
use crate::standard_streams;

/// The code with which lspool ends when its own machinery failed.
pub(crate) const INTERNAL: u8 = 70;

/// Signals that end a guarded process and are handed on to it.
const FORWARDED: [Signal; 4] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
];

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

/// How the guarded process ended.
struct End {
    /// Its exit code, 128 + N when signal N ended it.
    code: u8,
    was_killed: bool,
}

struct Guardian {
    child: Pid,
    signals: SignalFd,
    groups: Option<Arc<ControlGroups>>,
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
        let settings = Settings::load(&Places::from_environment());
        let groups = if settings.containment.control_groups {
            groups::make().map(Arc::new)
        } else {
            None
        };
        let child = binary::start_guarded(arguments, fresh).inspect_err(|_| {
            if let Some(groups) = &groups {
                // Nothing was started in them.
                let _ = groups.end(Duration::ZERO);
            }
        })?;
        // The pipes of the session, and the one that says that the daemon is ready, must end with the guarded process.
        standard_streams::silence_input_and_output()?;
        Ok(Self {
            child: Pid::from_raw(child.id().cast_signed()),
            signals,
            groups,
        })
    }

    fn run(self) -> ExitCode {
        let end = loop {
            if let Some(end) = self.reap_until_child() {
                break end;
            }
            self.wait(PollTimeout::NONE);
            self.forward_signals();
        };
        let begun = Instant::now();
        let swept = self.end_everything_below();
        if !swept.is_complete {
            standard_streams::complain("lspool could not end every process that it had started");
        }
        if end.was_killed || swept.processes > 0 || !swept.is_complete {
            report(&end, &swept, begun.elapsed());
        }
        ExitCode::from(end.code)
    }

    /// Reaps what has ended; the end of the guarded process once it was among it.
    fn reap_until_child(&self) -> Option<End> {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == self.child => {
                    return Some(End {
                        code: code.to_le_bytes()[0],
                        was_killed: false,
                    });
                }
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == self.child => {
                    return Some(End {
                        code: 128 + signal as u8,
                        was_killed: true,
                    });
                }
                // Without a child at all the guarded one is gone too; this cannot be seen before its own status.
                Err(Errno::ECHILD) => {
                    return Some(End {
                        code: INTERNAL,
                        was_killed: false,
                    });
                }
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

    /// Ends all that is below this process and in its control groups, in fresh looks until it has no child and no group.
    fn end_everything_below(&self) -> Swept {
        let deadline = Instant::now() + SWEEP_TIMEOUT;
        let mut sweep = Sweep::of(self.groups.iter().cloned().collect());
        loop {
            let found_nothing = sweep.round(sweep::below_this_process);
            let is_complete = has_no_child() && found_nothing;
            if is_complete || Instant::now() > deadline {
                return sweep.done(is_complete);
            }
            // A signal that arrives now only shortens the wait.
            while let Ok(Some(_)) = self.signals.read_signal() {}
            self.wait(PollTimeout::try_from(GUARDIAN_PAUSE).unwrap_or(PollTimeout::ZERO));
        }
    }
}

/// Reaps what has ended; whether this process has no child any more.
fn has_no_child() -> bool {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Err(Errno::ECHILD) => return true,
            Ok(WaitStatus::StillAlive) | Err(_) => return false,
            Ok(_) => {}
        }
    }
}

/// Writes to the log what a guarded process cannot write any more.
fn report(end: &End, swept: &Swept, took: Duration) {
    log::start(Places::from_environment().log_folder().as_deref());
    tracing::warn!(
        code = end.code,
        processes = swept.processes,
        groups = swept.groups,
        is_complete = swept.is_complete,
        took_ms = took.as_millis() as u64,
        "the guardian has ended what the guarded process left"
    );
}
