//! One reading of the process table for all who ask at the same time. Owns the bound on what looking costs: however many
//! trees end at once, the table is read a few times and each environment once a reading.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::table::ProcessTable;

/// The last reading, kept while others wait who may use it.
static LATEST: Mutex<Option<Reading>> = Mutex::new(None);

/// How many have asked and are not answered yet.
static WAITING: AtomicUsize = AtomicUsize::new(0);

struct Reading {
    begun: Instant,
    table: Arc<ProcessTable>,
}

/// The table as it was read after this call began, by this call or by another one. Blocks.
pub(super) fn table() -> io::Result<Arc<ProcessTable>> {
    let asked = Instant::now();
    WAITING.fetch_add(1, Ordering::Relaxed);
    let mut latest = LATEST.lock().unwrap_or_else(PoisonError::into_inner);
    let result = match &*latest {
        Some(reading) if reading.begun >= asked => Ok(Arc::clone(&reading.table)),
        Some(_) | None => {
            let begun = Instant::now();
            ProcessTable::read().map(|table| {
                let table = Arc::new(table);
                *latest = Some(Reading {
                    begun,
                    table: Arc::clone(&table),
                });
                table
            })
        }
    };
    if WAITING.fetch_sub(1, Ordering::Relaxed) == 1 {
        *latest = None;
    }
    result
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::thread;

    #[test]
    fn all_who_ask_get_a_reading_that_has_what_was_there_before() {
        let tables = thread::scope(|scope| {
            let ask = || thread::scope(|inner| inner.spawn(table).join().unwrap().unwrap());
            let asked: Vec<_> = (0..50).map(|_| scope.spawn(ask)).collect();
            asked
                .into_iter()
                .map(|asked| asked.join().unwrap())
                .collect::<Vec<_>>()
        });

        for table in &tables {
            let pids: HashSet<u32> = table
                .entries()
                .iter()
                .map(|entry| entry.identity.pid)
                .collect();
            assert!(pids.contains(&std::process::id()));
        }
    }
}
