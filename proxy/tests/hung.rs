//! A daemon that is there and does not answer: nobody waits for it without an end.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, starts programs and looks at files"
)]

mod support;

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use support::{Face, Place, signal};

/// More than the time for an acknowledgement.
const BOUND: Duration = Duration::from_secs(15);

/// Runs a command beside a daemon that hangs: it names the daemon's process and ends with 70 within the time.
fn assert_gives_up(place: &Place, daemon: i32, arguments: &[&str], bound: Duration) {
    let begun = Instant::now();
    let (code, stdout, stderr) = place.run(arguments);
    assert!(
        begun.elapsed() < bound,
        "{arguments:?}: {:?}",
        begun.elapsed()
    );
    assert_eq!((code, stdout.as_str()), (70, ""), "{arguments:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
    assert!(
        stderr.contains(&format!("kill -KILL {daemon}")),
        "{arguments:?}: {stderr}"
    );
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
        let give_up = |arguments: &'static [&'static str], bound| {
            let place = &place;
            scope.spawn(move || assert_gives_up(place, daemon, arguments, bound));
        };
        give_up(&["status"], BOUND);
        give_up(&["stop", "--force"], BOUND);
        give_up(&["query", "hover", "a.c:1:5"], BOUND);
        give_up(
            &["query", "hover", "a.c:1:5", "--timeout", "1s"],
            Duration::from_secs(5),
        );

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
    // given a daemon that acknowledges and is stopped while the query waits for a server that never answers
    let place = Place::with_config(SILENT);
    std::fs::write(place.path().join("a.silent"), "x\n").unwrap();
    let mut query = place.lspool(&["query", "hover", "a.silent:1:1", "--timeout", "2s"]);
    let begun = Instant::now();
    let query = query.spawn().unwrap();
    let started = place.path().join("started");
    support::eventually("the server's start", || started.exists());
    let daemon = place.daemons()[0];
    signal(daemon, Signal::SIGSTOP);

    // when the time is over
    let output = query.wait_with_output().unwrap();

    // then the query ends although the daemon says nothing
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(70), "{stderr}");
    assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
    assert!(stderr.contains(&format!("kill -KILL {daemon}")), "{stderr}");
    signal(daemon, Signal::SIGCONT);
}

/// A server that says that it has started and nothing else.
const SILENT: &str = r#"
[[server]]
id = "silent"
commands = [["sh", "-c", "touch started; cat > /dev/null"]]
languages = [{ id = "silent", extensions = ["silent"] }]
root_markers = [{ markers = ["a.silent"] }]
"#;
