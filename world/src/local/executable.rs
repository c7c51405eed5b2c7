//! Finding executables and telling their identity.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use crate::{Environment, ExecutableError, ExecutableIdentity};

/// What stands at a path, as far as starting it goes.
enum Candidate {
    Executable,
    NotExecutable,
    Missing,
}

/// Finds the executable for a command; the rules are those of [`crate::Subprocess::resolve_executable`].
pub(super) fn resolve(
    command: &OsStr,
    search_path: Option<&OsStr>,
    cwd: &Path,
) -> Result<PathBuf, ExecutableError> {
    let invalid = |reason| ExecutableError::Invalid {
        command: command.to_string_lossy().into_owned(),
        reason,
    };
    let bytes = command.as_bytes();
    if bytes.is_empty() {
        return Err(invalid("it is empty"));
    }
    if bytes.contains(&0) {
        return Err(invalid("it contains a NUL byte"));
    }
    if bytes[0] == b'/' {
        return check(Path::new(command));
    }
    if bytes.contains(&b'/') {
        return Err(invalid("it must be a bare name or an absolute path"));
    }
    let mut not_executable = None;
    for entry in search_path.into_iter().flat_map(std::env::split_paths) {
        let candidate = cwd.join(entry).join(command);
        match judge(&candidate) {
            Candidate::Executable => return Ok(candidate),
            Candidate::NotExecutable => not_executable = not_executable.or(Some(candidate)),
            Candidate::Missing => {}
        }
    }
    Err(match not_executable {
        Some(path) => ExecutableError::NotExecutable { path },
        None => ExecutableError::Missing {
            command: command.to_string_lossy().into_owned(),
            on_path: true,
        },
    })
}

/// The path of PATH in an environment.
pub(super) fn search_path(environment: &Environment) -> Option<&OsStr> {
    environment.get("PATH")
}

/// Gives back an absolute path that is an executable file.
pub(super) fn check(path: &Path) -> Result<PathBuf, ExecutableError> {
    match judge(path) {
        Candidate::Executable => Ok(path.to_path_buf()),
        Candidate::NotExecutable => Err(ExecutableError::NotExecutable {
            path: path.to_path_buf(),
        }),
        Candidate::Missing => Err(ExecutableError::Missing {
            command: path.to_string_lossy().into_owned(),
            on_path: false,
        }),
    }
}

/// The interpreter that the first line of a script names, for people.
pub(super) fn interpreter(path: &Path) -> Option<String> {
    /// What Linux reads of a script.
    const LINE_BYTES: u64 = 256;
    let mut line = Vec::new();
    File::open(path)
        .ok()?
        .take(LINE_BYTES)
        .read_to_end(&mut line)
        .ok()?;
    let rest = line
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    // The carriage return of a script with other line ends is part of the name, and the reason why it is not found.
    let mut words = rest
        .split(|byte| matches!(byte, b' ' | b'\t'))
        .filter(|word| !word.is_empty());
    Some(words.next()?.escape_ascii().to_string())
}

/// The identity of the file to which `path` leads: a rewrite or a replacement gives another one.
pub(super) fn identify(path: &Path) -> Result<ExecutableIdentity, ExecutableError> {
    let path = check(path)?;
    let missing = |_| ExecutableError::Missing {
        command: path.to_string_lossy().into_owned(),
        on_path: false,
    };
    let real_path = fs::canonicalize(&path).map_err(missing)?;
    let metadata = fs::metadata(&real_path).map_err(missing)?;
    let (device, inode) = (metadata.dev(), metadata.ino());
    let (seconds, nanoseconds) = (metadata.mtime(), metadata.mtime_nsec());
    let escaped = real_path.as_os_str().as_bytes().escape_ascii();
    Ok(ExecutableIdentity::from_text(&format!(
        "{escaped}:{device:x}:{inode:x}:{seconds:x}.{nanoseconds:x}"
    )))
}

fn judge(path: &Path) -> Candidate {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() && access(path, AccessFlags::X_OK).is_ok() => {
            Candidate::Executable
        }
        Ok(_) => Candidate::NotExecutable,
        Err(_) => Candidate::Missing,
    }
}
