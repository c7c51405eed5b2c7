//! Reading of files with a bound, as the query pipeline needs it.
//!
//! Invariant: no more of a file is held than the given limit and one piece, however large it is or grows.

use std::path::Path;

use lspool_world::{FileKind, FsError, Target, World};

/// A text as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BoundedText {
    pub(super) text: String,
    /// The file's version when it was opened.
    pub(super) version: String,
}

/// Why a text was not read.
#[derive(Debug)]
pub(super) enum TextLimit {
    /// The file has at least so many bytes, which is over the limit.
    TooLarge {
        /// A lower bound of the size in bytes.
        at_least: u64,
    },
    /// The file could not be read.
    Fs(FsError),
}

impl From<FsError> for TextLimit {
    fn from(error: FsError) -> Self {
        Self::Fs(error)
    }
}

/// The text of a file of at most `limit` bytes, inclusive.
pub(super) async fn read_bounded(
    world: &World,
    target: &Target,
    limit: u64,
) -> Result<BoundedText, TextLimit> {
    let metadata = world.fs().stat(target).await?;
    if let Some(size) = metadata.and_then(|metadata| metadata.size)
        && size > limit
    {
        return Err(TextLimit::TooLarge { at_least: size });
    }
    // The size said yes, but a file may grow while it is read.
    let mut stream = world.fs().stream_text(target).await?;
    let version = stream.version().as_str().to_owned();
    let mut text = String::new();
    while let Some(piece) = stream.next().await? {
        text.push_str(&piece);
        if text.len() as u64 > limit {
            return Err(TextLimit::TooLarge {
                at_least: text.len() as u64,
            });
        }
    }
    Ok(BoundedText { text, version })
}

/// The first line of a file, at most `limit` bytes of it; `None` where the file is no text.
pub(super) async fn read_first_line(
    world: &World,
    target: &Target,
    limit: usize,
) -> Option<String> {
    let mut stream = world.fs().stream_text(target).await.ok()?;
    let mut start = String::new();
    while let Ok(Some(piece)) = stream.next().await {
        start.push_str(&piece);
        if start.len() > limit || start.contains(['\n', '\r']) {
            break;
        }
    }
    let line = start.split(['\n', '\r']).next().unwrap_or_default();
    Some(line[..line.floor_char_boundary(limit)].to_owned())
}

/// What became of a file that queries hold open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reread {
    /// It is as it was.
    Unchanged,
    /// It has another text.
    Changed {
        /// The whole text, without a byte order mark.
        text: String,
        /// The file's fs version.
        version: String,
    },
    /// It is gone, or is no text within the limit any more.
    Gone,
}

/// Reads the file at `path`, an absolute path, again if its version is not `known`. A file whose version stands is
/// not read. `limit` is the most bytes that the text may have.
pub async fn reread(world: &World, path: &Path, known: &str, limit: u64) -> Reread {
    let Ok(target) = world.fs().resolve(path, Path::new("/")).await else {
        return Reread::Gone;
    };
    match world.fs().stat(&target).await {
        Ok(Some(metadata)) if metadata.kind != FileKind::File => return Reread::Gone,
        Ok(Some(metadata)) if metadata.version.as_str() == known => return Reread::Unchanged,
        Ok(Some(_)) => {}
        Ok(None) | Err(_) => return Reread::Gone,
    }
    match read_bounded(world, &target, limit).await {
        Ok(file) => Reread::Changed {
            text: file.text,
            version: file.version,
        },
        Err(_) => Reread::Gone,
    }
}
