//! Messages of a client, decoded before they become events.
//!
//! Invariant: this decoder is the one owner of its client's texts; a change is applied exactly once, in the
//! order sent, before the core hears of it. A message that it does not know is [`Decoded::Plain`].

use std::collections::BTreeMap;
use std::sync::Arc;

use lspool_normalize::canonical;

use super::members::{integer, member, members, span_in, string};
use super::{Decoded, Text, TokenSpan, change, initialize};
use crate::wire::{Kind, Message, RawId};

/// The decoder of one client's messages; it owns the client's texts.
#[derive(Debug, Default)]
pub struct ClientEdge {
    texts: BTreeMap<String, Text>,
}

impl ClientEdge {
    /// A decoder at the start of a connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// What the core needs of a message beyond its envelope.
    ///
    /// Takes time in proportion to the body, and to the document for a change.
    pub fn decode(&mut self, message: &Message) -> Decoded {
        match message.kind() {
            Kind::Response | Kind::ErrorResponse => super::answer(message),
            Kind::Request if message.method().as_deref() == Some("initialize") => {
                initialize::decode(message.params())
                    .map_or_else(Decoded::missing, Decoded::Initialize)
            }
            Kind::Request => request(message),
            Kind::Notification => self.notification(message).unwrap_or_else(Decoded::missing),
        }
    }

    fn notification(&mut self, message: &Message) -> Result<Decoded, String> {
        match message.method().as_deref() {
            Some("textDocument/didOpen") => self.open(message),
            Some("textDocument/didChange") => self.change(message),
            Some("textDocument/didClose") => {
                let uri = document_uri(message)?;
                self.texts.remove(&uri);
                Ok(Decoded::Close { uri })
            }
            Some("textDocument/didSave") => Ok(Decoded::Save {
                uri: document_uri(message)?,
            }),
            Some("$/cancelRequest") => {
                let token = super::token(message, "id").ok_or("params.id")?;
                Ok(Decoded::Cancel {
                    id: token.token,
                    span: token.span,
                })
            }
            Some("window/workDoneProgress/cancel") => {
                let token = super::token(message, "token").ok_or("params.token")?;
                Ok(Decoded::CancelProgress { token })
            }
            Some("workspace/didChangeConfiguration") => {
                let settings = message
                    .params()
                    .and_then(|params| member(params, "settings"));
                Ok(Decoded::Configuration {
                    digest: settings_digest(settings)?,
                })
            }
            _ => Ok(Decoded::Plain),
        }
    }

    fn open(&mut self, message: &Message) -> Result<Decoded, String> {
        let document = text_document(message)?;
        let [uri, language, version, text] =
            members(document, ["uri", "languageId", "version", "text"])
                .ok_or("params.textDocument")?;
        let uri = uri
            .and_then(string)
            .ok_or("params.textDocument.uri")?
            .into_owned();
        let content = text.and_then(string).ok_or("params.textDocument.text")?;
        let text = Text::new(Arc::<str>::from(content));
        self.texts.insert(uri.clone(), text.clone());
        Ok(Decoded::Open {
            uri,
            // Some clients leave it out; the server is told what the client told.
            language: language.and_then(string).unwrap_or_default().into_owned(),
            version: version.and_then(integer),
            version_span: version.map(|version| span_in(message.bytes(), version)),
            text,
        })
    }

    fn change(&mut self, message: &Message) -> Result<Decoded, String> {
        let [document, changes] = message
            .params()
            .and_then(|params| members(params, ["textDocument", "contentChanges"]))
            .ok_or("params")?;
        let [uri, version] = document
            .and_then(|document| members(document, ["uri", "version"]))
            .ok_or("params.textDocument")?;
        let uri = uri
            .and_then(string)
            .ok_or("params.textDocument.uri")?
            .into_owned();
        let changes = changes.ok_or("params.contentChanges")?;
        let mut before = None;
        let mut after = None;
        if let Some(text) = self.texts.get_mut(&uri) {
            before = Some(text.id);
            *text = Text::new(change::apply(&text.content, changes)?);
            after = Some(text.clone());
        }
        Ok(Decoded::Change {
            uri,
            version: version.and_then(integer),
            version_span: version.map(|version| span_in(message.bytes(), version)),
            before,
            text: after,
        })
    }
}

fn request(message: &Message) -> Decoded {
    let names = ["workDoneToken", "partialResultToken", "textDocument"];
    let [work_done, partial_result, document] = message
        .params()
        .and_then(|params| members(params, names))
        .unwrap_or_default();
    let token = |json: Option<&str>| {
        let json = json?;
        let token = RawId::parse(json).filter(|token| !token.is_null())?;
        Some(TokenSpan {
            token,
            span: span_in(message.bytes(), json),
        })
    };
    Decoded::Request {
        work_done: token(work_done),
        partial_result: token(partial_result),
        document: document
            .and_then(|document| member(document, "uri"))
            .and_then(string)
            .map(std::borrow::Cow::into_owned),
    }
}

fn text_document(message: &Message) -> Result<&str, String> {
    let document = message
        .params()
        .and_then(|params| member(params, "textDocument"));
    Ok(document.ok_or("params.textDocument")?)
}

fn document_uri(message: &Message) -> Result<String, String> {
    let uri = member(text_document(message)?, "uri").and_then(string);
    Ok(uri.ok_or("params.textDocument.uri")?.into_owned())
}

/// The digest of settings, `0` for what says nothing.
fn settings_digest(settings: Option<&str>) -> Result<u128, String> {
    let Some(settings) = settings else {
        return Ok(0);
    };
    let text =
        canonical::canonical(settings).map_err(|error| format!("params.settings ({error})"))?;
    if matches!(text.as_str(), "null" | "{}") {
        return Ok(0);
    }
    canonical::digest(settings).map_err(|error| format!("params.settings ({error})"))
}

#[cfg(test)]
mod tests;
