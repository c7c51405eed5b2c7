//! What is common to every start: the checks of a spec before anything is made for it, and the command that it becomes.
//! Owns what a child begins with: exactly the given environment, the given file mode mask, no descriptor but its streams,
//! an empty signal mask, and the default SIGPIPE (which the standard library sets).

mod child;
mod descriptors;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow};
use nix::sys::stat::{Mode, umask};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

pub(super) use self::child::ChildCommand;
pub(super) use self::descriptors::keep_from_children;
use super::executable;
use crate::environment::{is_name, is_value};
use crate::sandbox::SandboxError;
use crate::{LaunchSpec, ScrubRules, SpawnError};

/// The longest grace: what fits a timer of milliseconds everywhere.
const MAX_GRACE: Duration = Duration::from_millis(2_147_483_647);

/// All bits of a file mode mask.
const MASK_BITS: u32 = 0o777;

/// Refuses a spec that is not complete or not possible, before anything is made for it.
pub(super) fn check(
    launch: &LaunchSpec,
    grace: Duration,
    cancel: &CancellationToken,
) -> Result<(), SpawnError> {
    let invalid = |field, reason| Err(SpawnError::InvalidSpec { field, reason });
    let has_nul = |text: &OsStr| text.as_bytes().contains(&0);
    let Some(program) = launch.argv.first() else {
        return invalid("argv", "is empty");
    };
    if !Path::new(program).is_absolute() {
        return invalid("argv", "begins with a program that is not an absolute path");
    }
    if launch.argv.iter().any(|argument| has_nul(argument)) {
        return invalid("argv", "contains a NUL byte");
    }
    if !launch.cwd.is_absolute() || has_nul(launch.cwd.as_os_str()) {
        return invalid("cwd", "is not an absolute path");
    }
    let is_entry = |name: &OsStr, value: &OsStr| is_name(name) && is_value(value);
    if !launch
        .overrides
        .iter()
        .all(|(name, value)| is_entry(name, value.as_deref().unwrap_or_default()))
    {
        return invalid(
            "overrides",
            "has a name or value that no process can be given",
        );
    }
    if launch
        .marker
        .as_ref()
        .is_some_and(|marker| !is_entry(&marker.name, &marker.value))
    {
        return invalid("marker", "has a name or value that no process can be given");
    }
    if launch.umask.is_some_and(|mask| mask > MASK_BITS) {
        return invalid("umask", "has bits beyond 0o777");
    }
    if grace.is_zero() || grace > MAX_GRACE {
        return invalid("grace", "is not between 1 and 2,147,483,647 milliseconds");
    }
    if launch.sandbox.is_confined() {
        let reason = "this world has no sandbox yet; ask for danger-full-access to run unconfined"
            .to_owned();
        return Err(SandboxError::Unavailable {
            mode: launch.sandbox.mode,
            reason,
        }
        .into());
    }
    if cancel.is_cancelled() {
        return Err(SpawnError::Cancelled);
    }
    Ok(())
}

/// The command of a checked spec, its streams not yet set. Blocks: it looks at the program and the folder.
pub(super) fn command(launch: &LaunchSpec, rules: &ScrubRules) -> Result<ChildCommand, SpawnError> {
    check_files(launch)?;
    let mut command = ChildCommand::new(Path::new(&launch.argv[0]));
    command
        .args(&launch.argv[1..])
        .current_dir(&launch.cwd)
        .envs(launch.child_environment(rules).iter());
    if let Some(mask) = launch.umask
        && own_mask() != Some(mask)
    {
        set_mask(&mut command, mask);
    }
    Ok(command)
}

/// Looks at the program and the folder of a spec.
fn check_files(launch: &LaunchSpec) -> Result<(), SpawnError> {
    executable::check(Path::new(&launch.argv[0]))?;
    let cwd = || launch.cwd.clone();
    match launch.cwd.metadata() {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(SpawnError::CwdNotDirectory { cwd: cwd() }),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                Err(SpawnError::CwdMissing { cwd: cwd() })
            }
            _ => Err(SpawnError::Refused {
                executable: PathBuf::from(&launch.argv[0]),
                cwd: cwd(),
                reason: format!("the working directory cannot be used ({error})"),
                source: error,
            }),
        },
    }
}

/// The error for a start that the system refused. Blocks: the program or the folder may have gone since they were looked
/// at, which the system's own error does not tell apart.
pub(super) fn refused(launch: &LaunchSpec, source: io::Error) -> SpawnError {
    if let Err(error) = check_files(launch) {
        return error;
    }
    let executable = PathBuf::from(&launch.argv[0]);
    SpawnError::Refused {
        cwd: launch.cwd.clone(),
        reason: reason(&executable, &source),
        executable,
        source,
    }
}

/// What a system's error means for a start whose program and folder exist.
fn reason(executable: &Path, source: &io::Error) -> String {
    let reason = match Errno::from_io_error(source) {
        Some(Errno::NOEXEC) => {
            "it is neither a program for this machine nor a script whose first line names its interpreter"
        }
        Some(Errno::TOOBIG) => "its arguments and environment are longer than the system allows",
        Some(Errno::NOENT) => return missing_interpreter(executable),
        Some(Errno::ACCESS) => {
            "the system does not allow to execute it or its interpreter, or to enter the working directory"
        }
        Some(Errno::AGAIN) => "the limit of processes is reached",
        Some(Errno::MFILE | Errno::NFILE) => "too many files are open",
        Some(Errno::TXTBSY) => "it is still being written",
        _ => return source.to_string(),
    };
    format!("{reason} ({source})")
}

fn missing_interpreter(executable: &Path) -> String {
    match executable::interpreter(executable) {
        Some(interpreter) => format!("its interpreter {interpreter} was not found"),
        None => "the loader that it needs was not found".to_owned(),
    }
}

/// The mask of this process, where that can be read: umask(2) tells it only by changing it.
fn own_mask() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let value = status
        .lines()
        .find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(value.trim(), 8).ok()
}

/// The entry by which the tree of a spec is found in the environments of processes.
pub(super) fn marker_entry(launch: &LaunchSpec) -> Option<Vec<u8>> {
    let marker = launch.marker.as_ref()?;
    Some([marker.name.as_bytes(), b"=", marker.value.as_bytes()].concat())
}

/// Gives the child a file mode mask. The mask is one for all threads of a process, so it can be set only in the child.
#[expect(
    unsafe_code,
    reason = "what runs between fork and exec is bound by more than types"
)]
fn set_mask(command: &mut ChildCommand, mask: u32) {
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
pub(super) fn with_empty_signal_mask<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let before = SigSet::empty().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let result = work();
    if let Err(error) = before.thread_set_mask() {
        tracing::warn!(%error, "the signal mask of a thread could not be set again");
    }
    result
}
