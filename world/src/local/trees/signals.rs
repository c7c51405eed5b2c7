//! Signals that reach whom they are meant for. Owns the fence: a process is signalled through a descriptor whose start
//! time was checked, a group only while its leader is not reaped.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use super::table::ProcessIdentity;

/// Signals a whole group. The caller has not reaped the leader, which keeps the group's id from being reused. A group
/// without a process is no failure: what is left is told by observation, not by this call.
pub(in crate::local) fn signal_group(leader: u32, signal: Signal) {
    if let Some(group) = Pid::from_raw(leader.cast_signed()) {
        match kill_process_group(group, signal) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => {
                tracing::debug!(leader, ?signal, %error, "the group could not be signalled as a whole");
            }
        }
    }
}

/// Signals exactly this process; one that has ended is no failure.
#[cfg(target_os = "linux")]
pub(in crate::local) fn signal_process(identity: ProcessIdentity, signal: Signal) {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

    use super::table::ProcessEntry;

    let is_same =
        || ProcessEntry::read(identity.pid).is_some_and(|entry| entry.identity == identity);
    let Some(pid) = Pid::from_raw(identity.pid.cast_signed()) else {
        return;
    };
    let result = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(descriptor) if is_same() => pidfd_send_signal(&descriptor, signal),
        Ok(_) | Err(Errno::SRCH) => Ok(()),
        // Without descriptors (an old kernel, no descriptor left) the check shortly before the signal is the fence.
        Err(_) if is_same() => rustix::process::kill_process(pid, signal),
        Err(_) => Ok(()),
    };
    match result {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(error) => {
            tracing::debug!(pid = identity.pid, ?signal, %error, "a process could not be signalled");
        }
    }
}

/// Nobody outside of the group is seen here, so there is nobody to signal.
#[cfg(not(target_os = "linux"))]
pub(in crate::local) fn signal_process(_: ProcessIdentity, _: Signal) {}
