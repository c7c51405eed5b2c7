//! Spill files: the whole of a collected stream that is longer than its tail. Owns their privacy (a folder of mode 0700,
//! files of mode 0600) and their end: a file lives as long as the handle that tells its path, the folder as long as any.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// The private folder of one provider, made with its first file.
#[derive(Debug, Default)]
pub(in crate::local) struct SpillFolder {
    made: Mutex<Option<PathBuf>>,
    files: AtomicU64,
}

impl SpillFolder {
    /// A new file in the folder.
    fn create_file(&self) -> io::Result<(File, PathBuf)> {
        let folder = self.folder()?;
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("output-{number}.log"));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        Ok((file, path))
    }

    fn folder(&self) -> io::Result<PathBuf> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = &*made {
            return Ok(folder.clone());
        }
        let nanoseconds = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos());
        let name = format!("lspool-output-{}-{nanoseconds:x}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(made.insert(folder).clone())
    }
}

impl Drop for SpillFolder {
    fn drop(&mut self) {
        let made = self.made.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = made.take()
            && let Err(error) = fs::remove_dir(&folder)
        {
            tracing::warn!(folder = %folder.display(), %error, "the folder of spill files could not be removed");
        }
    }
}

/// The spill of one stream.
#[derive(Debug)]
pub(super) struct SpillWriter {
    max_bytes: u64,
    folder: Arc<SpillFolder>,
    state: SpillState,
}

#[derive(Debug)]
enum SpillState {
    /// The stream still fits its tail.
    Unneeded,
    /// The file holds the whole stream.
    Writing(File, PathBuf),
    /// The stream is too long, or the file could not be written: there is none, for good.
    Discarded,
}

impl SpillWriter {
    pub(super) fn new(max_bytes: u64, folder: Arc<SpillFolder>) -> Self {
        Self {
            max_bytes,
            folder,
            state: SpillState::Unneeded,
        }
    }

    /// The file, while it holds the whole stream.
    pub(super) fn path(&self) -> Option<PathBuf> {
        match &self.state {
            SpillState::Writing(_, path) => Some(path.clone()),
            SpillState::Unneeded | SpillState::Discarded => None,
        }
    }

    /// Whether a stream of this length has no file any more.
    pub(super) fn discards_at(&self, total: u64) -> bool {
        total > self.max_bytes
    }

    /// Appends a chunk; before the first one `head`, which is all that the stream had until then. `total` is the length
    /// of the stream with the chunk.
    pub(super) fn append(&mut self, head: &[u8], chunk: &[u8], total: u64) {
        if self.discards_at(total) {
            self.discard();
        } else if let Err(error) = self.write(head, chunk) {
            tracing::warn!(%error, "a spill file could not be written; the tail in memory remains");
            self.discard();
        }
    }

    fn write(&mut self, head: &[u8], chunk: &[u8]) -> io::Result<()> {
        if matches!(self.state, SpillState::Unneeded) {
            let (file, path) = self.folder.create_file()?;
            self.state = SpillState::Writing(file, path);
        }
        if let SpillState::Writing(file, _) = &mut self.state {
            file.write_all(head)?;
            file.write_all(chunk)?;
        }
        Ok(())
    }

    fn discard(&mut self) {
        if let SpillState::Writing(_, path) =
            std::mem::replace(&mut self.state, SpillState::Discarded)
            && let Err(error) = fs::remove_file(&path)
        {
            tracing::warn!(path = %path.display(), %error, "a spill file could not be removed");
        }
    }
}

impl Drop for SpillWriter {
    fn drop(&mut self) {
        self.discard();
    }
}
