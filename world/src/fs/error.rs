//! The errors of the file seam. Owns the closed set of codes: whatever a system call gives, a caller sees one of them.

use std::io;
use std::path::{Path, PathBuf};

use crate::sandbox::SandboxMode;

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
    #[error("{} is not UTF-8 text: {reason}", path.display())]
    NotText {
        /// The path as the caller knows it.
        path: PathBuf,
        /// What was found instead.
        reason: &'static str,
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
    #[error("{} could not be used: {source}", path.display())]
    Io {
        /// The path as the caller knows it.
        path: PathBuf,
        /// The system's own error.
        #[source]
        source: io::Error,
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
    #[error("{} has changed since it was read", path.display())]
    StaleVersion {
        /// The path as the caller knows it.
        path: PathBuf,
    },
    /// The caller would overwrite or edit what it never read: `FS_NOT_OBSERVED`.
    #[error("{} exists and was not read before", path.display())]
    NotObserved {
        /// The path as the caller knows it.
        path: PathBuf,
    },
    /// The text to replace occurs several times: `FS_AMBIGUOUS_EDIT`.
    #[error("the text to replace occurs {} times in {}", lines.len(), path.display())]
    AmbiguousEdit {
        /// The path as the caller knows it.
        path: PathBuf,
        /// The zero-based lines on which the matches begin.
        lines: Vec<u64>,
    },
    /// The text to replace does not occur: `FS_EDIT_NOT_FOUND`.
    #[error("the text to replace does not occur in {}", path.display())]
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
            Self::Io { .. } | Self::Unnameable { .. } => "FS_IO_ERROR",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_of_the_system_has_its_code() {
        let code =
            |number| FsError::from_io(Path::new("/x"), io::Error::from_raw_os_error(number)).code();

        for number in 1..=133 {
            let expected = match nix::errno::Errno::from_raw(number) {
                nix::errno::Errno::ENOENT | nix::errno::Errno::ENOTDIR => "FS_NOT_FOUND",
                nix::errno::Errno::EACCES | nix::errno::Errno::EPERM => "FS_PERMISSION_DENIED",
                nix::errno::Errno::EISDIR => "FS_NOT_REGULAR_FILE",
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
}
