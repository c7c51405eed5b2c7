//! What a server sends without being asked.

mod common;

use common::{Pair, URI};
use lspool_testkit::scenario_format::{
    Action, Body, Delay, Diagnostics, DiagnosticsVersion, Notification, Progress, ProgressStep,
    Registration, Repeat, Unregistration,
};
use lspool_testkit::{Received, ScenarioBuilder, raw};
use serde_json::{Value, json};

const PUBLISH: &str = "textDocument/publishDiagnostics";

fn params(message: &Received) -> Value {
    message.params().unwrap_or_else(|error| panic!("{error}"))
}

fn progress(step: ProgressStep, percentage: Option<u32>) -> Action {
    Action::Progress(Progress {
        token: "\"t\"".to_owned(),
        step,
        title: Some("indexing".to_owned()),
        message: None,
        percentage,
    })
}

#[test]
fn a_notification_keeps_its_bytes() {
    let given = "{ \"a\" : 1e2 }";
    let notification = Notification {
        method: "x/told".to_owned(),
        params: Some(raw(given)),
    };
    let pair =
        Pair::ready(&ScenarioBuilder::new().on("initialized", [Action::Notify(notification)]));
    let told = pair.client.wait_for_method("x/told").unwrap();
    assert_eq!(told.member("params").unwrap(), given.as_bytes());
    pair.finish();
}

#[test]
fn a_flood_comes_whole_and_in_order() {
    let one = Notification {
        method: "x/flood".to_owned(),
        params: None,
    };
    let end = Notification {
        method: "x/end".to_owned(),
        params: None,
    };
    let flood = Repeat {
        times: 3000,
        actions: vec![Action::Notify(one)],
    };
    let pair = Pair::ready(
        &ScenarioBuilder::new().on("initialized", [Action::Repeat(flood), Action::Notify(end)]),
    );
    let end = pair.client.wait_for_method("x/end").unwrap();
    assert_eq!(
        end.index, 3001,
        "the initialize answer and 3000 came before"
    );
    pair.finish();
}

#[test]
fn progress_runs_its_schedule() {
    let scenario = ScenarioBuilder::new().on(
        "textDocument/didOpen",
        [
            Action::Continue,
            progress(ProgressStep::Create, None),
            Action::WaitAnswer("\"progress:\\\"t\\\"\"".to_owned()),
            progress(ProgressStep::Begin, Some(0)),
            Action::Delay(Delay::Fixed(20)),
            progress(ProgressStep::Report, Some(50)),
            progress(ProgressStep::End, None),
        ],
    );
    let pair = Pair::open(&scenario, "word");
    pair.client
        .wait_for("the end", |message| {
            message.method.as_deref() == Some("$/progress")
                && params(message)["value"]["kind"] == "end"
        })
        .unwrap();
    let created = pair
        .client
        .wait_for_method("window/workDoneProgress/create")
        .unwrap();
    assert_eq!(params(&created), json!({"token": "t"}));
    let values: Vec<Value> = pair
        .client
        .received()
        .iter()
        .filter(|message| message.method.as_deref() == Some("$/progress"))
        .map(|message| params(message)["value"].clone())
        .collect();
    assert_eq!(
        values,
        [
            json!({"kind": "begin", "title": "indexing", "percentage": 0}),
            json!({"kind": "report", "percentage": 50}),
            json!({"kind": "end"}),
        ]
    );
    pair.finish();
}

#[test]
fn capabilities_are_registered_and_unregistered() {
    let (id, method) = ("r1".to_owned(), "textDocument/implementation".to_owned());
    let options = Some(raw("{\"documentSelector\":null}"));
    let scenario = ScenarioBuilder::new()
        .capabilities(json!({"implementationProvider": null}))
        .on(
            "initialized",
            [
                Action::Register(Registration {
                    id: id.clone(),
                    method: method.clone(),
                    options,
                }),
                Action::WaitAnswer("\"register:r1\"".to_owned()),
                Action::Unregister(Unregistration { id, method }),
            ],
        );
    let pair = Pair::ready(&scenario);
    let registered = pair
        .client
        .wait_for_method("client/registerCapability")
        .unwrap();
    assert_eq!(
        params(&registered),
        json!({"registrations": [{
            "id": "r1",
            "method": "textDocument/implementation",
            "registerOptions": {"documentSelector": null},
        }]})
    );
    let unregistered = pair
        .client
        .wait_for_method("client/unregisterCapability")
        .unwrap();
    assert_eq!(
        params(&unregistered),
        json!({"unregisterations": [{"id": "r1", "method": "textDocument/implementation"}]})
    );
    pair.server
        .journal()
        .wait_for_received("client/unregisterCapability", 1)
        .unwrap();
    pair.finish();
}

#[test]
fn diagnostics_follow_the_text_by_default() {
    let pair = Pair::open(&ScenarioBuilder::new(), "an error\n");
    pair.client.did_change(URI, 2, "all well").unwrap();
    pair.client.did_close(URI).unwrap();
    let closed = pair
        .client
        .wait_for("the last", |message| {
            message.method.as_deref() == Some(PUBLISH) && params(message).get("version").is_none()
        })
        .unwrap();
    assert_eq!(params(&closed)["diagnostics"], json!([]));
    let counts: Vec<(Value, usize)> = pair
        .client
        .received()
        .iter()
        .filter(|message| message.method.as_deref() == Some(PUBLISH))
        .map(|message| {
            let params = params(message);
            (
                params["version"].clone(),
                params["diagnostics"].as_array().unwrap().len(),
            )
        })
        .collect();
    assert_eq!(counts, [(json!(1), 1), (json!(2), 0), (Value::Null, 0)]);
    pair.finish();
}

#[test]
fn diagnostics_are_late_versionless_or_of_any_version() {
    let publish = |version, items: &str| {
        Action::Diagnostics(Diagnostics {
            uri: None,
            version,
            items: Some(raw(items)),
        })
    };
    let scenario = ScenarioBuilder::new().on(
        "textDocument/didOpen",
        [
            publish(DiagnosticsVersion::None, "[ 1 ]"),
            publish(DiagnosticsVersion::Exact(-3), "[]"),
            Action::Delay(Delay::Fixed(100)),
            publish(DiagnosticsVersion::OnArrival, "[]"),
            publish(DiagnosticsVersion::Current, "[]"),
            Action::Diagnostics(Diagnostics {
                uri: Some("file:///other".to_owned()),
                version: DiagnosticsVersion::None,
                items: None,
            }),
        ],
    );
    let scenario = scenario.hang("textDocument/didChange");
    let pair = Pair::open(&scenario, "word");
    pair.client.did_change(URI, 9, "other").unwrap();
    pair.client
        .wait_for("the last", |message| {
            message
                .body
                .ends_with(b"\"file:///other\",\"diagnostics\":[]}}")
        })
        .unwrap();
    let bodies: Vec<String> = pair
        .client
        .received()
        .iter()
        .filter(|message| message.method.as_deref() == Some(PUBLISH))
        .map(|message| String::from_utf8(message.member("params").unwrap().to_vec()).unwrap())
        .collect();
    assert_eq!(
        bodies,
        [
            "{\"uri\":\"file:///a.toy\",\"diagnostics\":[ 1 ]}",
            "{\"uri\":\"file:///a.toy\",\"version\":-3,\"diagnostics\":[]}",
            "{\"uri\":\"file:///a.toy\",\"version\":1,\"diagnostics\":[]}",
            "{\"uri\":\"file:///a.toy\",\"version\":9,\"diagnostics\":[]}",
            "{\"uri\":\"file:///other\",\"diagnostics\":[]}",
        ]
    );
    pair.finish();
}

#[test]
fn the_client_answers_the_usual_requests_by_default() {
    let ask = |n: u32, method: &str, params: &str| {
        Action::Request(lspool_testkit::scenario_format::Request {
            id: n.to_string(),
            method: method.to_owned(),
            params: Some(raw(params)),
        })
    };
    let methods = [
        (
            "workspace/configuration",
            "{\"items\":[{},{}]}",
            "[null,null]",
        ),
        (
            "workspace/applyEdit",
            "{\"edit\":{}}",
            "{\"applied\":false}",
        ),
        (
            "window/showDocument",
            "{\"uri\":\"x\"}",
            "{\"success\":false}",
        ),
        (
            "window/showMessageRequest",
            "{\"type\":1,\"message\":\"\"}",
            "null",
        ),
        ("workspace/semanticTokens/refresh", "null", "null"),
        ("workspace/workspaceFolders", "null", "null"),
    ];
    let asks: Vec<Action> = methods
        .iter()
        .zip(0..)
        .map(|((method, params, _), n)| ask(n, method, params))
        .collect();
    let scenario = ScenarioBuilder::new()
        .with(|scenario| scenario.journal.bodies = true)
        .on("initialized", asks)
        .on(
            "x/unknown",
            [
                ask(99, "x/unknown", "null"),
                Action::WaitAnswer("99".to_owned()),
                Action::Reply(Body::Json(raw("0"))),
            ],
        );
    let pair = Pair::ready(&scenario);
    pair.client.call::<u32>("x/unknown", json!({})).unwrap();
    let answers: Vec<String> = pair
        .server
        .journal()
        .received()
        .into_iter()
        .filter(|message| message.kind == lspool_testkit::Kind::Response)
        .filter_map(|message| message.body)
        .collect();
    let expected: Vec<String> = methods
        .iter()
        .zip(0..)
        .map(|((_, _, result), n)| {
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{n},\"result\":{result}}}")
        })
        .collect();
    assert_eq!(answers[..6], expected);
    assert!(answers[6].contains("-32601"), "{}", answers[6]);
    pair.finish();
}
