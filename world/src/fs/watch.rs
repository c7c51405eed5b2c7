//! The change feed: what changed below a folder, and a barrier that says that nothing before it is missing.

use std::path::PathBuf;

use async_trait::async_trait;
use serde::Serialize;

use super::FsError;

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// It came into being.
    Created,
    /// Its content or metadata changed.
    Changed,
    /// It is gone.
    Deleted,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// The absolute path with no link in it.
    pub path: PathBuf,
    /// What happened.
    pub kind: ChangeKind,
}

/// Changes in the order in which they were seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeBatch {
    /// The changes; several of one file may have become one.
    pub changes: Vec<FileChange>,
    /// Whether changes were lost: the reader must list again.
    pub lost: bool,
}

/// A feed of changes. Dropping it ends the watch.
#[async_trait]
pub trait ChangeFeed: Send {
    /// Waits for changes; `None` once the feed has ended.
    ///
    /// Gives `FS_IO_ERROR` when the feed breaks.
    async fn next(&mut self) -> Result<Option<ChangeBatch>, FsError>;

    /// All changes that were made before this call and not yet given.
    ///
    /// Gives `FS_IO_ERROR` when the feed breaks.
    async fn sync(&mut self) -> Result<ChangeBatch, FsError>;
}
