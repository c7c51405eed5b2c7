//! The change feed against a model: a reader that applies each batch to what it knew, and reads each file that was
//! created or changed, knows in the end what is there. Files and folders come, go, move and change places, before the
//! feed is asked and while it works.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use lspool_world::fs::{ChangeBatch, ChangeFeed, ChangeKind, WatchFilter};
use proptest::prelude::*;

use crate::fixture::{Fixture, LocalFixture};
use crate::watch::{feed_of, shell};

/// What a reader knows: each file with its content when it was read, none when it was gone by then.
#[derive(Debug, Default, PartialEq)]
struct Known(BTreeMap<PathBuf, Option<String>>);

impl Known {
    /// All files below a folder that pass the filter, found without a feed.
    fn by_walk(root: &Path, filter: &WatchFilter) -> Self {
        let mut known = Self::default();
        let mut left = vec![root.to_path_buf()];
        while let Some(folder) = left.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    left.push(path);
                } else if filter.matches(path.strip_prefix(root).unwrap()) {
                    let content = fs::read_to_string(&path).ok();
                    known.0.insert(path, content);
                }
            }
        }
        known
    }

    /// Takes in a batch, in which each change must fit what was known. Whoever reads meanwhile may have read another
    /// file under the old name of a renamed one, and reads that again.
    fn apply(&mut self, batch: &ChangeBatch, is_concurrent: bool) {
        assert!(!batch.lost && !batch.degraded);
        for change in &batch.changes {
            let path = change.path.clone();
            let content = fs::read_to_string(&path).ok();
            let does_not_fit = match &change.kind {
                ChangeKind::Created => self.0.insert(path, content).is_some(),
                ChangeKind::Changed => self.0.insert(path, content).is_none(),
                ChangeKind::Deleted => self.0.remove(&path).is_none(),
                ChangeKind::Renamed { from } => {
                    let moved = self.0.remove(from);
                    let was_there = moved.is_some();
                    let content = if is_concurrent {
                        content
                    } else {
                        moved.flatten()
                    };
                    self.0.insert(path, content).is_some() || !was_there
                }
            };
            assert!(!does_not_fit, "{change:?} does not fit: {batch:?}");
        }
    }

    fn names(&self, root: &Path) -> Vec<String> {
        let paths = self.0.keys();
        paths
            .map(|path| path.strip_prefix(root).unwrap().display().to_string())
            .collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folders_that_change_places_are_told_apart() {
    let fixture = LocalFixture::open().await;
    fixture.put("a/one.rs", b"1");
    fixture.put("b/two.rs", b"1");
    fixture.put("c/same.rs", b"1");
    let filter = WatchFilter::new(["**/*.rs"]).unwrap();
    let mut known = Known::by_walk(fixture.scratch(), &filter);
    let mut feed = feed_of(&fixture, ".", &["**/*.rs"]).await;

    shell(
        &fixture,
        "mv a t && mv b a && mv t b && mv c d && mkdir c && echo 2 > c/same.rs",
    )
    .await;
    known.apply(&feed.sync().await.unwrap(), false);
    assert_eq!(
        known.names(fixture.scratch()),
        ["a/two.rs", "b/one.rs", "c/same.rs", "d/same.rs"]
    );
    assert_eq!(known, Known::by_walk(fixture.scratch(), &filter));

    // and what happens in them afterwards has their new names
    shell(
        &fixture,
        "for file in a/two.rs b/one.rs c/same.rs; do echo 3 > $file; done",
    )
    .await;
    let batch = feed.sync().await.unwrap();
    assert_eq!(batch.changes.len(), 3);
    known.apply(&batch, false);
    assert_eq!(known, Known::by_walk(fixture.scratch(), &filter));
    drop(feed);
    fixture.close().await;
}

/// One thing that happens. What cannot happen, since something is missing or in the way, does not.
#[derive(Clone, Debug)]
enum Step {
    Write(String),
    MakeFolder(String),
    RemoveFile(String),
    RemoveFolder(String),
    Rename(String, String),
    Exchange(String, String),
    Copy(String, String),
}

fn step() -> impl Strategy<Value = Step> {
    // Few names, so that things meet. "f.x" and "g.y" are files and match or do not; the others are folders.
    let folder = || {
        let name = prop::sample::select(vec!["a", "b", "c"]);
        prop::collection::vec(name, 0..4).prop_map(|names| names.join("/"))
    };
    let file = move || {
        let name = prop::sample::select(vec!["f.x", "g.x", "h.y"]);
        (folder(), name).prop_map(|(folder, name)| format!("{folder}/{name}"))
    };
    prop_oneof![
        4 => file().prop_map(Step::Write),
        2 => folder().prop_map(Step::MakeFolder),
        1 => file().prop_map(Step::RemoveFile),
        1 => folder().prop_map(Step::RemoveFolder),
        2 => (file(), file()).prop_map(|(from, to)| Step::Rename(from, to)),
        4 => (folder(), folder()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => (folder(), folder()).prop_map(|(one, other)| Step::Exchange(one, other)),
        1 => (file(), file()).prop_map(|(one, other)| Step::Exchange(one, other)),
        1 => (file(), file()).prop_map(|(from, to)| Step::Copy(from, to)),
    ]
}

fn happen(root: &Path, step: &Step, content: usize) {
    let at = |path: &str| root.join(path.trim_matches('/'));
    let _impossible = match step {
        Step::Write(file) => fs::write(at(file), content.to_string()),
        Step::MakeFolder(folder) => fs::create_dir_all(at(folder)),
        Step::RemoveFile(file) => fs::remove_file(at(file)),
        Step::RemoveFolder(folder) if at(folder) != root => fs::remove_dir_all(at(folder)),
        Step::RemoveFolder(_) => Ok(()),
        Step::Rename(from, to) => fs::rename(at(from), at(to)),
        Step::Exchange(one, other) => rustix::fs::renameat_with(
            rustix::fs::CWD,
            at(one),
            rustix::fs::CWD,
            at(other),
            rustix::fs::RenameFlags::EXCHANGE,
        )
        .map_err(Into::into),
        Step::Copy(from, to) => fs::copy(at(from), at(to)).map(|_| ()),
    };
}

/// Lets steps happen in rounds, and takes the changes of each in.
async fn follow(rounds: &[Vec<Step>], is_concurrent: bool) {
    let scratch = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(scratch.path()).unwrap().join("root");
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::write(root.join("a/b/f.x"), "0").unwrap();
    let fixture = LocalFixture::open().await;
    let filter = WatchFilter::new(["**/f.x", "a/**/g.x"]).unwrap();
    let mut known = Known::by_walk(&root, &filter);
    let target = fixture.target(&root).await;
    let mut feed = fixture.world().fs().watch(&target, &filter).await.unwrap();

    for (round, steps) in rounds.iter().enumerate() {
        let happening = || {
            for (at, step) in steps.iter().enumerate() {
                happen(&root, step, round * 1_000 + at);
            }
        };
        if is_concurrent {
            while_it_happens(&mut feed, &mut known, happening);
        } else {
            happening();
        }
        known.apply(&feed.sync().await.unwrap(), is_concurrent);
        assert_eq!(known, Known::by_walk(&root, &filter), "in round {round}");
    }
    drop(feed);
    fixture.close().await;
}

/// Takes changes in while a thread makes them.
fn while_it_happens(
    feed: &mut Box<dyn ChangeFeed>,
    known: &mut Known,
    happening: impl FnOnce() + Send,
) {
    let has_happened = AtomicBool::new(false);
    let runtime = tokio::runtime::Handle::current();
    tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                happening();
                has_happened.store(true, Ordering::Release);
            });
            while !has_happened.load(Ordering::Acquire) {
                known.apply(&runtime.block_on(feed.sync()).unwrap(), true);
            }
        });
    });
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

fn rounds(steps: usize) -> impl Strategy<Value = Vec<Vec<Step>>> {
    prop::collection::vec(prop::collection::vec(step(), 1..steps), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_reader_that_asks_afterwards_knows_what_is_there(rounds in rounds(20)) {
        runtime().block_on(follow(&rounds, false));
    }

    #[test]
    fn a_reader_that_asks_meanwhile_knows_what_is_there(rounds in rounds(60)) {
        runtime().block_on(follow(&rounds, true));
    }
}
