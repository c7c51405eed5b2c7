//! The jobs of the query pipeline that need the world: finding what a query is about ([`prepare`]), reading what
//! queries hold open again ([`reread`]), and turning a server's answer into a normalised result ([`finish`]).
//!
//! Each is an async function of its arguments without state of its own. Invariant: all reading is bounded, and nothing
//! is started here; what to start is a fact in the result.

mod asked;
mod choose;
mod files;
mod finish;
mod generated;
mod judge;
mod locate;
mod path;
mod prepare;
mod program;
mod root;
mod text;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use lspool_normalize::{Position, Token, UriKey};
use lspool_world::{Environment, TargetKey};

use crate::edge::TextId;
use crate::registry::{Definition, LaunchFacts};

pub use finish::{EditorText, FinishInput, finish};
pub use judge::Judged;
pub use locate::{Located, locate};
pub use prepare::prepare;
pub use text::{Reread, reread};

/// What a query inherits from the connection that asks it.
#[derive(Clone, Debug)]
pub struct QueryContext {
    /// The client's working directory, absolute; a relative `workspaceRoot` is below it.
    pub cwd: PathBuf,
    /// The client's whole environment.
    pub environment: Environment,
    /// The client's file mode mask.
    pub umask: u32,
    /// The connection's roots, absolute.
    pub roots: Vec<PathBuf>,
    /// Folders that hold servers which lspool installed, searched after the client's PATH.
    pub installs: Vec<PathBuf>,
    /// Files outside of their root that an earlier answer named, while the instance that named them lives.
    pub named_files: Arc<BTreeMap<UriKey, NamedFile>>,
    /// The texts that attached editors hold, by document: what `view: "editor"` reads.
    pub editor_texts: Arc<BTreeMap<UriKey, EditorText>>,
}

/// Who named a file outside of its root, such as a library's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// The definition of the instance that named it.
    pub server: String,
    /// The root of that instance, in its own spelling.
    pub root_path: PathBuf,
}

/// A running instance, as far as choosing a server and spelling its root needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningRoot {
    /// The definition that the instance runs by.
    pub server: String,
    /// The identity of its root.
    pub root_key: TargetKey,
    /// Its root as a path, in its own spelling.
    pub root_path: PathBuf,
    /// Its root as a URI, in its own spelling.
    pub root_uri: String,
}

/// All that the core needs to ask a server a query, or to start one first.
#[derive(Clone)]
pub struct Prepared {
    /// The server.
    pub definition: Arc<Definition>,
    /// The root, absolute, in the spelling of an instance that runs there, else as the request spells it.
    pub root_path: PathBuf,
    /// The same as a URI.
    pub root_uri: String,
    /// The identity of the root.
    pub root_key: TargetKey,
    /// The file, absolute, in the spelling of the root.
    pub file_path: PathBuf,
    /// The document's URI for the server, in the spelling of the root.
    pub file_uri: String,
    /// The file's URI as the request spelled it; answers about this file are given under it.
    pub asked_uri: String,
    /// The identity of the file.
    pub file_key: TargetKey,
    /// The `languageId` of the document.
    pub language_id: String,
    /// The text that the query is about: the file's on disk without a byte order mark, or an editor's.
    pub text: Arc<str>,
    /// The id of `text`, made where the text is read so that nobody reads it again.
    pub text_id: TextId,
    /// The editor's text, when the query asked for that view and an editor holds the document.
    pub editor_text: Option<EditorText>,
    /// The fs version of the file when it was read.
    pub file_version: String,
    /// Where the server is asked, in UTF-16, inside `text`.
    pub position: Position,
    /// The identifier there, in the unit of the request.
    pub token: Option<Token>,
    /// How to start the server; `None` where no program is to be had and only the running instance can be asked.
    pub launch: Option<LaunchPlan>,
}

impl fmt::Debug for Prepared {
    /// Without the text.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Prepared")
            .field("definition", &self.definition.id)
            .field("root_path", &self.root_path)
            .field("root_uri", &self.root_uri)
            .field("root_key", &self.root_key)
            .field("file_path", &self.file_path)
            .field("file_uri", &self.file_uri)
            .field("asked_uri", &self.asked_uri)
            .field("file_key", &self.file_key)
            .field("language_id", &self.language_id)
            .field("text", &self.text_id)
            .field("editor_text", &self.editor_text)
            .field("file_version", &self.file_version)
            .field("position", &self.position)
            .field("token", &self.token)
            .field("launch", &self.launch)
            .finish()
    }
}

/// What starts a server, complete but for streams and limits.
#[derive(Clone, Debug)]
pub struct LaunchPlan {
    /// The command line; its program is absolute.
    pub argv: Vec<OsString>,
    /// The working directory: the root.
    pub cwd: PathBuf,
    /// The environment before the scrub.
    pub environment: Environment,
    /// Whether the environment is scrubbed at the spawn.
    pub scrub: bool,
    /// The file mode mask of the client that asks.
    pub umask: u32,
    /// What this launch is told apart from others by.
    pub facts: LaunchFacts,
}
