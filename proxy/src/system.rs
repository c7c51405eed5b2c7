//! The calls that have no safe wrapper: descriptors received from a peer or given to the runtime, process descriptors and
//! signal dispositions.
//!
//! This is the only file of the crate with `unsafe`; each block states why it is sound. Nothing here decides anything.
#![expect(
    unsafe_code,
    reason = "these calls have no safe wrapper in the standard library or in nix"
)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

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

/// Opens a descriptor of a process, which stays with this very process when its number is used again.
pub(crate) fn open_process(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: plain integers in, a new descriptor or -1 out.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0_u32) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so the number is a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as RawFd) })
}

/// Sends SIGKILL to the process behind a descriptor of [`open_process`].
pub(crate) fn kill_process(process: &OwnedFd) -> io::Result<()> {
    // SAFETY: the descriptor is open for the length of the call; a null siginfo is what kill(2) would send.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            libc::SIGKILL,
            std::ptr::null::<libc::siginfo_t>(),
            0_u32,
        )
    };
    if outcome == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
