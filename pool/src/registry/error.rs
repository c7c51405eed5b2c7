//! Why a file of server definitions was refused.

use thiserror::Error;

/// A refused configuration. The file is refused whole: nothing of it is in force (details, "Faces:
/// command line and configuration").
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    /// `CONFIG_INVALID`: the text is not TOML, a key is unknown, or a value has the wrong type or form.
    #[error("{origin}:{line}: {}{problem}", key_prefix(key))]
    Invalid {
        /// The file, or another name of where the text came from.
        origin: String,
        /// One-based line of the key.
        line: usize,
        /// Dotted path of the key; empty where the text is not TOML at all.
        key: String,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// `CONFIG_CONFLICT`: two definitions of one server in one file.
    #[error(
        "{origin}:{line}: server `{id}` is defined twice, first on line {first_line}; keep one of the two"
    )]
    Conflict {
        /// The file, or another name of where the text came from.
        origin: String,
        /// One-based line of the second definition.
        line: usize,
        /// One-based line of the first definition.
        first_line: usize,
        /// The identifier that both claim.
        id: String,
    },
}

impl ConfigError {
    /// The stable code by which programs tell the errors apart.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "CONFIG_INVALID",
            Self::Conflict { .. } => "CONFIG_CONFLICT",
        }
    }
}

fn key_prefix(key: &str) -> String {
    if key.is_empty() {
        String::new()
    } else {
        format!("`{key}`: ")
    }
}
