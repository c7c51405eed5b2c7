//! From a body to a message's kind, id and method.
//!
//! Invariant: what is forwarded is what a JSON parser would read. A body up to [`FULL_SCAN_LIMIT`] is checked
//! whole; of a longer one the head and tail are trusted when they tell everything and the last byte closes an
//! object, since a check would cost 0.7 ms a megabyte. What that trust gives up: an error in the middle of a
//! long body, and a second `id` or `method` behind its payload, are seen by the receiver only. A reader whose
//! peer shares the receiver with others uses [`Message::parse_whole`].

use std::ops::Range;

use bytes::Bytes;
use serde_json::value::RawValue;
use thiserror::Error;

use super::escape;
use super::id::RawId;
use super::message::{Kind, Message, Method, Parts};
use super::scan::{self, Members, Payload};

/// The longest body, in bytes, that [`Message::parse`] always checks whole.
pub const FULL_SCAN_LIMIT: usize = 64 * 1024;

/// Which rule a body breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvelopeErrorKind {
    /// Not JSON: JSON-RPC's −32700.
    NotJson,
    /// JSON, but no message of JSON-RPC 2.0: −32600.
    NotMessage,
}

/// Why a body is no message.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{text}")]
pub struct EnvelopeError {
    /// Which rule is broken.
    pub kind: EnvelopeErrorKind,
    /// What is wrong and where, for people.
    pub text: String,
    /// The message's id, when it could be read.
    pub id: Option<RawId>,
    /// Whether the message looks like an answer, whose requester waits under `id`.
    pub is_answer: bool,
}

impl EnvelopeError {
    /// JSON-RPC's error code: −32700 or −32600.
    pub fn code(&self) -> i64 {
        match self.kind {
            EnvelopeErrorKind::NotJson => -32700,
            EnvelopeErrorKind::NotMessage => -32600,
        }
    }
}

/// What the beginning of a body tells, whether the rest is there or valid or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peek {
    /// The id, when it stands before `params`, `result` and `error`.
    pub id: Option<RawId>,
    /// The method under the same condition, unless it is spelled with escapes.
    pub method: Option<String>,
    /// Whether `result` or `error` begins in the text.
    pub is_answer: bool,
}

impl Peek {
    /// Looks at the first bytes of a body that is not there whole ([`super::FrameItem::TooLarge`]).
    pub fn new(beginning: &[u8]) -> Self {
        let head = scan::head(beginning);
        // A scalar that touches the cut may go on behind it.
        let whole = |span: &Range<usize>| span.end < beginning.len();
        Self {
            id: head
                .id
                .filter(whole)
                .and_then(|span| read_id(beginning, &span)),
            method: head
                .method
                .filter(whole)
                .and_then(|span| std::str::from_utf8(&beginning[span]).ok())
                .and_then(|token| escape::unescape(token).map(String::from)),
            is_answer: matches!(head.payload, Some((Payload::Result | Payload::Error, _))),
        }
    }
}

impl Message {
    /// Reads a message's envelope. A body up to [`FULL_SCAN_LIMIT`] is checked whole, a longer one as far
    /// as its kind, id and method need.
    ///
    /// # Errors
    /// −32700 for a body that is not JSON, −32600 for one that is no message.
    pub fn parse(bytes: Bytes) -> Result<Self, EnvelopeError> {
        if bytes.len() > FULL_SCAN_LIMIT
            && let Some(parts) = head_and_tail(&bytes)
        {
            return Ok(Self::from_parts(bytes, parts, None));
        }
        Self::parse_whole(bytes)
    }

    /// As [`Message::parse`], and checks the whole body whatever its length.
    ///
    /// # Errors
    /// As [`Message::parse`].
    pub fn parse_whole(bytes: Bytes) -> Result<Self, EnvelopeError> {
        let members = scan::full(&bytes).map_err(|error| unreadable(&bytes, &error))?;
        let parts = parts_of(&bytes, &members)?;
        Ok(Self::from_parts(bytes, parts, Some(members)))
    }

    /// Splits a JSON-RPC batch into its members, in order; `None` when the body is no JSON array. An
    /// empty array gives no member (JSON-RPC 2.0 §6 calls it an invalid request).
    pub fn split_batch(bytes: &Bytes) -> Option<Vec<Bytes>> {
        if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'[') {
            return None;
        }
        let members: Vec<&RawValue> = serde_json::from_slice(bytes).ok()?;
        Some(
            members
                .iter()
                .map(|member| bytes.slice_ref(member.get().as_bytes()))
                .collect(),
        )
    }
}

/// The envelope of a valid message from its two ends, `None` where they do not tell enough.
pub(super) fn head_and_tail(body: &[u8]) -> Option<Parts> {
    let head = scan::head(body);
    let (payload, value_at) = head.payload?;
    let id_span = match head.id {
        Some(span) => span,
        None => scan::tail(body).filter(|span| span.start > value_at)?,
    };
    if body.iter().rev().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'}') {
        return None;
    }
    let kind = match payload {
        Payload::Params => Kind::Request,
        // A null one gives way to the other, which stands behind it.
        Payload::Result | Payload::Error if body[value_at..].starts_with(b"null") => return None,
        Payload::Result => Kind::Response,
        Payload::Error => Kind::ErrorResponse,
    };
    let method = match head.method {
        Some(span) if kind == Kind::Request => Some(plain_method(body, span)?),
        None if kind == Kind::Request => return None,
        _ => None,
    };
    let id = read_id(body, &id_span)?;
    Some(Parts {
        kind,
        id: Some((id, id_span)),
        method,
    })
}

fn plain_method(body: &[u8], span: Range<usize>) -> Option<Method> {
    let inside = span.start + 1..span.end.checked_sub(1)?;
    let text = std::str::from_utf8(body.get(inside.clone())?).ok()?;
    (body[span.start] == b'"' && !text.contains('\\')).then_some(Method::Plain(inside))
}

fn parts_of(body: &[u8], members: &Members) -> Result<Parts, EnvelopeError> {
    let payload = members.payload();
    let is_answer = matches!(payload, Some(Payload::Result | Payload::Error));
    let id = members
        .id
        .as_ref()
        .map(|span| (read_id(body, span), span.clone()));
    let refuse = |text: String| EnvelopeError {
        kind: EnvelopeErrorKind::NotMessage,
        text,
        id: id
            .as_ref()
            .and_then(|(id, _)| id.clone())
            .filter(|_| members.repeated != Some("id")),
        is_answer,
    };
    if let Some(name) = members.repeated {
        return Err(refuse(format!(
            "the member `{name}` stands twice in the message"
        )));
    }
    let id = match &id {
        None => None,
        Some((Some(id), span)) => Some((id.clone(), span.clone())),
        Some((None, _)) => {
            return Err(refuse(
                "the member `id` is neither a number nor a string".to_owned(),
            ));
        }
    };
    let method = match members.method.as_ref().filter(|_| !is_answer) {
        None => None,
        Some(span) => Some(
            read_method(body, span)
                .ok_or_else(|| refuse("the member `method` is not a string".to_owned()))?,
        ),
    };
    let kind = match (payload, &id, &method) {
        // Several writers of JSON leave a null result out; whoever asked still needs the answer.
        (Some(Payload::Result), Some(_), _) | (None, Some(_), None) => Kind::Response,
        (Some(Payload::Error), Some(_), _) => Kind::ErrorResponse,
        (Some(Payload::Result | Payload::Error), None, _) => {
            return Err(refuse(
                "the message is an answer without the member `id`".to_owned(),
            ));
        }
        (_, Some(_), Some(_)) => Kind::Request,
        (_, None, Some(_)) => Kind::Notification,
        (Some(Payload::Params), _, None) => {
            return Err(refuse("the message has no member `method`".to_owned()));
        }
        (None, None, None) => {
            return Err(refuse(
                "the message has neither `method` nor `result` nor `error`".to_owned(),
            ));
        }
    };
    Ok(Parts { kind, id, method })
}

fn read_id(body: &[u8], span: &Range<usize>) -> Option<RawId> {
    RawId::parse(std::str::from_utf8(body.get(span.clone())?).ok()?)
}

fn read_method(body: &[u8], span: &Range<usize>) -> Option<Method> {
    if let Some(method) = plain_method(body, span.clone()) {
        return Some(method);
    }
    let token = std::str::from_utf8(&body[span.clone()]).ok()?;
    escape::unescape(token).map(|text| Method::Decoded(text.into()))
}

/// The error for a body that is no JSON object, with the id where the text shows one.
fn unreadable(body: &[u8], error: &serde_json::Error) -> EnvelopeError {
    let peek = Peek::new(body);
    let id = peek
        .id
        .or_else(|| scan::tail(body).and_then(|span| read_id(body, &span)));
    // What is no object was not read to its end.
    let syntax = if error.is_data() {
        serde_json::from_slice::<&RawValue>(body).err()
    } else {
        None
    };
    if error.is_data() && syntax.is_none() {
        let text = format!("the body is JSON but no object: {error}");
        return EnvelopeError {
            kind: EnvelopeErrorKind::NotMessage,
            text,
            id,
            is_answer: peek.is_answer,
        };
    }
    let error = syntax.as_ref().unwrap_or(error);
    let text = if body.starts_with(b"\xef\xbb\xbf") {
        "the body is not JSON: it begins with a byte order mark".to_owned()
    } else {
        format!("the body is not JSON: {error}")
    };
    EnvelopeError {
        kind: EnvelopeErrorKind::NotJson,
        text,
        id,
        is_answer: peek.is_answer,
    }
}

#[cfg(test)]
mod tests;
