//! Requests: ids of any form, cancels, answers, and what the death of either side does to them.

use lspool_pool::core::{Event, FrameFault, Link};
use lspool_pool::wire::RawId;
use serde_json::{Value, json};

use crate::rig::{FILE, Rig};

const IDS: [&str; 7] = [
    "0",
    "1",
    r#""1""#,
    "-7",
    "1e2",
    "123456789012345678901234567890",
    r#""\u00e9""#,
];

#[test]
fn given_two_clients_with_the_same_ids_at_once_then_each_gets_its_own_answers_under_its_own_tokens()
{
    let mut rig = Rig::new();
    let clients = [rig.attach("{}"), rig.attach("{}")];
    for id in IDS {
        for client in clients {
            rig.hover(client, id);
        }
    }
    let at = rig.server();
    let numbers: Vec<u64> = rig
        .fake(at)
        .open
        .iter()
        .map(|(number, _)| *number)
        .collect();
    assert_eq!(numbers.len(), 2 * IDS.len());
    // Answered in the opposite order, each with its own number.
    for number in numbers.iter().rev() {
        rig.server_says(
            at,
            &format!(r#"{{"jsonrpc":"2.0","id":{number},"result":{number}}}"#),
        );
    }
    for (offset, client) in clients.into_iter().enumerate() {
        let got = rig.got(client);
        assert_eq!(got.len(), IDS.len());
        for (index, id) in IDS.iter().enumerate() {
            let number = numbers[2 * index + offset];
            let expected = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{number}}}"#);
            assert!(got.contains(&expected), "{expected} in {got:?}");
        }
    }
    rig.end();
}

#[test]
fn given_any_request_then_all_its_bytes_but_the_id_arrive_and_so_do_those_of_its_answer() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.server_got();
    rig.send(
        client,
        "{ \"x\":{\"id\":1},\r\n\"method\":\"a/b\",\"params\":[1e2,\"\\u00e9é\"],\"jsonrpc\":\"2.0\",\"id\":\"me\" }",
    );
    let number = rig.number(rig.server(), "a/b");
    assert_eq!(
        rig.server_got(),
        [format!(
            "{{ \"x\":{{\"id\":1}},\r\n\"method\":\"a/b\",\"params\":[1e2,\"\\u00e9é\"],\"jsonrpc\":\"2.0\",\"id\":{number} }}"
        )]
    );
    let at = rig.server();
    rig.server_says(
        at,
        &format!("{{\"result\":{{\"a\" : 1.0}} ,\"more\":0,\"id\":{number},\"jsonrpc\":\"2.0\"}}"),
    );
    assert_eq!(
        rig.got(client),
        ["{\"result\":{\"a\" : 1.0} ,\"more\":0,\"id\":\"me\",\"jsonrpc\":\"2.0\"}"]
    );
    rig.end();
}

#[test]
fn given_a_cancel_then_it_reaches_the_request_of_that_client_once() {
    let mut rig = Rig::new();
    let (first, second) = (rig.attach("{}"), rig.attach("{}"));
    rig.hover(first, "1");
    rig.hover(second, "1");
    let at = rig.server();
    let other = rig.fake(at).open[1].0;
    rig.cancel(second, "1");
    rig.cancel(second, "1");
    assert_eq!(rig.fake(at).cancelled, [other]);
    rig.server_says(
        at,
        &format!(r#"{{"jsonrpc":"2.0","id":{other},"error":{{"code":-32800,"message":"c"}}}}"#),
    );
    assert_eq!(rig.answer(second, &json!(1))["error"]["code"], -32800);
    assert!(rig.got(first).is_empty());
    rig.cancel(second, "1");
    assert_eq!(
        rig.fake(at).cancelled.len(),
        1,
        "a cancel after the answer is nothing"
    );
    rig.serve("textDocument/hover", "1");
    assert_eq!(rig.answer(first, &json!(1))["result"], 1);
    rig.end();
}

#[test]
fn given_a_cancel_of_a_request_that_waits_then_it_is_answered_and_never_sent() {
    let mut rig = Rig::new();
    rig.hold.initialize = true;
    let client = rig.client("clangd");
    rig.initialize(client, "{}");
    rig.hover(client, "1");
    rig.hover(client, "2");
    rig.cancel(client, "1");
    assert_eq!(rig.answer(client, &json!(1))["error"]["code"], -32800);
    rig.serve("initialize", crate::rig::RESULT);
    rig.initialized(client);
    let at = rig.server();
    assert_eq!(rig.fake(at).open.len(), 1);
    rig.serve("textDocument/hover", "null");
    rig.answer(client, &json!(2));
    rig.end();
}

#[test]
fn given_a_cancelled_custom_method_then_its_work_is_taken_back_and_it_is_answered() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.request(client, "1", "lspool/query", "{}");
    assert_eq!(rig.calls.len(), 1);
    rig.cancel(client, "1");
    assert!(rig.calls.is_empty());
    assert_eq!(rig.answer(client, &json!(1))["error"]["code"], -32800);
    rig.end();
}

#[test]
fn given_an_id_that_is_still_in_flight_then_the_second_request_is_refused_with_an_error() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.hover(client, "1");
    rig.hover(client, "1.0");
    let got = rig.got_values(client);
    assert_eq!(got[0]["error"]["code"], -32600);
    // JSON-RPC cannot tell the two apart, so the rig sees one request open.
    rig.clients
        .get_mut(&client)
        .unwrap()
        .open
        .insert(RawId::number(1));
    rig.serve("textDocument/hover", "3");
    assert_eq!(rig.answer(client, &json!(1))["result"], 3);
    rig.end();
}

#[test]
fn given_a_client_that_dies_then_its_requests_are_cancelled_and_their_answers_dropped() {
    let mut rig = Rig::new();
    let (dying, other) = (rig.attach("{}"), rig.attach("{}"));
    rig.open(dying, FILE, "1", "x");
    rig.hover(dying, "1");
    rig.hover(dying, "2");
    rig.kill(dying);
    let at = rig.server();
    assert_eq!(rig.fake(at).cancelled.len(), 2);
    assert!(rig.fake(at).texts.is_empty(), "its document is closed");
    rig.serve("textDocument/hover", "null");
    rig.serve("textDocument/hover", "null");
    assert_eq!(rig.core.status().late_answers, 2);
    assert!(rig.got(other).is_empty());
    rig.end();
}

#[test]
fn given_a_client_that_closes_its_side_and_still_reads_then_it_gets_what_it_was_owed() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.set_reads(Link::Client(client), false);
    rig.request(client, "1", "shutdown", "null");
    rig.handle(Event::LinkClosed {
        link: Link::Client(client),
        reason: "end of input".to_owned(),
    });
    assert_eq!(
        rig.clients[&client].closed, None,
        "its answer is not written yet"
    );
    rig.set_reads(Link::Client(client), true);
    assert_eq!(rig.clients[&client].closed, Some(0));
    rig.end();
}

#[test]
fn given_a_session_that_was_written_in_one_go_then_all_of_it_is_answered_before_it_ends() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.hover(client, "1");
    rig.request(client, "2", "shutdown", "null");
    rig.notify(client, "exit", "null");
    rig.handle(Event::LinkClosed {
        link: Link::Client(client),
        reason: "end of input".to_owned(),
    });
    assert_eq!(
        rig.clients[&client].closed, None,
        "its hover is not answered"
    );
    rig.serve("textDocument/hover", "null");
    assert_eq!(rig.clients[&client].closed, Some(0));
    let ids: Vec<_> = rig
        .got_values(client)
        .iter()
        .map(|answer| answer["id"].clone())
        .collect();
    assert_eq!(ids, [2, 1]);
    rig.end();
}

#[test]
fn given_a_client_that_closes_its_side_while_a_server_hangs_then_it_is_waited_for_only_a_while() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.hover(client, "1");
    rig.handle(Event::LinkClosed {
        link: Link::Client(client),
        reason: "end of input".to_owned(),
    });
    rig.advance(1_999);
    assert_eq!(rig.clients[&client].closed, None);
    rig.advance(1);
    assert_eq!(rig.clients[&client].closed, Some(1));
    let at = rig.server();
    assert_eq!(
        rig.fake(at).cancelled.len(),
        1,
        "nobody waits for the answer"
    );
    rig.end();
}

#[test]
fn given_a_client_that_closes_its_side_and_does_not_read_then_it_is_waited_for_only_a_while() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.set_reads(Link::Client(client), false);
    rig.request(client, "1", "shutdown", "null");
    rig.notify(client, "exit", "null");
    rig.advance(1_999);
    assert_eq!(rig.clients[&client].closed, None);
    rig.advance(1);
    assert_eq!(rig.clients[&client].closed, Some(0));
    rig.end();
}

#[test]
fn given_an_answer_that_must_be_shaped_then_it_keeps_its_place_before_later_notifications() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.hold.lower = true;
    let params =
        format!(r#"{{"textDocument":{{"uri":"{FILE}"}},"position":{{"line":0,"character":0}}}}"#);
    rig.request(client, "1", "textDocument/definition", &params);
    let link = r#"[{"targetUri":"file:///b.c","targetRange":{"start":{"line":0,"character":0},"end":{"line":0,"character":1}},"targetSelectionRange":{"start":{"line":0,"character":0},"end":{"line":0,"character":1}}}]"#;
    rig.serve("textDocument/definition", link);
    rig.tell("window/logMessage", r#"{"type":3,"message":"later"}"#);
    assert!(rig.got(client).is_empty(), "nothing overtakes the answer");
    rig.finish_jobs();
    let got = rig.got_values(client);
    assert_eq!(
        got[0]["result"][0]["uri"], "file:///b.c",
        "a plain location"
    );
    assert_eq!(got[1]["params"]["message"], "later");
    rig.end();
}

#[test]
fn given_an_answer_that_cannot_be_read_then_its_request_gets_an_error_that_names_the_server() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.hover(client, "1");
    let (instance, generation) = rig.server();
    let number = rig.number((instance, generation), "textDocument/hover");
    for fault in [
        FrameFault::NotAMessage {
            id: Some(RawId::number(number)),
            is_answer: true,
            code: -32700,
            text: "bad".to_owned(),
        },
        FrameFault::TooLarge {
            id: Some(RawId::number(number)),
            is_answer: true,
            length: 9,
            cap: 8,
        },
    ] {
        rig.handle(Event::BadFrame {
            link: Link::Server(instance, generation),
            fault,
            credit: 0,
        });
    }
    let error = &rig.answer(client, &json!(1))["error"];
    assert_eq!(error["data"]["code"], "LSP_MALFORMED_RESPONSE");
    assert!(error["message"].as_str().unwrap().contains("clangd"));
    rig.end();
}

#[test]
fn given_a_clients_message_over_the_cap_then_its_request_gets_limit_exceeded() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.clients
        .get_mut(&client)
        .unwrap()
        .open
        .insert(RawId::number(3));
    rig.handle(Event::BadFrame {
        link: Link::Client(client),
        fault: FrameFault::TooLarge {
            id: Some(RawId::number(3)),
            is_answer: false,
            length: 9,
            cap: 8,
        },
        credit: 0,
    });
    assert_eq!(
        rig.answer(client, &json!(3))["error"]["data"]["code"],
        "LIMIT_EXCEEDED"
    );
    rig.handle(Event::BadFrame {
        link: Link::Client(client),
        fault: FrameFault::NotAMessage {
            id: None,
            is_answer: false,
            code: -32700,
            text: "not JSON".to_owned(),
        },
        credit: 0,
    });
    assert_eq!(rig.answer(client, &Value::Null)["error"]["code"], -32700);
    rig.end();
}

#[test]
fn given_an_answer_to_nothing_then_it_is_dropped_and_counted() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    let at = rig.server();
    rig.server_says(at, r#"{"jsonrpc":"2.0","id":999,"result":1}"#);
    rig.server_says(at, r#"{"jsonrpc":"2.0","id":"x","result":1}"#);
    assert_eq!(rig.core.status().late_answers, 2);
    assert!(rig.got(client).is_empty());
    rig.end();
}
