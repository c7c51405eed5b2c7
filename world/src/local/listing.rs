//! Listing folders. Owns the rule that one entry that cannot be inspected does not fail the others.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{self as system, AtFlags, Dir};
use rustix::io::Errno;

use super::inspection::describe;
use super::opening::{Place, failure};
use super::resolution;
use crate::{DirEntry, FileKind, FsError, Target, TargetKey};

/// The entries of `resolved`, by byte order of their names. Targets derive from the folder's identity; their display
/// paths from the path under which it was asked for.
pub(super) fn list(resolved: &Path, display: &Path) -> Result<Vec<DirEntry>, FsError> {
    let refuse = |errno| failure(display, errno);
    let place = Place::open(resolved).map_err(refuse)?;
    let folder = place.open_listed().map_err(|errno| match errno {
        Errno::NOTDIR => FsError::NotDirectory {
            path: display.to_path_buf(),
        },
        other => refuse(other),
    })?;
    let mut names = names(&folder).map_err(refuse)?;
    names.sort();
    let listed = Listed {
        folder,
        resolved,
        display,
    };
    Ok(names.into_iter().map(|name| listed.entry(name)).collect())
}

/// The names in a folder, which need not be one that can be entered.
fn names(folder: &OwnedFd) -> Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    // Another descriptor of the same opening, since the reader closes its own.
    for entry in Dir::new(rustix::io::fcntl_dupfd_cloexec(folder, 0)?)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            names.push(name.to_os_string());
        }
    }
    Ok(names)
}

/// An open folder and its two paths.
struct Listed<'a> {
    folder: OwnedFd,
    resolved: &'a Path,
    display: &'a Path,
}

impl Listed<'_> {
    fn entry(&self, name: OsString) -> DirEntry {
        let display = self.display.join(&name);
        let found = system::statat(&self.folder, &name, AtFlags::SYMLINK_NOFOLLOW);
        let metadata = match found {
            Ok(stat) => describe(&stat),
            Err(errno) => {
                return DirEntry {
                    name,
                    kind: FileKind::Other,
                    size: None,
                    version: None,
                    target: None,
                    error: Some(FsError::from_io(&display, errno.into())),
                };
            }
        };
        let path = self.resolved.join(&name);
        let key = if metadata.kind == FileKind::Symlink {
            resolution::resolve(&path, Path::new("/")).map(|target| target.key().clone())
        } else {
            Ok(TargetKey::from_resolved(path))
        };
        let (target, error) = match key {
            Ok(key) => (Some(Target::new(key, display)), None),
            Err(error) => (None, Some(error)),
        };
        DirEntry {
            name,
            kind: metadata.kind,
            size: metadata.size,
            version: Some(metadata.version),
            target,
            error,
        }
    }
}
