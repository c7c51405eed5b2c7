//! Jobs that come to no outcome: whoever waits for one is told, and nothing waits behind it.

use lspool_normalize::Operation;

use crate::rig::{FILE, Rig};

const DEFINITION: &str = "textDocument/definition";
const LINK: &str = r#"[{"targetUri":"file:///b.c","targetRange":{"start":{"line":0,"character":0},"end":{"line":0,"character":1}},"targetSelectionRange":{"start":{"line":0,"character":0},"end":{"line":0,"character":1}}}]"#;

#[test]
fn given_a_program_that_cannot_be_looked_up_then_its_client_is_refused() {
    let mut rig = Rig::new();
    rig.hold.launch = true;
    let client = rig.client("clangd");
    rig.initialize(client, "{}");
    rig.fail_job();
    let got = rig.got_values(client);
    assert_eq!(got[0]["error"]["data"]["code"], "LSP_UNAVAILABLE");
    assert_eq!(rig.clients[&client].closed, Some(1));
    assert!(rig.clients[&client].notices[0].contains("no answer within 30 s"));
    rig.end();
}

#[test]
fn given_files_that_cannot_be_read_then_the_query_is_told_that_it_may_try_again() {
    for held in ["prepare", "reread"] {
        let mut rig = Rig::new();
        rig.hold.prepare = held == "prepare";
        rig.hold.reread = held == "reread";
        let client = rig.harness();
        let ticket = rig.query(client, Operation::Hover);
        rig.fail_job();
        let error = rig.query_error(ticket);
        assert_eq!(error["data"]["code"], "WORLD_UNAVAILABLE", "{held}");
        assert_eq!(error["data"]["retryable"], true, "{held}");
        rig.end();
    }
}

#[test]
fn given_an_answer_that_cannot_be_shaped_then_its_client_is_not_left_waiting_behind_it() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.hold.lower = true;
    let params =
        format!(r#"{{"textDocument":{{"uri":"{FILE}"}},"position":{{"line":0,"character":0}}}}"#);
    rig.request(client, "1", DEFINITION, &params);
    rig.serve(DEFINITION, LINK);
    rig.fail_job();
    assert!(rig.clients[&client].closed.is_some());
    rig.end();
}

#[test]
fn given_a_message_that_cannot_be_composed_then_the_server_begins_anew_with_its_documents() {
    let mut rig = Rig::new();
    let (first, second) = (rig.attach("{}"), rig.attach("{}"));
    rig.open(first, FILE, "1", "one");
    rig.hold.compose = true;
    rig.open(second, FILE, "1", "two");
    rig.server_got();
    rig.fail_job();
    rig.hold.compose = false;
    rig.advance(500);
    rig.finish_jobs();
    assert_eq!(rig.spawns, 2);
    assert_eq!(
        rig.server_methods(),
        ["initialize", "initialized", "textDocument/didOpen"]
    );
    rig.end();
}
