//! From a path to a target. Owns the invariant that a key is the same before and after the file is created and through
//! every alias: links are followed component by component, dangling ones too, so that nothing depends on what exists at
//! the end of the path. A path that cannot be followed right is refused; it never becomes another path.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use crate::{FsError, Target, TargetKey};

/// As many links as the kernel follows in one path.
const MAX_LINKS: usize = 40;

/// Resolves `path` against the absolute `cwd`.
pub(super) fn resolve(path: &Path, cwd: &Path) -> Result<Target, FsError> {
    let spelled = absolute(path, cwd)?;
    let resolved = follow(&spelled)?;
    if asks_for_folder(&spelled)
        && resolved
            .symlink_metadata()
            .is_ok_and(|metadata| !metadata.is_dir())
    {
        return Err(FsError::NotFound {
            path: spelled,
            reason: "it ends like a folder, but is none",
        });
    }
    let display = display(&spelled, &resolved);
    Ok(Target::new(TargetKey::from_resolved(resolved), display))
}

/// Whether `folder` is `resolved` or one of the folders above it, judged by device and inode: one folder can have several
/// paths without a link in them. Errors name `display`.
pub(super) fn is_below(folder: &Path, resolved: &Path, display: &Path) -> Result<bool, FsError> {
    let Some(folder) = identity(folder, display)? else {
        return Ok(false);
    };
    for ancestor in resolved.ancestors() {
        if identity(ancestor, display)? == Some(folder) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The device and inode of what stands at a path; `None` where nothing does.
fn identity(path: &Path, display: &Path) -> Result<Option<(u64, u64)>, FsError> {
    match path.symlink_metadata() {
        Ok(metadata) => Ok(Some((metadata.dev(), metadata.ino()))),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(FsError::from_io(display, error)),
    }
}

/// The absolute spelling of `path`, otherwise unchanged.
pub(super) fn absolute(path: &Path, cwd: &Path) -> Result<PathBuf, FsError> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(FsError::NotFound {
            path: path.to_path_buf(),
            reason: "the path is blank",
        });
    }
    let refuse = |reason| FsError::Unnameable {
        name: path.to_string_lossy().into_owned(),
        reason,
    };
    if bytes.contains(&0) || cwd.as_os_str().as_bytes().contains(&0) {
        return Err(refuse("it contains a NUL byte"));
    }
    if path.is_relative() && cwd.is_relative() {
        return Err(refuse(
            "it is relative, and so is the folder that it is relative to",
        ));
    }
    Ok(cwd.join(path))
}

/// The absolute path without links to which `spelled` leads, whether or not it exists.
fn follow(spelled: &Path) -> Result<PathBuf, FsError> {
    let mut walk = Walk {
        resolved: PathBuf::from("/"),
        existing_depth: None,
        links: 0,
    };
    let mut pending: VecDeque<OsString> = steps(spelled).collect();
    while let Some(step) = pending.pop_front() {
        if let Some(target) = walk.take(&step, spelled)? {
            if target.is_absolute() {
                walk.resolved = PathBuf::from("/");
            }
            for step in steps(&target).collect::<Vec<_>>().into_iter().rev() {
                pending.push_front(step);
            }
        }
    }
    Ok(walk.resolved)
}

/// Whether a spelling names a folder alone: `x/` and `x/.` are not the file `x`.
fn asks_for_folder(spelled: &Path) -> bool {
    let bytes = spelled.as_os_str().as_bytes();
    bytes.ends_with(b"/") || bytes.ends_with(b"/.")
}

/// The components that lead somewhere: names and `..`.
fn steps(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_os_string()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

/// A walk along a path: where it is, and from which depth on nothing exists.
struct Walk {
    resolved: PathBuf,
    existing_depth: Option<usize>,
    links: usize,
}

impl Walk {
    /// Takes one step; gives the text of a link that must be followed instead.
    fn take(&mut self, step: &OsString, spelled: &Path) -> Result<Option<PathBuf>, FsError> {
        if step == ".." {
            self.require_directory(spelled)?;
            self.resolved.pop();
            if self
                .existing_depth
                .is_some_and(|depth| depth >= self.depth())
            {
                self.existing_depth = None;
            }
            return Ok(None);
        }
        let candidate = self.resolved.join(step);
        if self.existing_depth.is_some() {
            self.resolved = candidate;
            return Ok(None);
        }
        match candidate.symlink_metadata() {
            Ok(metadata) if metadata.is_symlink() => {
                self.links += 1;
                if self.links > MAX_LINKS {
                    let source = io::Error::from(nix::errno::Errno::ELOOP);
                    return Err(FsError::Io {
                        path: spelled.to_path_buf(),
                        source,
                    });
                }
                let target = candidate
                    .read_link()
                    .map_err(|error| FsError::from_io(spelled, error))?;
                return Ok(Some(target));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.existing_depth = Some(self.depth());
            }
            Err(error) => return Err(FsError::from_io(spelled, error)),
        }
        self.resolved = candidate;
        Ok(None)
    }

    /// `..` leads out of folders alone, as the kernel has it; of what does not exist it is taken by name.
    fn require_directory(&self, spelled: &Path) -> Result<(), FsError> {
        if self.existing_depth.is_some() {
            return Ok(());
        }
        let metadata = self
            .resolved
            .symlink_metadata()
            .map_err(|error| FsError::from_io(spelled, error))?;
        if metadata.is_dir() {
            return Ok(());
        }
        Err(FsError::NotFound {
            path: spelled.to_path_buf(),
            reason: "a parent is not a folder",
        })
    }

    fn depth(&self) -> usize {
        self.resolved.components().count()
    }
}

/// The path for people: as spelled, without `.`. Where dropping `..` by name would name another file, the resolved path.
fn display(spelled: &Path, resolved: &Path) -> PathBuf {
    let mut plain = PathBuf::from("/");
    let mut had_parent = false;
    for step in steps(spelled) {
        if step == ".." {
            had_parent = true;
            plain.pop();
        } else {
            plain.push(step);
        }
    }
    // What stands at the other path, if anything can, is of no concern.
    if had_parent && follow(&plain).map_or(true, |other| other != resolved) {
        return resolved.to_path_buf();
    }
    plain
}
