//! Nothing is left whoever is killed: the daemon, its guardian, both, or a `--no-daemon` pair.
//!
//! Each test runs a server that has left a grandchild in a session of its own, without a parent, that ignores SIGTERM.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, starts programs and looks at files"
)]

mod support;

use std::time::Duration;

use nix::sys::signal::Signal;
use support::{Face, Place, eventually, is_alive, signal};

/// The promise for one killed process.
const SOON: Duration = Duration::from_secs(2);

fn with_tree(place: &Place) -> (Face, i32, i32) {
    let mut face = place.initialized_echo(&["--tree"]);
    let facts = face.facts();
    let id = |name: &str| facts[name].as_i64().unwrap() as i32;
    let (server, orphan) = (id("pid"), id("orphan"));
    assert!(is_alive(server) && is_alive(orphan));
    (face, server, orphan)
}

/// A face whose daemon ended says so in one line, whatever ended the daemon.
fn assert_lost(face: Face) {
    let (status, rest, stderr) = face.wait();
    assert_eq!(status.code(), Some(70), "{stderr}");
    assert_eq!(rest, b"");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(
        stderr.contains("start the language server again"),
        "{stderr}"
    );
}

#[test]
fn a_killed_daemon_leaves_nothing_and_its_face_says_so() {
    // given a session whose server has an escaped grandchild
    let place = Place::new();
    let (face, _, _) = with_tree(&place);
    let (daemon, _) = place.daemon();

    // when the daemon is killed
    signal(daemon, Signal::SIGKILL);

    // then the face ends with 70 and one line, and all else is gone
    assert_lost(face);
    place.wait_until_empty(SOON).unwrap();

    // and the next attach works
    assert_eq!(place.initialized_echo(&[]).shutdown(), 0);
}

#[test]
fn a_killed_guardian_leaves_nothing() {
    let place = Place::new();
    let (face, _, _) = with_tree(&place);
    let (_, guardian) = place.daemon();

    signal(guardian, Signal::SIGKILL);

    assert_lost(face);
    place.wait_until_empty(SOON).unwrap();
}

#[test]
fn what_both_left_is_swept_by_the_next_start() {
    // given that the daemon and its guardian were killed at once
    let place = Place::new();
    let (face, _, orphan) = with_tree(&place);
    let (daemon, guardian) = place.daemon();
    // Stopped first, so that neither acts on the other's end.
    signal(guardian, Signal::SIGSTOP);
    signal(daemon, Signal::SIGSTOP);
    signal(guardian, Signal::SIGKILL);
    signal(daemon, Signal::SIGKILL);
    assert_eq!(face.wait().0.code(), Some(70));
    eventually("the end of both", || {
        !is_alive(daemon) && !is_alive(guardian)
    });
    assert!(is_alive(orphan), "the test needs something to sweep");

    // when the next session starts
    let next = place.initialized_echo(&[]);

    // then what was left is gone
    assert!(!is_alive(orphan));
    assert_eq!(next.shutdown(), 0);
}

#[test]
fn a_signal_to_the_daemon_ends_its_trees() {
    for sent in [Signal::SIGTERM, Signal::SIGINT] {
        let place = Place::new();
        let (face, _, _) = with_tree(&place);
        let (daemon, _) = place.daemon();
        signal(daemon, sent);
        assert_lost(face);
        place.wait_until_empty(support::PATIENCE).unwrap();
    }
}

#[test]
fn a_signal_to_the_guardian_reaches_the_daemon() {
    let place = Place::new();
    let (face, _, _) = with_tree(&place);
    let (_, guardian) = place.daemon();
    signal(guardian, Signal::SIGTERM);
    assert_lost(face);
    place.wait_until_empty(support::PATIENCE).unwrap();
}

fn without_daemon(place: &Place) -> (Face, i32) {
    let arguments = Place::echo_arguments(&["--no-daemon"], &["--tree"]);
    let mut face = Face::start(&mut place.lspool(&arguments));
    face.initialize();
    let orphan = face.facts()["orphan"].as_i64().unwrap() as i32;
    assert!(is_alive(orphan));
    (face, orphan)
}

#[test]
fn a_session_without_daemon_leaves_nothing_at_its_end() {
    let place = Place::new();
    let (face, _) = without_daemon(&place);
    assert!(
        place.socket().symlink_metadata().is_err(),
        "no daemon was started"
    );
    assert_eq!(face.shutdown(), 0);
    place.wait_until_empty(SOON).unwrap();
}

#[test]
fn a_terminated_session_without_daemon_leaves_nothing() {
    let place = Place::new();
    let (face, _) = without_daemon(&place);
    signal(face.pid(), Signal::SIGTERM);
    assert_eq!(face.wait().0.code(), Some(143));
    place.wait_until_empty(SOON).unwrap();
}

#[test]
fn a_session_without_daemon_whose_guardian_is_killed_leaves_nothing() {
    let place = Place::new();
    let (face, _) = without_daemon(&place);
    signal(face.pid(), Signal::SIGKILL);
    drop(face);
    place.wait_until_empty(SOON).unwrap();
}
