//! Random clients, servers and faults against what must hold whatever comes in whatever order.
//!
//! Besides the rig's own invariants: a client's messages reach the server in their order, nothing of a server overtakes
//! what it sent before, a request is asked on the text of the client that asks, and at the end nobody waits.

use std::collections::BTreeMap;

use lspool_normalize::request::{View, Wait};
use lspool_normalize::{Encoding, Operation, edit};
use lspool_pool::core::{ClientId, Event, Generation, InstanceId, Link};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::rig::{FILE, Rig};

#[derive(Clone, Debug)]
enum Op {
    Attach(bool),
    Open(usize, usize, String),
    Replace(usize, usize, String),
    Edit(usize, usize, (u32, u32), (u32, u32), String),
    Close(usize, usize),
    Save(usize, usize),
    Request(usize),
    Notify(usize, usize),
    Cancel(usize, usize),
    Shutdown(usize),
    Exit(usize),
    Die(usize),
    AnswerAsked(usize),
    ServerAnswers(usize, bool),
    ServerTells(usize),
    ServerAsks(bool),
    Crash,
    Advance(u64),
    ClientReads(usize, bool),
    ServerReads(bool),
    HoldJobs(bool),
    FinishJob,
    Query { waits: bool, editor: bool },
    Disk(String),
    Stop,
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("int a;\n".to_owned()),
        "[a-c\n\r😀é]{0,12}",
    ]
}

fn position() -> impl Strategy<Value = (u32, u32)> {
    (0..4_u32, 0..8_u32)
}

fn op() -> impl Strategy<Value = Op> {
    let client = 0..4_usize;
    let file = 0..2_usize;
    prop_oneof![
        3 => any::<bool>().prop_map(Op::Attach),
        4 => (client.clone(), file.clone(), text()).prop_map(|(c, f, t)| Op::Open(c, f, t)),
        4 => (client.clone(), file.clone(), text()).prop_map(|(c, f, t)| Op::Replace(c, f, t)),
        4 => (client.clone(), file.clone(), position(), position(), text())
            .prop_map(|(c, f, a, b, t)| Op::Edit(c, f, a, b, t)),
        2 => (client.clone(), file.clone()).prop_map(|(c, f)| Op::Close(c, f)),
        1 => (client.clone(), file).prop_map(|(c, f)| Op::Save(c, f)),
        8 => client.clone().prop_map(Op::Request),
        4 => (client.clone(), prop_oneof![9 => Just(1), 1 => Just(350_000_usize)])
            .prop_map(|(c, size)| Op::Notify(c, size)),
        3 => (client.clone(), 0..6_usize).prop_map(|(c, k)| Op::Cancel(c, k)),
        1 => client.clone().prop_map(Op::Shutdown),
        1 => client.clone().prop_map(Op::Exit),
        1 => client.clone().prop_map(Op::Die),
        3 => client.clone().prop_map(Op::AnswerAsked),
        8 => (0..6_usize, any::<bool>()).prop_map(|(k, ok)| Op::ServerAnswers(k, ok)),
        4 => prop_oneof![9 => Just(1), 1 => Just(350_000_usize)].prop_map(Op::ServerTells),
        2 => any::<bool>().prop_map(Op::ServerAsks),
        1 => Just(Op::Crash),
        3 => prop_oneof![Just(1), Just(100), Just(600), Just(2_100), Just(31_000)].prop_map(Op::Advance),
        1 => (client, any::<bool>()).prop_map(|(c, reads)| Op::ClientReads(c, reads)),
        1 => any::<bool>().prop_map(Op::ServerReads),
        1 => any::<bool>().prop_map(Op::HoldJobs),
        3 => Just(Op::FinishJob),
        2 => (any::<bool>(), any::<bool>())
            .prop_map(|(waits, editor)| Op::Query { waits, editor }),
        1 => text().prop_map(Op::Disk),
        1 => Just(Op::Stop),
    ]
}

struct Model {
    rig: Rig,
    harness: ClientId,
    clients: Vec<ClientId>,
    texts: BTreeMap<ClientId, BTreeMap<String, String>>,
    /// Numbers of a client's messages, and the last of a server's that each client saw.
    sent: u64,
    told: u64,
    seen: BTreeMap<ClientId, u64>,
    /// Clients that sent `shutdown`, by its id: what they tell afterwards counts no more.
    left: BTreeMap<ClientId, u64>,
    version: i64,
}

fn file(index: usize) -> String {
    ["file:///lspool-rig/a.c", "file:///lspool-rig/b.c"][index].to_owned()
}

impl Model {
    fn new() -> Self {
        let mut rig = Rig::new();
        let harness = rig.harness();
        rig.got(harness);
        Self {
            rig,
            harness,
            clients: Vec::new(),
            texts: BTreeMap::new(),
            sent: 0,
            told: 0,
            seen: BTreeMap::new(),
            left: BTreeMap::new(),
            version: 0,
        }
    }

    /// The attached client of that number, if there is one that can still send.
    fn client(&self, index: usize) -> Option<ClientId> {
        let client = *self.clients.get(index % self.clients.len().max(1))?;
        self.rig.clients[&client].closed.is_none().then_some(client)
    }

    /// The same, and in session.
    fn texts_of(&mut self, client: ClientId) -> Option<&mut BTreeMap<String, String>> {
        if self.left.contains_key(&client) {
            return None;
        }
        self.texts.get_mut(&client)
    }

    /// The newest process that lives.
    fn server(&self) -> Option<(InstanceId, Generation)> {
        self.rig
            .servers
            .iter()
            .rev()
            .find(|(_, server)| !server.dead)
            .map(|(at, _)| *at)
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Attach(able) => {
                let capabilities = if able {
                    r#"{"workspace":{"configuration":true,"applyEdit":true}}"#
                } else {
                    "{}"
                };
                let client = self.rig.attach(capabilities);
                self.clients.push(client);
                self.texts.insert(client, BTreeMap::new());
            }
            Op::Open(index, name, text) => {
                let Some(client) = self.client(index) else {
                    return;
                };
                self.version += 1;
                let version = self.version.to_string();
                self.rig.open(client, &file(name), &version, &text);
                if let Some(texts) = self.texts_of(client) {
                    texts.insert(file(name), text);
                }
            }
            Op::Replace(index, name, text) => {
                self.change(index, name, &edit::Change { range: None, text });
            }
            Op::Edit(index, name, start, end, text) => {
                let place = |(line, character)| lspool_normalize::Position { line, character };
                let range = lspool_normalize::Range {
                    start: place(start.min(end)),
                    end: place(start.max(end)),
                };
                let range = Some(range);
                self.change(index, name, &edit::Change { range, text });
            }
            Op::Close(index, name) => {
                let Some(client) = self.client(index) else {
                    return;
                };
                if let Some(texts) = self.texts_of(client) {
                    texts.remove(&file(name));
                }
                self.rig.close(client, &file(name));
            }
            Op::Save(index, name) => {
                let Some(client) = self.client(index) else {
                    return;
                };
                let params = json!({"textDocument":{"uri":file(name)}}).to_string();
                self.rig.notify(client, "textDocument/didSave", &params);
            }
            Op::Request(index) => {
                let Some(client) = self.client(index) else {
                    return;
                };
                self.sent += 1;
                let texts = self.texts[&client].clone();
                self.rig.expected.insert((client.0, self.sent), texts);
                let params = format!(r#"{{"client":{},"n":{}}}"#, client.0, self.sent);
                self.rig
                    .request(client, &self.sent.to_string(), "x/ask", &params);
            }
            Op::Notify(index, size) => {
                let Some(client) = self.client(index) else {
                    return;
                };
                self.sent += 1;
                let fill = "y".repeat(size);
                let params = format!(
                    r#"{{"client":{},"n":{},"fill":"{fill}"}}"#,
                    client.0, self.sent
                );
                self.rig.notify(client, "x/tell", &params);
            }
            Op::Cancel(index, back) => {
                let Some(client) = self.client(index) else {
                    return;
                };
                let id = self.sent.saturating_sub(back as u64);
                if !self.left.values().any(|shutdown| *shutdown == id) {
                    self.rig.cancel(client, &id.to_string());
                }
            }
            Op::Shutdown(index) => {
                let Some(client) = self.client(index) else {
                    return;
                };
                self.sent += 1;
                self.rig
                    .request(client, &self.sent.to_string(), "shutdown", "null");
                self.left.entry(client).or_insert(self.sent);
            }
            Op::Exit(index) => {
                let Some(client) = self.client(index) else {
                    return;
                };
                self.rig.notify(client, "exit", "null");
            }
            Op::Die(index) => {
                let Some(client) = self.client(index) else {
                    return;
                };
                self.rig.kill(client);
            }
            Op::AnswerAsked(index) => {
                let Some(client) = self.client(index) else {
                    return;
                };
                let Some(id) = self.rig.clients[&client].asked.first().cloned() else {
                    return;
                };
                let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":null}}"#, id.raw());
                self.rig.send(client, &body);
            }
            Op::ServerAnswers(index, succeeds) => self.server_answers(index, succeeds),
            Op::ServerTells(size) => {
                let Some(at) = self.server() else { return };
                self.told += 1;
                let fill = "y".repeat(size);
                let body = format!(
                    r#"{{"jsonrpc":"2.0","method":"y/tell","params":{{"told":{},"fill":"{fill}"}}}}"#,
                    self.told
                );
                self.rig.server_says(at, &body);
            }
            Op::ServerAsks(settings) => {
                let Some(at) = self.server() else { return };
                self.told += 1;
                let method = if settings {
                    "workspace/configuration"
                } else {
                    "workspace/applyEdit"
                };
                let body = format!(
                    r#"{{"jsonrpc":"2.0","id":{},"method":"{method}","params":{{"items":[{{}}]}}}}"#,
                    self.told
                );
                self.rig.server_says(at, &body);
            }
            Op::Crash => {
                let Some(at) = self.server() else { return };
                self.rig.exits_at(at, "signal 11");
            }
            Op::Advance(milliseconds) => self.rig.advance(milliseconds),
            Op::ClientReads(index, reads) => {
                let Some(client) = self.client(index) else {
                    return;
                };
                self.rig.set_reads(Link::Client(client), reads);
            }
            Op::ServerReads(reads) => {
                let Some(at) = self.server() else { return };
                self.rig.set_reads(Link::Server(at.0, at.1), reads);
            }
            Op::HoldJobs(hold) => {
                self.rig.hold.compose = hold;
                self.rig.hold.reread = hold;
            }
            Op::FinishJob => {
                if let Some(job) = self.rig.jobs.keys().next().copied() {
                    self.rig.finish_job(job);
                }
            }
            Op::Query { waits, editor } => {
                self.rig
                    .query_with(self.harness, Operation::Hover, |request| {
                        request.wait = (!waits).then_some(Wait::None);
                        request.timeout_ms = Some(20_000);
                        request.view = editor.then_some(View::Editor);
                    });
            }
            Op::Disk(text) => {
                self.version += 1;
                let version = u32::try_from(self.version).unwrap();
                self.rig.disk.insert(FILE.to_owned(), (text, version));
            }
            Op::Stop => {
                let Some((instance, _)) = self.server() else {
                    return;
                };
                self.rig.handle(Event::Stop { instance });
            }
        }
        self.look();
    }

    fn change(&mut self, index: usize, name: usize, change: &edit::Change) {
        let Some(client) = self.client(index) else {
            return;
        };
        let Some(text) = self
            .texts_of(client)
            .and_then(|texts| texts.get_mut(&file(name)))
        else {
            return;
        };
        *text = edit::apply_all(text, std::slice::from_ref(change), Encoding::Utf16);
        self.version += 1;
        let params = json!({
            "textDocument": {"uri": file(name), "version": self.version % 7 - 3},
            "contentChanges": [change],
        });
        self.rig
            .notify(client, "textDocument/didChange", &params.to_string());
    }

    fn server_answers(&mut self, index: usize, succeeds: bool) {
        let Some(at) = self.server() else { return };
        let open = &self.rig.servers[&at].open;
        if open.is_empty() {
            return;
        }
        let (number, _) = open[index % open.len()].clone();
        self.told += 1;
        let outcome = if succeeds {
            format!(r#""result":{{"told":{}}}"#, self.told)
        } else {
            format!(
                r#""error":{{"code":-32801,"message":"m","data":{{"told":{}}}}}"#,
                self.told
            )
        };
        self.rig.server_says(
            at,
            &format!(r#"{{"jsonrpc":"2.0","id":{number},{outcome}}}"#),
        );
    }

    /// Looks at what clients got: the numbers of one server never fall.
    fn look(&mut self) {
        for client in self.clients.clone() {
            for value in self.rig.got_values(client) {
                let places = ["/params/told", "/result/told", "/error/data/told"];
                let Some(told) = places
                    .iter()
                    .find_map(|place| value.pointer(place).and_then(Value::as_u64))
                else {
                    continue;
                };
                let last = self.seen.insert(client, told);
                assert!(
                    last.is_none_or(|last| last < told),
                    "{client} saw {told} after {last:?}"
                );
            }
        }
    }

    /// Lets everybody read and answer until nobody waits, and looks that this is so.
    fn end(mut self) {
        self.rig.hold.compose = false;
        self.rig.hold.reread = false;
        for client in self.clients.clone() {
            self.rig.set_reads(Link::Client(client), true);
        }
        for _ in 0..40 {
            for at in self.rig.servers.keys().copied().collect::<Vec<_>>() {
                self.rig.set_reads(Link::Server(at.0, at.1), true);
            }
            self.rig.finish_jobs();
            while self
                .server()
                .is_some_and(|at| !self.rig.servers[&at].open.is_empty())
            {
                self.server_answers(0, true);
            }
            for at in self.rig.servers.keys().copied().collect::<Vec<_>>() {
                while !self.rig.servers[&at].dead && !self.rig.servers[&at].open.is_empty() {
                    let number = self.rig.servers[&at].open[0].0;
                    self.rig.server_says(
                        at,
                        &format!(r#"{{"jsonrpc":"2.0","id":{number},"result":null}}"#),
                    );
                }
            }
            self.rig.advance(1_000);
        }
        self.look();
        for client in &self.clients {
            let fake = &self.rig.clients[client];
            assert!(
                fake.closed.is_some() || fake.open.is_empty(),
                "{client} waits for {:?}",
                fake.open
            );
        }
        assert_eq!(self.rig.core.status().queries, 0, "no query waits");
        self.check_texts();
        self.rig.end();
    }

    /// The text of an open document is that of a client which has it open, as long as one has.
    fn check_texts(&self) {
        let status = self.rig.core.status();
        for instance in &status.instances {
            let server = self
                .rig
                .servers
                .iter()
                .rev()
                .find(|((id, _), server)| id.to_string() == instance.id && !server.dead);
            let Some((_, server)) = server else { continue };
            for (uri, text) in &server.texts {
                let holders: Vec<&String> = self
                    .texts
                    .iter()
                    .filter(|(client, _)| instance.clients.contains(&client.to_string()))
                    .filter_map(|(_, texts)| texts.get(uri))
                    .collect();
                assert!(
                    holders.is_empty() || holders.contains(&text),
                    "{uri} has a text of nobody: {text:?}"
                );
            }
        }
    }
}

proptest! {
    #[test]
    fn given_any_run_then_everybody_gets_what_is_theirs_in_order_and_once(
        ops in prop::collection::vec(op(), 1..60)
    ) {
        let mut model = Model::new();
        model.step(Op::Attach(true));
        for op in ops {
            model.step(op);
        }
        model.end();
    }
}
