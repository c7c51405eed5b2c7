//! Owns the description of a program to start.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// A program to start: its words, its folder and its whole environment (nothing is inherited).
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// The folder that it starts in.
    pub cwd: PathBuf,
    /// Its environment.
    pub environment: Vec<(OsString, OsString)>,
}

impl Launch {
    /// A launch of `program` without arguments.
    pub fn new(
        program: impl AsRef<OsStr>,
        cwd: &Path,
        environment: Vec<(OsString, OsString)>,
    ) -> Self {
        Self {
            argv: vec![program.as_ref().to_owned()],
            cwd: cwd.to_owned(),
            environment,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.argv.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.argv.extend(
            arguments
                .into_iter()
                .map(|argument| argument.as_ref().to_owned()),
        );
        self
    }

    /// Sets a variable of the environment.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.retain(|(other, _)| other != name.as_ref());
        self.environment
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Starts in another folder.
    #[must_use]
    pub fn current_dir(mut self, folder: &Path) -> Self {
        folder.clone_into(&mut self.cwd);
        self
    }
}
