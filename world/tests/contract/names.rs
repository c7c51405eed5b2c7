//! Names that break careless code: they work in every operation, in URIs, as an argument and as a working directory.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use lspool_world::FileKind;

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
        fixture.put_at(&path, b"content");

        // when it is resolved, inspected and read
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

each_provider!([
    hostile_names_work_everywhere,
    hostile_names_are_listed_byte_for_byte,
]);
