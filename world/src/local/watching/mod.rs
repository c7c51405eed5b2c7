//! The change feed of this machine, made of inotify itself. Owns the promise of [`crate::fs::ChangeFeed::sync`]: the
//! kernel queues an event within the system call that causes it, and the events of one instance in their order; so when
//! the event of a cookie file in a private folder was read, all that was finished before the file was made was read too.
//! A library that sits on inotify hides which events belong to one instance and in which order they came, so there is
//! none here.
//!
//! What inotify does not see, a feed does not tell: changes that another machine makes on a network file system, writes
//! through a shared memory mapping (the file is reported when its writer closes it), writes through another hard link
//! of a file that lies outside the folder, and the content behind a symbolic link, which is a file of its own name and
//! is reported when the link itself changes. Where the same folder is mounted twice below the watched one, the second
//! place is not watched and the feed is degraded. Files are regular files and links to such.

#[cfg(target_os = "linux")]
mod barrier;
#[cfg(target_os = "linux")]
mod coalescing;
#[cfg(target_os = "linux")]
mod events;
#[cfg(target_os = "linux")]
mod feed;
#[cfg(target_os = "linux")]
mod instance;
#[cfg(target_os = "linux")]
mod survey;
#[cfg(target_os = "linux")]
mod tree;
#[cfg(target_os = "linux")]
mod watcher;

use std::path::{Path, PathBuf};

use crate::FsError;
use crate::fs::{ChangeFeed, WatchFilter};

/// Whether this system has a feed.
pub(super) const IS_SUPPORTED: bool = cfg!(target_os = "linux");

/// A feed of the changes below `folder`, which is absolute and has no link in it; errors name `display`.
///
/// When the user has no inotify instance left, that is `FS_IO_ERROR` with what to do. When there are instances and no
/// watches, there is a feed, which is degraded.
#[cfg(target_os = "linux")]
pub(super) async fn watch(
    folder: PathBuf,
    display: &Path,
    filter: &WatchFilter,
) -> Result<Box<dyn ChangeFeed>, FsError> {
    let feed = feed::LocalFeed::open(folder, display, filter.clone()).await?;
    Ok(Box::new(feed))
}

/// There is none.
#[cfg(not(target_os = "linux"))]
pub(super) async fn watch(
    _folder: PathBuf,
    _display: &Path,
    _filter: &WatchFilter,
) -> Result<Box<dyn ChangeFeed>, FsError> {
    Err(FsError::Unsupported { operation: "watch" })
}
