//! Everything that the core asks to be done.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use lspool_normalize::UriKey;
use lspool_normalize::capabilities::ClientOffer;
use lspool_normalize::request::QueryRequest;

use crate::edge::Text;
use crate::query::{EditorText, FinishInput, NamedFile, RunningRoot};
use crate::wire::{Message, Outgoing, RawId};

use super::event::FinishOutcome;
use super::ids::{CallId, ClientId, Generation, InstanceId, JobId, Link, QueryTicket, Tick, Timer};
use super::instance::ServerLaunch;

/// Work that needs the world or a body, done outside the core.
#[derive(Clone, Debug)]
pub enum Job {
    /// Resolve the server command of a client, digest its launch, and resolve its first folder.
    Launch {
        /// Whose context (working directory, environment) applies.
        client: ClientId,
        /// The command as given.
        argv: Vec<std::ffi::OsString>,
        /// Digest of the client's `initializationOptions`.
        options_digest: u128,
        /// The client's first folder as spelled, a URI or a path.
        folder: Option<String>,
        /// Variables beyond the built-in list that distinguish launches of this server.
        identity_environment: Vec<String>,
    },
    /// Bring an answer into the shape that its client announced.
    Lower {
        /// The request's method.
        method: String,
        /// The request's document, when it has one.
        document: Option<String>,
        /// What the client announced.
        offer: Box<ClientOffer>,
        /// The answer as the server sent it.
        answer: Box<Message>,
        /// The client's id.
        id: RawId,
    },
    /// Compose a `textDocument/didOpen`.
    Open {
        /// The document's URI.
        uri: String,
        /// Its `languageId`.
        language: String,
        /// The server's version.
        version: i64,
        /// The text.
        text: Text,
    },
    /// Compose a `textDocument/didChange` that leads from one text to another.
    Change {
        /// The document's URI.
        uri: String,
        /// The server's new version.
        version: i64,
        /// What the server has.
        before: Text,
        /// What it is to have.
        after: Text,
        /// Whether the server takes ranges; else the whole text is sent.
        incremental: bool,
    },
    /// Find server, root, text and position of a query.
    Prepare {
        /// Whose context applies.
        client: ClientId,
        /// The roots that the connection named.
        roots: Vec<PathBuf>,
        /// Files outside of their root that answers have named.
        named_files: Arc<BTreeMap<UriKey, NamedFile>>,
        /// The texts that editors hold.
        editor_texts: Arc<BTreeMap<UriKey, EditorText>>,
        /// The query.
        request: Arc<QueryRequest>,
        /// Instances that run, for the spelling of their roots.
        running: Vec<RunningRoot>,
    },
    /// Read again those documents whose file changed.
    Reread {
        /// (URI in the instance, path, file version last read).
        documents: Vec<(String, PathBuf, String)>,
        /// The most bytes that a text may have.
        limit: u64,
    },
    /// Turn a server's answer into a normalised result.
    Finish {
        /// Whose context applies.
        client: ClientId,
        /// All that the job needs.
        input: Arc<FinishInput>,
    },
}

/// One thing to do.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Write a message.
    Send {
        /// To where.
        link: Link,
        /// What.
        message: Outgoing,
    },
    /// Give credit back to a link's reader.
    Release {
        /// Whose.
        link: Link,
        /// Bytes.
        credit: u32,
    },
    /// Start a job.
    Job {
        /// Its number.
        job: JobId,
        /// What to do.
        work: Box<Job>,
    },
    /// Nobody waits for a job any more; it gives no event.
    CancelJob {
        /// Which.
        job: JobId,
    },
    /// Arm a timer, or move it.
    SetTimer {
        /// Which.
        timer: Timer,
        /// When it is due.
        at: Tick,
    },
    /// Disarm a timer.
    ClearTimer {
        /// Which.
        timer: Timer,
    },
    /// Start a server's process.
    Spawn {
        /// The instance.
        instance: InstanceId,
        /// The generation of the process.
        generation: Generation,
        /// What to start.
        launch: Arc<ServerLaunch>,
    },
    /// Close a server's standard input once all that was sent to it is written.
    CloseInput {
        /// The instance.
        instance: InstanceId,
        /// The generation.
        generation: Generation,
    },
    /// The clients that use an instance are now these: their people hear what it says on its standard error.
    Audience {
        /// The instance.
        instance: InstanceId,
        /// Its clients.
        clients: Vec<ClientId>,
    },
    /// An instance is gone for good.
    Forget {
        /// Which.
        instance: InstanceId,
    },
    /// End a server's process tree and prove that it is gone.
    Terminate {
        /// The instance.
        instance: InstanceId,
        /// The generation.
        generation: Generation,
    },
    /// Close a client's connection.
    Close {
        /// Which.
        client: ClientId,
        /// The exit code for its face.
        exit_code: i32,
        /// Whether all that was sent to it is written. A peer that has not read it all is cut off.
        drained: bool,
    },
    /// A line for the person behind a client.
    Notice {
        /// Which client.
        client: ClientId,
        /// The line.
        text: String,
    },
    /// Call a custom method of the face.
    Call {
        /// The call's number.
        call: CallId,
        /// Whose connection.
        client: ClientId,
        /// The method.
        method: String,
        /// Its params as JSON text.
        params: Option<String>,
    },
    /// Nobody waits for a call any more; it gives no event.
    CancelCall {
        /// Which.
        call: CallId,
    },
    /// A query has its answer.
    QueryDone {
        /// Which.
        ticket: QueryTicket,
        /// The answer.
        result: FinishOutcome,
    },
    /// After a shutdown all instances are gone, but for those whose processes could not be ended; a further shutdown
    /// tries these again.
    ShutdownDone {
        /// One text for each instance that is left.
        failures: Vec<String>,
    },
}
