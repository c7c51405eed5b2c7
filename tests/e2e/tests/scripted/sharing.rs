//! Two editors on one project: one server process, and neither can tell.

use lspool_testkit::journal_entry::Ending;
use lspool_testkit::scenario_format::{Action, Body, Delay};
use lspool_testkit::{Client, Pending, ScenarioBuilder};
use serde_json::{Value, json};

use super::ground::{Ground, SHORT_IDLE, eventually, publishes};

/// How often both editors ask under the same ids.
const ROUNDS: u32 = 1_000;

/// A server that answers `test/echo` with the params, after a moment that differs from request to request.
fn echoing() -> ScenarioBuilder {
    ScenarioBuilder::new().on(
        "test/echo",
        [
            Action::Delay(Delay::Random { random: (0, 1) }),
            Action::Reply(Body::Params),
        ],
    )
}

/// Sends one question under each of the ids 0, 1 and "1".
fn ask(editor: &Client, name: &str, round: u32) -> Vec<(Value, Pending)> {
    ["0", "1", "\"1\""]
        .into_iter()
        .map(|id| {
            let question = json!({"from": name, "round": round, "under": id});
            let pending = editor
                .request_raw(id, "test/echo", Some(&question.to_string()))
                .unwrap();
            (question, pending)
        })
        .collect()
}

#[test]
fn two_editors_with_equal_ids_get_their_own_answers_from_one_process() {
    // given two editors with one command line
    let ground = Ground::new();
    let server = ground.server(&echoing());
    let (first, second) = (ground.editor(&server), ground.editor(&server));

    // when both use the ids 0, 1 and "1" at the same time, again and again, for different questions
    for round in 0..ROUNDS {
        let questions = [ask(&first, "first", round), ask(&second, "second", round)];
        // then each answer is that of the question
        for (question, pending) in questions.into_iter().flatten() {
            assert_eq!(pending.result::<Value>().unwrap(), question);
        }
    }

    // and one process gave them all
    assert_eq!(server.journal().servers_started(), 1);
    server.journal().assert_no_violations();
    for editor in [&first, &second] {
        assert!(editor.unbalanced().is_empty());
        editor.shut_down().unwrap();
    }
    ground.finish();
}

#[test]
fn a_second_editor_gets_the_recorded_initialize_result() {
    // given a server whose result has bytes that a parser would lose
    let result = r#"{"capabilities": {"hoverProvider":true,	"positionEncoding":"utf-16","x":1e2}, "serverInfo":{"name":"\u00e9"}, "big":123456789012345678901234567890}"#;
    let ground = Ground::new();
    let server = ground.server(
        &ScenarioBuilder::new().on("initialize", [Action::Reply(Body::Text(result.to_owned()))]),
    );

    // when two editors initialize
    let editors = [ground.started(&server), ground.started(&server)];
    for editor in &editors {
        let answer = editor
            .initialize(&lspool_testkit::Profile::neovim(), &ground.root)
            .unwrap();

        // then both get it byte for byte
        assert_eq!(answer.result_raw().unwrap(), result.as_bytes());
    }
    assert_eq!(server.journal().servers_started(), 1);
    let seen = |method: &str| {
        let methods = server.journal().methods();
        methods.iter().filter(|seen| *seen == method).count()
    };
    server
        .journal()
        .wait_for_received("initialized", 1)
        .unwrap();
    assert_eq!((seen("initialize"), seen("initialized")), (1, 1));
    drop(editors);
    ground.finish();
}

#[test]
fn each_editor_sees_the_diagnostics_of_what_it_has_open() {
    // given two editors, each with a document of its own and one that both have
    let ground = Ground::new();
    let server = ground.server(&ScenarioBuilder::new());
    let (first, second) = (ground.editor(&server), ground.editor(&server));
    let text = "one error and another error";
    let [mine, yours, ours] =
        ["mine.toy", "yours.toy", "ours.toy"].map(|name| ground.file(name, text));

    // when they open them
    first.did_open(&mine, "toy", 1, "error").unwrap();
    second.did_open(&yours, "toy", 1, text).unwrap();
    for editor in [&first, &second] {
        editor.did_open(&ours, "toy", 7, text).unwrap();
    }

    // then each sees what it has open
    let sees = |editor: &Client, uri: &str, count: usize| {
        editor
            .wait_for(&format!("diagnostics of {uri}"), |message| {
                publishes(message, uri, count)
            })
            .unwrap()
    };
    sees(&first, &mine, 1);
    sees(&first, &ours, 2);
    sees(&second, &yours, 2);
    let theirs: Value = sees(&second, &ours, 2).params().unwrap();
    assert_eq!(theirs["version"], 7, "its own version");

    // and one that opens a document last sees what was published before it came
    let late = ground.editor(&server);
    late.did_open(&ours, "toy", 40, text).unwrap();
    let replayed: Value = sees(&late, &ours, 2).params().unwrap();
    assert_eq!(replayed["version"], 40, "its own version");

    // and nobody sees what it has not open
    for (editor, foreign) in [(&first, &yours), (&second, &mine), (&late, &mine)] {
        let seen = editor
            .received()
            .iter()
            .any(|message| publishes(message, foreign, 1) || publishes(message, foreign, 2));
        assert!(!seen, "{foreign}");
    }
    assert_eq!(server.journal().servers_started(), 1);
    server.journal().assert_no_violations();
    drop((first, second, late));
    ground.finish();
}

#[test]
fn an_editor_that_is_killed_leaves_nothing_open_and_the_other_does_not_notice() {
    // given two editors with one document in common, one with another and a request that takes for ever
    let ground = Ground::with(SHORT_IDLE);
    let server =
        ground.server(&echoing().on("test/hang", [Action::Delay(Delay::Fixed(3_600_000))]));
    let (doomed, survivor) = (ground.editor(&server), ground.editor(&server));
    let [alone, common] = ["alone.toy", "common.toy"].map(|name| ground.file(name, "text"));
    doomed.did_open(&alone, "toy", 1, "text").unwrap();
    for editor in [&doomed, &survivor] {
        editor.did_open(&common, "toy", 1, "text").unwrap();
    }
    doomed.request("test/hang", json!({})).unwrap();
    let journal = server.journal();
    let hanging = journal.wait_for_received("test/hang", 1).unwrap()[0]
        .id
        .clone();
    let of_survivor = ask(&survivor, "survivor", 0);
    let received_before = survivor.mark();

    // when it is killed
    doomed.kill().unwrap();

    // then its request is cancelled and its document closed, once
    let cancels = journal.wait_for_received("$/cancelRequest", 1).unwrap();
    let cancelled: Value = serde_json::from_str(cancels[0].params.as_ref().unwrap()).unwrap();
    assert_eq!(Some(cancelled["id"].to_string()), hanging);
    journal
        .wait_for_received("textDocument/didClose", 1)
        .unwrap();

    // and the survivor is served as if nothing had been
    for (question, pending) in of_survivor {
        assert_eq!(pending.result::<Value>().unwrap(), question);
    }
    for (question, pending) in ask(&survivor, "survivor", 1) {
        assert_eq!(pending.result::<Value>().unwrap(), question);
    }
    survivor.did_change(&common, 2, "text and more").unwrap();
    for (question, pending) in ask(&survivor, "survivor", 2) {
        assert_eq!(pending.result::<Value>().unwrap(), question);
    }
    let closes: Vec<String> = journal
        .document_events()
        .into_iter()
        .filter(|event| event.starts_with("didClose"))
        .collect();
    assert_eq!(closes.len(), 1, "{closes:?}");
    let closed = journal
        .wait_for_received("textDocument/didClose", 1)
        .unwrap();
    assert!(closed[0].params.as_ref().unwrap().contains(&alone));
    let disturbed = survivor
        .received()
        .split_off(received_before)
        .into_iter()
        .find(|message| {
            message.method.is_some()
                && message.method.as_deref() != Some("textDocument/publishDiagnostics")
        });
    assert!(disturbed.is_none(), "{disturbed:?}");
    journal.assert_no_violations();

    // and when the survivor leaves too, the server leaves after the idle time, in order
    survivor.shut_down().unwrap();
    assert_eq!(
        journal.wait_for_ending(1).unwrap(),
        Ending::ExitNotification(0)
    );
    assert_eq!(journal.servers_started(), 1);

    // and the daemon after it
    eventually("everything has left", || {
        ground.processes().is_empty().then_some(())
    });
    ground.finish_alone();
}
