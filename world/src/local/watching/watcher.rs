//! The blocking half of a feed: the inotify instance, what is known of the tree, and what was seen and not yet given. Owns
//! the rule that an event only says where to look (what is reported is what stands there), and that after `sync` nothing
//! which happened before it is missing.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::FsError;
use crate::fs::{ChangeBatch, WatchFilter};

use super::barrier::Barrier;
use super::coalescing::Coalesced;
use super::events::Departures;
use super::instance::Instance;
use super::survey::{Blindness, open_folder};
use super::tree::{FolderId, Place, ROOT, Tree};

/// How many events one call of [`Watcher::drain`] takes in, and so how long a busy tree can delay a batch.
const EVENTS_PER_DRAIN: usize = 16_384;

/// How many barriers one call of [`Watcher::sync`] waits for at most. A further one is due after folders came up or
/// after something was gone before it was looked at; a tree that never rests must not hold the call for ever.
const SYNC_ROUNDS: usize = 8;

/// A watch of a folder and all below it.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own; no two of them form a state"
)]
pub(super) struct Watcher {
    pub(super) instance: Instance,
    pub(super) filter: WatchFilter,
    pub(super) tree: Tree,
    /// The folders that are not watched.
    pub(super) blind: BTreeMap<FolderId, Blindness>,
    pub(super) pending: Coalesced,
    pub(super) departures: Departures,
    /// Whether the kernel dropped events since the tree was last surveyed.
    pub(super) has_overflowed: bool,
    /// Whether changes were lost that the next batch has to tell of.
    pub(super) has_lost: bool,
    /// Whether something was met since the last barrier that can hide something else.
    pub(super) is_restless: bool,
    /// Whether the watched folder is gone.
    pub(super) has_ended: bool,
    pub(super) barrier: Option<Barrier>,
    /// The newest cookie that was seen.
    pub(super) reached: Option<OsString>,
    /// Whether the feed is gone, so that nobody needs what is surveyed.
    pub(super) is_abandoned: Arc<AtomicBool>,
    /// The path as the caller knows it, for errors.
    display: PathBuf,
    /// The device and inode of the watched folder.
    pub(super) identity: (u64, u64),
    told_degraded: bool,
}

impl Watcher {
    /// Begins to watch a folder, which is absolute and has no link in it. Gives up when it is abandoned.
    pub(super) fn open(
        folder: &Path,
        display: &Path,
        filter: WatchFilter,
        is_abandoned: Arc<AtomicBool>,
    ) -> Result<Self, FsError> {
        let refuse = |error| FsError::from_io(display, error);
        let metadata = fs::symlink_metadata(folder).map_err(refuse)?;
        if !metadata.is_dir() {
            return Err(FsError::NotDirectory {
                path: display.to_path_buf(),
            });
        }
        open_folder(folder).map_err(|error| refuse(error.into()))?;
        let instance = Instance::open().map_err(|error| FsError::Io {
            path: display.to_path_buf(),
            source: explained(error),
        })?;
        let mut watcher = Self {
            instance,
            filter,
            tree: Tree::new(folder.to_path_buf()),
            blind: BTreeMap::new(),
            pending: Coalesced::default(),
            departures: Departures::default(),
            has_overflowed: false,
            has_lost: false,
            is_restless: false,
            has_ended: false,
            barrier: None,
            reached: None,
            is_abandoned,
            display: display.to_path_buf(),
            identity: (metadata.dev(), metadata.ino()),
            told_degraded: false,
        };
        watcher.survey(Place::Root, true);
        // What was there before is no news.
        watcher.pending.clear();
        watcher.has_lost = false;
        if watcher.has_ended {
            return Err(watcher.gone());
        }
        Ok(watcher)
    }

    /// The error of a feed that has ended.
    pub(super) fn gone(&self) -> FsError {
        FsError::NotFound {
            path: self.display.clone(),
            reason: "the watched folder is gone",
        }
    }

    /// Whether the feed has ended and all was given.
    pub(super) fn is_finished(&self) -> bool {
        self.has_ended && !self.has_news()
    }

    /// Whether there is something to give.
    pub(super) fn has_news(&self) -> bool {
        !self.pending.is_empty() || self.has_lost || self.told_degraded != self.is_degraded()
    }

    fn is_degraded(&self) -> bool {
        !self.blind.is_empty()
    }

    /// All that was seen and not yet given.
    pub(super) fn take(&mut self) -> ChangeBatch {
        self.told_degraded = self.is_degraded();
        ChangeBatch {
            changes: self.pending.take(),
            lost: std::mem::take(&mut self.has_lost),
            degraded: self.told_degraded,
        }
    }

    /// Takes in events that are queued. Says whether these were all.
    pub(super) fn drain(&mut self) -> Result<bool, FsError> {
        self.prepare();
        let mut count = 0;
        let mut is_empty = false;
        while count < EVENTS_PER_DRAIN && !is_empty && !self.has_ended {
            let read = self.read()?;
            is_empty = read == 0;
            count += read;
        }
        self.conclude();
        Ok(is_empty)
    }

    /// Takes in all events of what happened before the call.
    pub(super) fn sync(&mut self) -> Result<(), FsError> {
        self.prepare();
        for _ in 0..SYNC_ROUNDS {
            self.is_restless = false;
            self.read_to_barrier()?;
            self.conclude();
            if self.has_ended || !self.is_restless {
                break;
            }
        }
        Ok(())
    }

    fn read_to_barrier(&mut self) -> Result<(), FsError> {
        // A new barrier counts its cookies anew.
        self.reached = None;
        let cookie = self.mark();
        let mut left = self
            .instance
            .queued_at_most()
            .map_err(|error| self.broken(error))?;
        while !self.has_ended {
            let is_reached = match &cookie {
                Some(_) => self.reached == cookie,
                // Without a barrier, what was queued when the call began is counted.
                None => left == 0,
            };
            if is_reached {
                break;
            }
            let read = self.read()?;
            if read == 0 {
                // The queue ran over and the cookie with it, or the private folder was taken away: all was read.
                break;
            }
            left = left.saturating_sub(read as u64);
        }
        Ok(())
    }

    /// Makes a cookie. None when there is no barrier, which needs a watch and a place to write.
    fn mark(&mut self) -> Option<OsString> {
        for _ in 0..2 {
            if self.barrier.is_none() {
                let raised = Barrier::raise(&self.instance);
                self.barrier = raised
                    .inspect_err(|error| tracing::debug!(%error, "a watch has no private folder"))
                    .ok();
            }
            match self.barrier.as_mut()?.mark() {
                Ok(cookie) => return Some(cookie),
                // Somebody cleaned up; a new one can be made.
                Err(_) => self.barrier = None,
            }
        }
        None
    }

    /// Takes in the next events and gives their number.
    fn read(&mut self) -> Result<usize, FsError> {
        let events = self.instance.read().map_err(|error| self.broken(error))?;
        let count = events.len();
        for event in events {
            self.handle(event);
        }
        Ok(count)
    }

    fn broken(&self, source: io::Error) -> FsError {
        let path = self.display.clone();
        FsError::Io { path, source }
    }

    fn prepare(&mut self) {
        self.check_root();
        self.look_again();
    }

    /// What is due when the events that belong together were read.
    fn conclude(&mut self) {
        if std::mem::take(&mut self.has_overflowed) {
            self.departures = Departures::default();
            self.survey(Place::Root, true);
            self.has_lost = true;
            self.is_restless = true;
        }
        self.settle_departures();
    }

    /// Ends the feed when its folder is not where it was. The folder has no event for that while somebody holds it open
    /// or when a folder above it moved.
    pub(super) fn check_root(&mut self) {
        let found = fs::symlink_metadata(self.tree.root());
        let is_there = match found {
            Ok(metadata) => (metadata.dev(), metadata.ino()) == self.identity,
            // Not being allowed to look says nothing.
            Err(error) => !matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ),
        };
        if !is_there {
            self.end();
        }
    }

    /// Reports all files as deleted, for good.
    pub(super) fn end(&mut self) {
        self.forget(ROOT);
        self.has_ended = true;
    }
}

/// Says what to do when there is no inotify instance to have.
fn explained(error: io::Error) -> io::Error {
    use rustix::io::Errno;
    match Errno::from_io_error(&error) {
        Some(Errno::MFILE | Errno::NFILE) => io::Error::other(format!(
            "no further watch can be opened ({error}): end other watchers, or raise fs.inotify.max_user_instances or \
             the limit of open files"
        )),
        _ => error,
    }
}
