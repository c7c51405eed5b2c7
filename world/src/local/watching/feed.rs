//! The waiting half of a feed. Owns the rule that a call which is dropped loses nothing: the blocking half is always
//! either here or in a piece of work on the blocking pool that the feed holds, and the next call takes it back.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::JoinHandle;

use crate::FsError;
use crate::fs::{ChangeBatch, ChangeFeed, WatchFilter};
use crate::local::file_system::blocking;

use super::watcher::Watcher;

/// How long changes are gathered once there is one, so that what belongs together becomes one.
const QUIET: Duration = Duration::from_millis(20);

/// Tells the blocking half that nobody waits for it any more.
#[derive(Debug, Default)]
struct Abandon(Arc<AtomicBool>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The blocking half, and what tells when it has something to read. They end together.
#[derive(Debug)]
struct Source {
    watcher: Watcher,
    readiness: Arc<AsyncFd<Arc<OwnedFd>>>,
}

/// Where the blocking half is.
#[derive(Debug)]
enum Half {
    /// At rest.
    Here(Box<Source>),
    /// On the blocking pool, from which it comes back with what its work gave.
    Working(JoinHandle<(Box<Source>, Result<bool, FsError>)>),
    /// Lost with the runtime.
    Gone,
}

/// A feed of this machine.
#[derive(Debug)]
pub(super) struct LocalFeed {
    half: Half,
    display: PathBuf,
    _abandon: Abandon,
}

impl LocalFeed {
    /// Begins to watch.
    pub(super) async fn open(
        folder: PathBuf,
        display: &Path,
        filter: WatchFilter,
    ) -> Result<Self, FsError> {
        let abandon = Abandon::default();
        let is_abandoned = Arc::clone(&abandon.0);
        let watcher = blocking(display.to_path_buf(), move |display| {
            Watcher::open(&folder, display, filter, is_abandoned)
        })
        .await?;
        let readiness = readiness(watcher.instance.descriptor())
            .map_err(|error| FsError::from_io(display, error))?;
        let source = Source {
            watcher,
            readiness: Arc::new(readiness),
        };
        Ok(Self {
            half: Half::Here(Box::new(source)),
            display: display.to_path_buf(),
            _abandon: abandon,
        })
    }

    /// The blocking half at rest, after the work that an earlier call left under way.
    async fn rested(&mut self) -> Result<&mut Source, FsError> {
        if matches!(self.half, Half::Working(_)) {
            self.finish().await?;
        }
        match &mut self.half {
            Half::Here(source) => Ok(source),
            Half::Working(_) | Half::Gone => Err(FsError::Aborted {
                path: self.display.clone(),
            }),
        }
    }

    /// Lets the blocking half work, and gives what that gave.
    async fn work(
        &mut self,
        work: fn(&mut Watcher) -> Result<bool, FsError>,
    ) -> Result<bool, FsError> {
        self.rested().await?;
        if let Half::Here(mut source) = std::mem::replace(&mut self.half, Half::Gone) {
            self.half = Half::Working(tokio::task::spawn_blocking(move || {
                let result = work(&mut source.watcher);
                (source, result)
            }));
        }
        self.finish().await
    }

    async fn finish(&mut self) -> Result<bool, FsError> {
        let Half::Working(task) = &mut self.half else {
            return Ok(false);
        };
        let ended = task.await;
        self.half = Half::Gone;
        match ended {
            Ok((source, result)) => {
                self.half = Half::Here(source);
                result
            }
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(FsError::Aborted {
                path: self.display.clone(),
            }),
        }
    }
}

impl Drop for LocalFeed {
    fn drop(&mut self) {
        if let Half::Here(source) = std::mem::replace(&mut self.half, Half::Gone)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            // The kernel takes tens of milliseconds to close an instance, and the private folder is removed.
            runtime.spawn_blocking(move || drop(source));
        }
    }
}

#[async_trait]
impl ChangeFeed for LocalFeed {
    async fn next(&mut self) -> Result<Option<ChangeBatch>, FsError> {
        loop {
            let Source { watcher, readiness } = self.rested().await?;
            if watcher.has_news() {
                return Ok(Some(watcher.take()));
            }
            if watcher.is_finished() {
                return Ok(None);
            }
            let readiness = Arc::clone(readiness);
            let mut ready = readiness
                .readable()
                .await
                .map_err(|error| FsError::from_io(&self.display, error))?;
            tokio::time::sleep(QUIET).await;
            if self.work(Watcher::drain).await? {
                ready.clear_ready();
            }
        }
    }

    async fn sync(&mut self) -> Result<ChangeBatch, FsError> {
        let Source { watcher, .. } = self.rested().await?;
        if watcher.is_finished() {
            return Err(watcher.gone());
        }
        self.work(|watcher| watcher.sync().map(|()| true)).await?;
        let Source { watcher, .. } = self.rested().await?;
        if watcher.is_finished() {
            return Err(watcher.gone());
        }
        Ok(watcher.take())
    }
}

/// Registers the descriptor of an inotify instance with the runtime.
#[expect(
    deprecated,
    reason = "its successor is unsafe, for types whose descriptor can change; an owned descriptor cannot"
)]
fn readiness(descriptor: Arc<OwnedFd>) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    AsyncFd::with_interest(descriptor, Interest::READABLE)
}
