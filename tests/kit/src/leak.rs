//! Owns the leak oracle: the proof that a test left nothing behind.
//!
//! Invariant: a process counts by the mark in its environment, whatever its parent, group or session is.

use std::fmt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Something that a test left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leak {
    /// A process with the mark in its environment.
    Process {
        /// Its process id.
        pid: i32,
        /// Its command line.
        command: String,
    },
    /// A socket in the runtime folder.
    Socket(PathBuf),
    /// A file or folder in the private temporary folder.
    Temporary(PathBuf),
}

impl fmt::Display for Leak {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { pid, command } => write!(formatter, "process {pid}: {command}"),
            Self::Socket(path) => write!(formatter, "socket {}", path.display()),
            Self::Temporary(path) => write!(formatter, "temporary {}", path.display()),
        }
    }
}

/// Looks for what a test left behind.
#[derive(Clone, Debug)]
pub struct LeakOracle {
    mark: String,
    runtime_folder: PathBuf,
    temporary_folder: PathBuf,
}

impl LeakOracle {
    /// An oracle for processes whose environment holds `mark` (as `NAME=value`), for sockets anywhere in
    /// `runtime_folder` and for anything in `temporary_folder`.
    pub fn new(mark: &str, runtime_folder: &Path, temporary_folder: &Path) -> Self {
        Self {
            mark: mark.to_owned(),
            runtime_folder: runtime_folder.to_owned(),
            temporary_folder: temporary_folder.to_owned(),
        }
    }

    /// The process ids of all live processes with the mark.
    pub fn processes(&self) -> Vec<i32> {
        let mut pids: Vec<i32> = folder_entries(Path::new("/proc"))
            .into_iter()
            .filter_map(|path| path.file_name()?.to_str()?.parse().ok())
            .filter(|&pid| self.is_marked(pid))
            .collect();
        pids.sort_unstable();
        pids
    }

    /// What is left at this moment.
    pub fn look(&self) -> Vec<Leak> {
        let processes = self.processes().into_iter().map(|pid| Leak::Process {
            pid,
            command: command_of(pid),
        });
        let mut sockets = Vec::new();
        find_sockets(&self.runtime_folder, &mut sockets);
        let temporary = folder_entries(&self.temporary_folder)
            .into_iter()
            .map(Leak::Temporary);
        processes
            .chain(sockets.into_iter().map(Leak::Socket))
            .chain(temporary)
            .collect()
    }

    /// Looks until nothing is left, but for no longer than `limit`; returns what is left then.
    pub fn wait(&self, limit: Duration) -> Vec<Leak> {
        let end = Instant::now() + limit;
        loop {
            let leaks = self.look();
            if leaks.is_empty() || Instant::now() >= end {
                return leaks;
            }
            std::thread::park_timeout(POLL_INTERVAL);
        }
    }

    /// Kills every process with the mark, so that a failed test does not disturb the next.
    pub fn kill_all(&self) {
        for pid in self.processes() {
            // It may have ended by itself meanwhile.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }

    fn is_marked(&self, pid: i32) -> bool {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|&byte| byte == 0)
            .any(|variable| variable == self.mark.as_bytes())
    }
}

fn command_of(pid: i32) -> String {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words)
        .replace('\0', " ")
        .trim_end()
        .to_owned()
}

/// The entries of a folder; none when it cannot be read, as when it was never made.
fn folder_entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    paths.sort();
    paths
}

fn find_sockets(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in folder_entries(folder) {
        let Ok(metadata) = path.symlink_metadata() else {
            continue;
        };
        if metadata.file_type().is_socket() {
            found.push(path);
        } else if metadata.is_dir() {
            find_sockets(&path, found);
        }
    }
}
