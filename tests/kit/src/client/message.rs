//! Owns what a client received, as values that a test reads.

use std::ops::Range;

use bytes::Bytes;
use lspool_scripted_server::framing::Frame;
use lspool_scripted_server::members::{Kind, Members};
use serde::de::DeserializeOwned;

use crate::error::KitError;

/// A message that came, with its exact bytes.
#[derive(Clone, Debug)]
pub struct Received {
    /// Its place among all messages that came, counted from 0.
    pub index: usize,
    /// The header block as it came.
    pub header: Bytes,
    /// The body as it came.
    pub body: Bytes,
    /// Its kind.
    pub kind: Kind,
    /// Its method.
    pub method: Option<String>,
    /// The raw JSON of its id.
    pub id: Option<String>,
}

impl Received {
    pub(super) fn of(index: usize, frame: Frame) -> Self {
        let members = Members::read(&frame.body);
        let kind = members.as_ref().map_or(Kind::Malformed, Members::kind);
        let method = members.as_ref().and_then(Members::method);
        let id = members
            .as_ref()
            .and_then(|members| members.get("id").map(str::to_owned));
        Self {
            index,
            header: frame.header.into(),
            body: frame.body.into(),
            kind,
            method,
            id,
        }
    }

    /// The raw bytes of the top-level member `name`.
    pub fn member(&self, name: &str) -> Option<Bytes> {
        let members = Members::read(&self.body)?;
        let value = members.get(name)?;
        Some(self.body.slice(range_in(&self.body, value)))
    }

    /// The hash of the body without the value of its id; the other side's journal has it as `rest_hash`.
    pub fn rest_hash(&self) -> String {
        match Members::read(&self.body) {
            Some(members) => {
                let (before, after) = members.around_id();
                lspool_scripted_server::hash::of_parts(&[before, after])
            }
            None => lspool_scripted_server::hash::of(&self.body),
        }
    }

    /// The params, decoded.
    pub fn params<T: DeserializeOwned>(&self) -> Result<T, KitError> {
        decode("params", self.member("params").as_deref())
    }

    /// The start of the body for a failure's text.
    pub(super) fn summary(&self) -> String {
        String::from_utf8_lossy(&self.body)
            .chars()
            .take(200)
            .collect()
    }
}

fn range_in(body: &[u8], value: &str) -> Range<usize> {
    let start = value.as_ptr() as usize - body.as_ptr() as usize;
    start..start + value.len()
}

fn decode<T: DeserializeOwned>(what: &str, json: Option<&[u8]>) -> Result<T, KitError> {
    let json = json.unwrap_or(b"null");
    serde_json::from_slice(json).map_err(|error| KitError::Decode {
        what: what.to_owned(),
        reason: error.to_string(),
        text: String::from_utf8_lossy(json).chars().take(400).collect(),
    })
}

/// An answer to a request of the client.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The message.
    pub message: Received,
}

impl Answer {
    pub(super) fn of(message: Received) -> Self {
        Self { message }
    }

    /// The raw bytes of the result; an error when the answer is an error.
    pub fn result_raw(&self) -> Result<Bytes, KitError> {
        if let Some(error) = self.error_raw() {
            return Err(KitError::ErrorAnswer {
                id: self.message.id.clone().unwrap_or_default(),
                error: String::from_utf8_lossy(&error).into_owned(),
            });
        }
        self.message
            .member("result")
            .ok_or_else(|| KitError::Decode {
                what: "answer".to_owned(),
                reason: "it has neither result nor error".to_owned(),
                text: self.message.summary(),
            })
    }

    /// The result, decoded; an error when the answer is an error.
    pub fn result<T: DeserializeOwned>(&self) -> Result<T, KitError> {
        decode("result", Some(&self.result_raw()?))
    }

    /// The raw bytes of the error.
    pub fn error_raw(&self) -> Option<Bytes> {
        self.message.member("error")
    }

    /// The error's code.
    pub fn error_code(&self) -> Option<i64> {
        decode::<serde_json::Value>("error", self.error_raw().as_deref()).ok()?["code"].as_i64()
    }

    /// The error's message.
    pub fn error_message(&self) -> Option<String> {
        let error: serde_json::Value = decode("error", self.error_raw().as_deref()).ok()?;
        Some(error["message"].as_str()?.to_owned())
    }
}

/// What a client answers to a request of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientReply {
    /// A result of this raw JSON.
    Result(String),
    /// An error.
    Error {
        /// Its code.
        code: i64,
        /// Its message.
        message: String,
    },
    /// This whole body.
    Body(String),
    /// No answer. The test may send one itself, later.
    Silence,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}
