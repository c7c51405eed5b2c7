//! A message: its bytes as sent, and where in them the members stand.
//!
//! Invariant: a message never changes; what is sent on is made of its bytes by [`super::Outgoing`].

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use super::id::RawId;
use super::scan::{self, Members};

/// What a message is (JSON-RPC 2.0 §4 and §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A method with an id.
    Request,
    /// A method without an id.
    Notification,
    /// An id with a result.
    Response,
    /// An id with an error.
    ErrorResponse,
}

/// A JSON-RPC message as it was sent. Cloning shares the bytes.
#[derive(Clone)]
pub struct Message {
    bytes: Bytes,
    parts: Parts,
    /// Filled by the first full scan; `None` inside when the body is not JSON.
    members: OnceLock<Option<Members>>,
}

/// What the envelope tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) kind: Kind,
    pub(super) id: Option<(RawId, Range<usize>)>,
    pub(super) method: Option<Method>,
}

/// A method's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// Spelled without escapes, at these bytes of the body, which are valid UTF-8.
    Plain(Range<usize>),
    /// Decoded from escapes.
    Decoded(Box<str>),
}

impl Message {
    pub(super) fn from_parts(bytes: Bytes, parts: Parts, members: Option<Members>) -> Self {
        let cell = OnceLock::new();
        if let Some(members) = members {
            // The cell is new, so this cannot fail.
            let _ = cell.set(Some(members));
        }
        Self {
            bytes,
            parts,
            members: cell,
        }
    }

    /// What the message is.
    pub fn kind(&self) -> Kind {
        self.parts.kind
    }

    /// The id, absent for a notification.
    pub fn id(&self) -> Option<&RawId> {
        self.parts.id.as_ref().map(|(id, _)| id)
    }

    /// Byte range of the id's token in the body.
    pub fn id_span(&self) -> Option<Range<usize>> {
        self.parts.id.as_ref().map(|(_, span)| span.clone())
    }

    /// The method, unescaped; absent for an answer.
    pub fn method(&self) -> Option<Cow<'_, str>> {
        match self.parts.method.as_ref()? {
            Method::Plain(span) => Some(String::from_utf8_lossy(&self.bytes[span.clone()])),
            Method::Decoded(text) => Some(Cow::Borrowed(text)),
        }
    }

    /// The body as sent.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The body's length in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the body is empty, which no message is.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The text of the member `params`. The first call on a long message scans it whole; `None` also when
    /// that shows that the body is not JSON.
    pub fn params(&self) -> Option<&str> {
        self.text(self.params_span()?)
    }

    /// Byte range of the value of `params` in the body; costs what [`Message::params`] does.
    pub fn params_span(&self) -> Option<Range<usize>> {
        self.members()?.params.clone()
    }

    /// The text of the member `result`; costs what [`Message::params`] does.
    pub fn result_json(&self) -> Option<&str> {
        self.text(self.result_span()?)
    }

    /// Byte range of the value of `result` in the body.
    pub fn result_span(&self) -> Option<Range<usize>> {
        self.members()?.result.clone()
    }

    /// The text of the member `error`; costs what [`Message::params`] does.
    pub fn error_json(&self) -> Option<&str> {
        self.text(self.error_span()?)
    }

    /// Byte range of the value of `error` in the body.
    pub fn error_span(&self) -> Option<Range<usize>> {
        self.members()?.error.clone()
    }

    fn members(&self) -> Option<&Members> {
        self.members
            .get_or_init(|| scan::full(&self.bytes).ok())
            .as_ref()
    }

    fn text(&self, span: Range<usize>) -> Option<&str> {
        std::str::from_utf8(self.bytes.get(span)?).ok()
    }

    /// A request of the pool; `params` is JSON.
    pub fn request(id: u64, method: &str, params: &str) -> Self {
        Writer::new()
            .id(&RawId::number(id))
            .method(method)
            .member("params", params)
            .finish(Kind::Request)
    }

    /// A request of the pool without the member `params` (`shutdown`: several servers refuse a null).
    pub fn request_without_params(id: u64, method: &str) -> Self {
        Writer::new()
            .id(&RawId::number(id))
            .method(method)
            .finish(Kind::Request)
    }

    /// A notification of the pool; `params` is JSON.
    pub fn notification(method: &str, params: &str) -> Self {
        Writer::new()
            .method(method)
            .member("params", params)
            .finish(Kind::Notification)
    }

    /// A notification of the pool without the member `params` (`exit`).
    pub fn notification_without_params(method: &str) -> Self {
        Writer::new().method(method).finish(Kind::Notification)
    }

    /// An answer of the pool; `result` is JSON.
    pub fn result(id: &RawId, result: &str) -> Self {
        Writer::new()
            .id(id)
            .member("result", result)
            .finish(Kind::Response)
    }

    /// An error of the pool; `data` is JSON. A request whose id could not be read is answered with
    /// [`RawId::null`].
    pub fn error(id: &RawId, code: i64, message: &str, data: Option<&str>) -> Self {
        let mut error = format!("{{\"code\":{code},\"message\":{}", quoted(message));
        if let Some(data) = data {
            let _ = write!(error, ",\"data\":{data}");
        }
        error.push('}');
        Writer::new()
            .id(id)
            .member("error", &error)
            .finish(Kind::ErrorResponse)
    }
}

/// Writes one message and notes where its members stand.
struct Writer {
    text: String,
    id: Option<(RawId, Range<usize>)>,
    method: Option<Method>,
}

impl Writer {
    fn new() -> Self {
        Self {
            text: String::from("{\"jsonrpc\":\"2.0\""),
            id: None,
            method: None,
        }
    }

    fn id(mut self, id: &RawId) -> Self {
        self.text.push_str(",\"id\":");
        let start = self.text.len();
        self.text.push_str(id.raw());
        self.id = Some((id.clone(), start..self.text.len()));
        self
    }

    fn method(mut self, method: &str) -> Self {
        let _ = write!(self.text, ",\"method\":{}", quoted(method));
        self.method = Some(Method::Decoded(method.into()));
        self
    }

    fn member(mut self, name: &str, json: &str) -> Self {
        debug_assert!(
            serde_json::from_str::<serde::de::IgnoredAny>(json).is_ok(),
            "{name} is not JSON: {json}"
        );
        let _ = write!(self.text, ",\"{name}\":{json}");
        self
    }

    fn finish(mut self, kind: Kind) -> Message {
        self.text.push('}');
        let parts = Parts {
            kind,
            id: self.id,
            method: self.method,
        };
        Message::from_parts(Bytes::from(self.text), parts, None)
    }
}

/// The text as a JSON string, with its quotes.
pub fn quoted(text: &str) -> String {
    // A string serialises without fail.
    serde_json::Value::from(text).to_string()
}

impl PartialEq for Message {
    /// Equal bytes are equal messages.
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Message {}

impl fmt::Debug for Message {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A body can hold a document, and no log may.
        formatter
            .debug_struct("Message")
            .field("kind", &self.parts.kind)
            .field("method", &self.method())
            .field("id", &self.id())
            .field("bytes", &self.bytes.len())
            .field("digest", &xxh3_64(&self.bytes))
            .finish_non_exhaustive()
    }
}
