//! Trees whose owner died, found by their marker. Owns the sweep's fences: the marker, the user, and the start time of
//! each process that is signalled.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use super::contained::Pause;
use crate::TerminateError;

/// How long killed processes may take to go.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// Ends every process of this user that carries a marker of `owner`: its environment has the variable `name` with a value
/// that is `owner`, or begins with `owner` and a dot (as [`crate::TreeMarker::unique`] makes it), and it is neither this
/// process nor one of those below which it runs. SIGTERM, `grace`, SIGKILL. Gives how many there were.
///
/// Gives `EXEC_SURVIVORS` naming those who would not end, `EXEC_UNPROVED` where processes cannot be listed.
pub async fn end_marked(
    name: &OsStr,
    owner: &str,
    grace: Duration,
) -> Result<usize, TerminateError> {
    let prefix = [name.as_bytes(), b"=", owner.as_bytes()].concat();
    let mut seen = std::collections::HashSet::new();
    let started = tokio::time::Instant::now();
    let mut pause = Pause::default();
    let mut empty_looks = 0;
    loop {
        let found = find(prefix.clone()).await?;
        empty_looks = if found.is_empty() { empty_looks + 1 } else { 0 };
        if empty_looks == 2 {
            return Ok(seen.len());
        }
        let waited = started.elapsed();
        if waited > grace + KILL_PATIENCE {
            return Err(TerminateError::Survivors {
                pids: found.iter().map(|(pid, _)| *pid).collect(),
            });
        }
        signal(&found, &mut seen, waited >= grace);
        pause.wait().await;
    }
}

/// A process id with its start time.
type Fenced = (u32, u64);

async fn find(prefix: Vec<u8>) -> Result<Vec<Fenced>, TerminateError> {
    let unproved = |reason: String| TerminateError::Unproved { reason };
    tokio::task::spawn_blocking(move || carriers(&prefix))
        .await
        .map_err(|error| unproved(error.to_string()))?
        .map_err(|error| unproved(error.to_string()))
}

/// The live processes of this user that carry such a marker, without this one and its ancestors.
#[cfg(target_os = "linux")]
fn carriers(prefix: &[u8]) -> std::io::Result<Vec<Fenced>> {
    use super::table;

    let rows = table::read()?;
    let mut above = std::collections::HashSet::new();
    let mut pid = std::process::id();
    while above.insert(pid)
        && let Some(row) = rows.iter().find(|row| row.identity.pid == pid)
    {
        pid = row.parent;
    }
    let user = table::owner(std::process::id());
    let carries = |pid| {
        let entries = table::environment(pid).unwrap_or_default();
        entries.split(|byte| *byte == 0).any(|entry| {
            entry
                .strip_prefix(prefix)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
        })
    };
    let candidates = rows
        .iter()
        .filter(|row| row.is_live && !above.contains(&row.identity.pid));
    let found = candidates
        .filter(|row| table::owner(row.identity.pid) == user && carries(row.identity.pid));
    Ok(found
        .map(|row| (row.identity.pid, row.identity.start))
        .collect())
}

/// The environment of other processes cannot be read here.
#[cfg(not(target_os = "linux"))]
fn carriers(_: &[u8]) -> std::io::Result<Vec<Fenced>> {
    Err(std::io::Error::from(std::io::ErrorKind::Unsupported))
}

/// SIGTERM once to each, SIGKILL to whoever is left after the grace.
#[cfg(target_os = "linux")]
fn signal(found: &[Fenced], seen: &mut std::collections::HashSet<Fenced>, kill: bool) {
    use rustix::process::Signal;

    use super::signals::signal_process;
    use super::table::Identity;

    for &(pid, start) in found {
        let identity = Identity { pid, start };
        let is_new = seen.insert((pid, start));
        if kill {
            signal_process(identity, Signal::KILL);
        } else if is_new {
            signal_process(identity, Signal::TERM);
            signal_process(identity, Signal::CONT);
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn signal(_: &[Fenced], _: &mut std::collections::HashSet<Fenced>, _: bool) {}
