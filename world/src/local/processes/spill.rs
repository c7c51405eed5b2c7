//! Spill files: the whole of a collected stream that is longer than its tail. Owns their privacy (a folder of mode 0700
//! and files of mode 0600, made exclusively under names that nobody can foresee) and their end: a file lives as long as
//! the handle that tells its path, the folder as long as a file is in it. A folder's name says whose it is, so that what
//! a killed owner left is removed by the next one that makes a folder.

mod folder;

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use self::folder::SpillFile;
pub(in crate::local) use self::folder::SpillFolder;

/// The spill of one stream.
#[derive(Debug)]
pub(super) struct SpillWriter {
    max_bytes: u64,
    /// What the file's name says of its stream and process.
    label: String,
    folder: Arc<SpillFolder>,
    state: SpillState,
}

#[derive(Debug)]
enum SpillState {
    /// The stream still fits its tail.
    Unneeded,
    /// The file holds the stream so far.
    Writing(File, SpillFile),
    /// The file holds the whole stream and is closed.
    Complete(SpillFile),
    /// The stream is too long, or the file could not be written: there is none, for good.
    Discarded,
}

impl SpillWriter {
    /// A spill that has no file yet. `label` says in the file's name what it holds.
    pub(super) fn new(max_bytes: u64, label: String, folder: Arc<SpillFolder>) -> Self {
        Self {
            max_bytes,
            label,
            folder,
            state: SpillState::Unneeded,
        }
    }

    /// The file, while it holds the stream.
    pub(super) fn path(&self) -> Option<PathBuf> {
        match &self.state {
            SpillState::Writing(_, file) | SpillState::Complete(file) => {
                Some(file.path().to_path_buf())
            }
            SpillState::Unneeded | SpillState::Discarded => None,
        }
    }

    /// Whether a stream of this length has no file any more.
    pub(super) fn discards_at(&self, total: u64) -> bool {
        total > self.max_bytes
    }

    /// Appends a chunk; before the first one `head`, which is all that the stream had until then. `total` is the length
    /// of the stream with the chunk. A file that cannot be written is discarded. Blocks.
    pub(super) fn append(&mut self, head: &[u8], chunk: &[u8], total: u64) {
        if self.discards_at(total) {
            self.state = SpillState::Discarded;
        } else if let Err(error) = self.write(head, chunk) {
            tracing::warn!(%error, "a spill file could not be written; the tail in memory remains");
            self.state = SpillState::Discarded;
        }
    }

    fn write(&mut self, head: &[u8], chunk: &[u8]) -> io::Result<()> {
        if matches!(self.state, SpillState::Unneeded) {
            let (writer, file) = self.folder.create_file(&self.label)?;
            self.state = SpillState::Writing(writer, file);
        }
        if let SpillState::Writing(writer, _) = &mut self.state {
            writer.write_all(head)?;
            writer.write_all(chunk)?;
        }
        Ok(())
    }

    /// Closes the file of an ended stream. Some systems report only here that a write failed; the file is discarded
    /// then. Blocks.
    pub(super) fn finish(&mut self) {
        self.state = match std::mem::replace(&mut self.state, SpillState::Discarded) {
            SpillState::Writing(writer, file) => match nix::unistd::close(writer) {
                Ok(()) => SpillState::Complete(file),
                Err(error) => {
                    tracing::warn!(%error, "a spill file could not be closed; the tail in memory remains");
                    SpillState::Discarded
                }
            },
            other => other,
        };
    }

    /// Removes the file, off the threads of the runtime.
    pub(super) fn discard(self) {
        let folder = Arc::clone(&self.folder);
        folder.remove_later(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn writer(max_bytes: u64, parent: &tempfile::TempDir) -> SpillWriter {
        let folder = Arc::new(SpillFolder::below(parent.path().to_path_buf()));
        SpillWriter::new(max_bytes, "stdout-42".to_owned(), folder)
    }

    fn entries(parent: &tempfile::TempDir) -> usize {
        fs::read_dir(parent.path()).unwrap().count()
    }

    #[test]
    fn a_file_is_private_named_for_its_stream_and_gone_with_its_writer() {
        let parent = tempfile::tempdir().unwrap();
        let mut spill = writer(100, &parent);
        assert_eq!((spill.path(), entries(&parent)), (None, 0));

        // when a stream becomes longer than its tail and ends
        spill.append(b"0123456789", b"abcdef", 16);
        spill.append(b"", b"g", 17);
        spill.finish();

        // then the whole is in a private file
        let path = spill.path().unwrap();
        let mode =
            |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let name = path.file_name().unwrap().to_str().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"0123456789abcdefg");
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert!(
            name.starts_with("stdout-42-") && path.extension().unwrap() == "log",
            "{name}"
        );

        // and file and folder go with the writer
        drop(spill);
        assert_eq!(entries(&parent), 0);
    }

    #[test]
    fn two_files_of_one_stream_have_names_of_their_own() {
        let parent = tempfile::tempdir().unwrap();
        let mut one = writer(100, &parent);
        let mut other = SpillWriter::new(100, one.label.clone(), Arc::clone(&one.folder));
        one.append(b"", b"1", 1);
        other.append(b"", b"2", 1);

        assert_ne!(one.path(), other.path());
        assert_eq!(one.path().unwrap().parent(), other.path().unwrap().parent());

        // The folder stays for the other and can be made again.
        drop(one);
        assert_eq!(fs::read(other.path().unwrap()).unwrap(), b"2");
        drop(other);
        assert_eq!(entries(&parent), 0);
    }

    #[test]
    fn a_stream_over_the_limit_loses_its_file_for_good() {
        let parent = tempfile::tempdir().unwrap();
        let mut spill = writer(8, &parent);
        spill.append(b"0123", b"4567", 8);
        assert!(spill.path().is_some());

        spill.append(b"", b"8", 9);
        spill.append(b"", b"9", 10);
        spill.finish();

        assert_eq!((spill.path(), entries(&parent)), (None, 0));
    }

    #[test]
    fn a_first_chunk_over_the_limit_makes_no_file() {
        let parent = tempfile::tempdir().unwrap();
        let mut spill = writer(8, &parent);

        spill.append(b"", b"123456789", 9);

        assert_eq!((spill.path(), spill.folder.has_been_made()), (None, false));
    }

    #[test]
    fn a_full_disk_costs_the_file_alone() {
        let parent = tempfile::tempdir().unwrap();
        let mut spill = writer(100, &parent);
        let (_, file) = spill.folder.create_file("stdout-42").unwrap();
        let full = File::options().write(true).open("/dev/full").unwrap();
        spill.state = SpillState::Writing(full, file);

        spill.append(b"", b"more", 20);

        assert_eq!((spill.path(), entries(&parent)), (None, 0));
    }

    #[test]
    fn a_folder_that_cannot_be_made_costs_the_file_alone() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Arc::new(SpillFolder::below(parent.path().join("missing")));
        let mut spill = SpillWriter::new(100, "stdout-42".to_owned(), folder);

        spill.append(b"", b"text", 4);
        spill.finish();

        assert_eq!(spill.path(), None);
    }

    #[test]
    fn a_folder_that_was_taken_away_is_made_again() {
        let parent = tempfile::tempdir().unwrap();
        let mut lost = writer(100, &parent);
        lost.append(b"", b"1", 1);
        fs::remove_dir_all(lost.path().unwrap().parent().unwrap()).unwrap();
        let mut later = SpillWriter::new(100, lost.label.clone(), Arc::clone(&lost.folder));

        later.append(b"", b"2", 1);

        assert_eq!(fs::read(later.path().unwrap()).unwrap(), b"2");
        // Neither end fails, though the first file is not there any more.
        drop(lost);
        drop(later);
        assert_eq!(entries(&parent), 0);
    }

    #[test]
    fn a_file_that_cannot_be_removed_is_withdrawn_all_the_same() {
        let parent = tempfile::tempdir().unwrap();
        let mut spill = writer(8, &parent);
        spill.append(b"", b"1", 1);
        let path = spill.path().unwrap();
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();

        spill.append(b"", b"too much for it", 16);

        assert_eq!(spill.path(), None);
        assert!(path.is_dir());
    }
}
