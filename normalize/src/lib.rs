//! What lspool says and understands, without any input or output: the four normalised operations, positions and
//! encodings, URIs, the shapes of servers' answers, the capability table, and text for people.
//!
//! Invariants: everything here is a pure function of its arguments (no file, no clock, no async), positions are
//! zero-based, and text that was sent is echoed as it was sent ([`WireUri`]) while comparison uses its decoded form
//! ([`UriKey`]).

#![forbid(unsafe_code)]

pub mod answer;
pub mod canonical;
pub mod capabilities;
pub mod edit;
pub mod envelope;
pub mod error;
pub mod hover;
mod json;
pub mod line_index;
pub mod locations;
pub mod operation;
pub mod position;
pub mod render;
pub mod request;
pub mod result;
pub mod token;
pub mod uri;

pub use answer::{HoverAnswer, Malformed, Place};
pub use envelope::{Completeness, Envelope, Progress, Readiness, Reason, TextSource, TextVersion};
pub use error::{CommonCode, ErrorData, LspCode, RpcError};
pub use line_index::LineIndex;
pub use operation::Operation;
pub use position::{Encoding, Position, PositionError, Range};
pub use request::{QueryCaps, QueryRequest, QueryTarget, RequestError};
pub use result::{ContextLine, HoverContent, Location, QueryResult};
pub use token::{Candidate, SymbolError, Token, TokenMismatch};
pub use uri::{UriKey, WireUri};
