//! The daemon's files are taken away while it lives, as a cleaner of temporary files does it.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, starts programs and looks at files"
)]

mod support;

use std::fs::{self, File};

use serde_json::{Value, json};
use support::{Place, eventually};

#[test]
fn a_socket_that_was_removed_is_put_back() {
    // given a daemon with a session
    let place = Place::new();
    let mut first = place.initialized_echo(&[]);
    let (daemon, _) = place.daemon();

    // when its socket is removed, alone and together with its lock
    for names in [&["lspool-1.sock"][..], &["lspool-1.lock", "lspool-1.sock"]] {
        for name in names {
            fs::remove_file(place.runtime().join(name)).unwrap();
        }
        eventually("the socket's return", || place.socket().exists());

        // then the next face finds the same daemon, and nobody noticed
        let next = place.initialized_echo(&[]);
        assert_eq!(place.daemon().0, daemon);
        assert_eq!(next.shutdown(), 0);
        assert_eq!(first.call("test/echo", &json!(1))["result"], 1);
    }
    assert_eq!(place.daemons(), [daemon]);
    assert_eq!(place.run(&["stop", "--force"]).0, 0);
    assert!(!place.socket().exists(), "it takes away what it put back");
}

#[test]
fn a_daemon_whose_folder_is_gone_keeps_its_sessions_and_leaves_the_place_to_the_next() {
    // given a daemon with a session
    let place = Place::with_config("[idle]\ndaemon_ms = 100\ninstance_ms = 50\n");
    let mut first = place.initialized_echo(&[]);
    let (daemon, _) = place.daemon();

    // when its folder is moved away
    fs::rename(place.runtime(), place.path().join("elsewhere")).unwrap();

    // then the next face has another daemon, and the session goes on
    let next = place.initialized_echo(&[]);
    assert_ne!(place.daemon().0, daemon);
    assert_eq!(first.call("test/echo", &json!(1))["result"], 1);
    assert!(place.daemons().contains(&daemon));

    // and the first daemon ends with its last session
    assert_eq!(first.shutdown(), 0);
    eventually("the end of the first daemon", || !support::is_alive(daemon));
    assert!(place.socket().exists(), "the socket of the next one stays");
    assert_eq!(next.shutdown(), 0);
}

#[test]
fn a_lock_that_is_held_without_a_socket_holds_up_nobody() {
    // given somebody who holds the daemon's lock and serves nobody
    let place = Place::new();
    place.make_runtime();
    let lock = File::create(place.runtime().join("lspool-1.lock")).unwrap();
    lock.lock().unwrap();

    // when an editor starts its server, then it has it in a process of its own
    let mut face = place.initialized_echo(&[]);
    face.call("shutdown", &Value::Null);
    face.notify("exit", &Value::Null);
    let (status, _, stderr) = face.wait();
    assert_eq!(status.code(), Some(0), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("going on without the daemon"), "{stderr}");

    // and commands say what is wrong rather than that no daemon runs
    for command in [&["status"][..], &["stop", "--force"]] {
        let (code, _, stderr) = place.run(command);
        assert_eq!(code, 70, "{stderr}");
        assert!(stderr.contains("lspool-1.lock"), "{stderr}");
    }
}
