//! What one look at a tree found, and when looks that found nobody prove that nobody is left.

use super::table::{ProcessEntry, ProcessIdentity};

/// How often a tree must be seen empty in a row where a look can miss a process that was started by one that ended while
/// the table was read.
const EMPTY_LOOKS: u32 = 2;

/// Who of a tree was seen by one look. Where only the group is seen, its leader stands for all of it.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// The members, ended ones that wait to be reaped too.
    pub(super) members: Vec<ProcessEntry>,
    /// Whether everything was looked at that can show a member.
    pub(super) is_whole: bool,
    /// Whether nobody can have been missed.
    pub(super) is_exhaustive: bool,
}

impl Observed {
    /// The members that run.
    pub(super) fn living(&self) -> impl Iterator<Item = &ProcessEntry> {
        self.members.iter().filter(|entry| entry.is_live)
    }

    /// Whether nobody runs.
    pub(super) fn is_empty(&self) -> bool {
        self.living().next().is_none()
    }

    /// Those who run.
    pub(super) fn identities(&self) -> Vec<ProcessIdentity> {
        self.living().map(|entry| entry.identity).collect()
    }

    /// Whether nobody of the leader's group runs.
    pub(super) fn group_is_empty(&self, leader: u32) -> bool {
        self.living().all(|entry| entry.group != leader)
    }
}

/// Looks that found nobody, in a row.
#[derive(Debug, Default)]
pub(super) struct Proof {
    empty_looks: u32,
}

impl Proof {
    /// Adds a look; whether it is proved now that nobody is left.
    pub(super) fn add(&mut self, is_empty: bool, observed: &Observed) -> bool {
        if !is_empty {
            self.empty_looks = 0;
        } else if observed.is_whole {
            self.empty_looks += 1;
        }
        let is_certain = observed.is_whole && observed.is_exhaustive;
        is_empty && (is_certain || self.empty_looks >= EMPTY_LOOKS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(is_whole: bool, is_exhaustive: bool) -> Observed {
        Observed {
            members: Vec::new(),
            is_whole,
            is_exhaustive,
        }
    }

    #[test]
    fn one_look_proves_only_where_nobody_can_have_been_missed() {
        assert!(Proof::default().add(true, &look(true, true)));
        assert!(!Proof::default().add(true, &look(true, false)));
        assert!(!Proof::default().add(true, &look(false, true)));
        assert!(!Proof::default().add(false, &look(true, true)));
    }

    #[test]
    fn two_whole_looks_in_a_row_prove() {
        let mut proof = Proof::default();

        assert!(!proof.add(true, &look(true, false)));
        assert!(!proof.add(false, &look(true, false)));
        assert!(!proof.add(true, &look(true, false)));
        assert!(!proof.add(true, &look(false, false)));
        assert!(proof.add(true, &look(true, false)));
    }
}
