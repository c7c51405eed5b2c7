//! The change feed: what changed below a folder, and a barrier that says that nothing before it is missing.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde::Serialize;

use super::FsError;
use super::glob::{Glob, readable};

/// The folders that are not entered unless a glob names them: they hold what tools make, in numbers that would use up
/// the system's watches.
const NOT_ENTERED: [&str; 3] = [".git", "node_modules", "target"];

/// Which files a feed reports: those whose path below the watched folder matches one of the globs.
///
/// `*` and `?` stand for text without a separator and one character of it, `**` for any number of folders, `{a,b}` for
/// alternatives, `[a-z]` for one character of a range and `[!a-z]` for one that is not in it. Nothing escapes a
/// wildcard, and the case of letters matters.
///
/// Folders of the names `.git`, `node_modules` and `target` are not entered, at any depth, unless a whole component of
/// a glob is that name. Folders that lspool makes for itself, whose names begin with `.lspool-`, never are.
#[derive(Clone, Debug)]
pub struct WatchFilter {
    texts: Vec<String>,
    globs: Vec<Glob>,
}

impl WatchFilter {
    /// The files that match at least one of the globs; none when there is no glob.
    ///
    /// Gives `INVALID_PARAMS` for a glob that is empty, absolute or too long, and for a brace or class that is not
    /// closed or has an empty range.
    pub fn new<Text: Into<String>>(
        globs: impl IntoIterator<Item = Text>,
    ) -> Result<Self, GlobError> {
        let texts: Vec<String> = globs.into_iter().map(Into::into).collect();
        let globs = texts
            .iter()
            .map(|text| {
                Glob::new(text).map_err(|reason| GlobError {
                    glob: text.clone(),
                    reason,
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { texts, globs })
    }

    /// All files, except those in folders that are not entered.
    ///
    /// # Panics
    ///
    /// Never: the glob is right.
    pub fn all() -> Self {
        Self::new(["**"]).expect("the glob for everything is right")
    }

    /// Whether a path below the watched folder, relative to it, matches one of the globs. Bytes that belong to no
    /// character match a wildcard each.
    pub fn matches(&self, relative: &Path) -> bool {
        let readable = readable(relative);
        self.globs.iter().any(|glob| glob.matches(&readable))
    }

    /// Whether a folder of this name is looked into.
    pub fn enters(&self, name: &OsStr) -> bool {
        NOT_ENTERED
            .iter()
            .find(|kept_out| name == OsStr::new(kept_out))
            .is_none_or(|kept_out| self.globs.iter().any(|glob| glob.names(kept_out)))
    }
}

impl PartialEq for WatchFilter {
    fn eq(&self, other: &Self) -> bool {
        self.texts == other.texts
    }
}

impl Eq for WatchFilter {}

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
    /// It has this name now and had another one, which matched too, below the same folder. A reader that took in an
    /// earlier batch while this happened may have read another file under the old name, and reads this one again.
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

/// Changes in an order in which they can be applied one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeBatch {
    /// The changes; several of one file may have become one. `Created` names a file that was not there before,
    /// `Changed` one that was (also one that another file replaced), and a `Renamed` one may be followed by its `Changed`.
    pub changes: Vec<FileChange>,
    /// Whether changes were lost: the reader must list again. What `changes` says holds all the same.
    pub lost: bool,
    /// Whether the feed does not see all that is below the folder, since the system's watches ran out or a folder
    /// cannot be read: what it says is true, but what it does not say proves nothing until a later batch is not degraded.
    pub degraded: bool,
}

/// A feed of changes. Dropping it ends the watch; what the system holds for it is given back soon after.
#[async_trait]
pub trait ChangeFeed: Send {
    /// Waits for changes, or for a new value of `degraded`; `None` once the feed has ended, which it does when the folder
    /// is deleted or moved, after all its files were reported as deleted. A call that is dropped loses nothing.
    ///
    /// Gives `FS_IO_ERROR` when the feed breaks and `FS_ABORTED` when the runtime ends.
    async fn next(&mut self) -> Result<Option<ChangeBatch>, FsError>;

    /// All changes that were finished before this call, by whatever process, and not yet given. A call that is dropped
    /// loses nothing.
    ///
    /// Gives `FS_NOT_FOUND` once the feed has ended and its last changes were given, `FS_IO_ERROR` when the feed breaks
    /// and `FS_ABORTED` when the runtime ends.
    async fn sync(&mut self) -> Result<ChangeBatch, FsError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_passes_when_one_of_the_globs_matches() {
        let filter = WatchFilter::new(["src/**/*.rs", "*.toml"]).unwrap();

        assert!(filter.matches(Path::new("src/a/b.rs")));
        assert!(filter.matches(Path::new("Cargo.toml")));
        assert!(!filter.matches(Path::new("a/Cargo.toml")));
        assert!(!WatchFilter::new([""; 0]).unwrap().matches(Path::new("a")));
        assert!(WatchFilter::all().matches(Path::new("a/b")));
    }

    #[test]
    fn a_folder_of_made_files_is_entered_when_a_glob_names_it() {
        let filter = WatchFilter::new(["**/*.rs", "target/doc/**"]).unwrap();

        assert!(filter.enters(OsStr::new("target")));
        assert!(filter.enters(OsStr::new("src")));
        assert!(!filter.enters(OsStr::new(".git")));
        assert!(!WatchFilter::all().enters(OsStr::new("node_modules")));
    }

    #[test]
    fn a_broken_glob_is_named_with_the_reason() {
        let error = WatchFilter::new(["*.rs", "{a"]).unwrap_err();

        assert_eq!(error.code(), "INVALID_PARAMS");
        assert_eq!(
            error.to_string(),
            "the glob \"{a\" cannot be used: a brace is not closed"
        );
    }

    #[test]
    fn filters_are_equal_when_their_globs_are() {
        let filter = |glob: &str| WatchFilter::new([glob]).unwrap();

        assert_eq!(filter("*.rs"), filter("*.rs"));
        assert_ne!(filter("*.rs"), filter("*.r"));
    }
}
