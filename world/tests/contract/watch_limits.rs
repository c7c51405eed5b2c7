//! The limits of the change feed of this machine: an event queue that runs over, watches and instances that run out,
//! folders that cannot be read, and what a feed leaves behind. A test that needs a limit of its own, or a process of its
//! own, runs this binary again in a user namespace or beside it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use lspool_world::fs::{ChangeFeed, WatchFilter};

use crate::fixture::{Fixture, LocalFixture};
use crate::oracle::eventually;
use crate::watch::{feed_of, shell, words};

/// Says that a process runs one test as its parent asked for.
const ALONE: &str = "WORLD_CONTRACT_ALONE";

/// The limit of watches of the user namespace that a process is in.
const WATCHES: &str = "/proc/sys/user/max_inotify_watches";

/// Runs a test of this file again as the only one of a process, which a shell script starts by `exec "$@"`, and demands
/// that it passes. False in that process, which has to go on with the test.
async fn passes_alone(test: &str, launcher: &[&str], script: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return false;
    }
    let fixture = LocalFixture::open().await;
    let own = std::env::current_exe().unwrap();
    let script = format!("export {ALONE}=1; {script} exec \"$@\"");
    let name = format!("watch_limits::{test}");
    let mut command = vec!["/bin/sh", "-c", "exec \"$@\"", "sh"];
    command.extend(launcher);
    command.extend(["/bin/sh", "-c", &script, "sh"]);
    let mut command: Vec<&OsStr> = command.into_iter().map(OsStr::new).collect();
    command.push(own.as_os_str());
    command.extend(["--exact", &name, "--nocapture"].map(OsStr::new));

    let output = fixture.output(fixture.command(&command)).await;

    let output = String::from_utf8_lossy(&output);
    assert!(output.contains("1 passed"), "{output}");
    fixture.close().await;
    true
}

/// How many inotify instances this process has.
fn instances() -> usize {
    let descriptors = fs::read_dir("/proc/self/fd").unwrap();
    descriptors
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter(|target| target == Path::new("anon_inode:inotify"))
        .count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overflow_is_told_and_what_can_be_seen_by_names_is_reported() {
    let fixture = LocalFixture::open().await;
    fixture.put("gone.rs", b"1");
    fixture.put("in/moved/a.rs", b"1");
    let mut feed = feed_of(&fixture, ".", &["**/*.rs"]).await;
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();

    // Two files in turn, since the queue keeps one of two equal events.
    let flood = format!(
        "n=0; while [ $n -le {} ]; do : >> x; : >> y; n=$((n + 1)); done",
        limit.trim().parse::<u64>().unwrap() / 2
    );
    shell(
        &fixture,
        &format!("{flood}; rm gone.rs; mv in/moved in/here; mkdir -p a/b; echo 1 > a/b/late.rs"),
    )
    .await;

    let batch = feed.sync().await.unwrap();
    assert!(batch.lost && !batch.degraded);
    let mut seen = words(&fixture, &batch);
    seen.sort();
    assert_eq!(
        seen,
        [
            "created a/b/late.rs",
            "deleted gone.rs",
            "renamed in/moved/a.rs to in/here/a.rs"
        ]
    );

    // and afterwards nothing is missing
    shell(&fixture, "echo 2 > a/b/late.rs").await;
    let batch = feed.sync().await.unwrap();
    assert!(!batch.lost);
    assert_eq!(words(&fixture, &batch), ["changed a/b/late.rs"]);
    drop(feed);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_without_watches_is_degraded_until_there_are_some() {
    let few = format!("echo 5 > {WATCHES};");
    let test = "a_feed_without_watches_is_degraded_until_there_are_some";
    if passes_alone(test, &["unshare", "-U", "-r"], &few).await {
        return;
    }
    let fixture = LocalFixture::open().await;
    for folder in 0..10 {
        fixture.put(&format!("{folder}/f.rs"), b"1");
    }
    let mut feed = feed_of(&fixture, ".", &["**/*.rs"]).await;

    // given a degraded feed, which says so at once
    let batch = feed.next().await.unwrap().unwrap();
    assert!(batch.degraded && batch.changes.is_empty());

    // when files change, then some are reported, and none wrongly
    shell(
        &fixture,
        "for folder in 0 1 2 3 4 5 6 7 8 9; do echo 22 > $folder/f.rs; done",
    )
    .await;
    let batch = feed.sync().await.unwrap();
    assert!(batch.degraded);
    let seen = words(&fixture, &batch);
    assert!((1..5).contains(&seen.len()), "{seen:?}");
    assert!(seen.iter().all(|change| change.starts_with("changed ")));

    // when there are watches again, then the feed sees all and says that it missed something
    fs::write(WATCHES, "1000").unwrap();
    shell(
        &fixture,
        "for folder in 0 1 2 3 4 5 6 7 8 9; do echo 1 > $folder/g.rs; done",
    )
    .await;
    let batch = feed.sync().await.unwrap();
    assert!(batch.lost && !batch.degraded);
    assert_eq!(words(&fixture, &batch).len(), 10);
    shell(&fixture, "echo 3 > 0/f.rs; echo 3 > 9/f.rs").await;
    let batch = feed.sync().await.unwrap();
    assert!(!batch.lost && !batch.degraded);
    assert_eq!(batch.changes.len(), 2);
    drop(feed);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_any_watch_sync_still_answers() {
    let none = format!("echo 0 > {WATCHES};");
    if passes_alone(
        "without_any_watch_sync_still_answers",
        &["unshare", "-U", "-r"],
        &none,
    )
    .await
    {
        return;
    }
    let fixture = LocalFixture::open().await;
    let mut feed = feed_of(&fixture, ".", &["**/*"]).await;

    fixture.put("f", b"1");

    let batch = feed.sync().await.unwrap();
    assert!(batch.degraded && batch.changes.is_empty());
    drop(feed);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_instance_the_error_says_what_to_do() {
    let test = "without_an_instance_the_error_says_what_to_do";
    let none = "echo 0 > /proc/sys/user/max_inotify_instances;";
    if passes_alone(test, &["unshare", "-U", "-r"], none).await {
        return;
    }
    let fixture = LocalFixture::open().await;
    let (folder, all) = (fixture.target(".").await, WatchFilter::all());

    let watch = fixture.world().fs().watch(&folder, &all);
    let error = watch.await.err().unwrap();

    assert_eq!(error.code(), "FS_IO_ERROR");
    assert!(
        error.to_string().contains("fs.inotify.max_user_instances"),
        "{error}"
    );
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_cannot_be_read_degrades_the_feed_until_it_can() {
    // In a namespace without a mapping nobody may pass the permission bits, not even the superuser.
    let test = "a_folder_that_cannot_be_read_degrades_the_feed_until_it_can";
    if passes_alone(test, &["unshare", "-U"], "").await {
        return;
    }
    let fixture = LocalFixture::open().await;
    fixture.put("shut/in/f.rs", b"1");
    let shut = fixture.scratch().join("shut");
    fixture.permit(&shut, 0o000);
    let mut feed = feed_of(&fixture, ".", &["**/*.rs"]).await;
    assert!(feed.sync().await.unwrap().degraded);

    fixture.permit(&shut, 0o700);
    let batch = feed.sync().await.unwrap();
    assert!(!batch.degraded && batch.lost);
    assert_eq!(words(&fixture, &batch), ["created shut/in/f.rs"]);

    fixture.put("shut/in/f.rs", b"2");
    let batch = feed.sync().await.unwrap();
    assert_eq!(words(&fixture, &batch), ["changed shut/in/f.rs"]);
    drop(feed);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_feed_leaves_no_descriptor_and_no_folder() {
    let test = "a_dropped_feed_leaves_no_descriptor_and_no_folder";
    let private = "unset XDG_RUNTIME_DIR; mkdir temporary; export TMPDIR=$PWD/temporary;";
    if passes_alone(test, &[], private).await {
        return;
    }
    let fixture = LocalFixture::open().await;
    fixture.put("a/b/f.rs", b"1");
    let folders = || -> Vec<_> {
        let entries = fs::read_dir(std::env::temp_dir()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name());
        names
            .filter(|name| name.as_encoded_bytes().starts_with(b".lspool-"))
            .collect()
    };

    // given feeds with a barrier each, which nobody else may enter
    let mut feeds: Vec<Box<dyn ChangeFeed>> = Vec::new();
    for _ in 0..20 {
        let mut feed = feed_of(&fixture, ".", &["**/*"]).await;
        feed.sync().await.unwrap();
        feed.sync().await.unwrap();
        feeds.push(feed);
    }
    assert_eq!((instances(), folders().len()), (20, 20));
    for folder in folders() {
        let path = std::env::temp_dir().join(folder);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    }

    // when they are dropped, some of them at work
    for mut feed in feeds.drain(..10) {
        let at_work = tokio::time::timeout(std::time::Duration::ZERO, feed.sync()).await;
        drop((at_work, feed));
    }
    drop(feeds);

    // then nothing is left
    eventually("the end of the feeds", async || {
        instances() == 0 && folders().is_empty()
    })
    .await;
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_barrier_that_was_cleaned_away_is_raised_again() {
    let test = "a_barrier_that_was_cleaned_away_is_raised_again";
    let private = "unset XDG_RUNTIME_DIR; mkdir temporary; export TMPDIR=$PWD/temporary;";
    if passes_alone(test, &[], private).await {
        return;
    }
    let fixture = LocalFixture::open().await;
    let mut feed = feed_of(&fixture, ".", &["**/*"]).await;
    feed.sync().await.unwrap();

    let temporary = std::env::temp_dir();
    let clean_up = format!("echo 1 > f; rm -r {}/.lspool-watch-*", temporary.display());
    shell(&fixture, &clean_up).await;

    let batch = feed.sync().await.unwrap();
    assert_eq!(words(&fixture, &batch), ["created f"]);
    shell(&fixture, "echo 1 > g").await;
    let batch = feed.sync().await.unwrap();
    assert_eq!(words(&fixture, &batch), ["created g"]);
    drop(feed);
    fixture.close().await;
}
