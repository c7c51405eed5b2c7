//! The errors of the file seam. Owns the closed set of codes: whatever a system call gives, a caller sees one of them.

use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::encoding::BINARY;
use crate::sandbox::SandboxMode;

/// How many lines an ambiguous edit tells at most.
pub const MAX_REPORTED_LINES: usize = 100;

/// Why a file operation failed. Callers route by [`FsError::code`] and never by the text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FsError {
    /// Nothing is there, the path is blank, or a parent is not a folder: `FS_NOT_FOUND`.
    #[error("{} was not found: {reason}", path.display())]
    NotFound {
        /// The path as the caller knows it.
        path: PathBuf,
        /// What exactly is missing.
        reason: &'static str,
    },
    /// A folder was needed: `FS_NOT_DIRECTORY`.
    #[error("{} is not a folder", path.display())]
    NotDirectory {
        /// The path as the caller knows it.
        path: PathBuf,
    },
    /// The file is not UTF-8 text: `FS_NOT_TEXT`.
    #[error("{} is not UTF-8 text: {reason} at byte {at}; {}", path.display(), advice_for_guess(*guess))]
    NotText {
        /// The path as the caller knows it.
        path: PathBuf,
        /// What was found instead.
        reason: &'static str,
        /// Where it was found, in bytes from the beginning of the file.
        at: u64,
        /// The encoding that the file seems to have, or `binary`; `None` where it could not be looked at again.
        guess: Option<&'static str>,
    },
    /// A regular file was needed: `FS_NOT_REGULAR_FILE`.
    #[error("{} is not a regular file", path.display())]
    NotRegularFile {
        /// The path as the caller knows it.
        path: PathBuf,
    },
    /// The file is longer than the given limit: `FS_TOO_LARGE`.
    #[error("{} has at least {at_least} bytes; the limit is {limit}", path.display())]
    TooLarge {
        /// The path as the caller knows it.
        path: PathBuf,
        /// The limit in bytes, inclusive.
        limit: u64,
        /// A lower bound of the file's size in bytes.
        at_least: u64,
    },
    /// The system refused access: `FS_PERMISSION_DENIED`.
    #[error("access to {} was refused by the system", path.display())]
    PermissionDenied {
        /// The path as the caller knows it.
        path: PathBuf,
        /// The system's own error.
        #[source]
        source: io::Error,
    },
    /// The sandbox mode refuses the change: `FS_SANDBOX_DENIED`.
    #[error("the mode {mode:?} does not allow a change of {}", path.display())]
    SandboxDenied {
        /// The path as the caller knows it.
        path: PathBuf,
        /// The mode in force.
        mode: SandboxMode,
    },
    /// Anything else that the system reported: `FS_IO_ERROR`.
    #[error("{} could not be used: {source}{}", path.display(), advice_for_failure(source))]
    Io {
        /// The path as the caller knows it.
        path: PathBuf,
        /// The system's own error.
        #[source]
        source: io::Error,
    },
    /// A link stands in the path of a target since it was resolved: `FS_IO_ERROR`. It is not followed, since it can lead
    /// anywhere.
    #[error("{} leads through a link that was put there after it was resolved; resolve it again", path.display())]
    Relinked {
        /// The path as the caller knows it.
        path: PathBuf,
    },
    /// The path or URI cannot name a file of this world: `FS_IO_ERROR`.
    #[error("{name:?} names no file of this world: {reason}")]
    Unnameable {
        /// The path or URI as it was given.
        name: String,
        /// Why not.
        reason: &'static str,
    },
    /// The file has another version than the caller expects, or is gone: `FS_STALE_VERSION`.
    #[error("{} has changed since it was read; read it again, then retry", path.display())]
    StaleVersion {
        /// The path as the caller knows it.
        path: PathBuf,
    },
    /// The caller would overwrite or edit what it never read: `FS_NOT_OBSERVED`.
    #[error("{} exists and was not read before; read it, then retry", path.display())]
    NotObserved {
        /// The path as the caller knows it.
        path: PathBuf,
    },
    /// The text to replace occurs several times: `FS_AMBIGUOUS_EDIT`.
    #[error("the text to replace occurs {matches} times in {}, first on the lines {} (counted from 0); give more of the text around it, or replace all", path.display(), enumerate(lines))]
    AmbiguousEdit {
        /// The path as the caller knows it.
        path: PathBuf,
        /// How many matches there are; none overlaps another.
        matches: u64,
        /// The zero-based lines on which the first matches begin, at most [`MAX_REPORTED_LINES`].
        lines: Vec<u64>,
    },
    /// The text to replace does not occur: `FS_EDIT_NOT_FOUND`.
    #[error("the text to replace does not occur in {}; read it again and copy the text from it", path.display())]
    EditNotFound {
        /// The path as the caller knows it.
        path: PathBuf,
    },
    /// The operation was given up before it ended: `FS_ABORTED`.
    #[error("the operation on {} was given up", path.display())]
    Aborted {
        /// The path as the caller knows it.
        path: PathBuf,
    },
    /// The provider does not have this operation: `WORLD_UNSUPPORTED`.
    #[error("this world does not support {operation}")]
    Unsupported {
        /// The name of the operation.
        operation: &'static str,
    },
}

impl FsError {
    /// The stable code: one of the thirteen `FS_*` codes, or `WORLD_UNSUPPORTED`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "FS_NOT_FOUND",
            Self::NotDirectory { .. } => "FS_NOT_DIRECTORY",
            Self::NotText { .. } => "FS_NOT_TEXT",
            Self::NotRegularFile { .. } => "FS_NOT_REGULAR_FILE",
            Self::TooLarge { .. } => "FS_TOO_LARGE",
            Self::PermissionDenied { .. } => "FS_PERMISSION_DENIED",
            Self::SandboxDenied { .. } => "FS_SANDBOX_DENIED",
            Self::Io { .. } | Self::Relinked { .. } | Self::Unnameable { .. } => "FS_IO_ERROR",
            Self::StaleVersion { .. } => "FS_STALE_VERSION",
            Self::NotObserved { .. } => "FS_NOT_OBSERVED",
            Self::AmbiguousEdit { .. } => "FS_AMBIGUOUS_EDIT",
            Self::EditNotFound { .. } => "FS_EDIT_NOT_FOUND",
            Self::Aborted { .. } => "FS_ABORTED",
            Self::Unsupported { .. } => "WORLD_UNSUPPORTED",
        }
    }

    /// The error for what a system call on `path` reported. Every kind of failure has its code here, so that none
    /// escapes as a bare number.
    pub fn from_io(path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound {
                path,
                reason: "nothing exists there",
            },
            io::ErrorKind::NotADirectory => Self::NotFound {
                path,
                reason: "a parent is not a folder",
            },
            io::ErrorKind::PermissionDenied => Self::PermissionDenied { path, source },
            io::ErrorKind::IsADirectory => Self::NotRegularFile { path },
            _ => Self::Io { path, source },
        }
    }
}

/// What to do with a file that is not UTF-8.
fn advice_for_guess(guess: Option<&'static str>) -> String {
    match guess {
        Some(BINARY) => "it looks binary: read its bytes instead".to_owned(),
        Some(encoding) => {
            format!("it looks like {encoding}: convert it to UTF-8, or read its bytes instead")
        }
        None => "read its bytes instead".to_owned(),
    }
}

/// What to do about a failure of the system (errno(3)), after a semicolon; nothing where its own text says it all.
fn advice_for_failure(failure: &io::Error) -> &'static str {
    match failure.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ELOOP) => "; the links of the path lead round in a circle: correct one of them",
        Some(Errno::ENAMETOOLONG) => {
            "; a name has at most 255 bytes and a path at most 4,095: shorten it"
        }
        Some(Errno::ENOSPC | Errno::EDQUOT) => "; free some space, then retry",
        Some(Errno::EFBIG) => "; write less, or raise the limit on the size of a file",
        Some(Errno::EROFS) => "; it is mounted for reading alone: write elsewhere",
        Some(Errno::EXDEV | Errno::EBUSY) => {
            "; something is mounted there, which cannot be replaced: write beside it"
        }
        Some(Errno::EMFILE | Errno::ENFILE) => {
            "; too many files are open: close some or raise the limit, then retry"
        }
        Some(Errno::EINVAL | Errno::EOPNOTSUPP | Errno::ENOSYS) => {
            "; its file system cannot do that: use another one"
        }
        Some(Errno::EMLINK) => "; it has too many links or entries: remove some",
        Some(Errno::EIO | Errno::ESTALE) => {
            "; its disk or its server failed: look at the system's log"
        }
        Some(Errno::EAGAIN | Errno::EINTR | Errno::ETXTBSY) => "; retry it later",
        _ => "",
    }
}

/// The lines with commas, and with dots where there can be more.
fn enumerate(lines: &[u64]) -> String {
    let mut shown: Vec<String> = lines.iter().take(5).map(u64::to_string).collect();
    if lines.len() > shown.len() {
        shown.push("…".to_owned());
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_of_the_system_has_its_code() {
        let code =
            |number| FsError::from_io(Path::new("/x"), io::Error::from_raw_os_error(number)).code();

        for number in 1..=133 {
            let expected = match Errno::from_raw(number) {
                Errno::ENOENT | Errno::ENOTDIR => "FS_NOT_FOUND",
                Errno::EACCES | Errno::EPERM => "FS_PERMISSION_DENIED",
                Errno::EISDIR => "FS_NOT_REGULAR_FILE",
                _ => "FS_IO_ERROR",
            };
            assert_eq!(code(number), expected, "errno {number}");
        }
    }

    #[test]
    fn a_message_names_the_path_and_what_to_look_at() {
        let error = FsError::TooLarge {
            path: "/a/b".into(),
            limit: 4,
            at_least: 9,
        };

        assert_eq!(
            error.to_string(),
            "/a/b has at least 9 bytes; the limit is 4"
        );
    }

    #[test]
    fn the_common_failures_say_what_to_do() {
        let text = |errno: Errno| {
            FsError::from_io(Path::new("/x"), io::Error::from_raw_os_error(errno as i32))
                .to_string()
        };

        for (errno, advice) in [
            (Errno::ELOOP, "correct one of them"),
            (Errno::ENAMETOOLONG, "shorten it"),
            (Errno::ENOSPC, "free some space"),
            (Errno::EDQUOT, "free some space"),
            (Errno::EROFS, "write elsewhere"),
            (Errno::EXDEV, "write beside it"),
            (Errno::EMFILE, "raise the limit"),
            (Errno::EACCES, "was refused by the system"),
            (Errno::ENOENT, "nothing exists there"),
        ] {
            let text = text(errno);
            assert!(text.contains(advice) && text.contains("/x"), "{text}");
        }
    }

    #[test]
    fn a_file_that_is_no_text_is_told_with_the_encoding_guessed() {
        let text = |guess| {
            FsError::NotText {
                path: "/x".into(),
                reason: "it has a NUL byte",
                at: 7,
                guess,
            }
            .to_string()
        };

        assert_eq!(
            text(Some("UTF-16LE")),
            "/x is not UTF-8 text: it has a NUL byte at byte 7; it looks like UTF-16LE: convert it to UTF-8, or read its bytes instead"
        );
        assert!(text(Some(BINARY)).contains("looks binary"));
    }

    #[test]
    fn the_error_of_the_system_is_kept_as_the_cause() {
        for errno in [Errno::EACCES, Errno::ENOSPC] {
            let error =
                FsError::from_io(Path::new("/x"), io::Error::from_raw_os_error(errno as i32));

            let cause = std::error::Error::source(&error).unwrap();
            let cause: &io::Error = cause.downcast_ref().unwrap();
            assert_eq!(cause.raw_os_error(), Some(errno as i32));
        }
    }
}
