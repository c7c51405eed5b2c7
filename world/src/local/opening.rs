//! Opening what a key names. Owns the rule that no link in a key is followed: a key has none, so one that is met was put
//! there after the key was made and can lead anywhere. What is opened is a folder; everything else is named from it, so
//! that what was checked is what is used, whatever happens to the path meanwhile.
//!
//! On Linux one call opens the folder (openat2(2) with `RESOLVE_NO_SYMLINKS`); where the kernel or a filter refuses that
//! call, and elsewhere, the folders are opened one from the other. Elsewhere than on Linux each of them must be readable,
//! not only searchable.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{self as system, AtFlags, CWD, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

use super::inspection::{kind, size, version};
use crate::{FileKind, FileVersion, FsError};

/// How a folder is opened that other names start from. With `O_PATH` it need not be readable.
#[cfg(target_os = "linux")]
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// The error for what the system reported of a key: a link is one that was put there later.
pub(super) fn failure(display: &Path, errno: Errno) -> FsError {
    let path = display.to_path_buf();
    match errno {
        Errno::LOOP => FsError::Relinked { path },
        other => FsError::from_io(display, other.into()),
    }
}

/// Nothing there, or a parent that is no folder, is `None`.
pub(super) fn present<T>(result: Result<T, Errno>) -> Result<Option<T>, Errno> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Opens a folder by its absolute path.
///
/// Gives `ELOOP` for a link in the path.
pub(super) fn open_folder(path: &Path) -> Result<OwnedFd, Errno> {
    #[cfg(target_os = "linux")]
    if at_once::is_supported() {
        return at_once::open(path);
    }
    open_by_steps(path)
}

/// Opens one folder in another.
///
/// Gives `ELOOP` for a link.
pub(super) fn open_child(folder: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    open_unfollowed(folder.as_fd(), name, FOLDER)
}

fn open_by_steps(path: &Path) -> Result<OwnedFd, Errno> {
    let mut folder = retry_on_intr(|| system::openat(CWD, "/", FOLDER, Mode::empty()))?;
    for component in path.components() {
        if let Component::Normal(name) = component {
            folder = open_child(&folder, name)?;
        }
    }
    Ok(folder)
}

/// Opens a name in a folder. The systems differ in what they call a link there, so it is looked at after a failure.
fn open_unfollowed(folder: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NOFOLLOW;
    retry_on_intr(|| system::openat(folder, name, flags, Mode::empty())).map_err(|errno| {
        match system::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if kind(&stat) == FileKind::Symlink => Errno::LOOP,
            _ => errno,
        }
    })
}

/// One call for the whole path.
#[cfg(target_os = "linux")]
mod at_once {
    use std::os::fd::OwnedFd;
    use std::path::Path;
    use std::sync::OnceLock;

    use rustix::fs::{self as system, CWD, Mode, ResolveFlags};
    use rustix::io::{Errno, retry_on_intr};

    /// Tried once, on a folder that is always there: a refusal then is that of an old kernel or of a filter.
    pub(super) fn is_supported() -> bool {
        static SUPPORTED: OnceLock<bool> = OnceLock::new();
        *SUPPORTED.get_or_init(|| open(Path::new("/")).is_ok())
    }

    pub(super) fn open(path: &Path) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        retry_on_intr(|| system::openat2(CWD, path, super::FOLDER, Mode::empty(), resolve))
    }
}

/// Where a key stands: its folder, open, and its name there. The root is the name `.` in itself.
#[derive(Debug)]
pub(super) struct Place {
    folder: OwnedFd,
    name: OsString,
}

impl Place {
    /// The place of a key, whether or not something is there.
    ///
    /// Gives `ENOENT` where the folder is missing, `ELOOP` where a link leads to it.
    pub(super) fn open(resolved: &Path) -> Result<Self, Errno> {
        let (parent, name) = match (resolved.parent(), resolved.file_name()) {
            (Some(parent), Some(name)) => (parent, name),
            _ => (Path::new("/"), OsStr::new(".")),
        };
        Ok(Self::new(open_folder(parent)?, name.to_os_string()))
    }

    /// The name in an open folder.
    pub(super) fn new(folder: OwnedFd, name: OsString) -> Self {
        Self { folder, name }
    }

    pub(super) fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    pub(super) fn name(&self) -> &OsStr {
        &self.name
    }

    /// What stands there; `None` where nothing does.
    ///
    /// Gives `ELOOP` for a link.
    pub(super) fn stat(&self) -> Result<Option<Stat>, Errno> {
        let found = system::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        match present(found)? {
            Some(stat) if kind(&stat) == FileKind::Symlink => Err(Errno::LOOP),
            found => Ok(found),
        }
    }

    /// Opens the folder that stands there, to be listed.
    pub(super) fn open_listed(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        open_unfollowed(self.folder(), &self.name, flags)
    }

    /// Opens the regular file that stands there, to be read. The kind is looked at before the open, since opening a
    /// device can have effects, and again on the descriptor; opening never waits for the other end of a FIFO.
    pub(super) fn open_regular(&self, display: &Path) -> Result<OpenFile, FsError> {
        let refuse = |errno| failure(display, errno);
        let before = self.stat().map_err(refuse)?;
        require_regular(&before.ok_or_else(|| refuse(Errno::NOENT))?, display)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = open_unfollowed(self.folder(), &self.name, flags).map_err(refuse)?;
        let stat = system::fstat(&file).map_err(refuse)?;
        require_regular(&stat, display)?;
        Ok(OpenFile {
            file: File::from(file),
            size: size(&stat),
            version: version(&stat),
            stat,
        })
    }
}

/// Refuses what is no regular file.
pub(super) fn require_regular(stat: &Stat, display: &Path) -> Result<(), FsError> {
    if kind(stat) == FileKind::File {
        return Ok(());
    }
    Err(FsError::NotRegularFile {
        path: display.to_path_buf(),
    })
}

/// A regular file that is open for reading, and what it was then.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: File,
    pub(super) size: u64,
    pub(super) version: FileVersion,
    pub(super) stat: Stat,
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    /// A folder with a file, a link to the folder and one to the file.
    fn playground() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir_all(root.join("real/inner")).unwrap();
        fs::write(root.join("real/file"), "x").unwrap();
        symlink("real", root.join("link")).unwrap();
        symlink("file", root.join("real/alias")).unwrap();
        (folder, root)
    }

    #[test]
    fn both_ways_of_opening_a_folder_follow_no_link() {
        let (_folder, root) = playground();
        let cases = [
            ("real/inner", None),
            ("link", Some(Errno::LOOP)),
            ("link/inner", Some(Errno::LOOP)),
            ("link/none", Some(Errno::LOOP)),
            ("none", Some(Errno::NOENT)),
            ("none/inner", Some(Errno::NOENT)),
            ("real/file", Some(Errno::NOTDIR)),
            ("real/file/inner", Some(Errno::NOTDIR)),
        ];
        for (path, expected) in cases {
            let path = root.join(path);
            assert_eq!(open_folder(&path).err(), expected, "{}", path.display());
            assert_eq!(open_by_steps(&path).err(), expected, "{}", path.display());
        }
        assert!(open_folder(Path::new("/")).is_ok() && open_by_steps(Path::new("/")).is_ok());
    }

    #[test]
    fn a_link_at_the_key_itself_is_refused_by_every_call() {
        let (_folder, root) = playground();
        let place = Place::open(&root.join("real/alias")).unwrap();

        assert_eq!(place.stat().unwrap_err(), Errno::LOOP);
        assert_eq!(place.open_listed().unwrap_err(), Errno::LOOP);
        let refused = place.open_regular(Path::new("/shown")).unwrap_err();
        assert!(matches!(refused, FsError::Relinked { .. }));
        assert_eq!(refused.code(), "FS_IO_ERROR");
        let text = refused.to_string();
        assert!(
            text.contains("/shown") && text.contains("resolve it again"),
            "{text}"
        );
    }

    #[test]
    fn a_place_stays_in_its_folder_when_the_path_is_swapped() {
        // given a place in a folder, and a link in the folder's stead
        let (_folder, root) = playground();
        let place = Place::open(&root.join("real/file")).unwrap();
        fs::rename(root.join("real"), root.join("moved")).unwrap();
        fs::create_dir(root.join("other")).unwrap();
        symlink("other", root.join("real")).unwrap();

        // when it is used, then it is the folder that was opened
        assert!(place.stat().unwrap().is_some());
        assert_eq!(place.open_regular(Path::new("/shown")).unwrap().size, 1);
    }

    #[test]
    fn the_root_is_a_place() {
        let place = Place::open(Path::new("/")).unwrap();

        assert_eq!(kind(&place.stat().unwrap().unwrap()), FileKind::Directory);
    }
}
