//! The daemon as a process: one of it, started by whoever needs it first, leaving when idle or told to.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, starts programs and looks at files"
)]

mod support;

use std::io::{BufRead as _, BufReader, IoSlice, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use serde_json::{Value, json};
use support::{Face, PATIENCE, Place, eventually};

#[test]
fn of_many_first_faces_one_starts_the_daemon_and_all_are_served() {
    // given faces that all start at once
    let place = Place::new();
    let mut faces: Vec<Face> = (0..8).map(|_| place.echo(&[])).collect();

    // when each has its session
    for face in &mut faces {
        face.initialize();
    }

    // then there is one daemon
    assert_eq!(place.daemons().len(), 1);
    for face in faces {
        assert_eq!(face.shutdown(), 0);
    }
}

#[test]
fn an_idle_daemon_leaves_and_the_next_face_starts_another() {
    let place = Place::with_config("[idle]\ndaemon_ms = 100\ninstance_ms = 50\n");
    let face = place.initialized_echo(&[]);
    let (daemon, _) = place.daemon();
    assert_eq!(face.shutdown(), 0);
    place.wait_until_empty(PATIENCE).unwrap();
    assert!(
        place.socket().symlink_metadata().is_err(),
        "the socket went with it"
    );
    let next = place.initialized_echo(&[]);
    assert_ne!(place.daemon().0, daemon);
    assert_eq!(next.shutdown(), 0);
}

#[test]
fn faces_that_meet_a_leaving_daemon_are_served_all_the_same() {
    // given a daemon that leaves whenever nobody is attached
    let place = Place::with_config("[idle]\ndaemon_ms = 1\ninstance_ms = 1\n");

    // when sessions follow one another
    for _ in 0..20 {
        assert_eq!(place.initialized_echo(&[]).shutdown(), 0);
    }
}

#[test]
fn a_daemon_does_not_leave_while_somebody_is_attached() {
    let place = Place::with_config("[idle]\ndaemon_ms = 1\n");
    let mut face = place.initialized_echo(&[]);
    let (daemon, _) = place.daemon();
    // The second status is asked after the first one's connection has ended and the idle time has passed for it.
    assert_eq!(place.daemon().0, daemon);
    assert_eq!(face.call("test/echo", &json!(7))["result"], 7);
    assert_eq!(face.shutdown(), 0);
}

#[test]
fn stop_is_refused_while_an_editor_is_attached_unless_forced() {
    let place = Place::new();
    let face = place.initialized_echo(&[]);

    let (code, stdout, stderr) = place.run(&["stop"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(
        stderr.contains("--force") && stderr.contains("process"),
        "{stderr}"
    );

    assert_eq!(place.run(&["stop", "--force"]).0, 0);
    let (status, _, stderr) = face.wait();
    assert_eq!(status.code(), Some(70));
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    place.wait_until_empty(PATIENCE).unwrap();
    assert!(place.socket().symlink_metadata().is_err());
}

#[test]
fn status_and_stop_start_nothing() {
    let place = Place::new();
    assert_eq!(place.run(&["status"]).0, 1);
    let (code, stdout, _) = place.run(&["status", "--json"]);
    assert_eq!((code, stdout.as_str()), (1, "{\"daemon\":null}\n"));
    assert_eq!(place.run(&["stop"]).0, 0);
    let (code, stdout, _) = place.run(&["--version"]);
    assert_eq!(code, 0);
    assert!(stdout.ends_with("daemon not running\n"), "{stdout}");
    assert_eq!(place.processes(), []);
}

#[test]
fn status_shows_who_is_attached() {
    let place = Place::new();
    let face = place.initialized_echo(&[]);
    let (code, stdout, _) = place.run(&["status"]);
    assert_eq!(code, 0);
    assert!(
        stdout.contains(&format!("process {}  server  python3", face.pid())),
        "{stdout}"
    );
    assert!(
        stdout.lines().all(|line| line.chars().count() <= 100),
        "{stdout}"
    );
    assert_eq!(face.shutdown(), 0);
}

#[test]
fn a_runtime_path_too_long_for_an_address_works() {
    let mut place = Place::new();
    place.set_runtime(place.path().join("x".repeat(150)));
    assert_eq!(place.initialized_echo(&[]).shutdown(), 0);
}

#[test]
fn without_a_usable_runtime_folder_the_session_runs_in_its_own_process() {
    // given a runtime folder that cannot be made
    let mut place = Place::new();
    place.set_runtime("/proc/nowhere".into());

    // when a face starts, it works and says why there is no daemon
    let mut face = place.echo(&[]);
    face.initialize();
    face.call("shutdown", &Value::Null);
    face.notify("exit", &Value::Null);
    let (status, _, stderr) = face.wait();
    assert_eq!(status.code(), Some(0));
    assert!(stderr.contains("without the daemon"), "{stderr}");
    place.set_runtime(place.path().join("run"));
}

#[test]
fn where_nothing_can_be_made_in_the_runtime_folder_the_session_runs_in_its_own_process() {
    // given a folder in which one of the daemon's files cannot be had
    for name in ["start.lock", "lspool-1.lock", "lspool-1.sock"] {
        let place = Place::new();
        place.make_runtime();
        std::fs::create_dir(place.runtime().join(name)).unwrap();

        // when a face starts
        let mut face = place.initialized_echo(&[]);
        assert_eq!(face.call("test/echo", &json!(1))["result"], 1);
        face.call("shutdown", &Value::Null);
        face.notify("exit", &Value::Null);
        let (status, _, stderr) = face.wait();

        // then it works and says why there is no daemon
        assert_eq!(status.code(), Some(0), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.contains("going on without the daemon"), "{stderr}");
        std::fs::remove_dir(place.runtime().join(name)).unwrap();
    }
}

#[test]
fn a_refused_configuration_is_told_to_whoever_attaches() {
    let place = Place::with_config("[idle]\nx = 1\n");
    let mut face = place.initialized_echo(&[]);
    face.call("shutdown", &Value::Null);
    face.notify("exit", &Value::Null);
    let (status, _, stderr) = face.wait();
    assert_eq!(status.code(), Some(0));
    assert!(
        stderr.contains("CONFIG_INVALID") && stderr.contains("config.toml:2"),
        "{stderr}"
    );
}

#[test]
fn a_configuration_that_is_no_file_is_told_and_holds_up_nobody() {
    // given a name that stands for something from which no text comes
    let make: [fn(&std::path::Path); 2] = [
        |path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap(),
        |path| std::fs::create_dir(path).unwrap(),
    ];
    for make in make {
        let place = Place::new();
        make(&place.config());
        assert_served_with_remark(place.echo(&[]), "not a regular file");
    }
}

#[test]
fn a_named_configuration_that_is_missing_is_told() {
    let place = Place::new();
    let mut command = place.lspool(&Place::echo_arguments(&[], &[]));
    let face = Face::start(command.env("LSPOOL_CONFIG", "nowhere.toml"));
    // A relative name is one below the face's folder, which is not the daemon's.
    let named = place.path().join("nowhere.toml");
    assert_served_with_remark(face, named.to_str().unwrap());
}

/// Runs a session to its end; its only line on stderr is about the configuration and has this text.
fn assert_served_with_remark(mut face: Face, text: &str) {
    face.initialize();
    face.call("shutdown", &Value::Null);
    face.notify("exit", &Value::Null);
    let (status, _, stderr) = face.wait();
    assert_eq!(status.code(), Some(0), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(
        stderr.contains("CONFIG_INVALID") && stderr.contains(text),
        "{stderr}"
    );
}

#[test]
fn a_relative_runtime_folder_lies_below_the_faces_folder() {
    let mut place = Place::new();
    let folder = place.path().join("relative");
    place.set_runtime("relative".into());
    let face = place.initialized_echo(&[]);
    assert!(folder.join("lspool-1.sock").exists());
    place.set_runtime(folder);
    assert_eq!(place.daemons(), [place.daemon().0]);
    assert_eq!(face.shutdown(), 0);
}

fn raw(place: &Place, message: &[u8]) -> Value {
    let mut socket = UnixStream::connect(place.socket()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
        .write_all(&(message.len() as u32).to_be_bytes())
        .unwrap();
    socket.write_all(message).unwrap();
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
}

#[test]
fn a_hello_that_is_none_is_refused_by_name_and_the_daemon_goes_on() {
    let place = Place::new();
    let face = place.initialized_echo(&[]);
    let refused = |message: &[u8]| raw(&place, message)["refused"]["code"].clone();
    assert_eq!(refused(b"{"), "HELLO_INVALID");
    assert_eq!(refused(br#"{"protocol":99}"#), "PROTOCOL_MISMATCH");
    assert_eq!(refused(br#"{"protocol":1}"#), "HELLO_INVALID");
    let without_descriptors = json!({
        "protocol": 1, "face": { "harness": { "root": null, "world": null } },
        "cwd": "/", "environment": [], "umask": 18, "pid": 1,
    });
    assert_eq!(
        refused(without_descriptors.to_string().as_bytes()),
        "HELLO_INVALID"
    );
    // An end in the middle of a hello is no event at all.
    let mut half = UnixStream::connect(place.socket()).unwrap();
    half.write_all(&[0, 0]).unwrap();
    drop(half);
    assert_eq!(face.shutdown(), 0);
}

#[test]
fn a_hello_with_more_than_two_descriptors_is_refused_and_all_are_closed() {
    let place = Place::new();
    let face = place.initialized_echo(&[]);
    let hello = json!({
        "protocol": 1, "face": { "harness": { "root": null, "world": null } },
        "cwd": "/", "environment": [], "umask": 18, "pid": 1,
    })
    .to_string();
    let message = [&(hello.len() as u32).to_be_bytes()[..], hello.as_bytes()].concat();
    for count in [3, 100] {
        // given that many copies of a pipe's writing end
        let socket = UnixStream::connect(place.socket()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();

        // when they come with one hello
        let descriptors = vec![writer.as_raw_fd(); count];
        sendmsg::<()>(
            socket.as_raw_fd(),
            &[IoSlice::new(&message)],
            &[ControlMessage::ScmRights(&descriptors)],
            MsgFlags::empty(),
            None,
        )
        .unwrap();
        drop(writer);

        // then it is refused and nobody holds the pipe
        let mut line = String::new();
        BufReader::new(socket).read_line(&mut line).unwrap();
        let reply: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(reply["refused"]["code"], "HELLO_INVALID", "{reply}");
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
    assert_eq!(face.shutdown(), 0);
}

#[test]
fn the_daemon_is_detached_from_whoever_started_it() {
    let place = Place::new();
    let face = place.initialized_echo(&[]);
    let (daemon, guardian) = place.daemon();
    let link = |name: &str| std::fs::read_link(format!("/proc/{daemon}/{name}")).unwrap();
    assert_eq!(link("cwd"), std::path::Path::new("/"));
    for descriptor in 0..3 {
        assert_eq!(
            link(&format!("fd/{descriptor}")),
            std::path::Path::new("/dev/null")
        );
    }
    for pid in [daemon, guardian] {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        assert_ne!(fields[1], face.pid().to_string(), "no child of the face");
        assert_ne!(
            fields[3],
            nix::unistd::getsid(None).unwrap().to_string(),
            "another session"
        );
    }
    let status = std::fs::read_to_string(format!("/proc/{daemon}/status")).unwrap();
    assert!(status.contains("Umask:\t0077"), "{status}");
    assert!(status.contains("SigBlk:\t0000000000000000"), "{status}");
    assert_eq!(face.shutdown(), 0);
}

#[test]
fn a_daemon_has_the_usual_limits_whatever_its_starter_had() {
    // given a shell that has lowered its own limits and its priority
    let place = Place::new();
    let lowered = "ulimit -S -n 64; ulimit -S -s 1024; ulimit -S -f 100000; exec nice -n 5 \"$@\"";
    let plain = place.lspool(&Place::echo_arguments(&[], &[]));
    let mut command = std::process::Command::new("sh");
    command.args(["-c", lowered, "sh"]).arg(plain.get_program());
    command.args(plain.get_args()).env_clear();
    for (name, value) in plain.get_envs() {
        command.env(name, value.unwrap());
    }
    command.current_dir(place.path());
    command.stdout(std::process::Stdio::piped());
    command.stderr(std::process::Stdio::piped());

    // when a daemon is started from it
    let mut face = Face::start(&mut command);
    face.initialize();

    // then the daemon has what a process usually has, as far as it may
    let (daemon, _) = place.daemon();
    let limits = std::fs::read_to_string(format!("/proc/{daemon}/limits")).unwrap();
    for (name, usual) in [
        ("Max open files", "1024"),
        ("Max stack size", "8388608"),
        ("Max file size", "unlimited"),
    ] {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
        let mut values = line[name.len()..].split_ascii_whitespace();
        let (soft, hard) = (values.next().unwrap(), values.next().unwrap());
        assert!(soft == usual || soft == hard, "{line}");
    }
    if may_lower_niceness() {
        let stat = std::fs::read_to_string(format!("/proc/{daemon}/stat")).unwrap();
        // Field 19 of the line; what follows the name begins with field 3.
        let niceness = stat.rsplit_once(") ").unwrap().1.split(' ').nth(16);
        assert_eq!(niceness, Some("0"), "{stat}");
    }
    assert_eq!(face.shutdown(), 0);
}

/// Whether a process of this user can take back its own niceness.
fn may_lower_niceness() -> bool {
    std::process::Command::new("nice")
        .args(["-n", "5", "sh", "-c", "renice -n 0 -p $$ >&2"])
        .stderr(std::process::Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[test]
fn a_second_daemon_in_the_foreground_ends_beside_the_first() {
    let place = Place::new();
    let face = place.initialized_echo(&[]);
    let (code, _, stderr) = place.run(&["daemon", "--foreground"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("another"), "{stderr}");
    assert_eq!(face.shutdown(), 0);
}

#[test]
fn a_daemon_in_the_foreground_serves_until_it_is_told_to_end() {
    let place = Place::new();
    let mut daemon = place.lspool(&["daemon", "--foreground"]).spawn().unwrap();
    let mut line = String::new();
    let mut stderr = BufReader::new(daemon.stderr.take().unwrap());
    stderr.read_line(&mut line).unwrap();
    assert_eq!(line, "lspool daemon: ready\n");
    assert_eq!(place.initialized_echo(&[]).shutdown(), 0);
    support::signal(daemon.id().cast_signed(), nix::sys::signal::Signal::SIGTERM);
    assert_eq!(daemon.wait().unwrap().code(), Some(0));
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

#[test]
fn the_log_is_private_and_holds_no_value_of_the_environment() {
    let place = Place::new();
    let mut command = place.lspool(&Place::echo_arguments(&[], &[]));
    let mut face = Face::start(command.env("ECHO_VARIABLE", "s3cret-value"));
    face.initialize();
    assert_eq!(face.shutdown(), 0);
    let log = place.path().join("home/.local/state/lspool/log/daemon.log");
    eventually("a line in the log", || {
        log.metadata().is_ok_and(|facts| facts.len() > 0)
    });
    let mode = std::os::unix::fs::MetadataExt::mode(&log.metadata().unwrap());
    assert_eq!(mode & 0o777, 0o600);
    assert!(
        !std::fs::read_to_string(&log)
            .unwrap()
            .contains("s3cret-value")
    );
}
