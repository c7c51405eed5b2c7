//! Removing the staging folders that killed writers left. Owns the rule that a folder somebody works in is never taken:
//! whoever stages holds an exclusive lock on the folder (flock(2)), which the kernel gives back when its process dies. A
//! file system that cannot lock a folder, as that of another machine, is never swept.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{self as system, AtFlags, Dir, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::staging::{CONTENT, PREFIX};
use crate::local::opening::Place;

/// How many folders are remembered. Beyond that all are forgotten, which costs another look at each.
const MAX_REMEMBERED: usize = 4096;

/// The folders of one provider that were swept. A folder is looked through before the first text is staged in it and not
/// again, since that takes a listing: what is found was left by a process before this one.
#[derive(Clone, Debug, Default)]
pub(in crate::local) struct SweptFolders(Arc<Mutex<HashSet<(system::Dev, u64)>>>);

impl SweptFolders {
    /// Sweeps the folder of a place unless that was done. A folder that cannot be listed is left as it is.
    pub(super) fn sweep(&self, place: &Place) {
        let Ok(stat) = system::fstat(place.folder()) else {
            return;
        };
        if self.is_new(&stat)
            && let Err(errno) = sweep(place.folder())
        {
            tracing::debug!(%errno, "a folder could not be searched for what killed writers left");
        }
    }

    fn is_new(&self, folder: &Stat) -> bool {
        let mut swept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if swept.len() >= MAX_REMEMBERED {
            swept.clear();
        }
        swept.insert((folder.st_dev, folder.st_ino))
    }
}

/// Takes the lock of a staging folder, which its owner holds until the folder is gone.
///
/// Gives `WOULDBLOCK` where somebody has it, and other errors where the file system has no such locks.
pub(super) fn lock(folder: BorrowedFd<'_>) -> Result<(), Errno> {
    system::flock(folder, FlockOperation::NonBlockingLockExclusive)
}

fn sweep(folder: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listed = system::openat(folder, ".", flags, Mode::empty())?;
    let mut names: Vec<OsString> = Vec::new();
    for entry in Dir::new(listed)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name.starts_with(PREFIX.as_bytes()) {
            names.push(OsStr::from_bytes(name).to_os_string());
        }
    }
    for name in names {
        // Another user's, one in use, or one that its owner has removed by now.
        if let Err(errno) = remove_left(folder, &name) {
            tracing::debug!(?name, %errno, "a staging folder was left in its place");
        }
    }
    Ok(())
}

/// Removes a staging folder of this user in which nobody works, with the file that is staged in it and nothing else.
fn remove_left(folder: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let staging = system::openat(folder, name, flags, Mode::empty())?;
    if system::fstat(&staging)?.st_uid != geteuid().as_raw() {
        return Err(Errno::ACCESS);
    }
    // Held until the folder is gone, so that an owner that is only beginning notices.
    lock(staging.as_fd())?;
    match system::unlinkat(&staging, CONTENT, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno),
    }
    system::unlinkat(folder, name, AtFlags::REMOVEDIR)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};

    use super::super::staging::StagingFolder;
    use super::*;

    fn scratch() -> (tempfile::TempDir, PathBuf, Place) {
        let scratch = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(scratch.path()).unwrap();
        let place = Place::open(&root.join("file")).unwrap();
        (scratch, root, place)
    }

    /// What a killed writer leaves.
    fn leave(root: &Path, name: &str) -> PathBuf {
        let folder = root.join(format!("{PREFIX}{name}"));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(CONTENT), "half").unwrap();
        folder
    }

    fn count(root: &Path) -> usize {
        fs::read_dir(root).unwrap().count()
    }

    #[test]
    fn what_a_killed_writer_left_goes_and_what_is_in_use_stays() {
        // given a folder that was left, an empty one, and one in which a writer works
        let (_scratch, root, place) = scratch();
        leave(&root, "left");
        fs::create_dir(root.join(format!("{PREFIX}empty"))).unwrap();
        let in_use = StagingFolder::make(&place).unwrap();

        // when the folder is swept, then what is in use is left, and can be removed by its owner
        SweptFolders::default().sweep(&place);
        assert_eq!(count(&root), 1);
        drop(in_use);
        assert_eq!(count(&root), 0);
    }

    #[test]
    fn what_only_looks_like_a_staging_folder_stays() {
        let (_scratch, root, place) = scratch();
        fs::create_dir(root.join("elsewhere")).unwrap();
        fs::write(root.join("elsewhere").join(CONTENT), "kept").unwrap();
        symlink("elsewhere", root.join(format!("{PREFIX}link"))).unwrap();
        fs::write(root.join(format!("{PREFIX}file")), "kept").unwrap();
        let used = root.join(format!("{PREFIX}used"));
        fs::create_dir(&used).unwrap();
        fs::write(used.join("strange"), "kept").unwrap();
        let nested = root.join(format!("{PREFIX}nested"));
        fs::create_dir_all(nested.join(CONTENT)).unwrap();

        SweptFolders::default().sweep(&place);

        assert_eq!(count(&root), 5);
        assert_eq!(
            fs::read(root.join("elsewhere").join(CONTENT)).unwrap(),
            b"kept"
        );
        assert!(used.join("strange").exists() && nested.join(CONTENT).exists());
    }

    #[test]
    fn a_folder_is_searched_once() {
        let (_scratch, root, place) = scratch();
        let swept = SweptFolders::default();
        swept.sweep(&place);
        let later = leave(&root, "later");

        swept.sweep(&place);
        assert!(later.exists());

        SweptFolders::default().sweep(&place);
        assert!(!later.exists());
    }

    #[test]
    fn the_folders_that_are_remembered_are_bounded() {
        let (_scratch, _, place) = scratch();
        let swept = SweptFolders::default();
        let full = (0..MAX_REMEMBERED as u64).map(|number| (0, number));
        swept.0.lock().unwrap().extend(full);

        swept.sweep(&place);

        assert_eq!(swept.0.lock().unwrap().len(), 1);
    }
}
