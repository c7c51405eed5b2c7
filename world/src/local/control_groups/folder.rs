//! One control group as a folder (the kernel's `cgroup-v2` document): who is in it and below it, whether anybody is,
//! SIGKILL for all of them, and its removal.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::trees::table::ProcessEntry;
use crate::TerminateError;

/// How deep groups below a group are followed. A tree that nests deeper is ended by the kernel all the same.
const MAX_DEPTH: usize = 32;

/// How long a look waits before the next.
const PAUSE: Duration = Duration::from_millis(2);

/// A control group of the unified hierarchy.
#[derive(Clone, Debug)]
pub(in crate::local) struct GroupFolder(PathBuf);

impl GroupFolder {
    /// The group of this folder.
    pub(in crate::local) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Its folder.
    pub(in crate::local) fn path(&self) -> &Path {
        &self.0
    }

    /// Whether any process is in it or below it; zombies do not count. `false` for a group that is gone.
    pub(in crate::local) fn is_populated(&self) -> io::Result<bool> {
        match fs::read(self.0.join("cgroup.events")) {
            Ok(events) => Ok(says_populated(&events)),
            Err(error) if is_gone(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The ids of the processes in it and below it.
    pub(in crate::local) fn processes(&self) -> io::Result<HashSet<u32>> {
        let mut found = HashSet::new();
        for folder in self.nested() {
            match fs::read_to_string(folder.join("cgroup.procs")) {
                Ok(ids) => found.extend(ids.lines().filter_map(|id| id.parse::<u32>().ok())),
                // One that was removed meanwhile, or one of threads, whose processes are told by the group above it.
                Err(error) if is_gone(&error) || folder != self.0 => {}
                Err(error) => return Err(error),
            }
        }
        // A process of another namespace stands there as 0.
        found.remove(&0);
        Ok(found)
    }

    /// The time on a processor that all processes ever used in it and below it.
    pub(in crate::local) fn cpu_time(&self) -> Option<Duration> {
        let statistics = fs::read_to_string(self.0.join("cpu.stat")).ok()?;
        let used = statistics
            .lines()
            .find_map(|line| line.strip_prefix("usage_usec "))?;
        Some(Duration::from_micros(used.trim().parse().ok()?))
    }

    /// Sends SIGKILL to all in it and below it at once, also to those who are just being started. An error means that
    /// the kernel does not have this (before Linux 5.14).
    pub(in crate::local) fn kill(&self) -> io::Result<()> {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .open(self.0.join("cgroup.kill"))?;
        file.write_all(b"1")
    }

    /// Kills all in it and below it until nobody is left, and removes it with all below it.
    ///
    /// Blocks for at most about `patience`. Gives `EXEC_SURVIVORS` or `EXEC_UNPROVED`.
    pub(in crate::local) fn end(&self, patience: Duration) -> Result<(), TerminateError> {
        let deadline = Instant::now() + patience;
        let unproved = |error: io::Error| TerminateError::Unproved {
            reason: format!("{}: {error}", self.0.display()),
        };
        while self.is_populated().map_err(unproved)? {
            if self.kill().is_err_and(|error| !is_gone(&error)) {
                self.kill_each().map_err(unproved)?;
            }
            if Instant::now() >= deadline {
                let mut pids: Vec<u32> = self.processes().map_err(unproved)?.into_iter().collect();
                pids.sort_unstable();
                return Err(if pids.is_empty() {
                    unproved(io::ErrorKind::TimedOut.into())
                } else {
                    TerminateError::Survivors { pids }
                });
            }
            std::thread::sleep(PAUSE);
        }
        self.remove(deadline).map_err(unproved)
    }

    /// Kills each process of a fresh look. Who was handed the id of one that ended is spared: it is not in the group at
    /// the second look.
    fn kill_each(&self) -> io::Result<()> {
        let seen: Vec<ProcessEntry> = self
            .processes()?
            .into_iter()
            .filter_map(ProcessEntry::read)
            .collect();
        let held = self.processes()?;
        for entry in seen {
            if held.contains(&entry.identity.pid) {
                entry.identity.kill();
            }
        }
        Ok(())
    }

    /// Removes it and all below it, which have no process. The kernel may hold one for a moment longer than its last
    /// process: that is waited for until `deadline`.
    pub(in crate::local) fn remove(&self, deadline: Instant) -> io::Result<()> {
        loop {
            let mut folders = self.nested();
            folders.reverse();
            let mut failure = None;
            for folder in folders {
                match fs::remove_dir(&folder) {
                    Err(error) if !is_gone(&error) => failure = Some(error),
                    Ok(()) | Err(_) => {}
                }
            }
            match failure {
                None => return Ok(()),
                Some(error) if Instant::now() >= deadline => return Err(error),
                Some(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// This folder and those below it, each before those below it.
    fn nested(&self) -> Vec<PathBuf> {
        let mut folders = vec![(self.0.clone(), 0)];
        let mut next = 0;
        while let Some((folder, depth)) = folders.get(next).cloned() {
            next += 1;
            if depth < MAX_DEPTH {
                let below = fs::read_dir(folder).into_iter().flatten().flatten();
                let is_folder =
                    |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
                let below = below.filter(is_folder);
                folders.extend(below.map(|entry| (entry.path(), depth + 1)));
            }
        }
        folders.into_iter().map(|(folder, _)| folder).collect()
    }
}

/// Whether the text of `cgroup.events` says that a process is there. One that cannot be understood says yes.
fn says_populated(events: &[u8]) -> bool {
    !events
        .split(|byte| *byte == b'\n')
        .any(|line| line == b"populated 0")
}

/// Whether an error says that a group was removed: before its file was opened, or after.
fn is_gone(error: &io::Error) -> bool {
    const NO_SUCH_DEVICE: i32 = nix::errno::Errno::ENODEV as i32;
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(NO_SUCH_DEVICE)
}
