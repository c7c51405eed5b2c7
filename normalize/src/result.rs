//! The result of a normalised operation as it is sent (`protocol.md`, "`lspool/query`").
//!
//! Invariant: member names and the presence of each are the protocol page's; what is not known is left out, never
//! guessed. Only `hover` itself is written as `null`, since there it means "nothing to say".

use serde::{Deserialize, Serialize};

use crate::envelope::Envelope;
use crate::position::Range;
use crate::token::Token;
use crate::uri::WireUri;

/// What a query answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum QueryResult {
    /// The places of a definition, of references or of implementations.
    Locations {
        /// Deduplicated, in the order of `locations::normalise`.
        locations: Vec<Location>,
        /// The identifier that was asked about; absent where none stands at the position.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<Token>,
        /// How far to trust the list.
        envelope: Envelope,
    },
    /// What the server says about a symbol.
    Hover {
        /// The text, or `null` when the server has nothing to say.
        hover: Option<HoverContent>,
        /// The identifier that was asked about; absent where none stands at the position.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<Token>,
        /// How far to trust the text.
        envelope: Envelope,
    },
}

impl QueryResult {
    /// The envelope of either kind.
    pub fn envelope(&self) -> &Envelope {
        match self {
            Self::Locations { envelope, .. } | Self::Hover { envelope, .. } => envelope,
        }
    }

    /// The token of either kind.
    pub fn token(&self) -> Option<&Token> {
        match self {
            Self::Locations { token, .. } | Self::Hover { token, .. } => token.as_ref(),
        }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Locations { locations, .. } => locations.is_empty(),
            Self::Hover { hover, .. } => hover.is_none(),
        }
    }
}

/// Hover text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoverContent {
    /// Markdown, or plain text where the server sends that; cleaned by the rules of `hover::clean`.
    pub contents: String,
    /// What the text is about, in the unit of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<Range>,
}

/// One place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Location {
    /// The file, in the spelling that it was asked in or that the server used.
    pub uri: WireUri,
    /// The name's range (`targetSelectionRange` of a link), in the unit of the request.
    pub range: Range,
    /// The whole item's range (`targetRange` of a link), where the server gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_range: Option<Range>,
    /// The path in the world; for a virtual document the URI.
    pub path: String,
    /// Whether the file lies inside the workspace.
    pub in_workspace: bool,
    /// Set on the declaration among references.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub declaration: bool,
    /// Set where the file says of itself that it is generated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub generated: bool,
    /// The text of the line on which the range starts; absent when the file cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// Lines around it, when asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Vec<ContextLine>>,
    /// The file's fs version when it was read; absent when it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// A line near a place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextLine {
    /// Zero-based number of the line.
    pub line: u32,
    /// Its text without the line end.
    pub text: String,
}
