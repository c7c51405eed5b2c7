//! Names that break careless code: they work in every operation, in URIs, as an argument and as a working directory.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use lspool_world::FileKind;
use lspool_world::fs::{EditOptions, EditRequest, WriteOptions};

use crate::fixture::Fixture;

fn hostile_names(byte_names: bool) -> Vec<OsString> {
    let mut names: Vec<OsString> = [
        "new\nline",
        "quo'te\"",
        "-dash",
        "--",
        " blank ",
        "per%20cent",
        "hash#?query",
        "..dots",
        "é",
        "e\u{301}",
        "*?[a]",
        "\t",
        "$HOME",
        "back\\slash",
        "a:b",
        "\u{202e}txt",
    ]
    .map(OsString::from)
    .to_vec();
    names.push("n".repeat(255).into());
    if byte_names {
        names.push(OsString::from_vec(vec![0xff, 0xfe, b'x']));
        names.push(OsString::from_vec(vec![0xc3]));
    }
    names
}

pub(crate) async fn hostile_names_work_everywhere(fixture: &impl Fixture) {
    let fs = fixture.world().fs();
    for name in hostile_names(fs.facts().byte_names) {
        let shown = name.as_bytes().escape_ascii().to_string();
        // given a folder of that name with a file of that name
        let path = fixture.scratch().join(&name).join(&name);
        let before = fixture.target(&path).await;
        if fs.facts().mutation {
            // Written with all folders above it, then edited.
            let (write, edit) = (WriteOptions::default(), EditOptions::default());
            fs.write_text(&before, "text", &write).await.unwrap();
            let request = EditRequest {
                old_text: "text".to_owned(),
                new_text: "content".to_owned(),
                replace_all: false,
            };
            fs.edit_text(&before, &request, &edit).await.unwrap();
        } else {
            fixture.put_at(&path, b"content");
        }

        // when it is resolved, inspected, listed and read
        let folder = fixture.target(path.parent().unwrap()).await;
        let entries = fs.list_dir(&folder).await.unwrap();
        assert_eq!(entries.len(), 1, "{shown}");
        assert_eq!(
            (&entries[0].name, &entries[0].target),
            (&name, &Some(before.clone()))
        );
        let target = fixture.target(&path).await;
        assert_eq!(target, before, "{shown}");
        assert_eq!(fs.process_path(&target), path, "{shown}");
        assert_eq!(
            fs.stat(&target).await.unwrap().unwrap().size,
            Some(7),
            "{shown}"
        );
        assert_eq!(
            fs.read_text(&target).await.unwrap().text,
            "content",
            "{shown}"
        );

        // then its URI is ASCII and leads back to it
        let uri = fs.file_uri(&target);
        assert!(uri.is_ascii(), "{uri}");
        assert_eq!(fs.path_from_uri(&uri).unwrap(), path);
        assert_eq!(fs.spelled_uri(&path).unwrap(), uri);

        // and a process reads it by its path, and by its name from its folder
        let by_path =
            fixture.command(&[OsStr::new("/bin/cat"), OsStr::new("--"), path.as_os_str()]);
        assert_eq!(&fixture.output(by_path).await[..], b"content", "{shown}");
        let mut by_name = fixture.command(&[OsStr::new("/bin/cat"), OsStr::new("--"), &name]);
        by_name.launch.cwd = path.parent().unwrap().to_path_buf();
        assert_eq!(&fixture.output(by_name).await[..], b"content", "{shown}");
    }
}

pub(crate) async fn hostile_names_are_listed_byte_for_byte(fixture: &impl Fixture) {
    let fs = fixture.world().fs();
    let mut names = hostile_names(fs.facts().byte_names);
    for name in &names {
        fixture.put_at(&fixture.scratch().join(name), b"");
    }

    let entries = fs.list_dir(&fixture.target(".").await).await.unwrap();

    names.sort();
    assert_eq!(
        entries
            .iter()
            .map(|entry| entry.name.clone())
            .collect::<Vec<_>>(),
        names
    );
    assert!(
        entries
            .iter()
            .all(|entry| entry.kind == FileKind::File && entry.error.is_none())
    );
}

/// A path below the scratch folder that is `length` bytes long in all.
fn long_path(fixture: &impl Fixture, length: usize) -> PathBuf {
    let mut path = fixture.scratch().to_path_buf();
    loop {
        let left = length - path.as_os_str().len() - 1;
        // No folder takes so much that the file would have no name.
        let name = left.min(255).min(if left > 257 { 200 } else { 255 });
        path.push("p".repeat(name));
        if path.as_os_str().len() == length {
            return path;
        }
    }
}

pub(crate) async fn the_longest_paths_work_and_longer_ones_are_refused(fixture: &impl Fixture) {
    let fs = fixture.world().fs();
    // given a path of as many bytes as the system takes, which is one less than a page
    let path = long_path(fixture, 4095);
    let target = fixture.target(&path).await;
    if fs.facts().mutation {
        let options = WriteOptions::default();
        fs.write_text(&target, "text", &options).await.unwrap();
        let edit = EditRequest {
            old_text: "text".to_owned(),
            new_text: "content".to_owned(),
            replace_all: false,
        };
        fs.edit_text(&target, &edit, &EditOptions::default())
            .await
            .unwrap();
    } else {
        fixture.put_at(&path, b"content");
    }

    // when it is used in every way, then it is that file
    assert_eq!(fixture.target(&path).await, target);
    assert_eq!(fs.stat(&target).await.unwrap().unwrap().size, Some(7));
    assert_eq!(fs.read_text(&target).await.unwrap().text, "content");
    let folder = fixture.target(path.parent().unwrap()).await;
    let entries = fs.list_dir(&folder).await.unwrap();
    assert_eq!(entries[0].target.as_ref(), Some(&target));
    assert_eq!(fs.path_from_uri(&fs.file_uri(&target)).unwrap(), path);
    let by_path = fixture.command(&[OsStr::new("/bin/cat"), path.as_os_str()]);
    assert_eq!(&fixture.output(by_path).await[..], b"content");
    let mut by_name = fixture.command(&[OsStr::new("/bin/cat"), path.file_name().unwrap()]);
    by_name.launch.cwd = path.parent().unwrap().to_path_buf();
    assert_eq!(&fixture.output(by_name).await[..], b"content");

    // and one that is a byte longer is refused, and never another file
    let longer = path
        .parent()
        .unwrap()
        .join("q".repeat(path.file_name().unwrap().len() + 1));
    let refused = match fs.resolve(&longer, fixture.scratch()).await {
        Ok(target) => fs.read_text(&target).await.unwrap_err(),
        Err(refused) => refused,
    };
    assert_eq!(refused.code(), "FS_IO_ERROR");
    assert!(refused.to_string().contains("shorten it"), "{refused}");
}

pub(crate) async fn what_a_path_only_seems_to_name_is_of_no_concern(fixture: &impl Fixture) {
    // given a file that a path reaches through a link and `..`, and a link loop where the path seems to lead by name
    fixture.put("elsewhere/file", b"content");
    fixture.folder("elsewhere/folder");
    fixture.link("elsewhere/folder", "link");
    fixture.link("file", "file");

    let target = fixture.target("link/../file").await;

    let fs = fixture.world().fs();
    assert_eq!(fs.read_text(&target).await.unwrap().text, "content");
    assert_eq!(target, fixture.target("elsewhere/file").await);
}

each_provider!([
    what_a_path_only_seems_to_name_is_of_no_concern,
    the_longest_paths_work_and_longer_ones_are_refused,
    hostile_names_work_everywhere,
    hostile_names_are_listed_byte_for_byte,
]);
