//! The text of a change before it counts: a file in a private folder beside its place. Owns the rules that nobody else
//! can reach it, that nothing which exists is ever taken for it, and that it is removed whatever happens.
//!
//! A process that is killed at this point leaves the folder behind; a later one removes it (see [`super::sweeping`]).

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{self as system, AtFlags, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;

use super::caller::Caller;
use super::sweeping;
use crate::FsError;
use crate::local::opening::{Place, failure};

/// The beginning of the name of every staging folder. The name has nothing of the target's, which may be as long as a
/// name can be.
pub(super) const PREFIX: &str = ".lspool-staging-";

/// The name of the file in it.
pub(super) const CONTENT: &str = "content";

/// How often a name is tried that exists already.
const ATTEMPTS: usize = 16;

/// After how many bytes the caller is looked for.
const SLICE_BYTES: usize = 1024 * 1024;

/// A private folder in the folder of a place. Dropped, it and its file are removed.
#[derive(Debug)]
pub(super) struct StagingFolder<'p> {
    place: &'p Place,
    name: String,
    folder: OwnedFd,
}

impl<'p> StagingFolder<'p> {
    /// Makes a folder of a name that cannot be guessed.
    ///
    /// Gives `ENOENT` where the folder of the place is gone.
    pub(super) fn make(place: &'p Place) -> Result<Self, Errno> {
        for _ in 0..ATTEMPTS {
            match Self::make_named(place, unpredictable_name()) {
                Err(Errno::EXIST) => {}
                made => return made,
            }
        }
        Err(Errno::EXIST)
    }

    fn make_named(place: &'p Place, name: String) -> Result<Self, Errno> {
        system::mkdirat(place.folder(), &name, Mode::RWXU)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match system::openat(place.folder(), &name, flags, Mode::empty()) {
            Ok(folder) => {
                // A mask can have taken the owner's own permissions; a file system without any refuses, which is no harm.
                let _ = system::fchmod(&folder, Mode::RWXU);
                let made = Self {
                    place,
                    name,
                    folder,
                };
                made.claim()?;
                Ok(made)
            }
            Err(errno) => {
                let _ = system::unlinkat(place.folder(), &name, AtFlags::REMOVEDIR);
                Err(errno)
            }
        }
    }

    /// Holds the folder against sweepers.
    ///
    /// Gives `EXIST` where one came between the making and the lock, and took the folder for one that was left.
    fn claim(&self) -> Result<(), Errno> {
        // Where there are no locks there are no sweepers.
        if sweeping::lock(self.folder()) == Err(Errno::WOULDBLOCK) {
            return Err(Errno::EXIST);
        }
        let own = system::fstat(&self.folder)?;
        let there = system::statat(self.place.folder(), &self.name, AtFlags::SYMLINK_NOFOLLOW);
        match there {
            Ok(there) if (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino) => Ok(()),
            Ok(_) | Err(Errno::NOENT) => Err(Errno::EXIST),
            Err(errno) => Err(errno),
        }
    }

    pub(super) fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// Makes the file in it. `mode` is what the file mode mask of this process is taken from.
    fn create(&self, mode: Mode) -> Result<File, Errno> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        system::openat(&self.folder, CONTENT, flags, mode).map(File::from)
    }
}

impl Drop for StagingFolder<'_> {
    fn drop(&mut self) {
        let content = system::unlinkat(&self.folder, CONTENT, AtFlags::empty());
        let folder = system::unlinkat(self.place.folder(), &self.name, AtFlags::REMOVEDIR);
        let left = [content, folder]
            .into_iter()
            .filter_map(Result::err)
            .find(|errno| *errno != Errno::NOENT);
        if let Some(error) = left {
            tracing::warn!(name = self.name, %error, "a staging folder could not be removed");
        }
    }
}

/// The hasher's keys are the system's randomness, and what comes out of it tells nothing of them.
fn unpredictable_name() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("{PREFIX}{:016x}{:016x}", random(), random())
}

/// A whole text on the disk, not yet in its place.
#[derive(Debug)]
pub(super) struct Staged<'p> {
    pub(super) folder: StagingFolder<'p>,
    pub(super) file: File,
}

impl<'p> Staged<'p> {
    /// Writes and syncs a content. A file that replaces another (`like`) has its permissions, a new one those that the
    /// file mode mask leaves.
    ///
    /// Gives `FS_ABORTED` when nobody waits for it any more.
    pub(super) fn write(
        folder: StagingFolder<'p>,
        content: &[u8],
        like: Option<&Stat>,
        caller: &Caller,
        display: &Path,
    ) -> Result<Self, FsError> {
        let mode = if like.is_some() { 0o600 } else { 0o666 };
        let mut file = folder
            .create(Mode::from_raw_mode(mode))
            .map_err(|errno| failure(display, errno))?;
        let refuse = |error| FsError::from_io(display, error);
        for slice in content.chunks(SLICE_BYTES) {
            caller.require(display)?;
            file.write_all(slice).map_err(refuse)?;
        }
        if let Some(like) = like {
            take_over_access(&file, like).map_err(|errno| failure(display, errno))?;
        }
        caller.require(display)?;
        file.sync_all().map_err(refuse)?;
        Ok(Self { folder, file })
    }
}

/// Gives a file the permission bits of another, and its group and owner where the system allows it: always to root, and
/// the group to its members. A group that cannot be kept has the permissions of everybody, so that nobody gains any.
/// Access lists and extended attributes are not taken over.
fn take_over_access(file: &File, like: &Stat) -> Result<(), Errno> {
    let own = system::fstat(file)?;
    let mut mode = like.st_mode & 0o777;
    if own.st_gid != like.st_gid
        && system::fchown(file, None, Some(Gid::from_raw(like.st_gid))).is_err()
    {
        mode = (mode & 0o707) | ((mode & 0o007) << 3);
    }
    match system::fchmod(file, Mode::from_raw_mode(mode)) {
        // The file is our own, so this is a file system that keeps no permissions.
        Ok(()) | Err(Errno::PERM | Errno::OPNOTSUPP) => {}
        Err(errno) => return Err(errno),
    }
    if own.st_uid != like.st_uid {
        // Refused to everybody but root.
        let _ = system::fchown(file, Some(Uid::from_raw(like.st_uid)), None);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::path::PathBuf;

    use super::super::caller::caller;
    use super::*;

    fn place() -> (tempfile::TempDir, PathBuf, Place) {
        let scratch = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(scratch.path()).unwrap();
        let place = Place::open(&root.join("file")).unwrap();
        (scratch, root, place)
    }

    fn only_entry(root: &Path) -> PathBuf {
        let mut entries = fs::read_dir(root).unwrap();
        let path = entries.next().unwrap().unwrap().path();
        assert!(entries.next().is_none());
        path
    }

    #[test]
    fn a_staged_text_is_private_and_goes_when_it_is_not_published() {
        // given a file that everybody may read
        let (_scratch, root, place) = place();
        fs::write(root.join("like"), "x").unwrap();
        let like = Place::open(&root.join("like"))
            .unwrap()
            .stat()
            .unwrap()
            .unwrap();
        fs::remove_file(root.join("like")).unwrap();
        let (_presence, caller) = caller();

        // when a text is staged in its stead
        let folder = StagingFolder::make(&place).unwrap();
        let path = only_entry(&root);
        let file = folder.create(Mode::from_raw_mode(0o600)).unwrap();
        let before = file.metadata().unwrap().permissions().mode();
        fs::remove_file(path.join(CONTENT)).unwrap();
        let staged =
            Staged::write(folder, b"text", Some(&like), &caller, Path::new("/shown")).unwrap();

        // then the folder is the owner's alone, and so was the file until its text was whole
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o700);
        assert_eq!(before & 0o777, 0o600);
        assert_eq!(fs::read(path.join(CONTENT)).unwrap(), b"text");
        let stem = path.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(stem.starts_with(PREFIX) && !stem.contains("file"), "{stem}");

        // and nothing is left when it is given up
        drop(staged);
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
    }

    #[test]
    fn names_do_not_repeat() {
        let names: std::collections::HashSet<String> =
            (0..1000).map(|_| unpredictable_name()).collect();

        assert_eq!(names.len(), 1000);
    }

    #[test]
    fn what_exists_is_never_taken_for_a_staging_folder() {
        let (_scratch, root, place) = place();
        fs::create_dir(root.join("taken")).unwrap();
        fs::write(root.join("taken/content"), "theirs").unwrap();

        let refused = StagingFolder::make_named(&place, "taken".to_owned());

        assert_eq!(refused.unwrap_err(), Errno::EXIST);
        assert_eq!(fs::read(root.join("taken/content")).unwrap(), b"theirs");
    }

    #[test]
    fn a_folder_that_a_sweeper_took_is_not_used() {
        // given a folder that a sweeper has removed, and one that it is about to remove
        let (_scratch, root, place) = place();
        let removed = StagingFolder::make(&place).unwrap();
        fs::remove_dir(only_entry(&root)).unwrap();
        assert_eq!(removed.claim(), Err(Errno::EXIST));
        drop(removed);

        let folder = StagingFolder::make(&place).unwrap();
        let sweeper = File::open(only_entry(&root)).unwrap();
        let name = folder.name.clone();
        system::flock(&folder.folder, system::FlockOperation::Unlock).unwrap();
        sweeping::lock(sweeper.as_fd()).unwrap();

        assert_eq!(folder.claim(), Err(Errno::EXIST));
        assert!(root.join(name).exists());
    }

    #[test]
    fn a_file_in_the_staging_folder_is_never_written_over() {
        let (_scratch, root, place) = place();
        let folder = StagingFolder::make(&place).unwrap();
        fs::write(only_entry(&root).join(CONTENT), "theirs").unwrap();
        let (_presence, caller) = caller();

        let refused = Staged::write(folder, b"ours", None, &caller, Path::new("/shown"));

        assert_eq!(refused.unwrap_err().code(), "FS_IO_ERROR");
    }

    #[test]
    fn a_text_that_nobody_waits_for_is_not_staged() {
        let (_scratch, root, place) = place();
        let folder = StagingFolder::make(&place).unwrap();
        let (presence, caller) = caller();
        drop(presence);

        let refused = Staged::write(folder, b"text", None, &caller, Path::new("/shown"));

        assert_eq!(refused.unwrap_err().code(), "FS_ABORTED");
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
    }

    #[test]
    fn access_is_taken_over_as_far_as_the_system_allows() {
        // given a file of somebody else's where this process may make one, of its own otherwise
        let (_scratch, root, _) = place();
        let (like, file) = (root.join("like"), root.join("new"));
        fs::write(&like, "").unwrap();
        fs::set_permissions(&like, fs::Permissions::from_mode(0o4751)).unwrap();
        let _ = std::os::unix::fs::chown(&like, Some(12345), Some(12346));
        fs::set_permissions(&like, fs::Permissions::from_mode(0o751)).unwrap();
        let metadata = fs::metadata(&like).unwrap();
        let stat = Place::open(&like).unwrap().stat().unwrap().unwrap();

        take_over_access(&File::create(&file).unwrap(), &stat).unwrap();

        let taken = fs::metadata(&file).unwrap();
        assert_eq!(taken.mode() & 0o7777, 0o751);
        assert_eq!((taken.uid(), taken.gid()), (metadata.uid(), metadata.gid()));
    }
}
