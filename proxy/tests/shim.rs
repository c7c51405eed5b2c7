//! The face that an editor starts: descriptors of every kind, exit codes, and what happens when it is killed.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, starts programs and looks at files"
)]

mod support;

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use support::{Face, Place, eventually, is_alive, signal};

#[test]
fn a_session_ends_with_zero_after_shutdown_and_exit() {
    let place = Place::new();
    let mut face = place.initialized_echo(&[]);
    assert_eq!(
        face.call("test/echo", &json!({ "a": "é\u{1f600}" }))["result"]["a"],
        "é\u{1f600}"
    );
    assert_eq!(face.shutdown(), 0);
}

#[test]
fn exit_without_shutdown_and_the_end_of_input_are_one() {
    let place = Place::new();
    let mut face = place.initialized_echo(&[]);
    face.notify("exit", &Value::Null);
    assert_eq!(face.wait().0.code(), Some(1));

    let mut face = place.initialized_echo(&[]);
    face.close_input();
    assert_eq!(face.wait().0.code(), Some(1));
}

#[test]
fn a_missing_server_is_127_and_one_that_cannot_run_126() {
    let place = Place::new();
    let plain = place.path().join("plain");
    File::create(&plain).unwrap();
    for (command, code) in [("no-such-server", 127), (plain.to_str().unwrap(), 126)] {
        let mut face = Face::start(&mut place.lspool(&["--", command]));
        let answer = face.call(
            "initialize",
            &json!({ "processId": null, "rootUri": null, "capabilities": {} }),
        );
        assert!(
            answer["error"]["message"]
                .as_str()
                .unwrap()
                .contains(command),
            "{answer}"
        );
        face.close_input();
        let (status, _, stderr) = face.wait();
        assert_eq!(status.code(), Some(code), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn a_missing_server_is_told_also_to_who_never_asks_for_it() {
    let place = Place::new();
    let plain = place.path().join("plain");
    File::create(&plain).unwrap();
    for (command, code) in [
        ("no-such-server", 127),
        (plain.to_str().unwrap(), 126),
        ("cat", 1),
    ] {
        let output = place.lspool(&["--", command]).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert_eq!(stderr.contains(command), code != 1, "{stderr}");
    }
}

#[test]
fn sockets_carry_a_session_as_node_gives_them() {
    let place = Place::new();
    let (near, far) = UnixStream::pair().unwrap();
    let mut command = place.lspool(&Place::echo_arguments(&[], &[]));
    // One socket for both directions.
    let child = command
        .stdin(OwnedFd::from(far.try_clone().unwrap()))
        .stdout(OwnedFd::from(far))
        .spawn()
        .unwrap();
    drop(command);
    let mut face = Face::over(child, Box::new(near.try_clone().unwrap()), Box::new(near));
    face.initialize();
    assert_eq!(face.call("test/echo", &json!(1))["result"], 1);
    assert_eq!(face.shutdown(), 0);
}

#[test]
fn stdin_from_a_file_and_stdout_into_a_file_carry_a_session() {
    // given a file that holds a whole session
    let place = Place::new();
    let mut input = File::create_new(place.path().join("in")).unwrap();
    for message in [
        json!({ "jsonrpc": "2.0", "id": 0, "method": "shutdown" }),
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "capabilities": {} } }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "shutdown" }),
        json!({ "jsonrpc": "2.0", "method": "exit" }),
    ] {
        let body = message.to_string();
        write!(input, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    }
    let output = File::create_new(place.path().join("out")).unwrap();

    // when it is played
    let status = place
        .lspool(&Place::echo_arguments(&[], &[]))
        .stdin(File::open(place.path().join("in")).unwrap())
        .stdout(output)
        .stderr(Stdio::null())
        .status()
        .unwrap();

    // then its end is a proper one, and the answers that do not need the server are in the other file: `exit` does not
    // wait for the server
    assert_eq!(status.code(), Some(0));
    let text = std::fs::read_to_string(place.path().join("out")).unwrap();
    assert!(text.contains(r#""id":0,"error":{"code":-32002"#), "{text}");
    assert!(text.contains(r#""id":2,"result":null"#), "{text}");
}

#[test]
fn the_server_gets_the_faces_environment_folder_and_mask_and_not_the_daemons() {
    // given a daemon that a face with another environment started
    let place = Place::new();
    let mut first = place.lspool(&Place::echo_arguments(&[], &[]));
    let mut first = Face::start(first.env("ECHO_VARIABLE", "first"));
    first.initialize();

    // when a second face comes with a value that is not UTF-8
    let folder = place.path().join("elsewhere");
    std::fs::create_dir(&folder).unwrap();
    let mut second = place.lspool(&Place::echo_arguments(&[], &["--second"]));
    let bytes = std::ffi::OsString::from_vec(vec![0xff, b'x']);
    let mut second = Face::start(second.env("ECHO_VARIABLE", bytes).current_dir(&folder));
    second.initialize();

    // then its server has its own
    let facts = second.facts();
    assert_eq!(facts["variable"], "ff78");
    assert_eq!(
        facts["cwd"],
        folder.canonicalize().unwrap().to_str().unwrap()
    );
    assert_eq!(second.shutdown(), 0);
    assert_eq!(first.shutdown(), 0);
}

#[test]
fn a_killed_face_ends_its_session_at_once() {
    let place = Place::with_config("[idle]\ninstance_ms = 50\n");
    let mut face = place.initialized_echo(&[]);
    let server = face.facts()["pid"].as_i64().unwrap() as i32;
    let (daemon, _) = place.daemon();
    signal(face.pid(), Signal::SIGKILL);
    eventually("the server's end", || !is_alive(server));
    assert_eq!(place.daemon().0, daemon, "the daemon goes on");
}

#[test]
fn a_stopped_face_holds_nobody_up() {
    let place = Place::new();
    let stopped = place.initialized_echo(&[]);
    signal(stopped.pid(), Signal::SIGSTOP);
    let mut other = place.initialized_echo(&[]);
    assert_eq!(other.call("test/echo", &json!(1))["result"], 1);
    assert_eq!(other.shutdown(), 0);
    signal(stopped.pid(), Signal::SIGCONT);
    assert_eq!(stopped.shutdown(), 0);
}

#[test]
fn a_signal_ends_the_face_with_that_signal() {
    let place = Place::new();
    let face = place.initialized_echo(&[]);
    signal(face.pid(), Signal::SIGTERM);
    let status = face.wait().0;
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(15)
    );
}

#[test]
fn an_editor_that_reads_nothing_at_first_costs_bounded_memory_and_gets_every_answer() {
    // given an editor that asks for much more than all buffers hold and reads nothing
    const REQUESTS: usize = 150;
    let place = Place::new();
    let mut face = place.initialized_echo(&[]);
    let (daemon, _) = place.daemon();
    let text = "x".repeat(1_000_000);
    let mut writer = face.take_input();
    let (sender, written) = std::sync::mpsc::channel();
    let feeder = std::thread::spawn(move || {
        for id in 0..REQUESTS {
            let body = json!({ "jsonrpc": "2.0", "id": 1_000 + id, "method": "test/echo", "params": text })
                .to_string();
            write!(writer, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
            let _ = sender.send(());
        }
        writer
    });

    // when it is pushed back, or all was taken
    while written.recv_timeout(Duration::from_millis(500)).is_ok() {}

    // then the faces and the daemon hold no more than their bounds
    assert!(peak_memory(daemon) < 150_000_000, "{}", peak_memory(daemon));
    assert!(
        peak_memory(face.pid()) < 50_000_000,
        "{}",
        peak_memory(face.pid())
    );

    // and once it reads, every request has its one answer: the server's, or that the server had stalled
    let mut answered = std::collections::BTreeSet::new();
    for _ in 0..REQUESTS {
        let answer = face.receive().unwrap();
        let is_echo = answer["result"]
            .as_str()
            .is_some_and(|text| text.len() == 1_000_000);
        assert!(
            is_echo || answer["error"]["data"]["code"] == "LSP_STALLED",
            "{answer}"
        );
        assert!(answered.insert(answer["id"].as_u64().unwrap()));
    }
    assert!(answered.into_iter().eq(1_000..1_000 + REQUESTS as u64));
    face.put_input(feeder.join().unwrap());
    assert_eq!(face.shutdown(), 0);
}

fn peak_memory(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"))
        .unwrap();
    kilobytes.parse::<u64>().unwrap() * 1_000
}

#[test]
fn a_command_line_that_makes_no_sense_is_two() {
    let place = Place::new();
    for line in [
        &["nonsense"][..],
        &[],
        &["query", "hover"],
        &["query", "hover", "a.c"],
        &["query", "hover", "a.c:0:1"],
        &["query", "rename", "a.c:1:1"],
        &["daemon"],
    ] {
        let (code, stdout, stderr) = place.run(line);
        assert_eq!(code, 2, "{line:?}: {stderr}");
        assert_eq!(stdout, "", "{line:?}");
        assert!(!stderr.is_empty(), "{line:?}");
    }
}
