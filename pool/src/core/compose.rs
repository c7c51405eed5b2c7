//! The messages that jobs compose for the places which the core holds: pure, and in proportion to a body, so the
//! shell runs them beside the core.
//!
//! Invariant: what the core believes of a server's text is what these messages tell the server.

use lspool_normalize::{capabilities, edit};

use crate::edge::Text;
use crate::wire::{Message, Outgoing, RawId, quoted};

use super::effect::Job;

/// JSON-RPC: internal error.
const INTERNAL_ERROR: i64 = -32603;

/// The message of `Job::Open`, `Job::Change` or `Job::Lower`; `None` for a job that composes none.
pub fn compose(job: &Job) -> Option<Outgoing> {
    match job {
        Job::Open {
            uri,
            language,
            version,
            text,
        } => Some(opened(uri, language, *version, text)),
        Job::Change {
            uri,
            version,
            before,
            after,
            incremental,
        } => {
            let difference =
                edit::single_change(&before.content, &after.content).filter(|_| *incremental);
            let change = difference.and_then(|change| Some((change.range?, change.text)));
            Some(changed(uri, *version, change, after))
        }
        Job::Lower {
            method,
            document,
            offer,
            answer,
            id,
        } => {
            let lowered = answer
                .result_json()
                .and_then(|result| capabilities::lower(method, offer, result, document.as_deref()));
            Some(match lowered {
                Some(result) => Message::result(id, &result).into(),
                None => Outgoing::with_id(answer, id),
            })
        }
        Job::Launch { .. } | Job::Prepare { .. } | Job::Reread { .. } | Job::Finish { .. } => None,
    }
}

/// What fills the place of a job whose composition failed: the whole text instead of a difference, an error instead
/// of an answer in another shape. A place is never left open, since nothing behind it would be written.
pub fn compose_plainly(job: &Job) -> Option<Outgoing> {
    match job {
        Job::Change {
            uri,
            version,
            after,
            ..
        } => Some(changed(uri, *version, None, after)),
        Job::Lower { method, id, .. } => Some(unshaped(method, id)),
        _ => compose(job),
    }
}

fn unshaped(method: &str, id: &RawId) -> Outgoing {
    let text =
        format!("the answer to {method} could not be brought into the shape that was announced");
    Message::error(id, INTERNAL_ERROR, &text, None).into()
}

fn opened(uri: &str, language: &str, version: i64, text: &Text) -> Outgoing {
    let params = format!(
        r#"{{"textDocument":{{"uri":{},"languageId":{},"version":{version},"text":{}}}}}"#,
        quoted(uri),
        quoted(language),
        quoted(&text.content)
    );
    Message::notification("textDocument/didOpen", &params).into()
}

fn changed(
    uri: &str,
    version: i64,
    change: Option<(lspool_normalize::Range, String)>,
    after: &Text,
) -> Outgoing {
    let change = match change {
        Some((range, text)) => format!(
            r#"{{"range":{{"start":{{"line":{},"character":{}}},"end":{{"line":{},"character":{}}}}},"text":{}}}"#,
            range.start.line,
            range.start.character,
            range.end.line,
            range.end.character,
            quoted(&text)
        ),
        None => format!(r#"{{"text":{}}}"#, quoted(&after.content)),
    };
    let params = format!(
        r#"{{"textDocument":{{"uri":{},"version":{version}}},"contentChanges":[{change}]}}"#,
        quoted(uri)
    );
    Message::notification("textDocument/didChange", &params).into()
}
