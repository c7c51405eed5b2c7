//! A daemon that is there and does not answer: nobody waits for it without an end.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, starts programs and looks at files"
)]

mod support;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use support::{Face, Place, signal};

/// Runs a command beside a daemon that hangs: it names the daemon's process, says that it has waited for so many
/// milliseconds, and ends with 70.
fn assert_gives_up(place: &Place, daemon: i32, arguments: &[&str], after: u32) {
    let (code, stdout, stderr) = place.run(arguments);
    assert_eq!((code, stdout.as_str()), (70, ""), "{arguments:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
    assert_says(&stderr, daemon, after);
}

fn assert_says(stderr: &str, daemon: i32, after: u32) {
    for part in [
        format!("kill -KILL {daemon}"),
        format!("did not answer within {after} ms"),
    ] {
        assert!(stderr.contains(&part), "{stderr}");
    }
}

#[test]
fn commands_give_up_on_a_stopped_daemon_and_editors_go_on_without_it() {
    // given a daemon that somebody stopped
    let place = Place::new();
    let first = place.initialized_echo(&[]);
    let (daemon, _) = place.daemon();
    std::fs::write(place.path().join("a.c"), "int a;\n").unwrap();
    signal(daemon, Signal::SIGSTOP);

    std::thread::scope(|scope| {
        // when commands are run, then each gives up in its time
        let give_up = |arguments: &'static [&'static str], after| {
            let place = &place;
            scope.spawn(move || assert_gives_up(place, daemon, arguments, after));
        };
        give_up(&["status"], 10_000);
        give_up(&["stop", "--force"], 10_000);
        give_up(&["query", "hover", "a.c:1:5"], 10_000);
        give_up(&["query", "hover", "a.c:1:5", "--timeout", "1s"], 1_000);

        // and an editor gets its server all the same
        let mut face = place.echo(&[]);
        face.initialize();
        assert_eq!(face.call("test/echo", &json!(1))["result"], 1);
        assert_eq!(end(face).lines().count(), 1);
    });

    // The one that wanted its end is heard once it goes on.
    signal(daemon, Signal::SIGCONT);
    assert_eq!(first.wait().0.code(), Some(70));
}

/// Ends a session properly; what it said on stderr.
fn end(mut face: Face) -> String {
    face.call("shutdown", &Value::Null);
    face.notify("exit", &Value::Null);
    let (status, _, stderr) = face.wait();
    assert_eq!(status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("going on without the daemon"), "{stderr}");
    stderr
}

#[test]
fn a_query_whose_answer_stays_away_gives_up_after_its_timeout() {
    // given a daemon that acknowledges, and a server that stops it and never answers
    let place = Place::with_config(SILENT);
    std::fs::write(place.path().join("a.silent"), "x\n").unwrap();

    // when it is queried
    let mut query = place.lspool(&["query", "hover", "a.silent:1:1", "--timeout", "5s"]);
    let output = query.output().unwrap();
    let daemon = place.daemons()[0];

    // then the query ends although the daemon says nothing
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(70), "{stderr}");
    assert_says(&stderr, daemon, 7_000);
    signal(daemon, Signal::SIGCONT);
}

/// A server that stops whoever started it, and says nothing.
const SILENT: &str = r#"
[[server]]
id = "silent"
commands = [["sh", "-c", "kill -STOP $PPID; cat > /dev/null"]]
languages = [{ id = "silent", extensions = ["silent"] }]
root_markers = [{ markers = ["a.silent"] }]
"#;
