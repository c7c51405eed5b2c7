//! Every way in which a scenario says what, when and how often a request is answered.

mod common;

use std::time::{Duration, Instant};

use common::{Pair, URI};
use lspool_testkit::scenario_format::{
    Action, ArrayBody, Body, Bytes, Delay, ErrorBody, Moment, TimedBody,
};
use lspool_testkit::{RuleBuilder, ScenarioBuilder, deadline, hash, raw};
use serde_json::{Value, json};

const HOVER: &str = "textDocument/hover";

fn error(code: i64) -> ErrorBody {
    ErrorBody {
        code,
        message: "scripted".to_owned(),
        data: Some(raw("{\"a\": 1e2}")),
    }
}

#[test]
fn a_result_keeps_the_bytes_of_the_scenario() {
    let body = "{ \"n\":123456789012345678901234567890,\r\n \"e\":1e2, \"id\":7, \"s\":\"\\u00e9\u{e9}\" }";
    let pair =
        Pair::ready(&ScenarioBuilder::new().on("x/raw", [Action::Reply(Body::Json(raw(body)))]));
    let answer = pair
        .client
        .request("x/raw", json!({}))
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(answer.result_raw().unwrap(), body.as_bytes());
    pair.finish();
}

#[test]
fn params_are_echoed_byte_for_byte() {
    let params = "{ \"b\" :1.0,\"a\":[ ],\r\n\"b\":\"\\u00e9\" }";
    let pair = Pair::ready(&ScenarioBuilder::new().on("x/echo", [Action::Reply(Body::Params)]));
    for id in ["\"1\"", "1000", "-7"] {
        let answer = pair
            .client
            .request_raw(id, "x/echo", Some(params))
            .unwrap()
            .wait()
            .unwrap();
        assert_eq!(answer.result_raw().unwrap(), params.as_bytes());
        assert_eq!(answer.message.id.as_deref(), Some(id));
    }
    pair.finish();
}

#[test]
fn a_whole_body_is_sent_as_given_and_its_rest_is_known_on_both_sides() {
    let body = "{\"extra\":{\"id\":1} ,\"result\":${params}, \"jsonrpc\":\"2.0\",\"id\":${id} }";
    let scenario = ScenarioBuilder::new()
        .with(|scenario| scenario.journal.bodies = true)
        .on("x/whole", [Action::Send(Bytes::Text(body.to_owned()))]);
    let pair = Pair::ready(&scenario);
    let sent = "{\"method\":\"x/whole\",\"z\":{\"id\":0},\"params\":[1e2],\"jsonrpc\":\"2.0\",\"id\":\"a\"}";
    let answer = pair
        .client
        .request_body("\"a\"", "x/whole", sent.as_bytes())
        .unwrap()
        .wait()
        .unwrap();
    let expected = body.replace("${params}", "[1e2]").replace("${id}", "\"a\"");
    assert_eq!(answer.message.body, expected.as_bytes());

    let received = pair
        .server
        .journal()
        .wait_for_received("x/whole", 1)
        .unwrap()
        .remove(0);
    assert_eq!(received.body.as_deref(), Some(sent));
    let around: Vec<&[u8]> = sent.split("\"a\"").map(str::as_bytes).collect();
    assert_eq!(received.rest_hash, Some(hash::of_parts(&around)));
    let journalled = pair
        .server
        .journal()
        .wait_for("the answer", |entries| {
            entries.iter().find_map(|entry| match &entry.event {
                lspool_testkit::journal_entry::Event::Sent(message)
                    if message.id.as_deref() == Some("\"a\"") =>
                {
                    message.rest_hash.clone()
                }
                _ => None,
            })
        })
        .unwrap();
    assert_eq!(answer.message.rest_hash(), journalled);
    pair.finish();
}

#[test]
fn large_results_are_filled_or_repeated() {
    let item = raw("{\"uri\":\"file:///${n}\"}");
    let scenario = ScenarioBuilder::new()
        .on("x/fill", [Action::Reply(Body::Fill(20_000_000))])
        .on(
            "x/array",
            [Action::Reply(Body::Array(ArrayBody { item, count: 5000 }))],
        );
    let pair = Pair::ready(&scenario);
    let filled: String = pair.client.call("x/fill", json!({})).unwrap();
    assert_eq!(filled.len(), 20_000_000);
    let array: Vec<Value> = pair.client.call("x/array", json!({})).unwrap();
    assert_eq!(array.len(), 5000);
    assert_eq!(array[4999]["uri"], "file:///4999");
    pair.finish();
}

#[test]
fn text_is_sent_even_when_it_is_not_json() {
    let scenario =
        ScenarioBuilder::new().on("x/text", [Action::Reply(Body::Text("{oops".to_owned()))]);
    let pair = Pair::ready(&scenario);
    pair.client.request("x/text", json!({})).unwrap();
    let broken = pair
        .client
        .wait_for("the broken body", |message| {
            message.body.ends_with(b"{oops}")
        })
        .unwrap();
    assert_eq!(broken.kind, lspool_testkit::Kind::Malformed);
    pair.kill();
}

#[test]
fn errors_come_so_many_times_and_carry_their_data() {
    let scenario = ScenarioBuilder::new()
        .refuse(HOVER, 2, -32801)
        .on("x/error", [Action::ReplyError(error(-32802))]);
    let pair = Pair::open(&scenario, "word");
    let mut codes = Vec::new();
    for _ in 0..3 {
        codes.push(
            pair.client
                .ask_at(HOVER, URI, 0, 0)
                .unwrap()
                .wait()
                .unwrap()
                .error_code(),
        );
    }
    assert_eq!(codes, [Some(-32801), Some(-32801), None]);
    let answer = pair
        .client
        .request("x/error", json!({}))
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(
        answer.error_raw().unwrap(),
        &b"{\"code\":-32802,\"message\":\"scripted\",\"data\":{\"a\": 1e2}}"[..]
    );
    assert_eq!(answer.error_message().as_deref(), Some("scripted"));
    assert_eq!(answer.result_raw().unwrap_err().code(), "KIT_ERROR_ANSWER");
    pair.finish();
}

#[test]
fn answers_grow_with_their_number() {
    let bodies = ["[]", "[1]", "[1,2]"]
        .map(|body| Body::Json(raw(body)))
        .to_vec();
    let pair =
        Pair::ready(&ScenarioBuilder::new().on("x/grow", [Action::Reply(Body::Sequence(bodies))]));
    let lengths: Vec<usize> = (0..4)
        .map(|_| {
            pair.client
                .call::<Vec<u32>>("x/grow", json!({}))
                .unwrap()
                .len()
        })
        .collect();
    assert_eq!(lengths, [0, 1, 2, 2]);
    pair.finish();
}

#[test]
fn answers_grow_with_time() {
    let bodies = vec![
        TimedBody {
            after_ms: 0,
            body: Body::Json(raw("1")),
        },
        TimedBody {
            after_ms: 150,
            body: Body::Json(raw("2")),
        },
    ];
    // The time is the server's own, which starts with it.
    let began = Instant::now();
    let pair =
        Pair::ready(&ScenarioBuilder::new().on("x/grow", [Action::Reply(Body::Timeline(bodies))]));
    let mut last = pair.client.call::<u32>("x/grow", json!({})).unwrap();
    while last == 1 {
        assert!(began.elapsed() < deadline(), "it never grew");
        last = pair.client.call("x/grow", json!({})).unwrap();
    }
    assert_eq!(last, 2);
    assert!(
        began.elapsed() >= Duration::from_millis(150),
        "it grew too early"
    );
    pair.finish();
}

#[test]
fn random_delays_change_the_order_and_lose_nothing() {
    let scenario = ScenarioBuilder::new()
        .with(|scenario| scenario.seed = 7)
        .late("x/late", 0, 50)
        .on("x/late", [Action::Reply(Body::Params)]);
    let pair = Pair::ready(&scenario);
    let asked: Vec<_> = (0..200)
        .map(|n| pair.client.request("x/late", json!(n)).unwrap())
        .collect();
    let mut places = Vec::new();
    for (n, pending) in asked.iter().enumerate() {
        let answer = pending.wait().unwrap();
        assert_eq!(answer.result::<usize>().unwrap(), n);
        places.push(answer.message.index);
    }
    assert!(
        !places.is_sorted(),
        "the answers came in the order of the requests"
    );
    pair.finish();
}

#[test]
fn a_fixed_delay_lasts_and_holds_up_nobody_else() {
    let late = |milliseconds| {
        [
            Action::Delay(Delay::Fixed(milliseconds)),
            Action::Reply(Body::Json(raw("null"))),
        ]
    };
    let pair = Pair::ready(
        &ScenarioBuilder::new()
            .on("x/slow", late(120))
            .on("x/never", late(3_600_000)),
    );
    let never = pair.client.request("x/never", json!({})).unwrap();
    let began = Instant::now();
    let slow = pair.client.request("x/slow", json!({})).unwrap();
    slow.wait().unwrap();
    assert!(began.elapsed() >= Duration::from_millis(120));
    assert!(never.answer().is_none());
    pair.kill();
}

#[test]
fn the_text_is_hashed_on_arrival_or_on_answer() {
    let release = |pair: &Pair| pair.harness.path().join("release");
    let harness = lspool_testkit::Harness::new().unwrap();
    let file = harness.path().join("release");
    let actions = |moment| {
        [
            Action::WaitFile(file.clone()),
            Action::Reply(Body::TextHash(moment)),
        ]
    };
    let scenario = ScenarioBuilder::new()
        .on("x/arrival", actions(Moment::OnArrival))
        .on("x/answer", actions(Moment::OnAnswer));
    let pair = Pair::start_in(harness, &scenario);
    pair.initialize();
    pair.client.did_open(URI, "toy", 1, "old").unwrap();
    let params = json!({"textDocument": {"uri": URI}});
    let arrival = pair.client.request("x/arrival", &params).unwrap();
    let answer = pair.client.request("x/answer", &params).unwrap();
    pair.client.did_change(URI, 2, "new").unwrap();
    pair.server
        .journal()
        .wait_for_received("textDocument/didChange", 1)
        .unwrap();
    assert!(arrival.answer().is_none() && answer.answer().is_none());
    std::fs::write(release(&pair), "").unwrap();
    assert_eq!(arrival.result::<String>().unwrap(), hash::of(b"old"));
    assert_eq!(answer.result::<String>().unwrap(), hash::of(b"new"));
    assert_eq!(
        pair.server.journal().document_events(),
        [
            format!("didOpen {URI} 1 {}", hash::of(b"old")),
            format!("didChange {URI} 2 {}", hash::of(b"new")),
        ]
    );
    pair.finish();
}

#[test]
fn a_cancel_is_answered_at_once_and_only_once() {
    let harness = lspool_testkit::Harness::new().unwrap();
    let release = harness.path().join("release");
    let scenario = ScenarioBuilder::new().on(
        "x/slow",
        [
            Action::WaitFile(release.clone()),
            Action::Reply(Body::Json(raw("null"))),
        ],
    );
    let pair = Pair::start_in(harness, &scenario);
    pair.initialize();
    let slow = pair.client.request("x/slow", json!({})).unwrap();
    let kept = pair.client.request("x/slow", json!({})).unwrap();
    pair.client.cancel(&slow).unwrap();
    assert_eq!(slow.wait().unwrap().error_code(), Some(-32800));
    std::fs::write(release, "").unwrap();
    assert_eq!(kept.wait().unwrap().error_code(), None);
    assert_eq!(pair.client.answers_to(&slow.id).len(), 1);
    pair.finish();
}

#[test]
fn a_cancel_is_ignored() {
    let scenario = ScenarioBuilder::new()
        .hang("$/cancelRequest")
        .late("x/slow", 50, 50)
        .on("x/slow", [Action::Reply(Body::Json(raw("5")))]);
    let pair = Pair::ready(&scenario);
    let slow = pair.client.request("x/slow", json!({})).unwrap();
    pair.client.cancel(&slow).unwrap();
    assert_eq!(slow.result::<u32>().unwrap(), 5);
    pair.finish();
}

#[test]
fn a_cancel_is_answered_late_and_twice() {
    let scenario = ScenarioBuilder::new().hang("x/slow").on(
        "$/cancelRequest",
        [
            Action::Delay(Delay::Fixed(50)),
            Action::AnswerCancelled(error(-32800)),
            Action::AnswerCancelled(error(-32800)),
        ],
    );
    let pair = Pair::ready(&scenario);
    let slow = pair.client.request("x/slow", json!({})).unwrap();
    pair.client.cancel(&slow).unwrap();
    assert_eq!(slow.wait().unwrap().error_code(), Some(-32800));
    pair.client
        .request("shutdown", json!(null))
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(pair.client.answers_to(&slow.id).len(), 2);
    assert_eq!(pair.client.unbalanced()[&slow.id], (1, 2));
    pair.kill();
}

#[test]
fn a_request_is_answered_twice() {
    let reply = || Action::Reply(Body::Json(raw("1")));
    let pair = Pair::ready(&ScenarioBuilder::new().on("x/twice", [reply(), reply()]));
    let twice = pair.client.request("x/twice", json!({})).unwrap();
    twice.wait().unwrap();
    pair.client
        .request("shutdown", json!(null))
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(pair.client.answers_to(&twice.id).len(), 2);
    pair.kill();
}

#[test]
fn a_change_fails_what_is_in_flight() {
    let scenario = ScenarioBuilder::new()
        .on(
            "textDocument/didChange",
            [Action::FailInFlight(error(-32801)), Action::Continue],
        )
        .late(HOVER, 10_000, 10_000);
    let pair = Pair::open(&scenario, "word");
    let asked: Vec<_> = (0..3)
        .map(|_| pair.client.ask_at(HOVER, URI, 0, 0).unwrap())
        .collect();
    pair.client.did_change(URI, 2, "other").unwrap();
    for pending in asked {
        assert_eq!(pending.wait().unwrap().error_code(), Some(-32801));
    }
    pair.finish();
}

#[test]
fn a_rule_narrows_by_document_id_and_count() {
    let one = |value: &str| [Action::Reply(Body::Json(raw(value)))];
    let scenario = ScenarioBuilder::new()
        .rule(
            RuleBuilder::method(HOVER)
                .uri_ends_with(".b")
                .act(one("\"document\"")),
        )
        .rule(RuleBuilder::method(HOVER).id("\"me\"").act(one("\"id\"")))
        .rule(RuleBuilder::method(HOVER).nth(3).act(one("\"third\"")))
        .rule(
            RuleBuilder::method("*")
                .first(9)
                .last(9)
                .act(one("\"ninth of all\"")),
        );
    let pair = Pair::open(&scenario, "word");
    let ask = |id: &str, uri: &str| {
        let params = json!({"textDocument": {"uri": uri}, "position": {"line": 0, "character": 0}});
        let asked = pair
            .client
            .request_raw(id, HOVER, Some(&params.to_string()))
            .unwrap();
        let result: Value = asked.result().unwrap();
        result.as_str().unwrap_or("default").to_owned()
    };
    // Messages 4 to 9: initialize, initialized and didOpen came before.
    let answers = [
        ask("10", "file:///x.b"),
        ask("\"me\"", URI),
        ask("12", URI),
        ask("13", URI),
        ask("14", URI),
        ask("15", URI),
    ];
    assert_eq!(
        answers,
        [
            "document",
            "id",
            "third",
            "default",
            "default",
            "ninth of all"
        ]
    );
    pair.finish();
}
