//! The barrier of a feed: a private folder that the feed's own inotify instance watches. The kernel queues the events of
//! one instance in the order in which they happened, so all that happened before a cookie file was made there comes
//! before its event. Owns the folder (mode 0700, an unpredictable name) and removes it.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::inotify::WatchFlags;
use rustix::fs::{AtFlags, Mode, OFlags, open, openat, unlinkat};

use super::instance::{Instance, WatchNumber};

/// How the names of folders begin that lspool makes for itself, as the barrier's and those in which a text is staged
/// before it is put in its place. No feed enters such a folder.
const PRIVATE_PREFIX: &str = ".lspool-";

/// The private folder.
#[derive(Debug)]
pub(super) struct Barrier {
    path: PathBuf,
    folder: OwnedFd,
    watch: WatchNumber,
    cookies: u64,
}

/// Whether a folder of this name is one that lspool made for itself.
pub(super) fn is_private(name: &OsStr) -> bool {
    name.as_encoded_bytes()
        .starts_with(PRIVATE_PREFIX.as_bytes())
}

impl Barrier {
    /// Makes the folder, in the user's runtime folder or else in the system's temporary one, and watches it.
    pub(super) fn raise(instance: &Instance) -> io::Result<Self> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let in_runtime = runtime
            .filter(|folder| folder.is_absolute())
            .map(|folder| Self::raise_in(&folder, instance));
        match in_runtime {
            Some(Ok(barrier)) => Ok(barrier),
            Some(Err(_)) | None => Self::raise_in(&std::env::temp_dir(), instance),
        }
    }

    fn raise_in(parent: &Path, instance: &Instance) -> io::Result<Self> {
        let [one, other] = [(); 2].map(|()| RandomState::new().hash_one(std::process::id()));
        let path = parent.join(format!("{PRIVATE_PREFIX}watch-{one:016x}{other:016x}"));
        // A name that is taken is an error, so the folder is this process's own.
        rustix::fs::mkdir(&path, Mode::RWXU)?;
        Self::watch(&path, instance).inspect_err(|_| remove(&path))
    }

    fn watch(path: &Path, instance: &Instance) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = open(path, flags, Mode::empty())?;
        let watch = instance.watch(folder.as_fd(), WatchFlags::CREATE)?;
        Ok(Self {
            path: path.to_path_buf(),
            folder,
            watch,
            cookies: 0,
        })
    }

    /// The watch in which the cookies are seen.
    pub(super) fn watch_number(&self) -> WatchNumber {
        self.watch
    }

    /// Makes a cookie file, and gives its name: when its event is read, all that happened before was read.
    pub(super) fn mark(&mut self) -> io::Result<OsString> {
        self.cookies += 1;
        let name = self.cookies.to_string();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        openat(&self.folder, &name, flags, Mode::RUSR | Mode::WUSR)?;
        unlinkat(&self.folder, &name, AtFlags::empty())?;
        Ok(name.into())
    }
}

impl Drop for Barrier {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

fn remove(path: &Path) {
    match rustix::fs::rmdir(path) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => {}
        Err(error) => {
            tracing::warn!(folder = %path.display(), %error, "the private folder of a watch could not be removed");
        }
    }
}
