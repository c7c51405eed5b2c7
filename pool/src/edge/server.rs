//! Messages of a server, decoded before they become events.
//!
//! Invariant: a message that it does not know, or a notification whose content has another shape than
//! the protocol's, is [`Decoded::Plain`] wherever it can be passed on all the same.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::members::{
    each_member, integer, is_empty_array, items, member, members, span_in, string,
};
use super::{Decoded, ProgressPhase, Registration, ServerFacts};
use crate::wire::{Kind, Message, RawId};

/// The decoder of one server's messages.
#[derive(Debug)]
pub struct ServerEdge {
    initialize_id: RawId,
}

impl ServerEdge {
    /// A decoder for a server whose `initialize` was sent under this id.
    pub fn new(initialize_id: u64) -> Self {
        Self {
            initialize_id: RawId::number(initialize_id),
        }
    }

    /// What the core needs of a message beyond its envelope.
    ///
    /// Takes time in proportion to the body where the table of methods below needs its content, and none
    /// for an answer.
    pub fn decode(&mut self, message: &Message) -> Decoded {
        match message.kind() {
            Kind::Response if message.id() == Some(&self.initialize_id) => {
                server_facts(message).map_or_else(Decoded::missing, Decoded::ServerInitialized)
            }
            Kind::Response | Kind::ErrorResponse => super::answer(message),
            Kind::Request => request(message).unwrap_or_else(Decoded::missing),
            Kind::Notification => notification(message).unwrap_or_else(Decoded::missing),
        }
    }
}

fn request(message: &Message) -> Result<Decoded, String> {
    match message.method().as_deref() {
        Some("client/registerCapability") => registrations(message).map(Decoded::Register),
        Some("client/unregisterCapability") => unregistrations(message).map(Decoded::Unregister),
        Some("workspace/configuration") => sections(message).map(Decoded::AskConfiguration),
        Some("window/workDoneProgress/create") => {
            let token = super::token(message, "token").ok_or("params.token")?;
            Ok(Decoded::CreateProgress { token })
        }
        _ => Ok(Decoded::Plain),
    }
}

fn notification(message: &Message) -> Result<Decoded, String> {
    match message.method().as_deref() {
        Some("$/progress") => progress(message),
        Some("textDocument/publishDiagnostics") => diagnostics(message),
        Some("experimental/serverStatus") => Ok(server_status(message)),
        Some("$/cancelRequest") => {
            let token = super::token(message, "id").ok_or("params.id")?;
            Ok(Decoded::Cancel {
                id: token.token,
                span: token.span,
            })
        }
        Some("window/logMessage" | "window/showMessage") => {
            let text = message
                .params()
                .and_then(|params| member(params, "message"))
                .and_then(string);
            Ok(text.map_or(Decoded::Plain, |text| Decoded::Log {
                message: text.into_owned(),
            }))
        }
        _ => Ok(Decoded::Plain),
    }
}

fn progress(message: &Message) -> Result<Decoded, String> {
    let token = super::token(message, "token").ok_or("params.token")?;
    let value = message
        .params()
        .and_then(|params| member(params, "value"))
        .unwrap_or("null");
    let [kind, title, text, percentage] =
        members(value, ["kind", "title", "message", "percentage"]).unwrap_or_default();
    let phase = match kind.and_then(string).as_deref() {
        Some("begin") => ProgressPhase::Begin {
            title: owned(title).unwrap_or_default(),
        },
        Some("report") => ProgressPhase::Report,
        Some("end") => ProgressPhase::End,
        _ => ProgressPhase::Other,
    };
    Ok(Decoded::Progress {
        token,
        phase,
        message: owned(text),
        percentage: percentage.and_then(percent),
    })
}

/// A percentage as a server wrote it: some write fractions, and more than 100.
fn percent(json: &str) -> Option<u32> {
    let value: f64 = serde_json::from_str(json).ok()?;
    #[expect(clippy::cast_sign_loss, reason = "the value was just clamped to 0–100")]
    (value >= 0.0).then_some(value.min(100.0) as u32)
}

fn diagnostics(message: &Message) -> Result<Decoded, String> {
    let names = ["uri", "version", "diagnostics"];
    let [uri, version, list] = message
        .params()
        .and_then(|params| members(params, names))
        .ok_or("params")?;
    Ok(Decoded::Diagnostics {
        uri: owned(uri).ok_or("params.uri")?,
        version: version.and_then(integer),
        version_span: version.map(|version| span_in(message.bytes(), version)),
        empty: list.is_none_or(|list| list == "null" || is_empty_array(list)),
    })
}

fn server_status(message: &Message) -> Decoded {
    let names = ["quiescent", "health", "message"];
    let [quiescent, health, text] = message
        .params()
        .and_then(|params| members(params, names))
        .unwrap_or_default();
    match quiescent {
        Some(json @ ("true" | "false")) => Decoded::ServerStatus {
            quiescent: json == "true",
            health: owned(health),
            message: owned(text),
        },
        _ => Decoded::Plain,
    }
}

fn registrations(message: &Message) -> Result<Vec<Registration>, String> {
    let list = message
        .params()
        .and_then(|params| member(params, "registrations"));
    let list = list.and_then(items).ok_or("params.registrations")?;
    let registration = |(index, raw): (usize, &str)| {
        let missing = |name: &str| format!("params.registrations[{index}].{name}");
        let [id, method] = members(raw, ["id", "method"]).ok_or_else(|| missing("id"))?;
        Ok(Registration {
            id: id.and_then(registration_id).ok_or_else(|| missing("id"))?,
            method: owned(method).ok_or_else(|| missing("method"))?,
            raw: RawValue::from_string(raw.to_owned()).map_err(|_| missing("id"))?,
        })
    };
    list.into_iter().enumerate().map(registration).collect()
}

fn unregistrations(message: &Message) -> Result<Vec<(String, String)>, String> {
    // The protocol's own member name is misspelled; some servers correct it.
    let names = ["unregisterations", "unregistrations"];
    let [misspelled, corrected] = message
        .params()
        .and_then(|params| members(params, names))
        .unwrap_or_default();
    let list = misspelled
        .or(corrected)
        .and_then(items)
        .ok_or("params.unregisterations")?;
    let unregistration = |(index, raw): (usize, &str)| {
        let missing = |name: &str| format!("params.unregisterations[{index}].{name}");
        let [id, method] = members(raw, ["id", "method"]).ok_or_else(|| missing("id"))?;
        Ok((
            id.and_then(registration_id).ok_or_else(|| missing("id"))?,
            owned(method).ok_or_else(|| missing("method"))?,
        ))
    };
    list.into_iter().enumerate().map(unregistration).collect()
}

/// A registration's id: a string, and a number by its token.
fn registration_id(json: &str) -> Option<String> {
    string(json)
        .map(Cow::into_owned)
        .or_else(|| RawId::parse(json).map(|id| id.raw().to_owned()))
}

fn sections(message: &Message) -> Result<Vec<Option<String>>, String> {
    let list = message.params().and_then(|params| member(params, "items"));
    let list = list.and_then(items).ok_or("params.items")?;
    Ok(list
        .into_iter()
        .map(|item| owned(member(item, "section")))
        .collect())
}

fn server_facts(message: &Message) -> Result<Box<ServerFacts>, String> {
    let result = message.result_json().ok_or("result")?;
    let [capabilities, info, clangd_encoding] =
        members(result, ["capabilities", "serverInfo", "offsetEncoding"]).ok_or("result")?;
    let capabilities = capabilities.ok_or("result.capabilities")?;
    let [encoding, old_encoding, sync] = members(
        capabilities,
        ["positionEncoding", "offsetEncoding", "textDocumentSync"],
    )
    .ok_or("result.capabilities")?;
    let (sync_kind, wants_save) = sync.map_or((0, false), sync_facts);
    Ok(Box::new(ServerFacts {
        result: result.to_owned(),
        encoding: owned(encoding)
            .or_else(|| owned(clangd_encoding))
            .or_else(|| owned(old_encoding)),
        sync_kind,
        wants_save,
        providers: providers(capabilities),
        name: info.and_then(server_name),
    }))
}

/// The sync kind, and whether saves are wanted. A bare kind other than "none" stands for all of open, close,
/// change and save, as in the protocol's reference client.
fn sync_facts(sync: &str) -> (u8, bool) {
    if let Some([change, save]) = members(sync, ["change", "save"]) {
        let wants_save = save.is_some_and(|save| save == "true" || save.starts_with('{'));
        return (change.map_or(0, sync_kind), wants_save);
    }
    let kind = sync_kind(sync);
    (kind, kind != 0)
}

/// A kind that the protocol does not know is served with full texts, which need no agreement.
fn sync_kind(json: &str) -> u8 {
    match integer(json) {
        None | Some(0) => 0,
        Some(2) => 2,
        Some(_) => 1,
    }
}

fn providers(capabilities: &str) -> Vec<String> {
    let mut providers = Vec::new();
    // The text was read as an object before.
    let _ = each_member(capabilities, |key, value| {
        if let Some(key) = string(key)
            && key.ends_with("Provider")
            && (value == "true" || value.starts_with('{'))
        {
            providers.push(key.into_owned());
        }
    });
    providers.sort_unstable();
    providers.dedup();
    providers
}

fn server_name(info: &str) -> Option<String> {
    let [name, version] = members(info, ["name", "version"])?;
    let name = owned(name)?;
    Some(owned(version).map_or(name.clone(), |version| format!("{name} {version}")))
}

fn owned(json: Option<&str>) -> Option<String> {
    json.and_then(string).map(Cow::into_owned)
}

#[cfg(test)]
mod tests;
