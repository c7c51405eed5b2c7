//! The change feed of this machine.

use std::path::{Path, PathBuf};

use crate::FsError;
use crate::fs::{ChangeFeed, WatchFilter};

/// Whether this system has a feed.
pub(super) const IS_SUPPORTED: bool = false;

/// A feed of the changes below `folder`, which is absolute and has no link in it; errors name `display`.
pub(super) async fn watch(
    _folder: PathBuf,
    _display: &Path,
    _filter: &WatchFilter,
) -> Result<Box<dyn ChangeFeed>, FsError> {
    Err(FsError::Unsupported { operation: "watch" })
}
