//! Where lspool's own files cannot lie as they should: sessions work all the same.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, starts programs and looks at files"
)]

mod support;

use std::process::Command;

use serde_json::{Value, json};
use support::{Face, Place};

/// Runs a session of this command to its proper end; what it said on stderr.
fn served(command: &mut Command) -> String {
    let mut face = Face::start(command);
    face.initialize();
    assert_eq!(face.call("test/echo", &json!(1))["result"], 1);
    face.call("shutdown", &Value::Null);
    face.notify("exit", &Value::Null);
    let (status, _, stderr) = face.wait();
    assert_eq!(status.code(), Some(0), "{stderr}");
    stderr
}

fn session(place: &Place, before: &[&str]) -> Command {
    place.lspool(&Place::echo_arguments(before, &[]))
}

#[test]
fn without_any_home_the_session_runs_in_its_own_process() {
    let place = Place::new();
    let mut command = session(&place, &[]);
    command.env_remove("HOME").env_remove("LSPOOL_RUNTIME_DIR");

    let stderr = served(&mut command);

    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("going on without the daemon"), "{stderr}");
    assert_eq!(place.processes(), []);
}

#[test]
fn in_a_home_that_takes_no_file_the_session_runs_in_its_own_process() {
    let place = Place::new();
    let mut command = session(&place, &[]);
    command
        .env("HOME", "/proc/nowhere")
        .env_remove("LSPOOL_RUNTIME_DIR");

    let stderr = served(&mut command);

    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("going on without the daemon"), "{stderr}");
    assert_eq!(place.processes(), []);
}

#[test]
fn a_log_that_cannot_be_written_is_missed_by_nobody() {
    // given a folder that cannot be made, and a log on a disk that is full
    let unmade = Place::new();
    std::fs::write(unmade.path().join("home/.local"), "").unwrap();
    let full = Place::new();
    let folder = full.path().join("home/.local/state/lspool/log");
    std::fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink("/dev/full", folder.join("daemon.log")).unwrap();

    for place in [unmade, full] {
        // when sessions run in the daemon and without it, then each is served and says nothing of it
        for before in [&[][..], &["--no-daemon"]] {
            assert_eq!(served(&mut session(&place, before)), "", "{before:?}");
        }
        assert_eq!(place.daemons().len(), 1);
    }
}
