//! How a daemon is told to end: by the method of a connection, and one server at a time.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, starts programs and looks at files"
)]

mod support;

use serde_json::json;
use support::{Face, PATIENCE, Place};

fn harness(place: &Place) -> Face {
    let mut face = Face::start(&mut place.lspool(&["connect"]));
    face.initialize();
    face
}

#[test]
fn who_stops_the_daemon_by_a_method_gets_the_answer_and_a_proper_end() {
    let place = Place::new();
    let mut face = harness(&place);

    let answer = face.call("lspool/stop", &json!({}));
    assert_eq!(answer["result"], json!({}), "{answer}");
    assert_eq!(face.shutdown(), 0);

    place.wait_until_empty(PATIENCE).unwrap();
    assert!(place.socket().symlink_metadata().is_err());
}

#[test]
fn who_stays_after_stopping_the_daemon_does_not_keep_it() {
    let place = Place::new();
    let mut face = harness(&place);
    face.call("lspool/stop", &json!({}));
    assert_eq!(face.wait().0.code(), Some(70));
    place.wait_until_empty(PATIENCE).unwrap();
}

#[test]
fn a_method_does_not_stop_the_daemon_under_an_editor() {
    let place = Place::new();
    let editor = place.initialized_echo(&[]);
    let mut face = harness(&place);

    let answer = face.call("lspool/stop", &json!({}));

    assert_eq!(answer["error"]["data"]["code"], "EDITORS_ATTACHED");
    assert_eq!(face.shutdown(), 0);
    assert_eq!(editor.shutdown(), 0);
}

#[test]
fn one_server_is_ended_and_its_process_is_gone_with_the_answer() {
    let place = Place::new();
    let editor = place.initialized_echo(&[]);
    let mut face = harness(&place);
    let status = place.status();
    let instance = &status["instances"][0];

    let answer = face.call("lspool/stop", &json!({ "instance": instance["id"] }));

    assert_eq!(answer["result"], json!({}), "{answer}");
    let pid = instance["pid"].as_i64().unwrap() as i32;
    assert!(!support::is_alive(pid));
    assert_eq!(place.status()["instances"], json!([]));
    let unknown = face.call("lspool/stop", &json!({ "instance": instance["id"] }));
    assert_eq!(unknown["error"]["data"]["code"], "INSTANCE_NOT_FOUND");
    assert_eq!(face.shutdown(), 0);
    drop(editor);
}

#[test]
fn a_changed_configuration_is_remarked_until_a_stop_puts_it_in_force() {
    let place = Place::with_config("[limits]\nqueries = 2_000\n");
    let editor = place.initialized_echo(&[]);
    let configuration = || place.status()["daemon"]["configuration"].clone();
    assert_eq!(configuration(), "in force");

    std::fs::write(
        place.path().join("config.toml"),
        "[limits]\nqueries = 20_000\n",
    )
    .unwrap();
    let remark = configuration();
    let remark = remark.as_str().unwrap();
    assert!(
        remark.contains("config.toml has changed") && remark.contains("lspool stop"),
        "{remark}"
    );
    let (code, _, stderr) = place.run(&["status"]);
    assert_eq!(
        (code, stderr.trim()),
        (0, remark),
        "whoever attaches is told"
    );

    assert_eq!(editor.shutdown(), 0);
    assert_eq!(place.run(&["stop"]).0, 0);
    let editor = place.initialized_echo(&[]);
    assert_eq!(configuration(), "in force");
    assert_eq!(editor.shutdown(), 0);
}

#[test]
fn the_command_line_ends_one_server_by_its_id() {
    let place = Place::new();
    assert_eq!(place.run(&["stop", "i1"]).0, 1, "without a daemon");
    let editor = place.initialized_echo(&[]);
    let id = place.status()["instances"][0]["id"].clone();

    assert_eq!(place.run(&["stop", id.as_str().unwrap()]).0, 0);

    assert_eq!(place.status()["instances"], json!([]));
    let (code, stdout, stderr) = place.run(&["stop", "i77"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("no instance i77"), "{stderr}");
    assert_eq!(place.run(&["stop", "i77", "--force"]).0, 2);
    drop(editor);
}
