//! File URIs.

use std::path::Path;

use crate::fixture::Fixture;

pub(crate) async fn a_uri_names_the_canonical_file(fixture: &impl Fixture) {
    fixture.put("real dir/file é.rs", b"");
    fixture.link("real dir", "alias");
    let fs = fixture.world().fs();

    let uri = fs.file_uri(&fixture.target("alias/file é.rs").await);

    assert!(uri.ends_with("/real%20dir/file%20%C3%A9.rs"), "{uri}");
    let back = fs.path_from_uri(&uri).unwrap();
    assert_eq!(
        fixture.target(back).await,
        fixture.target("alias/file é.rs").await
    );
    assert_eq!(
        fs.file_uri(&fs.resolve(Path::new("/"), Path::new("/")).await.unwrap()),
        "file:///"
    );
}

pub(crate) async fn a_spelled_uri_keeps_links(fixture: &impl Fixture) {
    fixture.folder("real");
    let alias = fixture.link("real", "alias").join("./file.rs");
    let fs = fixture.world().fs();

    let uri = fs.spelled_uri(&alias).unwrap();

    assert!(uri.ends_with("/alias/file.rs"), "{uri}");
    for refused in ["relative/file.rs", "/a/../b", ""] {
        assert_eq!(
            fs.spelled_uri(Path::new(refused)).unwrap_err().code(),
            "FS_IO_ERROR",
            "{refused}"
        );
    }
}

pub(crate) async fn every_legal_escaping_is_read(fixture: &impl Fixture) {
    let fs = fixture.world().fs();
    for uri in [
        "file:///a/b%20c.rs",
        "file:///a/b c.rs",
        "file:///%61/%62%20%63.%72s",
        "file://localhost/a/b%20c.rs",
        "FILE://LOCALHOST/a/b%20c.rs",
        "file:/a/b%20c.rs",
    ] {
        assert_eq!(
            fs.path_from_uri(uri).unwrap(),
            Path::new("/a/b c.rs"),
            "{uri}"
        );
    }
    assert_eq!(
        fs.path_from_uri("file:///c%3A/x%25").unwrap(),
        Path::new("/c:/x%")
    );
}

pub(crate) async fn foreign_and_broken_uris_are_refused(fixture: &impl Fixture) {
    let fs = fixture.world().fs();
    for uri in [
        "",
        "file",
        "file:",
        "file://",
        "file://localhost",
        "file:relative",
        "http://localhost/a",
        "untitled:Untitled-1",
        "file://elsewhere/a",
        "file:///a%",
        "file:///a%2",
        "file:///a%zz",
        "file:///a%00b",
        "file:///a?query",
        "file:///a#fragment",
        "/a",
    ] {
        assert_eq!(
            fs.path_from_uri(uri).unwrap_err().code(),
            "FS_IO_ERROR",
            "{uri}"
        );
    }
}

each_provider!([
    a_uri_names_the_canonical_file,
    a_spelled_uri_keeps_links,
    every_legal_escaping_is_read,
    foreign_and_broken_uris_are_refused,
]);
