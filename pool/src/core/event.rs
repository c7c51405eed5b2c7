//! Everything that can happen to the core.

use std::fmt;
use std::sync::Arc;

use lspool_normalize::{QueryRequest, QueryResult, RpcError};
use lspool_world::TargetKey;

use crate::edge::{Decoded, Text};
use crate::query::Prepared;
use crate::registry::LaunchFacts;
use crate::wire::{Message, Outgoing, RawId};

use super::client::{ClientFace, ClientName};
use super::ids::{CallId, ClientId, Generation, InstanceId, JobId, Link, QueryTicket, Timer};

/// One message of a link, as its reader hands it on.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The message.
    pub message: Message,
    /// What the reader found in it.
    pub decoded: Decoded,
    /// Bytes of the link's credit that travel with the frame until it is released.
    pub credit: u32,
}

/// A frame that is no message.
#[derive(Clone, Debug)]
pub enum FrameFault {
    /// The body is not a JSON-RPC message.
    NotAMessage {
        /// The id, where it could be read.
        id: Option<RawId>,
        /// Whether it looks like an answer.
        is_answer: bool,
        /// −32700 (not JSON) or −32600 (JSON, but no message).
        code: i64,
        /// What is wrong, for people.
        text: String,
    },
    /// The body is over the cap; it was read to its end.
    TooLarge {
        /// The id, when it stands in the first 64 KiB.
        id: Option<RawId>,
        /// Whether the body is an answer.
        is_answer: bool,
        /// The announced length in bytes.
        length: u64,
        /// The cap in bytes.
        cap: u64,
    },
    /// Bytes that belong to no frame were skipped.
    Skipped {
        /// How many.
        total: u64,
        /// Their beginning, for the log.
        sample: String,
    },
}

/// How a process ended.
#[derive(Clone, Debug)]
pub struct ExitReport {
    /// `exit code 1`, `signal 9`, …, for people.
    pub outcome: String,
    /// The last lines of its standard error.
    pub stderr: String,
}

/// What resolving a client's server command gave.
#[derive(Clone, Debug)]
pub struct LaunchOutcome {
    /// The resolved launch and its digest.
    pub facts: LaunchFacts,
    /// The command with its program resolved.
    pub argv: Vec<std::ffi::OsString>,
    /// The client's working directory.
    pub cwd: std::path::PathBuf,
    /// The client's environment, whole.
    pub environment: lspool_world::Environment,
    /// The client's file mode mask.
    pub umask: u32,
    /// The identity of the first folder, absent for a client without one or one that cannot be resolved.
    pub root_key: Option<TargetKey>,
    /// The first folder as a path, in the client's spelling.
    pub root_path: Option<std::path::PathBuf>,
}

/// Why a server command cannot be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchRefusal {
    /// The exit code for the face: 127 not found, 126 not executable.
    pub exit_code: i32,
    /// One sentence that names the command and says what to do.
    pub text: String,
}

/// A document read again for a query.
#[derive(Clone, Debug)]
pub struct RereadDocument {
    /// The document's URI in the instance.
    pub uri: String,
    /// The new text and file version; `None` when the file is gone.
    pub text: Option<(Text, String)>,
}

/// The outcome of the `Prepare` job.
pub type PrepareOutcome = Result<Arc<Prepared>, Box<RpcError>>;
/// The outcome of the `Reread` job: documents whose text changed.
pub type RereadOutcome = Vec<RereadDocument>;
/// The outcome of the `Finish` job.
pub type FinishOutcome = Result<Arc<QueryResult>, Box<RpcError>>;

/// What a job gave.
#[derive(Clone)]
pub enum JobOutcome {
    /// Of `Job::Launch`.
    Launch(Result<Box<LaunchOutcome>, LaunchRefusal>),
    /// Of `Job::Lower`, `Job::Open` and `Job::Change`: the message for the place that was held.
    Composed(Outgoing),
    /// Of `Job::Prepare`.
    Prepared(PrepareOutcome),
    /// Of `Job::Reread`.
    Reread(RereadOutcome),
    /// Of `Job::Finish`.
    Finished(FinishOutcome),
    /// Of any job that came to no outcome in its time; what happened, for people.
    Failed(String),
}

impl JobOutcome {
    /// The name of its kind, for the log: what it holds may be a document's text.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Launch(_) => "launch",
            Self::Composed(_) => "composed",
            Self::Prepared(_) => "prepared",
            Self::Reread(_) => "reread",
            Self::Finished(_) => "finished",
            Self::Failed(_) => "failed",
        }
    }
}

impl fmt::Debug for JobOutcome {
    /// The kind and what is no document's text.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("JobOutcome");
        shown.field("kind", &self.kind());
        match self {
            Self::Launch(result) => shown.field("result", result),
            Self::Composed(message) => shown.field("message", message),
            Self::Prepared(result) => shown.field("result", result),
            Self::Reread(documents) => shown.field("documents", documents),
            Self::Finished(result) => shown.field("error", &result.as_ref().err()),
            Self::Failed(text) => shown.field("text", text),
        };
        shown.finish()
    }
}

/// One thing that happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A connection was opened.
    ClientOpened {
        /// Its number, never used before.
        client: ClientId,
        /// What it is for.
        face: ClientFace,
        /// Who it is, for people.
        name: ClientName,
    },
    /// A message came.
    Frame {
        /// From where.
        link: Link,
        /// The message with what the reader found.
        frame: Box<Frame>,
    },
    /// Something came that is no message.
    BadFrame {
        /// From where.
        link: Link,
        /// What.
        fault: FrameFault,
        /// Credit to give back.
        credit: u32,
    },
    /// Nothing more will come from a link.
    LinkClosed {
        /// Which.
        link: Link,
        /// `end of input`, or what failed, for people.
        reason: String,
    },
    /// The writer of a link has written.
    Drained {
        /// Which link.
        link: Link,
        /// Bytes of bodies written since the last such event.
        bytes: usize,
        /// Messages written since the last such event.
        messages: usize,
    },
    /// A timer is due.
    Timer {
        /// Which.
        timer: Timer,
    },
    /// A job is done.
    JobDone {
        /// Which.
        job: JobId,
        /// What it gave.
        outcome: JobOutcome,
    },
    /// A process was started, or could not be.
    Spawned {
        /// The instance.
        instance: InstanceId,
        /// The process's generation.
        generation: Generation,
        /// Its pid where one is known, or why it could not be started.
        result: Result<Option<u32>, String>,
    },
    /// A process ended.
    Exited {
        /// The instance.
        instance: InstanceId,
        /// The process's generation.
        generation: Generation,
        /// How.
        report: ExitReport,
    },
    /// A process tree was ended on request.
    Terminated {
        /// The instance.
        instance: InstanceId,
        /// The process's generation.
        generation: Generation,
        /// `Ok` when the tree is proved gone.
        result: Result<(), String>,
    },
    /// A custom method answered.
    CallDone {
        /// The call.
        call: CallId,
        /// The result as JSON text, or the error.
        result: Result<String, Box<RpcError>>,
    },
    /// A normalised query was asked.
    Query {
        /// Its number, never used before.
        ticket: QueryTicket,
        /// The connection that asks.
        client: ClientId,
        /// What it asks.
        request: Arc<QueryRequest>,
    },
    /// Nobody waits for a query any more.
    QueryCancelled {
        /// Which.
        ticket: QueryTicket,
    },
    /// One instance is to end.
    Stop {
        /// Which.
        instance: InstanceId,
    },
    /// Everything is to end.
    Shutdown,
}
