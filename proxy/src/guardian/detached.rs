//! Leaving whoever happened to need the daemon first: its session, its folder, and what it had set for itself alone.
//!
//! Invariant: a daemon, and so every server that it starts, is the same whoever started it, as far as the system allows:
//! a hard limit can only be lowered, and a lower priority is often for ever.

use std::process::ExitCode;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, rlim_t, setrlimit};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{chdir, setsid};

use super::INTERNAL;
use crate::local::binary;
use crate::system;

/// The soft limits that a process has where nobody lowered them; getrlimit(2).
const SOFT_LIMITS: [(Resource, rlim_t); 6] = [
    (Resource::RLIMIT_AS, RLIM_INFINITY),
    (Resource::RLIMIT_CPU, RLIM_INFINITY),
    (Resource::RLIMIT_DATA, RLIM_INFINITY),
    (Resource::RLIMIT_FSIZE, RLIM_INFINITY),
    (Resource::RLIMIT_NOFILE, 1_024),
    (Resource::RLIMIT_STACK, 8 * 1_024 * 1_024),
];

/// Leaves the face's session and starts the guardian of a daemon, so that neither the terminal, the session nor the
/// process tree of the editor that happened to need it first has a hold on the daemon.
pub(crate) fn detach() -> ExitCode {
    if system::close_inherited().is_err() || setsid().is_err() {
        return ExitCode::from(INTERNAL);
    }
    system::reset_dispositions();
    umask(Mode::from_bits_truncate(0o077));
    raise_soft_limits();
    // Without the right to it the niceness stays, which harms nobody but this daemon.
    let _ = system::reset_niceness();
    // The face's folder must stay removable.
    if chdir("/").is_err() {
        return ExitCode::from(INTERNAL);
    }
    match binary::start_guardian() {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(INTERNAL),
    }
}

/// Puts soft limits that a shell had lowered back, as far as the hard limits allow.
fn raise_soft_limits() {
    for (resource, usual) in SOFT_LIMITS {
        let Ok((soft, hard)) = getrlimit(resource) else {
            continue;
        };
        let wanted = usual.min(hard);
        if soft < wanted {
            // Below the hard limit this is everybody's right; a system that has another view keeps its limit.
            let _ = setrlimit(resource, wanted, hard);
        }
    }
}
