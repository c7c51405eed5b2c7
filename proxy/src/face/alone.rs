//! Going on without the shared daemon: a face that cannot have it becomes a session of its own.
//!
//! Invariant: this happens before a byte of the session was read, and at most once in a process: what it becomes asks
//! for no daemon.

use std::ffi::OsString;

use super::{AttachError, How};
use crate::local::binary;
use crate::standard_streams::complain;

/// Starts this process over with `--no-daemon`, with one line on stderr, when it was to have the shared daemon and
/// cannot. Comes back with the error when the daemon is not what is missing, or when starting over failed.
pub(crate) fn instead_of(how: How, error: AttachError) -> AttachError {
    if !matches!(how, How::Shared) || !error.is_want_of_daemon() {
        return error;
    }
    complain(&format!("lspool: {error}; going on without the daemon"));
    let arguments: Vec<OsString> = std::iter::once("--no-daemon".into())
        .chain(std::env::args_os().skip(1))
        .collect();
    AttachError::Start(binary::start_over(&arguments).to_string())
}
