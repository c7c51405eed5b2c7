//! Writing whole texts.

use std::ffi::OsStr;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use lspool_world::fs::{
    DIFF_BASIS_MAX_BYTES, EditIntent, EditOptions, EditRequest, WriteIntent, WriteOperation,
    WriteOptions, WriteOutcome,
};
use lspool_world::{FileVersion, FsError, Target};

use crate::fixture::Fixture;

fn create() -> WriteOptions {
    WriteOptions {
        intent: Some(WriteIntent::CreateIfAbsent),
        ..WriteOptions::default()
    }
}

fn replace(version: &FileVersion) -> WriteOptions {
    WriteOptions {
        intent: Some(WriteIntent::ReplaceIfVersion(version.clone())),
        ..WriteOptions::default()
    }
}

fn with_basis() -> WriteOptions {
    WriteOptions {
        diff_basis: true,
        ..WriteOptions::default()
    }
}

async fn write(
    fixture: &impl Fixture,
    target: &Target,
    text: &str,
    options: &WriteOptions,
) -> Result<WriteOutcome, FsError> {
    fixture.world().fs().write_text(target, text, options).await
}

async fn version(fixture: &impl Fixture, target: &Target) -> FileVersion {
    let metadata = fixture.world().fs().stat(target).await.unwrap();
    metadata.unwrap().version
}

async fn text(fixture: &impl Fixture, target: &Target) -> String {
    fixture.world().fs().read_text(target).await.unwrap().text
}

/// The names in a folder.
async fn names(fixture: &impl Fixture, folder: &str) -> Vec<String> {
    let folder = fixture.target(folder).await;
    let entries = fixture.world().fs().list_dir(&folder).await.unwrap();
    let name = |name: &OsStr| name.to_str().unwrap().to_owned();
    entries.iter().map(|entry| name(&entry.name)).collect()
}

pub(crate) async fn a_guarded_create_makes_a_file_and_what_is_above_it(fixture: &impl Fixture) {
    for (durable, path) in [(false, "file"), (false, "a/b/file"), (true, "c/d/file")] {
        let target = fixture.target(path).await;
        let options = WriteOptions {
            durable,
            diff_basis: true,
            ..create()
        };

        let written = write(fixture, &target, "text\r\n", &options).await.unwrap();

        assert_eq!(written.operation, WriteOperation::Created);
        assert_eq!(written.before, None);
        assert_eq!(written.after.as_deref(), Some("text\n"));
        assert_eq!(written.version, version(fixture, &target).await);
        assert_eq!(text(fixture, &target).await, "text\r\n");
        assert_eq!(fixture.target(path).await.key(), target.key());
    }
    assert_eq!(names(fixture, ".").await, ["a", "c", "file"]);
    assert_eq!(names(fixture, "c/d").await, ["file"]);
}

pub(crate) async fn a_guarded_create_never_replaces(fixture: &impl Fixture) {
    fixture.put("file", b"theirs");
    let target = fixture.target("file").await;
    let before = version(fixture, &target).await;

    let refused = write(fixture, &target, "ours", &create())
        .await
        .unwrap_err();

    assert_eq!(refused.code(), "FS_NOT_OBSERVED");
    assert!(refused.to_string().contains("read it"), "{refused}");
    assert_eq!(version(fixture, &target).await, before);
    assert_eq!(names(fixture, ".").await, ["file"]);
}

pub(crate) async fn of_many_guarded_creates_one_makes_the_file(fixture: &impl Fixture) {
    for round in 0..20 {
        // given many that create one file, each in its own task, and a folder that is missing too
        let path = format!("new-{round}/file");
        let target = fixture.target(&path).await;
        let mut creators = tokio::task::JoinSet::new();
        for number in 0..8 {
            let (fs, target) = (fixture.world().fs().clone(), target.clone());
            creators.spawn(async move {
                let text = format!("by {number}");
                let written = fs.write_text(&target, &text, &create()).await;
                written.map(|_| text).map_err(|error| error.code())
            });
        }

        // when all are done, then one made it and the others were told
        let outcomes = creators.join_all().await;
        let made: Vec<&String> = outcomes
            .iter()
            .filter_map(|one| one.as_ref().ok())
            .collect();
        assert_eq!(made.len(), 1, "{outcomes:?}");
        assert_eq!(text(fixture, &target).await, *made[0]);
        let told = outcomes.iter().filter_map(|one| one.as_ref().err());
        assert!(
            told.clone().all(|code| *code == "FS_NOT_OBSERVED"),
            "{outcomes:?}"
        );
    }
}

pub(crate) async fn a_replacement_needs_the_version_that_it_names(fixture: &impl Fixture) {
    fixture.put("file", b"one");
    let target = fixture.target("file").await;
    let first = version(fixture, &target).await;

    // The right version is replaced, and what comes back is the version of now.
    let written = write(fixture, &target, "two", &replace(&first))
        .await
        .unwrap();
    assert_eq!(written.operation, WriteOperation::Updated);
    assert_eq!(written.version, version(fixture, &target).await);
    assert_eq!(text(fixture, &target).await, "two");

    // Another one is not.
    let stale = write(fixture, &target, "three", &replace(&first))
        .await
        .unwrap_err();
    assert_eq!(stale.code(), "FS_STALE_VERSION");
    assert_eq!(text(fixture, &target).await, "two");

    // And a file that is gone is not made again.
    fixture.output(fixture.script("rm file")).await;
    let gone = write(fixture, &target, "three", &replace(&written.version)).await;
    assert_eq!(gone.unwrap_err().code(), "FS_STALE_VERSION");
    let below = fixture.target("nothing/file").await;
    let missing = write(fixture, &below, "three", &replace(&first)).await;
    assert_eq!(missing.unwrap_err().code(), "FS_STALE_VERSION");
    assert!(names(fixture, ".").await.is_empty());
}

pub(crate) async fn without_an_intent_a_text_is_written_in_any_case(fixture: &impl Fixture) {
    let target = fixture.target("file").await;
    for (text, operation) in [
        ("one", WriteOperation::Created),
        ("", WriteOperation::Updated),
        ("three", WriteOperation::Updated),
    ] {
        let options = WriteOptions {
            durable: true,
            ..WriteOptions::default()
        };
        let written = write(fixture, &target, text, &options).await.unwrap();

        assert_eq!(written.operation, operation);
        assert_eq!((written.before, written.after), (None, None));
        assert_eq!(self::text(fixture, &target).await, text);
    }
}

pub(crate) async fn only_regular_files_are_written(fixture: &impl Fixture) {
    fixture.folder("folder");
    fixture.fifo("fifo");
    fixture.put("file", b"text");
    let any = version(fixture, &fixture.target("file").await).await;
    for path in ["folder", "fifo", "."] {
        let target = fixture.target(path).await;
        for options in [WriteOptions::default(), create(), replace(&any)] {
            let refused = write(fixture, &target, "x", &options).await.unwrap_err();
            assert_eq!(refused.code(), "FS_NOT_REGULAR_FILE", "{path} {options:?}");
        }
    }
    let device = fixture.target("/dev/null").await;
    let refused = write(fixture, &device, "x", &WriteOptions::default()).await;
    assert_eq!(refused.unwrap_err().code(), "FS_NOT_REGULAR_FILE");
    assert_eq!(names(fixture, ".").await, ["fifo", "file", "folder"]);
}

pub(crate) async fn a_text_goes_through_links_to_the_file(fixture: &impl Fixture) {
    fixture.put("real/file", b"one");
    fixture.link("real", "folder");
    fixture.link("folder/file", "alias");
    fixture.link("real/new", "dangling");
    let (real, alias) = (
        fixture.target("real/file").await,
        fixture.target("alias").await,
    );
    let seen = version(fixture, &real).await;
    assert_eq!(version(fixture, &alias).await, seen);

    // A text that is written through the links is the file's, and the links stay.
    write(fixture, &alias, "two", &replace(&seen))
        .await
        .unwrap();
    write(fixture, &fixture.target("dangling").await, "new", &create())
        .await
        .unwrap();
    assert_eq!(text(fixture, &real).await, "two");
    assert_eq!(
        text(fixture, &fixture.target("real/new").await).await,
        "new"
    );
    let links = fixture
        .output(fixture.script("readlink alias dangling folder"))
        .await;
    assert_eq!(&links[..], b"folder/file\nreal/new\nreal\n");

    // And what one spelling changed is stale for the other.
    let stale = write(fixture, &real, "three", &replace(&seen))
        .await
        .unwrap_err();
    assert_eq!(stale.code(), "FS_STALE_VERSION");
}

pub(crate) async fn the_texts_before_and_after_are_given_if_asked(fixture: &impl Fixture) {
    // given old contents, and what of them is a text
    let cases: [(&[u8], Option<&str>); 5] = [
        (b"old\r\ntext\n", Some("old\ntext\n")),
        ("\u{feff}old".as_bytes(), Some("old")),
        (b"", Some("")),
        (b"bin\0ary", None),
        (b"inv\xffalid", None),
    ];
    for (old, before) in cases {
        fixture.put("file", old);
        let target = fixture.target("file").await;

        // when they are overwritten
        let written = write(fixture, &target, "new\r\n", &with_basis())
            .await
            .unwrap();

        // then both texts have line feeds alone, and the file is as it was given
        assert_eq!(written.before.as_deref(), before);
        assert_eq!(written.after.as_deref(), Some("new\n"));
        assert_eq!(text(fixture, &target).await, "new\r\n");
    }
}

pub(crate) async fn texts_from_the_limit_on_are_no_basis(fixture: &impl Fixture) {
    let limit = usize::try_from(DIFF_BASIS_MAX_BYTES).unwrap();
    let long = "a".repeat(limit);
    let below = &long[1..];
    let wide = "é".repeat(limit / 2);
    assert!(wide.len() == limit && wide.chars().count() < limit);
    for (old, new, has_before, has_after) in [
        (long.as_str(), "new", false, true),
        (below, "new", true, true),
        ("old", long.as_str(), false, false),
        ("old", wide.as_str(), false, false),
        ("old", below, true, true),
    ] {
        fixture.put("file", old.as_bytes());
        let target = fixture.target("file").await;

        let written = write(fixture, &target, new, &with_basis()).await.unwrap();

        let given = (written.before.is_some(), written.after.is_some());
        assert_eq!(
            given,
            (has_before, has_after),
            "{} {}",
            old.len(),
            new.len()
        );
    }
}

pub(crate) async fn permissions_stay_and_new_ones_are_those_of_any_new_file(
    fixture: &impl Fixture,
) {
    // given files of many permissions
    let modes = [0o600, 0o644, 0o755, 0o666, 0o400, 0o777];
    for mode in modes {
        let path = fixture.put(&format!("{mode:o}"), b"old");
        fixture.permit(&path, mode);
    }

    // when they are overwritten, and others made in new folders
    for mode in modes {
        let target = fixture.target(format!("{mode:o}")).await;
        write(fixture, &target, "new", &WriteOptions::default())
            .await
            .unwrap();
    }
    for (path, options) in [
        ("made/here/file", create()),
        ("made/there/file", with_basis()),
    ] {
        write(fixture, &fixture.target(path).await, "x", &options)
            .await
            .unwrap();
    }

    // then the old keep theirs, and the new ones have what a process gives its own
    let script = "stat -c %a 400 600 644 666 755 777; mkdir -p own && touch own/file; \
        stat -c %a own made made/here; stat -c %a own/file made/here/file made/there/file";
    let shown = fixture.output(fixture.script(script)).await;
    let shown: Vec<&str> = std::str::from_utf8(&shown).unwrap().lines().collect();
    assert_eq!(shown[..6], ["400", "600", "644", "666", "755", "777"]);
    assert!(
        shown[6..9].iter().all(|mode| *mode == shown[6]),
        "{shown:?}"
    );
    assert!(shown[9..].iter().all(|mode| *mode == shown[9]), "{shown:?}");
}

pub(crate) async fn what_is_written_is_read_at_once_by_a_process_and_the_reverse(
    fixture: &impl Fixture,
) {
    let fs = fixture.world().fs();
    let target = fixture.target("folder/file").await;
    for round in 0..10 {
        // A process that is started after the write reads it, by its path and from its folder.
        let text = format!("round {round}");
        write(fixture, &target, &text, &WriteOptions::default())
            .await
            .unwrap();
        let path = fs.process_path(&target);
        let by_path = fixture.command(&[OsStr::new("/bin/cat"), path.as_os_str()]);
        assert_eq!(&fixture.output(by_path).await[..], text.as_bytes());
        let mut by_name = fixture.command(&[OsStr::new("/bin/cat"), OsStr::new("file")]);
        by_name.launch.cwd = path.parent().unwrap().to_path_buf();
        assert_eq!(&fixture.output(by_name).await[..], text.as_bytes());

        // What a process that has ended wrote is read, and has another version.
        let before = version(fixture, &target).await;
        let script = format!("printf 'process {round}' > folder/file");
        fixture.output(fixture.script(&script)).await;
        let read = fs.read_text(&target).await.unwrap();
        assert_eq!(read.text, format!("process {round}"));
        assert_ne!(read.version, before);
    }
}

pub(crate) async fn of_two_changes_at_one_version_one_goes_through(fixture: &impl Fixture) {
    let fs = fixture.world().fs();
    let edit = |new_text: &str| EditRequest {
        old_text: "old".to_owned(),
        new_text: new_text.to_owned(),
        replace_all: false,
    };
    for round in 0..20 {
        fixture.put("file", b"old");
        let target = fixture.target("file").await;
        let seen = version(fixture, &target).await;
        let at_seen = replace(&seen);
        let edit_at_seen = EditOptions {
            intent: Some(EditIntent { version: seen }),
            ..EditOptions::default()
        };
        let writing = async |text: &str| {
            let written = fs.write_text(&target, text, &at_seen).await;
            written.map(|_| text.to_owned())
        };
        let editing = async |text: &str| {
            let edited = fs.edit_text(&target, &edit(text), &edit_at_seen).await;
            edited.map(|_| text.to_owned())
        };

        // when two change it at once: two writes, two edits, or one of each
        let outcomes = match round % 3 {
            0 => tokio::join!(writing("one"), writing("two")),
            1 => tokio::join!(editing("one"), editing("two")),
            _ => tokio::join!(writing("one"), editing("two")),
        };

        // then one did, and the other is told
        let (text, error) = match outcomes {
            (Ok(text), Err(error)) | (Err(error), Ok(text)) => (text, error),
            other => panic!("{other:?}"),
        };
        assert_eq!(error.code(), "FS_STALE_VERSION");
        assert_eq!(self::text(fixture, &target).await, text);
        assert_eq!(names(fixture, ".").await, ["file"]);
    }
}

pub(crate) async fn a_reader_sees_a_whole_text_always(fixture: &impl Fixture) {
    // given a file that is written again and again with texts of one letter each
    let fs = fixture.world().fs();
    let target = fixture.target("file").await;
    let whole = |letter: &str| letter.repeat(300_000);
    write(fixture, &target, &whole("a"), &WriteOptions::default())
        .await
        .unwrap();
    let writing = async {
        for letter in ["b", "c", "d", "e"].iter().cycle().take(40) {
            write(fixture, &target, &whole(letter), &WriteOptions::default())
                .await
                .unwrap();
        }
    };

    // when it is read meanwhile, then every text is one of them
    let mut writing = pin!(writing);
    loop {
        tokio::select! {
            biased;
            read = fs.read_text(&target) => {
                let text = read.unwrap().text;
                assert_eq!(text.len(), 300_000);
                assert!(text.bytes().all(|byte| byte == text.as_bytes()[0]));
            }
            () = &mut writing => break,
        }
    }
    assert_eq!(names(fixture, ".").await, ["file"]);
}

pub(crate) async fn a_write_that_fails_leaves_nothing(fixture: &impl Fixture) {
    // given a name that no folder can have, below folders that are missing, and a file in a folder's stead
    let long = "n".repeat(256);
    let cases = [
        (format!("made/{long}"), "FS_IO_ERROR", "shorten"),
        (format!("a/{long}/file"), "FS_IO_ERROR", "shorten"),
    ];
    for (path, code, advice) in cases {
        let target = fixture.target(&path).await;
        for options in [create(), WriteOptions::default()] {
            // when it is written, then it is refused with its code and what to do
            let refused = write(fixture, &target, "x", &options).await.unwrap_err();
            assert_eq!(refused.code(), code);
            assert!(refused.to_string().contains(advice), "{refused}");
        }
    }
    let below = fixture.target("file/below").await;
    fixture.put("file", b"in the way");
    let refused = write(fixture, &below, "x", &create()).await.unwrap_err();
    assert_eq!(refused.code(), "FS_NOT_FOUND");

    // and the folders that were made for it are gone
    assert_eq!(names(fixture, ".").await, ["file"]);
}

pub(crate) async fn a_change_that_was_dropped_while_it_waited_is_never_made(
    fixture: &impl Fixture,
) {
    // given changes of one file, of which one that has not begun is dropped
    let target = fixture.target("file").await;
    let (options, guarded) = (WriteOptions::default(), create());
    let whole = "first".repeat(200_000);
    let first = write(fixture, &target, &whole, &options);
    let mut first = pin!(first);
    let mut dropped = Box::pin(write(fixture, &target, "dropped", &guarded));
    let mut context = Context::from_waker(Waker::noop());
    assert!(first.as_mut().poll(&mut context).is_pending());
    if let Poll::Ready(early) = dropped.as_mut().poll(&mut context) {
        panic!("it did not wait: {early:?}");
    }
    drop(dropped);

    // when the others are through
    first.await.unwrap();
    write(fixture, &target, "last", &options).await.unwrap();

    // then the file was changed by those alone
    assert_eq!(text(fixture, &target).await, "last");
    assert_eq!(names(fixture, ".").await, ["file"]);
}

each_provider!([
    a_guarded_create_makes_a_file_and_what_is_above_it,
    a_guarded_create_never_replaces,
    of_many_guarded_creates_one_makes_the_file,
    a_replacement_needs_the_version_that_it_names,
    without_an_intent_a_text_is_written_in_any_case,
    only_regular_files_are_written,
    a_text_goes_through_links_to_the_file,
    the_texts_before_and_after_are_given_if_asked,
    texts_from_the_limit_on_are_no_basis,
    permissions_stay_and_new_ones_are_those_of_any_new_file,
    what_is_written_is_read_at_once_by_a_process_and_the_reverse,
    of_two_changes_at_one_version_one_goes_through,
    a_reader_sees_a_whole_text_always,
    a_write_that_fails_leaves_nothing,
    a_change_that_was_dropped_while_it_waited_is_never_made,
]);
