//! Servers and clients that do not read, and what waits meanwhile.

mod common;

use std::time::{Duration, Instant};

use common::Pair;
use lspool_testkit::scenario_format::{Action, Body, Pause};
use lspool_testkit::{Exit, Harness, ScenarioBuilder, raw};
use serde_json::json;

const BIG_BYTES: usize = 4_000_000;

#[test]
fn a_server_reads_nothing_until_a_file_is_there() {
    let harness = Harness::new().unwrap();
    let release = harness.path().join("release");
    let scenario = ScenarioBuilder::new().on(
        "x/stop",
        [Action::StopReading(Pause::UntilFile(release.clone()))],
    );
    let pair = Pair::start_in(harness, &scenario);
    pair.initialize();
    pair.client.notify("x/stop", json!({})).unwrap();
    pair.client.notify("x/big", "x".repeat(BIG_BYTES)).unwrap();
    pair.server
        .journal()
        .wait_for("the stop", |entries| {
            entries
                .iter()
                .any(|entry| entry.event == lspool_testkit::journal_entry::Event::ReadingStopped)
                .then_some(())
        })
        .unwrap();
    assert!(
        pair.client.unsent_bytes() > BIG_BYTES / 2,
        "the server read on"
    );
    assert!(
        !pair
            .server
            .journal()
            .methods()
            .contains(&"x/big".to_owned())
    );
    std::fs::write(release, "").unwrap();
    pair.server.journal().wait_for_received("x/big", 1).unwrap();
    pair.client.wait_sent().unwrap();
    assert_eq!(pair.client.unsent_bytes(), 0);
    pair.finish();
}

#[test]
fn a_server_reads_nothing_for_a_time() {
    let pair = Pair::ready(
        &ScenarioBuilder::new()
            .on("x/stop", [Action::StopReading(Pause::ForMs(150))])
            .on("x/ask", [Action::Reply(Body::Json(raw("1")))]),
    );
    let began = Instant::now();
    pair.client.notify("x/stop", json!({})).unwrap();
    assert_eq!(pair.client.call::<u32>("x/ask", json!({})).unwrap(), 1);
    assert!(began.elapsed() >= Duration::from_millis(150));
    pair.finish();
}

#[test]
fn a_server_never_reads_again() {
    let pair =
        Pair::ready(&ScenarioBuilder::new().on("x/stop", [Action::StopReading(Pause::Forever)]));
    pair.client.notify("x/stop", json!({})).unwrap();
    pair.client.notify("x/big", "x".repeat(BIG_BYTES)).unwrap();
    pair.client.terminate();
    assert_eq!(pair.client.wait_exit().unwrap(), Exit::Signal(15));
    assert_eq!(
        pair.server.journal().methods().last().map(String::as_str),
        Some("x/stop")
    );
    pair.harness.finish();
}

#[test]
fn a_server_whose_client_does_not_read_blocks_when_its_queue_is_full() {
    let scenario = ScenarioBuilder::new()
        .with(|scenario| scenario.outbox_messages = 1)
        .on("x/fill", [Action::Reply(Body::Fill(BIG_BYTES))]);
    let pair = Pair::ready(&scenario);
    pair.client.stop_reading();
    let asked: Vec<_> = (0..6)
        .map(|_| pair.client.request("x/fill", json!({})).unwrap())
        .collect();
    pair.client.notify("x/after", json!({})).unwrap();
    // One is being written, one waits, one blocks the server: the journal stays before the rest.
    pair.server
        .journal()
        .wait_for_received("x/fill", 3)
        .unwrap();
    assert!(
        !pair
            .server
            .journal()
            .methods()
            .contains(&"x/after".to_owned())
    );
    pair.client.resume_reading();
    for pending in asked {
        assert_eq!(pending.result::<String>().unwrap().len(), BIG_BYTES);
    }
    pair.server
        .journal()
        .wait_for_received("x/after", 1)
        .unwrap();
    pair.finish();
}

#[test]
fn a_client_that_stops_reading_gets_everything_later_in_order() {
    let pair = Pair::ready(&ScenarioBuilder::new().on("x/echo", [Action::Reply(Body::Params)]));
    pair.client.stop_reading();
    let padding = "x".repeat(1000);
    let asked: Vec<_> = (0..500)
        .map(|n| pair.client.request("x/echo", json!([n, padding])).unwrap())
        .collect();
    pair.server
        .journal()
        .wait_for_received("x/echo", 500)
        .unwrap();
    assert!(
        asked[499].answer().is_none(),
        "half a megabyte came through a paused reader"
    );
    pair.client.resume_reading();
    let mut last = 0;
    for (n, pending) in asked.iter().enumerate() {
        let answer = pending.wait().unwrap();
        assert_eq!(answer.result::<(usize, String)>().unwrap().0, n);
        assert!(answer.message.index > last);
        last = answer.message.index;
    }
    pair.finish();
}

#[test]
fn ten_thousand_changes_and_requests_keep_their_order() {
    let scenario = ScenarioBuilder::new()
        .late("x/ask", 0, 50)
        .on("x/ask", [Action::Reply(Body::Params)]);
    let pair = Pair::open(&scenario, "0");
    pair.client.stop_reading();
    let asked: Vec<_> = (0..5000_i64)
        .map(|n| {
            pair.client
                .did_change(common::URI, n + 2, &n.to_string())
                .unwrap();
            pair.client.request("x/ask", json!(n)).unwrap()
        })
        .collect();
    pair.server
        .journal()
        .wait_for_received("x/ask", 5000)
        .unwrap();
    pair.client.resume_reading();
    for (n, pending) in asked.iter().enumerate() {
        assert_eq!(pending.result::<usize>().unwrap(), n);
    }
    let methods = pair.server.journal().methods();
    let sent: Vec<&str> = methods.iter().skip(3).map(String::as_str).collect();
    assert_eq!(sent, ["textDocument/didChange", "x/ask"].repeat(5000));
    pair.finish();
}
