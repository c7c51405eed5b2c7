//! Fake clients: what they send, and what they got.

use std::collections::BTreeSet;

use bytes::Bytes;
use lspool_pool::core::{ClientFace, ClientId, ClientName, Event, Frame, Link};
use lspool_pool::edge::ClientEdge;
use lspool_pool::wire::{Kind, Message, RawId};
use serde_json::{Value, json};

use super::{FILE, ROOT, ROOT_URI, Rig};

/// A client as the rig plays it.
#[derive(Debug)]
pub(crate) struct FakeClient {
    pub(super) edge: ClientEdge,
    pub(super) reads: bool,
    pub(super) unread: Vec<usize>,
    pub(crate) inbox: Vec<String>,
    /// Requests that are not answered.
    pub(crate) open: BTreeSet<RawId>,
    /// Requests of servers that this client has not answered.
    pub(crate) asked: Vec<RawId>,
    pub(crate) closed: Option<i32>,
    pub(crate) notices: Vec<String>,
}

impl Rig {
    pub(crate) fn open_client(&mut self, face: ClientFace) -> ClientId {
        self.next_client += 1;
        let client = ClientId(self.next_client);
        let fake = FakeClient {
            edge: ClientEdge::new(),
            reads: true,
            unread: Vec::new(),
            inbox: Vec::new(),
            open: BTreeSet::new(),
            asked: Vec::new(),
            closed: None,
            notices: Vec::new(),
        };
        self.clients.insert(client, fake);
        let name = ClientName {
            pid: 1,
            name: "test".to_owned(),
        };
        self.handle(Event::ClientOpened { client, face, name });
        client
    }

    /// A connection of an editor for `program` that has sent nothing.
    pub(crate) fn client(&mut self, program: &str) -> ClientId {
        self.open_client(ClientFace::Server {
            argv: vec![program.into()],
        })
    }

    /// A connection of a harness in session.
    pub(crate) fn harness(&mut self) -> ClientId {
        let client = self.open_client(ClientFace::Harness {
            root: Some(ROOT.into()),
        });
        self.initialize(client, "{}");
        self.initialized(client);
        client
    }

    pub(crate) fn initialize(&mut self, client: ClientId, capabilities: &str) {
        let params =
            format!(r#"{{"processId":1,"rootUri":"{ROOT_URI}","capabilities":{capabilities}}}"#);
        self.request(client, r#""init""#, "initialize", &params);
    }

    pub(crate) fn initialized(&mut self, client: ClientId) {
        self.notify(client, "initialized", "{}");
    }

    /// An editor in session; its handshake is read away.
    pub(crate) fn attach(&mut self, capabilities: &str) -> ClientId {
        let client = self.client("clangd");
        self.initialize(client, capabilities);
        self.initialized(client);
        self.clients.get_mut(&client).unwrap().inbox.clear();
        client
    }

    pub(crate) fn send(&mut self, client: ClientId, body: &str) {
        let message = Message::parse(Bytes::copy_from_slice(body.as_bytes())).unwrap();
        let fake = self.clients.get_mut(&client).unwrap();
        match message.kind() {
            Kind::Request => {
                fake.open.insert(message.id().unwrap().clone());
            }
            Kind::Response | Kind::ErrorResponse => {
                let id = message.id().unwrap().clone();
                fake.asked.retain(|asked| *asked != id);
            }
            Kind::Notification => {}
        }
        let decoded = fake.edge.decode(&message);
        let link = Link::Client(client);
        let credit = body.len() as u32;
        *self.credit.entry(link).or_default() += i64::from(credit);
        let frame = Box::new(Frame {
            message,
            decoded,
            credit,
        });
        self.handle(Event::Frame { link, frame });
    }

    pub(crate) fn request(&mut self, client: ClientId, id: &str, method: &str, params: &str) {
        self.send(
            client,
            &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#),
        );
    }

    pub(crate) fn hover(&mut self, client: ClientId, id: &str) {
        let params = format!(
            r#"{{"textDocument":{{"uri":"{FILE}"}},"position":{{"line":0,"character":0}}}}"#
        );
        self.request(client, id, "textDocument/hover", &params);
    }

    pub(crate) fn notify(&mut self, client: ClientId, method: &str, params: &str) {
        self.send(
            client,
            &format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#),
        );
    }

    pub(crate) fn cancel(&mut self, client: ClientId, id: &str) {
        self.notify(client, "$/cancelRequest", &format!(r#"{{"id":{id}}}"#));
    }

    pub(crate) fn open(&mut self, client: ClientId, uri: &str, version: &str, text: &str) {
        let params = format!(
            r#"{{"textDocument":{{"uri":"{uri}","languageId":"c","version":{version},"text":{}}}}}"#,
            json!(text)
        );
        self.notify(client, "textDocument/didOpen", &params);
    }

    /// Replaces the whole text.
    pub(crate) fn change(&mut self, client: ClientId, uri: &str, version: &str, text: &str) {
        let params = format!(
            r#"{{"textDocument":{{"uri":"{uri}","version":{version}}},"contentChanges":[{{"text":{}}}]}}"#,
            json!(text)
        );
        self.notify(client, "textDocument/didChange", &params);
    }

    pub(crate) fn close(&mut self, client: ClientId, uri: &str) {
        let params = format!(r#"{{"textDocument":{{"uri":"{uri}"}}}}"#);
        self.notify(client, "textDocument/didClose", &params);
    }

    /// Both directions of a connection break at once.
    pub(crate) fn kill(&mut self, client: ClientId) {
        for reason in ["end of input", "writing failed"] {
            self.handle(Event::LinkClosed {
                link: Link::Client(client),
                reason: reason.to_owned(),
            });
        }
    }

    /// What a client got since the last look.
    pub(crate) fn got(&mut self, client: ClientId) -> Vec<String> {
        std::mem::take(&mut self.clients.get_mut(&client).unwrap().inbox)
    }

    /// The same as values.
    pub(crate) fn got_values(&mut self, client: ClientId) -> Vec<Value> {
        self.got(client)
            .iter()
            .map(|body| serde_json::from_str(body).unwrap())
            .collect()
    }

    /// The one answer to a request that a client got since the last look.
    pub(crate) fn answer(&mut self, client: ClientId, id: &Value) -> Value {
        let got = self.got_values(client);
        let mut answers = got
            .iter()
            .filter(|value| value.get("method").is_none() && value["id"] == *id);
        let answer = answers
            .next()
            .unwrap_or_else(|| panic!("no answer to {id} in {got:?}"));
        assert!(answers.next().is_none(), "one answer to {id} in {got:?}");
        answer.clone()
    }
}
