//! What servers ask and tell: answered once, to those who may see it, and again to a late joiner.

use lspool_pool::core::Link;
use serde_json::json;

use crate::rig::{FILE, RESULT, Rig};

const ABLE: &str = r#"{"window":{"workDoneProgress":true},"workspace":{"configuration":true,"applyEdit":true,"didChangeWatchedFiles":{"dynamicRegistration":true}},"textDocument":{"hover":{"dynamicRegistration":true}}}"#;

/// An editor whose profile is that of [`ABLE`] but which shows no progress and answers no configuration.
const UNABLE: &str = r#"{"textDocument":{"hover":{"dynamicRegistration":true}}}"#;

#[test]
fn given_a_server_that_asks_before_it_answers_initialize_then_the_pool_answers() {
    let mut rig = Rig::new();
    rig.hold.initialize = true;
    let client = rig.client("clangd");
    rig.initialize(client, ABLE);
    rig.server_got();
    rig.ask(
        "1",
        "workspace/configuration",
        r#"{"items":[{"section":"x"},{}]}"#,
    );
    assert_eq!(rig.server_answer(&json!(1))["result"], json!([{}, {}]));
    rig.ask(
        r#""r""#,
        "client/registerCapability",
        r#"{"registrations":[]}"#,
    );
    assert_eq!(rig.server_answer(&json!("r"))["result"], json!(null));
    rig.ask("3", "workspace/applyEdit", r#"{"edit":{}}"#);
    assert_eq!(rig.server_answer(&json!(3))["result"]["applied"], false);
    rig.ask("4", "vendor/unknown", "{}");
    assert_eq!(rig.server_answer(&json!(4))["error"]["code"], -32601);
    rig.tell("window/logMessage", r#"{"type":3,"message":"early"}"#);
    rig.serve("initialize", RESULT);
    let got = rig.got_values(client);
    assert_eq!(got[0]["id"], "init");
    assert_eq!(
        got[1]["params"]["message"], "early",
        "kept, behind the answer"
    );
    rig.end();
}

#[test]
fn given_thousands_of_log_lines_before_the_initialize_answer_then_the_start_goes_on_and_the_last_are_kept()
 {
    let mut rig = Rig::new();
    rig.hold.initialize = true;
    let client = rig.client("clangd");
    rig.initialize(client, ABLE);
    rig.tell("window/showMessage", r#"{"type":3,"message":"shown"}"#);
    for number in 0..3_000 {
        let line = format!("{number} {}", "y".repeat(500));
        rig.tell(
            "window/logMessage",
            &format!(r#"{{"type":3,"message":"{line}"}}"#),
        );
    }
    let (instance, generation) = rig.server();
    assert_eq!(rig.credit_of(Link::Server(instance, generation)), 0);
    let dropped = rig.core.status().instances[0].dropped_early;
    assert!((900..3_000).contains(&dropped), "{dropped}");
    rig.serve("initialize", RESULT);
    let got = rig.got_values(client);
    assert_eq!(got[0]["id"], "init");
    assert_eq!(got[1]["method"], "window/showMessage", "logs go first");
    assert_eq!(got.len() as u64, 2 + 3_000 - dropped);
    let last = got.last().unwrap()["params"]["message"].as_str().unwrap();
    assert!(last.starts_with("2999 "), "{last}");
    rig.end();
}

#[test]
fn given_settings_asked_for_then_the_first_client_answers_and_the_server_hears_its_bytes() {
    let mut rig = Rig::new();
    let (first, second) = (rig.attach(ABLE), rig.attach(ABLE));
    rig.ask(
        "0",
        "workspace/configuration",
        r#"{"items":[{"section":"x"}]}"#,
    );
    assert!(rig.got(second).is_empty());
    let number = rig.got_values(first)[0]["id"].clone();
    rig.server_got();
    rig.send(
        first,
        &format!(r#"{{"jsonrpc":"2.0","id":{number},"result":[{{"a" : 1e0}}]}}"#),
    );
    assert_eq!(
        rig.server_got(),
        [r#"{"jsonrpc":"2.0","id":0,"result":[{"a" : 1e0}]}"#]
    );
    rig.end();
}

#[test]
fn given_a_client_that_fails_to_answer_for_settings_then_the_next_is_asked_then_the_pool_answers() {
    let mut rig = Rig::new();
    let (first, second, third) = (rig.attach(ABLE), rig.attach(ABLE), rig.attach(ABLE));
    rig.ask(
        "0",
        "workspace/configuration",
        r#"{"items":[{"section":"x"},{"section":"y"}]}"#,
    );
    let number = rig.got_values(first)[0]["id"].clone();
    rig.send(
        first,
        &format!(r#"{{"jsonrpc":"2.0","id":{number},"error":{{"code":-32601,"message":"no"}}}}"#),
    );
    assert_eq!(
        rig.got_values(second)[0]["method"],
        "workspace/configuration"
    );
    rig.kill(second);
    let number = rig.got_values(third)[0]["id"].clone();
    rig.server_got();
    rig.send(
        third,
        &format!(r#"{{"jsonrpc":"2.0","id":{number},"error":{{"code":-32601,"message":"no"}}}}"#),
    );
    assert_eq!(
        rig.server_answer(&json!(0))["result"],
        json!([{}, {}]),
        "no null in it"
    );
    rig.end();
}

#[test]
fn given_a_client_that_dies_before_it_answers_then_the_server_gets_the_neutral_answer() {
    let mut rig = Rig::new();
    let client = rig.attach(ABLE);
    rig.ask("5", "workspace/applyEdit", r#"{"edit":{}}"#);
    rig.server_got();
    rig.kill(client);
    assert_eq!(rig.server_answer(&json!(5))["result"]["applied"], false);
    rig.end();
}

#[test]
fn given_a_dialogue_then_the_client_whose_command_runs_is_asked_and_nobody_else() {
    let mut rig = Rig::new();
    let (first, second) = (rig.attach(ABLE), rig.attach(ABLE));
    rig.request(first, "1", "workspace/executeCommand", r#"{"command":"x"}"#);
    rig.hover(second, "1");
    rig.ask("5", "workspace/applyEdit", r#"{"edit":{}}"#);
    assert_eq!(rig.got_values(first)[0]["method"], "workspace/applyEdit");
    assert!(rig.got(second).is_empty());
    rig.serve("workspace/executeCommand", "null");
    rig.serve("textDocument/hover", "null");
    rig.end();
}

#[test]
fn given_a_server_that_withdraws_its_request_then_the_client_hears_its_own_id() {
    let mut rig = Rig::new();
    let client = rig.attach(ABLE);
    rig.ask(
        "5",
        "window/showMessageRequest",
        r#"{"type":3,"message":"?"}"#,
    );
    let number = rig.got_values(client)[0]["id"].clone();
    rig.withdraw("5");
    assert_eq!(rig.got_values(client)[0]["params"]["id"], number);
    rig.server_got();
    rig.send(
        client,
        &format!(r#"{{"jsonrpc":"2.0","id":{number},"error":{{"code":-32800,"message":"c"}}}}"#),
    );
    assert_eq!(rig.server_answer(&json!(5))["error"]["code"], -32800);
    rig.end();
}

#[test]
fn given_an_id_of_the_server_that_is_in_flight_then_the_second_request_gets_an_error() {
    let mut rig = Rig::new();
    rig.attach(ABLE);
    rig.server_got();
    rig.ask(
        "5",
        "window/showMessageRequest",
        r#"{"type":3,"message":"?"}"#,
    );
    rig.ask(
        "5",
        "window/showMessageRequest",
        r#"{"type":3,"message":"!"}"#,
    );
    assert_eq!(rig.server_answer(&json!(5))["error"]["code"], -32600);
    let at = rig.server();
    rig.fake(at)
        .asking
        .insert(lspool_pool::wire::RawId::number(5));
    rig.end();
}

#[test]
fn given_nobody_attached_then_every_request_of_the_server_is_answered() {
    let mut rig = Rig::new();
    let client = rig.attach(ABLE);
    rig.kill(client);
    rig.server_got();
    for (id, method) in [
        (1, "workspace/configuration"),
        (2, "workspace/applyEdit"),
        (3, "window/showMessageRequest"),
        (4, "window/workDoneProgress/create"),
        (5, "workspace/workspaceFolders"),
        (6, "workspace/semanticTokens/refresh"),
        (7, "window/showDocument"),
        (8, "x/y"),
    ] {
        rig.ask(
            &id.to_string(),
            method,
            r#"{"items":[],"token":"t","type":1,"message":"m"}"#,
        );
    }
    let at = rig.server();
    assert!(rig.fake(at).asking.is_empty());
    rig.end();
}

#[test]
fn given_folders_asked_for_then_the_server_hears_what_it_was_told() {
    let mut rig = Rig::new();
    rig.attach("{}");
    rig.server_got();
    rig.ask("1", "workspace/workspaceFolders", "null");
    assert_eq!(
        rig.server_answer(&json!(1))["result"],
        json!([{"uri":"file:///lspool-rig","name":"lspool-rig"}])
    );
    rig.end();
}

#[test]
fn given_registrations_then_they_reach_clients_that_announced_them_also_late_ones_and_are_taken_back()
 {
    let mut rig = Rig::new();
    let (able, unable) = (rig.attach(ABLE), rig.attach(UNABLE));
    assert_eq!(rig.spawns, 1);
    rig.server_got();
    let params = r#"{"registrations":[{"id":"h","method":"textDocument/hover"},{"id":"w","method":"workspace/didChangeWatchedFiles","registerOptions":{"watchers":[]}}]}"#;
    rig.ask("1", "client/registerCapability", params);
    assert_eq!(
        rig.server_answer(&json!(1))["result"],
        json!(null),
        "at once"
    );
    let all = rig.got_values(able)[0]["params"]["registrations"].clone();
    assert_eq!(all.as_array().unwrap().len(), 2);
    let some = rig.got_values(unable)[0]["params"]["registrations"].clone();
    assert_eq!(some, json!([{"id":"h","method":"textDocument/hover"}]));
    let late = rig.client("clangd");
    rig.initialize(late, ABLE);
    rig.got(late);
    rig.initialized(late);
    assert_eq!(rig.got_values(late)[0]["params"]["registrations"], all);
    let params = r#"{"unregisterations":[{"id":"w","method":"workspace/didChangeWatchedFiles"}]}"#;
    rig.ask("2", "client/unregisterCapability", params);
    assert_eq!(
        rig.got_values(late)[0]["method"],
        "client/unregisterCapability"
    );
    assert!(rig.got(unable).is_empty(), "it never heard of it");
    rig.exits("signal 9");
    let taken = rig.got_values(unable)[0]["params"]["unregisterations"].clone();
    assert_eq!(taken, json!([{"id":"h","method":"textDocument/hover"}]));
    rig.end();
}

#[test]
fn given_progress_of_the_server_then_clients_that_show_it_see_it_and_a_late_joiner_its_last_state()
{
    let mut rig = Rig::new();
    let (able, unable) = (rig.attach(ABLE), rig.attach(UNABLE));
    rig.server_got();
    rig.ask("1", "window/workDoneProgress/create", r#"{"token":"t"}"#);
    assert_eq!(rig.server_answer(&json!(1))["result"], json!(null));
    rig.tell(
        "$/progress",
        r#"{"token":"t","value":{"kind":"begin","title":"x"}}"#,
    );
    rig.tell(
        "$/progress",
        r#"{"token":"t","value":{"kind":"report","percentage":5}}"#,
    );
    rig.tell(
        "$/progress",
        r#"{"token":"t","value":{"kind":"report","percentage":50}}"#,
    );
    assert_eq!(rig.got(able).len(), 4);
    assert!(rig.got(unable).is_empty());
    let late = rig.client("clangd");
    rig.initialize(late, ABLE);
    rig.got(late);
    rig.initialized(late);
    let got = rig.got_values(late);
    assert_eq!(got.len(), 3);
    assert_eq!(got[0]["method"], "window/workDoneProgress/create");
    assert_eq!(got[1]["params"]["value"]["kind"], "begin");
    assert_eq!(got[2]["params"]["value"]["percentage"], 50);
    rig.exits("signal 9");
    let ended = rig.got_values(late);
    assert_eq!(
        ended[0]["params"]["value"]["kind"], "end",
        "nothing runs for ever"
    );
    rig.end();
}

#[test]
fn given_tokens_of_clients_then_only_a_collision_is_renamed_and_each_hears_its_own() {
    let mut rig = Rig::new();
    let (first, second) = (rig.attach("{}"), rig.attach("{}"));
    rig.server_got();
    let params = r#"{"workDoneToken":7,"partialResultToken":"p"}"#;
    rig.request(first, "1", "a/b", params);
    rig.request(second, "1", "a/b", params);
    let sent: Vec<serde_json::Value> = rig
        .server_got()
        .iter()
        .map(|body| serde_json::from_str(body).unwrap())
        .collect();
    assert_eq!(
        sent[0]["params"],
        json!({"workDoneToken":7,"partialResultToken":"p"})
    );
    let renamed = sent[1]["params"]["workDoneToken"].clone();
    assert_ne!(renamed, json!(7));
    rig.tell(
        "$/progress",
        &format!(r#"{{"token":{renamed},"value":{{"kind":"begin","title":"x"}}}}"#),
    );
    assert!(rig.got(first).is_empty());
    assert_eq!(rig.got_values(second)[0]["params"]["token"], 7);
    rig.tell("$/progress", r#"{"token":"p","value":[1]}"#);
    assert_eq!(rig.got_values(first)[0]["params"]["value"], json!([1]));
    rig.notify(second, "window/workDoneProgress/cancel", r#"{"token":7}"#);
    let cancel: serde_json::Value = serde_json::from_str(&rig.server_got()[0]).unwrap();
    assert_eq!(cancel["params"]["token"], renamed);
    rig.request(first, "3", "a/b", r#"{"workDoneToken":8}"#);
    rig.server_got();
    rig.notify(second, "window/workDoneProgress/cancel", r#"{"token":8}"#);
    assert!(rig.server_got().is_empty(), "a stranger's is not cancelled");
    rig.notify(first, "window/workDoneProgress/cancel", r#"{"token":7}"#);
    assert_eq!(rig.server_methods(), ["window/workDoneProgress/cancel"]);
    rig.serve("a/b", "null");
    rig.serve("a/b", "null");
    rig.serve("a/b", "null");
    rig.got(first);
    rig.request(first, "2", "a/b", params);
    let again: serde_json::Value = serde_json::from_str(&rig.server_got()[0]).unwrap();
    assert_eq!(again["params"]["workDoneToken"], 7, "free again");
    rig.serve("a/b", "null");
    rig.end();
}

#[test]
fn given_refreshes_and_logs_then_every_client_that_wants_them_gets_them() {
    let mut rig = Rig::new();
    let (first, second) = (rig.attach("{}"), rig.attach("{}"));
    rig.tell("window/logMessage", r#"{"type":3,"message":"hello"}"#);
    rig.tell("vendor/thing", r#"{"x":1}"#);
    for client in [first, second] {
        let got = rig.got_values(client);
        assert_eq!(got[0]["params"]["message"], "hello");
        assert_eq!(got[1]["method"], "vendor/thing");
    }
    rig.end();
}

#[test]
fn given_settings_of_a_second_client_that_differ_then_they_are_not_told_and_the_client_is() {
    let mut rig = Rig::new();
    let (first, second) = (rig.attach("{}"), rig.attach("{}"));
    rig.server_got();
    rig.notify(
        first,
        "workspace/didChangeConfiguration",
        r#"{"settings":{"a":1,"b":2}}"#,
    );
    rig.notify(
        second,
        "workspace/didChangeConfiguration",
        r#"{"settings":{"b":2,"a":1}}"#,
    );
    rig.notify(
        second,
        "workspace/didChangeConfiguration",
        r#"{"settings":{}}"#,
    );
    assert_eq!(rig.server_methods(), ["workspace/didChangeConfiguration"]);
    assert!(
        rig.got(second).is_empty(),
        "equal settings and none are no difference"
    );
    rig.notify(
        second,
        "workspace/didChangeConfiguration",
        r#"{"settings":{"a":3}}"#,
    );
    assert!(rig.server_methods().is_empty());
    assert_eq!(rig.got_values(second)[0]["method"], "window/logMessage");
    rig.end();
}

#[test]
fn given_an_answer_and_notifications_then_their_order_is_kept_towards_the_client() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.open(client, FILE, "1", "x");
    rig.hover(client, "1");
    rig.tell("x/1", "{}");
    rig.serve("textDocument/hover", "null");
    rig.tell("x/2", "{}");
    let got = rig.got_values(client);
    let shown: Vec<&str> = got
        .iter()
        .map(|it| it["method"].as_str().unwrap_or("answer"))
        .collect();
    assert_eq!(shown, ["x/1", "answer", "x/2"]);
    rig.end();
}
