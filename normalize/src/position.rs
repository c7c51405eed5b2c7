//! Positions, ranges and the units of a column.
//!
//! Invariant: a position is zero-based, a range half-open, and a column means nothing without its [`Encoding`]; the
//! protocol's default is UTF-16 code units.

use serde::{Deserialize, Deserializer, Serialize};

/// The unit in which a column is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Encoding {
    /// Bytes of UTF-8.
    Utf8,
    /// Code units of UTF-16: the protocol's default.
    #[default]
    Utf16,
    /// Unicode code points; the protocol calls it `utf-32`.
    Codepoint,
}

impl Encoding {
    /// The name in `general.positionEncodings` and in a server's `positionEncoding`.
    pub fn lsp_name(self) -> &'static str {
        match self {
            Self::Utf8 => "utf-8",
            Self::Utf16 => "utf-16",
            Self::Codepoint => "utf-32",
        }
    }

    /// The encoding of a protocol name; `None` for one that the protocol does not know.
    pub fn from_lsp_name(name: &str) -> Option<Self> {
        [Self::Utf8, Self::Utf16, Self::Codepoint]
            .into_iter()
            .find(|encoding| encoding.lsp_name() == name)
    }

    /// The value of `columns` in `lspool/query` and of `--columns`.
    pub fn columns_name(self) -> &'static str {
        match self {
            Self::Utf8 => "utf-8",
            Self::Utf16 => "utf-16",
            Self::Codepoint => "codepoint",
        }
    }

    /// The encoding of a `columns` value; `None` for any other word.
    pub fn from_columns_name(name: &str) -> Option<Self> {
        [Self::Utf8, Self::Utf16, Self::Codepoint]
            .into_iter()
            .find(|encoding| encoding.columns_name() == name)
    }

    /// How many units one character takes.
    pub fn units(self, character: char) -> usize {
        match self {
            Self::Utf8 => character.len_utf8(),
            Self::Utf16 => character.len_utf16(),
            Self::Codepoint => 1,
        }
    }

    /// How many units a text takes.
    pub fn length(self, text: &str) -> u32 {
        let units = match self {
            Self::Utf8 => text.len(),
            Self::Utf16 => text.chars().map(char::len_utf16).sum(),
            Self::Codepoint => text.chars().count(),
        };
        saturate(units)
    }
}

/// Narrows a count to the protocol's width; texts are far below it, so the bound is only a guard.
pub(crate) fn saturate(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// A place in a text: zero-based line, zero-based column in the unit that its context names.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
pub struct Position {
    /// Zero-based line.
    #[serde(deserialize_with = "whole_number")]
    pub line: u32,
    /// Zero-based column.
    #[serde(deserialize_with = "whole_number")]
    pub character: u32,
}

impl Position {
    /// The position of a zero-based line and column.
    pub fn new(line: u32, character: u32) -> Self {
        Self { line, character }
    }
}

/// A half-open stretch of a text.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
pub struct Range {
    /// The first position inside.
    pub start: Position,
    /// The first position behind.
    pub end: Position,
}

impl Range {
    /// The range between two positions.
    pub fn new(start: Position, end: Position) -> Self {
        Self { start, end }
    }

    /// Whether the position lies inside or at either edge, as a cursor does.
    pub fn touches(&self, position: Position) -> bool {
        self.start <= position && position <= self.end
    }
}

/// A position that a text does not have. Code `LSP_POSITION_OUT_OF_RANGE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PositionError {
    /// The text has fewer lines.
    #[error("line {line} (zero-based) is past the end: the file has {line_count} lines")]
    Line {
        /// The zero-based line that was asked for.
        line: u32,
        /// How many lines the text has; a text without a line end has one.
        line_count: u32,
    },
    /// The line is shorter.
    #[error(
        "character {character} (zero-based) is past the end of line {line}, whose length is {length}"
    )]
    Character {
        /// The zero-based line.
        line: u32,
        /// The column that was asked for.
        character: u32,
        /// The length of the line without its end, in the unit of the request.
        length: u32,
    },
}

impl PositionError {
    /// What programs read in `error.data.detail`: the position and the bound that it exceeds.
    pub fn detail(&self) -> serde_json::Value {
        match *self {
            Self::Line { line, line_count } => {
                serde_json::json!({ "line": line, "lineCount": line_count })
            }
            Self::Character {
                line,
                character,
                length,
            } => serde_json::json!({ "line": line, "character": character, "lineLength": length }),
        }
    }
}

/// Reads an unsigned number that some clients write as a float, such as `1.0`.
fn whole_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let number = serde_json::Number::deserialize(deserializer)?;
    whole(&number)
        .ok_or_else(|| serde::de::Error::custom("expected a whole number from 0 to 4294967295"))
}

/// The value of a JSON number that is whole and fits the protocol's width, however it was spelled.
pub(crate) fn whole(number: &serde_json::Number) -> Option<u32> {
    if let Some(value) = number.as_u64() {
        return u32::try_from(value).ok();
    }
    let value = number.as_f64()?;
    let fits = value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&value);
    #[expect(clippy::cast_sign_loss, reason = "the range was just checked")]
    fits.then_some(value as u32)
}
