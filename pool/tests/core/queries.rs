//! Normalised queries: the wait for a server, the question, its repetition, and the text that it is asked on.

use lspool_normalize::request::{View, Wait};
use lspool_normalize::{Operation, Readiness};
use lspool_pool::core::{Event, QueryTicket};
use serde_json::json;

use crate::rig::{FILE, RESULT, Rig};

const HOVER: &str = "textDocument/hover";
const OTHER: &str = "file:///lspool-rig/b.c";

fn readiness(rig: &Rig, ticket: QueryTicket) -> Readiness {
    rig.done[&ticket]
        .outcome
        .as_ref()
        .unwrap()
        .envelope()
        .readiness
}

/// The end of the background index of the fake server.
fn index_ends(rig: &mut Rig) {
    rig.tell(
        "$/progress",
        r#"{"token":"backgroundIndexProgress","value":{"kind":"begin","title":"indexing"}}"#,
    );
    rig.tell(
        "$/progress",
        r#"{"token":"backgroundIndexProgress","value":{"kind":"end"}}"#,
    );
}

#[test]
fn given_no_server_then_a_query_starts_one_and_asks_it_once_its_index_is_complete() {
    let mut rig = Rig::new();
    let client = rig.harness();
    let ticket = rig.query(client, Operation::Hover);
    assert_eq!(
        rig.server_methods(),
        ["initialize", "initialized", "textDocument/didOpen"],
        "not asked before it is ready"
    );
    index_ends(&mut rig);
    assert_eq!(rig.server_methods(), [HOVER]);
    rig.serve(HOVER, "null");
    assert_eq!(readiness(&rig, ticket), Readiness::Signal);
    let again = rig.query(client, Operation::Hover);
    assert_eq!(rig.server_methods(), [HOVER], "the document stays open");
    rig.serve(HOVER, "null");
    assert_eq!(readiness(&rig, again), Readiness::Signal);
    rig.end();
}

#[test]
fn given_no_sign_of_an_index_then_the_query_settles() {
    let mut rig = Rig::new();
    let client = rig.harness();
    let ticket = rig.query(client, Operation::Hover);
    rig.server_got();
    rig.advance(2_999);
    assert!(rig.server_got().is_empty());
    rig.advance(7_001);
    rig.serve(HOVER, "null");
    assert_eq!(readiness(&rig, ticket), Readiness::Settled);
    rig.end();
}

#[test]
fn given_an_index_that_does_not_end_then_the_server_is_asked_before_the_budget_ends() {
    let mut rig = Rig::new();
    let client = rig.harness();
    let ticket = rig.query_with(client, Operation::Hover, |it| it.timeout_ms = Some(10_000));
    rig.tell(
        "$/progress",
        r#"{"token":"backgroundIndexProgress","value":{"kind":"begin","title":"indexing"}}"#,
    );
    rig.server_got();
    rig.advance(7_999);
    assert!(rig.server_got().is_empty());
    rig.advance(1);
    assert_eq!(
        rig.server_methods(),
        [HOVER],
        "a fifth of the budget is kept for the question"
    );
    rig.serve(HOVER, "null");
    assert_eq!(readiness(&rig, ticket), Readiness::Timeout);
    assert!(rig.finished[0].indexing);
    rig.end();
}

#[test]
fn given_wait_none_then_the_server_is_asked_at_once() {
    let mut rig = Rig::new();
    let client = rig.harness();
    let ticket = rig.query_with(client, Operation::Hover, |it| it.wait = Some(Wait::None));
    rig.serve(HOVER, "null");
    assert_eq!(readiness(&rig, ticket), Readiness::NotWaited);
    rig.end();
}

fn asked(rig: &mut Rig, client: lspool_pool::core::ClientId) -> QueryTicket {
    rig.query_with(client, Operation::Hover, |it| it.wait = Some(Wait::None))
}

#[test]
fn given_a_budget_that_ends_then_the_error_names_the_phase_and_the_request_is_cancelled() {
    let mut rig = Rig::new();
    let client = rig.harness();
    rig.hold.initialize = true;
    let boot = rig.query_with(client, Operation::Hover, |it| it.timeout_ms = Some(1_000));
    rig.advance(1_000);
    let error = rig.query_error(boot);
    assert_eq!(error["data"]["code"], "LSP_TIMEOUT");
    assert_eq!(error["data"]["detail"]["phase"], "boot");
    rig.serve("initialize", RESULT);
    let request = rig.query_with(client, Operation::Hover, |it| {
        it.timeout_ms = Some(1_000);
        it.wait = Some(Wait::None);
    });
    rig.advance(1_000);
    assert_eq!(
        rig.query_error(request)["data"]["detail"]["phase"],
        "request"
    );
    let at = rig.server();
    assert_eq!(rig.fake(at).cancelled.len(), 1);
    rig.serve(HOVER, "null");
    rig.end();
}

#[test]
fn given_a_server_that_is_busy_then_it_is_asked_again_until_it_answers() {
    let mut rig = Rig::new();
    let client = rig.harness();
    let ticket = asked(&mut rig, client);
    for code in [-32801, -32802, -32800] {
        rig.server_got();
        rig.refuse(HOVER, code);
        assert!(rig.server_got().is_empty());
        rig.advance(1_300);
        assert_eq!(rig.server_methods(), [HOVER]);
    }
    rig.serve(HOVER, "null");
    let notes = &rig.finished[0].notes;
    assert!(notes[0].contains("3 times"), "{notes:?}");
    assert!(rig.done[&ticket].outcome.is_ok());
    rig.end();
}

#[test]
fn given_an_error_of_the_server_then_the_query_fails_with_its_words() {
    let mut rig = Rig::new();
    let client = rig.harness();
    let ticket = asked(&mut rig, client);
    rig.refuse(HOVER, -32603);
    let error = rig.query_error(ticket);
    assert_eq!(error["data"]["code"], "LSP_SERVER_ERROR");
    let unknown = asked(&mut rig, client);
    rig.refuse(HOVER, -32601);
    assert_eq!(
        rig.query_error(unknown)["data"]["code"],
        "LSP_UNSUPPORTED_OPERATION"
    );
    rig.end();
}

#[test]
fn given_an_operation_that_the_server_lacks_then_it_is_not_asked_unless_it_registers_it() {
    let mut rig = Rig::new();
    let client = rig.harness();
    let query = |rig: &mut Rig| {
        rig.query_with(client, Operation::GoToImplementation, |it| {
            it.wait = Some(Wait::None);
        })
    };
    let ticket = query(&mut rig);
    assert_eq!(
        rig.query_error(ticket)["data"]["code"],
        "LSP_UNSUPPORTED_OPERATION"
    );
    let params = r#"{"registrations":[{"id":"i","method":"textDocument/implementation"}]}"#;
    rig.ask("1", "client/registerCapability", params);
    let ticket = query(&mut rig);
    rig.serve("textDocument/implementation", "null");
    assert!(rig.done[&ticket].outcome.is_ok());
    rig.end();
}

#[test]
fn given_many_queries_then_few_are_in_flight_and_each_gets_its_turn() {
    let mut rig = Rig::new();
    let client = rig.harness();
    let tickets: Vec<_> = (0..9).map(|_| asked(&mut rig, client)).collect();
    for _ in 0..9 {
        let at = rig.server();
        assert!(rig.fake(at).open.len() <= 4);
        rig.serve(HOVER, "null");
    }
    assert!(
        tickets
            .iter()
            .all(|ticket| rig.done[ticket].outcome.is_ok())
    );
    rig.end();
}

#[test]
fn given_too_many_queries_of_one_connection_then_one_more_is_refused() {
    let mut limits = crate::rig::limits();
    limits.queries_per_client = 2;
    let mut rig = Rig::with(limits);
    let client = rig.harness();
    asked(&mut rig, client);
    asked(&mut rig, client);
    let ticket = asked(&mut rig, client);
    let data = &rig.query_error(ticket)["data"];
    assert_eq!(data["code"], "LIMIT_EXCEEDED");
    assert_eq!(data["retryable"], true, "a place comes back");
    rig.end();
}

#[test]
fn given_an_editors_message_that_waits_then_no_query_is_started_before_it() {
    let mut rig = Rig::new();
    let (editor, agent) = (rig.attach("{}"), rig.harness());
    rig.open(editor, FILE, "1", "int a;\n");
    rig.hold.compose = true;
    let other = rig.attach("{}");
    rig.open(other, FILE, "1", "other");
    rig.server_got();
    asked(&mut rig, agent);
    assert!(rig.server_got().is_empty());
    rig.finish_jobs();
    rig.hold.compose = false;
    rig.finish_jobs();
    let methods = rig.server_methods();
    assert_eq!(methods.last().unwrap(), HOVER);
    rig.serve(HOVER, "null");
    rig.end();
}

#[test]
fn given_a_file_that_changed_on_disk_then_the_question_is_asked_on_its_new_text() {
    let mut rig = Rig::new();
    let client = rig.harness();
    asked(&mut rig, client);
    rig.serve(HOVER, "null");
    rig.disk.insert(FILE.to_owned(), ("int b;\n".to_owned(), 2));
    asked(&mut rig, client);
    let at = rig.server();
    assert_eq!(rig.fake(at).texts[FILE], "int b;\n");
    rig.serve(HOVER, "null");
    rig.end();
}

#[test]
fn given_another_open_file_that_changed_or_went_then_the_server_is_told_before_the_question() {
    let mut rig = Rig::new();
    rig.disk
        .insert(OTHER.to_owned(), ("int b;\n".to_owned(), 1));
    let client = rig.harness();
    rig.query_with(client, Operation::Hover, |it| {
        it.file = OTHER.to_owned();
        it.wait = Some(Wait::None);
    });
    rig.serve(HOVER, "null");
    rig.disk
        .insert(OTHER.to_owned(), ("int c;\n".to_owned(), 2));
    rig.server_got();
    asked(&mut rig, client);
    let methods = rig.server_methods();
    assert!(methods.contains(&"workspace/didChangeWatchedFiles".to_owned()));
    assert_eq!(methods.last().unwrap(), HOVER);
    let at = rig.server();
    assert_eq!(rig.fake(at).texts[OTHER], "int c;\n");
    rig.serve(HOVER, "null");
    rig.disk.remove(OTHER);
    asked(&mut rig, client);
    assert!(!rig.fake(at).texts.contains_key(OTHER));
    rig.serve(HOVER, "null");
    rig.end();
}

#[test]
fn given_a_file_that_changes_while_the_server_boots_then_position_and_text_are_found_again() {
    let mut rig = Rig::new();
    let client = rig.harness();
    rig.hold.initialize = true;
    let ticket = asked(&mut rig, client);
    rig.disk
        .insert(FILE.to_owned(), ("int later;\n".to_owned(), 2));
    rig.serve("initialize", RESULT);
    let at = rig.server();
    assert_eq!(rig.fake(at).texts[FILE], "int later;\n");
    rig.serve(HOVER, "null");
    assert_eq!(rig.finished[0].prepared.file_version, "2");
    assert!(rig.done[&ticket].outcome.is_ok());
    rig.end();
}

#[test]
fn given_documents_of_queries_over_the_bound_then_the_least_recently_used_is_closed() {
    let mut rig = Rig::new();
    let client = rig.harness();
    for name in 0..5 {
        let uri = format!("file:///lspool-rig/{name}.c");
        rig.disk.insert(uri.clone(), ("x".to_owned(), 1));
        rig.query_with(client, Operation::Hover, |it| {
            it.file = uri;
            it.wait = Some(Wait::None);
        });
        rig.serve(HOVER, "null");
        rig.advance(10);
    }
    let at = rig.server();
    let open: Vec<_> = rig.fake(at).texts.keys().cloned().collect();
    assert_eq!(
        open,
        [
            "file:///lspool-rig/2.c",
            "file:///lspool-rig/3.c",
            "file:///lspool-rig/4.c"
        ]
    );
    rig.end();
}

#[test]
fn given_an_editor_with_another_text_then_the_query_is_asked_on_the_disks_and_the_editors_comes_back()
 {
    let mut rig = Rig::new();
    let (editor, agent) = (rig.attach("{}"), rig.harness());
    rig.open(editor, FILE, "1", "unsaved");
    asked(&mut rig, agent);
    let at = rig.server();
    assert_eq!(rig.spawns, 1, "the editor's server is used");
    assert_eq!(rig.fake(at).texts[FILE], "int a;\n");
    rig.serve(HOVER, "null");
    assert_eq!(rig.fake(at).texts[FILE], "unsaved");
    rig.end();
}

#[test]
fn given_an_edit_during_a_question_on_the_disks_text_then_the_question_is_not_disturbed() {
    let mut rig = Rig::new();
    let (editor, agent) = (rig.attach("{}"), rig.harness());
    rig.open(editor, FILE, "1", "unsaved");
    let ticket = asked(&mut rig, agent);
    rig.server_got();
    rig.change(editor, FILE, "2", "unsaved more");
    assert!(rig.server_got().is_empty());
    rig.serve(HOVER, "null");
    let at = rig.server();
    assert_eq!(rig.fake(at).texts[FILE], "unsaved more");
    assert!(rig.done[&ticket].outcome.is_ok());
    rig.end();
}

#[test]
fn given_a_text_that_changes_under_a_question_then_its_answer_is_not_believed_and_it_is_asked_again()
 {
    let mut rig = Rig::new();
    let (editor, agent) = (rig.attach("{}"), rig.harness());
    rig.open(editor, FILE, "1", "int a;\n");
    let ticket = asked(&mut rig, agent);
    rig.change(editor, FILE, "2", "int aa;\n");
    let at = rig.server();
    assert_eq!(
        rig.fake(at).texts[FILE],
        "int aa;\n",
        "typing does not wait"
    );
    rig.serve(HOVER, "1");
    assert!(!rig.done.contains_key(&ticket));
    rig.advance(100);
    assert_eq!(rig.fake(at).texts[FILE], "int a;\n");
    rig.serve(HOVER, "2");
    assert_eq!(rig.finished[0].result, "2");
    assert_eq!(rig.fake(at).texts[FILE], "int aa;\n");
    rig.end();
}

#[test]
fn given_two_questions_on_one_text_then_the_editors_comes_back_after_the_last() {
    let mut rig = Rig::new();
    let (editor, agent) = (rig.attach("{}"), rig.harness());
    rig.open(editor, FILE, "1", "unsaved");
    asked(&mut rig, agent);
    asked(&mut rig, agent);
    rig.serve(HOVER, "null");
    let at = rig.server();
    assert_eq!(rig.fake(at).texts[FILE], "int a;\n");
    rig.serve(HOVER, "null");
    assert_eq!(rig.fake(at).texts[FILE], "unsaved");
    rig.end();
}

#[test]
fn given_an_editor_that_leaves_a_document_of_a_query_then_the_server_has_the_disks_text() {
    let mut rig = Rig::new();
    let (editor, agent) = (rig.attach("{}"), rig.harness());
    rig.open(editor, FILE, "1", "unsaved");
    asked(&mut rig, agent);
    rig.serve(HOVER, "null");
    let at = rig.server();
    rig.kill(editor);
    assert_eq!(rig.fake(at).texts[FILE], "int a;\n");
    rig.end();
}

#[test]
fn given_references_then_the_declaration_is_asked_for_as_well() {
    let mut rig = Rig::new();
    let client = rig.harness();
    rig.query_with(client, Operation::FindReferences, |it| {
        it.wait = Some(Wait::None);
    });
    rig.serve("textDocument/references", "[1]");
    rig.serve("textDocument/definition", "[2]");
    assert_eq!(rig.finished[0].result, "[1]");
    assert_eq!(rig.finished[0].definition_result.as_deref(), Some("[2]"));
    rig.end();
}

#[test]
fn given_an_editor_beside_an_instance_of_queries_then_the_queries_move_and_the_other_leaves() {
    let mut rig = Rig::new();
    let agent = rig.harness();
    let running = asked(&mut rig, agent);
    let first = rig.server();
    rig.hold.initialize = true;
    let editor = rig.client("clangd");
    rig.initialize(editor, "{}");
    assert_eq!(rig.spawns, 2);
    let second = rig.server();
    let meanwhile = asked(&mut rig, agent);
    assert_eq!(rig.fake(first).open.len(), 2, "the one in service is asked");
    rig.server_says(
        second,
        &format!(r#"{{"jsonrpc":"2.0","id":1,"result":{RESULT}}}"#),
    );
    rig.initialized(editor);
    for _ in 0..2 {
        let number = rig.number(first, HOVER);
        rig.server_says(
            first,
            &format!(r#"{{"jsonrpc":"2.0","id":{number},"result":null}}"#),
        );
    }
    for ticket in [running, meanwhile] {
        assert!(rig.done[&ticket].outcome.is_ok());
    }
    assert_eq!(rig.fake(first).open[0].1, "shutdown");
    asked(&mut rig, agent);
    assert_eq!(rig.fake(second).open.len(), 1);
    let number = rig.number(second, HOVER);
    rig.server_says(
        second,
        &format!(r#"{{"jsonrpc":"2.0","id":{number},"result":null}}"#),
    );
    rig.end();
}

#[test]
fn given_a_crash_under_a_question_then_it_is_asked_once_more_and_not_a_third_time() {
    let mut rig = Rig::new();
    let client = rig.harness();
    let ticket = asked(&mut rig, client);
    rig.refuse(HOVER, -32801);
    rig.advance(100);
    rig.exits("signal 11");
    rig.advance(500);
    assert!(!rig.done.contains_key(&ticket));
    rig.exits("signal 11");
    assert_eq!(rig.query_error(ticket)["data"]["code"], "LSP_RESTARTED");
    rig.end();
}

#[test]
fn given_a_query_that_nobody_waits_for_then_its_request_is_cancelled() {
    let mut rig = Rig::new();
    let client = rig.harness();
    let ticket = asked(&mut rig, client);
    rig.handle(Event::QueryCancelled { ticket });
    let at = rig.server();
    assert_eq!(rig.fake(at).cancelled.len(), 1);
    assert!(!rig.done.contains_key(&ticket));
    rig.serve(HOVER, "null");
    rig.end();
}

#[test]
fn given_a_connection_that_ends_then_its_queries_end_with_it() {
    let mut rig = Rig::new();
    let client = rig.harness();
    rig.hold.prepare = true;
    let ticket = asked(&mut rig, client);
    rig.kill(client);
    assert_eq!(rig.query_error(ticket)["data"]["code"], "LSP_DISPOSED");
    assert!(rig.jobs.is_empty());
    let late = rig.query(client, Operation::Hover);
    assert_eq!(rig.query_error(late)["data"]["code"], "LSP_DISPOSED");
    rig.end();
}

#[test]
fn given_a_server_that_cannot_start_then_every_query_says_so() {
    let mut rig = Rig::new();
    let client = rig.harness();
    rig.hold.initialize = true;
    let tickets = [asked(&mut rig, client), asked(&mut rig, client)];
    rig.exits("exit code 1");
    for ticket in tickets {
        let error = rig.query_error(ticket);
        assert_eq!(error["data"]["code"], "LSP_START_FAILED");
        assert!(error["message"].as_str().unwrap().contains("last words"));
    }
    rig.end();
}

#[test]
fn given_a_query_only_server_then_it_is_told_the_definitions_settings_as_answers() {
    let mut rig = Rig::new();
    let client = rig.harness();
    asked(&mut rig, client);
    rig.server_got();
    rig.ask(
        "1",
        "workspace/configuration",
        r#"{"items":[{"section":"none"}]}"#,
    );
    assert_eq!(rig.server_answer(&json!(1))["result"], json!([{}]));
    rig.serve(HOVER, "null");
    rig.end();
}

#[test]
fn given_view_editor_then_the_question_is_asked_on_the_editors_text_and_the_disks_stands_for_it_later()
 {
    let mut rig = Rig::new();
    rig.disk
        .insert(OTHER.to_owned(), ("int b;\n".to_owned(), 1));
    let (editor, agent) = (rig.attach("{}"), rig.harness());
    rig.open(editor, FILE, "1", "unsaved");
    rig.server_got();
    rig.query_with(agent, Operation::Hover, |it| {
        it.view = Some(View::Editor);
        it.wait = Some(Wait::None);
    });
    assert_eq!(rig.server_methods(), [HOVER], "no switch");
    rig.serve(HOVER, "null");
    rig.kill(editor);
    rig.query_with(agent, Operation::Hover, |it| {
        it.file = OTHER.to_owned();
        it.wait = Some(Wait::None);
    });
    let at = rig.server();
    assert_eq!(
        rig.fake(at).texts[FILE],
        "int a;\n",
        "nobody's unsaved text"
    );
    rig.serve(HOVER, "null");
    rig.end();
}

#[test]
fn given_view_editor_and_an_edit_before_the_answer_then_the_question_is_asked_on_the_text_of_now() {
    let mut rig = Rig::new();
    let (editor, agent) = (rig.attach("{}"), rig.harness());
    rig.open(editor, FILE, "1", "one");
    let ticket = rig.query_with(agent, Operation::Hover, |it| {
        it.view = Some(View::Editor);
        it.wait = Some(Wait::None);
    });
    rig.change(editor, FILE, "2", "two");
    rig.serve(HOVER, "1");
    assert!(!rig.done.contains_key(&ticket));
    rig.advance(100);
    let at = rig.server();
    assert_eq!(rig.fake(at).texts[FILE], "two");
    rig.serve(HOVER, "2");
    let asked = rig.finished[0].prepared.editor_text.as_ref().unwrap();
    assert_eq!((&*asked.text, asked.version.as_str()), ("two", "2"));
    rig.end();
}
