//! Signals that reach whom they are meant for. Owns the fence: a process is signalled through a descriptor whose start
//! time was checked, a group only while its leader is not reaped.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use super::table::ProcessIdentity;

/// The kernel's form of an id that a process of a tree can have. To signal 0, 1 or a negative number as a group would
/// reach everybody, and no child of this process has such an id.
pub(super) fn kernel_id(pid: u32) -> Option<Pid> {
    let id = i32::try_from(pid).ok().filter(|id| *id > 1)?;
    Pid::from_raw(id)
}

/// Signals a whole group. The caller has not reaped the leader, which keeps the group's id from being reused. A group
/// without a process is no failure: what is left is told by observation, not by this call.
pub(in crate::local) fn signal_group(leader: u32, signal: Signal) {
    if let Some(group) = kernel_id(leader) {
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
    let Some(pid) = kernel_id(identity.pid) else {
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

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::process::Command;

    use super::super::table::ProcessEntry;
    use super::*;

    #[test]
    fn what_cannot_be_signalled_is_no_failure() {
        // given an id that no process can have, one of an ended process, and one of a process that started at another time
        let mut child = Command::new("/bin/sleep").arg("1000").spawn().unwrap();
        let identity = ProcessEntry::read(child.id()).unwrap().identity;
        let earlier = ProcessIdentity {
            start: identity.start - 1,
            ..identity
        };
        let nobody = ProcessIdentity { pid: 0, start: 0 };
        let beyond = ProcessIdentity {
            pid: u32::MAX,
            start: 0,
        };

        for stranger in [earlier, nobody, beyond] {
            signal_process(stranger, Signal::KILL);
        }
        for leader in [0, 1, u32::MAX, identity.pid] {
            // The child leads no group.
            signal_group(leader, Signal::KILL);
        }

        // then it still runs, and its own identity reaches it
        assert!(child.try_wait().unwrap().is_none());
        signal_process(identity, Signal::KILL);
        child.wait().unwrap();
        signal_process(identity, Signal::KILL);
    }
}
