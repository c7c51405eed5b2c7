//! The one step in which a staged text becomes the file. Owns the rule that a new file never replaces anything, and that
//! a version which was asked for is looked at again right before.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{self as system, AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::caller::Caller;
use super::staging::{CONTENT, Staged, StagingFolder};
use crate::local::inspection::{kind, version};
use crate::local::opening::{Place, failure, require_regular};
use crate::{FileKind, FileVersion, FsError};

/// Over what a text may be put.
#[derive(Clone, Copy, Debug)]
pub(super) enum Publication<'v> {
    /// Over nothing.
    IfAbsent,
    /// Over nothing and over any regular file.
    OverAny,
    /// Over a file of this version.
    OverVersion(&'v FileVersion),
}

/// Puts a staged text in its place and removes what it was staged in; gives the version that it has then.
///
/// `synced` are folders that are synced afterwards. An error in that is given, though the text is in its place: it says
/// that a loss of power may still take it away.
pub(super) fn publish(
    staged: Staged<'_>,
    place: &Place,
    publication: Publication<'_>,
    synced: &[OwnedFd],
    caller: &Caller,
    display: &Path,
) -> Result<FileVersion, FsError> {
    let Staged { folder, file } = staged;
    match publication {
        Publication::IfAbsent => {
            caller.commit(display)?;
            put_if_absent(&folder, place, display)?;
        }
        Publication::OverAny | Publication::OverVersion(_) => {
            require_unchanged(place, publication, display)?;
            caller.commit(display)?;
            system::renameat(folder.folder(), CONTENT, place.folder(), place.name())
                .map_err(|errno| failure(display, errno))?;
        }
    }
    // Removing the other name of a linked file is a change of it too, so the version is taken afterwards.
    drop(folder);
    for folder in synced {
        system::fsync(folder).map_err(|errno| failure(display, errno))?;
    }
    published_version(&file, display)
}

/// The version is that of what was written, also if something else stands there by now.
fn published_version(file: &File, display: &Path) -> Result<FileVersion, FsError> {
    system::fstat(file)
        .map(|stat| version(&stat))
        .map_err(|errno| failure(display, errno))
}

fn require_unchanged(
    place: &Place,
    publication: Publication<'_>,
    display: &Path,
) -> Result<(), FsError> {
    let expected = match publication {
        Publication::OverVersion(version) => Some(version),
        Publication::IfAbsent | Publication::OverAny => None,
    };
    let found = place.stat().map_err(|errno| failure(display, errno))?;
    if let Some(stat) = &found {
        require_regular(stat, display)?;
    }
    if expected.is_some() && found.map(|stat| version(&stat)).as_ref() != expected {
        return Err(FsError::StaleVersion {
            path: display.to_path_buf(),
        });
    }
    Ok(())
}

/// Puts the text where nothing is, by a link, which never replaces anything; where there are none, by a rename that does
/// not.
fn put_if_absent(folder: &StagingFolder<'_>, place: &Place, display: &Path) -> Result<(), FsError> {
    let linked = match link(folder, place) {
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK) => {
            rename_if_absent(folder, place)
        }
        linked => linked,
    };
    linked.map_err(|errno| collision(place, errno, display))
}

fn link(folder: &StagingFolder<'_>, place: &Place) -> Result<(), Errno> {
    let flags = AtFlags::empty();
    system::linkat(
        folder.folder(),
        CONTENT,
        place.folder(),
        place.name(),
        flags,
    )
}

#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn rename_if_absent(folder: &StagingFolder<'_>, place: &Place) -> Result<(), Errno> {
    let flags = system::RenameFlags::NOREPLACE;
    system::renameat_with(
        folder.folder(),
        CONTENT,
        place.folder(),
        place.name(),
        flags,
    )
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn rename_if_absent(_: &StagingFolder<'_>, _: &Place) -> Result<(), Errno> {
    Err(Errno::NOSYS)
}

/// The error for a text that could not be put where nothing was. What is there decides: the systems differ in what they
/// say of it.
fn collision(place: &Place, errno: Errno, display: &Path) -> FsError {
    let path = display.to_path_buf();
    match place.stat() {
        Ok(Some(stat)) if kind(&stat) == FileKind::File => FsError::NotObserved { path },
        Ok(Some(_)) => FsError::NotRegularFile { path },
        Ok(None) if errno == Errno::EXIST => FsError::NotObserved { path },
        Ok(None) => failure(display, errno),
        Err(errno) => failure(display, errno),
    }
}

/// The folder, open in the way in which it can be synced.
pub(super) fn syncable(folder: impl AsFd) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    system::openat(folder, ".", flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::super::caller::caller;
    use super::*;

    /// A scratch folder and the place `file` in it.
    fn scratch() -> (tempfile::TempDir, PathBuf, Place) {
        let scratch = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(scratch.path()).unwrap();
        let place = Place::open(&root.join("file")).unwrap();
        (scratch, root, place)
    }

    fn stage(place: &Place) -> Staged<'_> {
        let (_presence, caller) = caller();
        let folder = StagingFolder::make(place).unwrap();
        Staged::write(folder, b"ours", None, &caller, Path::new("/shown")).unwrap()
    }

    fn put(
        staged: Staged<'_>,
        place: &Place,
        publication: Publication<'_>,
    ) -> Result<FileVersion, FsError> {
        let (_presence, caller) = caller();
        publish(
            staged,
            place,
            publication,
            &[],
            &caller,
            Path::new("/shown"),
        )
    }

    fn names(root: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(root)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_competitor_that_came_after_the_check_decides_the_code_and_stays() {
        type Compete = fn(&Path);
        let competitors: [(Compete, &str); 4] = [
            (|path| fs::write(path, "theirs").unwrap(), "FS_NOT_OBSERVED"),
            (|path| fs::create_dir(path).unwrap(), "FS_NOT_REGULAR_FILE"),
            (
                |path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap(),
                "FS_NOT_REGULAR_FILE",
            ),
            (|path| symlink("nothing", path).unwrap(), "FS_IO_ERROR"),
        ];
        for (compete, code) in competitors {
            // given a staged text, and something that came to stand in its place meanwhile
            let (_scratch, root, place) = scratch();
            let staged = stage(&place);
            compete(&root.join("file"));
            let before = fs::symlink_metadata(root.join("file")).unwrap();

            // when it is published, then it is refused with the path that the caller knows
            let refused = put(staged, &place, Publication::IfAbsent).unwrap_err();
            assert_eq!(refused.code(), code);
            assert!(refused.to_string().contains("/shown"), "{refused}");

            // and what came stays, alone
            let after = fs::symlink_metadata(root.join("file")).unwrap();
            assert_eq!(after.file_type(), before.file_type());
            assert_eq!(after.modified().unwrap(), before.modified().unwrap());
            assert_eq!(names(&root), ["file"]);
        }
    }

    #[test]
    fn a_rename_replaces_nothing_either() {
        let (_scratch, root, place) = scratch();
        let staged = stage(&place);
        fs::write(root.join("file"), "theirs").unwrap();

        assert_eq!(rename_if_absent(&staged.folder, &place), Err(Errno::EXIST));
        fs::remove_file(root.join("file")).unwrap();
        rename_if_absent(&staged.folder, &place).unwrap();

        assert_eq!(fs::read(root.join("file")).unwrap(), b"ours");
    }

    #[test]
    fn a_file_that_changed_after_the_check_is_stale() {
        let (_scratch, root, place) = scratch();
        fs::write(root.join("file"), "before").unwrap();
        let expected = version(&place.stat().unwrap().unwrap());
        let staged = stage(&place);
        fs::write(root.join("file"), "theirs").unwrap();

        let refused = put(staged, &place, Publication::OverVersion(&expected)).unwrap_err();

        assert_eq!(refused.code(), "FS_STALE_VERSION");
        assert_eq!(fs::read(root.join("file")).unwrap(), b"theirs");
        assert_eq!(names(&root), ["file"]);
    }

    #[test]
    fn a_file_that_vanished_after_the_check_is_stale() {
        let (_scratch, root, place) = scratch();
        fs::write(root.join("file"), "before").unwrap();
        let expected = version(&place.stat().unwrap().unwrap());
        let staged = stage(&place);
        fs::remove_file(root.join("file")).unwrap();

        let refused = put(staged, &place, Publication::OverVersion(&expected)).unwrap_err();

        assert_eq!(refused.code(), "FS_STALE_VERSION");
        assert!(names(&root).is_empty());
    }

    #[test]
    fn what_is_no_file_by_now_is_not_replaced() {
        let (_scratch, root, place) = scratch();
        let staged = stage(&place);
        nix::unistd::mkfifo(&root.join("file"), nix::sys::stat::Mode::S_IRWXU).unwrap();

        let refused = put(staged, &place, Publication::OverAny).unwrap_err();

        assert_eq!(refused.code(), "FS_NOT_REGULAR_FILE");
        assert_eq!(names(&root), ["file"]);
    }

    #[test]
    fn what_vanished_after_a_collision_was_there() {
        let (_scratch, _, place) = scratch();

        let refused = collision(&place, Errno::EXIST, Path::new("/shown"));

        assert_eq!(refused.code(), "FS_NOT_OBSERVED");
    }

    #[test]
    fn a_failure_that_is_no_collision_keeps_its_own_code() {
        let (_scratch, _, place) = scratch();

        assert_eq!(
            collision(&place, Errno::NOSPC, Path::new("/x")).code(),
            "FS_IO_ERROR"
        );
        assert_eq!(
            collision(&place, Errno::ACCESS, Path::new("/x")).code(),
            "FS_PERMISSION_DENIED"
        );
    }

    #[test]
    fn a_place_that_cannot_be_looked_at_after_a_failure_is_an_error_of_its_own() {
        // given a place whose name no folder can have
        let (_scratch, root, _) = scratch();
        let place = Place::open(&root.join("n".repeat(256))).unwrap();
        let staged = stage(&place);

        let refused = put(staged, &place, Publication::IfAbsent).unwrap_err();

        assert_eq!(refused.code(), "FS_IO_ERROR");
        assert!(names(&root).is_empty());
    }

    #[test]
    fn a_staging_folder_that_cannot_be_removed_does_not_undo_the_write() {
        // given a staging folder in which somebody put something
        let (_scratch, root, place) = scratch();
        let staged = stage(&place);
        let staging = names(&root).remove(0);
        fs::write(root.join(&staging).join("strange"), "").unwrap();

        // when the text is published, then it is there
        let published = put(staged, &place, Publication::IfAbsent).unwrap();
        assert_eq!(version(&place.stat().unwrap().unwrap()), published);
        assert_eq!(fs::read(root.join("file")).unwrap(), b"ours");
        assert_eq!(names(&root), [staging, "file".to_owned()]);
    }

    #[test]
    fn a_caller_that_has_gone_is_noticed_right_before_the_step() {
        for publication in [Publication::IfAbsent, Publication::OverAny] {
            let (_scratch, root, place) = scratch();
            let staged = stage(&place);
            let (presence, caller) = caller();
            drop(presence);

            let refused = publish(
                staged,
                &place,
                publication,
                &[],
                &caller,
                Path::new("/shown"),
            );

            assert_eq!(refused.unwrap_err().code(), "FS_ABORTED");
            assert!(names(&root).is_empty());
        }
    }
}
