//! What one client really announced, as far as anything here asks for it.
//!
//! Invariant: a key counts as announced only with the value that means yes; a wrong type is a no.

use std::collections::BTreeSet;

use super::messages::{REGISTRATIONS, SERVER_MESSAGES};
use super::table::{Key, LSPOOL_MEMBER, ROWS};
use crate::canonical::Members;
use crate::position::Encoding;

/// Which formats of `MarkupContent` a client takes in a hover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HoverFormats {
    /// Markdown.
    pub markdown: bool,
    /// Plain text.
    pub plaintext: bool,
}

/// What one client announced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientOffer {
    keys: BTreeSet<Key>,
    hover: HoverFormats,
    /// Server messages, by method, whose capability the client has.
    messages: BTreeSet<&'static str>,
    /// Methods for which the client takes registrations.
    registrations: BTreeSet<&'static str>,
    encodings: BTreeSet<Encoding>,
    knows_lspool: bool,
}

impl ClientOffer {
    /// Reads a capabilities object.
    pub(super) fn read(capabilities: &str) -> Result<Self, serde_json::Error> {
        let is_true = |path: &[&str]| {
            Ok::<bool, serde_json::Error>(lookup(capabilities, path)? == Some("true"))
        };
        let mut keys = BTreeSet::new();
        for row in ROWS.iter().filter(|row| row.value == "true") {
            if is_true(row.path)? {
                keys.insert(row.key);
            }
        }
        let mut messages = BTreeSet::new();
        for (method, path) in SERVER_MESSAGES {
            if is_true(path)? {
                messages.insert(*method);
            }
        }
        let mut registrations = BTreeSet::new();
        for (method, path) in REGISTRATIONS {
            if is_true(path)? {
                registrations.insert(*method);
            }
        }
        let formats = strings(lookup(
            capabilities,
            &["textDocument", "hover", "contentFormat"],
        )?);
        let has = |format: &str| formats.iter().any(|found| found == format);
        Ok(Self {
            keys,
            hover: HoverFormats {
                markdown: has("markdown"),
                plaintext: has("plaintext"),
            },
            messages,
            registrations,
            encodings: encodings(capabilities)?,
            knows_lspool: lookup(capabilities, &["experimental", LSPOOL_MEMBER])?
                .is_some_and(|value| value != "null" && value != "false"),
        })
    }

    /// Whether the client announced a key that is on or off.
    pub fn has(&self, key: Key) -> bool {
        self.keys.contains(&key)
    }

    /// The hover formats that the client takes; neither when it announced none.
    pub fn hover_formats(&self) -> HoverFormats {
        self.hover
    }

    /// Whether the client counts columns in that unit if the server chooses it. UTF-16 is always offered.
    pub fn offers_encoding(&self, encoding: Encoding) -> bool {
        encoding == Encoding::Utf16 || self.encodings.contains(&encoding)
    }

    /// Whether the client sent `experimental.lspool`, and so reads lspool's own member in the result of `initialize`.
    pub fn knows_lspool(&self) -> bool {
        self.knows_lspool
    }

    /// Whether the client takes the server message of that method; `None` for a method that needs no capability.
    pub(super) fn takes_message(&self, method: &str) -> Option<bool> {
        let (method, _) = SERVER_MESSAGES.iter().find(|(known, _)| *known == method)?;
        Some(self.messages.contains(method))
    }

    /// Whether the client takes a registration for that method. Methods that the table does not know are taken, since
    /// only client and server know what they agreed on.
    pub(super) fn takes_registration(&self, method: &str) -> bool {
        let known = REGISTRATIONS.iter().any(|(known, _)| *known == method);
        !known || self.registrations.contains(method)
    }
}

fn encodings(capabilities: &str) -> Result<BTreeSet<Encoding>, serde_json::Error> {
    let mut found = BTreeSet::new();
    for path in [
        ["general", "positionEncodings"].as_slice(),
        ["offsetEncoding"].as_slice(),
    ] {
        let names = strings(lookup(capabilities, path)?);
        found.extend(
            names
                .iter()
                .filter_map(|name| Encoding::from_lsp_name(name)),
        );
    }
    Ok(found)
}

/// The value at the end of a path of members; `None` where the path ends early.
fn lookup<'json>(
    object: &'json str,
    path: &[&str],
) -> Result<Option<&'json str>, serde_json::Error> {
    let mut value = object;
    for name in path {
        if !value.starts_with('{') {
            return Ok(None);
        }
        let members: Members<'json> = serde_json::from_str(value)?;
        let found = members
            .0
            .iter()
            .rev()
            .find(|member| member.name().as_deref() == Some(*name));
        match found {
            Some(member) => value = member.value,
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}

/// The strings of an array; none for anything else.
fn strings(json: Option<&str>) -> Vec<String> {
    let items: Vec<serde_json::Value> = json
        .and_then(|json| serde_json::from_str(json).ok())
        .unwrap_or_default();
    items
        .iter()
        .filter_map(|item| item.as_str().map(str::to_owned))
        .collect()
}
