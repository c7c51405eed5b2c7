//! Starting a child from a complete spec. Owns the checks before the start and what a child begins with: its own process
//! group, exactly the given environment, the given file mode mask, an empty signal mask, and the default SIGPIPE (which
//! the standard library sets).

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow};
use nix::sys::stat::{Mode, umask};

use super::super::{InheritedOutput, executable};
use super::contained::Contained;
use crate::environment::{is_name, is_value};
use crate::sandbox::SandboxError;
use crate::{OutputMode, ScrubRules, SpawnError, SpawnSpec, StdinMode};

/// The longest grace: what fits a timer of milliseconds everywhere.
const MAX_GRACE: Duration = Duration::from_millis(2_147_483_647);

/// All bits of a file mode mask.
const MASK_BITS: u32 = 0o777;

/// Refuses a spec that is not complete or not possible, before anything is made for it.
pub(super) fn check(spec: &SpawnSpec) -> Result<(), SpawnError> {
    let invalid = |field, reason| Err(SpawnError::InvalidSpec { field, reason });
    let has_nul = |text: &OsStr| text.as_bytes().contains(&0);
    let Some(program) = spec.argv.first() else {
        return invalid("argv", "is empty");
    };
    if !Path::new(program).is_absolute() {
        return invalid("argv", "begins with a program that is not an absolute path");
    }
    if spec.argv.iter().any(|argument| has_nul(argument)) {
        return invalid("argv", "contains a NUL byte");
    }
    if !spec.cwd.is_absolute() || has_nul(spec.cwd.as_os_str()) {
        return invalid("cwd", "is not an absolute path");
    }
    let is_entry = |name: &OsStr, value: &OsStr| is_name(name) && is_value(value);
    if !spec
        .overrides
        .iter()
        .all(|(name, value)| is_entry(name, value.as_deref().unwrap_or_default()))
    {
        return invalid(
            "overrides",
            "has a name or value that no process can be given",
        );
    }
    if spec
        .marker
        .as_ref()
        .is_some_and(|marker| !is_entry(&marker.name, &marker.value))
    {
        return invalid("marker", "has a name or value that no process can be given");
    }
    if spec.umask.is_some_and(|mask| mask > MASK_BITS) {
        return invalid("umask", "has bits beyond 0o777");
    }
    if spec.grace.is_zero() || spec.grace > MAX_GRACE {
        return invalid("grace", "is not between 1 and 2,147,483,647 milliseconds");
    }
    if spec.sandbox.is_confined() {
        let reason = "this world has no sandbox yet; ask for danger-full-access to run unconfined"
            .to_owned();
        return Err(SandboxError::Unavailable {
            mode: spec.sandbox.mode,
            reason,
        }
        .into());
    }
    if spec.cancel.is_cancelled() {
        return Err(SpawnError::Cancelled);
    }
    Ok(())
}

/// Starts the child of a checked spec. Blocks until the new program runs.
pub(super) fn start(
    spec: &SpawnSpec,
    rules: &ScrubRules,
    inherited: InheritedOutput,
) -> Result<Contained, SpawnError> {
    let program = Path::new(&spec.argv[0]);
    let refused = |source| SpawnError::Refused {
        executable: program.to_path_buf(),
        cwd: spec.cwd.clone(),
        source,
    };
    executable::check(program)?;
    if !spec.cwd.metadata().map_err(refused)?.is_dir() {
        return Err(refused(io::ErrorKind::NotADirectory.into()));
    }
    let mut command = Command::new(program);
    command
        .args(&spec.argv[1..])
        .current_dir(&spec.cwd)
        .process_group(0);
    command
        .env_clear()
        .envs(spec.child_environment(rules).iter());
    command.stdin(match spec.stdin {
        StdinMode::Ignore => Stdio::null(),
        StdinMode::Pipe | StdinMode::Data(_) => Stdio::piped(),
    });
    command.stdout(output(&spec.stdout, inherited).map_err(refused)?);
    command.stderr(output(&spec.stderr, inherited).map_err(refused)?);
    if let Some(mask) = spec.umask {
        set_mask(&mut command, mask);
    }
    if spec.cancel.is_cancelled() {
        return Err(SpawnError::Cancelled);
    }
    let child = with_empty_signal_mask(|| command.spawn()).map_err(refused)?;
    let marker = spec
        .marker
        .as_ref()
        .map(|marker| [marker.name.as_bytes(), b"=", marker.value.as_bytes()].concat());
    Ok(Contained::new(child, marker))
}

/// Gives the child a file mode mask. The mask is one for all threads of a process, so it can be set only in the child.
#[expect(
    unsafe_code,
    reason = "what runs between fork and exec is bound by more than types"
)]
fn set_mask(command: &mut Command, mask: u32) {
    let mode = Mode::from_bits_truncate(mask as nix::libc::mode_t);
    let set = move || {
        umask(mode);
        Ok(())
    };
    // SAFETY: the closure runs in the forked child, where only async-signal-safe calls are allowed. It makes one,
    // umask(2), which POSIX names among them; it allocates nothing, takes no lock, cannot fail or panic, and owns only
    // an integer.
    unsafe {
        command.pre_exec(set);
    }
}

/// Runs `work` with no signal blocked in this thread, since a child begins with the mask of the thread that starts it. The
/// thread is one of the blocking pool; the mask that it had is set again.
fn with_empty_signal_mask<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let before = SigSet::empty().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let result = work();
    if let Err(error) = before.thread_set_mask() {
        tracing::warn!(%error, "the signal mask of a thread could not be set again");
    }
    result
}

fn output(mode: &OutputMode, inherited: InheritedOutput) -> io::Result<Stdio> {
    Ok(match (mode, inherited) {
        (OutputMode::Ignore, _) => Stdio::null(),
        (OutputMode::Inherit, InheritedOutput::OwnStderr) => {
            io::stderr().as_fd().try_clone_to_owned()?.into()
        }
        (OutputMode::Inherit, InheritedOutput::Log)
        | (OutputMode::Pipe | OutputMode::Collect { .. }, _) => Stdio::piped(),
    })
}
