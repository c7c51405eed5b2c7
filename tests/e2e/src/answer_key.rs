//! Questions about a project with the answers that a person made by reading it.
//!
//! The keys lie in `tests/e2e/keys/`, one file a project. Positions are zero-based and columns count UTF-16 code
//! units, as everywhere in the protocol. Invariant: a key that does not parse, or has no question, is an error and
//! never an empty suite.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use xtask::projects::Project;

use crate::places::Place;

/// All questions about one project.
#[derive(Debug, Deserialize)]
pub struct AnswerKey {
    /// The project's name, which [`Project::from_name`] knows.
    #[serde(rename = "corpus")]
    pub project: String,
    /// The server that an editor starts for it, with its arguments.
    pub server: ServerLine,
    /// The questions, at least one.
    #[serde(rename = "queries")]
    pub questions: Vec<Question>,
}

/// How an editor starts the server.
#[derive(Debug, Deserialize)]
pub struct ServerLine {
    /// The program, by name, and its arguments.
    pub command: Vec<String>,
}

/// What is asked.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Where it is defined.
    Definition,
    /// Where it is named, its declaration included.
    References,
    /// What implements it.
    Implementation,
    /// What it is.
    Hover,
}

impl Operation {
    /// Its name on the command line: `lspool query NAME`.
    pub fn command(self) -> &'static str {
        match self {
            Self::Definition => "definition",
            Self::References => "references",
            Self::Implementation => "implementation",
            Self::Hover => "hover",
        }
    }

    /// Its name in the method `lspool/query`.
    pub fn query_name(self) -> &'static str {
        match self {
            Self::Definition => "goToDefinition",
            Self::References => "findReferences",
            Self::Implementation => "goToImplementation",
            Self::Hover => "hover",
        }
    }

    /// The method that an editor sends.
    pub fn method(self) -> &'static str {
        match self {
            Self::Definition => "textDocument/definition",
            Self::References => "textDocument/references",
            Self::Implementation => "textDocument/implementation",
            Self::Hover => "textDocument/hover",
        }
    }
}

/// One question with its answer.
#[derive(Debug, Deserialize)]
pub struct Question {
    /// Its name in messages.
    pub id: String,
    /// What is asked.
    #[serde(rename = "op")]
    pub operation: Operation,
    /// The file, relative to the project's root.
    pub file: String,
    /// The zero-based line.
    pub line: u32,
    /// The zero-based column in UTF-16 code units.
    pub character: u32,
    /// The identifier that stands there.
    pub symbol: String,
    /// The text of the line, without the blanks at its ends.
    pub line_text: String,
    /// Every place of the answer; for [`Operation::Hover`] absent.
    expect: Option<Vec<Place>>,
    /// What the hover text must hold.
    expect_text: Option<Vec<String>>,
    /// The code of the error that is the right answer.
    expect_error: Option<String>,
}

/// The right answer to a question.
#[derive(Debug, PartialEq, Eq)]
pub enum Expected<'a> {
    /// Exactly these places, in any order.
    Places(Vec<&'a Place>),
    /// A text that holds all of these.
    Texts(&'a [String]),
    /// An error of this code.
    Error(&'a str),
}

impl Question {
    /// Its right answer.
    ///
    /// # Panics
    /// Never for a key that [`AnswerKey::load`] gave: it refuses a question with no answer or with several.
    pub fn expected(&self) -> Expected<'_> {
        match (&self.expect, &self.expect_text, &self.expect_error) {
            (Some(places), None, None) => Expected::Places(places.iter().collect()),
            (None, Some(texts), None) => Expected::Texts(texts),
            (None, None, Some(code)) => Expected::Error(code),
            _ => unreachable!("question {} was loaded without one answer", self.id),
        }
    }

    /// `FILE:LINE:COLUMN` as the command line takes it, one-based.
    pub fn one_based(&self) -> String {
        format!("{}:{}:{}", self.file, self.line + 1, self.character + 1)
    }
}

impl AnswerKey {
    /// Reads the key of a project.
    ///
    /// # Errors
    /// When the file is missing, is not a key, has no question, or a question has no answer or several.
    pub fn load(project: Project) -> Result<Self> {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("keys")
            .join(format!("{}.json", project.name()));
        let text =
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let key: Self = serde_json::from_str(&text)
            .with_context(|| format!("{} is not an answer key", file.display()))?;
        ensure!(
            key.project == project.name(),
            "{} is the key of {}",
            file.display(),
            key.project
        );
        ensure!(
            !key.questions.is_empty(),
            "{} has no question",
            file.display()
        );
        for question in &key.questions {
            let is_hover = question.operation == Operation::Hover;
            match (
                &question.expect,
                &question.expect_text,
                &question.expect_error,
            ) {
                (Some(places), None, None) if !places.is_empty() && !is_hover => {}
                (None, Some(texts), None) if !texts.is_empty() && is_hover => {}
                (None, None, Some(_)) => {}
                _ => bail!(
                    "question {} of {} must have exactly one answer",
                    question.id,
                    file.display()
                ),
            }
        }
        Ok(key)
    }

    /// The question of this name.
    pub fn question(&self, id: &str) -> Option<&Question> {
        self.questions.iter().find(|question| question.id == id)
    }
}
