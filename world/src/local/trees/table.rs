//! The process table of this machine, read from `/proc`. Owns its parsing and the identity of a process: its id together
//! with its start time, which no later process of the same id shares.

use std::fs;
use std::io;

/// A process that cannot be mistaken for a later one of the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::local) struct Identity {
    /// The process id.
    pub(in crate::local) pid: u32,
    /// The start time, in clock ticks since the machine started.
    pub(in crate::local) start: u64,
}

/// One process as the table shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::local) struct Row {
    pub(in crate::local) identity: Identity,
    pub(in crate::local) parent: u32,
    pub(in crate::local) group: u32,
    pub(in crate::local) session: u32,
    /// Whether it still runs: a zombie does not, unless threads of it are left.
    pub(in crate::local) is_live: bool,
}

/// All processes. A process that ends while the table is read is left out.
pub(in crate::local) fn read() -> io::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        if let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok())
            && let Some(row) = row(pid)
        {
            rows.push(row);
        }
    }
    Ok(rows)
}

/// The row of one process; `None` when it does not exist.
pub(in crate::local) fn row(pid: u32) -> Option<Row> {
    parse(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The environment with which a process was started: `NAME=VALUE` entries, each ended by a NUL byte. `None` when it
/// cannot be read; empty while a process is between two programs.
pub(in crate::local) fn environment(pid: u32) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/environ")).ok()
}

/// Parses `/proc/PID/stat`. The name of the program stands in parentheses and can hold any byte, parentheses and blanks
/// too, so the fields are counted from the last parenthesis.
fn parse(pid: u32, stat: &[u8]) -> Option<Row> {
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
    let identity = Identity {
        pid,
        start: number(19)?,
    };
    Some(Row {
        identity,
        parent: id(1)?,
        group: id(2)?,
        session: id(3)?,
        is_live,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FIELDS: &str = "S 10 20 30 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 777 0";

    #[test]
    fn a_name_with_parentheses_blanks_and_line_ends_is_skipped() {
        let row = parse(5, format!("5 (a) R 1 1\n(b)) {FIELDS}").as_bytes()).unwrap();

        let identity = Identity { pid: 5, start: 777 };
        assert_eq!(
            row,
            Row {
                identity,
                parent: 10,
                group: 20,
                session: 30,
                is_live: true
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
        let own = row(std::process::id()).unwrap();

        assert!(own.is_live);
        assert!(
            read()
                .unwrap()
                .iter()
                .any(|row| row.identity == own.identity)
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let row = parse(1, &bytes);
            prop_assert!(row.is_none_or(|row| row.identity.pid == 1));
        }
    }
}
