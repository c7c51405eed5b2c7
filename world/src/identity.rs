//! The identity of a world. Two seams belong together exactly when their identities are equal.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// The identity of one execution world.
///
/// Compared for equality; its text (`local`, later `ssh:…` or `e2b:…`) is for people and for status.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorldId(Arc<str>);

impl WorldId {
    /// The identity of the machine on which lspool itself runs.
    pub fn local() -> Self {
        Self(Arc::from("local"))
    }

    /// An identity with the given text. A provider makes one for each world that it opens.
    pub fn named(name: &str) -> Self {
        Self(Arc::from(name))
    }

    /// The text of the identity.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorldId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Serialize for WorldId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}
