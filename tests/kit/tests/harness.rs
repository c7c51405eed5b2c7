//! The harness and the leak oracle: what they must find, they find.

use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use lspool_testkit::{Client, Exit, Harness, KitError, Leak, MARK_VARIABLE, ScenarioBuilder};

fn failure_of(harness: Harness) -> String {
    let ending = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| harness.finish()));
    let panic = ending.expect_err("the leak is found");
    panic.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn a_clean_test_finishes() {
    let harness = Harness::new().unwrap();
    assert_eq!(harness.oracle().look(), []);
    harness.finish();
}

#[test]
fn a_process_that_is_left_is_named_and_killed() {
    let harness = Harness::new().unwrap();
    let launch = harness.launch("sleep").arg("61");
    let mut child = Command::new("setsid")
        .args(&launch.argv)
        .env_clear()
        .envs(launch.environment.iter().cloned())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let oracle = harness.oracle();
    let failure = failure_of(harness);
    assert!(failure.contains("sleep 61"), "{failure}");
    child.wait().unwrap();
    assert_eq!(oracle.processes(), Vec::<i32>::new());
}

#[test]
fn sockets_and_temporary_files_are_found_where_they_are() {
    let harness = Harness::new().unwrap();
    let folder = harness.runtime_folder().join("deep");
    std::fs::create_dir(&folder).unwrap();
    let socket = folder.join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    // A plain file in the runtime folder is no leak, one in the temporary folder is.
    std::fs::write(harness.runtime_folder().join("lock"), "").unwrap();
    let file = harness.temporary_folder().join("t");
    std::fs::write(&file, "").unwrap();
    assert_eq!(
        harness.oracle().look(),
        [Leak::Socket(socket.clone()), Leak::Temporary(file.clone())]
    );
    drop(listener);
    std::fs::remove_file(socket).unwrap();
    std::fs::remove_file(file).unwrap();
    harness.finish();
}

#[test]
#[should_panic(expected = "without Harness::finish")]
fn a_harness_that_is_not_finished_fails_its_test() {
    drop(Harness::new().unwrap());
}

#[test]
fn what_is_started_sees_the_private_world_alone() {
    let harness = Harness::new().unwrap();
    let client = Client::start(&harness.launch("sh").args(["-c", "env >&2; pwd >&2"])).unwrap();
    assert_eq!(client.wait_exit().unwrap(), Exit::Code(0));
    let root = harness.path().to_str().unwrap().to_owned();
    client.wait_for_stderr(&format!("{root}/work\n")).unwrap();
    let seen = client.stderr();
    for (name, folder) in [
        ("HOME", "home"),
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_CACHE_HOME", "cache"),
        ("XDG_DATA_HOME", "data"),
        ("XDG_STATE_HOME", "state"),
        ("XDG_RUNTIME_DIR", "run"),
        ("LSPOOL_RUNTIME_DIR", "run"),
        ("TMPDIR", "tmp"),
    ] {
        assert!(
            seen.contains(&format!("{name}={root}/{folder}\n")),
            "{name} in {seen}"
        );
    }
    assert!(seen.contains(&harness.mark()) && harness.mark().starts_with(MARK_VARIABLE));
    assert!(
        !seen.contains("CARGO_PKG_NAME"),
        "the test's own environment leaked: {seen}"
    );
    harness.finish();
}

#[test]
fn two_harnesses_have_nothing_in_common() {
    let (one, other) = (Harness::new().unwrap(), Harness::new().unwrap());
    assert_ne!(one.mark(), other.mark());
    assert_ne!(one.path(), other.path());
    let server = one
        .scripted_server("server", &ScenarioBuilder::new())
        .unwrap();
    let client = one.client_of(&server).unwrap();
    server
        .journal()
        .wait_for("a start", |entries| (!entries.is_empty()).then_some(()))
        .unwrap();
    assert_eq!(one.oracle().processes(), [client.pid().cast_signed()]);
    other.finish();
    client.kill().unwrap();
    one.finish();
}

#[test]
fn what_cannot_be_started_is_named() {
    let harness = Harness::new().unwrap();
    let failure = Client::start(&harness.launch("/no/such/program"))
        .err()
        .unwrap();
    assert!(matches!(failure, KitError::Start { .. }));
    assert!(failure.to_string().contains("/no/such/program"));
    harness.finish();
}

#[test]
fn a_fixture_that_does_not_exist_is_named() {
    let harness = Harness::new().unwrap();
    let failure = harness.fixture("no such project").unwrap_err();
    assert_eq!(failure.code(), "KIT_FILE");
    assert!(failure.to_string().contains("no such project"));
    harness.finish();
}

#[test]
fn a_client_that_is_dropped_kills_its_child() {
    let harness = Harness::new().unwrap();
    let server = harness
        .scripted_server("server", &ScenarioBuilder::new())
        .unwrap();
    drop(harness.client_of(&server).unwrap());
    assert_eq!(harness.oracle().processes(), Vec::<i32>::new());
    harness.finish();
}
