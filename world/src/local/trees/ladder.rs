//! The ladder of a termination: who is signalled when, and how long each step waits. Owns the order of the steps and the
//! rule that SIGTERM is given once to each and SIGKILL as often as someone is seen.

use std::collections::HashSet;
use std::time::Duration;

use rustix::process::Signal;

use super::observation::Observed;
use super::signals;
use super::table::{self, ProcessIdentity};

/// How long the effect of SIGKILL is waited for.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// In which order the members of a tree are ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::local) enum Order {
    /// All at once.
    Together,
    /// The root last: a session leader that stays until its descendants are gone keeps them from being lost from sight.
    /// What it starts while it ends is ended after it.
    MembersFirst,
}

/// Whom a step is meant for, and whose end it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Circle {
    /// The whole tree.
    All,
    /// All but the root.
    Members,
    /// The root. Members that it started meanwhile are meant too, since a shell puts off its own end until the program
    /// that it waits for has ended; but they are not waited for.
    Root,
}

impl Circle {
    /// Whether a step is meant for this process, of the tree whose root is `leader`.
    fn reaches(self, pid: u32, leader: u32) -> bool {
        self != Self::Members || pid != leader
    }

    /// Those who run and whose end a step waits for.
    pub(super) fn awaited(self, observed: &Observed, leader: u32) -> HashSet<ProcessIdentity> {
        let is_awaited = |one: &ProcessIdentity| match self {
            Self::All => true,
            Self::Members => one.pid != leader,
            Self::Root => one.pid == leader,
        };
        let living = observed.living().map(|entry| entry.identity);
        living.filter(is_awaited).collect()
    }
}

/// A step of a termination: a signal to a circle, and how long its effect is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) circle: Circle,
    pub(super) signal: Signal,
    pub(super) patience: Duration,
}

impl Step {
    /// Whether it ends whoever is left of the whole tree.
    pub(super) fn ends_all(&self) -> bool {
        self.circle == Circle::All && self.signal == Signal::KILL
    }
}

/// Two steps that empty a circle: SIGTERM for the grace, then SIGKILL.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rung(pub(super) [Step; 2]);

impl Rung {
    fn new(circle: Circle, grace: Duration) -> Self {
        let step = |signal, patience| Step {
            circle,
            signal,
            patience,
        };
        Self([step(Signal::TERM, grace), step(Signal::KILL, KILL_PATIENCE)])
    }
}

impl Order {
    /// The rungs of the ladder; each begins when the one before has done what it can. Where only the group is seen,
    /// nobody is told apart in it.
    pub(super) fn rungs(self, grace: Duration) -> Vec<Rung> {
        let circles: &[Circle] = match self {
            Self::MembersFirst if cfg!(target_os = "linux") => {
                &[Circle::Members, Circle::Root, Circle::All]
            }
            Self::Together | Self::MembersFirst => &[Circle::All],
        };
        circles
            .iter()
            .map(|circle| Rung::new(*circle, grace))
            .collect()
    }
}

/// Who was given the signal of a step.
#[derive(Default)]
pub(super) struct Signalled {
    group: bool,
    single: HashSet<ProcessIdentity>,
}

impl Signalled {
    /// Signals those of the circle. A stopped process is continued, or it would never act on a signal that it can catch:
    /// before it too, since the system hangs up on a stopped process whose group's last parent outside of it has ended,
    /// and after it, since it may have been stopped again.
    ///
    /// The whole tree is signalled as a group where it is one, and each member outside of it singly. Whoever spares the
    /// root signals singly: the root leads the group.
    pub(super) fn send(&mut self, leader: u32, observed: &Observed, step: &Step) {
        let repeats = step.signal == Signal::KILL;
        let continued = [Signal::CONT, step.signal, Signal::CONT];
        let signals = if repeats {
            &continued[1..2]
        } else {
            &continued[..]
        };
        let as_group = step.circle == Circle::All;
        if as_group && !observed.group_is_empty(leader) && (repeats || !self.group) {
            self.group = true;
            for signal in signals {
                signals::signal_group(leader, *signal);
            }
        }
        for entry in observed.living() {
            let identity = entry.identity;
            let is_reached = as_group && entry.group == leader;
            let is_meant = step.circle.reaches(identity.pid, leader) && !is_reached;
            if is_meant && (self.single.insert(identity) || repeats) {
                for signal in signals {
                    signals::signal_process(identity, *signal);
                }
                // An interactive shell ignores SIGTERM and ends at a hang-up.
                if !repeats && !as_group && table::ignores(identity.pid, step.signal) {
                    signals::signal_process(identity, Signal::HUP);
                }
            }
        }
    }
}
