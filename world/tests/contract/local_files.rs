//! What the local provider alone promises of files, and what needs this machine to be seen: races with other threads, a
//! user without root's privileges, files of the system.

use std::fs::{self, Permissions};
use std::future::Future;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use lspool_world::fs::{EditOptions, EditRequest, WriteIntent, WriteOptions};
use lspool_world::local::LocalFileSystem;
use lspool_world::{FileSystem, FsError, Target};
use nix::unistd::{Uid, setfsuid};
use rustix::fs::{CWD, RenameFlags, renameat_with};

/// Runs as a user for whom permissions count. To root they do not; there the threads of the runtime, which make every
/// call on files, have the files' user `nobody`.
fn as_a_plain_user<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .on_thread_start(|| {
            if Uid::effective().is_root() {
                setfsuid(Uid::from_raw(65534));
            }
        })
        .build()
        .unwrap();
    runtime.block_on(work)
}

/// A scratch folder that everybody may enter.
fn scratch() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(folder.path()).unwrap();
    fs::set_permissions(&root, Permissions::from_mode(0o777)).unwrap();
    (folder, root)
}

fn permit(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

async fn target(files: &LocalFileSystem, path: &Path) -> Target {
    files.resolve(path, Path::new("/")).await.unwrap()
}

fn edit(old_text: &str, new_text: &str) -> EditRequest {
    EditRequest {
        old_text: old_text.to_owned(),
        new_text: new_text.to_owned(),
        replace_all: false,
    }
}

#[test]
fn what_the_system_refuses_is_told_as_that() {
    // given a file that may not be read, a folder that may not be listed, one that may not be entered, and one that may
    // not be changed
    let (_folder, root) = scratch();
    for name in ["sealed", "unlisted", "unentered", "unchanged"] {
        fs::create_dir(root.join(name)).unwrap();
        fs::write(root.join(name).join("file"), "text").unwrap();
        permit(&root.join(name), 0o755);
    }
    permit(&root.join("sealed/file"), 0o000);
    permit(&root.join("unlisted"), 0o311);
    permit(&root.join("unentered"), 0o644);
    permit(&root.join("unchanged"), 0o555);

    as_a_plain_user(async {
        let files = LocalFileSystem::new();
        let at = async |path: &str| target(&files, &root.join(path)).await;
        let sealed = at("sealed/file").await;
        let unchanged = at("unchanged/file").await;
        let missing = at("unchanged/new").await;
        let below = at("unchanged/new/deep/file").await;
        let write = WriteOptions::default();
        let create = WriteOptions {
            intent: Some(WriteIntent::CreateIfAbsent),
            ..WriteOptions::default()
        };
        let options = EditOptions::default();

        // when they are used so, then each is refused with one code, and the text names the path
        let refused = [
            files.read_text(&sealed).await.err(),
            files.stream_text(&sealed).await.err(),
            files.read_bytes(&sealed, 10).await.err(),
            files.read_range(&sealed, 0, 10).await.err(),
            files
                .edit_text(&sealed, &edit("text", "x"), &options)
                .await
                .err(),
            files.list_dir(&at("unlisted").await).await.err(),
            files
                .resolve(&root.join("unentered/file"), &root)
                .await
                .err(),
            files.lstat(&root.join("unentered/file"), &root).await.err(),
            files.write_text(&unchanged, "x", &write).await.err(),
            files
                .edit_text(&unchanged, &edit("text", "x"), &options)
                .await
                .err(),
            files.write_text(&missing, "x", &create).await.err(),
            files.write_text(&below, "x", &create).await.err(),
        ];
        for (index, error) in refused.into_iter().enumerate() {
            let error = error.unwrap_or_else(|| panic!("{index} was allowed"));
            assert_eq!(error.code(), "FS_PERMISSION_DENIED", "{index}: {error}");
            assert!(
                error.to_string().contains(root.to_str().unwrap()),
                "{error}"
            );
        }

        // and a folder that may be listed and not entered is listed, each entry with its own error
        let entries = files.list_dir(&at("unentered").await).await.unwrap();
        assert_eq!(entries.len(), 1);
        let error = entries[0].error.as_ref().unwrap();
        assert_eq!(error.code(), "FS_PERMISSION_DENIED");
        assert!(entries[0].target.is_none() && entries[0].version.is_none());

        // and what may be searched alone is read
        let text = files
            .read_text(&at("unlisted/file").await)
            .await
            .unwrap()
            .text;
        assert_eq!(text, "text");
    });
    assert_eq!(fs::read(root.join("unchanged/file")).unwrap(), b"text");
    assert_eq!(fs::read_dir(root.join("unchanged")).unwrap().count(), 1);
}

#[test]
fn a_file_that_cannot_be_read_is_replaced_without_a_basis() {
    let (_folder, root) = scratch();
    fs::write(root.join("file"), "secret").unwrap();
    permit(&root.join("file"), 0o000);

    as_a_plain_user(async {
        let files = LocalFileSystem::new();
        let file = target(&files, &root.join("file")).await;
        let options = WriteOptions {
            diff_basis: true,
            ..WriteOptions::default()
        };

        let written = files.write_text(&file, "new", &options).await.unwrap();

        assert_eq!(
            (written.before.as_deref(), written.after.as_deref()),
            (None, Some("new"))
        );
    });
    let metadata = fs::metadata(root.join("file")).unwrap();
    assert_eq!((metadata.len(), metadata.mode() & 0o777), (3, 0));
}

#[tokio::test]
async fn a_file_keeps_its_owner_where_the_system_allows_it() {
    // given a file that belongs to somebody else where this process may give it away
    let (_folder, root) = scratch();
    let path = root.join("file");
    fs::write(&path, "old").unwrap();
    let _ = std::os::unix::fs::chown(&path, Some(12345), Some(12346));
    permit(&path, 0o640);
    let before = fs::metadata(&path).unwrap();
    let files = LocalFileSystem::new();
    let file = target(&files, &path).await;

    // when it is written, then edited, each time by putting a new file in its place
    files
        .write_text(&file, "new", &WriteOptions::default())
        .await
        .unwrap();
    let written = fs::metadata(&path).unwrap();
    files
        .edit_text(&file, &edit("new", "newer"), &EditOptions::default())
        .await
        .unwrap();
    let edited = fs::metadata(&path).unwrap();

    // then it is still theirs
    assert!(written.ino() != before.ino() && edited.ino() != written.ino());
    for after in [written, edited] {
        assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
        assert_eq!(after.mode() & 0o777, 0o640);
    }
}

#[tokio::test]
async fn files_of_the_system_are_read_though_they_tell_no_size() {
    let files = LocalFileSystem::new();
    let file = target(&files, Path::new("/proc/self/status")).await;

    let text = files.read_text(&file).await.unwrap().text;
    assert!(text.starts_with("Name:"));
    let range = files.read_range(&file, 0, 5).await.unwrap();
    assert_eq!(&range.bytes[..], b"Name:");
    let refused = files.read_bytes(&file, 5).await.unwrap_err();
    assert!(matches!(
        refused,
        FsError::TooLarge {
            limit: 5,
            at_least: 6,
            ..
        }
    ));

    // And what the system does not let anybody make is refused with a code.
    let made = target(&files, Path::new("/proc/lspool/file")).await;
    let refused = files
        .write_text(&made, "x", &WriteOptions::default())
        .await
        .unwrap_err();
    assert!(
        ["FS_PERMISSION_DENIED", "FS_NOT_FOUND", "FS_IO_ERROR"].contains(&refused.code()),
        "{refused}"
    );
}

/// Exchanges a folder with a link to another one, again and again, until it is told to stop.
fn keep_swapping(one: &Path, other: &Path, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
    }
}

#[tokio::test]
async fn nothing_lands_outside_while_a_folder_is_swapped_for_a_link() {
    // given a folder that a thread swaps for a link to a folder outside
    let (_folder, root) = scratch();
    let outside = root.join("outside");
    let (folder, link) = (root.join("folder"), root.join("link"));
    fs::create_dir_all(folder.join("deep")).unwrap();
    fs::create_dir_all(outside.join("deep")).unwrap();
    fs::write(outside.join("deep/file"), "outside").unwrap();
    symlink("outside", &link).unwrap();
    let files = LocalFileSystem::new();
    let file = target(&files, &folder.join("deep/file")).await;
    let new = target(&files, &folder.join("made/file")).await;
    let stop = std::sync::Arc::new(AtomicBool::new(false));
    let swapper = std::thread::spawn({
        let (folder, link, stop) = (folder.clone(), link.clone(), stop.clone());
        move || keep_swapping(&folder, &link, &stop)
    });

    // when files in it are changed and read until both outcomes were seen often
    let (mut through, mut refused) = (0, 0);
    while through < 100 || refused < 100 {
        let options = WriteOptions::default();
        let outcomes = [
            files.write_text(&file, "inside", &options).await.err(),
            files.write_text(&new, "inside", &options).await.err(),
            files
                .edit_text(&file, &edit("side", "side"), &EditOptions::default())
                .await
                .err(),
            match files.read_text(&file).await {
                Ok(read) => {
                    assert_eq!(read.text, "inside");
                    None
                }
                Err(error) => Some(error),
            },
        ];
        for outcome in outcomes {
            match outcome {
                None => through += 1,
                // A file that the first write has not made yet.
                Some(FsError::NotFound { .. } | FsError::StaleVersion { .. }) => {}
                Some(error) => {
                    assert!(matches!(error, FsError::Relinked { .. }), "{error:?}");
                    refused += 1;
                }
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    swapper.join().unwrap();

    // then nothing outside was touched, and nothing is left of what was refused
    let names = |folder: &Path| -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(&outside), ["deep"]);
    assert_eq!(names(&outside.join("deep")), ["file"]);
    assert_eq!(fs::read(outside.join("deep/file")).unwrap(), b"outside");
    let inside = if folder.is_symlink() { link } else { folder };
    assert_eq!(names(&inside), ["deep", "made"]);
    assert_eq!(names(&inside.join("deep")), ["file"]);
}

#[tokio::test]
async fn a_create_that_races_with_another_process_never_overwrites_it() {
    // given a competitor that makes the same file with a text of its own, at its own pace
    let (_folder, root) = scratch();
    let files = LocalFileSystem::new();
    let create = WriteOptions {
        intent: Some(WriteIntent::CreateIfAbsent),
        ..WriteOptions::default()
    };
    let (mut ours, mut theirs) = (0, 0);
    for round in 0.. {
        if ours > 0 && theirs > 0 {
            break;
        }
        let path = root.join(format!("file-{round}"));
        let file = target(&files, &path).await;
        let competitor = std::thread::spawn({
            let path = path.clone();
            move || {
                // Later and later, then at once again, so that both come first in some round.
                for _ in 0..round % 8 {
                    let _ = fs::metadata(&path);
                    std::thread::yield_now();
                }
                let new = fs::OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .open(&path);
                new.and_then(|mut file| std::io::Write::write_all(&mut file, b"theirs"))
            }
        });

        // when both create it
        let written = files.write_text(&file, "ours", &create).await;
        let competed = competitor.join().unwrap();

        // then one did, whose text it has
        match (&written, &competed) {
            (Ok(_), Err(_)) => ours += 1,
            (Err(error), Ok(())) => {
                assert_eq!(error.code(), "FS_NOT_OBSERVED");
                theirs += 1;
            }
            both => panic!("{both:?}"),
        }
        let expected: &[u8] = if written.is_ok() { b"ours" } else { b"theirs" };
        assert_eq!(fs::read(&path).unwrap(), expected);
    }
}
