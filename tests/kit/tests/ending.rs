//! Every way in which a server ends, or does not.

mod common;

use common::{Pair, URI};
use lspool_testkit::journal_entry::{Ending, Event as Entry};
use lspool_testkit::scenario_format::{Action, Delay, Event, Grandchild, Signal, Stderr};
use lspool_testkit::{Exit, Harness, Leak, RuleBuilder, ScenarioBuilder};
use serde_json::json;

#[test]
fn a_server_crashes_on_a_method() {
    for (signal, number) in [
        (Signal::Kill, 9),
        (Signal::Segv, 11),
        (Signal::Abrt, 6),
        (Signal::Term, 15),
    ] {
        let pair = Pair::ready(&ScenarioBuilder::new().on("x/crash", [Action::Crash(signal)]));
        let pending = pair.client.request("x/crash", json!({})).unwrap();
        assert_eq!(pair.client.wait_exit().unwrap(), Exit::Signal(number));
        assert_eq!(pending.wait().unwrap_err().code(), "KIT_STREAM_ENDED");
        assert_eq!(
            pair.server.journal().wait_for_ending(1).unwrap(),
            Ending::CrashAction
        );
        pair.harness.finish();
    }
}

#[test]
fn a_server_exits_after_so_many_messages() {
    let after = RuleBuilder::method("*").nth(4).act([Action::Exit(9)]);
    let pair = Pair::open(&ScenarioBuilder::new().rule(after), "word");
    pair.client.did_change(URI, 2, "other").unwrap();
    assert_eq!(pair.client.wait_exit().unwrap(), Exit::Code(9));
    assert_eq!(pair.server.journal().methods().len(), 4);
    pair.harness.finish();
}

#[test]
fn shutdown_and_exit_are_ignored() {
    let pair = Pair::ready(&ScenarioBuilder::new().hang("shutdown").hang("exit"));
    pair.client.request("shutdown", json!(null)).unwrap();
    pair.client.notify_raw("exit", None).unwrap();
    pair.server.journal().wait_for_received("exit", 1).unwrap();
    assert_eq!(pair.client.exit(), None);
    pair.client.terminate();
    assert_eq!(pair.client.wait_exit().unwrap(), Exit::Signal(15));
    assert_eq!(
        pair.server.journal().wait_for_ending(1).unwrap(),
        Ending::Signal("TERM".to_owned())
    );
    pair.harness.finish();
}

#[test]
fn exit_is_slow() {
    let slow = [Action::Delay(Delay::Fixed(100)), Action::Continue];
    let scenario = ScenarioBuilder::new()
        .with(|scenario| scenario.process.stay_at_end_of_input = true)
        .on("exit", slow);
    let pair = Pair::ready(&scenario);
    let began = std::time::Instant::now();
    assert_eq!(pair.client.shut_down().unwrap(), Exit::Code(0));
    assert!(began.elapsed() >= std::time::Duration::from_millis(100));
    pair.harness.finish();
}

#[test]
fn the_end_of_input_ends_a_server_or_does_not() {
    let pair = Pair::ready(&ScenarioBuilder::new());
    pair.client.close_input();
    assert_eq!(pair.client.wait_exit().unwrap(), Exit::Code(1));
    pair.harness.finish();

    let harness = Harness::new().unwrap();
    let seen = harness.path().join("seen");
    let scenario = ScenarioBuilder::new()
        .with(|scenario| scenario.process.stay_at_end_of_input = true)
        .rule(RuleBuilder::event(Event::EndOfInput).act([Action::Touch(seen.clone())]));
    let pair = Pair::start_in(harness, &scenario);
    pair.initialize();
    pair.client.close_input();
    pair.server
        .journal()
        .wait_for("the event's effect", |entries| {
            let ended = entries.iter().any(|entry| entry.event == Entry::EndOfInput);
            (ended && seen.exists()).then_some(())
        })
        .unwrap();
    assert_eq!(pair.client.exit(), None);
    pair.kill();
}

#[test]
fn a_trapped_term_is_survived() {
    let scenario = ScenarioBuilder::new()
        .with(|scenario| scenario.process.trap_term = true)
        .rule(
            RuleBuilder::event(Event::Terminated).act([Action::Stderr(Stderr {
                text: "not yet".to_owned(),
                times: 1,
            })]),
        );
    let pair = Pair::ready(&scenario);
    pair.client.terminate();
    pair.client.wait_for_stderr("not yet").unwrap();
    let name = "TERM".to_owned();
    let signals = pair.server.journal().entries();
    assert!(
        signals
            .iter()
            .any(|entry| entry.event == Entry::Signal { name: name.clone() })
    );
    pair.finish();
}

#[test]
fn a_grandchild_outlives_its_server() {
    let grandchild = Grandchild {
        for_ms: 60_000,
        holds_stdout: true,
        new_session: true,
        trap_term: true,
    };
    let pair =
        Pair::ready(&ScenarioBuilder::new().on("initialized", [Action::Grandchild(grandchild)]));
    pair.client.shut_down().unwrap();
    let left = pair.harness.oracle().processes();
    assert_eq!(left.len(), 1);
    assert!(
        matches!(&pair.harness.oracle().look()[..], [Leak::Process { command, .. }] if command.contains("--sleep-ms 60000"))
    );
    // It holds stdout: the end of the output has not come, though its server is gone.
    assert!(pair.client.exit().is_some());
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(left[0]),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
    assert!(pair.client.wait_end_of_output().unwrap());
    pair.harness.finish();
}

#[test]
fn a_server_leaves_with_the_process_that_initialize_names() {
    let pair = Pair::start(
        &ScenarioBuilder::new().with(|scenario| scenario.process.watch_process_id = true),
    );
    let mut other = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    let params = json!({"processId": other.id(), "capabilities": {}});
    pair.client.initialize_with(params).unwrap();
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(pair.client.wait_exit().unwrap(), Exit::Code(1));
    assert_eq!(
        pair.server.journal().wait_for_ending(1).unwrap(),
        Ending::ParentGone
    );
    pair.harness.finish();
}

#[test]
fn stderr_is_flooded_without_a_line_end() {
    let flood = Stderr {
        text: "x".repeat(1 << 16),
        times: 400,
    };
    let pair = Pair::ready(&ScenarioBuilder::new().on(
        "initialized",
        [
            Action::Stderr(flood),
            Action::Stderr(Stderr {
                text: "end of flood".to_owned(),
                times: 1,
            }),
        ],
    ));
    pair.client.wait_for_stderr("end of flood").unwrap();
    assert_eq!(pair.client.stderr_bytes(), (400 << 16) + 12);
    assert_eq!(pair.client.stderr().len(), 1 << 20);
    pair.finish();
}

#[test]
fn memory_grows_on_cue() {
    const GROWN_KIB: u64 = 64 * 1024;
    let pair = Pair::ready(&ScenarioBuilder::new().on(
        "x/grow",
        [
            Action::GrowMemory(GROWN_KIB as usize * 1024),
            Action::Reply(lspool_testkit::scenario_format::Body::Json(
                lspool_testkit::raw("0"),
            )),
        ],
    ));
    let resident = || {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", pair.client.pid())).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS"))
            .unwrap()
            .to_owned();
        line.split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    let before = resident();
    pair.client.call::<u32>("x/grow", json!({})).unwrap();
    assert!(
        resident() >= before + GROWN_KIB * 9 / 10,
        "{before} to {} KiB",
        resident()
    );
    pair.finish();
}

#[test]
fn broken_protocol_is_journalled() {
    let pair = Pair::start(&ScenarioBuilder::new());
    let early = pair
        .client
        .request("textDocument/hover", json!({}))
        .unwrap();
    assert_eq!(early.wait().unwrap().error_code(), Some(-32002));
    pair.initialize();
    let again = pair.client.request("initialize", json!({})).unwrap();
    assert_eq!(again.wait().unwrap().error_code(), Some(-32600));
    pair.client.did_change(URI, 1, "never opened").unwrap();
    pair.client.did_open(URI, "toy", 5, "one").unwrap();
    pair.client.did_open(URI, "toy", 6, "one").unwrap();
    pair.client.did_change(URI, 6, "same version").unwrap();
    pair.client
        .did_edit(URI, 7, (9, 0), (9, 1), "outside")
        .unwrap();
    pair.client.did_save("file:///never").unwrap();
    pair.client.did_close("file:///never").unwrap();
    pair.client
        .send_body(b"{\"id\":77,\"result\":null}")
        .unwrap();
    pair.client.send_body(b"[]").unwrap();
    pair.client.send_bytes(b"no header\r\n").unwrap();
    assert_eq!(pair.client.wait_exit().unwrap(), Exit::Code(1));
    expect_test::expect![[r#"
        server 1: textDocument/hover before initialize
        server 1: initialize a second time
        server 1: didChange of file:///a.toy, which is not open
        server 1: didOpen of file:///a.toy, which is open already
        server 1: didChange of file:///a.toy from version 6 to 6
        server 1: didChange of file:///a.toy outside its text: Range { start: Position { line: 9, character: 0 }, end: Position { line: 9, character: 1 } }
        server 1: didSave of file:///never, which is not open
        server 1: didClose of file:///never, which is not open
        server 1: an answer to a request that was not asked or is answered: 77
        server 1: a body that is not a JSON-RPC message
        server 1: input that is not framed: header line without a colon: "no header""#]].assert_eq(&pair.server.journal().violations().join("\n"));
    pair.harness.finish();
}

#[test]
fn an_id_in_flight_and_a_range_in_whole_texts_are_violations() {
    let scenario = ScenarioBuilder::new()
        .capabilities(json!({"textDocumentSync": 1}))
        .hang("x/hang");
    let pair = Pair::open(&scenario, "word");
    pair.client.request_raw("\"same\"", "x/hang", None).unwrap();
    pair.client.request_raw("\"same\"", "x/hang", None).unwrap();
    pair.client.did_edit(URI, 2, (0, 0), (0, 1), "W").unwrap();
    let shutdown = pair.client.shut_down().unwrap();
    assert_eq!(shutdown, Exit::Code(0));
    assert_eq!(
        pair.server.journal().violations(),
        [
            "server 1: x/hang with the id \"same\", which is in flight",
            "server 1: didChange of file:///a.toy by range, but whole texts were announced",
        ]
    );
    pair.harness.finish();
}
