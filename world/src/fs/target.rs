//! What files are: targets, versions, metadata and entries. A key and a version are opaque: equality is their only use.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::Serialize;

use super::FsError;

/// The identity of a file: equal for every spelling, before and after the file is created. It never leaves lspool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetKey(PathBuf);

impl TargetKey {
    /// A key made by a provider. `resolved` is the absolute path of the file with no link in it.
    pub(crate) fn from_resolved(resolved: PathBuf) -> Self {
        Self(resolved)
    }

    /// The path with no link in it, for the providers of this crate.
    pub(crate) fn as_resolved(&self) -> &Path {
        &self.0
    }
}

/// A resolved path. Targets are equal when their keys are, however they were spelled.
#[derive(Clone, Debug)]
pub struct Target {
    key: TargetKey,
    display: PathBuf,
}

impl Target {
    /// A target made by a provider. `display` is absolute and keeps links as they were spelled.
    pub(crate) fn new(key: TargetKey, display: PathBuf) -> Self {
        Self { key, display }
    }

    /// The identity.
    pub fn key(&self) -> &TargetKey {
        &self.key
    }

    /// The absolute path for people and messages: as spelled, links kept, without `.` and `..`.
    pub fn display_path(&self) -> &Path {
        &self.display
    }
}

impl PartialEq for Target {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Target {}

impl std::hash::Hash for Target {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key.hash(state);
    }
}

/// The state of a file's content and metadata. Two versions are equal when nothing has changed; they have no order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct FileVersion(String);

impl FileVersion {
    /// A version with the given text: one that a provider made, or one that a caller was given and sends back.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, to be sent and compared, never to be read.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Directory,
    /// A symbolic link, where links are not followed.
    Symlink,
    /// Anything else: a FIFO, a socket, a device.
    Other,
}

/// What is known of a file without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// What it is.
    pub kind: FileKind,
    /// The size in bytes, of regular files alone.
    pub size: Option<u64>,
    /// The version.
    pub version: FileVersion,
}

/// The whole text of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextFile {
    /// The text without a leading byte order mark; line ends as they are.
    pub text: String,
    /// The version that the text has, taken before it was read: a change while it was read shows as another version.
    pub version: FileVersion,
    /// Whether the file begins with a byte order mark.
    pub had_bom: bool,
}

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// The bytes, fewer than asked for at the end of the file alone.
    pub bytes: Bytes,
    /// The version that the file had before it was read.
    pub version: FileVersion,
    /// The size of the whole file in bytes.
    pub file_bytes: u64,
}

/// One entry of a folder.
#[derive(Debug)]
pub struct DirEntry {
    /// The name, byte for byte.
    pub name: OsString,
    /// What the entry itself is, a link not followed; [`FileKind::Other`] where that could not be told.
    pub kind: FileKind,
    /// The size in bytes, of regular files alone.
    pub size: Option<u64>,
    /// The version of the entry itself; `None` where it could not be inspected.
    pub version: Option<FileVersion>,
    /// The target that the entry leads to, links followed; `None` where that could not be resolved.
    pub target: Option<Target>,
    /// Why `target` or `version` is absent.
    pub error: Option<FsError>,
}
