//! Documents: counted per client, one text at the server, versions that rise; diagnostics to those who have them open.

use lspool_pool::core::Job;
use serde_json::{Value, json};

use crate::rig::{FILE, Rig};

fn diagnostics(uri: &str, version: Option<i64>) -> String {
    let version = version.map_or(String::new(), |version| format!(r#""version":{version},"#));
    format!(r#"{{"uri":"{uri}",{version}"diagnostics":[{{"message":"m"}}]}}"#)
}

fn text(rig: &mut Rig) -> String {
    let at = rig.server();
    rig.fake(at).texts[FILE].clone()
}

fn version(rig: &mut Rig) -> i64 {
    let at = rig.server();
    rig.fake(at).versions[FILE]
}

#[test]
fn given_two_holders_then_the_document_is_opened_once_and_closed_by_the_last() {
    let mut rig = Rig::new();
    let (first, second) = (rig.attach("{}"), rig.attach("{}"));
    rig.server_got();
    rig.open(first, FILE, "1", "x");
    rig.open(second, FILE, "7", "x");
    assert_eq!(rig.server_methods(), ["textDocument/didOpen"]);
    rig.close(first, FILE);
    assert!(rig.server_got().is_empty());
    rig.close(second, FILE);
    assert_eq!(rig.server_methods(), ["textDocument/didClose"]);
    rig.close(second, FILE);
    assert!(rig.server_got().is_empty(), "a second close is nobody's");
    rig.end();
}

#[test]
fn given_a_holder_that_dies_and_one_that_leaves_then_the_document_is_closed_once() {
    let mut rig = Rig::new();
    let (first, second) = (rig.attach("{}"), rig.attach("{}"));
    rig.open(first, FILE, "1", "x");
    rig.open(second, FILE, "1", "x");
    rig.server_got();
    rig.kill(first);
    assert!(rig.server_got().is_empty());
    rig.kill(second);
    assert_eq!(rig.server_methods(), ["textDocument/didClose"]);
    rig.end();
}

#[test]
fn given_one_client_then_its_opens_and_changes_are_passed_on_byte_for_byte() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.server_got();
    let open = format!(
        r#"{{"method":"textDocument/didOpen" ,"jsonrpc":"2.0","params":{{"textDocument":{{"uri":"{FILE}","version":5,"languageId":"c","text":"a\u0062"}}}}}}"#
    );
    let change = format!(
        r#"{{"jsonrpc":"2.0","method":"textDocument/didChange","params":{{"contentChanges":[{{"range":{{"start":{{"line":0,"character":0}},"end":{{"line":0,"character":1}}}},"text":"Z"}}],"textDocument":{{"version": 6,"uri":"{FILE}"}}}}}}"#
    );
    rig.send(client, &open);
    rig.send(client, &change);
    assert_eq!(rig.server_got(), [open, change]);
    assert_eq!(text(&mut rig), "Zb");
    rig.end();
}

#[test]
fn given_any_versions_of_a_client_then_the_servers_rise_by_one() {
    for versions in [
        ["1", "1", "1"],
        ["5", "3", "-2"],
        ["-4", "null", "null"],
        ["null", "0", "0"],
        ["9223372036854775807", "9223372036854775807", "0"],
        ["-9223372036854775808", "1", "2"],
    ] {
        let mut rig = Rig::new();
        let client = rig.attach("{}");
        rig.open(client, FILE, versions[0], "a");
        let opened = version(&mut rig);
        rig.change(client, FILE, versions[1], "b");
        assert_eq!(version(&mut rig), opened + 1);
        rig.change(client, FILE, versions[2], "c");
        assert_eq!(version(&mut rig), opened + 2);
        assert_eq!(text(&mut rig), "c");
        rig.close(client, FILE);
        rig.open(client, FILE, versions[0], "d");
        assert!(version(&mut rig) > opened + 2, "also after a close");
        rig.end();
    }
}

#[test]
fn given_messages_without_a_version_then_the_server_is_told_one_all_the_same() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.notify(
        client,
        "textDocument/didOpen",
        &format!(r#"{{"textDocument":{{"uri":"{FILE}","languageId":"c","text":"a"}}}}"#),
    );
    rig.notify(
        client,
        "textDocument/didChange",
        &format!(r#"{{"textDocument":{{"uri":"{FILE}"}},"contentChanges":[{{"text":"b"}}]}}"#),
    );
    assert_eq!(version(&mut rig), 2);
    assert_eq!(text(&mut rig), "b");
    rig.end();
}

#[test]
fn given_two_texts_then_each_request_is_asked_on_its_own_clients_text() {
    let mut rig = Rig::new();
    let (first, second) = (rig.attach("{}"), rig.attach("{}"));
    rig.open(first, FILE, "1", "one\n");
    rig.open(second, FILE, "1", "two\n");
    assert_eq!(text(&mut rig), "two\n");
    rig.hover(first, "1");
    assert_eq!(text(&mut rig), "one\n");
    rig.hover(second, "1");
    assert_eq!(text(&mut rig), "two\n");
    rig.server_got();
    rig.hover(second, "2");
    assert_eq!(
        rig.server_methods(),
        ["textDocument/hover"],
        "no switch where none is needed"
    );
    // The edit of the first is made on its own text, whatever the server has.
    rig.change(first, FILE, "2", "one!\n");
    rig.hover(first, "2");
    assert_eq!(text(&mut rig), "one!\n");
    for _ in 0..5 {
        let method = "textDocument/hover";
        if rig.servers[&rig.server()].open.is_empty() {
            break;
        }
        rig.serve(method, "null");
    }
    rig.end();
}

#[test]
fn given_a_switch_then_the_request_behind_it_waits_for_its_message() {
    let mut rig = Rig::new();
    let (first, second) = (rig.attach("{}"), rig.attach("{}"));
    rig.open(first, FILE, "1", "one");
    rig.hold.compose = true;
    rig.open(second, FILE, "1", "two");
    rig.server_got();
    rig.hover(second, "1");
    assert!(rig.server_got().is_empty());
    rig.finish_jobs();
    assert_eq!(
        rig.server_methods(),
        ["textDocument/didChange", "textDocument/hover"]
    );
    rig.serve("textDocument/hover", "null");
    rig.end();
}

#[test]
fn given_a_save_then_the_server_has_the_savers_text_and_hears_of_it_once() {
    let mut rig = Rig::new();
    let (first, second) = (rig.attach("{}"), rig.attach("{}"));
    rig.open(first, FILE, "1", "one");
    rig.open(second, FILE, "1", "two");
    rig.server_got();
    let params = format!(r#"{{"textDocument":{{"uri":"{FILE}"}}}}"#);
    rig.notify(first, "textDocument/didSave", &params);
    assert_eq!(
        rig.server_methods(),
        ["textDocument/didChange", "textDocument/didSave"]
    );
    assert_eq!(text(&mut rig), "one");
    rig.end();
}

#[test]
fn given_a_holder_that_leaves_then_the_server_gets_the_text_of_one_that_stays() {
    let mut rig = Rig::new();
    let (first, second) = (rig.attach("{}"), rig.attach("{}"));
    rig.open(first, FILE, "1", "one");
    rig.open(second, FILE, "1", "two");
    rig.kill(second);
    assert_eq!(text(&mut rig), "one");
    rig.end();
}

#[test]
fn given_a_server_of_full_texts_then_a_switch_sends_the_whole_text() {
    let mut rig = Rig::new();
    rig.result = r#"{"capabilities":{"textDocumentSync":1}}"#.to_owned();
    let (first, second) = (rig.attach("{}"), rig.attach("{}"));
    rig.open(first, FILE, "1", "aaaa");
    rig.server_got();
    rig.open(second, FILE, "1", "aaba");
    let change: Value = serde_json::from_str(&rig.server_got()[0]).unwrap();
    assert_eq!(change["params"]["contentChanges"], json!([{"text":"aaba"}]));
    rig.end();
}

#[test]
fn given_a_change_of_a_document_that_is_not_open_then_the_client_is_told_and_the_server_not() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.server_got();
    rig.change(client, FILE, "1", "x");
    assert!(rig.server_got().is_empty());
    assert_eq!(rig.got_values(client)[0]["method"], "window/logMessage");
    rig.end();
}

#[test]
fn given_diagnostics_of_a_version_then_each_holder_gets_them_in_its_own_version() {
    let mut rig = Rig::new();
    let (first, second, other) = (rig.attach("{}"), rig.attach("{}"), rig.attach("{}"));
    rig.open(first, FILE, "3", "x");
    rig.open(second, FILE, "40", "x");
    rig.tell(
        "textDocument/publishDiagnostics",
        &diagnostics(FILE, Some(3)),
    );
    assert_eq!(rig.got_values(first)[0]["params"]["version"], 3);
    assert_eq!(rig.got_values(second)[0]["params"]["version"], 40);
    assert!(rig.got(other).is_empty());
    // The second has another text now: what is about the first's is not for it.
    rig.change(second, FILE, "41", "y");
    rig.hover(first, "1");
    let told = version(&mut rig);
    rig.tell(
        "textDocument/publishDiagnostics",
        &diagnostics(FILE, Some(told)),
    );
    assert_eq!(rig.got_values(first)[0]["params"]["version"], 3);
    let second_got = rig.got_values(second);
    assert!(
        second_got
            .iter()
            .all(|value| value["params"]["version"] == 40),
        "its earlier text at most: {second_got:?}"
    );
    rig.serve("textDocument/hover", "null");
    rig.end();
}

#[test]
fn given_diagnostics_without_a_version_then_those_with_the_servers_text_get_them_as_they_are() {
    let mut rig = Rig::new();
    let (first, second) = (rig.attach("{}"), rig.attach("{}"));
    rig.open(first, FILE, "1", "x");
    rig.open(second, FILE, "1", "y");
    rig.tell("textDocument/publishDiagnostics", &diagnostics(FILE, None));
    assert!(rig.got(first).is_empty(), "its text is another");
    let got = rig.got(second);
    assert!(
        got[0].ends_with(&format!("{}}}", diagnostics(FILE, None))),
        "{got:?}"
    );
    rig.end();
}

#[test]
fn given_diagnostics_of_a_version_that_never_was_then_nobody_gets_them() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.open(client, FILE, "1", "x");
    rig.tell(
        "textDocument/publishDiagnostics",
        &diagnostics(FILE, Some(99)),
    );
    assert!(rig.got(client).is_empty());
    rig.end();
}

#[test]
fn given_a_late_joiner_then_it_gets_the_diagnostics_that_the_others_have() {
    let mut rig = Rig::new();
    let first = rig.attach("{}");
    rig.open(first, FILE, "1", "x");
    rig.tell(
        "textDocument/publishDiagnostics",
        &diagnostics(FILE, Some(1)),
    );
    rig.tell(
        "textDocument/publishDiagnostics",
        &diagnostics("file:///else.c", None),
    );
    let late = rig.attach("{}");
    rig.open(late, FILE, "12", "x");
    let got = rig.got_values(late);
    assert_eq!(
        got.len(),
        1,
        "the file that nobody has open came with `initialized`"
    );
    assert_eq!(got[0]["params"]["version"], 12);
    rig.end();
}

#[test]
fn given_a_file_that_one_client_opens_after_all_were_told_of_it_then_all_hear_that_it_was_mended() {
    let mut rig = Rig::new();
    let (first, second) = (rig.attach("{}"), rig.attach("{}"));
    rig.tell("textDocument/publishDiagnostics", &diagnostics(FILE, None));
    rig.open(first, FILE, "1", "x");
    rig.got(first);
    rig.got(second);
    let mended = format!(r#"{{"uri":"{FILE}","diagnostics":[]}}"#);
    rig.tell("textDocument/publishDiagnostics", &mended);
    for client in [first, second] {
        let got = rig.got_values(client);
        assert_eq!(got.len(), 1, "{client} hears it once");
        assert_eq!(got[0]["params"]["diagnostics"], serde_json::json!([]));
    }
    let late = rig.attach("{}");
    let told = rig.got_values(late);
    assert!(
        told.iter().all(|it| it["params"]["uri"] != FILE),
        "a late joiner is told of no mended file"
    );
    rig.end();
}

#[test]
fn given_diagnostics_of_a_file_that_nobody_has_open_then_everybody_gets_them_also_a_late_joiner() {
    let mut rig = Rig::new();
    let first = rig.attach("{}");
    rig.tell(
        "textDocument/publishDiagnostics",
        &diagnostics("file:///else.c", None),
    );
    assert_eq!(rig.got(first).len(), 1);
    let late = rig.client("clangd");
    rig.initialize(late, "{}");
    rig.got(late);
    rig.initialized(late);
    assert_eq!(rig.got_values(late)[0]["params"]["uri"], "file:///else.c");
    rig.tell(
        "textDocument/publishDiagnostics",
        r#"{"uri":"file:///else.c","diagnostics":[]}"#,
    );
    assert_eq!(rig.got(first).len(), 1);
    let later = rig.client("clangd");
    rig.initialize(later, "{}");
    rig.got(later);
    rig.initialized(later);
    assert!(rig.got(later).is_empty(), "there are none any more");
    rig.end();
}

#[test]
fn given_a_job_for_a_dead_process_then_it_is_taken_back() {
    let mut rig = Rig::new();
    let (first, second) = (rig.attach("{}"), rig.attach("{}"));
    rig.open(first, FILE, "1", "one");
    rig.hold.compose = true;
    rig.open(second, FILE, "1", "two");
    assert_eq!(rig.jobs.len(), 1);
    rig.exits("signal 9");
    assert!(rig.jobs.is_empty());
    rig.advance(500);
    assert!(matches!(rig.jobs.values().next(), Some(Job::Open { .. })));
    rig.finish_jobs();
    assert_eq!(text(&mut rig), "two");
    rig.end();
}

#[test]
fn given_a_request_that_a_strangers_edit_made_fail_then_it_is_asked_again_once_on_its_own_text() {
    let mut rig = Rig::new();
    let (asker, typist) = (rig.attach("{}"), rig.attach("{}"));
    for client in [asker, typist] {
        rig.open(client, FILE, "1", "x");
    }
    rig.hover(asker, "1");
    rig.change(typist, FILE, "2", "y");
    rig.got(asker);
    rig.server_got();
    rig.refuse("textDocument/hover", -32801);
    assert!(rig.got(asker).is_empty(), "the asker did nothing wrong");
    assert_eq!(
        rig.server_methods(),
        ["textDocument/didChange", "textDocument/hover"],
        "the server is shown the asker's text first"
    );
    rig.change(typist, FILE, "3", "z");
    rig.refuse("textDocument/hover", -32801);
    let got = rig.got_values(asker);
    assert_eq!(
        got[0]["error"]["code"], -32801,
        "the second time it is told"
    );
    assert_eq!(rig.core.status().asked_again, 1);
    rig.end();
}

#[test]
fn given_an_answer_that_may_be_about_a_strangers_text_then_it_is_asked_again() {
    let mut rig = Rig::new();
    let (asker, typist) = (rig.attach("{}"), rig.attach("{}"));
    for client in [asker, typist] {
        rig.open(client, FILE, "1", "x");
    }
    rig.hover(asker, "1");
    rig.change(typist, FILE, "2", "y");
    rig.serve("textDocument/hover", r#"{"contents":"about y"}"#);
    assert!(rig.got(asker).is_empty());
    rig.serve("textDocument/hover", r#"{"contents":"about x"}"#);
    assert_eq!(rig.got_values(asker)[0]["result"]["contents"], "about x");
    rig.end();
}

#[test]
fn given_a_request_that_its_own_clients_edit_made_fail_then_the_client_is_told() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.open(client, FILE, "1", "x");
    rig.hover(client, "1");
    rig.change(client, FILE, "2", "y");
    rig.refuse("textDocument/hover", -32801);
    assert_eq!(rig.got_values(client)[0]["error"]["code"], -32801);
    rig.end();
}
