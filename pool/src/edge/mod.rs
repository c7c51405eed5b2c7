//! What a reader task decodes of a message before the message becomes an event of the core.
//!
//! Decoding here costs the sender of a large body and nobody else, and it keeps the sender's order
//! (invariant "nobody waits for a stranger"). The core receives [`Decoded`] and never parses a body.

mod announcement;
mod change;
mod client;
#[cfg(test)]
mod corpus;
mod initialize;
mod members;
mod server;
mod text;

pub use announcement::with_announcement;
pub use client::ClientEdge;
pub use server::ServerEdge;
pub use text::{Text, TextId};

use std::ops::Range;

use lspool_normalize::capabilities::Raised;
use serde_json::value::RawValue;

use crate::wire::{Kind, Message, RawId};
use members::{integer, member, span_in};

/// A progress token found in the params of a request, and where it stands in the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSpan {
    /// The token as the peer wrote it.
    pub token: RawId,
    /// Byte range of the token's text in the message body.
    pub span: Range<usize>,
}

/// The facts of an `initialize` request of a client.
#[derive(Clone, Debug)]
pub struct InitializeFacts {
    /// The params with capabilities raised, `processId` left as sent, `initializationOptions.lspool` and
    /// `capabilities.experimental.lspool` removed; every other member as the client spelled it.
    pub params: String,
    /// Byte range of the value of `processId` in `params`, absent when the client sent none.
    pub process_id_span: Option<Range<usize>>,
    /// The client's process, when it named one.
    pub process_id: Option<i64>,
    /// The folder set as spelled, in the order sent: `workspaceFolders`, else `rootUri`, else `rootPath`.
    pub folders: Vec<String>,
    /// What `raise` made of the client's capabilities.
    pub raised: Raised,
    /// Canonical digest of `initializationOptions` (without `lspool`), `0` when absent or null.
    pub options_digest: u128,
    /// Whether the client sent `capabilities.experimental.lspool`.
    pub knows_lspool: bool,
    /// `clientInfo.name`, for people.
    pub client_name: Option<String>,
    /// The initial `trace` value, when sent.
    pub trace: Option<String>,
}

impl PartialEq for InitializeFacts {
    fn eq(&self, other: &Self) -> bool {
        self.params == other.params
    }
}

/// The facts of a server's `initialize` result.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerFacts {
    /// The result as the server wrote it.
    pub result: String,
    /// `capabilities.positionEncoding`, else the legacy `offsetEncoding`, when present.
    pub encoding: Option<String>,
    /// `textDocumentSync` kind: 0 none, 1 full, 2 incremental.
    pub sync_kind: u8,
    /// Whether `textDocumentSync.save` (or the kind's default) asks for `didSave`.
    pub wants_save: bool,
    /// Provider keys that are `true` or an object (`definitionProvider`, …), sorted.
    pub providers: Vec<String>,
    /// `serverInfo.name` and `version`, joined by a blank.
    pub name: Option<String>,
}

/// One registration of `client/registerCapability`.
#[derive(Clone, Debug)]
pub struct Registration {
    /// The server's id of the registration.
    pub id: String,
    /// The method registered for.
    pub method: String,
    /// The whole registration object as sent.
    pub raw: Box<RawValue>,
}

impl PartialEq for Registration {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && self.method == other.method && self.raw.get() == other.raw.get()
    }
}

/// The phase of a `$/progress` notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgressPhase {
    /// `kind: "begin"` with its title.
    Begin {
        /// The title, for readiness rules and people.
        title: String,
    },
    /// `kind: "report"`.
    Report,
    /// `kind: "end"`.
    End,
    /// Any other value: a partial result or a vendor's shape.
    Other,
}

/// What a reader found in one message.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Decoded {
    /// Nothing that the core needs beyond the envelope.
    #[default]
    Plain,
    /// The message cannot be used; the text names the member at fault.
    Malformed(String),
    /// A client's `initialize`.
    Initialize(Box<InitializeFacts>),
    /// A client's request with what routing and sharing need.
    Request {
        /// `params.workDoneToken`.
        work_done: Option<TokenSpan>,
        /// `params.partialResultToken`.
        partial_result: Option<TokenSpan>,
        /// `params.textDocument.uri`, unescaped.
        document: Option<String>,
    },
    /// `textDocument/didOpen`.
    Open {
        /// The URI as sent, unescaped from JSON.
        uri: String,
        /// `languageId`.
        language: String,
        /// The client's version.
        version: Option<i64>,
        /// Byte range of the version's text in the body.
        version_span: Option<Range<usize>>,
        /// The document.
        text: Text,
    },
    /// `textDocument/didChange`, applied.
    Change {
        /// The URI as sent.
        uri: String,
        /// The client's version.
        version: Option<i64>,
        /// Byte range of the version's text in the body.
        version_span: Option<Range<usize>>,
        /// The text before the change, absent when the document was not open at this client.
        before: Option<TextId>,
        /// The text after the change.
        text: Option<Text>,
    },
    /// `textDocument/didClose`.
    Close {
        /// The URI as sent.
        uri: String,
    },
    /// `textDocument/didSave`.
    Save {
        /// The URI as sent.
        uri: String,
    },
    /// `$/cancelRequest`.
    Cancel {
        /// The id named in the params.
        id: RawId,
        /// Byte range of that id in the body.
        span: Range<usize>,
    },
    /// `window/workDoneProgress/cancel`.
    CancelProgress {
        /// The token and its place.
        token: TokenSpan,
    },
    /// `workspace/didChangeConfiguration`.
    Configuration {
        /// Canonical digest of `settings`; `0` for null and for an empty object.
        digest: u128,
    },
    /// A server's `initialize` answer (the reader knows it by its id).
    ServerInitialized(Box<ServerFacts>),
    /// A server's `$/progress`.
    Progress {
        /// The token and its place.
        token: TokenSpan,
        /// Begin, report, end.
        phase: ProgressPhase,
        /// The message, for people.
        message: Option<String>,
        /// The percentage, 0–100.
        percentage: Option<u32>,
    },
    /// A server's `window/workDoneProgress/create`.
    CreateProgress {
        /// The token.
        token: TokenSpan,
    },
    /// A server's `textDocument/publishDiagnostics`.
    Diagnostics {
        /// The URI as sent.
        uri: String,
        /// The server's version, when it gave one.
        version: Option<i64>,
        /// Byte range of the version's text in the body.
        version_span: Option<Range<usize>>,
        /// Whether the list is empty.
        empty: bool,
    },
    /// A server's `client/registerCapability`.
    Register(Vec<Registration>),
    /// A server's `client/unregisterCapability`: (id, method) pairs.
    Unregister(Vec<(String, String)>),
    /// A server's `workspace/configuration`: the section of each item (`None` for an item without one).
    AskConfiguration(Vec<Option<String>>),
    /// rust-analyzer's `experimental/serverStatus`.
    ServerStatus {
        /// Whether the server says that it has nothing left to do.
        quiescent: bool,
        /// `health` as sent.
        health: Option<String>,
        /// `message` as sent.
        message: Option<String>,
    },
    /// `window/logMessage` or `window/showMessage`.
    Log {
        /// The message's text.
        message: String,
    },
    /// An answer of a server or a client: whether it is an error, and the error's code.
    Answer {
        /// The error's code, absent for a result.
        error: Option<i64>,
    },
}

/// LSP's `UnknownErrorCode`, for an error that has none.
const UNKNOWN_ERROR_CODE: i64 = -32001;

impl Decoded {
    /// A message without a usable value at the path.
    fn missing(path: impl AsRef<str>) -> Self {
        Self::Malformed(format!(
            "`{}` is missing or has another type than the protocol gives it",
            path.as_ref()
        ))
    }
}

/// An answer, from either side.
fn answer(message: &Message) -> Decoded {
    if message.kind() != Kind::ErrorResponse {
        return Decoded::Answer { error: None };
    }
    let code = message
        .error_json()
        .and_then(|error| member(error, "code"))
        .and_then(integer);
    Decoded::Answer {
        error: Some(code.unwrap_or(UNKNOWN_ERROR_CODE)),
    }
}

/// The token under a name in the params; null is none.
fn token(message: &Message, name: &str) -> Option<TokenSpan> {
    let json = member(message.params()?, name)?;
    let token = RawId::parse(json).filter(|token| !token.is_null())?;
    Some(TokenSpan {
        token,
        span: span_in(message.bytes(), json),
    })
}
