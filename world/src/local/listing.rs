//! Listing folders. Owns the rule that one entry that cannot be inspected does not fail the others.

use std::fs;
use std::path::Path;

use super::{reading, resolution};
use crate::{DirEntry, FileKind, FsError, Target};

/// The entries of `resolved`, by byte order of their names. Targets derive from the folder's identity; their display
/// paths from the path under which it was asked for.
pub(super) fn list(resolved: &Path, display: &Path) -> Result<Vec<DirEntry>, FsError> {
    let refuse = |error| FsError::from_io(display, error);
    if !fs::metadata(resolved).map_err(refuse)?.is_dir() {
        return Err(FsError::NotDirectory {
            path: display.to_path_buf(),
        });
    }
    let mut entries = Vec::new();
    for entry in fs::read_dir(resolved).map_err(refuse)? {
        entries.push(inspect(&entry.map_err(refuse)?, display));
    }
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}

fn inspect(entry: &fs::DirEntry, parent_display: &Path) -> DirEntry {
    let name = entry.file_name();
    let display = parent_display.join(&name);
    let path = entry.path();
    let metadata = match fs::symlink_metadata(&path) {
        Ok(metadata) => reading::describe(&metadata),
        Err(error) => {
            let error = Some(FsError::from_io(&display, error));
            return DirEntry {
                name,
                kind: FileKind::Other,
                size: None,
                version: None,
                target: None,
                error,
            };
        }
    };
    let (target, error) = match resolution::resolve(&path, Path::new("/")) {
        Ok(target) => (Some(Target::new(target.key().clone(), display)), None),
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
