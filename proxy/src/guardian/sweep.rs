//! Ending processes that are found by looking: what a dead daemon and guardian left, and the own tree when the guardian
//! is gone.
//!
//! Every kill is fenced by a process descriptor that is checked against the start time seen before, and every sweep
//! takes fresh snapshots until it finds nothing.

use std::time::{Duration, Instant};

use nix::unistd::{geteuid, getpid};

use super::marker::TreeMarker;
use crate::defaults::{SWEEP_PAUSE, TREE_MARKER};
use crate::local::processes::{self, Process, Snapshot};
use crate::system;

/// Kills one process, if it is still the one that was seen.
pub(crate) fn end(process: &Process) {
    let Ok(descriptor) = system::open_process(process.pid) else {
        return;
    };
    if processes::is_alive(process.pid, process.started) {
        // Failure means that it has just ended, or that it changed its user: then the next snapshot shows it again.
        let _ = system::kill_process(&descriptor);
    }
}

/// Ends the trees of daemons that died together with their guardians; answers how many processes there were.
///
/// Blocks: it reads the process table.
pub(crate) fn end_abandoned(patience: Duration) -> usize {
    let Some(namespace) = processes::pid_namespace() else {
        return 0;
    };
    end_all(patience, |snapshot| {
        marked(snapshot, |marker| marker.is_abandoned(&namespace))
    })
}

/// Ends everything that carries this marker and everything below this process; answers how many processes there were.
///
/// For a daemon whose guardian has died. Blocks: it reads the process table.
pub(crate) fn end_own(own: &TreeMarker, patience: Duration) -> usize {
    end_all(patience, |snapshot| {
        let mut found = marked(snapshot, |marker| marker == own);
        found.extend(snapshot.below(getpid().as_raw()));
        found
    })
}

fn end_all(patience: Duration, find: impl Fn(&Snapshot) -> Vec<Process>) -> usize {
    let deadline = Instant::now() + patience;
    let mut seen = std::collections::HashSet::new();
    loop {
        let snapshot = Snapshot::take();
        let mut found = find(&snapshot);
        let below: Vec<Process> = found
            .iter()
            .flat_map(|process| snapshot.below(process.pid))
            .collect();
        found.extend(below);
        found.retain(|process| process.pid != getpid().as_raw());
        if found.is_empty() || Instant::now() > deadline {
            return seen.len();
        }
        for process in &found {
            end(process);
            seen.insert((process.pid, process.started));
        }
        // The kernel gives no descriptor for "all of these ended" that costs less than looking again.
        std::thread::sleep(SWEEP_PAUSE);
    }
}

fn marked(snapshot: &Snapshot, wanted: impl Fn(&TreeMarker) -> bool) -> Vec<Process> {
    let user = geteuid().as_raw();
    snapshot
        .living()
        .filter(|process| {
            processes::variable(process.pid, TREE_MARKER, user)
                .and_then(|value| value.parse().ok())
                .is_some_and(|marker| wanted(&marker))
        })
        .collect()
}
