//! Bad input from either side: an error that names the thing, for the one whom it concerns, while others are served.

use std::os::unix::fs::PermissionsExt as _;

use lspool_testkit::scenario_format::{
    Action, Body, Bytes, Event, Notification, Registration, Request, Stderr,
};
use lspool_testkit::{Client, Exit, Profile, RuleBuilder, ScenarioBuilder, ScriptedServer, raw};
use serde_json::{Value, json};

use super::ground::{Ground, code_of, error_of, well_behaved};

const TEXT: &str = "word\n";

/// Another client of the same daemon.
struct Bystander {
    editor: Client,
    server: ScriptedServer,
    file: String,
}

impl Bystander {
    /// One that is in its session.
    fn of(ground: &Ground) -> Self {
        let server = ground.named_server("bystander", &ScenarioBuilder::new());
        let editor = ground.editor(&server);
        let file = ground.file("bystander.toy", TEXT);
        editor.did_open(&file, "toy", 1, TEXT).unwrap();
        Self {
            editor,
            server,
            file,
        }
    }

    /// It is served, by the server and the daemon that it always had.
    fn assert_served(&self) {
        assert_served(&self.editor, &self.file);
        assert_eq!(self.server.journal().servers_started(), 1);
    }
}

fn assert_served(editor: &Client, file: &str) {
    let places: Vec<Value> = editor
        .ask_at("textDocument/definition", file, 0, 0)
        .unwrap()
        .result()
        .unwrap();
    assert_eq!(places.len(), 1);
}

/// Asserts that a text holds all of these.
fn assert_names(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

/// Starts an editor whose `initialize` is refused; gives the error and how the shim ended.
fn refused(ground: &Ground, command: &[&str]) -> (Value, Exit, String) {
    let line = ["--"].into_iter().chain(command.iter().copied());
    refused_by(ground, &Client::start(&ground.lspool(line)).unwrap())
}

fn refused_by(ground: &Ground, editor: &Client) -> (Value, Exit, String) {
    let params = lspool_testkit::initialize_params(&Profile::neovim(), &ground.root);
    let answer = editor
        .request("initialize", params)
        .unwrap()
        .wait()
        .unwrap();
    let exit = editor.wait_exit().unwrap();
    (error_of(&answer), exit, editor.whole_stderr().unwrap())
}

#[test]
fn what_is_no_message_is_skipped_and_told_and_the_session_goes_on() {
    let ground = Ground::new();
    let bystander = Bystander::of(&ground);
    let server = ground.server(&ScenarioBuilder::new());
    let file = ground.file("a.toy", TEXT);
    let editor = ground.editor(&server);
    editor.did_open(&file, "toy", 1, TEXT).unwrap();

    for junk in [
        "Content-Length: many\r\n\r\n",
        "this is no header at all\n\n",
        "Content-Type: x\r\n\r\n",
    ] {
        // when bytes come that are no message
        editor.send_bytes(junk.as_bytes()).unwrap();

        // then the next message is served all the same
        assert_served(&editor, &file);
    }

    // and the person is told what was skipped
    bystander.assert_served();
    server.journal().assert_no_violations();
    assert_eq!(editor.shut_down().unwrap(), Exit::Code(0));
    assert_names(
        &editor.whole_stderr().unwrap(),
        &["lspool", "Content-Length: many", "this is no header at all"],
    );
    drop(bystander);
    ground.finish();
}

#[test]
fn a_body_that_is_not_json_is_answered_and_the_session_goes_on() {
    let ground = Ground::new();
    let bystander = Bystander::of(&ground);
    let server = ground.server(&ScenarioBuilder::new());
    let file = ground.file("a.toy", TEXT);
    let editor = ground.editor(&server);
    editor.did_open(&file, "toy", 1, TEXT).unwrap();

    // when a body is not JSON
    let mark = editor.mark();
    editor.send_body(b"{\"jsonrpc\":\"2.0\",,}").unwrap();

    // then it is answered as JSON-RPC says
    let answer = editor
        .wait_for_after(mark, "the error", |message| {
            message.id.as_deref() == Some("null")
        })
        .unwrap();
    let error: Value = serde_json::from_slice(&answer.member("error").unwrap()).unwrap();
    assert_eq!(error["code"], -32700, "{error}");
    assert_names(error["message"].as_str().unwrap(), &["JSON"]);

    // and the session goes on
    assert_served(&editor, &file);
    bystander.assert_served();
    server.journal().assert_no_violations();
    drop((editor, bystander));
    ground.finish();
}

#[test]
fn a_body_over_the_limit_is_refused_by_its_id_in_both_directions() {
    // given a limit, and a server that answers one question with more than that
    let ground = Ground::with("[limits]\nbody_bytes = 100000\n");
    let bystander = Bystander::of(&ground);
    let server = ground.server(
        &ScenarioBuilder::new()
            .on("test/echo", [Action::Reply(Body::Params)])
            .on("test/much", [Action::Reply(Body::Fill(200_000))]),
    );
    let file = ground.file("a.toy", TEXT);
    let editor = ground.editor(&server);
    editor.did_open(&file, "toy", 1, TEXT).unwrap();

    // when too large a request goes out
    let large = json!("x".repeat(200_000)).to_string();
    let refused = editor
        .request_raw("\"large\"", "test/echo", Some(&large))
        .unwrap()
        .wait()
        .unwrap();

    // then it is refused by its own id, and never reaches the server
    assert_eq!(refused.error_code(), Some(-32803));
    assert_eq!(code_of(&refused), "LIMIT_EXCEEDED");
    assert_names(&refused.error_message().unwrap(), &["100000 bytes"]);

    // and when too large an answer comes, the one who asked is told
    let refused = editor
        .request("test/much", json!({}))
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(refused.error_code(), Some(-32803));
    assert_eq!(code_of(&refused), "LIMIT_EXCEEDED");
    assert_names(&refused.error_message().unwrap(), &["100000 bytes"]);

    // and both links go on
    assert_served(&editor, &file);
    assert!(!server.journal().methods().contains(&"test/echo".to_owned()));
    assert!(editor.unbalanced().is_empty());
    bystander.assert_served();
    server.journal().assert_no_violations();
    drop((editor, bystander));
    ground.finish();
}

#[test]
fn a_server_that_cannot_be_started_is_named_with_the_shells_exit_code() {
    let ground = Ground::new();
    let bystander = Bystander::of(&ground);
    let file = ground.flag("not-executable");
    std::fs::write(&file, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let not_executable = file.to_str().unwrap();

    for (command, code) in [
        ("no-such-server", 127),
        ("/no/such/server", 127),
        (not_executable, 126),
    ] {
        // when an editor names such a server
        let (error, exit, stderr) = refused(&ground, &[command, "--flag"]);

        // then its initialize is refused in one sentence that names it, on stderr too
        assert_eq!(error["data"]["code"], "LSP_UNAVAILABLE", "{error}");
        assert_names(error["message"].as_str().unwrap(), &[command]);
        assert_eq!(exit, Exit::Code(code));
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert_names(&stderr, &[command]);
    }
    bystander.assert_served();
    drop(bystander);
    ground.finish();
}

#[test]
fn a_server_that_ends_at_once_is_quoted() {
    let ground = Ground::new();
    let bystander = Bystander::of(&ground);
    let server = ground.server(
        &ScenarioBuilder::new().rule(RuleBuilder::event(Event::Start).act([
            Action::Stderr(Stderr {
                text: "toy: no compilation database\n".to_owned(),
                times: 1,
            }),
            Action::Exit(3),
        ])),
    );

    // when an editor starts it
    let (error, exit, stderr) = refused_by(&ground, &ground.started(&server));

    // then the error names the server, its end and what it said
    assert_eq!(error["data"]["code"], "LSP_START_FAILED", "{error}");
    let parts = ["lspool-scripted-server", "3", "no compilation database"];
    assert_names(error["message"].as_str().unwrap(), &parts);
    assert_eq!(exit, Exit::Code(1));
    assert_names(&stderr, &parts);
    bystander.assert_served();
    drop(bystander);
    ground.finish();
}

#[test]
fn a_server_that_never_answers_initialize_is_named_after_its_time() {
    let mut ground = Ground::new();
    let server = ground.server(&ScenarioBuilder::new().hang("initialize"));
    // Under a name of its own, since a definition counts for every server of its program.
    let program = ground.flag("slow-server");
    let mut command = server.argv();
    std::os::unix::fs::symlink(&command[0], &program).unwrap();
    command[0] = program.into();
    ground.define_command(&command, "startup_ms = 1_000\n");
    let file = ground.file("a.toy", TEXT);
    let bystander = Bystander::of(&ground);

    // when an editor starts it
    let editor = Client::start(&ground.lspool(["--"]).args(&command)).unwrap();
    let params = lspool_testkit::initialize_params(&Profile::neovim(), &ground.root);
    let waiting = editor.request("initialize", params).unwrap();
    server.journal().wait_for_received("initialize", 1).unwrap();

    // then others are served meanwhile
    bystander.assert_served();

    // and the error names the server and the time, and the shim ends
    let error = error_of(&waiting.wait().unwrap());
    assert_eq!(error["data"]["code"], "LSP_TIMEOUT", "{error}");
    let message = error["message"].as_str().unwrap();
    assert_names(message, &["toy", "initialize", "1000 ms"]);
    assert_eq!(editor.wait_exit().unwrap(), Exit::Code(1));

    // and an agent that asks it is told the same
    let agent = ground.agent();
    let asked = agent
        .request(
            "lspool/query",
            json!({"operation": "hover", "file": file, "position": {"line": 0, "character": 0}}),
        )
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(
        code_of(&asked),
        "LSP_TIMEOUT",
        "{:?}",
        asked.error_message()
    );
    assert_names(&asked.error_message().unwrap(), &["toy"]);
    bystander.assert_served();
    drop((agent, bystander));
    ground.finish();
}

#[test]
fn a_server_that_asks_before_it_answers_initialize_is_answered() {
    // given a server that will not answer before it is answered
    let ask = |id: &str, method: &str, params: &str| {
        [
            Action::Request(Request {
                id: id.to_owned(),
                method: method.to_owned(),
                params: Some(raw(params)),
            }),
            Action::WaitAnswer(id.to_owned()),
        ]
    };
    let mut actions = Vec::new();
    actions.extend(ask(
        "${id}",
        "workspace/configuration",
        r#"{"items":[{"section":"toy"},{}]}"#,
    ));
    actions.extend(ask(
        "\"token\"",
        "window/workDoneProgress/create",
        r#"{"token":"boot"}"#,
    ));
    actions.extend(ask("-1", "workspace/workspaceFolders", "null"));
    actions.push(Action::Register(Registration {
        id: "early".to_owned(),
        method: "workspace/didChangeWatchedFiles".to_owned(),
        options: Some(raw(r#"{"watchers":[]}"#)),
    }));
    actions.push(Action::WaitAnswer("\"register:early\"".to_owned()));
    actions.push(Action::Notify(Notification {
        method: "window/logMessage".to_owned(),
        params: Some(raw(r#"{"type":3,"message":"booting"}"#)),
    }));
    actions.push(Action::Continue);
    let ground = Ground::new();
    let bystander = Bystander::of(&ground);
    let server = ground.server(&well_behaved().on("initialize", actions));

    // when an editor starts it, then there is no error at all
    let editor = ground.editor(&server);
    let file = ground.file("a.toy", TEXT);
    editor.did_open(&file, "toy", 1, TEXT).unwrap();
    assert_served(&editor, &file);
    server.journal().assert_no_violations();
    bystander.assert_served();
    assert_eq!(editor.shut_down().unwrap(), Exit::Code(0));
    assert_eq!(editor.whole_stderr().unwrap(), "");
    drop(bystander);
    ground.finish();
}

#[test]
fn a_server_that_prints_before_its_first_message_is_served() {
    // given a server with a banner on stdout
    let ground = Ground::new();
    let bystander = Bystander::of(&ground);
    let banner = "Welcome to toy 1.0!\nContent is king: enjoy\n\n";
    let server = ground.server(&ScenarioBuilder::new().rule(
        RuleBuilder::event(Event::Start).act([Action::Write(Bytes::Text(banner.to_owned()))]),
    ));

    // when an editor starts it, then there is no error at all
    let editor = ground.editor(&server);
    let file = ground.file("a.toy", TEXT);
    editor.did_open(&file, "toy", 1, TEXT).unwrap();
    assert_served(&editor, &file);
    server.journal().assert_no_violations();
    bystander.assert_served();
    assert_eq!(editor.shut_down().unwrap(), Exit::Code(0));
    assert_eq!(editor.whole_stderr().unwrap(), "");
    drop(bystander);
    ground.finish();
}

#[test]
fn a_question_about_a_place_that_is_not_there_is_refused_by_name() {
    // given an agent, and files inside and outside of the project
    let mut ground = Ground::new();
    let server = ground.server(&ScenarioBuilder::new());
    ground.define(&server, "[server.readiness]\nsettle_ms = 20\n");
    let bystander = Bystander::of(&ground);
    let file = ground.file("a.toy", TEXT);
    let outside = ground.flag("outside.toy");
    std::fs::write(&outside, TEXT).unwrap();
    let link = ground.root.join("link.toy");
    std::os::unix::fs::symlink(&outside, &link).unwrap();
    let agent = ground.agent();
    let ask = |file: &str, line: u32, character: u32| {
        let question = json!({
            "operation": "goToDefinition", "file": file, "workspaceRoot": ground.root,
            "position": {"line": line, "character": character},
        });
        agent
            .request("lspool/query", question)
            .unwrap()
            .wait()
            .unwrap()
    };

    // when it asks about a file outside of the root that it gives, also through a link
    for path in [&outside, &link] {
        let answer = ask(path.to_str().unwrap(), 0, 0);
        assert_eq!(code_of(&answer), "LSP_OUTSIDE_WORKSPACE");
        let message = answer.error_message().unwrap();
        assert_names(
            &message,
            &[
                path.file_name().unwrap().to_str().unwrap(),
                ground.root.to_str().unwrap(),
            ],
        );
    }

    // or about a position past the end
    for (line, character) in [(9, 0), (0, 99)] {
        let answer = ask(&file, line, character);
        assert_eq!(code_of(&answer), "LSP_POSITION_OUT_OF_RANGE");
        assert_names(
            &answer.error_message().unwrap(),
            &[if line == 9 { "line 9" } else { "99" }, "past the end"],
        );
    }

    // then no server was started for it, and a good question is answered
    assert_eq!(server.journal().servers_started(), 0);
    assert!(ask(&file, 0, 0).result::<Value>().is_ok());
    bystander.assert_served();
    drop((agent, bystander));
    ground.finish();
}
