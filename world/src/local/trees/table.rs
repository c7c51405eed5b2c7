//! The process table of this machine, read from `/proc` (proc(5)). Owns its parsing and the identity of a process: its id
//! together with its start time, which no later process of the same id shares.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

use rustix::process::Signal;

use super::signals;

/// A process that cannot be mistaken for a later one of the same id.
///
/// Start times count in clock ticks, of which there are mostly a hundred in a second: an id would have to be handed out
/// twice within one tick to be mistaken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessIdentity {
    /// The process id.
    pub pid: u32,
    /// The start time, in clock ticks since the machine started.
    pub start: u64,
}

impl ProcessIdentity {
    /// Whether this very process still runs. One that has ended and waits to be reaped does not, unless threads of it
    /// are left. Blocks.
    pub fn is_alive(self) -> bool {
        ProcessEntry::read(self.pid).is_some_and(|entry| entry.identity == self && entry.is_live)
    }

    /// Sends SIGKILL to this very process and to no later one of its id (`pidfd_send_signal(2)`). One that has ended, or
    /// that belongs to another user, is no failure: the next look at the table shows it again. Blocks.
    pub fn kill(self) {
        signals::signal_process(self, Signal::KILL);
    }
}

/// One process as the table shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessEntry {
    /// Who it is.
    pub identity: ProcessIdentity,
    /// The id of its parent; 0 for one whose parent is not in this pid namespace.
    pub parent: u32,
    /// The id of its process group.
    pub group: u32,
    /// The id of its session.
    pub session: u32,
    /// Whether it still runs: a zombie does not, unless threads of it are left.
    pub is_live: bool,
    /// The time on a processor in clock ticks: its own and that of the ended children that it waited for.
    pub cpu_ticks: u64,
}

impl ProcessEntry {
    /// The entry of one process; `None` when there is none of that id. Blocks.
    pub fn read(pid: u32) -> Option<Self> {
        parse(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?)
    }
}

/// All processes, as one reading found them. A process that ended while the table was read is left out.
#[derive(Debug, Default)]
pub struct ProcessTable {
    entries: Vec<ProcessEntry>,
    by_parent: HashMap<u32, Vec<usize>>,
    by_session: HashMap<u32, Vec<usize>>,
    environments: Vec<OnceLock<Option<Vec<u8>>>>,
    is_exhaustive: bool,
}

impl ProcessTable {
    /// Reads the table. Blocks.
    ///
    /// Gives an error where `/proc` does not show this process's own namespace: an empty folder there is no empty table.
    pub fn read() -> io::Result<Self> {
        if fs::read_link("/proc/self")? != Path::new(&std::process::id().to_string()) {
            let reason = "/proc shows another namespace of process ids";
            return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
        }
        let last_before = last_pid();
        let mut entries = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            if let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok())
                && let Some(entry) = ProcessEntry::read(pid)
            {
                entries.push(entry);
            }
        }
        let mut table = Self::of(entries);
        table.is_exhaustive = last_before.is_some() && last_before == last_pid();
        Ok(table)
    }

    /// The table that has these entries.
    pub(super) fn of(entries: Vec<ProcessEntry>) -> Self {
        let (mut by_parent, mut by_session) = (HashMap::new(), HashMap::new());
        for (index, entry) in entries.iter().enumerate() {
            let children: &mut Vec<usize> = by_parent.entry(entry.parent).or_default();
            children.push(index);
            let mates: &mut Vec<usize> = by_session.entry(entry.session).or_default();
            mates.push(index);
        }
        let environments = entries.iter().map(|_| OnceLock::new()).collect();
        Self {
            entries,
            by_parent,
            by_session,
            environments,
            is_exhaustive: false,
        }
    }

    /// All entries, in the order of the reading.
    pub fn entries(&self) -> &[ProcessEntry] {
        &self.entries
    }

    /// The processes that run.
    pub fn living(&self) -> impl Iterator<Item = &ProcessEntry> {
        self.entries.iter().filter(|entry| entry.is_live)
    }

    /// The running processes below one, not itself: its children, theirs, and so on. A parent is believed only when it
    /// is not younger than its child. An ended process that waits to be reaped still leads to its children.
    pub fn below(&self, root: u32) -> Vec<ProcessEntry> {
        let mut found = Vec::new();
        let mut is_seen = vec![false; self.entries.len()];
        let mut parents: Vec<(u32, u64)> = vec![(root, 0)];
        while let Some((pid, start)) = parents.pop() {
            for index in self.children(pid) {
                let entry = self.entries[*index];
                let is_root = entry.identity.pid == root;
                if !is_root && !is_seen[*index] && start <= entry.identity.start {
                    is_seen[*index] = true;
                    parents.push((entry.identity.pid, entry.identity.start));
                    found.push(entry);
                }
            }
        }
        found.retain(|entry| entry.is_live);
        found
    }

    /// Whether nothing was started while the table was read, so that a process that is not in it did not run at its end.
    pub(super) fn is_exhaustive(&self) -> bool {
        self.is_exhaustive
    }

    /// The places of the children of a process.
    pub(super) fn children(&self, parent: u32) -> &[usize] {
        self.by_parent.get(&parent).map_or(&[], Vec::as_slice)
    }

    /// The places of the processes of a session.
    pub(super) fn session(&self, session: u32) -> &[usize] {
        self.by_session.get(&session).map_or(&[], Vec::as_slice)
    }

    /// The environment of the process at this place, read once for all who ask. Blocks.
    pub(super) fn environment(&self, index: usize) -> Option<&[u8]> {
        let read = || environment(self.entries[index].identity.pid);
        self.environments[index].get_or_init(read).as_deref()
    }

    /// Says what the environment of the process at this place is.
    #[cfg(test)]
    pub(super) fn set_environment(&mut self, index: usize, environment: Option<&[u8]>) {
        self.environments[index] = OnceLock::from(environment.map(<[u8]>::to_vec));
    }
}

/// The start time of a process in clock ticks since the machine started; 0 where it cannot be told. Blocks.
pub(in crate::local) fn start_time(pid: u32) -> u64 {
    ProcessEntry::read(pid).map_or(0, |entry| entry.identity.start)
}

/// The value of the variable `name` with which a process of the own user was started; `None` where there is none, where
/// it cannot be read, and for a process of another user. Blocks.
pub fn environment_value(pid: u32, name: &str) -> Option<OsString> {
    let owner = fs::metadata(format!("/proc/{pid}")).ok()?.uid();
    if owner != rustix::process::geteuid().as_raw() {
        return None;
    }
    let environment = environment(pid)?;
    let mut entries = environment.split(|byte| *byte == 0);
    let value =
        entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    Some(OsString::from_vec(value.to_vec()))
}

/// The environment with which a process was started: `NAME=VALUE` entries, each ended by a NUL byte. `None` when it
/// cannot be read; empty while a process is between two programs.
fn environment(pid: u32) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/environ")).ok()
}

/// Whether a process ignores a signal; not known is no. Blocks.
pub(super) fn ignores(pid: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status"));
    status.is_ok_and(|status| is_ignored(&status, signal))
}

/// Parses `/proc/PID/status` for the mask of ignored signals, the first of which is the lowest bit
/// (`proc_pid_status(5)`).
fn is_ignored(status: &str, signal: Signal) -> bool {
    let mut lines = status.lines();
    let mask = lines
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal.as_raw() - 1) & 1 == 1)
}

/// The id that was handed out last in this pid namespace, to a process or to a thread; `None` where that is not told.
///
/// Ids are handed out in a circle that skips those in use. So while an id is in use and is the last one, nothing was
/// started after it; and while the last one does not change, nothing is started.
pub(super) fn last_pid() -> Option<u32> {
    let averages = fs::read_to_string("/proc/loadavg").ok()?;
    averages.split_ascii_whitespace().nth(4)?.parse().ok()
}

/// Parses `/proc/PID/stat`. The name of the program stands in parentheses and can hold any byte, parentheses and blanks
/// too, so the fields are counted from the last parenthesis.
fn parse(pid: u32, stat: &[u8]) -> Option<ProcessEntry> {
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let rest = std::str::from_utf8(&stat[after_name..]).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |index: usize| {
        fields
            .get(index)
            .and_then(|field| field.parse::<u64>().ok())
    };
    let id = |index: usize| {
        let number = fields
            .get(index)
            .and_then(|field| field.parse::<i64>().ok());
        number.map(|id| u32::try_from(id).unwrap_or(0))
    };
    let threads = number(17)?;
    let is_live = match *fields.first()? {
        "Z" => threads > 1,
        "X" | "x" => false,
        _ => true,
    };
    let identity = ProcessIdentity {
        pid,
        start: number(19)?,
    };
    // Waited-for children are counted with signs, and are negative nowhere.
    let cpu_ticks = (11..=14).filter_map(number).fold(0, u64::saturating_add);
    Some(ProcessEntry {
        identity,
        parent: id(1)?,
        group: id(2)?,
        session: id(3)?,
        is_live,
        cpu_ticks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FIELDS: &str = "S 10 20 30 0 -1 4194304 1 0 0 0 1 2 3 4 20 0 1 0 777 0";

    fn entry(pid: u32, start: u64, parent: u32) -> ProcessEntry {
        ProcessEntry {
            identity: ProcessIdentity { pid, start },
            parent,
            group: pid,
            session: pid,
            is_live: true,
            cpu_ticks: 0,
        }
    }

    #[test]
    fn a_name_with_parentheses_blanks_and_line_ends_is_skipped() {
        let entry = parse(5, format!("5 (a) R 1 1\n(b)) {FIELDS}").as_bytes()).unwrap();

        let identity = ProcessIdentity { pid: 5, start: 777 };
        assert_eq!(
            entry,
            ProcessEntry {
                identity,
                parent: 10,
                group: 20,
                session: 30,
                is_live: true,
                cpu_ticks: 10,
            }
        );
    }

    #[test]
    fn a_zombie_is_live_only_while_threads_are_left() {
        let stat = |state: &str, threads: u32| {
            let fields = FIELDS.replacen('S', state, 1).replacen(
                " 20 0 1 0 777",
                &format!(" 20 0 {threads} 0 777"),
                1,
            );
            parse(5, format!("5 (x) {fields}").as_bytes())
                .unwrap()
                .is_live
        };

        assert!(!stat("Z", 1));
        assert!(stat("Z", 2));
        assert!(!stat("X", 1));
        assert!(stat("T", 1));
    }

    #[test]
    fn this_process_is_in_the_table_with_its_own_identity() {
        let own = ProcessEntry::read(std::process::id()).unwrap();

        assert!(own.is_live && own.identity.is_alive());
        let later = ProcessIdentity {
            start: own.identity.start + 1,
            ..own.identity
        };
        assert!(!later.is_alive());
        let table = ProcessTable::read().unwrap();
        assert!(table.living().any(|entry| entry.identity == own.identity));
        let below = table.below(own.parent);
        assert!(below.iter().any(|entry| entry.identity == own.identity));
    }

    #[test]
    fn a_closed_chain_of_parents_ends() {
        let table = ProcessTable::of(vec![entry(2, 5, 3), entry(3, 5, 2)]);

        assert_eq!(table.below(1), []);
        assert_eq!(table.below(2), [entry(3, 5, 2)]);
    }

    #[test]
    fn below_a_process_are_its_descendants_also_those_of_an_ended_one() {
        let mut ended = entry(20, 2, 10);
        ended.is_live = false;
        // given a child that is older than the process that has its parent's id now
        let older = entry(40, 1, 20);
        let table = ProcessTable::of(vec![entry(10, 1, 1), ended, entry(30, 3, 20), older]);

        assert_eq!(table.below(10), [entry(30, 3, 20)]);
    }

    #[test]
    fn a_variable_of_a_process_of_this_user_is_read() {
        let path = environment_value(std::process::id(), "PATH");

        assert_eq!(path, std::env::var_os("PATH"));
        assert_eq!(environment_value(std::process::id(), "PAT"), None);
    }

    #[test]
    fn an_ignored_signal_is_told_from_others() {
        let status = "Name:\tsh\nSigBlk:\tffff\nSigIgn:\t0000000000004000\nSigCgt:\t1\n";
        assert!(is_ignored(status, Signal::TERM));
        assert!(!is_ignored(status, Signal::HUP));
        assert!(!is_ignored("SigIgn:\t", Signal::TERM));
        assert!(!is_ignored("", Signal::TERM));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let entry = parse(1, &bytes);
            prop_assert!(entry.is_none_or(|entry| entry.identity.pid == 1));
        }

        #[test]
        fn any_name_is_passed_over(name in proptest::collection::vec(any::<u8>(), 0..40)) {
            let stat = [b"1 (", &name[..], b") ", FIELDS.as_bytes()].concat();
            prop_assert_eq!(parse(1, &stat).map(|entry| entry.identity.start), Some(777));
        }

        #[test]
        fn any_parents_lead_to_an_end(parents in proptest::collection::vec(0u32..12, 0..12)) {
            let entries = parents.iter().enumerate().map(|(pid, parent)| entry(pid as u32, 1, *parent));
            let table = ProcessTable::of(entries.collect());
            prop_assert!(table.below(3).len() <= parents.len());
        }
    }
}
