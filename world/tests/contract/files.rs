//! Resolution, containment, metadata and listing.

use std::ffi::OsStr;
use std::path::Path;

use lspool_world::fs::{EditOptions, EditRequest, WriteOptions};
use lspool_world::{FileKind, Metadata};

use crate::fixture::Fixture;

pub(crate) async fn a_key_is_the_same_before_and_after_creation(fixture: &impl Fixture) {
    // given paths that do not exist, one of them below folders that do not either, one through a link
    fixture.folder("real");
    fixture.link("real", "alias");
    let paths = ["new.rs", "deep/er/new.rs", "alias/new.rs"];
    for path in paths {
        let before = fixture.target(path).await;
        assert_eq!(fixture.world().fs().stat(&before).await.unwrap(), None);

        // when the file comes into being
        fixture.put(path, b"x");

        // then its key is the same
        assert_eq!(fixture.target(path).await.key(), before.key(), "{path}");
    }
}

pub(crate) async fn every_alias_has_one_key(fixture: &impl Fixture) {
    // given a file that is reached through links to it, to its folder, and to such a link
    let real = fixture.put("real/file.rs", b"x");
    fixture.link("real", "folder");
    fixture.link("folder/file.rs", "direct");
    fixture.link(
        fixture.scratch().join("direct").to_str().unwrap(),
        "indirect",
    );
    let key = fixture.target(&real).await.key().clone();

    // when it is resolved by each spelling, then the key is one, and the spelling is kept for people
    for alias in [
        "real/./file.rs",
        "folder/file.rs",
        "direct",
        "indirect",
        "real/../real//file.rs",
    ] {
        assert_eq!(fixture.target(alias).await.key(), &key, "{alias}");
    }
    let alias = fixture.target("folder/file.rs").await;
    assert_eq!(
        alias.display_path(),
        fixture.scratch().join("folder/file.rs")
    );
    assert_eq!(fixture.world().fs().process_path(&alias), real);
}

pub(crate) async fn a_dangling_link_has_the_key_of_what_it_would_create(fixture: &impl Fixture) {
    fixture.link("missing/file.rs", "dangling");
    let before = fixture.target("dangling").await;

    fixture.put("missing/file.rs", b"x");

    assert_eq!(fixture.target("dangling").await.key(), before.key());
    assert_eq!(fixture.target("missing/file.rs").await.key(), before.key());
}

pub(crate) async fn parent_steps_follow_links_as_the_system_does(fixture: &impl Fixture) {
    // given a link that leads deeper, so that dropping ".." by name would name another file
    fixture.folder("a/b/c");
    let right = fixture.put("a/b/file.rs", b"right");
    fixture.put("file.rs", b"wrong");
    fixture.link("a/b/c", "link");

    let target = fixture.target("link/../file.rs").await;

    assert_eq!(fixture.world().fs().process_path(&target), right);
    assert_eq!(
        fixture.world().fs().read_text(&target).await.unwrap().text,
        "right"
    );
    assert_eq!(target.display_path(), right);
}

pub(crate) async fn paths_that_lead_nowhere_are_refused_with_a_code(fixture: &impl Fixture) {
    fixture.put("file", b"x");
    fixture.link("loop-b", "loop-a");
    fixture.link("loop-a", "loop-b");
    let long = "n".repeat(256);
    let refused = [
        ("", "FS_NOT_FOUND"),
        (" \t", "FS_NOT_FOUND"),
        ("file/below", "FS_NOT_FOUND"),
        ("file/below/deeper", "FS_NOT_FOUND"),
        ("file/../x", "FS_NOT_FOUND"),
        ("file/", "FS_NOT_FOUND"),
        ("loop-a", "FS_IO_ERROR"),
        ("loop-a/x", "FS_IO_ERROR"),
        ("with\0nul", "FS_IO_ERROR"),
        (&long, "FS_IO_ERROR"),
    ];
    for (path, code) in refused {
        let error = fixture
            .world()
            .fs()
            .resolve(Path::new(path), fixture.scratch())
            .await
            .unwrap_err();
        assert_eq!(error.code(), code, "{path:?}");
    }

    let relative_cwd = fixture
        .world()
        .fs()
        .resolve(Path::new("x"), Path::new("y"))
        .await
        .unwrap_err();
    assert_eq!(relative_cwd.code(), "FS_IO_ERROR");
}

pub(crate) async fn containment_is_judged_on_resolved_targets(fixture: &impl Fixture) {
    fixture.folder("root/inner");
    fixture.folder("root-sibling");
    fixture.folder("outside");
    fixture.link("../outside", "root/leads-out");
    fixture.link("root", "alias");
    let root = fixture.target("root").await;
    let inside = [
        "root",
        "root/inner",
        "root/new/file",
        "alias/inner",
        "root/..hidden",
        "root-sibling/../root/x",
    ];
    let outside = [
        "root-sibling",
        "root/leads-out",
        "root/leads-out/new",
        "root/..",
        "outside",
    ];

    for path in inside {
        assert!(
            fixture
                .world()
                .fs()
                .contains(&root, &fixture.target(path).await),
            "{path}"
        );
    }
    for path in outside {
        assert!(
            !fixture
                .world()
                .fs()
                .contains(&root, &fixture.target(path).await),
            "{path}"
        );
    }
}

pub(crate) async fn stat_and_lstat_tell_what_is_there(fixture: &impl Fixture) {
    fixture.put("file", b"12345");
    fixture.folder("folder");
    fixture.link("file", "link");
    fixture.link("nothing", "dangling");
    fixture.fifo("fifo");
    let fs = fixture.world().fs();

    for (path, kind, size) in [
        ("file", FileKind::File, Some(5)),
        ("folder", FileKind::Directory, None),
        ("link", FileKind::File, Some(5)),
        ("fifo", FileKind::Other, None),
    ] {
        let metadata = fs.stat(&fixture.target(path).await).await.unwrap().unwrap();
        assert_eq!((metadata.kind, metadata.size), (kind, size), "{path}");
    }
    assert_eq!(
        fs.stat(&fixture.target("nothing").await).await.unwrap(),
        None
    );
    assert_eq!(
        fs.stat(&fixture.target("dangling").await).await.unwrap(),
        None
    );

    for (path, kind) in [
        ("link", FileKind::Symlink),
        ("dangling", FileKind::Symlink),
        ("file", FileKind::File),
    ] {
        let metadata = fs
            .lstat(Path::new(path), fixture.scratch())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(metadata.kind, kind, "{path}");
    }
    assert_eq!(
        fs.lstat(Path::new("nothing"), fixture.scratch())
            .await
            .unwrap(),
        None
    );
    assert_eq!(
        fs.lstat(Path::new("file/below"), fixture.scratch())
            .await
            .unwrap(),
        None
    );
}

pub(crate) async fn a_version_changes_with_every_rewrite(fixture: &impl Fixture) {
    // given a file and its version
    let path = fixture.put("file", b"one");
    let target = fixture.target("file").await;
    let fs = fixture.world().fs();
    let first = fs.stat(&target).await.unwrap().unwrap().version;
    assert_eq!(fs.stat(&target).await.unwrap().unwrap().version, first);
    assert_eq!(fs.read_text(&target).await.unwrap().version, first);

    // when it is rewritten with the same size and its old modification time
    let restore = fixture.script("touch -r file kept && printf two > file && touch -r kept file");
    fixture.output(restore).await;

    // then the version is another one
    assert_ne!(
        fs.stat(&target).await.unwrap().unwrap().version,
        first,
        "{}",
        path.display()
    );
}

pub(crate) async fn a_listing_is_sorted_and_survives_a_bad_child(fixture: &impl Fixture) {
    fixture.put("dir/b", b"12");
    fixture.put("dir/B/inner", b"");
    fixture.link("loop", "dir/loop");
    fixture.link("b", "dir/a");
    fixture.link("nothing", "dir/dangling");

    let entries = fixture
        .world()
        .fs()
        .list_dir(&fixture.target("dir").await)
        .await
        .unwrap();

    let shown: Vec<_> = entries
        .iter()
        .map(|entry| (entry.name.to_str().unwrap(), entry.kind, entry.size))
        .collect();
    assert_eq!(
        shown,
        [
            ("B", FileKind::Directory, None),
            ("a", FileKind::Symlink, None),
            ("b", FileKind::File, Some(2)),
            ("dangling", FileKind::Symlink, None),
            ("loop", FileKind::Symlink, None),
        ]
    );
    let find = |name: &str| {
        entries
            .iter()
            .find(|entry| entry.name == OsStr::new(name))
            .unwrap()
    };
    assert_eq!(find("a").target, find("b").target);
    assert_eq!(
        find("dangling").target,
        Some(fixture.target("dir/nothing").await)
    );
    assert_eq!(find("loop").error.as_ref().unwrap().code(), "FS_IO_ERROR");
    assert!(find("loop").target.is_none());
    assert!(entries.iter().filter(|entry| entry.error.is_some()).count() == 1);
    assert_eq!(
        find("b").target.as_ref().unwrap().display_path(),
        fixture.scratch().join("dir/b")
    );
}

pub(crate) async fn a_listing_of_no_folder_is_refused(fixture: &impl Fixture) {
    fixture.put("file", b"");
    let fs = fixture.world().fs();

    assert_eq!(
        fs.list_dir(&fixture.target("file").await)
            .await
            .unwrap_err()
            .code(),
        "FS_NOT_DIRECTORY"
    );
    assert_eq!(
        fs.list_dir(&fixture.target("nothing").await)
            .await
            .unwrap_err()
            .code(),
        "FS_NOT_FOUND"
    );
}

pub(crate) async fn what_is_neither_file_nor_folder_is_something_else(fixture: &impl Fixture) {
    fixture.folder("dir");
    fixture.fifo("dir/fifo");
    let listen = "import socket; socket.socket(socket.AF_UNIX).bind('dir/socket')";
    fixture
        .output(fixture.script(&format!("python3 -c \"{listen}\"")))
        .await;
    let fs = fixture.world().fs();

    for path in ["dir/fifo", "dir/socket", "/dev/null"] {
        let metadata = fs.stat(&fixture.target(path).await).await.unwrap().unwrap();
        assert_eq!(
            (metadata.kind, metadata.size),
            (FileKind::Other, None),
            "{path}"
        );
        let unfollowed = fs.lstat(Path::new(path), fixture.scratch()).await.unwrap();
        assert_eq!(unfollowed.unwrap().kind, FileKind::Other, "{path}");
    }
    let entries = fs.list_dir(&fixture.target("dir").await).await.unwrap();
    assert_eq!(entries.len(), 2);
    assert!(
        entries
            .iter()
            .all(|entry| entry.kind == FileKind::Other && entry.error.is_none())
    );
}

pub(crate) async fn a_link_put_in_after_resolving_is_refused(fixture: &impl Fixture) {
    let fs = fixture.world().fs();
    if !fs.facts().handle_relative {
        return;
    }
    // given targets, one of them a folder
    fixture.put("folder/file", b"inside");
    fixture.put("outside/file", b"outside");
    fixture.folder("outside/inner");
    let file = fixture.target("folder/file").await;
    let new = fixture.target("folder/new").await;
    let deep = fixture.target("folder/made/file").await;
    let inner = fixture.target("folder").await;

    // when a link to elsewhere comes to stand in their path
    fixture
        .output(fixture.script("mv folder moved && ln -s outside folder"))
        .await;

    // then nothing follows it, and each says to resolve again
    let edit = EditRequest {
        old_text: "outside".to_owned(),
        new_text: "broken".to_owned(),
        replace_all: false,
    };
    let (write, edited) = (WriteOptions::default(), EditOptions::default());
    let refused = [
        fs.stat(&file).await.err(),
        fs.stat(&inner).await.err(),
        fs.read_text(&file).await.err(),
        fs.stream_text(&file).await.err(),
        fs.read_bytes(&file, 100).await.err(),
        fs.read_range(&file, 0, 100).await.err(),
        fs.list_dir(&inner).await.err(),
        fs.write_text(&file, "broken", &write).await.err(),
        fs.write_text(&new, "broken", &write).await.err(),
        fs.write_text(&deep, "broken", &write).await.err(),
        fs.edit_text(&file, &edit, &edited).await.err(),
    ];
    for error in refused {
        let error = error.expect("a link was followed");
        assert_eq!(error.code(), "FS_IO_ERROR");
        let shown = error.to_string();
        assert!(
            shown.contains("resolve it again") && shown.contains("/folder"),
            "{shown}"
        );
    }
    let outside = fixture
        .output(fixture.script("cat outside/file; ls outside"))
        .await;
    assert_eq!(&outside[..], b"outsidefile\ninner\n");

    // and it is found where it leads when that is done
    let again = fixture.target("folder/file").await;
    assert_eq!(fs.read_text(&again).await.unwrap().text, "outside");
}

pub(crate) async fn a_relative_path_starts_at_the_cwd_and_an_absolute_one_does_not(
    fixture: &impl Fixture,
) {
    let fs = fixture.world().fs();
    let inner = fixture.put("one/file", b"inner");
    let outer = fixture.put("file", b"outer");
    let cwd = fixture.folder("one");

    let relative = fs.resolve(Path::new("file"), &cwd).await.unwrap();
    let absolute = fs.resolve(&outer, &cwd).await.unwrap();

    assert_eq!(fs.process_path(&relative), inner);
    assert_eq!(fs.process_path(&absolute), outer);
    let size = |metadata: Option<Metadata>| metadata.unwrap().size;
    fixture.put("one/short", b"1");
    assert_eq!(
        size(fs.lstat(Path::new("short"), &cwd).await.unwrap()),
        Some(1)
    );
    assert_eq!(size(fs.lstat(&outer, &cwd).await.unwrap()), Some(5));
}

each_provider!([
    a_relative_path_starts_at_the_cwd_and_an_absolute_one_does_not,
    what_is_neither_file_nor_folder_is_something_else,
    a_link_put_in_after_resolving_is_refused,
    a_key_is_the_same_before_and_after_creation,
    every_alias_has_one_key,
    a_dangling_link_has_the_key_of_what_it_would_create,
    parent_steps_follow_links_as_the_system_does,
    paths_that_lead_nowhere_are_refused_with_a_code,
    containment_is_judged_on_resolved_targets,
    stat_and_lstat_tell_what_is_there,
    a_version_changes_with_every_rewrite,
    a_listing_is_sorted_and_survives_a_bad_child,
    a_listing_of_no_folder_is_refused,
]);
