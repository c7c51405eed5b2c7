//! Inspecting and reading files. Owns the rule that what is read is what was checked: the kind and the version are those
//! of the opened descriptor, and opening never waits for a FIFO's other end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bytes::Bytes;
use nix::fcntl::OFlag;

use super::file_system::blocking;
use super::resolution;
use crate::fs::{TextDecoder, TextFault};
use crate::{FileKind, FileVersion, FsError, Metadata, TextFile, TextStream};

const CHUNK_BYTES: usize = 64 * 1024;

pub(super) fn stat(resolved: &Path, display: &Path) -> Result<Option<Metadata>, FsError> {
    present(fs::metadata(resolved), display)
}

pub(super) fn lstat(path: &Path, cwd: &Path) -> Result<Option<Metadata>, FsError> {
    let spelled = resolution::absolute(path, cwd)?;
    present(fs::symlink_metadata(&spelled), path)
}

/// Nothing there, or a parent that is no folder, is `None`; any other failure is an error.
fn present(
    metadata: io::Result<fs::Metadata>,
    display: &Path,
) -> Result<Option<Metadata>, FsError> {
    match metadata {
        Ok(metadata) => Ok(Some(describe(&metadata))),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(FsError::from_io(display, error)),
    }
}

pub(super) fn describe(metadata: &fs::Metadata) -> Metadata {
    let kind = match metadata.file_type() {
        kind if kind.is_file() => FileKind::File,
        kind if kind.is_dir() => FileKind::Directory,
        kind if kind.is_symlink() => FileKind::Symlink,
        _ => FileKind::Other,
    };
    let size = (kind == FileKind::File).then_some(metadata.len());
    Metadata {
        kind,
        size,
        version: version(metadata),
    }
}

/// The change time stands in the version because a rewrite can keep the size and restore the modification time.
fn version(metadata: &fs::Metadata) -> FileVersion {
    FileVersion::from_text(format!(
        "{:x}:{:x}:{:x}:{:x}.{:x}:{:x}.{:x}",
        metadata.dev(),
        metadata.ino(),
        metadata.size(),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec()
    ))
}

/// A regular file that is open for reading.
struct OpenFile {
    file: File,
    size: u64,
    version: FileVersion,
}

/// Opens a regular file. The kind is looked at before the open, since opening a device can have effects, and again on
/// the descriptor, since the path can have been given to something else meanwhile.
fn open_regular(resolved: &Path, display: &Path) -> Result<OpenFile, FsError> {
    let refuse = |error| FsError::from_io(display, error);
    let not_regular = || FsError::NotRegularFile {
        path: display.to_path_buf(),
    };
    if !fs::metadata(resolved).map_err(refuse)?.is_file() {
        return Err(not_regular());
    }
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(resolved)
        .map_err(refuse)?;
    let metadata = file.metadata().map_err(refuse)?;
    if !metadata.is_file() {
        return Err(not_regular());
    }
    Ok(OpenFile {
        file,
        size: metadata.len(),
        version: version(&metadata),
    })
}

pub(super) fn read_text(resolved: &Path, display: &Path) -> Result<TextFile, FsError> {
    let mut open = open_regular(resolved, display)?;
    let mut bytes = Vec::with_capacity(
        usize::try_from(open.size)
            .unwrap_or(0)
            .min(CHUNK_BYTES * 64),
    );
    open.file
        .read_to_end(&mut bytes)
        .map_err(|error| FsError::from_io(display, error))?;
    let mut decoder = TextDecoder::default();
    let text = decoder
        .push(&bytes)
        .map_err(|fault| not_text(display, fault))?;
    let had_bom = decoder.had_bom();
    decoder.finish().map_err(|fault| not_text(display, fault))?;
    Ok(TextFile {
        text,
        version: open.version,
        had_bom,
    })
}

pub(super) fn read_bytes(
    resolved: &Path,
    display: &Path,
    max_bytes: u64,
) -> Result<Bytes, FsError> {
    let open = open_regular(resolved, display)?;
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

fn not_text(display: &Path, fault: TextFault) -> FsError {
    FsError::NotText {
        path: display.to_path_buf(),
        reason: fault.reason(),
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
        let open = open_regular(resolved, display)?;
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
                .map_err(|fault| not_text(display, fault));
        }
        let text = decoder
            .push(&chunk[..length])
            .map_err(|fault| not_text(display, fault))?;
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
