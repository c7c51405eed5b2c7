//! Flow control: who waits when a link does not read, and for how long.

use lspool_pool::core::{ClientId, Link, Timer};
use serde_json::json;

use crate::rig::{FILE, Rig};

/// Notifications of 50 kB until the server's outbox is full.
fn fill_server(rig: &mut Rig, client: ClientId) {
    let filler = format!(r#"{{"x":"{}"}}"#, "y".repeat(50_000));
    for _ in 0..7 {
        rig.notify(client, "x/fill", &filler);
    }
}

fn stop_server(rig: &mut Rig) -> Link {
    let (instance, generation) = rig.server();
    let link = Link::Server(instance, generation);
    rig.set_reads(link, false);
    link
}

fn parked(rig: &Rig, client: ClientId) -> usize {
    let status = rig.core.status();
    let shown = status
        .clients
        .iter()
        .find(|shown| shown.id == client.to_string());
    shown.unwrap().parked
}

#[test]
fn given_a_full_server_then_the_clients_next_frame_waits_and_cancels_still_pass() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.hover(client, "1");
    let link = stop_server(&mut rig);
    fill_server(&mut rig, client);
    rig.hover(client, "2");
    rig.hover(client, "3");
    assert_eq!(parked(&rig, client), 2);
    rig.cancel(client, "2");
    assert_eq!(rig.answer(client, &json!(2))["error"]["code"], -32800);
    rig.cancel(client, "1");
    let at = rig.server();
    rig.set_reads(link, true);
    assert_eq!(parked(&rig, client), 0);
    assert_eq!(rig.fake(at).cancelled.len(), 1);
    rig.check_credit();
    rig.serve("textDocument/hover", "null");
    rig.serve("textDocument/hover", "null");
    rig.end();
}

#[test]
fn given_a_full_server_then_what_the_pool_answers_is_answered_in_its_turn() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    stop_server(&mut rig);
    fill_server(&mut rig, client);
    rig.request(client, "1", "lspool/status", "{}");
    assert_eq!(rig.calls.len(), 1);
    rig.end();
}

#[test]
fn given_no_progress_for_a_while_then_requests_are_refused_and_the_text_follows_once_it_reads() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.open(client, FILE, "1", "a");
    let link = stop_server(&mut rig);
    fill_server(&mut rig, client);
    rig.hover(client, "1");
    rig.advance(1_999);
    assert!(rig.got(client).is_empty());
    rig.advance(1);
    assert_eq!(
        rig.answer(client, &json!(1))["error"]["data"]["code"],
        "LSP_STALLED"
    );
    rig.change(client, FILE, "2", "ab");
    rig.change(client, FILE, "3", "abc");
    rig.set_reads(link, true);
    let at = rig.server();
    assert_eq!(
        rig.fake(at).texts[FILE],
        "abc",
        "one whole text for all that it missed"
    );
    rig.hover(client, "2");
    rig.serve("textDocument/hover", "null");
    assert_eq!(rig.answer(client, &json!(2))["result"], json!(null));
    rig.end();
}

#[test]
fn given_a_server_that_never_reads_again_then_it_is_restarted_once_with_its_documents() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.open(client, FILE, "1", "a");
    stop_server(&mut rig);
    fill_server(&mut rig, client);
    rig.advance(2_000);
    rig.change(client, FILE, "2", "b");
    let hung = rig.server();
    rig.advance(27_999);
    assert_eq!(rig.spawns, 1);
    rig.advance(1);
    assert!(rig.fake(hung).terminated);
    rig.exits_at(hung, "signal 9");
    rig.advance(500);
    assert_eq!(rig.spawns, 2);
    let at = rig.server();
    assert_eq!(rig.fake(at).texts[FILE], "b");
    assert_eq!(rig.core.status().instances[0].restarts, 1, "counted once");
    rig.end();
}

#[test]
fn given_a_stalled_server_then_notifications_keep_their_credit_and_requests_behind_them_are_refused()
 {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.open(client, FILE, "1", "a");
    let link = stop_server(&mut rig);
    fill_server(&mut rig, client);
    rig.advance(2_000);
    let queued = rig.core.status().instances[0].queued_bytes;
    rig.change(client, FILE, "2", "ab");
    let flood = format!(r#"{{"x":"{}"}}"#, "y".repeat(1_000));
    for _ in 0..1_000 {
        rig.notify(client, "x/flood", &flood);
    }
    rig.open(client, "file:///lspool-rig/b.c", "1", "b");
    rig.hover(client, "1");
    assert_eq!(rig.core.status().instances[0].queued_bytes, queued);
    assert_eq!(parked(&rig, client), 1_001, "and their credit with them");
    assert!(rig.credit_of(Link::Client(client)) > 1_000_000);
    assert_eq!(
        rig.answer(client, &json!(1))["error"]["data"]["code"],
        "LSP_STALLED"
    );
    rig.set_reads(link, true);
    rig.check_credit();
    let at = rig.server();
    assert_eq!(rig.fake(at).texts[FILE], "ab");
    assert_eq!(rig.fake(at).texts["file:///lspool-rig/b.c"], "b");
    let floods = rig.server_methods();
    assert_eq!(floods.iter().filter(|it| *it == "x/flood").count(), 1_000);
    rig.end();
}

/// Messages of a server of 50 kB each.
fn fill_client(rig: &mut Rig, times: usize) {
    let filler = format!(r#"{{"type":3,"message":"{}"}}"#, "y".repeat(50_000));
    for _ in 0..times {
        rig.tell("window/logMessage", &filler);
    }
}

#[test]
fn given_a_servers_only_client_that_does_not_read_then_the_servers_frames_wait_and_none_is_lost() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.set_reads(Link::Client(client), false);
    fill_client(&mut rig, 20);
    let queued = rig.core.status().clients[0].queued_bytes;
    assert!(queued < 400_000, "{queued}");
    rig.set_reads(Link::Client(client), true);
    rig.check_credit();
    assert_eq!(rig.got(client).len(), 20);
    rig.end();
}

#[test]
fn given_a_full_client_and_a_second_one_then_the_second_gets_what_waited_and_goes_on() {
    let mut rig = Rig::new();
    let slow = rig.attach("{}");
    rig.set_reads(Link::Client(slow), false);
    fill_client(&mut rig, 8);
    let other = rig.attach("{}");
    rig.check_credit();
    rig.hover(other, "1");
    rig.serve("textDocument/hover", "4");
    assert_eq!(rig.answer(other, &json!(1))["result"], 4);
    rig.end();
}

#[test]
fn given_a_full_client_that_shares_then_it_is_let_go_at_twice_its_bound_and_the_other_reads_on() {
    let mut rig = Rig::new();
    let (slow, other) = (rig.attach("{}"), rig.attach("{}"));
    rig.open(slow, FILE, "1", "x");
    rig.set_reads(Link::Client(slow), false);
    fill_client(&mut rig, 18);
    assert_eq!(rig.clients[&slow].closed, None);
    fill_client(&mut rig, 1);
    assert!(rig.clients[&slow].closed.is_some());
    assert_eq!(rig.got(other).len(), 19);
    let at = rig.server();
    assert!(rig.fake(at).texts.is_empty());
    rig.check_credit();
    rig.end();
}

#[test]
fn given_an_answer_far_over_the_bound_then_a_client_that_shares_and_reads_gets_it_and_all_after_it()
{
    let mut rig = Rig::new();
    let (client, _other) = (rig.attach("{}"), rig.attach("{}"));
    rig.hover(client, "1");
    // Its writer is still at work on the answer while more comes.
    rig.set_reads(Link::Client(client), false);
    let large = format!(r#""{}""#, "y".repeat(40_000_000));
    rig.serve("textDocument/hover", &large);
    rig.tell("window/logMessage", r#"{"type":3,"message":"next"}"#);
    rig.hover(client, "2");
    rig.serve("textDocument/hover", &large);
    rig.tell("window/logMessage", r#"{"type":3,"message":"last"}"#);
    assert_eq!(rig.clients[&client].closed, None);
    rig.set_reads(Link::Client(client), true);
    assert_eq!(rig.got(client).len(), 4);
    rig.check_credit();
    rig.end();
}

#[test]
fn given_a_full_client_that_shares_and_makes_no_progress_then_it_is_let_go_after_a_while() {
    let mut rig = Rig::new();
    let (slow, other) = (rig.attach("{}"), rig.attach("{}"));
    rig.set_reads(Link::Client(slow), false);
    fill_client(&mut rig, 8);
    rig.advance(29_999);
    assert_eq!(rig.clients[&slow].closed, None);
    rig.advance(1);
    assert!(rig.clients[&slow].closed.is_some());
    assert_eq!(rig.clients[&other].closed, None);
    assert!(!rig.timers.contains_key(&Timer::ClientProgress(slow)));
    rig.end();
}

#[test]
fn given_an_answer_of_a_parked_server_then_it_does_not_overtake_what_waits() {
    let mut rig = Rig::new();
    let client = rig.attach("{}");
    rig.hover(client, "1");
    rig.set_reads(Link::Client(client), false);
    fill_client(&mut rig, 9);
    rig.serve("textDocument/hover", "1");
    rig.set_reads(Link::Client(client), true);
    let got = rig.got_values(client);
    assert_eq!(got.len(), 10);
    assert_eq!(got[9]["id"], 1);
    rig.end();
}

#[test]
fn given_large_documents_before_initialized_then_initialized_is_still_read() {
    let mut rig = Rig::new();
    let client = rig.client("clangd");
    rig.initialize(client, "{}");
    let text = "x".repeat(60_000);
    for number in 0..3 {
        rig.open(
            client,
            &format!("file:///lspool-rig/{number}.c"),
            "1",
            &text,
        );
    }
    rig.check_credit();
    rig.initialized(client);
    assert_eq!(
        rig.server_methods(),
        [
            "initialize",
            "initialized",
            "textDocument/didOpen",
            "textDocument/didOpen",
            "textDocument/didOpen"
        ]
    );
    rig.end();
}
