//! The change feed: what changed below a folder, and a barrier that says that nothing before it is missing.

use std::path::PathBuf;

use async_trait::async_trait;
use serde::Serialize;

use super::FsError;

/// Which files a feed reports: those whose path below the watched folder matches one of the globs.
///
/// `*` and `?` stand for text without a separator, `**` for any number of folders, `{a,b}` for alternatives, `[a-z]` for
/// one character of a range and `[!a-z]` for one that is not in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchFilter {
    globs: Vec<String>,
}

/// Why a glob cannot be used: `INVALID_PARAMS`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the glob {glob:?} cannot be used: {reason}")]
pub struct GlobError {
    /// The glob.
    pub glob: String,
    /// What is wrong with it.
    pub reason: String,
}

impl GlobError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        "INVALID_PARAMS"
    }
}

/// What happened to a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// It came into being.
    Created,
    /// Its content or metadata changed.
    Changed,
    /// It is gone.
    Deleted,
    /// It has this name now and had another one, which matched too, below the same folder.
    Renamed {
        /// The absolute path before, with no link in it.
        from: PathBuf,
    },
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
    /// Whether the feed does not see all that is below the folder, since the system's watches ran out: what it says is
    /// true, but what it does not say proves nothing until a later batch is not degraded.
    pub degraded: bool,
}

/// A feed of changes. Dropping it ends the watch.
#[async_trait]
pub trait ChangeFeed: Send {
    /// Waits for changes; `None` once the feed has ended. A call that is dropped loses nothing.
    ///
    /// Gives `FS_IO_ERROR` when the feed breaks.
    async fn next(&mut self) -> Result<Option<ChangeBatch>, FsError>;

    /// All changes that were finished before this call, by whatever process, and not yet given. A call that is dropped
    /// loses nothing.
    ///
    /// Gives `FS_IO_ERROR` when the feed breaks.
    async fn sync(&mut self) -> Result<ChangeBatch, FsError>;
}
