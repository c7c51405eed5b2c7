//! The change feed: what it reports, and that its barrier holds. All changes are made by other processes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use lspool_world::fs::{ChangeBatch, ChangeFeed, ChangeKind, WatchFilter};
use lspool_world::{FsError, OutputMode, StdinMode};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::fixture::{Fixture, LONG};
use crate::poll::each_drop;

/// A feed of a folder below the scratch folder.
pub(crate) async fn feed_of(
    fixture: &impl Fixture,
    folder: &str,
    globs: &[&str],
) -> Box<dyn ChangeFeed> {
    let folder = fixture.target(folder).await;
    let filter = WatchFilter::new(globs.iter().copied()).unwrap();
    fixture.world().fs().watch(&folder, &filter).await.unwrap()
}

/// Runs a shell script in the scratch folder, to its end.
pub(crate) async fn shell(fixture: &impl Fixture, script: &str) {
    fixture.output(fixture.script(script)).await;
}

/// The changes of a batch in words, with paths below the scratch folder.
pub(crate) fn words(fixture: &impl Fixture, batch: &ChangeBatch) -> Vec<String> {
    let short = |path: &Path| {
        let path = path.strip_prefix(fixture.scratch()).unwrap();
        path.display().to_string()
    };
    let changes = batch.changes.iter();
    changes
        .map(|change| match &change.kind {
            ChangeKind::Created => format!("created {}", short(&change.path)),
            ChangeKind::Changed => format!("changed {}", short(&change.path)),
            ChangeKind::Deleted => format!("deleted {}", short(&change.path)),
            ChangeKind::Renamed { from } => {
                format!("renamed {} to {}", short(from), short(&change.path))
            }
        })
        .collect()
}

/// What `sync` gives, in words and sorted; nothing may be lost.
async fn synced(fixture: &impl Fixture, feed: &mut Box<dyn ChangeFeed>) -> Vec<String> {
    let batch = feed.sync().await.unwrap();
    assert!(!batch.lost && !batch.degraded);
    let mut words = words(fixture, &batch);
    words.sort();
    words
}

fn words_of(fixture: &impl Fixture, batch: Option<&ChangeBatch>) -> Vec<String> {
    batch.map_or_else(Vec::new, |batch| words(fixture, batch))
}

pub(crate) async fn each_kind_of_change_is_reported(fixture: &impl Fixture) {
    assert!(fixture.world().fs().facts().watch);
    fixture.put("old.rs", b"1");
    fixture.put("moved.rs", b"1");
    let mut feed = feed_of(fixture, ".", &["**/*.rs"]).await;

    shell(fixture, "echo a > new.rs").await;
    assert_eq!(synced(fixture, &mut feed).await, ["created new.rs"]);

    shell(fixture, "echo more >> old.rs").await;
    assert_eq!(synced(fixture, &mut feed).await, ["changed old.rs"]);

    shell(fixture, "chmod 600 old.rs").await;
    assert_eq!(synced(fixture, &mut feed).await, ["changed old.rs"]);

    shell(fixture, "mv moved.rs name.rs").await;
    assert_eq!(
        synced(fixture, &mut feed).await,
        ["renamed moved.rs to name.rs"]
    );

    shell(fixture, "rm old.rs").await;
    assert_eq!(synced(fixture, &mut feed).await, ["deleted old.rs"]);

    assert_eq!(synced(fixture, &mut feed).await, [""; 0]);
}

pub(crate) async fn waiting_gives_changes_and_gathers_what_belongs_together(
    fixture: &impl Fixture,
) {
    let mut feed = feed_of(fixture, ".", &["*.rs"]).await;
    let writer = fixture.start(fixture.script("echo a > a.rs; echo b > b.txt; echo c >> a.rs"));
    let (process, batch) = tokio::join!(writer, feed.next());
    let mut seen = words(fixture, &batch.unwrap().unwrap());
    process.wait_for_exit().await.unwrap();

    // The rest, when the writer was slower than the feed.
    seen.extend(synced(fixture, &mut feed).await);
    seen.dedup();
    assert_eq!(seen[0], "created a.rs");
    assert!(seen[1..].iter().all(|change| change == "changed a.rs"));
}

pub(crate) async fn only_what_matches_a_glob_is_reported(fixture: &impl Fixture) {
    for folder in ["src/deep", "target/debug", ".git", "web/node_modules/x"] {
        fixture.folder(folder);
    }
    let mut feed = feed_of(fixture, ".", &["src/**/*.rs", "*.{toml,lock}", "**/*.[ch]"]).await;
    let mut named = feed_of(fixture, ".", &["**/*.rs", "**/target/**"]).await;

    shell(
        fixture,
        "for file in src/a.rs src/deep/b.rs c.rs d.toml e.lock src/f.toml g.c src/h.h i.cc \
         target/debug/j.c .git/k.c web/node_modules/x/l.c; do echo 1 > $file; done",
    )
    .await;

    assert_eq!(
        synced(fixture, &mut feed).await,
        [
            "created d.toml",
            "created e.lock",
            "created g.c",
            "created src/a.rs",
            "created src/deep/b.rs",
            "created src/h.h"
        ]
    );
    assert_eq!(
        synced(fixture, &mut named).await,
        [
            "created c.rs",
            "created src/a.rs",
            "created src/deep/b.rs",
            "created target/debug/j.c"
        ]
    );
}

pub(crate) async fn a_rename_across_the_filter_comes_and_goes(fixture: &impl Fixture) {
    fixture.put("a.rs", b"1");
    fixture.put("b.txt", b"1");
    fixture.put("in/c.rs", b"1");
    fixture.folder("outside");
    let mut feed = feed_of(fixture, "in", &["*.rs"]).await;

    shell(fixture, "mv a.rs in/a.rs; mv b.txt in/b.rs").await;
    assert_eq!(
        synced(fixture, &mut feed).await,
        ["created in/a.rs", "created in/b.rs"]
    );

    shell(fixture, "mv in/a.rs outside; mv in/b.rs in/b.txt").await;
    assert_eq!(
        synced(fixture, &mut feed).await,
        ["deleted in/a.rs", "deleted in/b.rs"]
    );
}

pub(crate) async fn a_file_that_is_replaced_has_changed(fixture: &impl Fixture) {
    fixture.put("a.rs", b"1");
    let mut feed = feed_of(fixture, ".", &["**/*"]).await;

    // as editors save: beside it and over it; and by moving the old one aside
    shell(fixture, "echo 2 > .a.rs.tmp && mv .a.rs.tmp a.rs").await;
    assert_eq!(synced(fixture, &mut feed).await, ["changed a.rs"]);

    shell(fixture, "mv a.rs a.rs~ && echo 3 > a.rs && rm a.rs~").await;
    assert_eq!(synced(fixture, &mut feed).await, ["changed a.rs"]);

    shell(fixture, "rm a.rs && echo 4 > a.rs").await;
    assert_eq!(synced(fixture, &mut feed).await, ["changed a.rs"]);
}

pub(crate) async fn a_new_folder_is_watched_with_all_that_is_in_it(fixture: &impl Fixture) {
    let mut feed = feed_of(fixture, ".", &["**/*.rs"]).await;

    for round in 0..50 {
        shell(
            fixture,
            &format!("mkdir -p {round}/b/c && echo 1 > {round}/b/c/f.rs"),
        )
        .await;
        assert_eq!(
            synced(fixture, &mut feed).await,
            [format!("created {round}/b/c/f.rs")]
        );
    }
    shell(fixture, "echo 2 >> 7/b/c/f.rs; echo 1 > 7/b/g.rs").await;

    assert_eq!(
        synced(fixture, &mut feed).await,
        ["changed 7/b/c/f.rs", "created 7/b/g.rs"]
    );
}

pub(crate) async fn a_folder_comes_goes_and_moves_with_its_files(fixture: &impl Fixture) {
    fixture.put("in/a/b/f.rs", b"1");
    fixture.put("in/a/g.rs", b"1");
    fixture.put("out/c/h.rs", b"1");
    fixture.put("out/c/d/i.rs", b"1");
    fixture.folder("in/other");
    let mut feed = feed_of(fixture, "in", &["**/*.rs"]).await;

    shell(fixture, "mv in/a in/other/z").await;
    assert_eq!(
        synced(fixture, &mut feed).await,
        [
            "renamed in/a/b/f.rs to in/other/z/b/f.rs",
            "renamed in/a/g.rs to in/other/z/g.rs"
        ]
    );
    shell(fixture, "echo 2 > in/other/z/b/f.rs").await;
    assert_eq!(
        synced(fixture, &mut feed).await,
        ["changed in/other/z/b/f.rs"]
    );

    shell(fixture, "mv out/c in/c").await;
    assert_eq!(
        synced(fixture, &mut feed).await,
        ["created in/c/d/i.rs", "created in/c/h.rs"]
    );

    shell(
        fixture,
        "mv in/other out; rm -r in/c; echo 3 > out/other/z/g.rs",
    )
    .await;
    assert_eq!(
        synced(fixture, &mut feed).await,
        [
            "deleted in/c/d/i.rs",
            "deleted in/c/h.rs",
            "deleted in/other/z/b/f.rs",
            "deleted in/other/z/g.rs"
        ]
    );
}

pub(crate) async fn a_link_is_a_file_of_its_own_name_and_a_linked_folder_is_not_entered(
    fixture: &impl Fixture,
) {
    fixture.put("outside/f.rs", b"1");
    fixture.folder("in");
    let mut feed = feed_of(fixture, "in", &["**/*"]).await;

    shell(
        fixture,
        "cd in; ln -s ../outside folder; ln -s ../outside/f.rs link.rs; ln -s nowhere dangling.rs; mkfifo pipe; \
         echo 2 > ../outside/f.rs; echo 1 > ../outside/new.rs",
    )
    .await;
    assert_eq!(synced(fixture, &mut feed).await, ["created in/link.rs"]);

    shell(fixture, "cd in; rm folder link.rs dangling.rs pipe").await;
    assert_eq!(synced(fixture, &mut feed).await, ["deleted in/link.rs"]);
}

pub(crate) async fn names_are_kept_byte_for_byte(fixture: &impl Fixture) {
    let mut feed = feed_of(fixture, ".", &["**/*.rs"]).await;

    shell(
        fixture,
        r#"mkdir "$(printf 'a\nb')"; echo 1 > "$(printf 'a\nb/-c\nd.rs')"; echo 1 > "$(printf '\377\376"x.rs')""#,
    )
    .await;

    let batch = feed.sync().await.unwrap();
    let mut names: Vec<_> = batch.changes.iter().map(|change| &change.path).collect();
    names.sort();
    let expected = [&b"a\nb/-c\nd.rs"[..], b"\xFF\xFE\"x.rs"]
        .map(|name| fixture.scratch().join(OsStr::from_bytes(name)));
    assert_eq!(names, expected.iter().collect::<Vec<_>>());
}

pub(crate) async fn many_changes_at_once_are_all_reported(fixture: &impl Fixture) {
    for file in 0..500 {
        fixture.put(&format!("src/{}/{file}.rs", file % 20), b"1");
    }
    let mut feed = feed_of(fixture, ".", &["**/*.rs"]).await;

    // as a checkout does: old files go, others are replaced, new ones come with their folders
    shell(
        fixture,
        "for file in src/1/*.rs; do rm $file; done; rmdir src/1; \
         for file in src/*/*.rs; do rm $file; echo 2 > $file; done; \
         for number in $(seq 500); do mkdir -p new/$((number % 30)); echo 1 > new/$((number % 30))/$number.rs; done",
    )
    .await;

    let words = synced(fixture, &mut feed).await;
    let count = |kind: &str| words.iter().filter(|word| word.starts_with(kind)).count();
    assert_eq!(
        (
            count("created new/"),
            count("changed src/"),
            count("deleted src/1/")
        ),
        (500, 475, 25)
    );
    assert_eq!(words.len(), 1_000);
}

pub(crate) async fn a_write_that_ended_before_sync_is_in_it_a_thousand_times(
    fixture: &impl Fixture,
) {
    let mut feed = feed_of(fixture, ".", &["**/*.txt"]).await;
    let mut spec = fixture
        .script("while read -r name; do printf '%s\\n' \"$name\" > \"$name\"; echo written; done");
    (spec.stdin, spec.stdout) = (StdinMode::Pipe, OutputMode::Pipe);
    let writer = fixture.start(spec).await;
    let mut names = writer.take_stdin().unwrap();
    let mut answers = BufReader::new(writer.take_stdout().unwrap()).lines();

    for round in 0..1_000 {
        let name = format!("{}.txt", round % 7);
        names
            .write_all(format!("{name}\n").as_bytes())
            .await
            .unwrap();
        names.flush().await.unwrap();
        assert_eq!(answers.next_line().await.unwrap().unwrap(), "written");

        let kind = if round < 7 { "created" } else { "changed" };
        assert_eq!(
            synced(fixture, &mut feed).await,
            [format!("{kind} {name}")],
            "round {round}"
        );
    }
    drop(names);
    writer.wait_for_exit().await.unwrap();
}

pub(crate) async fn what_lspool_makes_for_itself_is_not_reported(fixture: &impl Fixture) {
    let mut feed = feed_of(fixture, ".", &["**/*"]).await;

    shell(
        fixture,
        "mkdir .lspool-staging-x; echo 1 > .lspool-staging-x/a; echo 1 > .lspool-staging-x/b; mv .lspool-staging-x/a a; \
         rm -r .lspool-staging-x",
    )
    .await;

    assert_eq!(synced(fixture, &mut feed).await, ["created a"]);
}

pub(crate) async fn feeds_do_not_disturb_each_other(fixture: &impl Fixture) {
    fixture.folder("a/b");
    let mut outer = feed_of(fixture, "a", &["**/*"]).await;
    let mut inner = feed_of(fixture, "a/b", &["**/*"]).await;

    shell(fixture, "echo 1 > a/b/f; echo 1 > a/g").await;
    assert_eq!(synced(fixture, &mut inner).await, ["created a/b/f"]);
    drop(inner);
    shell(fixture, "echo 2 > a/b/f").await;

    assert_eq!(
        synced(fixture, &mut outer).await,
        ["created a/b/f", "created a/g"]
    );
}

pub(crate) async fn a_dropped_sync_loses_nothing(fixture: &impl Fixture) {
    let mut feed = feed_of(fixture, ".", &["**/*"]).await;
    let mut round = 0;

    each_drop(async |at| {
        round += 1;
        fixture.put(&format!("{round}/f"), b"1");
        let given = at.drive(feed.sync()).await.map(Result::unwrap);
        let mut seen = words_of(fixture, given.as_ref());
        seen.extend(synced(fixture, &mut feed).await);
        assert_eq!(seen, [format!("created {round}/f")]);
        given.is_some()
    })
    .await;
}

pub(crate) async fn a_dropped_wait_loses_nothing(fixture: &impl Fixture) {
    let mut feed = feed_of(fixture, ".", &["**/*"]).await;
    let mut round = 0;

    each_drop(async |at| {
        round += 1;
        fixture.put(&format!("{round}/f"), b"1");
        let given = at.drive(feed.next()).await;
        let given = given.map(|batch| batch.unwrap().unwrap());
        let mut seen = words_of(fixture, given.as_ref());
        seen.extend(synced(fixture, &mut feed).await);
        assert_eq!(seen, [format!("created {round}/f")]);
        given.is_some()
    })
    .await;
}

pub(crate) async fn a_dropped_start_of_a_watch_leaves_nothing(fixture: &impl Fixture) {
    for folder in 0..100 {
        fixture.folder(&format!("{folder}/a/b"));
    }
    let (folder, all) = (fixture.target(".").await, WatchFilter::all());

    each_drop(async |at| {
        let watch = fixture.world().fs().watch(&folder, &all);
        at.drive(watch).await.map(Result::unwrap).is_some()
    })
    .await;
}

pub(crate) async fn the_feed_ends_with_its_folder(fixture: &impl Fixture) {
    for (name, end) in [("deleted", "rm -r"), ("moved", "sh -c 'mv \"$0\" away'")] {
        fixture.put(&format!("{name}/f.rs"), b"1");
        let mut feed = feed_of(fixture, name, &["**/*.rs"]).await;

        shell(fixture, &format!("{end} {name}")).await;

        let last = tokio::time::timeout(LONG, feed.next()).await.unwrap();
        assert_eq!(
            words(fixture, &last.unwrap().unwrap()),
            [format!("deleted {name}/f.rs")]
        );
        assert_eq!(feed.next().await.unwrap(), None);
        let error = feed.sync().await.unwrap_err();
        assert_eq!(error.code(), "FS_NOT_FOUND");
    }
}

pub(crate) async fn sync_sees_that_a_folder_above_has_moved(fixture: &impl Fixture) {
    fixture.put("above/in/f.rs", b"1");
    let mut feed = feed_of(fixture, "above/in", &["**/*.rs"]).await;

    shell(fixture, "mv above elsewhere").await;

    assert_eq!(synced(fixture, &mut feed).await, ["deleted above/in/f.rs"]);
    assert_eq!(feed.next().await.unwrap(), None);
}

pub(crate) async fn only_a_folder_can_be_watched(fixture: &impl Fixture) {
    fixture.put("file", b"1");
    let watch = async |path: &str| -> Result<Box<dyn ChangeFeed>, FsError> {
        let target = fixture.target(path).await;
        let fs = fixture.world().fs();
        fs.watch(&target, &WatchFilter::all()).await
    };

    assert_eq!(
        watch("file").await.err().unwrap().code(),
        "FS_NOT_DIRECTORY"
    );
    assert_eq!(watch("none").await.err().unwrap().code(), "FS_NOT_FOUND");
}

each_provider!([
    each_kind_of_change_is_reported,
    waiting_gives_changes_and_gathers_what_belongs_together,
    only_what_matches_a_glob_is_reported,
    a_rename_across_the_filter_comes_and_goes,
    a_file_that_is_replaced_has_changed,
    a_new_folder_is_watched_with_all_that_is_in_it,
    a_folder_comes_goes_and_moves_with_its_files,
    a_link_is_a_file_of_its_own_name_and_a_linked_folder_is_not_entered,
    names_are_kept_byte_for_byte,
    many_changes_at_once_are_all_reported,
    a_write_that_ended_before_sync_is_in_it_a_thousand_times,
    what_lspool_makes_for_itself_is_not_reported,
    feeds_do_not_disturb_each_other,
    a_dropped_sync_loses_nothing,
    a_dropped_wait_loses_nothing,
    a_dropped_start_of_a_watch_leaves_nothing,
    the_feed_ends_with_its_folder,
    sync_sees_that_a_folder_above_has_moved,
    only_a_folder_can_be_watched,
]);
