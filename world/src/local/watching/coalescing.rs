//! Several changes of one file become one. Pure: owns the rule that the changes, applied one after the other to the
//! files that were there before, give the files that are there now, and that whoever reads each file that was created or
//! changed has its newest content.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::fs::{ChangeKind, FileChange};

/// Changes that were seen and not yet given.
#[derive(Debug, Default)]
pub(super) struct Coalesced {
    /// In the order in which they apply. One that another change took back is `None`.
    changes: Vec<Option<FileChange>>,
    /// For each path, the places of the changes that name it as their path or as their origin, in order.
    touching: HashMap<PathBuf, Vec<usize>>,
}

impl Coalesced {
    /// Whether there is nothing to give.
    pub(super) fn is_empty(&self) -> bool {
        self.changes.iter().all(Option::is_none)
    }

    /// All changes so far, which are forgotten.
    pub(super) fn take(&mut self) -> Vec<FileChange> {
        self.touching.clear();
        std::mem::take(&mut self.changes)
            .into_iter()
            .flatten()
            .collect()
    }

    /// Forgets all changes so far.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// A file is there that was not.
    pub(super) fn created(&mut self, path: &Path) {
        match self.last(path) {
            Some((at, ChangeKind::Deleted)) => self.replace(at, ChangeKind::Changed),
            Some((_, ChangeKind::Created | ChangeKind::Changed)) => {}
            Some((_, ChangeKind::Renamed { .. })) | None => {
                self.append(path, ChangeKind::Created);
            }
        }
    }

    /// The content or metadata of a file changed.
    pub(super) fn changed(&mut self, path: &Path) {
        match self.last(path) {
            Some((_, ChangeKind::Created | ChangeKind::Changed)) => {}
            Some((at, ChangeKind::Deleted)) => self.replace(at, ChangeKind::Changed),
            Some((_, ChangeKind::Renamed { .. })) | None => {
                self.append(path, ChangeKind::Changed);
            }
        }
    }

    /// A file is gone.
    pub(super) fn deleted(&mut self, path: &Path) {
        match self.last(path) {
            None => self.append(path, ChangeKind::Deleted),
            Some((_, ChangeKind::Deleted)) => {}
            Some((at, ChangeKind::Created)) => self.remove(at),
            Some((at, ChangeKind::Changed)) => {
                self.remove(at);
                self.deleted(path);
            }
            Some((at, ChangeKind::Renamed { from })) => self.deleted_after_rename(at, &from),
        }
    }

    /// What was renamed at this place is gone: it is as if it had been deleted under its first name.
    fn deleted_after_rename(&mut self, at: usize, from: &Path) {
        match self.next_touching(from, at) {
            None => {
                self.remove(at);
                self.deleted(from);
            }
            Some(later) if self.is(later, from, &ChangeKind::Created) => {
                self.remove(at);
                self.replace(later, ChangeKind::Changed);
            }
            // The first name is taken again by another rename, before which it has to be free.
            Some(_) => {
                let origin = FileChange {
                    path: from.to_path_buf(),
                    kind: ChangeKind::Deleted,
                };
                self.untouch(at);
                self.changes[at] = Some(origin);
                self.touch(from, at);
            }
        }
    }

    /// A file has another name now, which no file had.
    pub(super) fn renamed(&mut self, from: &Path, to: &Path) {
        match self.last(from) {
            Some((at, ChangeKind::Created)) => {
                self.remove(at);
                self.created(to);
            }
            Some((at, ChangeKind::Changed)) => {
                self.remove(at);
                self.renamed(from, to);
                self.changed(to);
            }
            Some((at, ChangeKind::Renamed { from: first }))
                if self.next_touching(&first, at).is_none() =>
            {
                self.remove(at);
                if first != to {
                    self.append_rename(&first, to);
                }
            }
            Some((_, ChangeKind::Renamed { .. } | ChangeKind::Deleted)) | None => {
                self.append_rename(from, to);
            }
        }
    }

    /// The last change that has this path, with its place; none when the last that names it moved its file away.
    fn last(&self, path: &Path) -> Option<(usize, ChangeKind)> {
        let at = *self.touching.get(path)?.last()?;
        let change = self.changes[at].as_ref()?;
        (change.path == path).then(|| (at, change.kind.clone()))
    }

    /// The place of the first change after `at` that names the path.
    fn next_touching(&self, path: &Path, at: usize) -> Option<usize> {
        let places = self.touching.get(path)?;
        places.iter().copied().find(|place| *place > at)
    }

    fn is(&self, at: usize, path: &Path, kind: &ChangeKind) -> bool {
        self.changes[at]
            .as_ref()
            .is_some_and(|change| change.path == path && change.kind == *kind)
    }

    fn append_rename(&mut self, from: &Path, to: &Path) {
        let from = from.to_path_buf();
        self.append(to, ChangeKind::Renamed { from });
    }

    fn append(&mut self, path: &Path, kind: ChangeKind) {
        let at = self.changes.len();
        if let ChangeKind::Renamed { from } = &kind {
            self.touch(from, at);
        }
        self.touch(path, at);
        let path = path.to_path_buf();
        self.changes.push(Some(FileChange { path, kind }));
    }

    /// Gives a change that has one path another kind that has one path.
    fn replace(&mut self, at: usize, kind: ChangeKind) {
        if let Some(change) = &mut self.changes[at] {
            change.kind = kind;
        }
    }

    fn remove(&mut self, at: usize) {
        self.untouch(at);
        self.changes[at] = None;
    }

    fn touch(&mut self, path: &Path, at: usize) {
        let places = self.touching.entry(path.to_path_buf()).or_default();
        let after = places.partition_point(|place| *place < at);
        places.insert(after, at);
    }

    fn untouch(&mut self, at: usize) {
        let Some(change) = &self.changes[at] else {
            return;
        };
        let mut paths = vec![change.path.clone()];
        if let ChangeKind::Renamed { from } = &change.kind {
            paths.push(from.clone());
        }
        for path in paths {
            if let Some(places) = self.touching.get_mut(&path) {
                places.retain(|place| *place != at);
                if places.is_empty() {
                    self.touching.remove(&path);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// One thing that happens to files `a` to `e`. What cannot happen to the files that are there does not.
    #[derive(Clone, Debug)]
    enum Step {
        Create(u8),
        Change(u8),
        Delete(u8),
        Rename(u8, u8),
    }

    fn path(number: u8) -> PathBuf {
        PathBuf::from(char::from(b'a' + number).to_string())
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..5u8).prop_map(Step::Create),
            (0..5u8).prop_map(Step::Change),
            (0..5u8).prop_map(Step::Delete),
            (0..5u8, 0..5u8).prop_map(|(from, to)| Step::Rename(from, to)),
            (0..5u8, 0..5u8).prop_map(|(from, to)| Step::Rename(from, to)),
        ]
    }

    /// The files by path, each with its content.
    type Files = BTreeMap<PathBuf, usize>;

    /// Lets a step happen, and tells it as the watch does.
    fn happen(files: &mut Files, pending: &mut Coalesced, step: &Step, content: usize) {
        match *step {
            Step::Create(number) if !files.contains_key(&path(number)) => {
                files.insert(path(number), content);
                pending.created(&path(number));
            }
            Step::Change(number) if files.contains_key(&path(number)) => {
                files.insert(path(number), content);
                pending.changed(&path(number));
            }
            Step::Delete(number) if files.contains_key(&path(number)) => {
                files.remove(&path(number));
                pending.deleted(&path(number));
            }
            Step::Rename(from, to) if from != to && files.contains_key(&path(from)) => {
                let content = files.remove(&path(from)).unwrap();
                if files.insert(path(to), content).is_some() {
                    pending.deleted(&path(from));
                    pending.changed(&path(to));
                } else {
                    pending.renamed(&path(from), &path(to));
                }
            }
            _ => {}
        }
    }

    /// Applies the changes as a reader does that reads a file when it hears of it.
    fn apply(known: &mut BTreeMap<PathBuf, Option<usize>>, changes: &[FileChange], now: &Files) {
        for change in changes {
            let content = now.get(&change.path).copied();
            let before = known.contains_key(&change.path);
            match &change.kind {
                ChangeKind::Created => {
                    assert!(!before, "{} was created twice", change.path.display());
                    known.insert(change.path.clone(), content);
                }
                ChangeKind::Changed => {
                    assert!(
                        before,
                        "{} changed and was not there",
                        change.path.display()
                    );
                    known.insert(change.path.clone(), content);
                }
                ChangeKind::Deleted => {
                    assert!(before, "{} was deleted twice", change.path.display());
                    known.remove(&change.path);
                }
                ChangeKind::Renamed { from } => {
                    assert!(!before, "{} was renamed over a file", change.path.display());
                    let content = known.remove(from).expect("the file that was renamed");
                    known.insert(change.path.clone(), content);
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn the_changes_lead_from_the_old_files_to_the_new_ones(
            old in prop::collection::btree_set(0..5u8, 0..5),
            steps in prop::collection::vec(step(), 0..14),
        ) {
            let old: Files = old.into_iter().map(|number| (path(number), usize::from(number))).collect();
            let mut now = old.clone();
            let mut pending = Coalesced::default();
            for (at, step) in steps.iter().enumerate() {
                happen(&mut now, &mut pending, step, 100 + at);
            }

            let is_empty = pending.is_empty();
            let changes = pending.take();
            let mut known: BTreeMap<_, _> = old.into_iter().map(|(path, content)| (path, Some(content))).collect();
            apply(&mut known, &changes, &now);

            let now: BTreeMap<_, _> = now.into_iter().map(|(path, content)| (path, Some(content))).collect();
            prop_assert_eq!(known, now);
            prop_assert_eq!(is_empty, changes.is_empty());
            prop_assert!(pending.is_empty());
        }

        #[test]
        fn without_renames_each_file_is_named_at_most_once(
            old in prop::collection::btree_set(0..5u8, 0..5),
            steps in prop::collection::vec(step(), 0..14),
        ) {
            let mut now: Files = old.into_iter().map(|number| (path(number), 0)).collect();
            let mut pending = Coalesced::default();
            for step in steps.iter().filter(|step| !matches!(step, Step::Rename(..))) {
                happen(&mut now, &mut pending, step, 1);
            }

            let mut paths: Vec<_> = pending.take().into_iter().map(|change| change.path).collect();
            let count = paths.len();
            paths.sort();
            paths.dedup();
            prop_assert_eq!(count, paths.len());
        }
    }

    /// What becomes of the steps when `a` and `b` are there and the others are not.
    fn told(steps: &[Step]) -> Vec<(String, ChangeKind)> {
        let mut files: Files = [(path(0), 0), (path(1), 1)].into();
        let mut pending = Coalesced::default();
        for step in steps {
            happen(&mut files, &mut pending, step, 2);
        }
        let changes = pending.take().into_iter();
        changes
            .map(|change| (change.path.display().to_string(), change.kind))
            .collect()
    }

    fn renamed(from: &str) -> ChangeKind {
        ChangeKind::Renamed { from: from.into() }
    }

    #[test]
    fn what_belongs_together_becomes_one() {
        use ChangeKind::{Changed, Created, Deleted};
        use Step::{Change, Create, Delete, Rename};
        let named = |path: &str, kind| (path.to_owned(), kind);

        assert_eq!(told(&[Create(2), Change(2)]), [named("c", Created)]);
        assert_eq!(told(&[Create(2), Delete(2)]), []);
        assert_eq!(told(&[Delete(0), Create(0)]), [named("a", Changed)]);
        assert_eq!(told(&[Change(0), Change(0)]), [named("a", Changed)]);
        assert_eq!(told(&[Change(0), Delete(0)]), [named("a", Deleted)]);
        assert_eq!(
            told(&[Rename(0, 2), Rename(2, 3)]),
            [named("d", renamed("a"))]
        );
        assert_eq!(told(&[Rename(0, 2), Rename(2, 0)]), []);
        assert_eq!(told(&[Rename(0, 2), Delete(2)]), [named("a", Deleted)]);
        assert_eq!(told(&[Create(2), Rename(2, 3)]), [named("d", Created)]);
        assert_eq!(
            told(&[Change(0), Rename(0, 2)]),
            [named("c", renamed("a")), named("c", Changed)]
        );
        // A file is written beside its place and put there.
        assert_eq!(
            told(&[Create(2), Change(2), Rename(2, 0)]),
            [named("a", Changed)]
        );
        // It is moved aside, written anew, and the old one goes.
        assert_eq!(
            told(&[Rename(0, 2), Create(0), Delete(2)]),
            [named("a", Changed)]
        );
    }

    #[test]
    fn what_does_not_belong_together_keeps_its_order() {
        use ChangeKind::{Changed, Created, Deleted};
        use Step::{Change, Create, Delete};

        let kinds: Vec<_> = told(&[Change(1), Delete(0), Create(2)])
            .into_iter()
            .map(|(_, kind)| kind)
            .collect();

        assert_eq!(kinds, [Changed, Deleted, Created]);
    }
}
