//! Starts and ends: of servers, shims, the daemon and sessions without one, and what each leaves behind.

use lspool_testkit::scenario_format::{Action, Body, ErrorBody, Progress, ProgressStep, Signal};
use lspool_testkit::{Client, Exit, Profile, ScenarioBuilder, hash, raw};
use serde_json::{Value, json};

use super::ground::{
    Ground, SHORT_IDLE, code_of, eventually, is_alive, kill, process_id, well_behaved, within_looks,
};

/// The promise for what a killed daemon leaves, two seconds, in looks of five milliseconds: a busy machine holds up the
/// looks of a test as it holds up lspool.
const SOON: u32 = 400;

/// What a face exits with when it lost its daemon.
const DAEMON_LOST: Exit = Exit::Code(70);

/// Asks something that every well-behaved server answers.
fn assert_served(client: &Client, file: &str) {
    let places: Vec<Value> = client
        .ask_at("textDocument/definition", file, 0, 0)
        .unwrap()
        .result()
        .unwrap();
    assert_eq!(places.len(), 1);
}

#[test]
fn when_the_daemon_is_killed_nothing_is_left_and_the_next_editor_gets_a_new_one() {
    // given two servers that run, one of which does not leave of its own will
    let ground = Ground::new();
    let stubborn = ScenarioBuilder::new().with(|scenario| {
        scenario.process.trap_term = true;
        scenario.process.stay_at_end_of_input = true;
    });
    let servers = [
        ground.named_server("first", &ScenarioBuilder::new()),
        ground.named_server("second", &stubborn),
    ];
    let editors = [ground.editor(&servers[0]), ground.editor(&servers[1])];
    let pids = [
        servers[0].journal().pids()[0],
        servers[1].journal().pids()[0],
    ];
    assert!(pids.iter().all(|pid| is_alive(*pid)));

    // when the daemon is killed
    kill(ground.daemon());

    // then both servers are gone in 2 s
    within_looks(SOON, "both servers are gone", || {
        pids.iter().all(|pid| !is_alive(*pid)).then_some(())
    });

    // and the shims say so in one line and exit with 70
    for editor in &editors {
        assert_eq!(editor.wait_exit().unwrap(), DAEMON_LOST);
        let said = editor.whole_stderr().unwrap();
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.starts_with("lspool: "), "{said}");
    }

    // and the next attach works
    let file = ground.file("a.toy", "word");
    let editor = ground.editor(&servers[0]);
    editor.did_open(&file, "toy", 1, "word").unwrap();
    assert_served(&editor, &file);
    assert_eq!(servers[0].journal().servers_started(), 2);
    assert_eq!(editor.shut_down().unwrap(), Exit::Code(0));
    ground.finish();
}

#[test]
fn a_server_that_crashes_comes_back_with_its_documents() {
    // given two editors with edited documents, and a request that is in flight
    let ground = Ground::new();
    let server = ground.server(
        &ScenarioBuilder::new()
            .hang("test/hang")
            .on("test/crash", [Action::Crash(Signal::Segv)]),
    );
    let editors = [ground.editor(&server), ground.editor(&server)];
    let files = ["a.toy", "b.toy"].map(|name| ground.file(name, "word"));
    for (editor, file) in editors.iter().zip(&files) {
        editor.did_open(file, "toy", 1, "word").unwrap();
        editor
            .did_edit(file, 2, (0, 0), (0, 0), "another ")
            .unwrap();
    }
    let hanging = editors[0].request("test/hang", json!({})).unwrap();
    let journal = server.journal();
    journal.wait_for_received("test/hang", 1).unwrap();

    // when the server crashes
    editors[1].notify("test/crash", json!({})).unwrap();

    // then what it owed is answered once
    let answer = hanging.wait().unwrap();
    assert_eq!(answer.error_code(), Some(-32803));
    assert_eq!(code_of(&answer), "LSP_RESTARTED");

    // and its successor is told each document with the text that its editor has, and answers about it
    for (editor, file) in editors.iter().zip(&files) {
        assert_served(editor, file);
    }
    let opened: Vec<String> = journal
        .entries()
        .into_iter()
        .filter(|entry| entry.server == 2)
        .filter_map(|entry| match entry.event {
            lspool_testkit::journal_entry::Event::Received(message)
                if message.method.as_deref() == Some("textDocument/didOpen") =>
            {
                message.document
            }
            _ => None,
        })
        .map(|document| format!("{} {}", document.uri, document.hash))
        .collect();
    let wanted = files
        .each_ref()
        .map(|file| format!("{file} {}", hash::of(b"another word")));
    assert_eq!(opened.len(), 2, "{opened:?}");
    assert!(
        wanted.iter().all(|line| opened.contains(line)),
        "{opened:?}"
    );

    // and the status says what happened, and nobody noticed more than that
    let instance = ground.instances().remove(0);
    assert_eq!(instance["restarts"], 1, "{instance}");
    journal.assert_no_violations();
    for editor in &editors {
        assert_eq!(editor.shut_down().unwrap(), Exit::Code(0));
        assert!(editor.unbalanced().is_empty());
    }
    ground.finish();
}

#[test]
fn an_agent_that_is_killed_takes_its_question_with_it() {
    // given an agent whose question takes for ever
    let mut ground = Ground::with(SHORT_IDLE);
    let server = ground.server(&ScenarioBuilder::new().hang("textDocument/definition"));
    ground.define(&server, "[server.readiness]\nsettle_ms = 20\n");
    let file = ground.file("a.toy", "word");
    let agent = ground.agent();
    let question = json!({"operation": "goToDefinition", "file": file, "position": {"line": 0, "character": 0}});
    agent.request("lspool/query", question).unwrap();
    let journal = server.journal();
    let asked = journal
        .wait_for_received("textDocument/definition", 1)
        .unwrap();

    // when its shim is killed
    agent.kill().unwrap();

    // then the server is told, and leaves after the idle time, and the daemon with it
    let cancel = journal.wait_for_received("$/cancelRequest", 1).unwrap();
    let cancel: Value = serde_json::from_str(cancel[0].params.as_ref().unwrap()).unwrap();
    assert_eq!(Some(cancel["id"].to_string()), asked[0].id);
    journal.wait_for_ending(1).unwrap();
    eventually("everything has left", || {
        ground.processes().is_empty().then_some(())
    });
    ground.finish_alone();
}

#[test]
fn stop_is_refused_while_an_editor_is_attached() {
    let ground = Ground::new();
    let server = ground.server(&ScenarioBuilder::new());
    let file = ground.file("a.toy", "word");
    let editor = ground.editor(&server);
    editor.did_open(&file, "toy", 1, "word").unwrap();

    // when somebody wants the daemon to end, it refuses, names the editor, and goes on
    let refused = ground.run(["stop"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""));
    assert!(
        refused
            .stderr
            .contains(&format!("process {}", editor.pid()))
            && refused.stderr.contains("--force"),
        "{refused:?}"
    );
    assert_served(&editor, &file);

    // when it is forced, it answers when everything is gone
    let pid = server.journal().pids()[0];
    let forced = ground.run(["stop", "--force"]);
    assert_eq!(forced.code, Some(0), "{forced:?}");
    assert!(!is_alive(pid));
    assert_eq!(editor.wait_exit().unwrap(), DAEMON_LOST);
    ground.finish_alone();
}

#[test]
fn a_session_without_the_daemon_works_and_leaves_nothing() {
    // given a session in its own process
    let ground = Ground::new();
    let server = ground.server(&ScenarioBuilder::new());
    let file = ground.file("a.toy", "word");
    let command = ground.lspool(["--no-daemon", "--"]).args(server.argv());
    let editor = Client::start(&command).unwrap();
    editor.initialize(&Profile::neovim(), &ground.root).unwrap();
    editor.did_open(&file, "toy", 1, "word").unwrap();

    // then it is served, and there is no daemon
    assert_served(&editor, &file);
    assert_eq!(ground.run(["status"]).code, Some(1));

    // and its end is the end of everything
    assert_eq!(editor.shut_down().unwrap(), Exit::Code(0));
    ground.finish_alone();
}

#[test]
fn a_daemon_that_nobody_uses_leaves() {
    // given a daemon that was started by one question
    let mut ground = Ground::with(SHORT_IDLE);
    let server = ground.server(&ScenarioBuilder::new());
    ground.define(&server, "[server.readiness]\nsettle_ms = 20\n");
    ground.file("a.toy", "word");
    let answered = ground.run(["query", "definition", "a.toy:1:1"]);
    assert_eq!(answered.code, Some(0), "{answered:?}");

    // then the server leaves in order, and the daemon after it
    server.journal().wait_for_ending(1).unwrap();
    eventually("everything has left", || {
        ground.processes().is_empty().then_some(())
    });
    server.journal().assert_no_violations();
    ground.finish_alone();
}

#[test]
fn editors_that_attach_at_once_start_one_daemon() {
    // given editors that all start before any has a session
    let ground = Ground::new();
    let server = ground.server(&ScenarioBuilder::new());
    let editors: Vec<Client> = (0..6).map(|_| ground.started(&server)).collect();

    // when each has its session
    for editor in &editors {
        editor.initialize(&Profile::neovim(), &ground.root).unwrap();
    }

    // then one daemon has them all, since only one daemon can have one server for them
    assert_eq!(server.journal().servers_started(), 1);
    assert_eq!(
        ground.status()["clients"].as_array().unwrap().len(),
        editors.len() + 1
    );
    drop(editors);
    ground.finish();
}

#[test]
fn a_session_ends_with_the_exit_code_of_its_end() {
    let ground = Ground::new();
    let server = ground.server(&ScenarioBuilder::new());
    let keeper = ground.editor(&server);

    // shutdown, then exit
    assert_eq!(ground.editor(&server).shut_down().unwrap(), Exit::Code(0));

    // exit alone
    let editor = ground.editor(&server);
    editor.notify_raw("exit", None).unwrap();
    assert_eq!(editor.wait_exit().unwrap(), Exit::Code(1));

    // the end of the input
    let editor = ground.editor(&server);
    editor.close_input();
    assert_eq!(editor.wait_exit().unwrap(), Exit::Code(1));

    // the server saw none of these ends
    let methods = server.journal().methods();
    assert!(
        !methods
            .iter()
            .any(|method| method == "shutdown" || method == "exit")
    );
    drop(keeper);
    ground.finish();
}

#[test]
fn a_query_exits_by_how_far_its_answer_can_be_trusted() {
    // given a server that shows when its index is complete, knows no implementation and never tells references
    let step = |step| {
        Action::Progress(Progress {
            token: "\"index\"".to_owned(),
            step,
            title: Some("indexing".to_owned()),
            message: None,
            percentage: None,
        })
    };
    let scenario = well_behaved()
        .on(
            "textDocument/didOpen",
            [
                Action::Continue,
                step(ProgressStep::Create),
                step(ProgressStep::Begin),
                step(ProgressStep::End),
            ],
        )
        .on(
            "textDocument/implementation",
            [Action::Reply(Body::Json(raw("[]")))],
        )
        .on(
            "textDocument/hover",
            [Action::ReplyError(ErrorBody {
                code: -32603,
                message: "broken".to_owned(),
                data: None,
            })],
        )
        .hang("textDocument/references");
    let mut ground = Ground::new();
    let server = ground.server(&scenario);
    ground.define(
        &server,
        "[server.readiness]\nprogress_tokens = [{ token = \"index\" }]\n",
    );
    ground.configure(
        "[[server]]\nid = \"absent\"\ncommands = [[\"no-such-server\"]]\n\
         languages = [{ id = \"other\", extensions = [\"other\"] }]\n",
    );
    ground.file("a.toy", "word\n");
    ground.file("a.other", "word\n");

    for (arguments, code) in [
        // answers
        (vec!["definition", "a.toy:1:1"], 0),
        // none, and that is all there is
        (vec!["implementation", "a.toy:1:1"], 1),
        // a place that is not there, no place at all, a file that is not there
        (vec!["definition", "a.toy:9:1"], 2),
        (vec!["definition", "a.toy"], 2),
        (vec!["definition", "missing.toy:1:1"], 2),
        // no answer in time, no answer at all
        (vec!["references", "a.toy:1:1", "--timeout", "400ms"], 3),
        (vec!["hover", "a.toy:1:1"], 3),
        // a server that is not installed
        (vec!["definition", "a.other:1:1"], 4),
    ] {
        let line = ["query"].into_iter().chain(arguments.iter().copied());
        let finished = ground.run(line);
        assert_eq!(finished.code, Some(code), "{arguments:?}: {finished:?}");
        // Answers go to stdout, everything else in at least one line to stderr.
        assert_eq!(
            finished.stderr.is_empty(),
            code < 2,
            "{arguments:?}: {finished:?}"
        );
    }
    let instance = ground.instances().remove(0);
    assert!(is_alive(process_id(&instance["pid"])));
    ground.finish();
}

#[test]
fn none_from_a_server_that_shows_no_signal_is_not_complete() {
    // given a server that never says whether its index is complete, and knows nothing
    let mut ground = Ground::new();
    let server = ground.server(&ScenarioBuilder::new().on(
        "textDocument/implementation",
        [Action::Reply(Body::Json(raw("[]")))],
    ));
    ground.define(&server, "[server.readiness]\nsettle_ms = 20\n");
    ground.file("a.toy", "word");

    // when it is asked
    let finished = ground.run(["query", "implementation", "a.toy:1:1", "--json"]);

    // then its none is no answer to rely on
    assert_eq!(finished.code, Some(3), "{finished:?}");
    let result: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(result["locations"], json!([]));
    assert_eq!(result["envelope"]["completeness"], "unknown", "{result}");
    assert_eq!(result["envelope"]["readiness"], "settled", "{result}");
    ground.finish();
}
