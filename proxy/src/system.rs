//! The calls that have no safe wrapper: descriptors received from a peer or given to the runtime, signal dispositions and
//! niceness.
//!
//! This is the only file of the crate with `unsafe`; each block states why it is sound. Nothing here decides anything.
#![expect(
    unsafe_code,
    reason = "these calls have no safe wrapper in the standard library or in nix"
)]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use nix::libc;
use tokio::io::unix::AsyncFd;

/// Takes ownership of a descriptor that `recvmsg` has just installed in this process.
///
/// The caller passes each number of a `SCM_RIGHTS` message exactly once.
pub(crate) fn adopt_received(descriptor: RawFd) -> OwnedFd {
    // SAFETY: the kernel opened this descriptor for the message that was just received, so it is open and nobody else
    // in this process owns it; the caller hands over each number once.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// Lets the present runtime tell when a descriptor can be read. Must be called inside a runtime.
pub(crate) fn readiness(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is owned by the value that is registered, stays the same, and is open until it is dropped.
    Ok(unsafe { AsyncFd::register(descriptor) }?)
}

/// Closes every descriptor from 3 upwards.
///
/// For a process that has just started and owns no descriptor yet: what is open came from its parent by accident.
pub(crate) fn close_inherited() -> io::Result<()> {
    // SAFETY: plain integers; called first thing in `main`, before anything in this process owns a descriptor above 2.
    let outcome = unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32) };
    if outcome == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Gives every signal its default action, also those that a parent had ignored; `SIGPIPE` stays ignored.
pub(crate) fn reset_dispositions() {
    for signal in 1..=libc::SIGRTMAX() {
        if matches!(signal, libc::SIGKILL | libc::SIGSTOP | libc::SIGPIPE) {
            continue;
        }
        // SAFETY: SIG_DFL installs no handler, so no code of ours can run in signal context. Numbers that the C
        // library keeps for itself are refused with an error, which is what is wanted.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Gives this process the usual niceness, 0; setpriority(2). EACCES where it was raised and may not be lowered.
pub(crate) fn reset_niceness() -> io::Result<()> {
    // SAFETY: plain integers; the call changes nothing but the scheduling of this process.
    let outcome = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 0) };
    if outcome == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
