//! Editing texts in place.

use lspool_world::fs::{
    DIFF_BASIS_MAX_BYTES, EditIntent, EditOptions, EditOutcome, EditRequest, NUL_SAMPLE_BYTES,
};
use lspool_world::{FileVersion, FsError};

use crate::fixture::Fixture;

fn one(old_text: &str, new_text: &str) -> EditRequest {
    EditRequest {
        old_text: old_text.to_owned(),
        new_text: new_text.to_owned(),
        replace_all: false,
    }
}

fn all(old_text: &str, new_text: &str) -> EditRequest {
    EditRequest {
        replace_all: true,
        ..one(old_text, new_text)
    }
}

fn at(version: &FileVersion) -> EditOptions {
    let version = version.clone();
    EditOptions {
        intent: Some(EditIntent { version }),
        ..EditOptions::default()
    }
}

async fn edit(
    fixture: &impl Fixture,
    path: &str,
    request: &EditRequest,
    options: &EditOptions,
) -> Result<EditOutcome, FsError> {
    let target = fixture.target(path).await;
    let fs = fixture.world().fs();
    fs.edit_text(&target, request, options).await
}

async fn bytes(fixture: &impl Fixture, path: &str) -> Vec<u8> {
    let target = fixture.target(path).await;
    let fs = fixture.world().fs();
    fs.read_bytes(&target, 100_000_000).await.unwrap().to_vec()
}

async fn version(fixture: &impl Fixture, path: &str) -> FileVersion {
    let target = fixture.target(path).await;
    let metadata = fixture.world().fs().stat(&target).await.unwrap();
    metadata.unwrap().version
}

pub(crate) async fn a_text_is_replaced_at_its_version(fixture: &impl Fixture) {
    fixture.put("file", b"let a = 1;\r\nlet b = 2;\n");
    let seen = version(fixture, "file").await;
    let options = EditOptions {
        diff_basis: true,
        durable: true,
        ..at(&seen)
    };

    let edited = edit(fixture, "file", &one("a = 1", "a = $1"), &options)
        .await
        .unwrap();

    assert_eq!(edited.replacements, 1);
    assert_eq!(edited.before.as_deref(), Some("let a = 1;\nlet b = 2;\n"));
    assert_eq!(edited.after.as_deref(), Some("let a = $1;\nlet b = 2;\n"));
    assert_eq!(bytes(fixture, "file").await, b"let a = $1;\r\nlet b = 2;\n");

    // The version that comes back is that of now, and good for the next edit.
    assert_eq!(edited.version, version(fixture, "file").await);
    let next = edit(
        fixture,
        "file",
        &one("b = 2", "b = 3"),
        &at(&edited.version),
    )
    .await
    .unwrap();
    assert_eq!((next.before, next.after), (None, None));
    assert_ne!(next.version, edited.version);
}

pub(crate) async fn a_byte_order_mark_and_all_other_line_ends_stay(fixture: &impl Fixture) {
    let cases: [(&str, EditRequest, &str); 6] = [
        ("\u{feff}one\r\ntwo", one("one", "1"), "\u{feff}1\r\ntwo"),
        ("a\r\nb\nc\r\nd\n", one("b", "x\ny"), "a\r\nx\ny\nc\r\nd\n"),
        (
            "a\r\nb\nc\r\nd\n",
            one("c\r\nd", "x\ny"),
            "a\r\nb\nx\r\ny\n",
        ),
        ("a\r\nb\r\n", one("a\nb", "x\ny"), "x\r\ny\r\n"),
        ("a\nb\n", one("a\r\nb", "x\r\ny"), "x\ny\n"),
        ("a\rb\r\nc", all("\n", "\n\n"), "a\rb\r\n\r\nc"),
    ];
    for (before, request, after) in cases {
        fixture.put("file", before.as_bytes());

        edit(fixture, "file", &request, &EditOptions::default())
            .await
            .unwrap();

        assert_eq!(
            String::from_utf8(bytes(fixture, "file").await).unwrap(),
            after
        );
    }
}

pub(crate) async fn all_matches_are_replaced_if_asked(fixture: &impl Fixture) {
    fixture.put("file", b"aXbXXc");

    let edited = edit(fixture, "file", &all("X", "--"), &EditOptions::default())
        .await
        .unwrap();

    assert_eq!(edited.replacements, 3);
    assert_eq!(bytes(fixture, "file").await, b"a--b----c");
}

pub(crate) async fn what_cannot_be_matched_once_is_told(fixture: &impl Fixture) {
    fixture.put("file", b"a\nb a\nc\na\n");
    let before = version(fixture, "file").await;
    let options = at(&before);

    for request in [
        one("nothing", "x"),
        one("", "x"),
        all("", "x"),
        all("nothing", "x"),
    ] {
        let refused = edit(fixture, "file", &request, &options).await.unwrap_err();
        assert_eq!(refused.code(), "FS_EDIT_NOT_FOUND", "{request:?}");
    }
    let refused = edit(fixture, "file", &one("a", "x"), &options)
        .await
        .unwrap_err();

    assert_eq!(refused.code(), "FS_AMBIGUOUS_EDIT");
    let shown = refused.to_string();
    assert!(
        shown.contains("3 times") && shown.contains("0, 1, 3"),
        "{shown}"
    );
    let FsError::AmbiguousEdit { matches, lines, .. } = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((matches, lines), (3, vec![0, 1, 3]));
    assert_eq!(version(fixture, "file").await, before);
}

pub(crate) async fn the_version_is_checked_before_the_text(fixture: &impl Fixture) {
    fixture.put("file", b"one");
    let old = version(fixture, "file").await;
    fixture.put("file", b"other");
    fixture.put("binary", b"a\0b");

    // A needle that does not match, and a file that is no text, are stale first.
    for path in ["file", "binary"] {
        let refused = edit(fixture, path, &one("one", "x"), &at(&old))
            .await
            .unwrap_err();
        assert_eq!(refused.code(), "FS_STALE_VERSION", "{path}");
    }

    // So is a file that is not there, also where nothing is expected of it.
    for options in [EditOptions::default(), at(&old)] {
        for path in ["nothing", "no/folder/file"] {
            let refused = edit(fixture, path, &one("one", "x"), &options)
                .await
                .unwrap_err();
            assert_eq!(refused.code(), "FS_STALE_VERSION", "{path}");
        }
    }
    let nothing = fixture.target("nothing").await;
    assert_eq!(fixture.world().fs().stat(&nothing).await.unwrap(), None);
}

pub(crate) async fn only_regular_files_are_edited(fixture: &impl Fixture) {
    fixture.folder("folder");
    fixture.fifo("fifo");
    fixture.put("file", b"");
    let any = version(fixture, "file").await;
    for path in ["folder", "fifo", "/dev/null"] {
        for options in [EditOptions::default(), at(&any)] {
            let refused = edit(fixture, path, &one("a", "b"), &options)
                .await
                .unwrap_err();
            assert_eq!(refused.code(), "FS_NOT_REGULAR_FILE", "{path}");
        }
    }
}

pub(crate) async fn what_is_not_text_is_not_edited(fixture: &impl Fixture) {
    let mut late_nul = b"old ".repeat(NUL_SAMPLE_BYTES);
    late_nul.push(0);
    let wide: Vec<u8> = "old text\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let cases: [(&[u8], &str); 4] = [
        (&late_nul, "binary"),
        (&wide, "UTF-16LE"),
        (b"old na\xefve caf\xe9", "windows-1252"),
        (b"\xfe\xff\0o\0l\0d", "UTF-16BE"),
    ];
    for (content, guess) in cases {
        fixture.put("file", content);
        let before = version(fixture, "file").await;

        let refused = edit(fixture, "file", &one("old", "new"), &EditOptions::default()).await;

        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), "FS_NOT_TEXT");
        assert!(refused.to_string().contains(guess), "{refused}");
        assert_eq!(version(fixture, "file").await, before);
    }
}

pub(crate) async fn a_long_text_is_edited_without_a_basis(fixture: &impl Fixture) {
    let limit = usize::try_from(DIFF_BASIS_MAX_BYTES).unwrap();
    let options = EditOptions {
        diff_basis: true,
        ..EditOptions::default()
    };
    for (length, new_text, has_basis) in [
        (limit, "x", false),
        (limit - 1, "two", false),
        (limit - 1, "x", true),
    ] {
        let mut content = vec![b'a'; length - 1];
        content.push(b'1');
        fixture.put("file", &content);

        let edited = edit(fixture, "file", &one("1", new_text), &options)
            .await
            .unwrap();

        let given = (edited.before.is_some(), edited.after.is_some());
        assert_eq!(given, (has_basis, has_basis), "{length} {new_text}");
        assert!(bytes(fixture, "file").await.ends_with(new_text.as_bytes()));
    }
}

pub(crate) async fn permissions_and_links_stay(fixture: &impl Fixture) {
    let path = fixture.put("real", b"old");
    fixture.permit(&path, 0o751);
    fixture.link("real", "alias");

    edit(
        fixture,
        "alias",
        &one("old", "new"),
        &EditOptions::default(),
    )
    .await
    .unwrap();

    let shown = fixture
        .output(fixture.script("stat -c %a real; readlink alias; cat alias"))
        .await;
    assert_eq!(&shown[..], b"751\nreal\nnew");
}

each_provider!([
    a_text_is_replaced_at_its_version,
    a_byte_order_mark_and_all_other_line_ends_stay,
    all_matches_are_replaced_if_asked,
    what_cannot_be_matched_once_is_told,
    the_version_is_checked_before_the_text,
    only_regular_files_are_edited,
    what_is_not_text_is_not_edited,
    a_long_text_is_edited_without_a_basis,
    permissions_and_links_stay,
]);
