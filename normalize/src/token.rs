//! Identifiers in a text: the one at a position, and a symbol by name.
//!
//! What counts as an identifier: the characters that Unicode allows in one (`XID_Continue`), `_` and `$`. A hyphen never
//! counts, because in most languages it subtracts; a *name* that is looked for may hold any characters, so `my-var`,
//! `operator+` or `#field` are found as long as no identifier character touches their ends. A `$` in front does not
//! belong to the word when the name that is looked for has none: `name` is found in the `$name` of a shell or of PHP.
//!
//! Invariant: nothing here guesses. A name that stands in several places is ambiguous unless the caller says which.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::{LspCode, RpcError};
use crate::line_index::LineIndex;
use crate::position::{Encoding, Position, PositionError, Range};

/// How many lines above and below a named line a symbol or an expected token is looked for.
pub const NEARBY_LINES: u32 = 3;

/// The most candidates that an error lists.
pub const MAX_CANDIDATES: usize = 50;

/// The most characters of a line that a candidate quotes.
const MAX_QUOTED: usize = 200;

/// An identifier and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Its text.
    pub text: String,
    /// Its range, in the unit of the request.
    pub range: Range,
}

/// A place where a name stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// Zero-based line.
    pub line: u32,
    /// Zero-based column, in the unit of the request.
    pub character: u32,
    /// The line's text, cut after 200 characters.
    pub text: String,
}

/// Another identifier stands at the position than the one expected. Code `LSP_TOKEN_MISMATCH`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{expected}` does not stand at this position: {}", found_there(.found.as_deref()))]
pub struct TokenMismatch {
    /// The identifier that was expected.
    pub expected: String,
    /// What stands there; `None` for a blank.
    pub found: Option<String>,
    /// Where the identifier stands on the line or within three lines of it, nearest line first.
    pub candidates: Vec<Candidate>,
}

/// Why [`check_token`] fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The text has no such position.
    #[error(transparent)]
    Position(#[from] PositionError),
    /// Something else stands there.
    #[error(transparent)]
    Mismatch(#[from] TokenMismatch),
}

/// Why a symbol is not found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SymbolError {
    /// It does not stand where it was looked for. Code `LSP_SYMBOL_NOT_FOUND`.
    #[error("{}", not_found(.name, *.line, *.occurrence, .candidates))]
    NotFound {
        /// The name that was looked for.
        name: String,
        /// The zero-based line that was given.
        line: Option<u32>,
        /// The occurrence that was given.
        occurrence: Option<u32>,
        /// Where it stands in the file otherwise; without any, identifiers that differ in case only.
        candidates: Vec<Candidate>,
    },
    /// It stands there several times. Code `LSP_SYMBOL_AMBIGUOUS`.
    #[error("`{name}` stands here {count} times; give a line, or which occurrence is meant")]
    Ambiguous {
        /// The name that was looked for.
        name: String,
        /// How many times.
        count: usize,
        /// Where, in the order of the text.
        candidates: Vec<Candidate>,
    },
    /// The given line does not exist. Code `LSP_POSITION_OUT_OF_RANGE`.
    #[error(transparent)]
    Position(#[from] PositionError),
}

impl TokenError {
    /// The error of a query.
    pub fn to_rpc(&self) -> RpcError {
        match self {
            Self::Position(error) => error.to_rpc(),
            Self::Mismatch(mismatch) => RpcError::lsp(
                LspCode::TokenMismatch,
                mismatch.to_string(),
                Some(detail(
                    &mismatch.expected,
                    mismatch.found.as_deref(),
                    &mismatch.candidates,
                )),
            ),
        }
    }
}

impl SymbolError {
    /// The error of a query.
    pub fn to_rpc(&self) -> RpcError {
        match self {
            Self::NotFound {
                name, candidates, ..
            } => RpcError::lsp(
                LspCode::SymbolNotFound,
                self.to_string(),
                Some(detail(name, None, candidates)),
            ),
            Self::Ambiguous {
                name, candidates, ..
            } => RpcError::lsp(
                LspCode::SymbolAmbiguous,
                self.to_string(),
                Some(detail(name, None, candidates)),
            ),
            Self::Position(error) => error.to_rpc(),
        }
    }
}

impl PositionError {
    /// The error of a query.
    pub fn to_rpc(&self) -> RpcError {
        RpcError::lsp(
            LspCode::PositionOutOfRange,
            self.to_string(),
            Some(self.detail()),
        )
    }
}

/// The identifier that a cursor at the position touches: the one it is in or before, else the one that ends there.
/// `Ok(None)` where none does.
pub fn identifier_at(
    index: &LineIndex<'_>,
    position: Position,
    encoding: Encoding,
) -> Result<Option<Token>, PositionError> {
    let (line, column) = line_and_byte(index, position, encoding)?;
    let end_of_word = |from: usize| from + prefix_length(line[from..].chars());
    let start = column - prefix_length(line[..column].chars().rev());
    let end = end_of_word(column);
    if start == end {
        return Ok(None);
    }
    Ok(Some(Token {
        text: line[start..end].to_owned(),
        range: range_of(line, position.line, start, end, encoding),
    }))
}

/// The expected identifier, when it stands at the position; otherwise what stands there and where the expected one does.
pub fn check_token(
    index: &LineIndex<'_>,
    position: Position,
    expected: &str,
    encoding: Encoding,
) -> Result<Token, TokenError> {
    let (line, column) = line_and_byte(index, position, encoding)?;
    let at_position = occurrences_in(line, expected)
        .find(|&start| start <= column && column <= start + expected.len());
    if let Some(start) = at_position {
        return Ok(Token {
            text: expected.to_owned(),
            range: range_of(line, position.line, start, start + expected.len(), encoding),
        });
    }
    let mut nearby = nearby(index, expected, position.line);
    nearby.sort_by_key(|found| (found.line.abs_diff(position.line), found.line, found.byte));
    Err(TokenError::Mismatch(TokenMismatch {
        expected: expected.to_owned(),
        found: found_at(index, position, line, column, encoding)?,
        candidates: candidates(index, &nearby, encoding),
    }))
}

/// Finds a symbol by name, as a whole word.
///
/// With a line, the occurrences on that line are considered, else those within three lines of it; without, all of the
/// file. `occurrence` is the one-based number among them in the order of the text; without it there must be exactly one.
pub fn find_symbol(
    index: &LineIndex<'_>,
    name: &str,
    line: Option<u32>,
    occurrence: Option<u32>,
    encoding: Encoding,
) -> Result<Token, SymbolError> {
    let considered = match line {
        None => everywhere(index, name),
        Some(line) => {
            if index.line(line).is_none() {
                return Err(SymbolError::Position(PositionError::Line {
                    line,
                    line_count: index.line_count(),
                }));
            }
            let nearby = nearby(index, name, line);
            if nearby.iter().any(|found| found.line == line) {
                nearby
                    .into_iter()
                    .filter(|found| found.line == line)
                    .collect()
            } else {
                nearby
            }
        }
    };
    let chosen = match (occurrence, considered.as_slice()) {
        (Some(number), all) => number
            .checked_sub(1)
            .and_then(|number| all.get(number as usize)),
        (None, [only]) => Some(only),
        (None, []) => None,
        (None, several) => {
            return Err(SymbolError::Ambiguous {
                name: name.to_owned(),
                count: several.len(),
                candidates: candidates(index, several, encoding),
            });
        }
    };
    match chosen {
        Some(found) => {
            let text = index.line(found.line).unwrap_or_default();
            Ok(Token {
                text: name.to_owned(),
                range: range_of(
                    text,
                    found.line,
                    found.byte,
                    found.byte + name.len(),
                    encoding,
                ),
            })
        }
        None => Err(SymbolError::NotFound {
            name: name.to_owned(),
            line,
            occurrence,
            candidates: candidates(index, &elsewhere(index, name), encoding),
        }),
    }
}

/// An occurrence: zero-based line and the byte inside it.
#[derive(Debug, Clone, Copy)]
struct Found {
    line: u32,
    byte: usize,
}

fn is_identifier(character: char) -> bool {
    unicode_ident::is_xid_continue(character) || character == '$'
}

/// Bytes of the identifier characters that come first.
fn prefix_length(characters: impl Iterator<Item = char>) -> usize {
    characters
        .take_while(|&character| is_identifier(character))
        .map(char::len_utf8)
        .sum()
}

fn line_and_byte<'text>(
    index: &LineIndex<'text>,
    position: Position,
    encoding: Encoding,
) -> Result<(&'text str, usize), PositionError> {
    let offset = index.offset(position, encoding)?;
    let start = index.line_start(position.line).unwrap_or(offset);
    Ok((
        index.line(position.line).unwrap_or_default(),
        offset - start,
    ))
}

fn range_of(line_text: &str, line: u32, start: usize, end: usize, encoding: Encoding) -> Range {
    let column = |byte: usize| Position::new(line, encoding.length(&line_text[..byte]));
    Range::new(column(start), column(end))
}

/// Bytes at which the name stands in the line as a whole word.
fn occurrences_in<'text>(
    line: &'text str,
    name: &'text str,
) -> impl Iterator<Item = usize> + 'text {
    let starts_with_word = name.chars().next().is_some_and(is_identifier);
    let ends_with_word = name.chars().next_back().is_some_and(is_identifier);
    let has_sigil = name.starts_with('$');
    let is_whole = move |start: usize| {
        let before = line[..start].trim_end_matches(|character| character == '$' && !has_sigil);
        let touches_before = before.chars().next_back().is_some_and(is_identifier);
        let touches_after = line[start + name.len()..]
            .chars()
            .next()
            .is_some_and(is_identifier);
        let goes_on = starts_with_word && touches_before || ends_with_word && touches_after;
        !goes_on
    };
    // The empty name stands nowhere.
    let found = line.match_indices(name).filter(|_| !name.is_empty());
    found
        .map(|(start, _)| start)
        .filter(move |&start| is_whole(start))
}

fn in_lines(index: &LineIndex<'_>, name: &str, lines: std::ops::RangeInclusive<u32>) -> Vec<Found> {
    lines
        .filter_map(|line| Some((line, index.line(line)?)))
        .flat_map(|(line, text)| occurrences_in(text, name).map(move |byte| Found { line, byte }))
        .collect()
}

fn everywhere(index: &LineIndex<'_>, name: &str) -> Vec<Found> {
    in_lines(index, name, 0..=index.line_count() - 1)
}

fn nearby(index: &LineIndex<'_>, name: &str, line: u32) -> Vec<Found> {
    let last = line
        .saturating_add(NEARBY_LINES)
        .min(index.line_count() - 1);
    in_lines(index, name, line.saturating_sub(NEARBY_LINES)..=last)
}

/// Where else a name stands; when nowhere, identifiers that differ in case only.
fn elsewhere(index: &LineIndex<'_>, name: &str) -> Vec<Found> {
    let exact = everywhere(index, name);
    if !exact.is_empty() {
        return exact;
    }
    let folded = name.to_lowercase();
    let mut found = Vec::new();
    for line in 0..index.line_count() {
        let text = index.line(line).unwrap_or_default();
        let mut byte = 0;
        while byte < text.len() {
            let length = prefix_length(text[byte..].chars());
            if length > 0 && text[byte..byte + length].to_lowercase() == folded {
                found.push(Found { line, byte });
            }
            let after = byte + length;
            byte = after + text[after..].chars().next().map_or(0, char::len_utf8);
        }
    }
    found
}

/// What stands at a position: the identifier, else the character, else nothing for a blank or the line's end.
fn found_at(
    index: &LineIndex<'_>,
    position: Position,
    line: &str,
    column: usize,
    encoding: Encoding,
) -> Result<Option<String>, PositionError> {
    if let Some(token) = identifier_at(index, position, encoding)? {
        return Ok(Some(token.text));
    }
    let character = line[column..]
        .chars()
        .next()
        .filter(|character| !character.is_whitespace());
    Ok(character.map(String::from))
}

fn candidates(index: &LineIndex<'_>, found: &[Found], encoding: Encoding) -> Vec<Candidate> {
    let candidate = |found: &Found| {
        let text = index.line(found.line).unwrap_or_default();
        Candidate {
            line: found.line,
            character: encoding.length(&text[..found.byte]),
            text: text.chars().take(MAX_QUOTED).collect(),
        }
    };
    found.iter().take(MAX_CANDIDATES).map(candidate).collect()
}

/// `detail` as `details.md` has it for mismatches and symbols that are not found.
fn detail(expected: &str, found: Option<&str>, candidates: &[Candidate]) -> Value {
    json!({ "expected": expected, "found": found, "candidates": candidates })
}

fn found_there(found: Option<&str>) -> String {
    match found {
        Some(found) => format!("`{found}` does"),
        None => "nothing but a blank does".to_owned(),
    }
}

fn not_found(
    name: &str,
    line: Option<u32>,
    occurrence: Option<u32>,
    candidates: &[Candidate],
) -> String {
    let place = match line {
        Some(line) => format!("on line {line} (zero-based) or within {NEARBY_LINES} lines of it"),
        None => "in the file".to_owned(),
    };
    let which = occurrence.map_or(String::new(), |number| format!("occurrence {number} of "));
    let hint = if candidates.is_empty() {
        ""
    } else {
        "; see where it stands instead"
    };
    format!("there is no {which}`{name}` {place}{hint}")
}
