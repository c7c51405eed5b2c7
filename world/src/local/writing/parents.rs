//! The folders above a new file. Owns the rule that folders which were made for a file that did not come into being are
//! taken away again, and never with anything in them.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{self as system, AtFlags, Mode};
use rustix::io::Errno;

use crate::local::opening::{Place, open_child, open_folder};

/// Folders that were made, the highest first. Dropped, it removes those that are empty, from the lowest on.
#[derive(Debug, Default)]
pub(super) struct MadeFolders(Vec<(OwnedFd, OsString)>);

impl MadeFolders {
    /// Keeps the folders.
    pub(super) fn keep(mut self) {
        self.0.clear();
    }

    /// The folders in which each of them stands.
    pub(super) fn parents(&self) -> impl Iterator<Item = &OwnedFd> {
        self.0.iter().map(|(parent, _)| parent)
    }
}

impl Drop for MadeFolders {
    fn drop(&mut self) {
        for (parent, name) in self.0.drain(..).rev() {
            // Whatever else stands there by now keeps it.
            if system::unlinkat(&parent, &name, AtFlags::REMOVEDIR).is_err() {
                return;
            }
        }
    }
}

/// The place of a key, after the folders above it that are missing were made with what the file mode mask leaves of all
/// permissions.
///
/// Gives `ENOENT` where one of them goes away meanwhile, `ENOTDIR` for a file in their stead, `ELOOP` for a link.
pub(super) fn make(resolved: &Path) -> Result<(Place, MadeFolders), Errno> {
    let parent = resolved.parent().unwrap_or(Path::new("/"));
    let (existing, mut folder) = nearest(parent)?;
    let mut made = MadeFolders::default();
    let missing = parent.strip_prefix(existing).unwrap_or(Path::new(""));
    for component in missing.components() {
        let Component::Normal(name) = component else {
            continue;
        };
        // Before the folder is made: without a descriptor left it could not be taken away again.
        let above = rustix::io::fcntl_dupfd_cloexec(&folder, 0)?;
        match system::mkdirat(&folder, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => made.0.push((above, name.to_os_string())),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        folder = open_child(&folder, name)?;
    }
    let name = resolved.file_name().unwrap_or_default().to_os_string();
    Ok((Place::new(folder, name), made))
}

/// The nearest folder at or above `path` that exists, open.
fn nearest(path: &Path) -> Result<(&Path, OwnedFd), Errno> {
    for ancestor in path.ancestors() {
        match open_folder(ancestor) {
            Err(Errno::NOENT) => {}
            opened => return opened.map(|folder| (ancestor, folder)),
        }
    }
    Err(Errno::NOENT)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn folders_that_were_made_go_with_what_they_were_made_for() {
        let scratch = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(scratch.path()).unwrap();
        fs::create_dir(root.join("there")).unwrap();

        let (_, made) = make(&root.join("there/a/b/file")).unwrap();
        assert!(root.join("there/a/b").is_dir());
        drop(made);

        assert_eq!(fs::read_dir(root.join("there")).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_somebody_uses_by_now_stays_with_those_above_it() {
        let scratch = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(scratch.path()).unwrap();

        let (_, made) = make(&root.join("a/b/c/file")).unwrap();
        fs::write(root.join("a/b/other"), "kept").unwrap();
        drop(made);

        assert!(!root.join("a/b/c").exists());
        assert_eq!(fs::read(root.join("a/b/other")).unwrap(), b"kept");
    }

    #[test]
    fn a_file_in_the_stead_of_a_folder_is_told() {
        let scratch = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(scratch.path()).unwrap();
        fs::write(root.join("file"), "").unwrap();

        assert_eq!(make(&root.join("file/a/b")).unwrap_err(), Errno::NOTDIR);
    }
}
