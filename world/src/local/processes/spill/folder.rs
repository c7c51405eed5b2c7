//! The private folder of the spill files of one provider.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, geteuid, test_kill_process};
use tokio_util::task::TaskTracker;

use super::SpillWriter;
use crate::local::trees::start_time;

/// How the name of every such folder begins.
const PREFIX: &str = "lspool-output-";

/// The private folder of one provider, made with its first file and removed with its last.
#[derive(Debug)]
pub(in crate::local) struct SpillFolder {
    parent: PathBuf,
    state: Mutex<State>,
    removals: TaskTracker,
}

#[derive(Debug, Default)]
struct State {
    /// The folder, while it has files.
    made: Option<PathBuf>,
    files: usize,
    has_swept: bool,
}

impl Default for SpillFolder {
    fn default() -> Self {
        Self::below(std::env::temp_dir())
    }
}

impl SpillFolder {
    /// A folder that will be made in `parent`.
    pub(super) fn below(parent: PathBuf) -> Self {
        Self {
            parent,
            state: Mutex::default(),
            removals: TaskTracker::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the folder exists, or existed once.
    #[cfg(test)]
    pub(super) fn has_been_made(&self) -> bool {
        self.state().has_swept
    }

    /// A new file in the folder, open for writing. Blocks.
    pub(super) fn create_file(self: &Arc<Self>, label: &str) -> io::Result<(File, SpillFile)> {
        let mut state = self.state();
        let name = format!("{label}-{:016x}.log", random()?);
        let open = |folder: &Path| {
            let path = folder.join(&name);
            let file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path)?;
            Ok((file, path))
        };
        let created: io::Result<_> = match &state.made {
            Some(folder) => open(folder),
            None => open(&self.make(&mut state)?),
        };
        let (file, path) = match created {
            // Something that tidies up temporary files has taken the folder away.
            Err(error) if error.kind() == io::ErrorKind::NotFound => open(&self.make(&mut state)?)?,
            created => created?,
        };
        state.files += 1;
        let folder = Arc::clone(self);
        Ok((file, SpillFile { path, folder }))
    }

    fn make(&self, state: &mut State) -> io::Result<PathBuf> {
        if !std::mem::replace(&mut state.has_swept, true) {
            sweep(&self.parent);
        }
        let folder = self.parent.join(Owner::this_process().folder_name()?);
        DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(state.made.insert(folder).clone())
    }

    /// Removes the file of a writer on the blocking pool, or here where there is no runtime any more.
    pub(super) fn remove_later(&self, writer: SpillWriter) {
        if tokio::runtime::Handle::try_current().is_ok() {
            self.removals.spawn_blocking(move || drop(writer));
        }
    }

    /// Waits until everything is removed whose owner has gone.
    pub(in crate::local) async fn settled(&self) {
        self.removals.close();
        self.removals.wait().await;
    }
}

/// A file in the folder; dropping this removes it, and with the last one the folder. Blocks.
#[derive(Debug)]
pub(super) struct SpillFile {
    path: PathBuf,
    folder: Arc<SpillFolder>,
}

impl SpillFile {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        report(&self.path, fs::remove_file(&self.path));
        let mut state = self.folder.state();
        state.files -= 1;
        if state.files == 0
            && let Some(folder) = state.made.take()
        {
            report(&folder, fs::remove_dir(&folder));
        }
    }
}

/// Logs a removal that failed. What is gone already is as it should be.
fn report(path: &Path, removed: io::Result<()>) {
    if let Err(error) = removed
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "what a spill left could not be removed");
    }
}

/// The process to which a folder belongs, as its name says it.
#[derive(Debug, PartialEq, Eq)]
struct Owner {
    /// The namespace in which the id counts; 0 where there are none.
    namespace: u64,
    pid: u32,
    /// Fences the id; 0 where it cannot be told.
    start: u64,
}

impl Owner {
    fn this_process() -> Self {
        let pid = std::process::id();
        Self {
            namespace: own_namespace(),
            pid,
            start: start_time(pid),
        }
    }

    /// A name that belongs to this owner and that nobody can foresee.
    fn folder_name(&self) -> io::Result<String> {
        let Self {
            namespace,
            pid,
            start,
        } = self;
        let random = random()?;
        Ok(format!("{PREFIX}{pid}-{start}-{namespace}-{random:016x}"))
    }

    fn of_folder(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(PREFIX)?.split('-');
        let owner = Self {
            pid: parts.next()?.parse().ok()?,
            start: parts.next()?.parse().ok()?,
            namespace: parts.next()?.parse().ok()?,
        };
        (parts.next()?.len() == 16 && parts.next().is_none()).then_some(owner)
    }

    /// Whether it is certain that this process runs no more. Nothing is certain of another namespace.
    fn is_gone(&self) -> bool {
        let exists = Pid::from_raw(self.pid.cast_signed())
            .is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH));
        let is_same = exists && start_time(self.pid) == self.start;
        self.namespace == own_namespace() && !is_same
    }
}

/// The number of this process's namespace of ids.
fn own_namespace() -> u64 {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let digits = link
        .to_str()
        .and_then(|text| text.strip_prefix("pid:[")?.strip_suffix(']'));
    digits
        .and_then(|digits| digits.parse().ok())
        .unwrap_or_default()
}

/// Removes the folders of this user whose owners were killed.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_left = name
            .to_str()
            .and_then(Owner::of_folder)
            .is_some_and(|owner| owner.is_gone());
        // Of a link this is the link itself: only a real folder is taken.
        let is_own_folder =
            |metadata: fs::Metadata| metadata.is_dir() && metadata.uid() == geteuid().as_raw();
        if is_left && entry.metadata().is_ok_and(is_own_folder) {
            report(&entry.path(), fs::remove_dir_all(entry.path()));
        }
    }
}

/// A number that nobody can foresee.
fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_new_folder_sweeps_what_a_killed_owner_left() {
        // given folders of a process that is gone, of this one, of another namespace, and things that only look like one
        let parent = tempfile::tempdir().unwrap();
        let mut ended = std::process::Command::new("/bin/true").spawn().unwrap();
        let pid = ended.id();
        let own = Owner::this_process();
        let gone = Owner {
            pid,
            start: start_time(pid),
            ..Owner::this_process()
        };
        let reused = Owner {
            start: own.start + 1,
            ..Owner::this_process()
        };
        let foreign = Owner {
            namespace: 1,
            ..Owner {
                pid,
                ..Owner::this_process()
            }
        };
        ended.wait().unwrap();
        let folder = |owner: &Owner| {
            let path = parent.path().join(owner.folder_name().unwrap());
            fs::create_dir(&path).unwrap();
            fs::write(path.join("stdout-1.log"), b"left").unwrap();
            path
        };
        let left = [folder(&gone), folder(&reused)];
        let kept = [
            folder(&own),
            folder(&foreign),
            parent.path().join(format!("{PREFIX}x")),
        ];
        fs::write(&kept[2], b"").unwrap();
        let link = parent.path().join(gone.folder_name().unwrap());
        std::os::unix::fs::symlink(&kept[0], &link).unwrap();

        // when a folder is made
        let spills = Arc::new(SpillFolder::below(parent.path().to_path_buf()));
        drop(spills.create_file("stdout-1").unwrap());

        // then what the killed one left is gone, and nothing else
        assert!(left.iter().all(|path| !path.exists()));
        assert!(kept.iter().all(|path| path.exists()));
        assert!(link.symlink_metadata().is_ok());
    }

    proptest! {
        #[test]
        fn a_name_says_its_owner(namespace: u64, pid: u32, start: u64) {
            let owner = Owner { namespace, pid, start };
            prop_assert_eq!(Owner::of_folder(&owner.folder_name().unwrap()), Some(owner));
        }

        #[test]
        fn any_other_name_has_none(name in "(lspool-output-)?[0-9a-f-]{0,30}") {
            if Owner::of_folder(&name).is_some() {
                let parts = name.strip_prefix(PREFIX).map(|rest| rest.split('-').count());
                prop_assert_eq!(parts, Some(4));
            }
        }
    }
}
