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
        let tree = Tree::read(capabilities, LEVELS)?;
        let is_true = |path: &[&str]| tree.at(path) == Some("true");
        let announced = |table: &[(&'static str, &[&str])]| {
            let methods = table.iter().filter(|(_, path)| is_true(path));
            methods.map(|(method, _)| *method).collect()
        };
        let formats = strings(tree.at(&["textDocument", "hover", "contentFormat"]));
        let has = |format: &str| formats.iter().any(|found| found == format);
        Ok(Self {
            keys: ROWS
                .iter()
                .filter(|row| is_true(row.path))
                .map(|row| row.key)
                .collect(),
            hover: HoverFormats {
                markdown: has("markdown"),
                plaintext: has("plaintext"),
            },
            messages: announced(SERVER_MESSAGES),
            registrations: announced(REGISTRATIONS),
            encodings: encodings(&tree),
            knows_lspool: tree
                .at(&["experimental", LSPOOL_MEMBER])
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

fn encodings(tree: &Tree<'_>) -> BTreeSet<Encoding> {
    let keys = [
        ["general", "positionEncodings"].as_slice(),
        ["offsetEncoding"].as_slice(),
    ];
    let names = keys.into_iter().flat_map(|path| strings(tree.at(path)));
    names
        .filter_map(|name| Encoding::from_lsp_name(&name))
        .collect()
}

/// How many levels of members a key of any table lies below the top.
const LEVELS: usize = 3;

/// An object's members, read once for all look-ups.
struct Tree<'json> {
    json: &'json str,
    members: Vec<(String, Tree<'json>)>,
}

impl<'json> Tree<'json> {
    fn read(json: &'json str, levels: usize) -> Result<Self, serde_json::Error> {
        let mut members = Vec::new();
        if levels > 0 && json.starts_with('{') {
            let spelled: Members<'json> = serde_json::from_str(json)?;
            for member in spelled.0 {
                if let Some(name) = member.name() {
                    members.push((name, Self::read(member.value, levels - 1)?));
                }
            }
        }
        Ok(Self { json, members })
    }

    /// The value at the end of a path of members, the last of equal ones; `None` where the path ends early.
    fn at(&self, path: &[&str]) -> Option<&'json str> {
        let mut tree = self;
        for name in path {
            let found = tree.members.iter().rev().find(|(known, _)| known == name)?;
            tree = &found.1;
        }
        Some(tree.json)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_table_looks_deeper_than_is_read() {
        let rows = ROWS.iter().map(|row| row.path);
        let methods = SERVER_MESSAGES
            .iter()
            .chain(REGISTRATIONS)
            .map(|(_, path)| *path);
        assert_eq!(rows.chain(methods).map(<[&str]>::len).max(), Some(LEVELS));
    }
}
