//! Owns the one error type of the kit and the deadline that every wait has.

use std::fmt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use thiserror::Error;

/// How long any wait of the kit lasts at most: 30 s, or what the variable `TESTKIT_DEADLINE_MS` says.
pub fn deadline() -> Duration {
    static DEADLINE: OnceLock<Duration> = OnceLock::new();
    *DEADLINE.get_or_init(|| {
        let milliseconds = std::env::var("TESTKIT_DEADLINE_MS")
            .ok()
            .and_then(|value| value.parse().ok());
        Duration::from_millis(milliseconds.unwrap_or(30_000))
    })
}

/// Why the kit could not do what a test asked. Its `Debug` is its `Display`, so that `unwrap` in a test
/// prints text for people.
#[derive(Error)]
pub enum KitError {
    /// `KIT_START`: a program could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// `KIT_FILE`: a file or folder of the test could not be used.
    #[error("{}: {source}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// `KIT_BUILD`: a binary that the test needs could not be built or found.
    #[error("no binary {name}: {reason}")]
    Build {
        /// The binary's name.
        name: String,
        /// Why.
        reason: String,
    },
    /// `KIT_TIMEOUT`: what was waited for did not come in time.
    #[error("waited {waited:?} for {what}\n{account}")]
    Timeout {
        /// What was waited for.
        what: String,
        /// How long.
        waited: Duration,
        /// What had come instead.
        account: String,
    },
    /// `KIT_STREAM_ENDED`: the peer's output ended before what was waited for came.
    #[error("the peer's output ended ({ending}) while waiting for {what}\n{account}")]
    StreamEnded {
        /// What was waited for.
        what: String,
        /// How it ended.
        ending: String,
        /// What had come instead.
        account: String,
    },
    /// `KIT_DECODE`: a message does not have the shape that the test asked for.
    #[error("{what}: {reason}; it is {text}")]
    Decode {
        /// What was decoded.
        what: String,
        /// Why it does not fit.
        reason: String,
        /// The text.
        text: String,
    },
    /// `KIT_ERROR_ANSWER`: an answer is an error where the test asked for a result.
    #[error("the answer to {id} is the error {error}")]
    ErrorAnswer {
        /// The raw JSON of the id.
        id: String,
        /// The raw JSON of the error.
        error: String,
    },
    /// `KIT_OUTBOX_FULL`: the peer does not read, and what waits to be written has reached the limit.
    #[error("{bytes} bytes wait to be written and the peer does not read")]
    OutboxFull {
        /// How many bytes wait.
        bytes: usize,
    },
    /// `KIT_INPUT_CLOSED`: the peer's input is closed.
    #[error("the peer's input is closed: {reason}")]
    InputClosed {
        /// By whom or why.
        reason: String,
    },
}

impl KitError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Start { .. } => "KIT_START",
            Self::File { .. } => "KIT_FILE",
            Self::Build { .. } => "KIT_BUILD",
            Self::Timeout { .. } => "KIT_TIMEOUT",
            Self::StreamEnded { .. } => "KIT_STREAM_ENDED",
            Self::Decode { .. } => "KIT_DECODE",
            Self::ErrorAnswer { .. } => "KIT_ERROR_ANSWER",
            Self::OutboxFull { .. } => "KIT_OUTBOX_FULL",
            Self::InputClosed { .. } => "KIT_INPUT_CLOSED",
        }
    }
}

impl fmt::Debug for KitError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {self}", self.code())
    }
}
