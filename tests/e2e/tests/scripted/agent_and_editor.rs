//! An agent and editors on one project: who came first does not matter, and nobody gets a shape that it did not announce.

use lspool_testkit::scenario_format::{Action, Body, Progress, ProgressStep, Registration};
use lspool_testkit::{Client, Profile, ScenarioBuilder, raw};
use serde_json::{Map, Value, json};

use super::ground::{Ground, capabilities_told, eventually, well_behaved};

const TEXT: &str = "one two\ntwo one\n";

/// A server that is known to queries, which wait for it only briefly.
const QUICK: &str = "[server.readiness]\nsettle_ms = 50\n";

/// An editor that announces these capabilities.
fn announcing(capabilities: Value) -> Profile {
    Profile {
        client_info: None,
        capabilities,
        others: Map::new(),
        roots: vec!["rootUri".to_owned(), "workspaceFolders".to_owned()],
    }
}

/// What a server is told when a query starts it; raising it once more changes nothing.
fn what_an_agent_announces() -> Value {
    let mut ground = Ground::new();
    let server = ground.server(&well_behaved());
    ground.define(&server, QUICK);
    let file = ground.file("a.toy", TEXT);
    let agent = ground.agent();
    query(&agent, &file);
    let capabilities = capabilities_told(&server.journal());
    agent.shut_down().unwrap();
    ground.finish();
    capabilities
}

/// What a server is told when an editor starts it that announces nothing.
fn what_a_bare_editor_announces() -> Value {
    let ground = Ground::new();
    let server = ground.server(&well_behaved());
    let editor = ground.editor_as(&server, &Profile::bare());
    let capabilities = capabilities_told(&server.journal());
    editor.shut_down().unwrap();
    ground.finish();
    capabilities
}

/// An agent's question: where is the `one` at the end of the second line defined?
fn query(agent: &Client, file: &str) -> Value {
    let mut result: Value = agent
        .call(
            "lspool/query",
            json!({
                "operation": "goToDefinition", "file": file, "position": {"line": 1, "character": 4},
            }),
        )
        .unwrap();
    // How long it waited is all that may differ from one time to the next.
    result["envelope"]["waitedMs"].take();
    result
}

/// The same question as an editor asks it.
fn definition(editor: &Client, file: &str) -> Value {
    editor
        .ask_at("textDocument/definition", file, 1, 4)
        .unwrap()
        .result()
        .unwrap()
}

/// The ranges of an agent's answer and of an editor's.
fn assert_same_places(of_query: &Value, of_editor: &Value) {
    let place = |location: &Value| (location["uri"].clone(), location["range"].clone());
    let asked: Vec<_> = of_query["locations"]
        .as_array()
        .unwrap()
        .iter()
        .map(place)
        .collect();
    let answered: Vec<_> = of_editor.as_array().unwrap().iter().map(place).collect();
    assert_eq!(asked.len(), 1, "{of_query}");
    assert_eq!(asked, answered);
}

#[test]
fn an_agent_asks_first_and_an_editor_that_announces_the_same_joins_it() {
    let profile = announcing(what_an_agent_announces());

    // given an agent that had its answer
    let mut ground = Ground::new();
    let server = ground.server(&well_behaved());
    ground.define(&server, QUICK);
    let file = ground.file("a.toy", TEXT);
    let agent = ground.agent();
    let before = query(&agent, &file);

    // when an editor attaches to the same server and root
    let editor = ground.editor_as(&server, &profile);
    editor.did_open(&file, "toy", 1, TEXT).unwrap();

    // then both get the same answer
    assert_same_places(&before, &definition(&editor, &file));
    assert_eq!(query(&agent, &file)["locations"], before["locations"]);

    // from one process
    assert_eq!(server.journal().servers_started(), 1);
    assert_eq!(ground.instances().len(), 1);
    server.journal().assert_no_violations();
    drop((agent, editor));
    ground.finish();
}

#[test]
fn an_editor_attaches_first_and_an_agent_asks_the_same_server() {
    for profile in [
        announcing(what_an_agent_announces()),
        Profile::neovim(),
        Profile::bare(),
    ] {
        // given an editor with any capabilities
        let mut ground = Ground::new();
        let server = ground.server(&well_behaved());
        ground.define(&server, QUICK);
        let file = ground.file("a.toy", TEXT);
        let editor = ground.editor_as(&server, &profile);
        editor.did_open(&file, "toy", 1, TEXT).unwrap();
        let before = definition(&editor, &file);

        // when an agent asks
        let agent = ground.agent();
        let asked = query(&agent, &file);

        // then it gets the editor's answer, from the editor's server
        assert_same_places(&asked, &before);
        assert_eq!(definition(&editor, &file), before);
        assert_eq!(server.journal().servers_started(), 1);
        assert_eq!(ground.instances().len(), 1);
        server.journal().assert_no_violations();
        drop((agent, editor));
        ground.finish();
    }
}

#[test]
fn where_an_editor_announces_something_else_queries_move_to_its_server() {
    // given an agent that had its answer
    let mut ground = Ground::new();
    let server = ground.server(&well_behaved());
    ground.define(&server, QUICK);
    let file = ground.file("a.toy", TEXT);
    let agent = ground.agent();
    let before = query(&agent, &file);

    // when an editor attaches whose server would be told something else
    let editor = ground.editor(&server);
    editor.did_open(&file, "toy", 1, TEXT).unwrap();
    assert_same_places(&before, &definition(&editor, &file));

    // then in the end there is one, the editor's, and it answers the agent too
    let journal = server.journal();
    journal.wait_for_ending(1).unwrap();
    let left = eventually("one server is left", || {
        let mut instances = ground.instances();
        (instances.len() == 1).then(|| instances.remove(0))
    });
    assert_eq!(left["clients"].as_array().unwrap().len(), 1, "{left}");
    assert_eq!(query(&agent, &file)["locations"], before["locations"]);
    assert_eq!(journal.servers_started(), 2);
    journal.assert_no_violations();
    drop((agent, editor));
    ground.finish();
}

/// A server that answers in the richest shapes, and begins a progress and registers something when it is told to.
fn rich(target: &str) -> ScenarioBuilder {
    let link = json!([{
        "originSelectionRange": range(1, 4, 7),
        "targetUri": target,
        "targetRange": range(0, 0, 7),
        "targetSelectionRange": range(0, 0, 3),
    }]);
    let hover = json!({"contents": {"kind": "markdown", "value": "**one** of `two`"}});
    let symbols = json!([{
        "name": "outer", "kind": 5, "range": range(0, 0, 7), "selectionRange": range(0, 0, 3),
        "children": [{"name": "inner", "kind": 6, "range": range(0, 4, 7), "selectionRange": range(0, 4, 7)}],
    }]);
    let reply = |value: &Value| [Action::Reply(Body::Json(raw(&value.to_string())))];
    well_behaved()
        .on("textDocument/definition", reply(&link))
        .on("textDocument/hover", reply(&hover))
        .on("textDocument/documentSymbol", reply(&symbols))
        .on(
            "test/announce",
            [
                progress(ProgressStep::Create),
                progress(ProgressStep::Begin),
                Action::Register(Registration {
                    id: "watch".to_owned(),
                    method: "workspace/didChangeWatchedFiles".to_owned(),
                    options: Some(raw(r#"{"watchers":[{"globPattern":"**/*.toy"}]}"#)),
                }),
            ],
        )
}

fn progress(step: ProgressStep) -> Action {
    Action::Progress(Progress {
        token: "\"work\"".to_owned(),
        step,
        title: Some("working".to_owned()),
        message: None,
        percentage: None,
    })
}

fn range(line: u32, from: u32, to: u32) -> Value {
    json!({"start": {"line": line, "character": from}, "end": {"line": line, "character": to}})
}

fn has_seen(client: &Client, method: &str) -> bool {
    let received = client.received();
    received
        .iter()
        .any(|message| message.method.as_deref() == Some(method))
}

#[test]
fn a_client_that_announces_nothing_gets_only_shapes_that_every_client_knows() {
    let bare_as_told = what_a_bare_editor_announces();

    // given an agent, an editor that knows the rich shapes, and one that announces nothing, on one server
    let mut ground = Ground::new();
    let file = ground.file("a.toy", TEXT);
    let server = ground.server(&rich(&file));
    ground.define(&server, QUICK);
    let editor = ground.editor_as(&server, &announcing(bare_as_told));
    let agent = ground.agent();
    let asked = query(&agent, &file);
    let bare = ground.editor_as(&server, &Profile::bare());
    for client in [&editor, &bare] {
        client.did_open(&file, "toy", 1, TEXT).unwrap();
    }
    assert_eq!(server.journal().servers_started(), 1);

    // when all ask the same
    let ask = |client: &Client, method: &str| -> Value {
        client
            .ask_at(method, &file, 1, 4)
            .unwrap()
            .result()
            .unwrap()
    };
    let symbols = |client: &Client| -> Value {
        client
            .call(
                "textDocument/documentSymbol",
                json!({"textDocument": {"uri": file}}),
            )
            .unwrap()
    };

    // then the editor gets the server's own shapes
    assert_eq!(
        ask(&editor, "textDocument/definition")[0]["targetUri"],
        file
    );
    assert_eq!(
        ask(&editor, "textDocument/hover")["contents"]["kind"],
        "markdown"
    );
    assert_eq!(symbols(&editor)[0]["children"][0]["name"], "inner");

    // and the one that announced nothing the plain ones, with the same content
    let plain = ask(&bare, "textDocument/definition");
    assert_eq!(plain, json!([{"uri": file, "range": range(0, 0, 3)}]));
    assert_same_places(&asked, &plain);
    let contents = ask(&bare, "textDocument/hover")["contents"].clone();
    // A text without a kind is what a client that announces no format has always had to know.
    assert_eq!(contents, "**one** of `two`");
    let flat = symbols(&bare);
    assert_eq!(
        flat,
        json!([
            {"name": "outer", "kind": 5, "location": {"uri": file, "range": range(0, 0, 7)}},
            {"name": "inner", "kind": 6, "containerName": "outer", "location": {"uri": file, "range": range(0, 4, 7)}},
        ])
    );

    // and when the server begins a progress and registers something, only the editor hears of it
    editor.notify("test/announce", json!({})).unwrap();
    for method in [
        "window/workDoneProgress/create",
        "$/progress",
        "client/registerCapability",
    ] {
        editor.wait_for_method(method).unwrap();
    }
    // The answer comes after all that the server sent before it.
    symbols(&bare);
    let late = ground.editor_as(&server, &Profile::bare());
    late.did_open(&file, "toy", 1, TEXT).unwrap();
    symbols(&late);
    for method in [
        "window/workDoneProgress/create",
        "$/progress",
        "client/registerCapability",
    ] {
        assert!(
            !has_seen(&bare, method) && !has_seen(&late, method),
            "{method}"
        );
    }
    server.journal().assert_no_violations();
    assert_eq!(server.journal().servers_started(), 1);
    drop((agent, editor, bare, late));
    ground.finish();
}
