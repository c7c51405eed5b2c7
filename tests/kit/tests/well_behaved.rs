//! The client and the scripted server with nothing between them: the empty scenario is a well-behaved
//! server.

use expect_test::expect;
use lspool_testkit::{Exit, Harness, Profile, ScenarioBuilder, file_uri};
use serde_json::{Value, json};

#[test]
fn the_empty_scenario_answers_from_the_open_text() {
    let harness = Harness::new().unwrap();
    let server = harness
        .scripted_server("server", &ScenarioBuilder::new())
        .unwrap();
    let client = harness.client_of(&server).unwrap();
    let initialized = client.initialize_with(json!({"capabilities": {}})).unwrap();
    assert_eq!(
        initialized.result::<Value>().unwrap()["capabilities"]["definitionProvider"],
        true
    );

    client
        .did_open("file:///a", "toy", 1, "one two\none error\n")
        .unwrap();
    client
        .did_edit("file:///a", 2, (1, 4), (1, 9), "two")
        .unwrap();
    let definition: Value = client
        .ask_at("textDocument/definition", "file:///a", 1, 5)
        .unwrap()
        .result()
        .unwrap();
    assert_eq!(
        definition,
        json!([{"uri": "file:///a", "range": {"start": {"line": 0, "character": 4}, "end": {"line": 0, "character": 7}}}])
    );
    let references: Value = client
        .ask_at("textDocument/references", "file:///a", 0, 0)
        .unwrap()
        .result()
        .unwrap();
    assert_eq!(references.as_array().unwrap().len(), 2);
    let hover: Value = client
        .ask_at("textDocument/hover", "file:///a", 0, 0)
        .unwrap()
        .result()
        .unwrap();
    assert_eq!(hover["contents"]["value"], "`one`: 2 places");
    let unknown = client
        .request("x/unknown", json!({}))
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(unknown.error_code(), Some(-32601));

    assert_eq!(client.shut_down().unwrap(), Exit::Code(0));
    assert!(client.unbalanced().is_empty());
    server.journal().assert_no_violations();
    let received: Vec<String> = server
        .journal()
        .text()
        .lines()
        .filter(|line| !line.contains("->"))
        .map(str::to_owned)
        .collect();
    expect![[r#"
        1 started
        1 <- request 0 initialize {"capabilities":{}}
        1 <- notification initialized {}
        1 <- notification textDocument/didOpen {"textDocument":{"languageId":"toy","text":"one two\none error\n","uri":"file:///a","version":1}}
        1 <- notification textDocument/didChange {"contentChanges":[{"range":{"end":{"character":9,"line":1},"start":{"character":4,"line":1}},"text":"two"}],"textDocument":{"uri":"file:///a","version":2}}
        1 <- request 1 textDocument/definition {"position":{"character":5,"line":1},"textDocument":{"uri":"file:///a"}}
        1 <- request 2 textDocument/references {"context":{"includeDeclaration":true},"position":{"character":0,"line":0},"textDocument":{"uri":"file:///a"}}
        1 <- request 3 textDocument/hover {"position":{"character":0,"line":0},"textDocument":{"uri":"file:///a"}}
        1 <- request 4 x/unknown {}
        1 <- request 5 shutdown
        1 <- notification exit
        1 ended: ExitNotification(0)"#]].assert_eq(&received.join("\n"));
    harness.finish();
}

#[test]
fn every_profile_starts_a_server() {
    for (name, profile) in Profile::all() {
        let harness = Harness::new().unwrap();
        let server = harness
            .scripted_server("server", &ScenarioBuilder::new())
            .unwrap();
        let client = harness.client_of(&server).unwrap();
        client.initialize(&profile, &harness.work_folder()).unwrap();
        assert_eq!(client.shut_down().unwrap(), Exit::Code(0), "{name}");
        let initialize = &server.journal().received()[0];
        assert!(initialize.bytes > 0, "{name}");
        server.journal().assert_no_violations();
        harness.finish();
    }
}

#[test]
fn two_servers_share_a_journal_and_are_counted() {
    let harness = Harness::new().unwrap();
    let server = harness
        .scripted_server("server", &ScenarioBuilder::new())
        .unwrap();
    let first = harness.client_of(&server).unwrap();
    first
        .initialize(&Profile::bare(), &harness.work_folder())
        .unwrap();
    let second = harness.client_of(&server).unwrap();
    second
        .initialize(&Profile::bare(), &harness.work_folder())
        .unwrap();
    assert_eq!(server.journal().servers_started(), 2);
    assert_eq!(
        server.journal().pids(),
        [first.pid().cast_signed(), second.pid().cast_signed()]
    );
    first.shut_down().unwrap();
    assert_eq!(second.kill().unwrap(), Exit::Signal(9));
    harness.finish();
}

#[test]
fn documents_are_counted_in_the_announced_encoding() {
    for (encoding, character) in [("utf-8", 4), ("utf-16", 2), ("utf-32", 1)] {
        let harness = Harness::new().unwrap();
        let scenario = ScenarioBuilder::new().capabilities(json!({"positionEncoding": encoding}));
        let server = harness.scripted_server("server", &scenario).unwrap();
        let client = harness.client_of(&server).unwrap();
        let root = harness.work_folder();
        client.initialize(&Profile::full(), &root).unwrap();
        let uri = file_uri(&root.join("crab.toy"));
        client.did_open(&uri, "toy", 1, "\u{1f980}b").unwrap();
        client
            .did_edit(&uri, 2, (0, character), (0, character + 1), "word")
            .unwrap();
        let symbols: Value = client
            .request(
                "textDocument/documentSymbol",
                json!({"textDocument": {"uri": uri}}),
            )
            .unwrap()
            .result()
            .unwrap();
        assert_eq!(symbols[0]["name"], "word", "{encoding}");
        assert_eq!(
            symbols[0]["range"]["start"]["character"], character,
            "{encoding}"
        );
        client.shut_down().unwrap();
        server.journal().assert_no_violations();
        harness.finish();
    }
}
