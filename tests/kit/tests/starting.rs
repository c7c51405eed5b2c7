//! Every way in which a server starts badly or frames oddly.

mod common;

use common::Pair;
use lspool_testkit::framing::{Framing, LineEnding};
use lspool_testkit::journal_entry::Ending;
use lspool_testkit::scenario_format::{Action, Body, Bytes, Delay, ErrorBody, Event, Request};
use lspool_testkit::{ClientReply, Exit, Harness, Profile, RuleBuilder, ScenarioBuilder, raw};
use serde_json::{Value, json};

#[test]
fn initialize_is_never_answered() {
    let pair = Pair::start(&ScenarioBuilder::new().hang("initialize"));
    let initialize = pair
        .client
        .request("initialize", json!({"capabilities": {}}))
        .unwrap();
    pair.server
        .journal()
        .wait_for_received("initialize", 1)
        .unwrap();
    pair.client.close_input();
    assert_eq!(pair.client.wait_exit().unwrap(), Exit::Code(1));
    assert_eq!(initialize.wait().unwrap_err().code(), "KIT_STREAM_ENDED");
    assert_eq!(
        pair.server.journal().wait_for_ending(1).unwrap(),
        Ending::EndOfInput(1)
    );
    pair.harness.finish();
}

#[test]
fn initialize_is_an_error() {
    let refusal = ErrorBody {
        code: -32603,
        message: "no licence".to_owned(),
        data: None,
    };
    let pair = Pair::start(&ScenarioBuilder::new().on("initialize", [Action::ReplyError(refusal)]));
    let answer = pair
        .client
        .request("initialize", json!({"capabilities": {}}))
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(answer.error_code(), Some(-32603));
    pair.kill();
}

#[test]
fn initialize_is_late_and_its_result_is_given() {
    let result = raw("{\"capabilities\":{\"textDocumentSync\":1,\"x\":1e2}}");
    let actions = [
        Action::Delay(Delay::Fixed(50)),
        Action::Reply(Body::Json(result.clone())),
    ];
    let pair = Pair::start(&ScenarioBuilder::new().on("initialize", actions));
    let answer = pair
        .client
        .initialize(&Profile::bare(), &pair.harness.work_folder())
        .unwrap();
    assert_eq!(answer.result_raw().unwrap(), result.get().as_bytes());
    pair.kill();
}

#[test]
fn capabilities_are_patched_or_bare() {
    let patch =
        json!({"hoverProvider": null, "definitionProvider": {}, "referencesProvider": false});
    let scenario = ScenarioBuilder::new()
        .capabilities(&patch)
        .with(|scenario| scenario.server_info = None);
    let pair = Pair::start(&scenario);
    let answer = pair
        .client
        .initialize(&Profile::bare(), &pair.harness.work_folder())
        .unwrap();
    let result: Value = answer.result().unwrap();
    assert_eq!(result["capabilities"].get("hoverProvider"), None);
    assert_eq!(result["capabilities"]["definitionProvider"], json!({}));
    assert_eq!(result["capabilities"]["referencesProvider"], false);
    assert_eq!(result.get("serverInfo"), None);
    pair.finish();

    let bare = ScenarioBuilder::new()
        .with(|scenario| scenario.bare_capabilities = true)
        .capabilities(json!({"textDocumentSync": 1}));
    let pair = Pair::start(&bare);
    let answer = pair
        .client
        .initialize(&Profile::bare(), &pair.harness.work_folder())
        .unwrap();
    assert_eq!(
        answer.result::<Value>().unwrap()["capabilities"],
        json!({"textDocumentSync": 1})
    );
    pair.finish();
}

#[test]
fn a_server_asks_before_it_answers_initialize() {
    let ask = |id: &str, method: &str, params: &str| {
        Action::Request(Request {
            id: id.to_owned(),
            method: method.to_owned(),
            params: Some(raw(params)),
        })
    };
    let scenario = ScenarioBuilder::new().on(
        "initialize",
        [
            ask("${id}", "workspace/configuration", "{\"items\":[{},{},{}]}"),
            ask(
                "\"r\"",
                "client/registerCapability",
                "{\"registrations\":[]}",
            ),
            Action::WaitAnswer("${id}".to_owned()),
            Action::WaitAnswer("\"r\"".to_owned()),
            Action::Continue,
        ],
    );
    let pair = Pair::ready(&scenario);
    let answers: Vec<_> = pair
        .server
        .journal()
        .received()
        .into_iter()
        .filter(|message| message.kind == lspool_testkit::Kind::Response)
        .filter_map(|message| message.id)
        .collect();
    assert_eq!(
        answers,
        ["0", "\"r\""],
        "the first has the id of the client's own request"
    );
    let asked = pair
        .client
        .wait_for_method("workspace/configuration")
        .unwrap();
    assert_eq!(asked.index, 0);
    pair.finish();
}

#[test]
fn an_answer_to_the_servers_request_can_be_any() {
    let scenario = ScenarioBuilder::new().on(
        "initialized",
        [Action::Request(Request {
            id: "7".to_owned(),
            method: "x/ask".to_owned(),
            params: None,
        })],
    );
    let pair = Pair::start(&scenario);
    pair.client.on_request("x/ask", |_| ClientReply::Error {
        code: 5,
        message: "no".to_owned(),
    });
    pair.initialize();
    let answer = pair
        .server
        .journal()
        .wait_for_received("x/ask", 1)
        .unwrap()
        .remove(0);
    assert_eq!(answer.error_code, Some(5));
    pair.finish();
}

#[test]
fn a_banner_comes_before_the_first_header() {
    let banner =
        RuleBuilder::event(Event::Start).act([Action::Write(Bytes::Text("hello\n".to_owned()))]);
    let pair = Pair::start(&ScenarioBuilder::new().rule(banner));
    let initialize = pair
        .client
        .request("initialize", json!({"capabilities": {}}))
        .unwrap();
    let failure = initialize.wait().unwrap_err();
    assert_eq!(failure.code(), "KIT_STREAM_ENDED");
    assert!(failure.to_string().contains("hello"), "{failure}");
    pair.kill();
}

#[test]
fn bytes_are_written_in_hexadecimal_too() {
    // A notification, framed by hand.
    let body = "{\"method\":\"x/hex\"}";
    let wire = format!("Content-Length: {}\r\n\r\n{body}", body.len());
    let digits: Vec<String> = wire.bytes().map(|byte| format!("{byte:02x}")).collect();
    let pair = Pair::ready(
        &ScenarioBuilder::new().on("initialized", [Action::Write(Bytes::Hex(digits.join(" ")))]),
    );
    let message = pair.client.wait_for_method("x/hex").unwrap();
    assert_eq!(message.body, body.as_bytes());
    pair.finish();
}

#[test]
fn a_server_exits_at_once() {
    let exit = RuleBuilder::event(Event::Start).act([
        Action::Stderr(lspool_testkit::scenario_format::Stderr {
            text: "no java".to_owned(),
            times: 1,
        }),
        Action::Exit(3),
    ]);
    let pair = Pair::start(&ScenarioBuilder::new().rule(exit));
    assert_eq!(pair.client.wait_exit().unwrap(), Exit::Code(3));
    pair.client.wait_for_stderr("no java").unwrap();
    assert_eq!(
        pair.server.journal().wait_for_ending(1).unwrap(),
        Ending::ExitAction(3)
    );
    pair.harness.finish();
}

#[test]
fn odd_framing_is_read_like_any_other() {
    let plain = Framing::default;
    for (framing, header) in [
        (
            Framing {
                length_header: "content-length".to_owned(),
                ..plain()
            },
            "content-length: 37\r\n\r\n",
        ),
        (
            Framing {
                line_ending: LineEnding::Lf,
                ..plain()
            },
            "Content-Length: 37\n\n",
        ),
        (
            Framing {
                headers_before: vec![("X-Odd".to_owned(), "a: b".to_owned())],
                headers_after: vec![(
                    "Content-Type".to_owned(),
                    "application/vscode-jsonrpc; charset=utf-8".to_owned(),
                )],
                ..plain()
            },
            "X-Odd: a: b\r\nContent-Length: 37\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n",
        ),
        (
            Framing {
                chunk_bytes: Some(1),
                ..plain()
            },
            "Content-Length: 37\r\n\r\n",
        ),
        (
            Framing {
                chunk_bytes: Some(7),
                chunk_pause_ms: 1,
                ..plain()
            },
            "Content-Length: 37\r\n\r\n",
        ),
    ] {
        let scenario = ScenarioBuilder::new()
            .with(|scenario| scenario.framing = framing.clone())
            .on("x/e", [Action::Reply(Body::Json(raw("1")))]);
        let pair = Pair::ready(&scenario);
        let answer = pair
            .client
            .request_raw("9", "x/e", None)
            .unwrap()
            .wait()
            .unwrap();
        assert_eq!(answer.message.header.len(), header.len(), "{framing:?}");
        assert_eq!(
            String::from_utf8_lossy(&answer.message.header),
            header.replace("37", &answer.message.body.len().to_string()),
        );
        pair.finish();
    }
}

#[test]
fn framing_changes_on_cue() {
    let lower = Framing {
        length_header: "content-length".to_owned(),
        ..Framing::default()
    };
    let pair = Pair::ready(&ScenarioBuilder::new().on(
        "x/lower",
        [
            Action::Framing(lower),
            Action::Reply(Body::Json(raw("null"))),
        ],
    ));
    assert!(
        pair.client.received()[0]
            .header
            .starts_with(b"Content-Length")
    );
    let answer = pair
        .client
        .request("x/lower", json!({}))
        .unwrap()
        .wait()
        .unwrap();
    assert!(answer.message.header.starts_with(b"content-length"));
    pair.finish();
}

#[test]
fn a_broken_scenario_is_told_with_its_place() {
    let harness = Harness::new().unwrap();
    let scenario = harness
        .write(
            "bad.json",
            "{\"rules\":[{\"on\":{\"metod\":\"x\"},\"do\":[]}]}",
        )
        .unwrap();
    let binary = lspool_testkit::binary("lspool-scripted-server").unwrap();
    let client = lspool_testkit::Client::start(&harness.launch(binary).arg(scenario)).unwrap();
    assert_eq!(client.wait_exit().unwrap(), Exit::Code(65));
    client.wait_for_stderr("SCENARIO_INVALID").unwrap();
    client.wait_for_stderr("metod").unwrap();
    harness.finish();
}
