//! The closed set of normalised operations and every name that one of them has.
//!
//! Invariant: there are exactly four (`design.md` §5); whoever matches on [`Operation`] matches exhaustively, so a fifth
//! cannot appear without every table being extended.

use serde::{Deserialize, Serialize};

/// One of the four normalised operations. Serialised by its protocol name, such as `goToDefinition`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Operation {
    /// Where a symbol is defined.
    GoToDefinition,
    /// Everywhere a symbol is used, its declaration included.
    FindReferences,
    /// What implements an interface, a trait or a virtual method.
    GoToImplementation,
    /// What the server says about a symbol.
    Hover,
}

impl Operation {
    /// All operations, in the order of the protocol page.
    pub const ALL: [Self; 4] = [
        Self::GoToDefinition,
        Self::FindReferences,
        Self::GoToImplementation,
        Self::Hover,
    ];

    /// The name in `lspool/query`, such as `goToDefinition`.
    pub fn name(self) -> &'static str {
        match self {
            Self::GoToDefinition => "goToDefinition",
            Self::FindReferences => "findReferences",
            Self::GoToImplementation => "goToImplementation",
            Self::Hover => "hover",
        }
    }

    /// The operation of a protocol name; `None` for any other word.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|operation| operation.name() == name)
    }

    /// The word on the command line, such as `definition`.
    pub fn cli_name(self) -> &'static str {
        match self {
            Self::GoToDefinition => "definition",
            Self::FindReferences => "references",
            Self::GoToImplementation => "implementation",
            Self::Hover => "hover",
        }
    }

    /// The operation of a command line word; `None` for any other word.
    pub fn from_cli_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|operation| operation.cli_name() == name)
    }

    /// The request that a language server is asked.
    pub fn method(self) -> &'static str {
        match self {
            Self::GoToDefinition => "textDocument/definition",
            Self::FindReferences => "textDocument/references",
            Self::GoToImplementation => "textDocument/implementation",
            Self::Hover => "textDocument/hover",
        }
    }

    /// The member of `ServerCapabilities` that says whether a server has it; `true` or an object means yes.
    pub fn capability(self) -> &'static str {
        match self {
            Self::GoToDefinition => "definitionProvider",
            Self::FindReferences => "referencesProvider",
            Self::GoToImplementation => "implementationProvider",
            Self::Hover => "hoverProvider",
        }
    }

    /// Whether the result is a list of places (everything but hover).
    pub fn answers_locations(self) -> bool {
        self != Self::Hover
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_back_to_its_operation() {
        for operation in Operation::ALL {
            assert_eq!(Operation::from_name(operation.name()), Some(operation));
            assert_eq!(
                Operation::from_cli_name(operation.cli_name()),
                Some(operation)
            );
            let serialised = serde_json::to_string(&operation).unwrap();
            assert_eq!(serialised, format!("\"{}\"", operation.name()));
        }
    }

    #[test]
    fn the_set_is_closed() {
        for word in ["", "GoToDefinition", "rename", "textDocument/hover"] {
            assert_eq!(Operation::from_name(word), None);
        }
        assert_eq!(Operation::from_cli_name("goToDefinition"), None);
    }
}
