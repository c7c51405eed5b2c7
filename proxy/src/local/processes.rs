//! The processes of lspool's own machine, whatever the world: the table and the control groups of the local provider, the
//! names by which people know processes, and the namespace in which their ids mean something.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

pub(crate) use lspool_world::local::{
    ControlGroups, ProcessEntry, ProcessIdentity, ProcessTable, environment_value, memory_bytes,
};

/// The short name of a process, for people.
#[expect(
    clippy::disallowed_methods,
    reason = "the process table is this machine's own whatever the world"
)]
pub(crate) fn name(pid: u32) -> Option<String> {
    let name = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned())
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
