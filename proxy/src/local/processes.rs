//! A look at this machine's processes, for the guardian's end and for the sweep of trees whose owners are gone.
//!
//! A process is known by its id *and* its start time, so an id that was used again is never mistaken for the first.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::{SysconfVar, sysconf};

/// One process at the moment of a snapshot.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Process {
    /// Its id.
    pub(crate) pid: i32,
    /// Its parent's id.
    pub(crate) parent: i32,
    /// When it started, in clock ticks since the machine's start.
    pub(crate) started: u64,
    /// It has ended and only waits to be reaped.
    pub(crate) ended: bool,
}

/// All processes that were there at one moment.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    processes: HashMap<i32, Process>,
}

impl Snapshot {
    /// Looks at every process now.
    #[expect(
        clippy::disallowed_methods,
        reason = "the process table is this machine's own whatever the world"
    )]
    pub(crate) fn take() -> Self {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let processes = entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter_map(|pid| Some((pid, read(pid)?)))
            .collect();
        Self { processes }
    }

    /// The living processes below one, not itself.
    pub(crate) fn below(&self, root: i32) -> Vec<Process> {
        self.living()
            .filter(|process| process.pid != root && self.is_below(process, root))
            .collect()
    }

    /// The living processes.
    pub(crate) fn living(&self) -> impl Iterator<Item = Process> {
        self.processes
            .values()
            .filter(|process| !process.ended)
            .copied()
    }

    fn is_below(&self, process: &Process, root: i32) -> bool {
        let mut parent = process.parent;
        // A snapshot is not taken at one instant, so a chain of parents could close on itself: its length is bounded.
        for _ in 0..self.processes.len() {
            if parent == root {
                return true;
            }
            match self.processes.get(&parent) {
                Some(next) => parent = next.parent,
                None => return false,
            }
        }
        false
    }
}

/// Looks at one process, `None` when there is none of that id.
#[expect(
    clippy::disallowed_methods,
    reason = "the process table is this machine's own whatever the world"
)]
pub(crate) fn read(pid: i32) -> Option<Process> {
    parse_stat(pid, &std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Whether the process of this id is the one that started then, and has not ended.
pub(crate) fn is_alive(pid: i32, started: u64) -> bool {
    read(pid).is_some_and(|process| process.started == started && !process.ended)
}

/// The short name of a process, for people.
#[expect(
    clippy::disallowed_methods,
    reason = "the process table is this machine's own whatever the world"
)]
pub(crate) fn name(pid: i32) -> Option<String> {
    let name = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned())
}

/// The value of one variable that a process of this user was started with.
#[expect(
    clippy::disallowed_methods,
    reason = "the process table is this machine's own whatever the world"
)]
pub(crate) fn variable(pid: i32, name: &str, user: u32) -> Option<String> {
    let path = PathBuf::from(format!("/proc/{pid}"));
    if std::fs::metadata(&path).ok()?.uid() != user {
        return None;
    }
    let environment = std::fs::read(path.join("environ")).ok()?;
    environment.split(|byte| *byte == 0).find_map(|pair| {
        let value = pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        String::from_utf8(value.to_vec()).ok()
    })
}

/// The resident memory of one process in bytes; 0 when it is gone.
#[expect(
    clippy::disallowed_methods,
    reason = "the process table is this machine's own whatever the world"
)]
pub(crate) fn resident_bytes(pid: i32) -> u64 {
    let pages = std::fs::read_to_string(format!("/proc/{pid}/statm"))
        .ok()
        .and_then(|line| line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok())
        .unwrap_or(0);
    let page = sysconf(SysconfVar::PAGE_SIZE)
        .ok()
        .flatten()
        .unwrap_or(4096);
    pages * page.unsigned_abs()
}

/// What tells this process's pid namespace from others.
pub(crate) fn pid_namespace() -> Option<String> {
    let link = nix::fcntl::readlink(Path::new("/proc/self/ns/pid")).ok()?;
    let digits = OsStr::as_bytes(&link)
        .iter()
        .filter(|byte| byte.is_ascii_digit())
        .map(|byte| char::from(*byte))
        .collect();
    Some(digits)
}

/// Reads the fields that matter from a `stat` line. The name in it may hold any byte, blanks and brackets included, so
/// the fields are counted from its last closing bracket.
fn parse_stat(pid: i32, line: &[u8]) -> Option<Process> {
    let end = line.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(&line[end + 1..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    // State is field 3 of the line and the parent field 4; the start time is field 22.
    let started = fields.nth(17)?.parse().ok()?;
    Some(Process {
        pid,
        parent,
        started,
        ended: matches!(state, "Z" | "X" | "x"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TAIL: &str = "S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 1000 1";

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_move_the_fields() {
        let process = parse_stat(9, format!("9 (a) S 5 (b) c) {TAIL}").as_bytes()).unwrap();
        assert_eq!(
            process,
            Process {
                pid: 9,
                parent: 1,
                started: 4711,
                ended: false
            }
        );
    }

    #[test]
    fn this_process_is_seen_alive_and_below_its_parent() {
        let own = read(std::process::id().cast_signed()).unwrap();
        assert!(is_alive(own.pid, own.started));
        assert!(!is_alive(own.pid, own.started + 1));
        assert!(Snapshot::take().below(own.parent).contains(&own));
    }

    #[test]
    fn a_closed_chain_of_parents_ends() {
        let process = |pid, parent| Process {
            pid,
            parent,
            started: 0,
            ended: false,
        };
        let snapshot = Snapshot {
            processes: [(2, process(2, 3)), (3, process(3, 2))].into(),
        };
        assert_eq!(snapshot.below(1), []);
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_refused(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_stat(1, &line);
        }

        #[test]
        fn any_name_is_passed_over(name in proptest::collection::vec(1_u8..=255, 0..40)) {
            let line = [b"1 (", &name[..], b") ", TAIL.as_bytes()].concat();
            prop_assert_eq!(parse_stat(1, &line).map(|process| process.started), Some(4711));
        }
    }
}
