//! Error codes and the error object of the custom methods.
//!
//! Invariant: a code, once published, never changes its spelling; programs route by it and never by the message
//! (`protocol.md`, "Errors").

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// JSON-RPC number of a request whose parameters are wrong.
pub const INVALID_PARAMS: i64 = -32602;
/// JSON-RPC number of a method that does not exist.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// JSON-RPC number of a request that was cancelled.
pub const REQUEST_CANCELLED: i64 = -32800;
/// JSON-RPC number of everything that failed as specified.
pub const REQUEST_FAILED: i64 = -32803;

macro_rules! codes {
    ($(#[$outer:meta])* $name:ident { $($(#[$inner:meta])* $variant:ident = $text:literal, $retryable:literal;)+ }) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$inner])* $variant,)+
        }

        impl $name {
            /// All codes, in the order of the protocol page.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The stable spelling.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }

            /// Whether the same request, sent again unchanged, may succeed.
            pub fn retryable(self) -> bool {
                match self {
                    $(Self::$variant => $retryable,)+
                }
            }

            /// The code of a spelling; `None` for any other text.
            pub fn from_code(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.as_str() == text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}

codes! {
    /// What can go wrong with a query (`protocol.md`, "`lspool/query`").
    LspCode {
        /// No server for this file; the message names those that would do and how to install them.
        Unavailable = "LSP_UNAVAILABLE", false;
        /// A relative file with no root, or with several, to be relative to.
        WorkspaceRequired = "LSP_WORKSPACE_REQUIRED", false;
        /// The server has no such operation, by capability or by its own answer.
        UnsupportedOperation = "LSP_UNSUPPORTED_OPERATION", false;
        /// The server's answer has no legal shape; the message names the server and the field.
        MalformedResponse = "LSP_MALFORMED_RESPONSE", false;
        /// The server answered an error; the detail holds its code and data.
        ServerError = "LSP_SERVER_ERROR", false;
        /// The server did not come up; the detail holds the end of its stderr.
        StartFailed = "LSP_START_FAILED", false;
        /// The server crashed too often to be started again by itself.
        Crashed = "LSP_CRASHED", false;
        /// No answer came in the budget; the detail names the phase.
        Timeout = "LSP_TIMEOUT", true;
        /// The file is not inside the given root.
        OutsideWorkspace = "LSP_OUTSIDE_WORKSPACE", false;
        /// Another identifier stands at the position than the one expected.
        TokenMismatch = "LSP_TOKEN_MISMATCH", false;
        /// The symbol does not stand where it was looked for.
        SymbolNotFound = "LSP_SYMBOL_NOT_FOUND", false;
        /// The symbol stands there several times.
        SymbolAmbiguous = "LSP_SYMBOL_AMBIGUOUS", false;
        /// The text has no such line or column.
        PositionOutOfRange = "LSP_POSITION_OUT_OF_RANGE", false;
        /// The document is larger than the limit in the detail.
        DocumentTooLarge = "LSP_DOCUMENT_TOO_LARGE", false;
        /// The server was restarted while the request was in flight.
        Restarted = "LSP_RESTARTED", true;
        /// The server does not read what it is sent.
        Stalled = "LSP_STALLED", true;
        /// The server counts columns in another unit and the text to convert with is not known.
        Encoding = "LSP_ENCODING", false;
        /// The server or its settings come from a project that is not trusted.
        NotTrusted = "LSP_NOT_TRUSTED", false;
        /// The server, its world or the daemon is being ended.
        Disposed = "LSP_DISPOSED", true;
    }
}

codes! {
    /// What can go wrong with every custom method (`protocol.md`, "Errors").
    CommonCode {
        /// The parameters have a wrong shape or value; always with JSON-RPC number -32602.
        InvalidParams = "INVALID_PARAMS", false;
        /// The world cannot be reached.
        WorldUnavailable = "WORLD_UNAVAILABLE", true;
        /// The world could not be brought up.
        WorldStartFailed = "WORLD_START_FAILED", true;
        /// The world was lost while the request ran.
        WorldLost = "WORLD_LOST", true;
        /// The path or the process belongs to another world.
        WorldMismatch = "WORLD_MISMATCH", false;
        /// The world cannot do this, or it is not built yet.
        WorldUnsupported = "WORLD_UNSUPPORTED", false;
        /// The world is being ended.
        WorldDisposed = "WORLD_DISPOSED", false;
        /// The method is switched off on this connection.
        MethodDisabled = "METHOD_DISABLED", false;
        /// The peer is confined and may not ask this.
        PeerConfined = "PEER_CONFINED", false;
        /// A value is above its cap; the detail names the field and the cap.
        LimitExceeded = "LIMIT_EXCEEDED", false;
    }
}

/// The `data` of an error: what programs read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorData {
    /// A stable upper-case code.
    pub code: Cow<'static, str>,
    /// Whether the same request may succeed later; absent where the request itself is wrong (`INVALID_PARAMS`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// What the code's documentation promises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
}

/// A JSON-RPC error object: `code`, `message` for people, `data` for programs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    /// The JSON-RPC number.
    pub code: i64,
    /// What happened, to what, and what the person can do.
    pub message: String,
    /// The stable code and its detail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<ErrorData>,
}

impl RpcError {
    /// A failure as specified: number -32803.
    pub fn failed(
        code: impl Into<Cow<'static, str>>,
        retryable: bool,
        message: impl Into<String>,
        detail: Option<Value>,
    ) -> Self {
        Self {
            code: REQUEST_FAILED,
            message: message.into(),
            data: Some(ErrorData {
                code: code.into(),
                retryable: Some(retryable),
                detail,
            }),
        }
    }

    /// A failed query.
    pub fn lsp(code: LspCode, message: impl Into<String>, detail: Option<Value>) -> Self {
        Self::failed(code.as_str(), code.retryable(), message, detail)
    }

    /// A failure that every method can have; `INVALID_PARAMS` goes through [`Self::invalid_params`].
    pub fn common(code: CommonCode, message: impl Into<String>, detail: Option<Value>) -> Self {
        Self::failed(code.as_str(), code.retryable(), message, detail)
    }

    /// A wrong parameter: number -32602, `data = { code, detail: { field } }`.
    pub fn invalid_params(field: &str, message: impl Into<String>) -> Self {
        Self {
            code: INVALID_PARAMS,
            message: message.into(),
            data: Some(ErrorData {
                code: CommonCode::InvalidParams.as_str().into(),
                retryable: None,
                detail: Some(json!({ "field": field })),
            }),
        }
    }

    /// A value above its cap: `LIMIT_EXCEEDED` with `detail = { field, cap }`.
    pub fn limit_exceeded(field: &str, cap: u64) -> Self {
        Self::common(
            CommonCode::LimitExceeded,
            format!("`{field}` is above its cap of {cap}"),
            Some(json!({ "field": field, "cap": cap })),
        )
    }

    /// A request that was cancelled before it had an answer: number -32800.
    pub fn cancelled() -> Self {
        Self {
            code: REQUEST_CANCELLED,
            message: "the request was cancelled".to_owned(),
            data: None,
        }
    }

    /// A method that does not exist: number -32601.
    pub fn method_not_found(method: &str) -> Self {
        Self {
            code: METHOD_NOT_FOUND,
            message: format!("there is no method `{method}`"),
            data: None,
        }
    }

    /// The stable code, where there is one.
    pub fn stable_code(&self) -> Option<&str> {
        self.data.as_ref().map(|data| data.code.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_upper_case_unique_and_lead_back() {
        let mut seen = std::collections::BTreeSet::new();
        for code in LspCode::ALL {
            assert!(code.as_str().starts_with("LSP_"));
            assert_eq!(LspCode::from_code(code.as_str()), Some(*code));
            assert!(seen.insert(code.as_str()));
        }
        for code in CommonCode::ALL {
            assert!(
                code.as_str()
                    .bytes()
                    .all(|byte| byte.is_ascii_uppercase() || byte == b'_')
            );
            assert_eq!(CommonCode::from_code(code.as_str()), Some(*code));
            assert!(seen.insert(code.as_str()));
        }
        assert_eq!(LspCode::from_code("LSP_NOTHING"), None);
    }

    #[test]
    fn errors_have_the_shape_of_the_protocol_page() {
        let error =
            RpcError::invalid_params("position.line", "`position.line` must be a whole number");
        assert_eq!(
            serde_json::to_value(&error).unwrap(),
            json!({ "code": -32602, "message": "`position.line` must be a whole number",
                    "data": { "code": "INVALID_PARAMS", "detail": { "field": "position.line" } } })
        );
        let error = RpcError::lsp(
            LspCode::Timeout,
            "no answer",
            Some(json!({ "phase": "boot" })),
        );
        assert_eq!(
            serde_json::to_value(&error).unwrap(),
            json!({ "code": -32803, "message": "no answer",
                    "data": { "code": "LSP_TIMEOUT", "retryable": true, "detail": { "phase": "boot" } } })
        );
        assert_eq!(
            serde_json::to_value(RpcError::limit_exceeded("maxLocations", 10_000)).unwrap()["data"],
            json!({ "code": "LIMIT_EXCEEDED", "retryable": false, "detail": { "field": "maxLocations", "cap": 10_000 } })
        );
    }
}
