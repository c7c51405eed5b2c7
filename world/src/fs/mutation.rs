//! The vocabulary of writes and edits: under which condition, and what came of it.

use super::FileVersion;

/// Texts of this size in bytes or more are not handed back as a diff basis.
pub const DIFF_BASIS_MAX_BYTES: u64 = 10 * 1024 * 1024;

/// The condition under which a text may be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteIntent {
    /// Only where nothing exists.
    CreateIfAbsent,
    /// Only over exactly this version.
    ReplaceIfVersion(FileVersion),
}

/// The condition under which a file may be edited: it has exactly this version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditIntent {
    /// The version that the caller read.
    pub version: FileVersion,
}

/// How a text is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// The condition under which it may be; `None` writes in any case.
    pub intent: Option<WriteIntent>,
    /// Whether the folder, and those above it that were made, are synced after the file was put in its place, so that
    /// the change also outlives a loss of power. The content is synced in any case. Where that fails, the error is given
    /// though the file is in its place: what is there then has to be looked at.
    pub durable: bool,
    /// Whether the texts before and after are given back.
    pub diff_basis: bool,
}

/// How a file is edited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EditOptions {
    /// The condition under which it may be; `None` edits in any case.
    pub intent: Option<EditIntent>,
    /// As in [`WriteOptions`].
    pub durable: bool,
    /// As in [`WriteOptions`].
    pub diff_basis: bool,
}

/// A literal replacement. Line ends are matched as LF on both sides; lines that are not replaced keep their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditRequest {
    /// The text to replace; empty matches nothing.
    pub old_text: String,
    /// The text to put there, taken literally.
    pub new_text: String,
    /// Whether all matches are replaced; otherwise exactly one must exist.
    pub replace_all: bool,
}

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOperation {
    /// The file did not exist before.
    Created,
    /// The file existed.
    Updated,
}

/// The outcome of a write. The texts have LF line ends and serve as the basis of a diff only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteOutcome {
    /// What was done.
    pub operation: WriteOperation,
    /// The version after the write.
    pub version: FileVersion,
    /// The text before; `None` for a new file, one that is not text, or one of [`DIFF_BASIS_MAX_BYTES`] or more.
    pub before: Option<String>,
    /// The text after, under the same limit.
    pub after: Option<String>,
}

/// The outcome of an edit. The texts have LF line ends and serve as the basis of a diff only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditOutcome {
    /// The version after the edit.
    pub version: FileVersion,
    /// How many matches were replaced.
    pub replacements: u64,
    /// The text before; `None` for one of [`DIFF_BASIS_MAX_BYTES`] or more.
    pub before: Option<String>,
    /// The text after, under the same limit.
    pub after: Option<String>,
}
