//! Starting lspool's own binary: the detached start of a daemon, a guarded process below its guardian, and this process
//! anew.
//!
//! The program is `/proc/self/exe`, so a replaced or deleted file on disk changes nothing for a running lspool.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};

use super::{NAMED_PLACES, named_place};

/// The hidden first argument of the short-lived process that leaves the face's session.
pub(crate) const DETACH: &str = "__detach";
/// The hidden first argument of the guardian of a daemon.
pub(crate) const GUARDIAN: &str = "__guardian";
/// The hidden first argument of a process below a guardian; the guardian's process id follows.
pub(crate) const GUARDED: &str = "__guarded";
/// The hidden argument, after [`GUARDED`] and the id, of the daemon that a face started.
pub(crate) const DAEMON: &str = "__daemon";

/// Starts the detaching process; what the daemon says about its start is read from the returned pipe.
pub(crate) fn start_detached() -> io::Result<ChildStdout> {
    let mut child = own_binary()
        .arg(DETACH)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let stdout = child.stdout.take();
    child.wait()?;
    stdout.ok_or_else(|| io::Error::other("the pipe of the started process is missing"))
}

/// Starts the guardian with the streams of this process.
pub(crate) fn start_guardian() -> io::Result<Child> {
    own_binary().arg(GUARDIAN).spawn()
}

/// Starts a process below this guardian with the streams of this process.
///
/// A tree marker in this process's own environment belongs to another tree and is not handed to a `fresh` tree.
pub(crate) fn start_guarded(arguments: &[OsString], fresh: bool) -> io::Result<Child> {
    let mut command = own_binary();
    command
        .arg(GUARDED)
        .arg(std::process::id().to_string())
        .args(arguments);
    if fresh {
        command.env_remove(crate::defaults::TREE_MARKER);
    }
    command.spawn()
}

/// Makes this process, with its id and its streams, an lspool with these arguments; comes back only when that failed.
pub(crate) fn start_over(arguments: &[OsString]) -> io::Error {
    own_binary().args(arguments).exec()
}

#[expect(
    clippy::disallowed_methods,
    reason = "lspool starts itself here; everything else starts through the world"
)]
fn own_binary() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("lspool");
    // The started process may have another working directory, and has to mean the same places.
    for name in NAMED_PLACES {
        if let Some(place) = std::env::var_os(name).as_deref().and_then(named_place) {
            command.env(name, place);
        }
    }
    command
}
