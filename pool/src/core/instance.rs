//! One pooled server: its identity, its life from start to proof of its end, and what it holds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use lspool_normalize::UriKey;
use lspool_world::{Environment, TargetKey};

use crate::edge::{Registration, ServerFacts, Text, TextId};
use crate::registry::{Definition, LaunchFacts};
use crate::wire::{Message, RawId};

use super::disturbed::Again;
use super::effect::Effect;
use super::event::Frame;
use super::ids::{ClientId, Generation, InstanceId, Link, QueryTicket, Tick};
use super::outbox::Outbox;
use super::readiness::Readiness;

/// What starts a server's process.
#[derive(Clone, Debug)]
pub struct ServerLaunch {
    /// The command; the program is absolute.
    pub argv: Vec<OsString>,
    /// The working directory.
    pub cwd: PathBuf,
    /// The environment, before the scrub.
    pub environment: Environment,
    /// Whether credential-shaped names are removed.
    pub scrub: bool,
    /// The file mode mask: that of the client for which the server is started.
    pub umask: u32,
}

/// What makes two servers one.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) launch: LaunchFacts,
    /// The folders as spelled, normalised for comparison.
    pub(super) folders: Vec<UriKey>,
    /// Digest of the raised capabilities.
    pub(super) profile: u128,
}

impl Identity {
    pub(super) fn matches(&self, other: &Self) -> bool {
        self.launch.digest == other.launch.digest
            && self.folders == other.folders
            && self.profile == other.profile
    }
}

/// Where an instance stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// A process is being started.
    Starting,
    /// `initialize` is sent.
    Initializing,
    /// In service.
    Ready,
    /// The process died; the next start is armed.
    Restarting,
    /// The end ladder: `shutdown` is sent.
    ShuttingDown,
    /// The end ladder: `exit` is sent and the input closed.
    Exiting,
    /// The process tree is being ended.
    Terminating,
}

/// Who is to get the answer of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Requester {
    /// A client, by its own id.
    Client(ClientId, RawId),
    /// A query.
    Query(QueryTicket),
    /// The pool's own `initialize`.
    Initialize,
    /// The pool's own `shutdown`.
    Shutdown,
    /// Nobody any more; the answer is dropped.
    Gone,
}

/// A request that a server has not answered.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) requester: Requester,
    pub(super) method: String,
    pub(super) document: Option<String>,
    pub(super) tokens: Vec<RawId>,
    pub(super) sent_at: Tick,
    pub(super) cancelled: bool,
    /// What it is sent again with when another client's text disturbed it.
    pub(super) again: Option<Box<Again>>,
}

/// A document that the server holds open.
#[derive(Clone, Debug)]
pub(super) struct ServerDocument {
    /// The text that the server has.
    pub(super) text: Text,
    /// Its version at the server.
    pub(super) version: i64,
    pub(super) language: String,
    /// The clients that hold it open.
    pub(super) clients: BTreeSet<ClientId>,
    /// Set while queries hold it.
    pub(super) query: Option<QueryHold>,
    /// The texts of the latest versions, newest last.
    pub(super) versions: VecDeque<(i64, TextId)>,
    /// Whether the server missed a change while it did not read.
    pub(super) behind: bool,
    /// The latest diagnostics for this document.
    pub(super) diagnostics: Option<Diagnostics>,
}

/// Diagnostics as the server published them, and the text that they are about.
#[derive(Clone, Debug)]
pub(super) struct Diagnostics {
    pub(super) about: TextId,
    /// The server's version, when it gave one.
    pub(super) version: Option<i64>,
    pub(super) version_span: Option<Range<usize>>,
    pub(super) message: Message,
}

/// Where the present process stands on its way out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProcessEnd {
    /// Set when its end was ordered because its output can serve nobody: what is said in place of the signal.
    pub(super) ordered: Option<&'static str>,
    /// Whether the process is known to have ended.
    pub(super) exited: bool,
    /// Whether its process tree is proved gone.
    pub(super) gone: bool,
    /// Whether the next process waits for that proof alone.
    pub(super) restart_due: bool,
}

/// That queries hold a document open.
#[derive(Clone, Debug)]
pub(super) struct QueryHold {
    pub(super) path: PathBuf,
    /// The file's text as last read: what the server has while no editor holds the document.
    pub(super) text: Text,
    pub(super) file_version: String,
    pub(super) last_use: Tick,
}

/// A progress of the server's own making.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    pub(super) begin: Option<Message>,
    pub(super) report: Option<Message>,
}

/// A token of a client's request that the server may report on.
#[derive(Clone, Debug)]
pub(super) struct ClientToken {
    pub(super) client: ClientId,
    /// The token as the client wrote it.
    pub(super) original: RawId,
}

/// A request of a server that waits for a client.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) client: ClientId,
    /// The id under which the client was asked.
    pub(super) number: u64,
    /// The answer in the client's place, `None` for an error.
    pub(super) neutral: Option<String>,
    /// Set for `workspace/configuration`, which another client can be asked as well.
    pub(super) settings: Option<SettingsQuestion>,
}

/// A `workspace/configuration` that goes from client to client.
#[derive(Clone, Debug)]
pub(super) struct SettingsQuestion {
    /// The request as the server sent it.
    pub(super) message: Message,
    /// The clients that gave no answer to it.
    pub(super) failed: Vec<ClientId>,
}

/// All that a new instance begins with.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) identity: Identity,
    pub(super) launch: Arc<ServerLaunch>,
    pub(super) definition: Option<Arc<Definition>>,
    pub(super) root_key: Option<TargetKey>,
    pub(super) root_path: Option<PathBuf>,
    pub(super) folders: Vec<String>,
    pub(super) initialize_params: String,
}

/// One pooled server.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) id: InstanceId,
    pub(super) generation: Generation,
    pub(super) phase: Phase,
    pub(super) identity: Identity,
    pub(super) launch: Arc<ServerLaunch>,
    pub(super) definition: Option<Arc<Definition>>,
    /// A short name for people: the definition's id, else the program's file name.
    pub(super) server: String,
    pub(super) root_key: Option<TargetKey>,
    pub(super) root_path: Option<PathBuf>,
    /// `params` of `initialize`, `processId` already set.
    pub(super) initialize_params: String,
    /// The folders as the first client spelled them.
    pub(super) folders_as_sent: Vec<String>,
    pub(super) facts: Option<Arc<ServerFacts>>,
    pub(super) initialized_sent: bool,
    /// Whether no client ever attached: only queries use it.
    pub(super) had_only_queries: bool,
    pub(super) clients: Vec<ClientId>,
    pub(super) queries: BTreeSet<QueryTicket>,
    /// Files outside of the root that its answers have named.
    pub(super) named_files: BTreeSet<UriKey>,
    pub(super) outbox: Outbox,
    pub(super) pending: BTreeMap<u64, Pending>,
    pub(super) documents: BTreeMap<String, ServerDocument>,
    /// The highest version told for each document that was open and closed.
    pub(super) closed_versions: BTreeMap<String, i64>,
    /// Diagnostics of files that nobody has open.
    pub(super) loose_diagnostics: BTreeMap<String, Message>,
    pub(super) registrations: Vec<Registration>,
    pub(super) progress: BTreeMap<RawId, Progress>,
    pub(super) client_tokens: BTreeMap<RawId, ClientToken>,
    /// Requests of the server that wait for a client, by the server's id.
    pub(super) asks: BTreeMap<RawId, Ask>,
    pub(super) readiness: Readiness,
    /// Frames of the server that wait: for the initialize answer, or for its only client.
    pub(super) parked: VecDeque<Frame>,
    /// Bytes of those that the present process sent before its initialize answer.
    pub(super) early_bytes: usize,
    /// Messages before an initialize answer that were dropped because they were too many.
    pub(super) dropped_early: u64,
    pub(super) stalled: bool,
    pub(super) crashes: VecDeque<Tick>,
    pub(super) restarts: u64,
    pub(super) last_exit: Option<String>,
    /// What it printed outside of any message before it was in service, or why its output cannot be read on.
    pub(super) printed: Option<String>,
    /// The last settings pushed by a client: digest and message.
    pub(super) configuration: Option<(u128, Message)>,
    pub(super) started_at: Tick,
    pub(super) pid: Option<u32>,
    /// Where the present process stands on its way out.
    pub(super) end: ProcessEnd,
    /// Why its process tree could not be ended, until that is tried again.
    pub(super) end_failure: Option<String>,
}

/// The id of the pool's `initialize` at every server.
pub(crate) const INITIALIZE_ID: u64 = 1;

impl Instance {
    pub(super) fn new(id: InstanceId, start: Start, outbox_bytes: usize, now: Tick) -> Self {
        let program = start
            .launch
            .argv
            .first()
            .map(PathBuf::from)
            .unwrap_or_default();
        let server = match &start.definition {
            Some(definition) => definition.id.clone(),
            None => program
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
        };
        Self {
            id,
            generation: Generation(1),
            phase: Phase::Starting,
            identity: start.identity,
            launch: start.launch,
            definition: start.definition,
            server,
            root_key: start.root_key,
            root_path: start.root_path,
            initialize_params: start.initialize_params,
            folders_as_sent: start.folders,
            facts: None,
            initialized_sent: false,
            had_only_queries: true,
            clients: Vec::new(),
            queries: BTreeSet::new(),
            named_files: BTreeSet::new(),
            outbox: Outbox::new(outbox_bytes, now),
            pending: BTreeMap::new(),
            documents: BTreeMap::new(),
            closed_versions: BTreeMap::new(),
            loose_diagnostics: BTreeMap::new(),
            registrations: Vec::new(),
            progress: BTreeMap::new(),
            client_tokens: BTreeMap::new(),
            asks: BTreeMap::new(),
            readiness: Readiness::default(),
            parked: VecDeque::new(),
            early_bytes: 0,
            dropped_early: 0,
            stalled: false,
            crashes: VecDeque::new(),
            restarts: 0,
            last_exit: None,
            printed: None,
            configuration: None,
            started_at: now,
            pid: None,
            end: ProcessEnd::default(),
            end_failure: None,
        }
    }

    pub(super) fn link(&self) -> Link {
        Link::Server(self.id, self.generation)
    }

    /// Who hears what its processes say on their standard error.
    pub(super) fn audience(&self) -> Effect {
        Effect::Audience {
            instance: self.id,
            clients: self.clients.clone(),
        }
    }

    /// Whether the instance takes new clients and queries.
    pub(super) fn admits(&self) -> bool {
        matches!(
            self.phase,
            Phase::Starting | Phase::Initializing | Phase::Ready | Phase::Restarting
        )
    }

    /// Whether requests can be sent now.
    pub(super) fn serves(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// Whether a process of it was in service, now or before.
    pub(super) fn ever_ready(&self) -> bool {
        self.facts.is_some()
    }

    /// Whether there is a process to write to.
    pub(super) fn has_process(&self) -> bool {
        !matches!(
            self.phase,
            Phase::Starting | Phase::Restarting | Phase::Terminating
        )
    }

    /// Why it is still here although its end was tried, when it is.
    pub(super) fn failed_end(&self) -> Option<&str> {
        self.end_failure
            .as_deref()
            .filter(|_| self.phase == Phase::Terminating)
    }

    /// Whether nobody uses it.
    pub(super) fn is_unused(&self) -> bool {
        self.clients.is_empty() && self.queries.is_empty()
    }

    /// Whether the static capability or a registration in force covers an operation.
    pub(super) fn supports(&self, provider: &str, method: &str) -> bool {
        let fixed = self
            .facts
            .as_ref()
            .is_some_and(|facts| facts.providers.iter().any(|key| key == provider));
        fixed
            || self
                .registrations
                .iter()
                .any(|registration| registration.method == method)
    }

    /// Requests of clients that wait in the outbox.
    pub(super) fn editor_waits(&self) -> bool {
        self.outbox.has_waiting()
    }
}
