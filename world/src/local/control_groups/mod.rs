//! Control groups (version 2, cgroups(7)) that hold process trees together. Owns one folder below the group of this
//! process, in which each tree has a folder of its own: whatever a process of a tree does with its group, its session, its
//! parents and its environment, it and all that it starts stay there, so all of them can be seen and ended.
//!
//! The limit: a process that may write to the hierarchy, as root may, can move itself to a group outside.

mod folder;
mod hierarchy;

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(in crate::local) use self::folder::GroupFolder;
use crate::TerminateError;

/// What every name of a folder begins with.
const PREFIX: &str = "lspool-";

/// The longest name.
const MAX_NAME: usize = 128;

/// How many names of a tree's folder are tried. One is taken only where a process of the same id left it.
const NAME_TRIES: usize = 1_000;

/// A folder of control groups, by the name of its owner.
///
/// Dropping it ends nothing and leaves the folder: whoever outlives the owner calls [`ControlGroups::end`].
#[derive(Debug)]
pub struct ControlGroups {
    folder: GroupFolder,
    name: String,
    next: AtomicU64,
}

impl ControlGroups {
    /// Makes or opens the folder `lspool-NAME` below this process's own group. The name has 1 to 128 letters, digits,
    /// `-`, `_` and `.`. Blocks.
    ///
    /// `None` where no process can be put into such a folder: there is no unified hierarchy, or this user may not change
    /// its own part of it. The log says why.
    pub fn make(name: &str) -> Option<Self> {
        match Self::try_make(name) {
            Ok(groups) => Some(groups),
            Err(error) => {
                tracing::debug!(name, %error, "trees are held together without control groups");
                None
            }
        }
    }

    fn try_make(name: &str) -> io::Result<Self> {
        if !is_name(name) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no such name"));
        }
        let own = own_folder()?;
        // Moving a process from one group to another needs the right to write to the group above both.
        writable(&own.join("cgroup.procs"))?;
        let folder = own.join(format!("{PREFIX}{name}"));
        let is_new = match fs::create_dir(&folder) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(error),
        };
        let usable = check(&folder);
        if usable.is_err() && is_new {
            let _ = fs::remove_dir(&folder);
        }
        usable.map(|()| Self::of(folder, name))
    }

    fn of(folder: PathBuf, name: &str) -> Self {
        Self {
            folder: GroupFolder::new(folder),
            name: name.to_owned(),
            next: AtomicU64::new(0),
        }
    }

    /// Those that were made below this process's own group, this process's own too, in no order. A name tells its owner:
    /// the groups of an owner that has died are there to be ended. Blocks.
    ///
    /// What an owner made in another group (a session of another log-in) is not seen.
    pub fn siblings() -> Vec<Self> {
        let Ok(own) = own_folder() else {
            return Vec::new();
        };
        let entries = fs::read_dir(own).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| {
                let file_name = entry.file_name();
                let name = file_name.to_str()?.strip_prefix(PREFIX)?;
                is_name(name).then(|| Self::of(entry.path(), name))
            })
            .collect()
    }

    /// The name of the owner.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Whether any process is in one of its groups. Blocks.
    ///
    /// Gives an error when the system refuses to tell.
    pub fn is_populated(&self) -> io::Result<bool> {
        self.folder.is_populated()
    }

    /// Kills all processes in its groups until nobody is left, and removes the folder. Blocks for at most about
    /// `patience`; can be repeated, also after the folder is gone.
    ///
    /// Gives `EXEC_SURVIVORS`, or `EXEC_UNPROVED` when the system refuses to tell or to remove.
    pub fn end(&self, patience: Duration) -> Result<(), TerminateError> {
        self.folder.end(patience)
    }

    /// Makes a group for one tree. Blocks.
    pub(in crate::local) fn make_tree(&self) -> io::Result<GroupFolder> {
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..NAME_TRIES {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let name = format!("{}-{number}", std::process::id());
            let folder = self.path().join(name);
            match fs::create_dir(&folder) {
                Ok(()) => return Ok(GroupFolder::new(folder)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }
}

/// Whether a process, which is not reaped yet, is in this group or below it. Blocks.
pub(in crate::local) fn has_process(folder: &GroupFolder, pid: u32) -> bool {
    let Some(path) = fs::read(format!("/proc/{pid}/cgroup"))
        .ok()
        .and_then(|groups| hierarchy::own_path(&groups))
    else {
        return false;
    };
    // The file system and the process table may show the hierarchy from different roots; the last two parts of a
    // tree's folder are nobody else's.
    let parts = |path: &Path| path.iter().map(ToOwned::to_owned).collect::<Vec<_>>();
    let (path, folder) = (parts(&path), parts(folder.path()));
    let own = &folder[folder.len().saturating_sub(2)..];
    path.windows(own.len()).any(|window| window == own)
}

fn own_folder() -> io::Result<PathBuf> {
    let missing = "no unified hierarchy is mounted that has this process";
    hierarchy::own_folder().ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, missing))
}

/// Whether processes can be put into a group and seen there.
fn check(folder: &Path) -> io::Result<()> {
    writable(&folder.join("cgroup.procs"))?;
    GroupFolder::new(folder.to_path_buf()).is_populated()?;
    let kind = fs::read_to_string(folder.join("cgroup.type")).unwrap_or_default();
    match kind.trim() {
        "domain" | "domain threaded" | "" => Ok(()),
        _ => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the own group is one of threads",
        )),
    }
}

fn writable(file: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).open(file).map(drop)
}

/// Whether a name can be that of an owner: it is a part of a path, and needs no escape anywhere.
fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_plain)
}
