//! Fake servers: what they say, and what a real one would make of what they hear.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use lspool_normalize::{Encoding, edit};
use lspool_pool::core::{Event, ExitReport, Frame, Generation, InstanceId, Link};
use lspool_pool::edge::{Decoded, ServerEdge};
use lspool_pool::wire::{Kind, Message, RawId};
use serde_json::Value;

use super::Rig;

/// One process of a server as the rig plays it.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts of a fake process"
)]
pub(crate) struct FakeServer {
    pub(super) edge: ServerEdge,
    pub(super) reads: bool,
    pub(super) unread: Vec<usize>,
    pub(crate) inbox: Vec<String>,
    /// Requests that are not answered: (id, method).
    pub(crate) open: Vec<(u64, String)>,
    /// Its own requests that are not answered.
    pub(crate) asking: BTreeSet<RawId>,
    pub(crate) cancelled: Vec<u64>,
    pub(crate) texts: BTreeMap<String, String>,
    pub(crate) versions: BTreeMap<String, i64>,
    /// The last number heard of each client of the property test.
    pub(super) heard: BTreeMap<u64, u64>,
    pub(crate) input_closed: bool,
    pub(crate) terminated: bool,
    pub(crate) dead: bool,
}

impl Rig {
    /// The newest process.
    pub(crate) fn server(&self) -> (InstanceId, Generation) {
        *self.servers.keys().next_back().expect("a server runs")
    }

    pub(crate) fn fake(&mut self, at: (InstanceId, Generation)) -> &mut FakeServer {
        self.servers.get_mut(&at).unwrap()
    }

    pub(super) fn server_event(
        &mut self,
        instance: InstanceId,
        generation: Generation,
        body: &str,
    ) -> Event {
        let message = Message::parse(Bytes::copy_from_slice(body.as_bytes())).unwrap();
        let server = self.servers.get_mut(&(instance, generation)).unwrap();
        match message.kind() {
            Kind::Response | Kind::ErrorResponse => {
                let id = message.id().and_then(RawId::as_u64);
                server.open.retain(|(number, _)| Some(*number) != id);
            }
            Kind::Request => {
                server.asking.insert(message.id().unwrap().clone());
            }
            Kind::Notification => {}
        }
        let decoded = server.edge.decode(&message);
        let link = Link::Server(instance, generation);
        let credit = body.len() as u32;
        *self.credit.entry(link).or_default() += i64::from(credit);
        let frame = Box::new(Frame {
            message,
            decoded,
            credit,
        });
        Event::Frame { link, frame }
    }

    pub(crate) fn server_says(&mut self, at: (InstanceId, Generation), body: &str) {
        let event = self.server_event(at.0, at.1, body);
        self.handle(event);
    }

    /// The server tells something.
    pub(crate) fn tell(&mut self, method: &str, params: &str) {
        let at = self.server();
        self.server_says(
            at,
            &format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#),
        );
    }

    /// The server asks something.
    pub(crate) fn ask(&mut self, id: &str, method: &str, params: &str) {
        let at = self.server();
        self.server_says(
            at,
            &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#),
        );
    }

    /// The server takes a request of its own back.
    pub(crate) fn withdraw(&mut self, id: &str) {
        let at = self.server();
        let body =
            format!(r#"{{"jsonrpc":"2.0","method":"$/cancelRequest","params":{{"id":{id}}}}}"#);
        let mut event = self.server_event(at.0, at.1, &body);
        if let Event::Frame { frame, .. } = &mut event {
            let start = body.find(r#""id":"#).unwrap() + 5;
            frame.decoded = Decoded::Cancel {
                id: RawId::parse(id).unwrap(),
                span: start..start + id.len(),
            };
        }
        self.handle(event);
    }

    /// The server answers its oldest open request for a method.
    pub(crate) fn serve(&mut self, method: &str, result: &str) {
        let at = self.server();
        let number = self.number(at, method);
        self.server_says(
            at,
            &format!(r#"{{"jsonrpc":"2.0","id":{number},"result":{result}}}"#),
        );
    }

    pub(crate) fn refuse(&mut self, method: &str, code: i64) {
        let at = self.server();
        let number = self.number(at, method);
        self.server_says(
            at,
            &format!(
                r#"{{"jsonrpc":"2.0","id":{number},"error":{{"code":{code},"message":"no"}}}}"#
            ),
        );
    }

    /// The id of the oldest open request for a method.
    pub(crate) fn number(&self, at: (InstanceId, Generation), method: &str) -> u64 {
        let open = &self.servers[&at].open;
        open.iter()
            .find(|(_, name)| name == method)
            .unwrap_or_else(|| panic!("{method} is not in flight: {open:?}"))
            .0
    }

    /// What the newest process got since the last look.
    pub(crate) fn server_got(&mut self) -> Vec<String> {
        let at = self.server();
        std::mem::take(&mut self.fake(at).inbox)
    }

    /// The methods that the newest process got since the last look; answers are `(answer)`.
    pub(crate) fn server_methods(&mut self) -> Vec<String> {
        self.server_got()
            .iter()
            .map(|body| {
                let value: Value = serde_json::from_str(body).unwrap();
                value["method"].as_str().unwrap_or("(answer)").to_owned()
            })
            .collect()
    }

    /// The answer that the newest process got to a request of its own.
    pub(crate) fn server_answer(&mut self, id: &Value) -> Value {
        let got: Vec<Value> = self
            .server_got()
            .iter()
            .map(|body| serde_json::from_str(body).unwrap())
            .collect();
        got.iter()
            .find(|value| value.get("method").is_none() && value["id"] == *id)
            .unwrap_or_else(|| panic!("no answer to {id} in {got:?}"))
            .clone()
    }

    /// The newest process ends by itself.
    pub(crate) fn exits(&mut self, outcome: &str) {
        let (instance, generation) = self.server();
        self.exits_at((instance, generation), outcome);
    }

    pub(crate) fn exits_at(&mut self, at: (InstanceId, Generation), outcome: &str) {
        if !self.fake(at).dead {
            self.die(at, outcome);
            self.pump();
        }
    }

    pub(super) fn die(&mut self, at: (InstanceId, Generation), outcome: &str) {
        self.fake(at).dead = true;
        let report = ExitReport {
            outcome: outcome.to_owned(),
            stderr: "last words".to_owned(),
        };
        self.queue.push_back(Event::Exited {
            instance: at.0,
            generation: at.1,
            report,
        });
    }
}

impl FakeServer {
    /// Takes a message as a real server does.
    pub(super) fn take(
        &mut self,
        message: &Message,
        body: String,
        expected: &BTreeMap<(u64, u64), BTreeMap<String, String>>,
    ) {
        let value: Value = serde_json::from_str(&body).unwrap();
        let params = &value["params"];
        if let (Some(client), Some(n)) = (params["client"].as_u64(), params["n"].as_u64()) {
            let last = self.heard.insert(client, n);
            assert!(
                last.is_none_or(|last| last < n),
                "{client}: {n} after {last:?}"
            );
            for (uri, text) in expected.get(&(client, n)).into_iter().flatten() {
                assert_eq!(
                    self.texts.get(uri),
                    Some(text),
                    "{uri} at request {n} of {client}"
                );
            }
        }
        match (message.kind(), message.method().as_deref()) {
            (Kind::Request, Some(method)) => {
                let id = message
                    .id()
                    .and_then(RawId::as_u64)
                    .expect("the pool's ids are numbers");
                self.open.push((id, method.to_owned()));
            }
            (Kind::Response | Kind::ErrorResponse, _) => {
                let id = message.id().unwrap();
                assert!(
                    self.asking.remove(id),
                    "an answer to nothing the server asks: {body}"
                );
            }
            (_, Some("$/cancelRequest")) => {
                self.cancelled.push(params["id"].as_u64().unwrap());
            }
            (_, Some("textDocument/didOpen")) => {
                let document = &params["textDocument"];
                let uri = document["uri"].as_str().unwrap().to_owned();
                self.rise(&uri, document);
                let text = document["text"].as_str().unwrap().to_owned();
                assert!(
                    self.texts.insert(uri, text).is_none(),
                    "opened twice: {body}"
                );
            }
            (_, Some("textDocument/didChange")) => {
                let document = &params["textDocument"];
                let uri = document["uri"].as_str().unwrap().to_owned();
                self.rise(&uri, document);
                let changes: Vec<edit::Change> =
                    serde_json::from_value(params["contentChanges"].clone()).unwrap();
                let text = self
                    .texts
                    .get_mut(&uri)
                    .expect("only an open document changes");
                *text = edit::apply_all(text, &changes, Encoding::Utf16);
            }
            (_, Some("textDocument/didClose")) => {
                let uri = params["textDocument"]["uri"].as_str().unwrap();
                assert!(self.texts.remove(uri).is_some(), "closed twice: {body}");
            }
            _ => {}
        }
        self.inbox.push(body);
    }

    pub(super) fn rise(&mut self, uri: &str, document: &Value) {
        let version = document["version"].as_i64().expect("a version");
        if let Some(last) = self.versions.insert(uri.to_owned(), version) {
            assert!(version > last, "{uri}: {version} after {last}");
        }
    }
}
