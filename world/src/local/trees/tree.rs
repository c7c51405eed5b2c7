//! Which processes belong to a tree. Owns the rule of membership, pure over a process table: the root, its group, all
//! descendants, all that carries the tree's marker, all that its control group holds, all that was seen as a member
//! before, and whoever shares a session with a member that leads it. A process that only looks like a member because an
//! id was reused is none: start times fence every step.
//!
//! The limit: a process that left the group, lost its parents, cleared its environment, is in no control group of the
//! tree and was never seen before cannot be told from a stranger.

use std::collections::HashSet;

use super::table::{ProcessEntry, ProcessIdentity, ProcessTable};

/// One tree of processes, and who was seen in it.
#[derive(Debug)]
pub(in crate::local) struct Tree {
    root: u32,
    /// When the root started; not known before the first look.
    root_start: Option<u64>,
    marker: Option<Vec<u8>>,
    known: HashSet<ProcessIdentity>,
    strangers: HashSet<ProcessIdentity>,
}

impl Tree {
    /// The tree below `root`, which leads its own group and is not reaped while this tree is observed: its id, which is
    /// the group's, is therefore not reused. `marker` is an environment entry `NAME=VALUE`.
    pub(in crate::local) fn new(root: u32, marker: Option<Vec<u8>>) -> Self {
        Self {
            root,
            root_start: None,
            marker,
            known: HashSet::new(),
            strangers: HashSet::new(),
        }
    }

    /// The id of the root.
    pub(super) fn root(&self) -> u32 {
        self.root
    }

    /// Those who were members at the last look.
    pub(super) fn known(&self) -> &HashSet<ProcessIdentity> {
        &self.known
    }

    /// Remembers members that were found in another way.
    pub(super) fn remember(&mut self, members: impl IntoIterator<Item = ProcessIdentity>) {
        self.known.extend(members);
    }

    /// Remembers these members and no others.
    pub(super) fn remember_only(&mut self, members: impl IntoIterator<Item = ProcessIdentity>) {
        self.known = members.into_iter().collect();
    }

    /// The members, ended ones that wait to be reaped too. `held` are the ids that the tree's control group has, which
    /// was read after the table was.
    pub(super) fn members(
        &mut self,
        table: &ProcessTable,
        held: &HashSet<u32>,
    ) -> Vec<ProcessEntry> {
        let entries = table.entries();
        if self.root_start.is_none() {
            let root = entries.iter().find(|entry| entry.identity.pid == self.root);
            self.root_start = root.map(|root| root.identity.start);
        }
        let places = 0..entries.len();
        let mut found: Vec<usize> = places
            .filter(|index| self.is_seed(table, *index, held))
            .collect();
        let mut is_member = vec![false; entries.len()];
        for index in &found {
            is_member[*index] = true;
        }
        let mut next = 0;
        while let Some(member) = found.get(next).map(|index| &entries[*index]) {
            next += 1;
            for index in followers(table, member) {
                if !is_member[index] && self.can_belong(&entries[index]) {
                    is_member[index] = true;
                    found.push(index);
                }
            }
        }
        let members: Vec<ProcessEntry> = found.into_iter().map(|index| entries[index]).collect();
        self.known = members.iter().map(|entry| entry.identity).collect();
        if !self.strangers.is_empty() {
            let existing: HashSet<ProcessIdentity> =
                entries.iter().map(|entry| entry.identity).collect();
            self.strangers
                .retain(|identity| existing.contains(identity));
        }
        members
    }

    /// Whether a process is a member by itself.
    fn is_seed(&mut self, table: &ProcessTable, index: usize, held: &HashSet<u32>) -> bool {
        let entry = &table.entries()[index];
        if !self.can_belong(entry) {
            return false;
        }
        entry.identity.pid == self.root
            || entry.group == self.root
            || held.contains(&entry.identity.pid)
            || self.known.contains(&entry.identity)
            || self.carries_marker(table, index)
    }

    /// Nothing that is older than the root was started by it, and lspool itself never is its own child.
    fn can_belong(&self, entry: &ProcessEntry) -> bool {
        self.root_start
            .is_none_or(|start| entry.identity.start >= start)
            && entry.identity.pid != std::process::id()
    }

    /// Whether a process carries the marker. One that does not is remembered, since a process gains no environment but
    /// from a member that starts it; one whose environment is empty may be between two programs and is asked again.
    fn carries_marker(&mut self, table: &ProcessTable, index: usize) -> bool {
        let Some(marker) = &self.marker else {
            return false;
        };
        let entry = &table.entries()[index];
        if !entry.is_live || self.strangers.contains(&entry.identity) {
            return false;
        }
        let Some(environment) = table.environment(index) else {
            return false;
        };
        let carries = environment
            .split(|byte| *byte == 0)
            .any(|entry| entry == marker);
        if !carries && !environment.is_empty() {
            self.strangers.insert(entry.identity);
        }
        carries
    }
}

/// The places of those who are members because `member` is one: its children, and its session where it leads one.
fn followers(table: &ProcessTable, member: &ProcessEntry) -> impl Iterator<Item = usize> {
    let pid = member.identity.pid;
    let start = member.identity.start;
    let children = table.children(pid).iter().copied();
    let children = children.filter(move |index| table.entries()[*index].identity.start >= start);
    let mates: &[usize] = if member.session == pid {
        table.session(pid)
    } else {
        &[]
    };
    children.chain(mates.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pid: u32, start: u64, parent: u32, group: u32, session: u32) -> ProcessEntry {
        ProcessEntry {
            identity: ProcessIdentity { pid, start },
            parent,
            group,
            session,
            is_live: true,
            cpu_ticks: 0,
        }
    }

    fn tree() -> Tree {
        Tree::new(1_000_100, Some(b"MARK=a".to_vec()))
    }

    fn pids_held(tree: &mut Tree, rows: &[ProcessEntry], held: &[u32]) -> Vec<u32> {
        let mut table = ProcessTable::of(rows.to_vec());
        for (index, row) in rows.iter().enumerate() {
            let environment: &[u8] = match row.identity.pid {
                1_000_900 => b"X=1\0MARK=a\0",
                _ => b"MARK=ab\0",
            };
            table.set_environment(index, Some(environment));
        }
        let held = held.iter().copied().collect();
        let live = tree
            .members(&table, &held)
            .into_iter()
            .filter(|row| row.is_live);
        let mut pids: Vec<u32> = live.map(|row| row.identity.pid - 1_000_000).collect();
        pids.sort_unstable();
        pids
    }

    fn pids(tree: &mut Tree, rows: &[ProcessEntry]) -> Vec<u32> {
        pids_held(tree, rows, &[])
    }

    const BASE: u32 = 1_000_000;

    #[test]
    fn group_descendants_marked_and_session_mates_belong() {
        let rows = [
            row(BASE + 100, 50, 1, BASE + 100, 7),
            row(BASE + 101, 60, 1, BASE + 100, 7),
            row(BASE + 102, 60, BASE + 101, BASE + 102, BASE + 102),
            row(BASE + 103, 70, 1, BASE + 103, BASE + 102),
            row(BASE + 900, 70, 1, BASE + 900, BASE + 900),
            row(BASE + 500, 70, 1, BASE + 500, 7),
        ];

        assert_eq!(pids(&mut tree(), &rows), [100, 101, 102, 103, 900]);
    }

    #[test]
    fn a_member_that_lost_its_parents_is_still_known() {
        let mut tree = tree();
        let root = row(BASE + 100, 50, 1, BASE + 100, 7);
        pids(
            &mut tree,
            &[
                root,
                row(BASE + 102, 60, BASE + 100, BASE + 102, BASE + 102),
            ],
        );

        let later = [root, row(BASE + 102, 60, 1, BASE + 102, BASE + 102)];

        assert_eq!(pids(&mut tree, &later), [100, 102]);
    }

    #[test]
    fn a_reused_id_donates_nobody() {
        let mut tree = tree();
        let root = row(BASE + 100, 50, 1, BASE + 100, 7);
        pids(
            &mut tree,
            &[
                root,
                row(BASE + 102, 60, BASE + 100, BASE + 102, BASE + 102),
            ],
        );

        let reused = [
            root,
            row(BASE + 102, 90, 1, BASE + 102, BASE + 102),
            row(BASE + 103, 95, BASE + 102, BASE + 102, BASE + 102),
        ];

        assert_eq!(pids(&mut tree, &reused), [100]);
    }

    #[test]
    fn what_is_older_than_the_root_is_a_stranger() {
        let rows = [
            row(BASE + 100, 50, 1, BASE + 100, 7),
            row(BASE + 900, 49, 1, BASE + 900, BASE + 900),
        ];

        assert_eq!(pids(&mut tree(), &rows), [100]);
    }

    #[test]
    fn who_is_held_by_the_control_group_belongs_with_its_descendants() {
        let rows = [
            row(BASE + 100, 50, 1, BASE + 100, 7),
            row(BASE + 101, 60, 1, BASE + 101, BASE + 101),
            row(BASE + 102, 60, BASE + 101, BASE + 102, BASE + 102),
            row(BASE + 103, 60, 1, BASE + 103, BASE + 103),
        ];

        assert_eq!(
            pids_held(&mut tree(), &rows, &[BASE + 101]),
            [100, 101, 102]
        );
    }

    #[test]
    fn a_process_whose_environment_cannot_be_read_is_judged_by_the_other_rules() {
        let mut table = ProcessTable::of(vec![
            row(BASE + 100, 50, 1, BASE + 100, 7),
            row(BASE + 101, 60, BASE + 100, BASE + 101, 7),
            row(BASE + 102, 60, 1, BASE + 102, 7),
        ]);
        for index in 0..3 {
            table.set_environment(index, None);
        }

        let members = tree().members(&table, &HashSet::new());

        let pids: Vec<u32> = members.iter().map(|row| row.identity.pid).collect();
        assert_eq!(pids, [BASE + 100, BASE + 101]);
    }

    #[test]
    fn a_zombie_is_gone_but_its_children_are_not() {
        let mut zombie = row(BASE + 100, 50, 1, BASE + 100, 7);
        zombie.is_live = false;

        assert_eq!(
            pids(
                &mut tree(),
                &[zombie, row(BASE + 101, 60, BASE + 100, BASE + 101, 7)]
            ),
            [101]
        );
    }
}
