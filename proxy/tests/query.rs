//! `lspool query` where no server is needed to answer: the exit codes, and what the person reads.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, starts programs and looks at files"
)]

mod support;

use support::{PATIENCE, Place};

fn refused(place: &Place, arguments: &[&str], code: i32, said: &str) {
    let (found, stdout, stderr) = place.run(arguments);
    assert_eq!(found, code, "{stderr}");
    assert_eq!(stdout, "", "stdout carries results only");
    assert!(stderr.contains(said), "{stderr}");
}

#[test]
fn a_file_without_a_server_is_four_and_says_how_to_get_one() {
    let place = Place::new();
    std::fs::write(place.path().join("a.unknown"), "x\n").unwrap();
    refused(
        &place,
        &["query", "hover", "a.unknown:1:1"],
        4,
        "config.toml",
    );
}

#[test]
fn a_missing_file_is_two() {
    let place = Place::new();
    refused(&place, &["query", "hover", "nowhere.c:1:1"], 2, "nowhere.c");
}

#[test]
fn a_world_that_is_not_there_is_refused_by_name() {
    let place = Place::new();
    refused(&place, &["connect", "--world", "moon"], 70, "moon");
}

#[test]
fn a_query_without_the_daemon_answers_the_same_and_leaves_nothing() {
    let place = Place::new();
    std::fs::write(place.path().join("a.unknown"), "x\n").unwrap();
    refused(
        &place,
        &["--no-daemon", "query", "hover", "a.unknown:1:1"],
        4,
        "config.toml",
    );
    assert!(place.socket().symlink_metadata().is_err());
    place.wait_until_empty(PATIENCE).unwrap();
}
