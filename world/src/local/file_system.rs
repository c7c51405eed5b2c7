//! The file seam on this machine. Every system call runs on the blocking pool, so that a slow disk delays no task.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bytes::Bytes;

use super::writing::{Caller, Change, KeyLocks, SweptFolders, caller};
use super::{editing, listing, reading, resolution, watching, writing};
use crate::fs::{
    ByteRange, ChangeFeed, EditOptions, EditOutcome, EditRequest, WatchFilter, WriteOptions,
    WriteOutcome, file_uri_from_path, path_from_file_uri,
};
use crate::{
    DirEntry, FileSystem, FileSystemFacts, FsError, Metadata, Target, TextFile, TextStream, WorldId,
};

/// The files of this machine.
#[derive(Debug)]
pub struct LocalFileSystem {
    world_id: WorldId,
    locks: KeyLocks,
    swept: SweptFolders,
}

impl LocalFileSystem {
    /// The files of this machine. Its state is the order of the changes that are under way, and where nothing is left
    /// of killed writers.
    pub fn new() -> Self {
        Self {
            world_id: WorldId::local(),
            locks: KeyLocks::default(),
            swept: SweptFolders::default(),
        }
    }

    /// Makes a change under the lock of its key. Both waits end when the future is dropped; a change that has begun
    /// then notices that nobody waits for it, unless it counts already, and keeps the lock until it has left nothing.
    async fn change<T: Send + 'static>(
        &self,
        target: &Target,
        make: impl FnOnce(&Path, &Path, &Caller) -> Result<T, FsError> + Send + 'static,
    ) -> Result<T, FsError> {
        let lock = self.locks.acquire(target.key()).await;
        let (presence, caller) = caller();
        let resolved = self.process_path(target);
        let changed = blocking(target.display_path().to_path_buf(), move |display| {
            let _held = lock;
            make(&resolved, display, &caller)
        })
        .await;
        drop(presence);
        changed
    }
}

impl Default for LocalFileSystem {
    fn default() -> Self {
        Self::new()
    }
}

/// Runs file calls on the blocking pool. `FS_ABORTED` when the runtime ends before they do.
pub(super) async fn blocking<T: Send + 'static>(
    path: PathBuf,
    work: impl FnOnce(&Path) -> Result<T, FsError> + Send + 'static,
) -> Result<T, FsError> {
    let for_abort = path.clone();
    match tokio::task::spawn_blocking(move || work(&path)).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(FsError::Aborted { path: for_abort }),
    }
}

#[async_trait]
impl FileSystem for LocalFileSystem {
    fn world_id(&self) -> &WorldId {
        &self.world_id
    }

    fn facts(&self) -> FileSystemFacts {
        FileSystemFacts {
            mutation: true,
            watch: watching::IS_SUPPORTED,
            handle_relative: true,
            ranged_reads: true,
            byte_names: true,
        }
    }

    async fn resolve(&self, path: &Path, cwd: &Path) -> Result<Target, FsError> {
        let cwd = cwd.to_path_buf();
        blocking(path.to_path_buf(), move |path| {
            resolution::resolve(path, &cwd)
        })
        .await
    }

    fn process_path(&self, target: &Target) -> PathBuf {
        target.key().as_resolved().to_path_buf()
    }

    fn file_uri(&self, target: &Target) -> String {
        file_uri_from_path(target.key().as_resolved())
            .expect("a resolved path is absolute and has neither '..' nor NUL")
    }

    fn spelled_uri(&self, absolute: &Path) -> Result<String, FsError> {
        file_uri_from_path(absolute)
    }

    fn path_from_uri(&self, uri: &str) -> Result<PathBuf, FsError> {
        path_from_file_uri(uri)
    }

    fn contains(&self, parent: &Target, child: &Target) -> bool {
        child
            .key()
            .as_resolved()
            .starts_with(parent.key().as_resolved())
    }

    async fn encloses(&self, folder: &Target, target: &Target) -> Result<bool, FsError> {
        if self.contains(folder, target) {
            return Ok(true);
        }
        let (folder, resolved) = (self.process_path(folder), self.process_path(target));
        blocking(target.display_path().to_path_buf(), move |display| {
            resolution::is_below(&folder, &resolved, display)
        })
        .await
    }

    async fn stat(&self, target: &Target) -> Result<Option<Metadata>, FsError> {
        let resolved = self.process_path(target);
        blocking(target.display_path().to_path_buf(), move |display| {
            reading::stat(&resolved, display)
        })
        .await
    }

    async fn lstat(&self, path: &Path, cwd: &Path) -> Result<Option<Metadata>, FsError> {
        let cwd = cwd.to_path_buf();
        blocking(path.to_path_buf(), move |path| reading::lstat(path, &cwd)).await
    }

    async fn read_text(&self, target: &Target) -> Result<TextFile, FsError> {
        let resolved = self.process_path(target);
        blocking(target.display_path().to_path_buf(), move |display| {
            reading::read_text(&resolved, display)
        })
        .await
    }

    async fn stream_text(&self, target: &Target) -> Result<Box<dyn TextStream>, FsError> {
        let resolved = self.process_path(target);
        let stream = blocking(target.display_path().to_path_buf(), move |display| {
            reading::LocalTextStream::open(&resolved, display)
        })
        .await?;
        Ok(Box::new(stream))
    }

    async fn read_bytes(&self, target: &Target, max_bytes: u64) -> Result<Bytes, FsError> {
        let resolved = self.process_path(target);
        blocking(target.display_path().to_path_buf(), move |display| {
            reading::read_bytes(&resolved, display, max_bytes)
        })
        .await
    }

    async fn list_dir(&self, target: &Target) -> Result<Vec<DirEntry>, FsError> {
        let resolved = self.process_path(target);
        blocking(target.display_path().to_path_buf(), move |display| {
            listing::list(&resolved, display)
        })
        .await
    }

    async fn read_range(
        &self,
        target: &Target,
        offset: u64,
        max_bytes: u64,
    ) -> Result<ByteRange, FsError> {
        let resolved = self.process_path(target);
        blocking(target.display_path().to_path_buf(), move |display| {
            reading::read_range(&resolved, display, offset, max_bytes)
        })
        .await
    }

    async fn write_text(
        &self,
        target: &Target,
        text: &str,
        options: &WriteOptions,
    ) -> Result<WriteOutcome, FsError> {
        let (text, options) = (text.to_owned(), options.clone());
        let swept = self.swept.clone();
        self.change(target, move |resolved, display, caller| {
            let change = Change {
                resolved,
                display,
                caller,
                durable: options.durable,
                swept: &swept,
            };
            writing::write(&change, &text, &options)
        })
        .await
    }

    async fn edit_text(
        &self,
        target: &Target,
        edit: &EditRequest,
        options: &EditOptions,
    ) -> Result<EditOutcome, FsError> {
        let (edit, options) = (edit.clone(), options.clone());
        let swept = self.swept.clone();
        self.change(target, move |resolved, display, caller| {
            let change = Change {
                resolved,
                display,
                caller,
                durable: options.durable,
                swept: &swept,
            };
            editing::edit(&change, &edit, &options)
        })
        .await
    }

    async fn watch(
        &self,
        folder: &Target,
        filter: &WatchFilter,
    ) -> Result<Box<dyn ChangeFeed>, FsError> {
        watching::watch(self.process_path(folder), folder.display_path(), filter).await
    }
}
