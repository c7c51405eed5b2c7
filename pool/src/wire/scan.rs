//! Finding the members of a message's top-level object.
//!
//! Two ways that must agree: [`head`] reads from the front until `params`, `result` or `error`, with [`tail`]
//! looking for an id behind them, and [`full`] lets `serde_json` check the whole text. The first costs
//! nanoseconds whatever the body's size; it gives up wherever it could differ from the second on valid JSON.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::escape;

/// Byte ranges of the values of the members that JSON-RPC names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Members {
    pub(super) id: Option<Range<usize>>,
    pub(super) method: Option<Range<usize>>,
    pub(super) params: Option<Range<usize>>,
    pub(super) result: Option<Range<usize>>,
    pub(super) error: Option<Range<usize>>,
    /// Which of `params`, `result` and `error` came first.
    first: Option<Payload>,
    null_result: bool,
    null_error: bool,
    /// The name of a member among the five that stands twice.
    pub(super) repeated: Option<&'static str>,
}

/// The member that carries a message's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload {
    Params,
    Result,
    Error,
}

/// Reads a whole message.
pub(super) fn full(body: &[u8]) -> Result<Members, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let members = deserializer.deserialize_map(MembersVisitor {
        start: body.as_ptr() as usize,
    })?;
    deserializer.end()?;
    Ok(members)
}

struct MembersVisitor {
    /// The address of the body's first byte: a raw value's place is its address less this.
    start: usize,
}

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON-RPC message (an object)")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
        let mut members = Members::default();
        while let Some(key) = map.next_key::<&'de RawValue>()? {
            let value: &'de RawValue = map.next_value()?;
            let start = value.get().as_ptr() as usize - self.start;
            members.record(
                key.get(),
                start..start + value.get().len(),
                value.get() == "null",
            );
        }
        Ok(members)
    }
}

impl Members {
    /// The member that says what the message is: the first of `params`, `result` and `error`, except
    /// that of `result` and `error` a null one gives way to the other. Several servers send both.
    pub(super) fn payload(&self) -> Option<Payload> {
        match self.first? {
            Payload::Result if self.null_result && self.error.is_some() && !self.null_error => {
                Some(Payload::Error)
            }
            Payload::Error if self.null_error && self.result.is_some() => Some(Payload::Result),
            first => Some(first),
        }
    }

    fn record(&mut self, key: &str, span: Range<usize>, is_null: bool) {
        let inner = &key.as_bytes()[1..key.len() - 1];
        let decoded;
        let name = if memchr::memchr(b'\\', inner).is_none() {
            inner
        } else {
            decoded = escape::decode(inner);
            &decoded
        };
        let (name, slot, payload) = match name {
            b"id" => ("id", &mut self.id, None),
            b"method" => ("method", &mut self.method, None),
            b"params" => ("params", &mut self.params, Some(Payload::Params)),
            b"result" => ("result", &mut self.result, Some(Payload::Result)),
            b"error" => ("error", &mut self.error, Some(Payload::Error)),
            _ => return,
        };
        if slot.is_some() {
            self.repeated.get_or_insert(name);
            return;
        }
        *slot = Some(span);
        self.first = self.first.or(payload);
        self.null_result |= is_null && payload == Some(Payload::Result);
        self.null_error |= is_null && payload == Some(Payload::Error);
    }
}

/// What stands before the first of `params`, `result` and `error`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) id: Option<Range<usize>>,
    pub(super) method: Option<Range<usize>>,
    /// The member at which the reading stopped, and where its value begins.
    pub(super) payload: Option<(Payload, usize)>,
    /// Whether the reading stopped for another reason than the payload: an escape in a key or a method, a
    /// structured vendor member, a repeated member, the object's or the text's end.
    pub(super) gave_up: bool,
}

/// Reads the members of the top-level object up to its payload, without looking at the rest.
///
/// Exact for valid JSON as far as it goes; of invalid JSON it tells what a reader would have seen first.
pub(super) fn head(body: &[u8]) -> Head {
    let mut head = Head::default();
    head.gave_up = read_head(body, &mut head).is_none();
    head
}

/// Gives `None` where the reading must stop before the payload.
fn read_head(body: &[u8], head: &mut Head) -> Option<()> {
    let mut at = expect(body, 0, b'{')?;
    loop {
        let key = string(body, skip_blanks(body, at))?;
        at = skip_blanks(body, expect(body, key.end, b':')?);
        let payload = match &body[key.start + 1..key.end - 1] {
            b"params" => Some(Payload::Params),
            b"result" => Some(Payload::Result),
            b"error" => Some(Payload::Error),
            name => {
                let value = scalar(body, at)?;
                at = value.end;
                match name {
                    b"id" if head.id.is_none() => head.id = Some(value),
                    b"method" if head.method.is_none() => head.method = Some(value),
                    b"id" | b"method" => return None,
                    _ => {}
                }
                None
            }
        };
        if let Some(payload) = payload {
            head.payload = Some((payload, at));
            return Some(());
        }
        at = expect(body, at, b',')?;
    }
}

/// Finds the id in a text that ends in `,"id":N}` (blanks allowed), N a number or a string.
///
/// In valid JSON that is the top-level id: the last brace closes the top object, so N is the value of its
/// last member, and a key that merely ends in `id"` has a backslash before that text's first quote.
pub(super) fn tail(body: &[u8]) -> Option<Range<usize>> {
    let object_end = before(body, body.len(), b'}')?;
    let value_end = skip_blanks_back(body, object_end);
    let value_start = match body[..value_end].last()? {
        b'"' => memchr::memrchr(b'"', &body[..value_end - 1])?,
        _ => {
            value_end
                - body[..value_end]
                    .iter()
                    .rev()
                    .take_while(|&&byte| is_number_byte(byte))
                    .count()
        }
    };
    let colon = before(body, value_start, b':')?;
    let key_end = skip_blanks_back(body, colon);
    let key_start = key_end.checked_sub(b"\"id\"".len())?;
    if &body[key_start..key_end] != b"\"id\"" {
        return None;
    }
    before(body, key_start, b',')?;
    let value = value_start..value_end;
    // A string with an escape may have been cut at an escaped quote; the full scan reads it.
    (!value.is_empty() && memchr::memchr(b'\\', &body[value.clone()]).is_none()).then_some(value)
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn is_number_byte(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E')
}

fn skip_blanks(body: &[u8], from: usize) -> usize {
    from + body[from..]
        .iter()
        .take_while(|&&byte| is_blank(byte))
        .count()
}

fn skip_blanks_back(body: &[u8], end: usize) -> usize {
    end - body[..end]
        .iter()
        .rev()
        .take_while(|&&byte| is_blank(byte))
        .count()
}

/// The place behind `wanted`, which stands at `from` or behind blanks there.
fn expect(body: &[u8], from: usize, wanted: u8) -> Option<usize> {
    let at = skip_blanks(body, from);
    (body.get(at) == Some(&wanted)).then_some(at + 1)
}

/// The place of `wanted`, which stands just before `end` or before blanks there.
fn before(body: &[u8], end: usize, wanted: u8) -> Option<usize> {
    let at = skip_blanks_back(body, end).checked_sub(1)?;
    (body[at] == wanted).then_some(at)
}

/// The span of a string without escapes at `at`, with its quotes.
fn string(body: &[u8], at: usize) -> Option<Range<usize>> {
    if body.get(at) != Some(&b'"') {
        return None;
    }
    let end = at + 1 + memchr::memchr2(b'"', b'\\', &body[at + 1..])?;
    (body[end] == b'"').then_some(at..end + 1)
}

/// The span of a string without escapes, a number or a literal at `at`.
fn scalar(body: &[u8], at: usize) -> Option<Range<usize>> {
    match body.get(at)? {
        b'"' => string(body, at),
        b'-' | b'0'..=b'9' => Some(
            at..at
                + body[at..]
                    .iter()
                    .take_while(|&&byte| is_number_byte(byte))
                    .count(),
        ),
        _ => ["null", "true", "false"]
            .iter()
            .find(|literal| body[at..].starts_with(literal.as_bytes()))
            .map(|literal| at..at + literal.len()),
    }
}
