//! A query's result as text for people.
//!
//! Invariants: lines and columns are one-based here and nowhere else; the order is the result's; nothing that a server
//! or a file says reaches a terminal as a control character.

use std::fmt::Write;

use crate::envelope::{Completeness, Envelope, Readiness, Reason};
use crate::line_index::column_to_byte;
use crate::operation::Operation;
use crate::position::Encoding;
use crate::result::{HoverContent, Location, QueryResult};
use crate::token::Token;
use crate::uri::UriKey;

/// The most characters of a source line that are shown.
const MAX_LINE: usize = 240;

/// How many characters are shown before the place in a line that is too long.
const LEAD: usize = 80;

/// What was asked, as far as the text needs it.
#[derive(Debug, Clone, Copy)]
pub struct TextOptions {
    /// The operation, for the heading.
    pub operation: Operation,
    /// The unit in which the result counts columns.
    pub columns: Encoding,
}

/// The whole text: a heading, the places by file with their source lines or the hover text, `… N more` for a cut list,
/// and the remarks. Ends with a line end.
pub fn text_for_people(result: &QueryResult, options: TextOptions) -> String {
    let mut text = match result {
        QueryResult::Locations {
            locations,
            token,
            envelope,
        } => places(locations, token.as_ref(), envelope, options),
        QueryResult::Hover { hover, token, .. } => hover_text(hover.as_ref(), token.as_ref()),
    };
    let remarks = remarks(result.envelope());
    if !remarks.is_empty() {
        text.push('\n');
        for remark in remarks {
            text.push_str(&remark);
            text.push('\n');
        }
    }
    text
}

/// What a person should know before trusting the answer; nothing for a complete one without notes.
pub fn remarks(envelope: &Envelope) -> Vec<String> {
    let mut remarks = Vec::new();
    match envelope.completeness {
        Completeness::Complete => {}
        Completeness::Partial => remarks.push(format!("partial: {}", partial_because(envelope))),
        Completeness::Unknown => remarks.push(unknown_because(envelope.readiness).to_owned()),
    }
    match envelope.dropped {
        0 => {}
        1 => remarks.push(
            "1 place no longer stands, because its file changed, and was left out".to_owned(),
        ),
        dropped => remarks.push(format!(
            "{dropped} places no longer stand, because their files changed, and were left out"
        )),
    }
    remarks.extend(
        envelope
            .notes
            .iter()
            .map(|note| format!("note: {}", one_line(note))),
    );
    remarks
}

fn partial_because(envelope: &Envelope) -> String {
    let progress = envelope.progress.as_ref();
    let message = progress
        .and_then(|progress| progress.message.as_deref())
        .map(one_line);
    let percent = progress
        .and_then(|progress| progress.percent)
        .map(|percent| format!("{percent}%"));
    let detail: Vec<String> = message.into_iter().chain(percent).collect();
    let detail = if detail.is_empty() {
        String::new()
    } else {
        format!(" ({})", detail.join(", "))
    };
    match envelope.reason {
        Some(Reason::Indexing) => {
            format!("the server is still indexing{detail}; ask again for the rest")
        }
        Some(Reason::FileNotInProject) => {
            "the server counts this file to no project that it knows".to_owned()
        }
        Some(Reason::ServerFailed) => "a server gave no answer".to_owned(),
        Some(Reason::Timeout) => {
            format!("the server was not ready in time{detail}; ask again or allow more time")
        }
        Some(Reason::Limit) => "the list was cut".to_owned(),
        None => "the server did not say why".to_owned(),
    }
}

fn unknown_because(readiness: Readiness) -> &'static str {
    match readiness {
        Readiness::NotWaited => {
            "completeness unknown: the query did not wait for the server to be ready"
        }
        Readiness::Signal | Readiness::Settled | Readiness::Timeout => {
            "completeness unknown: the server gives no sign of when its index is complete"
        }
    }
}

fn places(
    locations: &[Location],
    token: Option<&Token>,
    envelope: &Envelope,
    options: TextOptions,
) -> String {
    let mut text = heading(options.operation, token, envelope.total);
    let workspace = UriKey::new(&envelope.workspace_uri);
    let mut at = 0;
    while at < locations.len() {
        let file = &locations[at].path;
        let end = at
            + locations[at..]
                .iter()
                .take_while(|location| location.path == *file)
                .count();
        let _ = write!(
            text,
            "\n{}\n",
            one_line(&shown_path(&locations[at], &workspace))
        );
        file_places(&locations[at..end], options.columns, &mut text);
        at = end;
    }
    let more = envelope.total.saturating_sub(locations.len() as u64);
    if envelope.truncated && more > 0 {
        let _ = write!(text, "\n… {more} more\n");
    }
    text
}

fn heading(operation: Operation, token: Option<&Token>, total: u64) -> String {
    let (one, several) = match operation {
        Operation::GoToDefinition => ("definition", "definitions"),
        Operation::FindReferences => ("reference", "references"),
        Operation::GoToImplementation => ("implementation", "implementations"),
        Operation::Hover => ("hover", "hovers"),
    };
    let of = token.map_or(String::new(), |token| {
        format!(" of `{}`", one_line(&token.text))
    });
    match total {
        0 => format!("no {one}{of}\n"),
        1 => format!("1 {one}{of}\n"),
        total => format!("{total} {several}{of}\n"),
    }
}

/// The path below the workspace, else the whole path, else the URI.
fn shown_path(location: &Location, workspace: &UriKey) -> String {
    let key = location.uri.key();
    match key.relative_to(workspace) {
        Some(relative) if !relative.is_empty() => String::from_utf8_lossy(relative).into_owned(),
        _ => location.path.clone(),
    }
}

/// The places of one file, their numbers in one column.
fn file_places(locations: &[Location], columns: Encoding, text: &mut String) {
    let number = |location: &Location| {
        let start = location.range.start;
        format!(
            "{}:{}",
            u64::from(start.line) + 1,
            u64::from(start.character) + 1
        )
    };
    let width = locations
        .iter()
        .map(|location| number(location).len())
        .max()
        .unwrap_or(0);
    for (index, location) in locations.iter().enumerate() {
        let context = location.context.as_deref().unwrap_or_default();
        if index > 0 && !context.is_empty() {
            text.push_str("  --\n");
        }
        let place = location.range.start.line;
        for line in context.iter().filter(|line| line.line < place) {
            context_line(line.line, &line.text, width, text);
        }
        let _ = write!(text, "  {:width$}", number(location));
        if let Some(line) = &location.line {
            let _ = write!(
                text,
                "  {}",
                excerpt(line, location.range.start.character, columns)
            );
        }
        for (set, mark) in [
            (location.declaration, "declaration"),
            (location.generated, "generated"),
        ] {
            if set {
                let _ = write!(text, "  [{mark}]");
            }
        }
        text.push('\n');
        for line in context.iter().filter(|line| line.line > place) {
            context_line(line.line, &line.text, width, text);
        }
    }
}

fn context_line(line: u32, content: &str, width: usize, text: &mut String) {
    let number = (u64::from(line) + 1).to_string();
    let row = format!(
        "  {number:width$}  {}",
        excerpt(content, 0, Encoding::Utf16)
    );
    text.push_str(row.trim_end());
    text.push('\n');
}

/// The line, or the part around the column of one that is too long.
fn excerpt(line: &str, column: u32, columns: Encoding) -> String {
    if line.chars().count() <= MAX_LINE {
        return visible(line);
    }
    let place = column_to_byte(line, column, columns).unwrap_or(line.len());
    let first = line[..place].chars().count().saturating_sub(LEAD);
    let part: String = line.chars().skip(first).take(MAX_LINE).collect();
    let before = if first > 0 { "…" } else { "" };
    let after = if line.chars().count() > first + MAX_LINE {
        "…"
    } else {
        ""
    };
    format!("{before}{}{after}", visible(&part))
}

fn hover_text(hover: Option<&HoverContent>, token: Option<&Token>) -> String {
    match hover {
        None => heading(Operation::Hover, token, 0),
        Some(hover) => {
            let lines: Vec<String> = hover.contents.lines().map(visible).collect();
            format!("{}\n", lines.join("\n"))
        }
    }
}

fn one_line(text: &str) -> String {
    visible(&text.replace(['\r', '\n'], " "))
}

/// The text with U+FFFD for control characters other than a tab, so that no file can steer a terminal.
fn visible(text: &str) -> String {
    text.chars()
        .map(|character| {
            if character.is_control() && character != '\t' {
                char::REPLACEMENT_CHARACTER
            } else {
                character
            }
        })
        .collect()
}
