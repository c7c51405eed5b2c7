//! What a process tree uses of its machine.

use std::time::Duration;

use serde::Serialize;

/// What a process tree uses at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TreeUsage {
    /// How many processes run.
    pub processes: u32,
    /// The memory in bytes: what its processes hold resident, pages that they share with others counted in part where
    /// the system tells, else whole.
    pub memory_bytes: u64,
    /// The time on a processor since the start, in user and system mode, of all that ran in the tree as far as
    /// `cpu_is_whole` says.
    pub cpu: Duration,
    /// Whether `cpu` has also the time of processes that ended without being waited for inside of the tree.
    pub cpu_is_whole: bool,
}
