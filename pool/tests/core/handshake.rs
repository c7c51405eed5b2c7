//! From `initialize` to a session, and what each phase allows.

use lspool_pool::core::{Event, Generation, InstanceId, LaunchRefusal};
use serde_json::{Value, json};

use crate::rig::{FILE, RESULT, ROOT_URI, Rig};

fn result_of(body: &str) -> String {
    let head = r#"{"jsonrpc":"2.0","id":"init","result":"#;
    body.strip_prefix(head)
        .and_then(|rest| rest.strip_suffix('}'))
        .unwrap_or_else(|| panic!("not an initialize result: {body}"))
        .to_owned()
}

#[test]
fn given_two_editors_with_equal_profiles_then_one_server_serves_both_with_the_recorded_bytes() {
    let mut rig = Rig::new();
    let first = rig.client("clangd");
    rig.initialize(
        first,
        r#"{"textDocument":{"hover":{"contentFormat":["plaintext"]}}}"#,
    );
    rig.initialized(first);
    let second = rig.client("clangd");
    rig.initialize(
        second,
        r#"{"textDocument":{"hover":{"contentFormat":["markdown"]}}}"#,
    );
    rig.initialized(second);
    assert_eq!(rig.spawns, 1);
    assert_eq!(result_of(&rig.got(first)[0]), RESULT);
    assert_eq!(result_of(&rig.got(second)[0]), RESULT);
    let methods = rig.server_methods();
    assert_eq!(
        methods,
        ["initialize", "initialized"],
        "the server sees one handshake"
    );
    rig.end();
}

#[test]
fn given_editors_whose_capabilities_raise_to_different_profiles_then_each_has_its_own_server() {
    let mut rig = Rig::new();
    rig.attach("{}");
    rig.attach(r#"{"textDocument":{"foldingRange":{"rangeLimit":5}}}"#);
    assert_eq!(rig.spawns, 2);
    let status = rig.core.status();
    let why = status.instances[1].why_not_shared.as_deref().unwrap();
    assert!(why.contains("capabilities differ"), "{why}");
    rig.end();
}

#[test]
fn given_a_second_editor_while_the_server_boots_then_both_wait_for_its_one_answer() {
    let mut rig = Rig::new();
    rig.hold.initialize = true;
    let first = rig.client("clangd");
    rig.initialize(first, "{}");
    let second = rig.client("clangd");
    rig.initialize(second, "{}");
    assert!(rig.got(first).is_empty());
    rig.serve("initialize", RESULT);
    assert_eq!(result_of(&rig.got(first)[0]), RESULT);
    assert_eq!(result_of(&rig.got(second)[0]), RESULT);
    rig.end();
}

#[test]
fn given_requests_before_initialize_then_they_are_refused_and_notifications_dropped() {
    let mut rig = Rig::new();
    let client = rig.client("clangd");
    rig.hover(client, "1");
    assert_eq!(rig.answer(client, &json!(1))["error"]["code"], -32002);
    rig.open(client, FILE, "1", "x");
    rig.initialize(client, "{}");
    rig.initialized(client);
    assert_eq!(rig.server_methods(), ["initialize", "initialized"]);
    rig.end();
}

#[test]
fn given_messages_before_the_initialize_answer_then_they_are_served_after_it_in_order() {
    let mut rig = Rig::new();
    rig.hold.initialize = true;
    let client = rig.client("clangd");
    rig.initialize(client, "{}");
    rig.hover(client, "1");
    rig.initialized(client);
    rig.open(client, FILE, "1", "x");
    rig.hover(client, "2");
    rig.serve("initialize", RESULT);
    assert_eq!(
        rig.server_methods(),
        [
            "initialize",
            "initialized",
            "textDocument/hover",
            "textDocument/didOpen",
            "textDocument/hover"
        ],
        "`initialized` alone goes before what waits for it"
    );
    rig.serve("textDocument/hover", "null");
    rig.serve("textDocument/hover", "null");
    rig.end();
}

#[test]
fn given_a_request_between_the_answer_and_initialized_then_it_is_held_until_initialized() {
    let mut rig = Rig::new();
    let client = rig.client("clangd");
    rig.initialize(client, "{}");
    rig.hover(client, "1");
    assert_eq!(rig.server_methods(), ["initialize"]);
    rig.initialized(client);
    assert_eq!(rig.server_methods(), ["initialized", "textDocument/hover"]);
    rig.serve("textDocument/hover", "7");
    assert_eq!(rig.answer(client, &json!(1))["result"], 7);
    rig.end();
}

#[test]
fn given_a_client_that_never_says_initialized_then_shutdown_is_answered_all_the_same() {
    let mut rig = Rig::new();
    let client = rig.client("clangd");
    rig.initialize(client, "{}");
    rig.hover(client, "1");
    rig.request(client, "2", "shutdown", "null");
    let got = rig.got_values(client);
    assert_eq!(got[1]["id"], 2);
    assert_eq!(got[1]["result"], Value::Null);
    assert_eq!(got[2]["error"]["code"], -32600, "what waited is answered");
    rig.end();
}

#[test]
fn given_a_second_initialize_then_it_is_refused_and_never_reaches_the_server() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.server_got();
    rig.request(client, "5", "initialize", r#"{"capabilities":{}}"#);
    assert_eq!(rig.answer(client, &json!(5))["error"]["code"], -32600);
    assert!(rig.server_got().is_empty());
    rig.end();
}

#[test]
fn given_shutdown_then_later_requests_are_refused_and_exit_closes_with_code_0() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.server_got();
    rig.request(client, "1", "shutdown", "null");
    assert_eq!(rig.answer(client, &json!(1))["result"], Value::Null);
    rig.hover(client, "2");
    assert_eq!(rig.answer(client, &json!(2))["error"]["code"], -32600);
    rig.notify(client, "exit", "null");
    assert_eq!(rig.clients[&client].closed, Some(0));
    assert!(rig.server_got().is_empty(), "neither reaches the server");
    rig.end();
}

#[test]
fn given_exit_without_shutdown_then_the_exit_code_is_1() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.notify(client, "exit", "null");
    assert_eq!(rig.clients[&client].closed, Some(1));
    rig.end();
}

#[test]
fn given_exit_behind_a_shutdown_that_waits_then_shutdown_is_answered_and_the_code_is_0() {
    let mut rig = Rig::new();
    rig.hold.initialize = true;
    let client = rig.client("clangd");
    rig.initialize(client, "{}");
    rig.request(client, "9", "shutdown", "null");
    rig.notify(client, "exit", "null");
    assert_eq!(
        rig.clients[&client].closed, None,
        "what it asked may yet be answered"
    );
    rig.advance(2_000);
    assert_eq!(rig.clients[&client].closed, Some(0));
    let got = rig.got_values(client);
    assert_eq!(got[0]["id"], 9);
    rig.end();
}

#[test]
fn given_a_command_that_cannot_be_started_then_every_waiting_request_is_answered_and_the_code_says_why()
 {
    let mut rig = Rig::new();
    rig.hold.launch = true;
    rig.launch_refusal = Some(LaunchRefusal {
        exit_code: 127,
        text: "`nope` was not found".to_owned(),
    });
    let client = rig.client("nope");
    rig.initialize(client, "{}");
    rig.hover(client, "1");
    rig.finish_jobs();
    let got = rig.got_values(client);
    assert_eq!(got[0]["error"]["data"]["code"], "LSP_UNAVAILABLE");
    assert_eq!(got[1]["id"], 1);
    assert_eq!(got[1]["error"]["code"], -32803);
    assert_eq!(rig.clients[&client].closed, Some(127));
    assert_eq!(rig.clients[&client].notices, ["`nope` was not found"]);
    rig.end();
}

#[test]
fn given_a_spawn_that_fails_then_initialize_gets_a_clear_error_and_the_client_its_exit_code() {
    let mut rig = Rig::new();
    rig.hold.spawn = true;
    let client = rig.client("clangd");
    rig.initialize(client, "{}");
    rig.handle(Event::Spawned {
        instance: InstanceId(1),
        generation: Generation(1),
        result: Err("permission denied".to_owned()),
    });
    let error = &rig.answer(client, &json!("init"))["error"];
    assert_eq!(error["data"]["code"], "LSP_START_FAILED");
    let text = error["message"].as_str().unwrap();
    assert!(
        text.contains("clangd") && text.contains("permission denied"),
        "{text}"
    );
    assert_eq!(rig.clients[&client].closed, Some(126));
    rig.end();
}

#[test]
fn given_a_server_that_exits_at_once_then_its_last_words_are_in_the_error() {
    let mut rig = Rig::new();
    rig.hold.initialize = true;
    let client = rig.client("clangd");
    rig.initialize(client, "{}");
    rig.exits("exit code 3");
    let error = &rig.answer(client, &json!("init"))["error"];
    assert_eq!(error["data"]["code"], "LSP_START_FAILED");
    let text = error["message"].as_str().unwrap();
    assert!(
        text.contains("exit code 3") && text.contains("last words"),
        "{text}"
    );
    assert_eq!(rig.clients[&client].closed, Some(1));
    rig.end();
}

#[test]
fn given_a_server_that_never_answers_initialize_then_the_client_is_told_at_the_start_limit() {
    let mut rig = Rig::new();
    rig.hold.initialize = true;
    let client = rig.client("clangd");
    rig.initialize(client, "{}");
    rig.advance(59_999);
    assert!(rig.got(client).is_empty());
    rig.advance(1);
    assert_eq!(
        rig.answer(client, &json!("init"))["error"]["data"]["code"],
        "LSP_TIMEOUT"
    );
    rig.end();
}

#[test]
fn given_a_server_that_refuses_initialize_then_its_words_are_passed_on() {
    let mut rig = Rig::new();
    rig.hold.initialize = true;
    let client = rig.client("clangd");
    rig.initialize(client, "{}");
    rig.refuse("initialize", -32603);
    let error = &rig.answer(client, &json!("init"))["error"];
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("refused to initialize: no")
    );
    rig.end();
}

#[test]
fn given_a_server_with_another_column_unit_then_it_is_refused() {
    let mut rig = Rig::new();
    rig.result = r#"{"capabilities":{"positionEncoding":"utf-8"}}"#.to_owned();
    let client = rig.client("clangd");
    rig.initialize(client, "{}");
    assert_eq!(
        rig.answer(client, &json!("init"))["error"]["data"]["code"],
        "LSP_ENCODING"
    );
    rig.end();
}

#[test]
fn given_a_client_that_leaves_while_its_command_is_resolved_then_nothing_is_started() {
    let mut rig = Rig::new();
    rig.hold.launch = true;
    let client = rig.client("clangd");
    rig.initialize(client, "{}");
    rig.kill(client);
    assert!(rig.jobs.is_empty(), "the job is taken back");
    assert_eq!(rig.spawns, 0);
    assert!(rig.core.is_empty());
    rig.end();
}

#[test]
fn given_initialize_then_the_server_is_told_the_pools_process_and_the_raised_capabilities() {
    let mut rig = Rig::new();
    rig.attach("{}");
    let initialize: Value = serde_json::from_str(&rig.server_got()[0]).unwrap();
    assert_eq!(initialize["params"]["processId"], 4711);
    assert_eq!(initialize["params"]["rootUri"], ROOT_URI);
    assert_eq!(
        initialize["params"]["capabilities"]["workspace"]["configuration"],
        true
    );
    rig.end();
}

#[test]
fn given_a_harness_then_it_is_served_without_a_server_and_told_what_it_may_ask() {
    let mut rig = Rig::new();
    let client = rig.harness();
    let result = &rig.answer(client, &json!("init"))["result"];
    assert_eq!(
        result["capabilities"]["experimental"]["lspool"]["version"],
        1
    );
    rig.hover(client, "1");
    assert_eq!(rig.answer(client, &json!(1))["error"]["code"], -32601);
    rig.request(client, "2", "lspool/status", "{}");
    assert_eq!(rig.calls.len(), 1);
    let (call, method) = rig.calls[0].clone();
    assert_eq!(method, "lspool/status");
    rig.handle(Event::CallDone {
        call,
        result: Ok("{}".to_owned()),
    });
    assert_eq!(rig.answer(client, &json!(2))["result"], json!({}));
    assert_eq!(rig.spawns, 0);
    rig.end();
}

#[test]
fn given_a_client_that_knows_lspool_then_its_result_alone_carries_the_announcement() {
    let mut rig = Rig::new();
    let knowing = rig.client("clangd");
    rig.initialize(knowing, r#"{"experimental":{"lspool":{}}}"#);
    let plain = rig.client("clangd");
    rig.initialize(plain, "{}");
    assert_eq!(rig.spawns, 1);
    let result = rig.answer(knowing, &json!("init"));
    assert_eq!(
        result["result"]["capabilities"]["experimental"]["lspool"]["version"],
        1
    );
    assert_eq!(result_of(&rig.got(plain)[0]), RESULT);
    rig.end();
}

#[test]
fn given_what_is_held_for_initialized_then_what_is_not_passes_it_and_the_rest_keeps_its_order() {
    let mut rig = Rig::new();
    let client = rig.client("clangd");
    rig.initialize(client, "{}");
    rig.server_got();
    for number in 1..=4 {
        rig.hover(client, &number.to_string());
    }
    rig.request(client, "5", "lspool/status", "{}");
    rig.cancel(client, "2");
    rig.hover(client, "6");
    rig.request(client, "7", "lspool/status", "{}");
    assert_eq!(rig.calls.len(), 2);
    rig.initialized(client);
    assert_eq!(
        rig.server_methods().len(),
        5,
        "initialized and four questions"
    );
    for number in [1, 3, 4, 6] {
        rig.serve("textDocument/hover", &number.to_string());
        assert_eq!(rig.answer(client, &json!(number))["result"], number);
    }
    rig.check_credit();
    rig.end();
}
