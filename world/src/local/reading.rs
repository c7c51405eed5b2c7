//! Inspecting and reading files. Owns the rule that what is read is what was checked: the kind, the size and the version
//! are those of the opened descriptor.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bytes::Bytes;

use super::file_system::blocking;
use super::inspection::describe;
use super::opening::{OpenFile, Place, failure, present};
use super::resolution;
use crate::fs::{ByteRange, GUESS_SAMPLE_BYTES, TextDecoder, TextFault, guess_encoding};
use crate::{FileVersion, FsError, Metadata, TextFile, TextStream};

const CHUNK_BYTES: usize = 64 * 1024;

/// No file is longer than this.
const OFFSETS_END: u64 = i64::MAX as u64;

pub(super) fn stat(resolved: &Path, display: &Path) -> Result<Option<Metadata>, FsError> {
    let found = match present(Place::open(resolved)) {
        Ok(Some(place)) => place.stat(),
        Ok(None) => Ok(None),
        Err(errno) => Err(errno),
    };
    let stat = found.map_err(|errno| failure(display, errno))?;
    Ok(stat.as_ref().map(describe))
}

/// Inspects a path as it is spelled, which can lead through links.
pub(super) fn lstat(path: &Path, cwd: &Path) -> Result<Option<Metadata>, FsError> {
    let spelled = resolution::absolute(path, cwd)?;
    let stat = present(rustix::fs::lstat(&spelled))
        .map_err(|errno| FsError::from_io(path, errno.into()))?;
    Ok(stat.as_ref().map(describe))
}

fn open(resolved: &Path, display: &Path) -> Result<OpenFile, FsError> {
    Place::open(resolved)
        .map_err(|errno| failure(display, errno))?
        .open_regular(display)
}

pub(super) fn read_text(resolved: &Path, display: &Path) -> Result<TextFile, FsError> {
    let open = open(resolved, display)?;
    let (text, had_bom) = decode_all(&open, TextDecoder::default(), display)?;
    Ok(TextFile {
        text,
        version: open.version,
        had_bom,
    })
}

/// The text of an open file without a leading byte order mark, and whether there was one. It is decoded while it is read:
/// of a file that is no text, no more is taken in than what shows that.
pub(super) fn decode_all(
    open: &OpenFile,
    mut decoder: TextDecoder,
    display: &Path,
) -> Result<(String, bool), FsError> {
    let mut file = &open.file;
    let refuse = |fault| not_text(file, display, fault);
    // A hint: a file can change, and some files of the system tell no size.
    let expected = usize::try_from(open.size).unwrap_or(0);
    let mut text = String::with_capacity(expected.min(CHUNK_BYTES * 64));
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => text.push_str(&decoder.push(&chunk[..length]).map_err(refuse)?),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(FsError::from_io(display, error)),
        }
    }
    let had_bom = decoder.had_bom();
    decoder.finish().map_err(refuse)?;
    Ok((text, had_bom))
}

pub(super) fn read_bytes(
    resolved: &Path,
    display: &Path,
    max_bytes: u64,
) -> Result<Bytes, FsError> {
    read_capped(open(resolved, display)?, display, max_bytes)
}

/// No more than one byte over the limit is taken in, also of a file that has grown since it was opened.
fn read_capped(open: OpenFile, display: &Path, max_bytes: u64) -> Result<Bytes, FsError> {
    let too_large = |at_least| FsError::TooLarge {
        path: display.to_path_buf(),
        limit: max_bytes,
        at_least,
    };
    if open.size > max_bytes {
        return Err(too_large(open.size));
    }
    let mut bytes = Vec::new();
    let mut bounded = open.file.take(max_bytes.saturating_add(1));
    bounded
        .read_to_end(&mut bytes)
        .map_err(|error| FsError::from_io(display, error))?;
    if bytes.len() as u64 > max_bytes {
        return Err(too_large(bytes.len() as u64));
    }
    Ok(bytes.into())
}

pub(super) fn read_range(
    resolved: &Path,
    display: &Path,
    offset: u64,
    max_bytes: u64,
) -> Result<ByteRange, FsError> {
    let open = open(resolved, display)?;
    let bytes =
        read_at(&open.file, offset, max_bytes).map_err(|error| FsError::from_io(display, error))?;
    Ok(ByteRange {
        bytes: bytes.into(),
        version: open.version,
        file_bytes: open.size,
    })
}

/// At most `max_bytes` bytes from `offset` on, fewer at the end of the file alone. Nothing is moved in the file.
fn read_at(file: &File, offset: u64, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let at = offset.saturating_add(bytes.len() as u64);
        // The system has no offsets from 2^63 on, and refuses a read that could come to one.
        let left = (max_bytes - bytes.len() as u64).min(OFFSETS_END.saturating_sub(at));
        let wanted = usize::try_from(left).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
        if wanted == 0 {
            return Ok(bytes);
        }
        let filled = bytes.len();
        bytes.resize(filled + wanted, 0);
        let read = file.read_at(&mut bytes[filled..], at);
        bytes.truncate(filled + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => return Ok(bytes),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The error for a file that is not text, with a guess at what it is.
fn not_text(file: &File, display: &Path, fault: TextFault) -> FsError {
    let sample = |offset| read_at(file, offset, GUESS_SAMPLE_BYTES as u64);
    let guess = match (sample(0), sample(fault.at())) {
        (Ok(beginning), Ok(at_fault)) => Some(guess_encoding(&beginning, &at_fault)),
        _ => None,
    };
    FsError::NotText {
        path: display.to_path_buf(),
        reason: fault.reason(),
        at: fault.at(),
        guess,
    }
}

/// The text of a file of this machine in pieces.
pub(super) struct LocalTextStream {
    display: PathBuf,
    version: FileVersion,
    had_bom: bool,
    /// `None` at the end and after an error. Moved to the blocking pool and back with each piece.
    source: Option<(File, TextDecoder)>,
}

impl LocalTextStream {
    pub(super) fn open(resolved: &Path, display: &Path) -> Result<Self, FsError> {
        let open = open(resolved, display)?;
        let source = Some((open.file, TextDecoder::default()));
        Ok(Self {
            display: display.to_path_buf(),
            version: open.version,
            had_bom: false,
            source,
        })
    }
}

/// A piece of text with what reads the next one; no piece at the end.
type Piece = Option<(String, File, TextDecoder)>;

/// Reads until a piece of text is complete.
fn next_piece(mut file: File, mut decoder: TextDecoder, display: &Path) -> Result<Piece, FsError> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let length = match file.read(&mut chunk) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(FsError::from_io(display, error)),
        };
        if length == 0 {
            return decoder
                .finish()
                .map(|()| None)
                .map_err(|fault| not_text(&file, display, fault));
        }
        let text = decoder
            .push(&chunk[..length])
            .map_err(|fault| not_text(&file, display, fault))?;
        if !text.is_empty() {
            return Ok(Some((text, file, decoder)));
        }
    }
}

#[async_trait]
impl TextStream for LocalTextStream {
    async fn next(&mut self) -> Result<Option<String>, FsError> {
        let Some((file, decoder)) = self.source.take() else {
            return Ok(None);
        };
        let piece = blocking(self.display.clone(), move |display| {
            next_piece(file, decoder, display)
        })
        .await?;
        Ok(piece.map(|(text, file, decoder)| {
            self.had_bom = decoder.had_bom();
            self.source = Some((file, decoder));
            text
        }))
    }

    fn version(&self) -> &FileVersion {
        &self.version
    }

    fn had_bom(&self) -> bool {
        self.had_bom
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    use super::*;

    /// A file with a content, open for reading.
    fn opened(content: &[u8]) -> (tempfile::TempDir, PathBuf, OpenFile) {
        let folder = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(folder.path()).unwrap().join("file");
        fs::write(&path, content).unwrap();
        let open = open(&path, &path).unwrap();
        (folder, path, open)
    }

    #[test]
    fn a_file_that_grows_after_it_was_opened_is_too_large_and_read_no_further() {
        // given a file at the limit, which gets much longer
        let (_folder, path, open) = opened(b"12345");
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(&[b'x'; 1000]).unwrap();

        // when it is read, then one byte too many tells
        let refused = read_capped(open, &path, 5).unwrap_err();
        let is_told = matches!(
            refused,
            FsError::TooLarge {
                limit: 5,
                at_least: 6,
                ..
            }
        );
        assert!(is_told, "{refused:?}");
    }

    #[test]
    fn of_what_is_no_text_no_more_is_read_than_shows_that() {
        // given files that are as long as a file can be, with a NUL byte at the beginning and past the sample
        for (decoder, text) in [
            (TextDecoder::default(), 0),
            (TextDecoder::for_change(), 100_000),
        ] {
            let (_folder, path, open) = opened(&vec![b'a'; text]);
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            file.set_len(1 << 40).unwrap();

            let refused = decode_all(&open, decoder, &path).unwrap_err();

            let is_told = matches!(refused, FsError::NotText { at, .. } if at == text as u64);
            assert!(is_told, "{refused:?}");
        }
    }

    #[test]
    fn a_part_of_a_file_that_shrinks_ends_where_the_file_does() {
        let (_folder, path, open) = opened(&vec![b'x'; 200_000]);
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(150_000).unwrap();

        assert_eq!(
            read_at(&open.file, 100_000, u64::MAX).unwrap().len(),
            50_000
        );
        assert!(read_at(&open.file, 180_000, u64::MAX).unwrap().is_empty());
    }

    #[test]
    fn there_is_nothing_at_any_offset_past_the_end() {
        let (_folder, _, open) = opened(b"text");
        let end = OFFSETS_END;
        for offset in [4, 5, end - 65_537, end - 1, end, end + 1, u64::MAX] {
            for max_bytes in [1, u64::MAX] {
                let read = read_at(&open.file, offset, max_bytes).unwrap();
                assert!(read.is_empty(), "{max_bytes} bytes at {offset}");
            }
        }
    }

    #[test]
    fn the_version_of_a_text_is_that_of_the_file_that_was_opened() {
        let (_folder, path, open) = opened(b"old");
        let other = path.with_extension("other");
        fs::write(&other, "new").unwrap();
        fs::rename(&other, &path).unwrap();

        let now = stat(&path, &path).unwrap().unwrap();
        assert_ne!(now.version, open.version);
        let read = decode_all(&open, TextDecoder::default(), &path).unwrap();
        assert_eq!(read, ("old".to_owned(), false));
    }
}
