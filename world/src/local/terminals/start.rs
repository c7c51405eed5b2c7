//! Starting a program as the leader of a session of its own, on a terminal of its own.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use nix::sys::signal::{SigHandler, Signal, signal};
use rustix::process::{ioctl_tiocsctty, setsid};

use super::super::launch::ChildCommand;
use super::super::trees::bonds::Bonds;
use super::super::trees::contained::Contained;
use super::super::{LocalOptions, launch};
use super::device::Pair;
use crate::{SpawnError, TerminalSpec};

/// Starts the program of a checked spec. Blocks until the new program runs. An error leaves neither device nor process.
pub(super) fn start(
    spec: &TerminalSpec,
    options: &LocalOptions,
) -> Result<(Contained, Pair), SpawnError> {
    let refused = |source| launch::refused(&spec.launch, source);
    let mut command = launch::command(&spec.launch, &options.scrub_rules)?;
    let pair = Pair::allocate(spec.size).map_err(refused)?;
    connect(&mut command, &pair.slave).map_err(refused)?;
    if spec.cancel.is_cancelled() {
        return Err(SpawnError::Cancelled);
    }
    let bonds = Bonds::prepare(&mut command, &spec.launch, options);
    let child = launch::with_empty_signal_mask(|| command.spawn()).map_err(refused)?;
    Ok((Contained::new(child, bonds), pair))
}

/// Makes the device the three streams and the controlling terminal of a command.
fn connect(command: &mut ChildCommand, slave: &OwnedFd) -> io::Result<()> {
    command
        .stdin(Stdio::from(slave.try_clone()?))
        .stdout(Stdio::from(slave.try_clone()?))
        .stderr(Stdio::from(slave.try_clone()?));
    lead_session(command, slave.try_clone()?);
    Ok(())
}

/// Makes the child the leader of a session whose controlling terminal is the given one, and lets it begin with the
/// default action of every signal: a shell cannot trap what it finds ignored, and a daemon may ignore hang-ups.
#[expect(
    unsafe_code,
    reason = "what runs between fork and exec is bound by more than types"
)]
fn lead_session(command: &mut ChildCommand, terminal: OwnedFd) {
    let lead = move || {
        setsid()?;
        ioctl_tiocsctty(&terminal)?;
        for number in Signal::iterator() {
            if !matches!(number, Signal::SIGKILL | Signal::SIGSTOP) {
                // SAFETY: the default action runs no code of this program, so there is no handler that could be unsound.
                unsafe { signal(number, SigHandler::SigDfl) }?;
            }
        }
        Ok(())
    };
    // SAFETY: the closure runs in the forked child, where only async-signal-safe calls are allowed. It makes three:
    // setsid(2) and sigaction(2), which POSIX names among them, and ioctl(2) with TIOCSCTTY, a bare system call. It
    // allocates nothing and takes no lock; its errors are numbers; the descriptor that it owns was made before the fork
    // and is not dropped in the child.
    unsafe {
        command.pre_exec(lead);
    }
}
