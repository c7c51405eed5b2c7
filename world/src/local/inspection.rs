//! What the system tells of a file, in the words of the seam.

use rustix::fs::{FileType, Stat};

use crate::{FileKind, FileVersion, Metadata};

/// The metadata of a file.
pub(super) fn describe(stat: &Stat) -> Metadata {
    let kind = kind(stat);
    Metadata {
        kind,
        size: (kind == FileKind::File).then(|| size(stat)),
        version: version(stat),
    }
}

/// What a file is.
pub(super) fn kind(stat: &Stat) -> FileKind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Other,
    }
}

/// The size in bytes.
pub(super) fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// The change time stands in the version because a rewrite can keep the size and restore the modification time.
pub(super) fn version(stat: &Stat) -> FileVersion {
    FileVersion::from_text(format!(
        "{:x}:{:x}:{:x}:{:x}.{:x}:{:x}.{:x}",
        stat.st_dev,
        stat.st_ino,
        stat.st_size,
        stat.st_mtime,
        stat.st_mtime_nsec,
        stat.st_ctime,
        stat.st_ctime_nsec
    ))
}
