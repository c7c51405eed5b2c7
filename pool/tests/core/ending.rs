//! Crashes, idle time, the end ladder and the end of the pool.

use lspool_pool::core::{Event, InstanceTimer, Link, Timer};
use serde_json::json;

use crate::rig::{FILE, Rig, limits};

fn state(rig: &Rig) -> &'static str {
    rig.core
        .status()
        .instances
        .first()
        .map_or("gone", |instance| instance.state)
}

#[test]
fn given_a_crash_then_requests_are_answered_and_the_next_process_gets_the_documents_and_settings() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.notify(
        client,
        "workspace/didChangeConfiguration",
        r#"{"settings":{"a":1}}"#,
    );
    rig.open(client, FILE, "3", "x");
    rig.change(client, FILE, "4", "xy");
    rig.hover(client, "1");
    rig.exits("signal 11");
    let error = rig.answer(client, &json!(1))["error"].clone();
    assert_eq!(
        error["data"],
        json!({"code":"LSP_RESTARTED","retryable":true})
    );
    rig.hover(client, "2");
    rig.advance(499);
    assert_eq!(rig.spawns, 1);
    rig.advance(1);
    assert_eq!(
        rig.server_methods(),
        [
            "initialize",
            "initialized",
            "workspace/didChangeConfiguration",
            "textDocument/didOpen",
            "textDocument/hover"
        ]
    );
    let at = rig.server();
    assert_eq!(rig.fake(at).texts[FILE], "xy");
    assert_eq!(rig.fake(at).versions[FILE], 5, "it rises over the crash");
    rig.serve("textDocument/hover", "2");
    assert_eq!(rig.answer(client, &json!(2))["result"], 2);
    rig.end();
}

#[test]
fn given_a_crash_then_the_next_process_waits_for_the_proof_that_the_last_tree_is_gone() {
    let mut rig = Rig::new();
    rig.attach("{}");
    rig.hold.terminate = true;
    let (instance, generation) = rig.server();
    rig.exits("signal 11");
    rig.advance(5_000);
    assert_eq!(rig.spawns, 1);
    rig.handle(Event::Terminated {
        instance,
        generation,
        result: Ok(()),
    });
    assert_eq!(rig.spawns, 2);
    rig.end();
}

#[test]
fn given_a_tree_that_cannot_be_ended_after_a_crash_then_the_instance_is_given_up_and_says_so() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.hold.terminate = true;
    let (instance, generation) = rig.server();
    rig.exits("signal 11");
    rig.handle(Event::Terminated {
        instance,
        generation,
        result: Err("stuck".to_owned()),
    });
    let got = rig.got_values(client);
    assert!(
        got[0]["params"]["message"]
            .as_str()
            .unwrap()
            .contains("stuck")
    );
    rig.handle(Event::Terminated {
        instance,
        generation,
        result: Ok(()),
    });
    assert_eq!(state(&rig), "gone");
    rig.hold.terminate = false;
    rig.handle(Event::Shutdown);
    assert!(rig.shutdowns[0].is_empty(), "the second try succeeded");
    rig.check_credit();
}

#[test]
fn given_more_crashes_than_the_budget_then_the_pauses_double_and_the_end_is_told() {
    let mut limits = limits();
    limits.crash_budget = 3;
    let mut rig = Rig::with(limits);
    let client = rig.attach("{}");
    for pause in [500, 1_000, 2_000] {
        let before = rig.spawns;
        rig.exits("exit code 1");
        rig.advance(pause - 1);
        assert_eq!(rig.spawns, before);
        rig.advance(1);
        assert_eq!(rig.spawns, before + 1);
    }
    rig.got(client);
    rig.hover(client, "1");
    rig.exits("exit code 1");
    let got = rig.got_values(client);
    assert_eq!(
        got[0]["error"]["data"],
        json!({"code":"LSP_CRASHED","retryable":false})
    );
    assert_eq!(got[1]["method"], "window/showMessage");
    rig.hover(client, "2");
    assert_eq!(
        rig.answer(client, &json!(2))["error"]["data"]["code"],
        "LSP_CRASHED"
    );
    assert_eq!(rig.clients[&client].closed, None, "the connection stays");
    rig.request(client, "3", "shutdown", "null");
    assert_eq!(rig.answer(client, &json!(3))["result"], json!(null));
    rig.end();
}

#[test]
fn given_a_crash_long_after_the_others_then_it_counts_as_the_first() {
    let mut limits = limits();
    limits.crash_budget = 1;
    let mut rig = Rig::with(limits);
    rig.attach("{}");
    rig.exits("exit code 1");
    rig.advance(180_001);
    rig.exits("exit code 1");
    rig.advance(500);
    assert_eq!(rig.spawns, 3);
    rig.end();
}

#[test]
fn given_a_restart_that_dies_before_it_answers_then_it_is_one_more_crash() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.exits("exit code 1");
    rig.hold.initialize = true;
    rig.advance(500);
    rig.exits("exit code 2");
    assert_eq!(rig.clients[&client].closed, None);
    rig.hold.initialize = false;
    rig.advance(1_000);
    assert_eq!(rig.spawns, 3);
    rig.hover(client, "1");
    rig.serve("textDocument/hover", "null");
    rig.end();
}

#[test]
fn given_a_client_that_attaches_while_the_server_restarts_then_it_is_served_by_the_next_process() {
    let mut rig = Rig::new();
    rig.attach("{}");
    rig.exits("exit code 1");
    let late = rig.client("clangd");
    rig.initialize(late, "{}");
    assert!(rig.got(late).is_empty());
    rig.advance(500);
    assert_eq!(
        rig.answer(late, &json!("init"))["result"]["capabilities"]["hoverProvider"],
        true
    );
    assert_eq!(rig.spawns, 2);
    rig.end();
}

#[test]
fn given_a_message_of_a_process_that_is_lost_then_nobody_hears_it() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.exits("exit code 1");
    rig.got(client);
    rig.tell("window/logMessage", r#"{"type":3,"message":"ghost"}"#);
    let at = rig.server();
    rig.advance(500);
    rig.server_says(at, r#"{"jsonrpc":"2.0","method":"x/ghost","params":{}}"#);
    assert!(rig.got(client).is_empty());
    rig.check_credit();
    rig.end();
}

#[test]
fn given_a_server_that_closes_its_output_then_it_is_ended_and_started_again() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    let (instance, generation) = rig.server();
    rig.handle(Event::LinkClosed {
        link: Link::Server(instance, generation),
        reason: "end of input".to_owned(),
    });
    assert!(rig.fake((instance, generation)).terminated);
    rig.exits_at((instance, generation), "signal 15");
    rig.advance(500);
    assert_eq!(rig.spawns, 2);
    rig.hover(client, "1");
    rig.serve("textDocument/hover", "null");
    rig.end();
}

#[test]
fn given_a_crash_that_nobody_feels_then_nothing_is_started() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.kill(client);
    rig.exits("exit code 1");
    rig.advance(60_000);
    assert_eq!(rig.spawns, 1);
    assert_eq!(state(&rig), "gone");
    rig.end();
}

#[test]
fn given_nobody_attached_then_the_server_goes_down_the_ladder_after_the_idle_time() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.server_got();
    rig.kill(client);
    rig.advance(599_999);
    assert_eq!(state(&rig), "running");
    rig.advance(1);
    assert_eq!(state(&rig), "ending");
    let got = rig.server_got();
    assert!(
        got[0].contains(r#""method":"shutdown""#) && !got[0].contains("params"),
        "{got:?}"
    );
    let at = rig.server();
    rig.serve("shutdown", "null");
    assert_eq!(rig.server_got(), [r#"{"jsonrpc":"2.0","method":"exit"}"#]);
    assert!(rig.fake(at).input_closed && !rig.fake(at).terminated);
    rig.exits("exit code 0");
    assert!(
        rig.fake(at).terminated,
        "the rest of the tree is proved gone"
    );
    assert_eq!(state(&rig), "gone");
    rig.end();
}

#[test]
fn given_a_server_that_ignores_every_step_then_each_has_its_deadline() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.kill(client);
    rig.advance(600_000);
    let at = rig.server();
    rig.advance(1_999);
    assert!(!rig.fake(at).input_closed);
    rig.advance(1);
    assert!(rig.fake(at).input_closed);
    rig.advance(999);
    assert!(!rig.fake(at).terminated);
    rig.advance(1);
    assert!(rig.fake(at).terminated);
    assert_eq!(state(&rig), "gone");
    rig.end();
}

#[test]
fn given_a_client_in_time_then_the_idle_time_is_off() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.kill(client);
    rig.advance(300_000);
    let again = rig.attach("{}");
    assert_eq!(rig.spawns, 1);
    rig.advance(900_000);
    assert_eq!(state(&rig), "running");
    let (instance, _) = rig.server();
    assert!(
        !rig.timers
            .contains_key(&Timer::Instance(instance, InstanceTimer::Idle))
    );
    rig.hover(again, "1");
    rig.serve("textDocument/hover", "null");
    rig.end();
}

#[test]
fn given_an_ending_server_then_a_new_client_gets_another() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.kill(client);
    rig.advance(600_000);
    rig.attach("{}");
    assert_eq!(rig.spawns, 2);
    rig.end();
}

#[test]
fn given_a_stop_then_its_clients_get_an_answer_to_all_and_keep_their_connection() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    let (instance, _) = rig.server();
    rig.hover(client, "1");
    rig.handle(Event::Stop { instance });
    assert_eq!(
        rig.answer(client, &json!(1))["error"]["data"],
        json!({"code":"LSP_DISPOSED","retryable":true})
    );
    rig.hover(client, "2");
    assert_eq!(
        rig.answer(client, &json!(2))["error"]["data"]["code"],
        "LSP_DISPOSED"
    );
    assert_eq!(rig.clients[&client].closed, None);
    rig.end();
}

#[test]
fn given_a_stop_of_a_server_that_boots_then_who_waits_for_it_is_told() {
    let mut rig = Rig::new();
    rig.hold.initialize = true;
    let client = rig.client("clangd");
    rig.initialize(client, "{}");
    rig.hover(client, "1");
    let (instance, _) = rig.server();
    rig.handle(Event::Stop { instance });
    let got = rig.got_values(client);
    assert_eq!(got[0]["error"]["data"]["code"], "LSP_DISPOSED");
    assert_eq!(got[1]["error"]["data"]["code"], "LSP_DISPOSED");
    assert!(rig.clients[&client].closed.is_some());
    // Its late answer to `initialize` does not bring it back.
    rig.serve("initialize", crate::rig::RESULT);
    assert_eq!(state(&rig), "ending");
    rig.end();
}

#[test]
fn given_a_shutdown_then_everything_is_answered_and_the_report_comes_when_all_is_gone() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.hover(client, "1");
    rig.request(client, "2", "lspool/query", "{}");
    let waiting = rig.client("clangd");
    rig.hold.launch = true;
    rig.initialize(waiting, "{}");
    rig.hover(waiting, "1");
    rig.request(waiting, "2", "shutdown", "null");
    let at = rig.server();
    rig.handle(Event::Shutdown);
    for (client, ids) in [
        (client, vec![json!(1), json!(2)]),
        (waiting, vec![json!("init"), json!(1), json!(2)]),
    ] {
        let got = rig.got_values(client);
        let answered: Vec<_> = got.iter().map(|it| it["id"].clone()).collect();
        assert_eq!(answered.len(), ids.len());
        assert!(ids.iter().all(|id| answered.contains(id)), "{answered:?}");
        assert!(
            got.iter()
                .all(|it| it["error"]["data"]["code"] == "LSP_DISPOSED")
        );
        assert_eq!(rig.clients[&client].closed, Some(70));
    }
    assert!(rig.shutdowns.is_empty());
    rig.serve("shutdown", "null");
    rig.exits_at(at, "exit code 0");
    assert_eq!(rig.shutdowns, [Vec::<String>::new()]);
    let late = rig.client("clangd");
    assert_eq!(rig.clients[&late].closed, Some(70));
    assert!(rig.core.is_empty());
    rig.check_credit();
}

#[test]
fn given_a_shutdown_while_a_client_does_not_read_then_it_is_waited_for_a_while_only() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.set_reads(Link::Client(client), false);
    rig.hover(client, "1");
    rig.handle(Event::Shutdown);
    let at = rig.server();
    rig.exits_at(at, "exit code 0");
    assert!(rig.shutdowns.is_empty(), "its answer is not written");
    rig.advance(2_000);
    assert_eq!(rig.shutdowns.len(), 1);
}

#[test]
fn given_a_shutdown_that_failed_then_its_report_names_the_failure_and_it_can_be_asked_again() {
    let mut rig = Rig::new();
    rig.attach("{}");
    rig.hold.terminate = true;
    let (instance, generation) = rig.server();
    rig.handle(Event::Shutdown);
    rig.advance(3_000);
    rig.handle(Event::Terminated {
        instance,
        generation,
        result: Err("stuck".to_owned()),
    });
    assert!(rig.shutdowns[0][0].contains("stuck"));
    let status = rig.core.status();
    assert_eq!(status.instances[0].state, "ending");
    assert!(
        status.instances[0]
            .end_failure
            .as_ref()
            .unwrap()
            .contains("stuck")
    );
    rig.fake((instance, generation)).terminated = false;
    rig.handle(Event::Shutdown);
    assert!(rig.fake((instance, generation)).terminated, "tried again");
    assert_eq!(rig.shutdowns.len(), 1, "and waited for");
    rig.handle(Event::Terminated {
        instance,
        generation,
        result: Ok(()),
    });
    assert!(rig.shutdowns[1].is_empty());
    assert!(rig.core.is_empty());
}

#[test]
fn given_a_stop_whose_end_failed_then_the_next_stop_tries_again_and_no_later_shutdown_reports_it() {
    let mut rig = Rig::new();
    rig.attach("{}");
    rig.hold.terminate = true;
    let (instance, generation) = rig.server();
    rig.handle(Event::Stop { instance });
    rig.advance(3_000);
    let stuck = Event::Terminated {
        instance,
        generation,
        result: Err("stuck".to_owned()),
    };
    rig.handle(stuck);
    rig.attach("{}");
    assert_eq!(rig.spawns, 2, "it serves nobody");
    rig.hold.terminate = false;
    rig.handle(Event::Stop { instance });
    assert_eq!(rig.core.status().instances.len(), 1);
    rig.end();
}

#[test]
fn given_output_that_is_no_protocol_then_the_error_quotes_it_and_names_no_signal() {
    let mut rig = Rig::new();
    rig.hold.initialize = true;
    let client = rig.client("clangd");
    rig.initialize(client, "{}");
    let (instance, generation) = rig.server();
    rig.handle(Event::LinkClosed {
        link: Link::Server(instance, generation),
        reason: r#"no header within the first 65537 bytes of output, which begins "Welcome""#
            .to_owned(),
    });
    let error = rig.answer(client, &json!("init"))["error"].clone();
    let text = error["message"].as_str().unwrap();
    assert!(
        text.contains("Welcome") && !text.contains("signal"),
        "{text}"
    );
    assert_eq!(error["data"]["code"], "LSP_START_FAILED");
    rig.end();
}

#[test]
fn given_a_shutdown_while_a_server_starts_then_its_process_is_ended_too() {
    let mut rig = Rig::new();
    rig.hold.spawn = true;
    rig.hold.terminate = true;
    let client = rig.client("clangd");
    rig.initialize(client, "{}");
    rig.handle(Event::Shutdown);
    assert!(rig.shutdowns.is_empty());
    let instance = lspool_pool::core::InstanceId(1);
    let generation = lspool_pool::core::Generation(1);
    rig.spawned(instance, generation);
    rig.handle(Event::Terminated {
        instance,
        generation,
        result: Ok(()),
    });
    assert_eq!(rig.shutdowns.len(), 1);
}

#[test]
fn given_servers_that_die_together_then_they_are_not_started_again_together() {
    let mut rig = Rig::new();
    for program in ["clangd", "gopls"] {
        let client = rig.client(program);
        rig.initialize(client, "{}");
        rig.initialized(client);
    }
    let servers: Vec<_> = rig.servers.keys().copied().collect();
    for at in servers {
        rig.exits_at(at, "signal 9");
    }
    rig.advance(500);
    assert_eq!(rig.spawns, 3);
    rig.advance(125);
    assert_eq!(rig.spawns, 4);
    rig.end();
}
