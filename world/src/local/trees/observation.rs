//! Looking at a tree. On Linux the process table tells every member; elsewhere on Unix the process group is all that can
//! be seen, which the provider's facts say.

use std::io;

use super::table::Identity;
#[cfg(target_os = "linux")]
use super::table::{self, Row};
use super::tree::Tree;

/// Who of a tree runs at one moment.
#[derive(Debug)]
pub(in crate::local) struct Observed {
    #[cfg(target_os = "linux")]
    members: Vec<Row>,
    #[cfg(not(target_os = "linux"))]
    group: Option<u32>,
}

#[cfg(target_os = "linux")]
impl Observed {
    /// Whether nobody runs.
    pub(in crate::local) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The ids of all.
    pub(in crate::local) fn pids(&self) -> Vec<u32> {
        self.members.iter().map(|row| row.identity.pid).collect()
    }

    /// Whether nobody of the leader's group runs.
    pub(in crate::local) fn group_is_empty(&self, leader: u32) -> bool {
        self.members.iter().all(|row| row.group != leader)
    }

    /// Those who left the leader's group.
    pub(in crate::local) fn outside_group(&self, leader: u32) -> impl Iterator<Item = Identity> {
        self.members
            .iter()
            .filter(move |row| row.group != leader)
            .map(|row| row.identity)
    }
}

/// Looks at a tree now.
#[cfg(target_os = "linux")]
pub(in crate::local) fn observe(tree: &mut Tree) -> io::Result<Observed> {
    let rows = table::read()?;
    Ok(Observed {
        members: tree.live_members(&rows, table::environment),
    })
}

/// The start time of a process that is not reaped; 0 where it cannot be told, which then fences nothing.
#[cfg(target_os = "linux")]
pub(in crate::local) fn start_time(pid: u32) -> u64 {
    table::row(pid).map_or(0, |row| row.identity.start)
}

#[cfg(not(target_os = "linux"))]
impl Observed {
    /// Whether nobody runs.
    pub(in crate::local) fn is_empty(&self) -> bool {
        self.group.is_none()
    }

    /// The id of the group, which stands for its members.
    pub(in crate::local) fn pids(&self) -> Vec<u32> {
        self.group.into_iter().collect()
    }

    /// Whether nobody of the leader's group runs.
    pub(in crate::local) fn group_is_empty(&self, _: u32) -> bool {
        self.group.is_none()
    }

    /// Nobody: who left the group is not seen.
    pub(in crate::local) fn outside_group(&self, _: u32) -> impl Iterator<Item = Identity> {
        std::iter::empty()
    }
}

/// Looks at a tree now. A group of zombies alone answers EPERM or ESRCH to a signal.
#[cfg(not(target_os = "linux"))]
pub(in crate::local) fn observe(tree: &mut Tree) -> io::Result<Observed> {
    let leader = tree.root().pid;
    let alive = rustix::process::Pid::from_raw(leader.cast_signed())
        .is_some_and(|group| rustix::process::test_kill_process_group(group).is_ok());
    Ok(Observed {
        group: alive.then_some(leader),
    })
}

/// Not known here.
#[cfg(not(target_os = "linux"))]
pub(in crate::local) fn start_time(_: u32) -> u64 {
    0
}
