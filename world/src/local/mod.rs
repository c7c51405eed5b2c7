//! The provider of the machine on which lspool itself runs. Linux is the reference; elsewhere on Unix a tree is its
//! process group alone, and the facts say so.

mod control_groups;
mod editing;
mod executable;
mod file_system;
mod inspection;
mod launch;
mod listing;
mod opening;
mod processes;
mod reading;
mod resolution;
mod subprocess;
mod terminals;
mod trees;
mod watching;
mod writing;

use std::sync::Arc;

use crate::ScrubRules;

pub use control_groups::ControlGroups;
pub use file_system::LocalFileSystem;
pub use subprocess::LocalSubprocess;
pub use trees::table::{ProcessEntry, ProcessIdentity, ProcessTable, environment_value};
pub use trees::usage::memory_bytes;

/// What the face that opens the local world decides.
#[derive(Clone, Debug)]
pub struct LocalOptions {
    /// The rules of the environment scrub.
    pub scrub_rules: ScrubRules,
    /// Where inherited output goes.
    pub inherited_output: InheritedOutput,
    /// The control groups that hold trees together; `None` where there are none, or where they are not wanted.
    pub control_groups: Option<Arc<ControlGroups>>,
}

/// Where the output of a stream in [`crate::OutputMode::Inherit`] goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InheritedOutput {
    /// To this process's own standard error, for both streams: standard output may be a protocol link.
    OwnStderr,
    /// To the log, line by line, each with the process named.
    Log,
}
