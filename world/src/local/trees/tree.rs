//! Which processes belong to a tree. Owns the rule of membership, pure over a process table: the root, its group, all
//! descendants, all that carries the tree's marker, all that was seen as a member before, and whoever shares a session
//! with a member that leads it. A process that only looks like a member because an id was reused is none: start times
//! fence every step.
//!
//! The limit: a process that left the group, lost its parents, cleared its environment and was never seen before cannot
//! be told from a stranger.

use std::collections::{BTreeMap, HashSet};

use super::table::{Identity, Row};

/// One tree of processes, and who was seen in it.
#[derive(Debug)]
pub(in crate::local) struct Tree {
    root: Identity,
    marker: Option<Vec<u8>>,
    known: HashSet<Identity>,
    strangers: HashSet<Identity>,
}

impl Tree {
    /// The tree below `root`, which leads its own group and is not reaped while this tree is observed: its id, which is
    /// the group's, is therefore not reused. `marker` is an environment entry `NAME=VALUE`.
    pub(in crate::local) fn new(root: Identity, marker: Option<Vec<u8>>) -> Self {
        Self {
            root,
            marker,
            known: HashSet::from([root]),
            strangers: HashSet::new(),
        }
    }

    /// The root.
    #[cfg(not(target_os = "linux"))]
    pub(in crate::local) fn root(&self) -> Identity {
        self.root
    }

    /// The members that still run. `environment` reads the environment of a process.
    pub(in crate::local) fn live_members(
        &mut self,
        rows: &[Row],
        environment: impl Fn(u32) -> Option<Vec<u8>>,
    ) -> Vec<Row> {
        let mut members: BTreeMap<u32, Row> = BTreeMap::new();
        for row in rows {
            if self.is_seed(row, &environment) {
                members.insert(row.identity.pid, *row);
            }
        }
        let mut grew = true;
        while grew {
            grew = false;
            for row in rows {
                if !members.contains_key(&row.identity.pid) && self.follows(row, &members) {
                    members.insert(row.identity.pid, *row);
                    grew = true;
                }
            }
        }
        self.known = members.values().map(|row| row.identity).collect();
        self.known.insert(self.root);
        let existing: HashSet<Identity> = rows.iter().map(|row| row.identity).collect();
        self.strangers
            .retain(|identity| existing.contains(identity));
        members.into_values().filter(|row| row.is_live).collect()
    }

    /// Whether a row is a member by itself.
    fn is_seed(&mut self, row: &Row, environment: &impl Fn(u32) -> Option<Vec<u8>>) -> bool {
        if !self.can_belong(row) {
            return false;
        }
        self.known.contains(&row.identity)
            || row.group == self.root.pid
            || self.carries_marker(row, environment)
    }

    /// Whether a row is a member because of another member.
    fn follows(&self, row: &Row, members: &BTreeMap<u32, Row>) -> bool {
        let is_child = members
            .get(&row.parent)
            .is_some_and(|parent| parent.identity.start <= row.identity.start);
        let shares_session = members
            .get(&row.session)
            .is_some_and(|leader| leader.session == leader.identity.pid);
        self.can_belong(row) && (is_child || shares_session)
    }

    /// Nothing that is older than the root was started by it, and lspool itself never is its own child.
    fn can_belong(&self, row: &Row) -> bool {
        row.identity.start >= self.root.start && row.identity.pid != std::process::id()
    }

    /// Whether a process carries the marker. One that does not is remembered, since a process gains no environment but
    /// from a member that starts it; one whose environment is empty may be between two programs and is asked again.
    fn carries_marker(&mut self, row: &Row, environment: &impl Fn(u32) -> Option<Vec<u8>>) -> bool {
        let Some(marker) = &self.marker else {
            return false;
        };
        if !row.is_live || self.strangers.contains(&row.identity) {
            return false;
        }
        let Some(entries) = environment(row.identity.pid) else {
            return false;
        };
        let carries = entries
            .split(|byte| *byte == 0)
            .any(|entry| entry == marker);
        if !carries && !entries.is_empty() {
            self.strangers.insert(row.identity);
        }
        carries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pid: u32, start: u64, parent: u32, group: u32, session: u32) -> Row {
        Row {
            identity: Identity { pid, start },
            parent,
            group,
            session,
            is_live: true,
        }
    }

    fn tree() -> Tree {
        Tree::new(
            Identity {
                pid: 1_000_100,
                start: 50,
            },
            Some(b"MARK=a".to_vec()),
        )
    }

    fn pids(tree: &mut Tree, rows: &[Row]) -> Vec<u32> {
        let environment = |pid| {
            Some(if pid == 1_000_900 {
                b"X=1\0MARK=a\0".to_vec()
            } else {
                b"MARK=ab\0".to_vec()
            })
        };
        tree.live_members(rows, environment)
            .iter()
            .map(|row| row.identity.pid - 1_000_000)
            .collect()
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
