//! The server registry: which language servers there are and which of them serves a file (design §4).
//!
//! A registry is a value: built whole from the built-in table and then from a person's file, never
//! changed in place. A file with one fault changes nothing.

mod decode;
mod definition;
mod error;
mod launch;
mod nearest;
mod select;
mod table;

#[cfg(test)]
mod tests;

pub use definition::{
    Definition, EnvironmentRule, InstallHint, Language, PathPattern, Readiness, RootPick, RootRule,
    TokenRule,
};
pub use error::ConfigError;
pub use launch::{LaunchError, LaunchFacts, LaunchInput};
pub use nearest::nearest;
pub use select::ServerMatch;

use std::sync::{Arc, LazyLock};

use decode::decode;

/// The built-in table, as data.
const BUILTIN: &str = include_str!("builtin.toml");

/// All server definitions in force, in order of preference.
#[derive(Clone, Debug)]
pub struct Registry {
    /// What a new definition begins as.
    defaults: Arc<Definition>,
    definitions: Vec<Arc<Definition>>,
}

impl Registry {
    /// The servers that lspool knows without configuration.
    ///
    /// # Panics
    /// Never: the table is part of the program, and a test decodes it.
    pub fn builtin() -> Self {
        static DECODED: LazyLock<Registry> = LazyLock::new(Registry::decode_builtin);
        DECODED.clone()
    }

    fn decode_builtin() -> Self {
        let decoded = decode(BUILTIN, "builtin.toml", |_| None, None, &[])
            .expect("the built-in table is part of the program and a test decodes it");
        let defaults = decoded
            .defaults
            .expect("the built-in table has its defaults and a test decodes it");
        let definitions = decoded.servers.into_iter();
        Self {
            defaults: Arc::new(defaults),
            definitions: definitions
                .map(|server| Arc::new(server.definition))
                .collect(),
        }
    }

    /// This registry changed by a person's file that holds server definitions and nothing else.
    ///
    /// A `[[server]]` with a known `id` changes the keys that it names; one with a new `id` is added and
    /// preferred to those known before it; `enabled = false` takes one out. `origin` names the file in errors.
    ///
    /// # Errors
    /// `CONFIG_INVALID` with file, line and key, `CONFIG_CONFLICT` for two definitions of one `id`.
    pub fn with_user(&self, text: &str, origin: &str) -> Result<Self, ConfigError> {
        self.with_user_beside(text, origin, &[])
    }

    /// As [`Registry::with_user`], for a file whose top-level keys `others` belong to other readers.
    ///
    /// # Errors
    /// As [`Registry::with_user`].
    pub fn with_user_beside(
        &self,
        text: &str,
        origin: &str,
        others: &[&str],
    ) -> Result<Self, ConfigError> {
        let decoded = decode(
            text,
            origin,
            |id| self.find(id),
            Some(&self.defaults),
            others,
        )?;
        let mut added = Vec::new();
        let mut known = self.definitions.clone();
        for server in decoded.servers {
            let position = known
                .iter()
                .position(|definition| definition.id == server.definition.id);
            match (position, server.enabled) {
                (Some(index), true) => known[index] = Arc::new(server.definition),
                (Some(index), false) => drop(known.remove(index)),
                (None, true) => added.push(Arc::new(server.definition)),
                (None, false) => {}
            }
        }
        added.extend(known);
        Ok(Self {
            defaults: Arc::clone(&self.defaults),
            definitions: added,
        })
    }

    /// All definitions, in order of preference.
    pub fn definitions(&self) -> &[Arc<Definition>] {
        &self.definitions
    }

    /// The definition of that `id`.
    pub fn definition(&self, id: &str) -> Option<&Arc<Definition>> {
        self.definitions
            .iter()
            .find(|definition| definition.id == id)
    }

    /// What is assumed of a server that no definition describes.
    pub fn defaults(&self) -> &Arc<Definition> {
        &self.defaults
    }

    fn find(&self, id: &str) -> Option<&Definition> {
        self.definition(id).map(Arc::as_ref)
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::builtin()
    }
}
