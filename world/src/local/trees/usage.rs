//! What processes use. Owns the arithmetic: memory that is shared is counted in part where the system tells, and time on
//! a processor comes in clock ticks.

use std::fs;
use std::time::Duration;

use super::table::ProcessEntry;

/// The memory of one process in bytes: its proportional share (`smaps_rollup` of proc(5)) where that can be read, else
/// all that it holds resident; 0 when it is gone. Blocks.
pub fn memory_bytes(pid: u32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"));
    let share = rollup.ok().and_then(|rollup| proportional(&rollup));
    share.unwrap_or_else(|| {
        let statistics = fs::read_to_string(format!("/proc/{pid}/statm"));
        let pages = statistics.ok().and_then(|statistics| resident(&statistics));
        pages.unwrap_or(0) * rustix::param::page_size() as u64
    })
}

/// The time on a processor of these processes and of the ended children that they waited for.
pub(super) fn cpu_time(processes: &[ProcessEntry]) -> Duration {
    let ticks: u64 = processes.iter().map(|entry| entry.cpu_ticks).sum();
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_secs(ticks / per_second)
        + Duration::from_nanos(ticks % per_second * 1_000_000_000 / per_second)
}

/// The proportional share in bytes.
fn proportional(rollup: &str) -> Option<u64> {
    let share = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kibibytes: u64 = share.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The resident pages.
fn resident(statistics: &str) -> Option<u64> {
    statistics.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_share_is_read_and_not_its_parts() {
        let rollup = "5581-7ffe [rollup]\nRss:  2048 kB\nPss:   1024 kB\nPss_Anon:  512 kB\n";

        assert_eq!(proportional(rollup), Some(1024 * 1024));
        assert_eq!(proportional("Pss_Anon: 3 kB\n"), None);
        assert_eq!(resident("900 300 20 1 0 80 0\n"), Some(300));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_uses_memory() {
        assert!(memory_bytes(std::process::id()) > 100_000);
    }

    proptest! {
        #[test]
        fn any_text_is_answered_without_a_panic(text in ".{0,60}") {
            let _ = (proportional(&format!("Pss:{text}")), resident(&text));
        }
    }
}
