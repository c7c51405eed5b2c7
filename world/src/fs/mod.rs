//! The file seam. Owns the trait, its types and the rules that every provider shares: text decoding, file URIs and the
//! closed set of error codes.
//!
//! A path becomes a [`Target`] once, by [`FileSystem::resolve`]; every other operation takes the target. Its key is the
//! same before and after the file is created and through every alias, and it never leaves lspool.

mod decode;
mod editing;
mod encoding;
mod error;
mod glob;
mod mutation;
mod policy;
mod target;
mod uri;
mod watch;

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bytes::Bytes;
use serde::Serialize;

use crate::WorldId;

pub(crate) use decode::{BYTE_ORDER_MARK, decode_whole};
pub(crate) use editing::{EditFault, apply, with_line_feeds};
pub(crate) use encoding::{GUESS_SAMPLE_BYTES, guess_encoding};

pub use decode::{NUL_SAMPLE_BYTES, TextDecoder, TextFault};
pub use error::{FsError, MAX_REPORTED_LINES};
pub use mutation::{
    DIFF_BASIS_MAX_BYTES, EditIntent, EditOptions, EditOutcome, EditRequest, WriteIntent,
    WriteOperation, WriteOptions, WriteOutcome,
};
pub use policy::{
    EditDecision, EditIntentGate, GuardedFiles, Observation, ObservationPolicy,
    ObservationRecorder, PolicyChain, PolicyRefusal, WriteDecision, WriteIntentGate,
    writable_target,
};
pub use target::{
    ByteRange, DirEntry, FileKind, FileVersion, Metadata, Target, TargetKey, TextFile,
};
pub use uri::{file_uri_from_path, path_from_file_uri};
pub use watch::{ChangeBatch, ChangeFeed, ChangeKind, FileChange, GlobError, WatchFilter};

/// What a file system provider can do. Status shows it and the contract suite reads it, so that a limit is a fact and
/// not a skipped test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own; no two of them form a state"
)]
pub struct FileSystemFacts {
    /// Whether `write_text` and `edit_text` work.
    pub mutation: bool,
    /// Whether `watch` gives a change feed.
    pub watch: bool,
    /// Whether operations are relative to an open handle, so that a path cannot be swapped between check and use.
    pub handle_relative: bool,
    /// Whether a part of a file can be read without the part before it.
    pub ranged_reads: bool,
    /// Whether names that are not UTF-8 are kept byte for byte.
    pub byte_names: bool,
}

/// The text of a file as it is read, in pieces. Piece boundaries mean nothing, except that no character is split.
#[async_trait]
pub trait TextStream: Send {
    /// The next piece, never empty; `None` at the end, and again after it.
    ///
    /// Gives `FS_NOT_TEXT` at the piece that is not UTF-8 or has a NUL byte among the first 8,192 bytes of the file,
    /// `FS_IO_ERROR` when reading fails. After an error the stream is at its end.
    async fn next(&mut self) -> Result<Option<String>, FsError>;

    /// The version of the file when it was opened.
    fn version(&self) -> &FileVersion;

    /// Whether the file begins with a byte order mark, which is in no piece. Known once the first piece was given.
    fn had_bom(&self) -> bool;
}

/// The files of one world.
///
/// All paths are absolute paths of that world, or relative ones with an absolute `cwd`. Dropping a future abandons the
/// wait, not a system call that has begun. Every error is one of the codes of [`FsError`].
///
/// Where the facts say that operations are relative to a handle, a link that was put into the path of a target after it
/// was resolved is not followed: every operation refuses it with `FS_IO_ERROR`, and resolving again leads on.
#[async_trait]
pub trait FileSystem: Send + Sync + Debug {
    /// The world whose files these are.
    fn world_id(&self) -> &WorldId;

    /// What this provider can do.
    fn facts(&self) -> FileSystemFacts;

    /// Resolves a path to a target. `cwd` is absolute and is ignored for an absolute `path`; a missing file is valid.
    ///
    /// Links are followed, also when they dangle: the key is then that of the file that the link would create.
    /// Gives `FS_NOT_FOUND` for a blank path and for one that goes through a file as if it were a folder,
    /// `FS_PERMISSION_DENIED` where a folder cannot be searched, and `FS_IO_ERROR` for what cannot be resolved right
    /// (a link loop, a name that is too long, a NUL byte, a relative `cwd`).
    async fn resolve(&self, path: &Path, cwd: &Path) -> Result<Target, FsError>;

    /// The absolute path that a process of the same world uses for the target (as cwd and in its arguments).
    fn process_path(&self, target: &Target) -> PathBuf;

    /// The `file:` URI of the target with links resolved.
    fn file_uri(&self, target: &Target) -> String;

    /// The `file:` URI of an absolute path as it is spelled, links kept.
    ///
    /// Gives `FS_IO_ERROR` for a relative path and for one with `..`, which a URI cannot express without the risk of
    /// naming another file; [`Target::display_path`] never has one.
    fn spelled_uri(&self, absolute: &Path) -> Result<String, FsError>;

    /// The path that a `file:` URI names, in any legal escaping, with an empty host or `localhost`.
    ///
    /// Gives `FS_IO_ERROR` for any other scheme or host, a query, a fragment, a broken escape or a NUL byte.
    fn path_from_uri(&self, uri: &str) -> Result<PathBuf, FsError>;

    /// Whether `child` is `parent` or lies below it, judged on resolved targets.
    fn contains(&self, parent: &Target, child: &Target) -> bool;

    /// Whether `target` lies in `folder` as both are now: as [`FileSystem::contains`], and also where the folder is
    /// reached by another path that no link tells of (a bind mount), if the provider can see that. A folder that does
    /// not exist encloses no more than `contains` says.
    ///
    /// Gives `FS_PERMISSION_DENIED` or `FS_IO_ERROR` where that cannot be told.
    async fn encloses(&self, folder: &Target, target: &Target) -> Result<bool, FsError> {
        Ok(self.contains(folder, target))
    }

    /// What the target is now, links followed; `None` when it does not exist.
    async fn stat(&self, target: &Target) -> Result<Option<Metadata>, FsError>;

    /// What stands at the path itself: its last component is not followed. `None` when nothing does.
    async fn lstat(&self, path: &Path, cwd: &Path) -> Result<Option<Metadata>, FsError>;

    /// The whole text of a file. No line end is changed; a leading byte order mark is reported, not part of the text.
    ///
    /// Gives `FS_NOT_FOUND`, `FS_NOT_REGULAR_FILE`, `FS_NOT_TEXT`, `FS_PERMISSION_DENIED`, `FS_IO_ERROR`.
    async fn read_text(&self, target: &Target) -> Result<TextFile, FsError>;

    /// The text of a file in pieces, for readers with a bound. The errors of opening are given here, those of reading
    /// by the stream; together they are those of [`FileSystem::read_text`].
    async fn stream_text(&self, target: &Target) -> Result<Box<dyn TextStream>, FsError>;

    /// The bytes of a file that has at most `max_bytes` bytes.
    ///
    /// Gives `FS_TOO_LARGE` for a longer file, also for one that grows while it is read: no more than `max_bytes` + 1
    /// bytes are ever taken in. Otherwise as [`FileSystem::read_text`] without `FS_NOT_TEXT`.
    async fn read_bytes(&self, target: &Target, max_bytes: u64) -> Result<Bytes, FsError>;

    /// The entries of a folder in byte order of their names. An entry that cannot be inspected carries its own error.
    ///
    /// Gives `FS_NOT_FOUND`, `FS_NOT_DIRECTORY`, `FS_PERMISSION_DENIED`, `FS_IO_ERROR`.
    async fn list_dir(&self, target: &Target) -> Result<Vec<DirEntry>, FsError>;

    /// At most `max_bytes` bytes of a file from `offset` on; none when `offset` is past its end.
    ///
    /// Gives the errors of [`FileSystem::read_bytes`] without `FS_TOO_LARGE`, and `WORLD_UNSUPPORTED` where the
    /// provider's facts say that there are no ranged reads.
    async fn read_range(
        &self,
        target: &Target,
        offset: u64,
        max_bytes: u64,
    ) -> Result<ByteRange, FsError>;

    /// Writes a whole text atomically, with the folders above it: a reader sees the old text or the new one. A new file
    /// gets the permissions that the provider's file mode mask leaves, an existing one keeps its own.
    ///
    /// Until the text is put in its place, dropping the future leaves the file as it was.
    ///
    /// Gives `FS_NOT_OBSERVED` for a create over an existing file, `FS_STALE_VERSION` for another version or a missing
    /// file, `FS_NOT_REGULAR_FILE`, `FS_PERMISSION_DENIED`, `FS_IO_ERROR`, or `WORLD_UNSUPPORTED`.
    async fn write_text(
        &self,
        target: &Target,
        text: &str,
        options: &WriteOptions,
    ) -> Result<WriteOutcome, FsError>;

    /// Replaces a literal text in a file atomically. A byte order mark and the line ends of what is not replaced stay;
    /// new lines get the line end of the line that they replace, else the one that most lines of the file have.
    ///
    /// Gives `FS_STALE_VERSION` for another version or a missing file, before any matching; `FS_EDIT_NOT_FOUND` for no
    /// match, `FS_AMBIGUOUS_EDIT` for several without `replace_all`, `FS_NOT_TEXT`, and the errors of
    /// [`FileSystem::write_text`].
    async fn edit_text(
        &self,
        target: &Target,
        edit: &EditRequest,
        options: &EditOptions,
    ) -> Result<EditOutcome, FsError>;

    /// A feed of the changes below a folder of files that pass the filter, from now on.
    ///
    /// Gives `FS_NOT_FOUND`, `FS_NOT_DIRECTORY`, `FS_PERMISSION_DENIED`, `FS_IO_ERROR`, and `WORLD_UNSUPPORTED` where
    /// the provider's facts say that there is none.
    async fn watch(
        &self,
        folder: &Target,
        filter: &WatchFilter,
    ) -> Result<Box<dyn ChangeFeed>, FsError>;
}
