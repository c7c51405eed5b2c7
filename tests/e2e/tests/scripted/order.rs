//! Order and bounded memory, with a client that sends much and does not read.

use lspool_testkit::scenario_format::{Action, Body, Delay};
use lspool_testkit::{Pending, RuleBuilder, ScenarioBuilder, deadline, hash};
use serde_json::{Value, json};

use super::ground::{Ground, high_water, within};

/// How many changes and how many requests are sent, in turn.
const COUNT: usize = 10_000;

/// Bytes of a question, and so of its answer.
const PADDING: usize = 4_000;

/// What the daemon's memory may grow by, in bytes: the outbox holds 1 MiB, and each request in flight is remembered. All
/// answers together have twice that.
const GROWTH: u64 = 20 << 20;

/// The params of the n-th question.
fn question(nth: usize) -> String {
    json!({"nth": nth, "padding": "x".repeat(PADDING)}).to_string()
}

#[test]
fn ten_thousand_changes_and_requests_keep_their_order_while_the_client_does_not_read() {
    // given a server that answers in random order
    // A server that is held up by a busy machine is not one that has stalled.
    let ground = Ground::with("[limits]\noutbox_bytes = 1048576\nstall_ms = 30000\n");
    let all_here = ground.flag("all-here");
    let server = ground.server(
        &ScenarioBuilder::new()
            .with(|scenario| scenario.journal.hash_over_bytes = 64)
            .rule(
                RuleBuilder::method("test/echo")
                    .nth(COUNT as u64)
                    .act([Action::Touch(all_here.clone()), Action::Continue]),
            )
            .on(
                "test/echo",
                [
                    Action::Delay(Delay::Random { random: (0, 50) }),
                    Action::Reply(Body::Params),
                ],
            )
            .on("textDocument/didChange", []),
    );
    let editor = ground.editor(&server);
    let file = ground.file("a.toy", "");
    editor.did_open(&file, "toy", 0, "").unwrap();
    let daemon = ground.daemon();
    let before = high_water(daemon);

    // when a client that reads nothing sends changes and requests in turn
    editor.stop_reading();
    let pending: Vec<Pending> = (0..COUNT)
        .map(|nth| {
            let version = i64::try_from(nth).unwrap() + 1;
            editor
                .did_change(&file, version, &format!("text {nth}"))
                .unwrap();
            let id = nth.to_string();
            let id = if nth % 2 == 0 {
                id
            } else {
                format!("\"{id}\"")
            };
            editor
                .request_raw(&id, "test/echo", Some(&question(nth)))
                .unwrap()
        })
        .collect();

    // and reads only when the server has got all of it
    // This is the work of thousands of answers, so it has the time of several.
    within(4 * deadline(), "the server has got everything", || {
        all_here.exists().then_some(())
    });
    let unread = high_water(daemon);
    editor.resume_reading();

    // then each request has its own answer
    for (nth, pending) in pending.iter().enumerate() {
        let answer: Value = pending.result().unwrap();
        assert_eq!(answer["nth"], nth);
    }
    assert!(editor.unbalanced().is_empty());

    // and the server got everything in the order in which it was sent
    let journal = server.journal();
    let seen: Vec<String> = journal
        .received()
        .into_iter()
        .filter_map(|message| match message.method.as_deref()? {
            "textDocument/didChange" => Some(format!("version {}", message.document?.version)),
            "test/echo" => Some(format!("question {}", message.params_hash?)),
            _ => None,
        })
        .collect();
    let sent: Vec<String> = (0..COUNT)
        .flat_map(|nth| {
            [
                format!("version {}", nth + 1),
                format!("question {}", hash::of(question(nth).as_bytes())),
            ]
        })
        .collect();
    assert!(seen == sent, "{} messages of {}", seen.len(), sent.len());

    // and the daemon held what its outbox may hold, not all that was unread
    let grown = [unread, high_water(daemon)].map(|bytes| bytes - before);
    assert!(
        grown.iter().all(|grown| *grown < GROWTH),
        "it grew by {grown:?} bytes"
    );
    journal.assert_no_violations();
    drop(editor);
    ground.finish();
}
