//! One attached connection: its phase, what it has in flight, and the documents it holds open.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::path::PathBuf;

use serde::Serialize;

use crate::edge::{InitializeFacts, Text, TextId};
use crate::wire::RawId;

use super::event::{Frame, LaunchOutcome};
use super::ids::{CallId, Generation, InstanceId, Tick};
use super::outbox::Outbox;

/// What a connection is for.
#[derive(Clone, Debug)]
pub enum ClientFace {
    /// One server, named by its command line.
    Server {
        /// The command and its arguments.
        argv: Vec<OsString>,
    },
    /// The custom methods, without a fixed server.
    Harness {
        /// The root that the person named.
        root: Option<PathBuf>,
    },
}

/// Who a connection is, for people.
#[derive(Clone, Debug, Serialize)]
pub struct ClientName {
    /// The peer's process.
    pub pid: u32,
    /// The name of the peer's program or face.
    pub name: String,
}

/// Where a client stands in the protocol's life cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No `initialize` yet.
    New,
    /// `initialize` came; its answer is not sent.
    Initializing,
    /// The answer is sent, `initialized` has not come.
    Answered,
    /// In session.
    Live,
    /// `shutdown` was answered.
    ShutDown,
    /// The connection is being closed.
    Closing,
}

/// A client's last word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Farewell {
    /// `exit`: nothing more will be asked, and the peer is to end soon.
    Exit,
    /// The end of its input, behind which a script may read on for what it asked.
    EndOfInput,
}

/// A document that a client holds open.
#[derive(Clone, Debug)]
pub(super) struct ClientDocument {
    /// The client's text.
    pub(super) text: Text,
    /// The client's version, absent when it named none.
    pub(super) version: Option<i64>,
    /// The client's version for its latest texts, newest last.
    pub(super) versions: VecDeque<(TextId, Option<i64>)>,
}

/// What a client calls a text that it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VersionOfText {
    /// By a version.
    Named(i64),
    /// By none: it sent the text without one.
    Unnamed,
}

/// Texts whose versions are remembered per document.
pub(super) const VERSIONS_KEPT: usize = 64;

impl ClientDocument {
    pub(super) fn new(text: Text, version: Option<i64>) -> Self {
        let versions = VecDeque::from([(text.id, version)]);
        Self {
            text,
            version,
            versions,
        }
    }

    pub(super) fn replace(&mut self, text: Text, version: Option<i64>) {
        if self.versions.len() == VERSIONS_KEPT {
            self.versions.pop_front();
        }
        self.versions.push_back((text.id, version));
        self.text = text;
        self.version = version;
    }

    /// The client's version of a text: the latest one when it had the text more than once.
    pub(super) fn version_of(&self, text: TextId) -> Option<VersionOfText> {
        self.versions
            .iter()
            .rev()
            .find(|(id, _)| *id == text)
            .map(|(_, version)| version.map_or(VersionOfText::Unnamed, VersionOfText::Named))
    }
}

/// A request of a server whose answer this client owes. Answers to what a client was only told are dropped like those
/// to unknown requests.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) instance: InstanceId,
    pub(super) generation: Generation,
    /// The server's id.
    pub(super) id: RawId,
}

/// One attached connection.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) face: ClientFace,
    pub(super) name: ClientName,
    pub(super) phase: Phase,
    pub(super) attached_at: Tick,
    /// The id of `initialize`, until it is answered.
    pub(super) initialize_id: Option<RawId>,
    pub(super) facts: Option<Box<InitializeFacts>>,
    pub(super) launch: Option<Box<LaunchOutcome>>,
    /// The servers that this connection uses, in order of precedence.
    pub(super) instances: Vec<InstanceId>,
    pub(super) outbox: Outbox,
    /// Frames that wait for their turn, in order.
    pub(super) parked: VecDeque<Frame>,
    /// How many of the first of them are known to wait for `initialized`: a long queue is looked through once.
    pub(super) examined: usize,
    /// Bytes of frames that were held for the handshake without credit.
    pub(super) held_bytes: usize,
    /// Requests in flight: the client's id → the instance and the id there.
    pub(super) requests: BTreeMap<RawId, (InstanceId, u64)>,
    /// Custom methods in flight.
    pub(super) calls: BTreeMap<RawId, CallId>,
    /// Requests of servers that this client was asked.
    pub(super) asked: BTreeMap<u64, Asked>,
    pub(super) documents: BTreeMap<String, ClientDocument>,
    /// Rises with each message: who was active last.
    pub(super) activity: u64,
    /// The exit code of the face when the connection ends now.
    pub(super) exit_code: i32,
    /// Whether the input side has ended.
    pub(super) input_ended: bool,
    /// Set once it said its last word and only waits for what it is owed.
    pub(super) leaving: Option<Farewell>,
}

impl Client {
    pub(super) fn new(face: ClientFace, name: ClientName, outbox_bytes: usize, now: Tick) -> Self {
        Self {
            face,
            name,
            phase: Phase::New,
            attached_at: now,
            initialize_id: None,
            facts: None,
            launch: None,
            instances: Vec::new(),
            outbox: Outbox::new(outbox_bytes, now),
            parked: VecDeque::new(),
            examined: 0,
            held_bytes: 0,
            requests: BTreeMap::new(),
            calls: BTreeMap::new(),
            asked: BTreeMap::new(),
            documents: BTreeMap::new(),
            activity: 0,
            exit_code: 1,
            input_ended: false,
            leaving: None,
        }
    }

    /// Whether it can still answer what a server asks.
    pub(super) fn can_be_asked(&self) -> bool {
        self.phase == Phase::Live && !self.is_leaving()
    }

    /// Whether something that it asked is not answered yet.
    pub(super) fn is_owed(&self) -> bool {
        self.initialize_id.is_some()
            || !self.requests.is_empty()
            || !self.calls.is_empty()
            || self.has_parked()
    }

    pub(super) fn has_parked(&self) -> bool {
        !self.parked.is_empty()
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    pub(super) fn is_closing(&self) -> bool {
        self.phase == Phase::Closing
    }

    /// The name for people: what the client said of itself, else its program.
    pub(super) fn display_name(&self) -> &str {
        self.facts
            .as_ref()
            .and_then(|facts| facts.client_name.as_deref())
            .unwrap_or(&self.name.name)
    }
}
