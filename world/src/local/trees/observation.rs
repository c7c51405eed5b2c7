//! Looking at a tree. On Linux the process table tells every member; elsewhere on Unix the process group is all that can
//! be seen, which the provider's facts say.

use std::io;

use super::table::{self, Identity, Row};
use super::tree::Tree;

/// Who of a tree runs at one moment. Where only the group is seen, its leader stands for all of it.
#[derive(Debug)]
pub(in crate::local) struct Observed {
    members: Vec<Row>,
}

impl Observed {
    /// Nobody.
    pub(super) fn nobody() -> Self {
        Self {
            members: Vec::new(),
        }
    }

    /// Whether nobody runs.
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Those who run.
    pub(super) fn identities(&self) -> Vec<Identity> {
        self.members.iter().map(|row| row.identity).collect()
    }

    /// Whether nobody of the leader's group runs.
    pub(super) fn group_is_empty(&self, leader: u32) -> bool {
        self.members.iter().all(|row| row.group != leader)
    }

    /// Those who run, and whether each is in the leader's group.
    pub(super) fn members(&self, leader: u32) -> impl Iterator<Item = (Identity, bool)> {
        self.members
            .iter()
            .map(move |row| (row.identity, row.group == leader))
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
pub(in crate::local) fn start_time(pid: u32) -> u64 {
    table::row(pid).map_or(0, |row| row.identity.start)
}

/// Looks at a tree now. A group of zombies alone answers EPERM or ESRCH to a signal.
#[cfg(not(target_os = "linux"))]
pub(in crate::local) fn observe(tree: &mut Tree) -> io::Result<Observed> {
    let root = tree.root();
    let alive = rustix::process::Pid::from_raw(root.pid.cast_signed())
        .is_some_and(|group| rustix::process::test_kill_process_group(group).is_ok());
    let leader = Row {
        identity: root,
        parent: std::process::id(),
        group: root.pid,
        session: 0,
        is_live: true,
    };
    Ok(Observed {
        members: alive.then_some(leader).into_iter().collect(),
    })
}
