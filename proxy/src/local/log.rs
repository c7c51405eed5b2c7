//! The daemon's log: one file that is rotated by size, private to the user.
//!
//! Logging never fails a session: what cannot be written is dropped.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;

use crate::defaults::{LOG_FILE_BYTES, LOG_FILES};

/// Sends every log line of this process to `daemon.log` in the folder, by the levels of `LSPOOL_LOG`.
///
/// Without a folder, or with one that cannot be written, there is no log and everything else works.
pub(crate) fn start(folder: Option<&Path>) {
    let Some(file) =
        folder.and_then(|folder| RotatingFile::open(folder, LOG_FILE_BYTES, LOG_FILES).ok())
    else {
        return;
    };
    let levels = EnvFilter::try_from_env("LSPOOL_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    // A second call in one process keeps the first log.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(levels)
        .with_ansi(false)
        // On stderr, which is the person's, a line that could not be written would be told again and again.
        .log_internal_errors(false)
        .with_writer(Mutex::new(file))
        .try_init();
}

/// A file that is renamed away when it is full, the oldest of its predecessors deleted.
#[derive(Debug)]
struct RotatingFile {
    folder: PathBuf,
    file: File,
    written: u64,
    cap: u64,
    kept: u32,
}

impl RotatingFile {
    #[expect(
        clippy::disallowed_methods,
        reason = "the log lies on lspool's own machine whatever the world"
    )]
    fn open(folder: &Path, cap: u64, kept: u32) -> io::Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(name(folder, 0))?;
        let written = file.metadata()?.len();
        Ok(Self {
            folder: folder.to_owned(),
            file,
            written,
            cap,
            kept,
        })
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the log lies on lspool's own machine whatever the world"
    )]
    fn rotate(&mut self) -> io::Result<()> {
        for age in (0..self.kept.saturating_sub(1)).rev() {
            match std::fs::rename(name(&self.folder, age), name(&self.folder, age + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        *self = Self::open(&self.folder, self.cap, self.kept)?;
        Ok(())
    }
}

impl Write for RotatingFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.written > 0 && self.written + line.len() as u64 > self.cap {
            self.rotate()?;
        }
        let count = self.file.write(line)?;
        self.written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn name(folder: &Path, age: u32) -> PathBuf {
    match age {
        0 => folder.join("daemon.log"),
        age => folder.join(format!("daemon.log.{age}")),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test looks at the files")]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_is_rotated_and_the_oldest_is_deleted() {
        // given room for two lines a file and three files
        let folder = tempfile::tempdir().unwrap();
        let mut log = RotatingFile::open(folder.path(), 8, 3).unwrap();

        // when seven lines of four bytes are written
        for line in 1..=7 {
            log.write_all(format!("{line:03}\n").as_bytes()).unwrap();
        }

        // then the newest three files hold the newest five lines and no other file is there
        let read = |age| std::fs::read_to_string(name(folder.path(), age)).unwrap();
        assert_eq!(read(0), "007\n");
        assert_eq!(read(1), "005\n006\n");
        assert_eq!(read(2), "003\n004\n");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn an_existing_file_is_continued() {
        let folder = tempfile::tempdir().unwrap();
        writeln!(RotatingFile::open(folder.path(), 100, 3).unwrap(), "a").unwrap();
        writeln!(RotatingFile::open(folder.path(), 100, 3).unwrap(), "b").unwrap();
        assert_eq!(
            std::fs::read_to_string(name(folder.path(), 0)).unwrap(),
            "a\nb\n"
        );
    }
}
