//! One started process with its tree. Owns the child until its tree is proved gone: the child is not reaped before, since
//! its unreaped id is what keeps the group's id from being reused. Dropping it kills what is left and reaps the child.

use std::io;
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::observation::{self, Observed};
use super::signals;
use super::table::Identity;
use super::tree::Tree;
use crate::TerminateError;

/// How long the last kill at a drop may take. The runtime is going down then; nobody is left to ask later.
const LAST_KILL: Duration = Duration::from_millis(500);

/// How often a tree must be seen empty in a row. One look can miss a process that was started by one that ended while
/// the table was read.
const EMPTY_LOOKS: u32 = 2;

/// A started child and its tree.
#[derive(Debug)]
pub(in crate::local) struct Contained {
    child: Child,
    tree: Arc<Mutex<Tree>>,
    is_reaped: bool,
}

/// A step of a termination: a signal, and how long its effect is waited for.
struct Step {
    signal: Signal,
    patience: Duration,
}

impl Contained {
    /// Takes over a child that leads its own group.
    pub(in crate::local) fn new(child: Child, marker: Option<Vec<u8>>) -> Self {
        let root = Identity {
            pid: child.id(),
            start: observation::start_time(child.id()),
        };
        Self {
            child,
            tree: Arc::new(Mutex::new(Tree::new(root, marker))),
            is_reaped: false,
        }
    }

    /// The process id of the child.
    pub(in crate::local) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The child, for its pipes.
    pub(in crate::local) fn child_mut(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Ends the tree: SIGTERM, `grace`, SIGKILL. When it answers, nothing of the tree runs.
    pub(in crate::local) async fn end(&self, grace: Duration) -> Result<(), TerminateError> {
        const KILL_PATIENCE: Duration = Duration::from_secs(5);
        let steps = [
            Step {
                signal: Signal::TERM,
                patience: grace,
            },
            Step {
                signal: Signal::KILL,
                patience: KILL_PATIENCE,
            },
        ];
        let mut survivors = Vec::new();
        for step in steps {
            survivors = self.take(&step).await?;
            if survivors.is_empty() {
                return Ok(());
            }
        }
        Err(TerminateError::Survivors { pids: survivors })
    }

    /// Takes one step and gives the ids of those who are left after it.
    async fn take(&self, step: &Step) -> Result<Vec<u32>, TerminateError> {
        let deadline = tokio::time::Instant::now() + step.patience;
        let mut pause = Pause::default();
        let mut empty_looks = 0;
        let mut signalled = Signalled::default();
        loop {
            let observed = match self.observe().await {
                Ok(observed) => observed,
                Err(error) => {
                    // What cannot be observed cannot be given a grace that ends; the error says that nothing is proved.
                    signals::signal_group(self.pid(), Signal::KILL);
                    return Err(error);
                }
            };
            empty_looks = if observed.is_empty() {
                empty_looks + 1
            } else {
                0
            };
            if empty_looks == EMPTY_LOOKS {
                return Ok(Vec::new());
            }
            signalled.send(self.pid(), &observed, step.signal);
            if tokio::time::Instant::now() >= deadline && empty_looks == 0 {
                return Ok(observed.pids());
            }
            pause.wait().await;
        }
    }

    /// Whether nothing of the tree runs any more.
    pub(in crate::local) async fn is_gone(&self) -> Result<bool, TerminateError> {
        for _ in 0..EMPTY_LOOKS {
            if !self.observe().await?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Looks at the tree, on the blocking pool.
    async fn observe(&self) -> Result<Observed, TerminateError> {
        let tree = Arc::clone(&self.tree);
        let look =
            move || observation::observe(&mut tree.lock().unwrap_or_else(PoisonError::into_inner));
        let observed = match tokio::task::spawn_blocking(look).await {
            Ok(observed) => observed,
            Err(error) => Err(io::Error::other(error)),
        };
        observed.map_err(|error| TerminateError::Unproved {
            reason: error.to_string(),
        })
    }

    /// Reaps the child, whose tree is gone.
    pub(in crate::local) fn reap(&mut self) {
        self.is_reaped = true;
        if let Err(error) = self.child.wait() {
            tracing::warn!(pid = self.child.id(), %error, "an ended process could not be reaped");
        }
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        if self.is_reaped {
            return;
        }
        signals::signal_group(self.child.id(), Signal::KILL);
        let deadline = Instant::now() + LAST_KILL;
        let mut tree = self.tree.lock().unwrap_or_else(PoisonError::into_inner);
        let mut empty_looks = 0;
        while empty_looks < EMPTY_LOOKS && Instant::now() < deadline {
            let Ok(observed) = observation::observe(&mut tree) else {
                break;
            };
            empty_looks = if observed.is_empty() {
                empty_looks + 1
            } else {
                0
            };
            Signalled::default().send(self.child.id(), &observed, Signal::KILL);
            std::thread::sleep(Duration::from_millis(2));
        }
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            tracing::warn!(
                pid = self.child.id(),
                "a process was left behind at the end of its owner"
            );
        }
    }
}

/// Who was given the signal of a step. SIGTERM is given once to each, SIGKILL as often as someone is seen.
#[derive(Default)]
struct Signalled {
    group: bool,
    others: std::collections::HashSet<Identity>,
}

impl Signalled {
    /// Signals the group as a whole, and each member outside of it. A stopped process is continued, or it would never
    /// act on a signal that it can catch.
    fn send(&mut self, leader: u32, observed: &Observed, signal: Signal) {
        let repeats = signal == Signal::KILL;
        let signals: &[Signal] = if repeats {
            &[signal]
        } else {
            &[signal, Signal::CONT]
        };
        if !observed.group_is_empty(leader) && (repeats || !self.group) {
            self.group = true;
            for signal in signals {
                signals::signal_group(leader, *signal);
            }
        }
        for identity in observed.outside_group(leader) {
            if self.others.insert(identity) || repeats {
                for signal in signals {
                    signals::signal_process(identity, *signal);
                }
            }
        }
    }
}

/// Pauses that grow: an end is mostly seen at once, a long grace is not spent on looking.
#[derive(Debug)]
pub(in crate::local) struct Pause(Duration);

impl Default for Pause {
    fn default() -> Self {
        Self(Duration::from_millis(2))
    }
}

impl Pause {
    /// Waits, and doubles the next pause up to 100 milliseconds.
    pub(in crate::local) async fn wait(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(Duration::from_millis(100));
    }
}
