//! Clients that said their last word: what they are still owed, and for how long.

use lspool_pool::core::{ClientId, Event, Link};
use serde_json::json;

use crate::rig::Rig;

fn end_input(rig: &mut Rig, client: ClientId) {
    rig.handle(Event::LinkClosed {
        link: Link::Client(client),
        reason: "end of input".to_owned(),
    });
}

#[test]
fn given_the_end_of_input_then_servers_have_the_time_of_a_shutdown_and_own_calls_their_own() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.hover(client, "1");
    rig.request(client, "2", "lspool/query", "{}");
    end_input(&mut rig, client);
    rig.advance(1_999);
    assert!(rig.got(client).is_empty());
    rig.advance(1);
    assert_eq!(
        rig.answer(client, &json!(1))["error"]["data"]["code"],
        "LSP_DISPOSED"
    );
    let at = rig.server();
    assert_eq!(rig.fake(at).cancelled.len(), 1);
    rig.advance(20_000);
    assert_eq!(rig.clients[&client].closed, None);
    let (call, _) = rig.calls.remove(0);
    rig.handle(Event::CallDone {
        call,
        result: Ok("7".to_owned()),
    });
    assert_eq!(rig.answer(client, &json!(2))["result"], 7);
    assert_eq!(rig.clients[&client].closed, Some(1));
    rig.serve("textDocument/hover", "null");
    rig.end();
}

#[test]
fn given_a_peer_that_is_gone_then_its_calls_end_at_once() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.request(client, "1", "lspool/query", "{}");
    rig.kill(client);
    assert!(rig.calls.is_empty());
    assert_eq!(rig.clients[&client].closed, Some(1));
    rig.end();
}

#[test]
fn given_an_exit_without_shutdown_then_what_waits_is_answered_before_the_end() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.hover(client, "1");
    rig.request(client, "2", "lspool/query", "{}");
    rig.exits("signal 11");
    rig.got(client);
    rig.hover(client, "3");
    rig.notify(client, "exit", "null");
    let got = rig.got_values(client);
    let answered: Vec<_> = got.iter().map(|it| it["id"].clone()).collect();
    assert_eq!(answered, [json!(2), json!(3)]);
    assert!(
        got.iter()
            .all(|it| it["error"]["data"]["code"] == "LSP_DISPOSED")
    );
    assert_eq!(rig.clients[&client].closed, Some(1));
    rig.check_credit();
    rig.end();
}

#[test]
fn given_a_leaving_client_that_shares_and_is_full_then_it_has_no_more_than_its_time_and_is_asked_nothing()
 {
    let mut rig = Rig::new();
    let able = r#"{"workspace":{"applyEdit":true}}"#;
    let (leaving, other) = (rig.attach(able), rig.attach(able));
    rig.hover(leaving, "1");
    rig.set_reads(Link::Client(leaving), false);
    end_input(&mut rig, leaving);
    let filler = format!(r#"{{"type":3,"message":"{}"}}"#, "y".repeat(50_000));
    for _ in 0..8 {
        rig.tell("window/logMessage", &filler);
    }
    rig.got(other);
    rig.ask("1", "workspace/applyEdit", r#"{"edit":{}}"#);
    assert_eq!(rig.got_values(other)[0]["method"], "workspace/applyEdit");
    // Two seconds for the answer, two for a peer that does not read it.
    rig.advance(4_000);
    assert_eq!(rig.clients[&leaving].closed, Some(1));
    rig.serve("textDocument/hover", "null");
    rig.end();
}
