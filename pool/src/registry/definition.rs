//! What is known of one language server before it runs.
//!
//! Everything here is data that the core, the edge and the query pipeline read; nothing here decides.
//! A definition is complete: every value has been set by the built-in table, by a configuration file, or
//! by the default that [`super::decode`] names, so no reader needs a default of its own (design §1.11).

use std::fmt;

use globset::GlobMatcher;
use regex::Regex;
use serde_json::{Map, Value};

/// One language server: how it is started, what it serves and how it shows that it is ready.
#[derive(Clone)]
pub struct Definition {
    /// Stable name, as in `envelope.servers`, `status` and the configuration.
    pub id: String,
    /// Command lines in order of preference; the first whose program can be resolved is used. Never
    /// empty, and no command line is empty.
    pub commands: Vec<Vec<String>>,
    /// The languages served, with the names of their files.
    pub languages: Vec<Language>,
    /// How the root of a file is found, in order of preference: the first rule that finds one wins.
    pub root_markers: Vec<RootRule>,
    /// Files which, when they stand in the root found or between it and the asked file, say that this server
    /// is not the one for it (`deno.json` for the TypeScript server).
    pub yields_to: Vec<String>,
    /// How the server shows that its index is complete.
    pub readiness: Readiness,
    /// Answers to `workspace/configuration` where no client gave one: an object keyed by section.
    pub settings: Map<String, Value>,
    /// `initializationOptions` of a server that a query starts; `None` sends no such member.
    pub initialization_options: Option<Value>,
    /// Milliseconds that a start may take before a query without `timeoutMs` gives up.
    pub startup_ms: u32,
    /// Bytes up to which a document is opened for a query, inclusive.
    pub max_document_bytes: u64,
    /// Whether the server answers definition, references, implementation and hover. One that does not is
    /// never asked a query and never stands in the way of one that does.
    pub navigation: bool,
    /// Names of variables that distinguish two instances, in addition to the common ones. One `*`
    /// stands for any text.
    pub identity_env: Vec<String>,
    /// Whether the server gets the scrubbed or the whole environment when a query starts it.
    pub environment: EnvironmentRule,
    /// How a person gets the server, one hint a package manager.
    pub install: Vec<InstallHint>,
    /// Paths, relative to the root, whose files are generated.
    pub generated: Vec<PathPattern>,
}

/// A definition is known by its id; its patterns would drown whatever is printed around them.
impl fmt::Debug for Definition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Definition").field(&self.id).finish()
    }
}

impl Definition {
    /// The language of that identifier, when the server serves it.
    pub fn language(&self, id: &str) -> Option<&Language> {
        self.languages.iter().find(|language| language.id == id)
    }

    /// Whether a path relative to the root, with `/` between its parts, names a generated file.
    pub fn is_generated_path(&self, relative: &str) -> bool {
        self.generated
            .iter()
            .any(|pattern| pattern.matches(relative))
    }

    /// The value that answers `workspace/configuration` for a dotted `section`, `None` where nothing is
    /// known; an absent section asks for all settings.
    pub fn setting(&self, section: Option<&str>) -> Option<Value> {
        let Some(section) = section.filter(|section| !section.is_empty()) else {
            return (!self.settings.is_empty()).then(|| Value::Object(self.settings.clone()));
        };
        let mut parts = section.split('.');
        let mut value = self.settings.get(parts.next()?)?;
        for part in parts {
            value = value.get(part)?;
        }
        Some(value.clone())
    }
}

/// One language of a server, and how its files are told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Language {
    /// The identifier sent as `languageId` (`cpp`, `typescriptreact`).
    pub id: String,
    /// Endings after the last dot, without the dot; one that is equal with its case wins over one that is not.
    pub extensions: Vec<String>,
    /// Whole file names (`Makefile`).
    pub file_names: Vec<String>,
    /// Patterns over the path or, without a `/`, over the file name (`*.html.erb`).
    pub patterns: Vec<PathPattern>,
    /// Programs on the first line of a script, without version (`python`).
    pub interpreters: Vec<String>,
}

/// A glob over a path, kept with its text for display and for the rule that the longest wins.
#[derive(Clone, Debug)]
pub struct PathPattern {
    text: String,
    matcher: GlobMatcher,
}

impl PathPattern {
    /// Compiles `text`. A pattern without `/` is matched against the last part of a path; `*` does not
    /// cross a `/`, `**` does.
    ///
    /// # Errors
    /// The compiler's own sentence when the pattern is malformed.
    pub fn new(text: &str) -> Result<Self, String> {
        globset::GlobBuilder::new(text)
            .literal_separator(true)
            .build()
            .map(|glob| Self {
                text: text.to_owned(),
                matcher: glob.compile_matcher(),
            })
            .map_err(|error| error.kind().to_string())
    }

    /// The pattern as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether `path`, its parts parted by `/`, is matched.
    pub fn matches(&self, path: &str) -> bool {
        let subject = if self.text.contains('/') {
            path
        } else {
            path.rsplit('/').next().unwrap_or(path)
        };
        self.matcher.is_match(subject)
    }
}

impl PartialEq for PathPattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for PathPattern {}

/// One step of finding a root: folders above the file that hold one of some markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootRule {
    /// Files or folders, relative to the candidate folder; any one of them suffices. `*` is not expanded.
    pub markers: Vec<String>,
    /// Which of several folders is taken.
    pub pick: RootPick,
}

/// Which of the folders that hold a marker becomes the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootPick {
    /// The one nearest to the file.
    Nearest,
    /// The one nearest to the top.
    Outermost,
    /// The nearest, hoisted to the Cargo workspace that it belongs to: the nearest folder above whose
    /// `Cargo.toml` has a `[workspace]` that does not exclude it.
    CargoWorkspace,
}

/// Which environment a server gets that a query starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvironmentRule {
    /// Without credential-shaped names and the managed namespace (design §3).
    Scrub,
    /// As the client has it.
    Full,
}

/// One way to get a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallHint {
    /// The package manager, or `source` for a tool chain's own command.
    pub manager: String,
    /// The command that a person types.
    pub command: String,
}

/// How a server shows that its index is complete, as data for the readiness machine of the core.
///
/// Times count from the first `didOpen`, because several servers start no work earlier. A rule with a
/// signal (`progress_tokens`, `server_status` or `log_patterns`) is ready at that signal; if no sign of
/// it came within `start_grace_ms` the server settles as one without a rule does.
#[derive(Clone, Debug)]
pub struct Readiness {
    /// Work-done progress that stands for indexing: ready when one of them began and all have ended.
    pub progress_tokens: Vec<TokenRule>,
    /// Ready when `experimental/serverStatus` says `quiescent: true`.
    pub server_status: bool,
    /// Ready when the text of a `window/logMessage` matches one of these.
    pub log_patterns: Vec<Regex>,
    /// Milliseconds to wait for the first sign of the signal.
    pub start_grace_ms: u32,
    /// Milliseconds without progress and without diagnostics after which the server counts as settled.
    pub settle_ms: u32,
    /// Milliseconds after which a server without signal counts as settled whatever it sends.
    pub settle_max_ms: u32,
}

impl Readiness {
    /// Whether the rule names a signal, so that readiness can be `signal` and not only `settled`.
    pub fn has_signal(&self) -> bool {
        self.server_status || !self.progress_tokens.is_empty() || !self.log_patterns.is_empty()
    }

    /// Whether a progress of that token (numbers as decimal text) and title stands for indexing.
    pub fn is_indexing_progress(&self, token: &str, title: &str) -> bool {
        self.progress_tokens
            .iter()
            .any(|rule| rule.matches(token, title))
    }

    /// Whether a log message says that the index is complete.
    pub fn is_ready_message(&self, message: &str) -> bool {
        self.log_patterns
            .iter()
            .any(|pattern| pattern.is_match(message))
    }
}

/// Which work-done progress stands for indexing.
#[derive(Clone, Debug)]
pub enum TokenRule {
    /// The progress token is exactly this.
    Token(String),
    /// The progress token begins with this.
    TokenPrefix(String),
    /// The title of the progress's `begin` begins with this.
    TitlePrefix(String),
    /// The title of the progress's `begin` matches this.
    TitlePattern(Regex),
}

impl TokenRule {
    /// Whether a progress of that token (numbers as decimal text) and title is meant.
    pub fn matches(&self, token: &str, title: &str) -> bool {
        match self {
            Self::Token(expected) => token == expected,
            Self::TokenPrefix(prefix) => token.starts_with(prefix.as_str()),
            Self::TitlePrefix(prefix) => title.starts_with(prefix.as_str()),
            Self::TitlePattern(pattern) => pattern.is_match(title),
        }
    }
}
