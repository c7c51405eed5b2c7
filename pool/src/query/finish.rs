//! From a server's answer to a normalised result.
//!
//! Invariant: what is told stands. A place is told only if its beginning lies in the text that the server answered
//! about; what does not is counted in `dropped`, and what was cut is said.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use lspool_normalize::answer::{parse_hover, parse_locations};
use lspool_normalize::locations::{
    DeclarationFate, Scope, Sited, Window, normalise, with_declarations,
};
use lspool_normalize::{
    ContextLine, Encoding, Envelope, HoverContent, LineIndex, Location, LspCode, Operation, Place,
    Progress, QueryRequest, QueryResult, Range, Readiness, RpcError, TextSource, TextVersion,
    UriKey, WireUri,
};
use lspool_world::World;
use serde_json::json;
use xxhash_rust::xxh3::xxh3_64;

use super::Prepared;
use super::files::{Content, Files, context_lines};
use super::generated::has_generated_marker;
use super::judge::{Evidence, judge};
use crate::edge::TextId;

/// The unit of every server's columns: no client, and so no server, is offered another one.
const SERVER_UNIT: Encoding = Encoding::Utf16;

/// All that is known when a server has answered a query.
#[derive(Clone)]
pub struct FinishInput {
    /// The query. `maxLocations` and `contextLines` are those of the face; absent ones cut nothing and give no context.
    pub request: Arc<QueryRequest>,
    /// What [`super::prepare`] found.
    pub prepared: Arc<Prepared>,
    /// The texts of the documents that the server holds open, by their URIs: what its answer is about.
    pub open_texts: BTreeMap<UriKey, Arc<str>>,
    /// The server's name, as in `envelope.servers`.
    pub server: String,
    /// The `result` of the server's answer as it was sent; empty where it had none.
    pub result: String,
    /// For references: the `result` of a definition request at the same position, from which the declaration is told.
    pub definition_result: Option<String>,
    /// What the wait for the server ended with.
    pub readiness: Readiness,
    /// Whether the server still reported indexing when it answered.
    pub indexing: bool,
    /// The server's progress as last reported.
    pub progress: Option<Progress>,
    /// Milliseconds that the query waited for the server to be ready.
    pub waited_ms: u64,
    /// Remarks for people, such as how often the server was asked again.
    pub notes: Vec<String>,
}

impl fmt::Debug for FinishInput {
    /// Without texts and without the answer, which can hold them.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open: Vec<TextId> = self
            .open_texts
            .values()
            .map(|text| TextId::of(text))
            .collect();
        formatter
            .debug_struct("FinishInput")
            .field("request", &self.request)
            .field("prepared", &self.prepared)
            .field("open_texts", &open)
            .field("server", &self.server)
            .field("result", &TextId::of(&self.result))
            .field(
                "definition_result",
                &self.definition_result.as_deref().map(TextId::of),
            )
            .field("readiness", &self.readiness)
            .field("indexing", &self.indexing)
            .field("progress", &self.progress)
            .field("waited_ms", &self.waited_ms)
            .field("notes", &self.notes)
            .finish()
    }
}

/// A text that an editor holds.
#[derive(Clone, PartialEq, Eq)]
pub struct EditorText {
    /// The text.
    pub text: Arc<str>,
    /// The editor's own document version.
    pub version: String,
}

impl fmt::Debug for EditorText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("EditorText")
            .field("text", &TextId::of(&self.text))
            .field("version", &self.version)
            .finish()
    }
}

/// Makes the result of a query from the server's answer.
///
/// # Errors
/// `LSP_MALFORMED_RESPONSE` naming server and field; `LSP_ENCODING` where the server counts columns in another unit and a
/// text to convert with cannot be had; `INVALID_PARAMS` naming `cursor` for one that no longer holds; the fs codes when
/// the root is gone.
pub async fn finish(world: &World, input: &FinishInput) -> Result<QueryResult, RpcError> {
    match input.request.operation {
        Operation::Hover => finish_hover(input),
        Operation::GoToDefinition | Operation::FindReferences | Operation::GoToImplementation => {
            finish_locations(world, input).await
        }
    }
}

fn finish_hover(input: &FinishInput) -> Result<QueryResult, RpcError> {
    let answer = parse_hover(&input.result)
        .map_err(|fault| fault.to_rpc(&input.server, Operation::Hover))?;
    let hover = answer.map(|answer| {
        let index = LineIndex::new(input.asked_text());
        // A range outside of the text says nothing; the words are as good without it.
        let range = answer
            .range
            .and_then(|range| index.convert_range(range, SERVER_UNIT, input.unit()).ok());
        HoverContent {
            contents: answer.contents,
            range,
        }
    });
    let counts = Counts {
        total: u64::from(hover.is_some()),
        ..Counts::default()
    };
    let envelope = input.envelope(&counts, hover.is_none(), Vec::new());
    Ok(QueryResult::Hover {
        hover,
        token: input.prepared.token.clone(),
        envelope,
    })
}

async fn finish_locations(world: &World, input: &FinishInput) -> Result<QueryResult, RpcError> {
    let operation = input.request.operation;
    let parsed = parse_locations(&input.result);
    let mut places = parsed.map_err(|fault| fault.to_rpc(&input.server, operation))?;
    let mut files = Files::new(world, input).await?;
    files.respell(&mut places).await;
    let mut notes = Vec::new();
    if operation == Operation::FindReferences {
        places = mark_declarations(input, &mut files, places, &mut notes).await;
    }
    let scope = Scope::new(
        WireUri::new(input.prepared.asked_uri.clone()),
        Some(files.root_key()),
    );
    let all = normalise(
        places,
        &scope,
        Window {
            skip: 0,
            max: usize::MAX,
        },
    )
    .places;
    let digest = digest(&all);
    let start = match &input.request.cursor {
        Some(cursor) => read_cursor(cursor, digest, all.len())?,
        None => 0,
    };
    let page = read_page(input, &files, &all[start..]).await?;
    let end = start + page.taken;
    let truncated = end < all.len();
    let counts = Counts {
        total: (all.len() as u64).saturating_sub(page.dropped),
        dropped: page.dropped,
        cursor: truncated.then(|| write_cursor(end, digest)),
    };
    let envelope = input.envelope(&counts, page.locations.is_empty() && start == 0, notes);
    Ok(QueryResult::Locations {
        locations: page.locations,
        token: input.prepared.token.clone(),
        envelope,
    })
}

/// Marks the declaration among references by the server's definition answer.
async fn mark_declarations(
    input: &FinishInput,
    files: &mut Files<'_>,
    references: Vec<Place>,
    notes: &mut Vec<String>,
) -> Vec<Place> {
    // A definition answer that cannot be read costs the mark and not the references.
    let parsed = input.definition_result.as_deref().map(parse_locations);
    let mut definitions = parsed.and_then(Result::ok).unwrap_or_default();
    files.respell(&mut definitions).await;
    let (references, fate) = with_declarations(references, &definitions);
    match fate {
        DeclarationFate::Marked => {}
        // Where there is nothing to mark, nothing needs to be said.
        DeclarationFate::Unknown if references.is_empty() => {}
        DeclarationFate::Added => notes.push(format!(
            "{} left the declaration out; it was added",
            input.server
        )),
        DeclarationFate::Unknown => {
            notes.push(format!(
                "which place is the declaration is not known: {} gave no definition",
                input.server
            ));
        }
    }
    references
}

/// What a stretch of the sorted places gave.
struct Page {
    locations: Vec<Location>,
    /// Places used up, the dropped ones included.
    taken: usize,
    dropped: u64,
}

/// Reads the files of the places, each once, until the answer is full.
async fn read_page(
    input: &FinishInput,
    files: &Files<'_>,
    places: &[Sited],
) -> Result<Page, RpcError> {
    let most = input
        .request
        .max_locations
        .map_or(usize::MAX, |most| most as usize);
    let mut page = Page {
        locations: Vec::new(),
        taken: 0,
        dropped: 0,
    };
    for of_file in places.chunk_by(|left, right| left.key == right.key) {
        if page.locations.len() >= most {
            break;
        }
        let content = files.content(&of_file[0].key).await;
        let reader = PlaceReader::new(input, files, &of_file[0].key, &content);
        for place in of_file {
            if page.locations.len() >= most {
                break;
            }
            page.taken += 1;
            match reader.location(place)? {
                Some(location) => page.locations.push(location),
                None => page.dropped += 1,
            }
        }
    }
    Ok(page)
}

/// Turns the places of one file into locations.
struct PlaceReader<'a> {
    input: &'a FinishInput,
    text: Option<(LineIndex<'a>, Option<&'a str>)>,
    is_gone: bool,
    in_workspace: bool,
    generated: bool,
}

impl<'a> PlaceReader<'a> {
    fn new(input: &'a FinishInput, files: &Files<'_>, key: &UriKey, content: &'a Content) -> Self {
        let relative = files.site(key).and_then(|site| site.relative.as_deref());
        let by_path =
            relative.is_some_and(|path| input.prepared.definition.is_generated_path(path));
        let text = match content {
            Content::Text { text, version } => Some((LineIndex::new(text), version.as_deref())),
            Content::Gone | Content::Unreadable => None,
        };
        let by_marker = text
            .as_ref()
            .is_some_and(|(index, _)| has_generated_marker(index));
        Self {
            input,
            text,
            is_gone: matches!(content, Content::Gone),
            in_workspace: relative.is_some(),
            generated: by_path || by_marker,
        }
    }

    /// The location of a place; `None` for one that no longer stands.
    fn location(&self, sited: &Sited) -> Result<Option<Location>, RpcError> {
        if self.is_gone {
            return Ok(None);
        }
        let place = &sited.place;
        let mut location = Location {
            uri: place.uri.clone(),
            range: place.range,
            full_range: place.full_range,
            path: sited.path(),
            in_workspace: self.in_workspace,
            declaration: place.declaration,
            generated: self.generated,
            line: None,
            context: None,
            version: None,
        };
        let Some((index, version)) = &self.text else {
            self.require_same_unit(place)?;
            return Ok(Some(location));
        };
        if index.offset(place.range.start, SERVER_UNIT).is_err() {
            return Ok(None);
        }
        let (from, to) = (SERVER_UNIT, self.input.unit());
        location.range = index.convert_range_clamped(place.range, from, to);
        location.full_range = place
            .full_range
            .map(|range| index.convert_range_clamped(range, from, to));
        location.line = index.line(place.range.start.line).map(str::to_owned);
        location.version = version.map(str::to_owned);
        let around = self.input.request.context_lines.unwrap_or(0);
        let context = context_lines(index, place.range.start.line, around);
        if !context.is_empty() {
            location.context = Some(
                context
                    .into_iter()
                    .map(|(line, text)| ContextLine { line, text })
                    .collect(),
            );
        }
        Ok(Some(location))
    }

    /// A column of another unit cannot be told without the text; the first of a line is 0 in all.
    fn require_same_unit(&self, place: &Place) -> Result<(), RpcError> {
        let ranges = [Some(place.range), place.full_range];
        let at_line_starts = ranges
            .iter()
            .flatten()
            .all(|range| range.start.character == 0 && range.end.character == 0);
        if SERVER_UNIT == self.input.unit() || at_line_starts {
            return Ok(());
        }
        let (server, uri) = (&self.input.server, &place.uri);
        Err(RpcError::lsp(
            LspCode::Encoding,
            format!(
                "{server} counts columns in another unit than asked for, and the text of {uri} cannot be read"
            ),
            Some(json!({ "server": server, "uri": uri })),
        ))
    }
}

/// What was counted on the way.
#[derive(Default)]
struct Counts {
    total: u64,
    dropped: u64,
    /// Set when the list was cut.
    cursor: Option<String>,
}

impl FinishInput {
    /// The unit of columns that the caller reads.
    fn unit(&self) -> Encoding {
        self.request.columns.unwrap_or(Encoding::Utf16)
    }

    fn asked_text(&self) -> &str {
        &self.prepared.text
    }

    fn envelope(&self, counts: &Counts, is_empty: bool, more_notes: Vec<String>) -> Envelope {
        let judged = judge(Evidence {
            operation: self.request.operation,
            readiness: self.readiness,
            indexing: self.indexing,
            truncated: counts.cursor.is_some(),
            is_empty,
        });
        let text = match &self.prepared.editor_text {
            Some(editor) => TextVersion {
                source: TextSource::Editor,
                version: editor.version.clone(),
            },
            None => TextVersion {
                source: TextSource::Disk,
                version: self.prepared.file_version.clone(),
            },
        };
        let mut notes = self.notes.clone();
        notes.extend(more_notes);
        Envelope {
            servers: vec![self.server.clone()],
            completeness: judged.completeness,
            reason: judged.reason,
            readiness: self.readiness,
            progress: self.progress.clone(),
            workspace_uri: self.prepared.root_uri.clone(),
            text,
            total: counts.total,
            truncated: counts.cursor.is_some(),
            cursor: counts.cursor.clone(),
            dropped: counts.dropped,
            waited_ms: self.waited_ms,
            notes,
        }
    }
}

/// A digest of the sorted list, by which a cursor knows that it still means the same.
fn digest(places: &[Sited]) -> u64 {
    let mut text = String::new();
    for sited in places {
        let Range { start, end } = sited.place.range;
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{} {}:{} {}:{}",
            sited.place.uri, start.line, start.character, end.line, end.character
        );
    }
    xxh3_64(text.as_bytes())
}

fn write_cursor(next: usize, digest: u64) -> String {
    format!("{next:x}.{digest:016x}")
}

/// Where a cursor goes on. It holds only for the list that it was made for.
fn read_cursor(cursor: &str, digest: u64, length: usize) -> Result<usize, RpcError> {
    let parsed = cursor.split_once('.').and_then(|(next, made_for)| {
        Some((
            usize::from_str_radix(next, 16).ok()?,
            u64::from_str_radix(made_for, 16).ok()?,
        ))
    });
    match parsed {
        Some((next, made_for)) if made_for == digest && next <= length => Ok(next),
        _ => Err(RpcError::invalid_params(
            "cursor",
            "`cursor` no longer holds: the answer has changed since it was given; ask again without it",
        )),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{read_cursor, write_cursor};

    proptest! {
        #[test]
        fn a_cursor_leads_to_where_it_was_written_and_for_its_list_alone(next in 0_usize..1000, digest: u64, other: u64) {
            let cursor = write_cursor(next, digest);
            prop_assert_eq!(read_cursor(&cursor, digest, 1000), Ok(next));
            prop_assert!(read_cursor(&cursor, other, 1000).is_err() || other == digest);
            prop_assert!(next == 0 || read_cursor(&cursor, digest, next - 1).is_err());
        }

        #[test]
        fn any_text_is_a_cursor_or_refused(text in "[0-9a-f.+-]{0,24}|\\PC{0,8}") {
            if let Ok(next) = read_cursor(&text, 0, 5) {
                prop_assert!(next <= 5);
            }
        }
    }
}
