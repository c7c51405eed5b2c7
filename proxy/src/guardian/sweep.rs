//! Ending processes that are found by looking: what is below a guardian whose guarded process has ended, what a dead
//! daemon and guardian left, and the own tree when the guardian is gone.
//!
//! Invariants: every kill is fenced by the identity of the process that was seen, and every sweep looks afresh until it
//! finds nothing.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::groups;
use super::marker::TreeMarker;
use crate::defaults::{SWEEP_PAUSE, TREE_MARKER};
use crate::local::processes::{
    self, ControlGroups, ProcessEntry, ProcessIdentity, ProcessTable, environment_value,
};

/// What a sweep ended, and is to end.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    groups: Vec<Arc<ControlGroups>>,
    killed: HashSet<ProcessIdentity>,
    ended_groups: usize,
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Swept {
    /// How many processes it killed one by one; those of a control group may be among them.
    pub(crate) processes: usize,
    /// How many folders of control groups it removed.
    pub(crate) groups: usize,
    /// Whether nothing is left.
    pub(crate) is_complete: bool,
}

impl Sweep {
    /// A sweep of these control groups, and of the processes that each round names.
    pub(crate) fn of(groups: Vec<Arc<ControlGroups>>) -> Self {
        Self {
            groups,
            ..Self::default()
        }
    }

    /// Kills what is in the groups and what a fresh look at the process table finds; whether there was nothing, which a
    /// table that cannot be read does not show. Blocks.
    pub(crate) fn round(&mut self, find: impl Fn(&ProcessTable) -> Vec<ProcessEntry>) -> bool {
        let before = self.groups.len();
        // Without patience it kills once and does not wait.
        self.groups
            .retain(|groups| groups.end(Duration::ZERO).is_err());
        self.ended_groups += before - self.groups.len();
        let Ok(table) = ProcessTable::read() else {
            return false;
        };
        let found = find(&table);
        for process in &found {
            process.identity.kill();
            self.killed.insert(process.identity);
        }
        found.is_empty() && self.groups.is_empty()
    }

    /// What was done so far.
    pub(crate) fn done(&self, is_complete: bool) -> Swept {
        Swept {
            processes: self.killed.len(),
            groups: self.ended_groups,
            is_complete,
        }
    }

    /// Goes round until a round finds nothing, for no longer than this. Blocks.
    fn run(
        mut self,
        patience: Duration,
        find: impl Fn(&ProcessTable) -> Vec<ProcessEntry>,
    ) -> Swept {
        let deadline = Instant::now() + patience;
        loop {
            let is_complete = self.round(&find);
            if is_complete || Instant::now() > deadline {
                return self.done(is_complete);
            }
            // The kernel gives no descriptor for "all of these ended" that costs less than looking again.
            std::thread::sleep(SWEEP_PAUSE);
        }
    }
}

/// Ends the trees of daemons that died together with their guardians. Blocks.
pub(crate) fn end_abandoned(patience: Duration) -> Swept {
    let abandoned = groups::abandoned().into_iter().map(Arc::new).collect();
    let namespace = processes::pid_namespace();
    Sweep::of(abandoned).run(patience, |table| {
        with_descendants(table, |marker| {
            namespace
                .as_deref()
                .is_some_and(|namespace| marker.is_abandoned(namespace))
        })
    })
}

/// Ends everything in these control groups, everything that carries this marker and everything below this process, whose
/// guardian has died. Blocks.
pub(crate) fn end_own(
    groups: Option<Arc<ControlGroups>>,
    own: Option<&TreeMarker>,
    patience: Duration,
) -> Swept {
    Sweep::of(groups.into_iter().collect()).run(patience, |table| {
        let mut found = with_descendants(table, |marker| own == Some(marker));
        found.extend(below_this_process(table));
        found
    })
}

/// The living processes below this one.
pub(crate) fn below_this_process(table: &ProcessTable) -> Vec<ProcessEntry> {
    table.below(std::process::id())
}

/// The processes with such a marker and all below them, but for this process.
fn with_descendants(
    table: &ProcessTable,
    is_wanted: impl Fn(&TreeMarker) -> bool,
) -> Vec<ProcessEntry> {
    let marked = table.living().filter(|process| {
        environment_value(process.identity.pid, TREE_MARKER)
            .and_then(|value| value.to_str()?.parse().ok())
            .is_some_and(|marker| is_wanted(&marker))
    });
    let mut found: Vec<ProcessEntry> = marked.copied().collect();
    let below: Vec<ProcessEntry> = found
        .iter()
        .flat_map(|process| table.below(process.identity.pid))
        .collect();
    found.extend(below);
    found.retain(|process| process.identity.pid != std::process::id());
    found
}
