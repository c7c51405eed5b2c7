//! Waiting for the exit of a child without reaping it. Owns the rule that an exit is seen at once and stays to be reaped
//! by whoever owns the tree.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{Pid, WaitId, WaitIdOptions, WaitIdStatus, waitid};
use tokio::io::unix::AsyncFd;

use super::contained::Pause;
use crate::ProcessOutcome;

/// Watches one child of this process.
pub(in crate::local) enum ExitWatch {
    /// Through a descriptor that becomes readable.
    Descriptor(AsyncFd<OwnedFd>),
    /// By asking again and again, where there are no such descriptors.
    Polling(Pid),
}

impl ExitWatch {
    /// Watches the child with this id, which is not reaped.
    ///
    /// Gives an error when the id is none.
    pub(in crate::local) fn new(pid: u32) -> io::Result<Self> {
        let pid = Pid::from_raw(pid.cast_signed()).ok_or(io::ErrorKind::InvalidInput)?;
        #[cfg(target_os = "linux")]
        if let Ok(descriptor) =
            rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
        {
            return Ok(Self::Descriptor(watched(
                descriptor,
                tokio::io::Interest::READABLE,
            )?));
        }
        Ok(Self::Polling(pid))
    }

    /// Waits for the exit. An error means that it can no longer be told.
    pub(in crate::local) async fn exited(&self) -> io::Result<ProcessOutcome> {
        match self {
            Self::Descriptor(descriptor) => loop {
                let mut ready = descriptor.readable().await?;
                if let Some(outcome) = peek(wait_id(descriptor))? {
                    return Ok(outcome);
                }
                ready.clear_ready();
            },
            Self::Polling(pid) => {
                let mut pause = Pause::default();
                loop {
                    if let Some(outcome) = peek(WaitId::Pid(*pid))? {
                        return Ok(outcome);
                    }
                    pause.wait().await;
                }
            }
        }
    }
}

/// Registers a descriptor with the runtime.
#[cfg(target_os = "linux")]
#[expect(
    deprecated,
    reason = "its successor is unsafe, for types whose descriptor can change; an owned descriptor cannot"
)]
pub(super) fn watched(
    descriptor: OwnedFd,
    interest: tokio::io::Interest,
) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, interest)
}

#[cfg(target_os = "linux")]
fn wait_id(descriptor: &AsyncFd<OwnedFd>) -> WaitId<'_> {
    WaitId::PidFd(descriptor.get_ref().as_fd())
}

#[cfg(not(target_os = "linux"))]
fn wait_id(_: &AsyncFd<OwnedFd>) -> WaitId<'_> {
    unreachable!("descriptors are made on Linux alone")
}

/// The outcome of an ended child, which stays to be reaped; `None` while it runs.
fn peek(id: WaitId<'_>) -> io::Result<Option<ProcessOutcome>> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(id, options)? {
        Some(status) => outcome(&status).map(Some),
        None => Ok(None),
    }
}

fn outcome(status: &WaitIdStatus) -> io::Result<ProcessOutcome> {
    if let Some(code) = status.exit_status() {
        return Ok(ProcessOutcome::Exited(code));
    }
    match status.terminating_signal() {
        Some(signal) => Ok(ProcessOutcome::Signaled(signal)),
        None => Err(io::Error::other(
            "the system reported an end that is neither an exit nor a signal",
        )),
    }
}
