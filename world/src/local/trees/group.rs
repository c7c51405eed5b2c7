//! The control group of one tree: how the child joins it, how its members are seen, and how its emptying is waited for.
//! Owns the group's folder, which is removed with the tree.

use std::fs::{File, OpenOptions};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::super::control_groups::{self, ControlGroups, GroupFolder};
use super::super::launch::ChildCommand;
use super::table::ProcessEntry;

/// How long the removal of a folder may take.
const REMOVAL: Duration = Duration::from_secs(1);

/// A group that belongs to one tree.
#[derive(Debug)]
pub(super) struct TreeGroup {
    folder: GroupFolder,
    is_removed: AtomicBool,
}

impl TreeGroup {
    /// Makes a group that the command joins in the child, before the program runs. Without one the start goes on; the
    /// log says why. Blocks.
    pub(super) fn make(groups: &ControlGroups, command: &mut ChildCommand) -> Option<Self> {
        let made = groups.make_tree().map(|folder| Self {
            folder,
            is_removed: AtomicBool::new(false),
        });
        let joined = made.and_then(|group| {
            let procs = group.folder.path().join("cgroup.procs");
            let procs = OpenOptions::new().write(true).open(procs)?;
            join_before_exec(command, procs);
            Ok(group)
        });
        joined
            .inspect_err(|error| {
                tracing::debug!(%error, "a tree is started without a control group");
            })
            .ok()
    }

    /// Whether the started child, which is not reaped, did join. Blocks.
    pub(super) fn has(&self, pid: u32) -> bool {
        control_groups::has_process(&self.folder, pid)
    }

    /// The group's folder.
    pub(super) fn folder(&self) -> &GroupFolder {
        &self.folder
    }

    /// The members, each with its identity. An id that was handed to a stranger while this looked is left out: it is not
    /// in the group when it is asked for again. Blocks.
    pub(super) fn members(&self) -> io::Result<Vec<ProcessEntry>> {
        let seen: Vec<ProcessEntry> = self
            .folder
            .processes()?
            .into_iter()
            .filter_map(ProcessEntry::read)
            .collect();
        if seen.is_empty() {
            return Ok(seen);
        }
        let held = self.folder.processes()?;
        let is_held = |entry: &ProcessEntry| held.contains(&entry.identity.pid);
        Ok(seen.into_iter().filter(is_held).collect())
    }

    /// Sends SIGKILL to all at once, where the kernel can. Where it cannot, its members are signalled singly by whoever
    /// looks at the tree.
    pub(super) fn kill(&self) {
        if let Err(error) = self.folder.kill() {
            tracing::debug!(%error, "a control group could not be killed at once");
        }
    }

    /// Removes the folder, whose processes are gone. Blocks.
    pub(super) fn remove(&self) {
        if self.is_removed.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.folder.remove(Instant::now() + REMOVAL) {
            let path = self.folder.path().display();
            tracing::warn!(%path, %error, "a control group could not be removed");
        }
    }

    /// The coming changes of whether anybody is in the group; `None` where they are not told.
    pub(super) fn changes(&self) -> Option<Changes> {
        Changes::of(&self.folder).ok()
    }
}

impl Drop for TreeGroup {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Has the child of a command put itself into a group. What cannot be put there runs all the same; whether it is there
/// is told afterwards by the process table.
#[expect(
    unsafe_code,
    reason = "what runs between fork and exec is bound by more than types"
)]
fn join_before_exec(command: &mut ChildCommand, procs: File) {
    let join = move || {
        // 0 stands for the process that writes.
        let _ = rustix::io::write(&procs, b"0");
        Ok(())
    };
    // SAFETY: the closure runs in the forked child, where only async-signal-safe calls are allowed. It makes one,
    // write(2), which POSIX names among them, on a descriptor that it owns and that is open until the exec; it allocates
    // nothing, takes no lock and cannot panic.
    unsafe {
        command.pre_exec(join);
    }
}

/// Tells when a group may have become empty or not empty.
#[cfg(target_os = "linux")]
pub(super) struct Changes(tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>);

#[cfg(target_os = "linux")]
impl Changes {
    fn of(folder: &GroupFolder) -> io::Result<Self> {
        let events = File::open(folder.path().join("cgroup.events"))?;
        let events = super::exit_watch::watched(events.into(), tokio::io::Interest::PRIORITY)?;
        let changes = Self(events);
        changes.arm()?;
        Ok(changes)
    }

    /// Waits for the next change after the last call. The caller looks whether it is the one that it waits for.
    ///
    /// Gives an error when changes are not told any more.
    pub(super) async fn next(&self) -> io::Result<()> {
        let mut ready = self.0.ready(tokio::io::Interest::PRIORITY).await?;
        ready.clear_ready();
        self.arm()
    }

    /// A change is told only after the state before it was read.
    fn arm(&self) -> io::Result<()> {
        rustix::io::pread(&self.0, &mut [0; 64], 0)?;
        Ok(())
    }
}

/// There are none here.
#[cfg(not(target_os = "linux"))]
pub(super) struct Changes(std::convert::Infallible);

#[cfg(not(target_os = "linux"))]
impl Changes {
    fn of(_: &GroupFolder) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Never called.
    pub(super) async fn next(&self) -> io::Result<()> {
        match self.0 {}
    }
}
