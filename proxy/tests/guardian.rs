//! Nothing is left whoever is killed: the daemon, its guardian, both, or a `--no-daemon` pair.
//!
//! Each test runs a server that has left a grandchild in a session of its own, without a parent, that ignores SIGTERM.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, starts programs and looks at files"
)]

mod support;

use nix::sys::signal::Signal;
use support::{Face, PATIENCE, Place, Stranger, eventually, is_alive, signal};

/// The promise for one killed process, two seconds, in looks of ten milliseconds: a busy machine holds up the looks of
/// this test as it holds up lspool.
const SOON: u32 = 200;

/// The configurations that decide what holds a tree together.
const CONFIGURATIONS: [&str; 2] = ["", "[containment]\ncontrol_groups = false\n"];

/// A session whose server has left two processes.
struct Session {
    face: Face,
    /// One that can be found by its environment.
    orphan: i32,
    /// One that cannot be found by anything but its control group or its last parent.
    bare: Stranger,
}

impl Session {
    /// A session in a daemon or without one.
    fn start(place: &Place, before: &[&str]) -> Self {
        let arguments = Place::echo_arguments(before, &["--tree"]);
        let mut face = Face::start(&mut place.lspool(&arguments));
        face.initialize();
        let facts = face.facts();
        let id = |name: &str| facts[name].as_i64().unwrap() as i32;
        let (server, orphan, bare) = (id("pid"), id("orphan"), Stranger::of(id("bare")));
        assert!(is_alive(server) && is_alive(orphan) && bare.is_alive());
        Self { face, orphan, bare }
    }
}

/// Whether control groups hold the trees of the running daemon. Where they cannot be made they do not.
fn has_control_groups(place: &Place) -> bool {
    let status = place.status();
    let containment = &status["worlds"][0]["containment"];
    assert!(
        containment == "control-group" || containment == "process-table",
        "{status}"
    );
    containment == "control-group"
}

/// Whether lspool can make control groups here.
fn machine_has_control_groups() -> bool {
    let place = Place::new();
    let face = place.initialized_echo(&[]);
    let has = has_control_groups(&place);
    assert_eq!(face.shutdown(), 0);
    has
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
fn control_groups_are_used_unless_the_configuration_says_otherwise() {
    let place = Place::with_config(CONFIGURATIONS[1]);
    let face = place.initialized_echo(&[]);
    assert!(!has_control_groups(&place));
    assert_eq!(face.shutdown(), 0);

    let place = Place::with_config("[containment]\ncontrol_groups = true\n");
    let face = place.initialized_echo(&[]);
    assert_eq!(has_control_groups(&place), machine_has_control_groups());
    assert_eq!(face.shutdown(), 0);
}

#[test]
fn a_killed_daemon_leaves_nothing_and_its_face_says_so() {
    for configuration in CONFIGURATIONS {
        // given a session whose server has escaped grandchildren
        let place = Place::with_config(configuration);
        let session = Session::start(&place, &[]);
        let (daemon, _) = place.daemon();

        // when the daemon is killed
        signal(daemon, Signal::SIGKILL);

        // then all is gone, also what shows nothing of where it comes from, and the face ends with 70 and one line
        place.look_until_empty(SOON).unwrap();
        assert!(!session.bare.is_alive());
        assert_lost(session.face);

        // and the next attach works
        assert_eq!(place.initialized_echo(&[]).shutdown(), 0);
    }
}

#[test]
fn a_killed_guardian_leaves_nothing() {
    for configuration in CONFIGURATIONS {
        let place = Place::with_config(configuration);
        let session = Session::start(&place, &[]);
        let (_, guardian) = place.daemon();
        let has_groups = has_control_groups(&place);

        signal(guardian, Signal::SIGKILL);

        place.look_until_empty(SOON).unwrap();
        // Its parent was the guardian, and nothing else tells where it comes from.
        assert_eq!(session.bare.is_alive(), !has_groups);
        assert_lost(session.face);
    }
}

#[test]
fn what_both_left_is_swept_by_the_next_start() {
    for configuration in CONFIGURATIONS {
        // given that the daemon and its guardian were killed at once
        let place = Place::with_config(configuration);
        let session = Session::start(&place, &[]);
        let has_groups = has_control_groups(&place);
        let (daemon, guardian) = place.daemon();
        // Stopped first, so that neither acts on the other's end.
        signal(guardian, Signal::SIGSTOP);
        signal(daemon, Signal::SIGSTOP);
        signal(guardian, Signal::SIGKILL);
        signal(daemon, Signal::SIGKILL);
        assert_eq!(session.face.wait().0.code(), Some(70));
        eventually("the end of both", || {
            !is_alive(daemon) && !is_alive(guardian)
        });

        // when the next session starts. A sweep is for all that this user's dead daemons left, so that the start of
        // another test's daemon may have come first; it is the same sweep.
        let next = place.initialized_echo(&[]);

        // then what was left is gone, but for what nothing tells of
        assert!(!is_alive(session.orphan));
        assert_eq!(session.bare.is_alive(), !has_groups);
        assert_eq!(next.shutdown(), 0);
    }
}

#[test]
fn a_signal_to_the_daemon_ends_its_trees() {
    for sent in [Signal::SIGTERM, Signal::SIGINT] {
        let place = Place::new();
        let session = Session::start(&place, &[]);
        let (daemon, _) = place.daemon();
        signal(daemon, sent);
        assert_lost(session.face);
        place.wait_until_empty(PATIENCE).unwrap();
        assert!(!session.bare.is_alive());
    }
}

#[test]
fn a_signal_to_the_guardian_reaches_the_daemon() {
    let place = Place::new();
    let session = Session::start(&place, &[]);
    let (_, guardian) = place.daemon();
    signal(guardian, Signal::SIGTERM);
    assert_lost(session.face);
    place.wait_until_empty(PATIENCE).unwrap();
    assert!(!session.bare.is_alive());
}

#[test]
fn a_session_without_daemon_leaves_nothing_at_its_end() {
    for configuration in CONFIGURATIONS {
        let place = Place::with_config(configuration);
        let session = Session::start(&place, &["--no-daemon"]);
        assert!(
            place.socket().symlink_metadata().is_err(),
            "no daemon was started"
        );
        assert_eq!(session.face.shutdown(), 0);
        // The face is the guardian, which ends last.
        assert_eq!(place.processes(), []);
        assert!(!session.bare.is_alive());
    }
}

#[test]
fn a_terminated_session_without_daemon_leaves_nothing() {
    let place = Place::new();
    let session = Session::start(&place, &["--no-daemon"]);
    signal(session.face.pid(), Signal::SIGTERM);
    assert_eq!(session.face.wait().0.code(), Some(143));
    assert_eq!(place.processes(), []);
    assert!(!session.bare.is_alive());
}

#[test]
fn a_session_without_daemon_whose_guardian_is_killed_leaves_nothing() {
    for configuration in CONFIGURATIONS {
        let place = Place::with_config(configuration);
        let session = Session::start(&place, &["--no-daemon"]);
        signal(session.face.pid(), Signal::SIGKILL);
        drop(session.face);
        place.look_until_empty(SOON).unwrap();
        let has_groups = configuration.is_empty() && machine_has_control_groups();
        assert_eq!(session.bare.is_alive(), !has_groups);
    }
}
