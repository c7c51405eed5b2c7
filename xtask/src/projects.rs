//! Projects to ask about, laid out fresh in a folder of the caller's: the small fixtures and the code bases.
//!
//! A layout is always a copy, so that what a server writes beside the sources (clangd's index) neither reaches the
//! repository nor makes a later cold start warm. Invariant: a laid-out project has all the files that its server
//! needs to find every other file of it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::json;

use crate::corpora::Corpus;
use crate::paths;
use crate::run::copy_folder;
use crate::tools::Tool;

/// A project with known answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Project {
    /// The fixture in C and C++.
    C,
    /// The fixture in Python.
    Python,
    /// The fixture in Rust.
    Rust,
    /// The fixture in TypeScript.
    Typescript,
    /// A real code base.
    Corpus(Corpus),
}

impl Project {
    /// The project that an answer key names.
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [Self::C, Self::Python, Self::Rust, Self::Typescript];
        all.into_iter()
            .chain(Corpus::ALL.map(Self::Corpus))
            .find(|project| project.name() == name)
    }

    /// Its name in the answer keys.
    pub fn name(self) -> &'static str {
        match self {
            Self::C => "c",
            Self::Python => "python",
            Self::Rust => "rust",
            Self::Typescript => "typescript",
            Self::Corpus(corpus) => corpus.name(),
        }
    }

    /// The language server that answers about it.
    pub fn tool(self) -> Tool {
        match self {
            Self::C | Self::Corpus(Corpus::Lua) => Tool::Clangd,
            Self::Python | Self::Corpus(Corpus::Flask) => Tool::Pyright,
            Self::Rust => Tool::RustAnalyzer,
            Self::Typescript => Tool::TypescriptLanguageServer,
        }
    }

    /// Where its sources lie; they are to be copied and not to be worked in.
    pub fn sources(self) -> PathBuf {
        match self {
            Self::Corpus(corpus) => corpus.folder(),
            fixture => paths::fixture_projects().join(fixture.name()),
        }
    }

    /// Copies it into `folder`, which is made, and writes the files that depend on where it lies.
    ///
    /// # Errors
    /// When a code base was not fetched (`cargo xtask setup` does it), or a file cannot be copied or written.
    pub fn lay_out(self, folder: &Path) -> Result<()> {
        if !self.sources().is_dir() {
            bail!(
                "the code base {} was not fetched: run `cargo xtask setup`",
                self.name()
            );
        }
        copy_folder(&self.sources(), folder)?;
        match self {
            Self::C => write_compile_commands(folder, &["src"], &|file| {
                if file.extension().is_some_and(|extension| extension == "c") {
                    vec!["cc", "-std=c11", "-Iinclude"]
                } else {
                    vec!["c++", "-std=c++17", "-Iinclude"]
                }
            }),
            Self::Corpus(Corpus::Lua) => write_compile_commands(folder, &["."], &|_| {
                vec!["cc", "-std=gnu99", "-DLUA_USE_LINUX", "-DLUA_COMPAT_5_3"]
            }),
            Self::Corpus(Corpus::Flask) => {
                let settings = json!({
                    "include": ["."],
                    "pythonVersion": "3.11",
                    "typeCheckingMode": "off",
                    "useLibraryCodeForTypes": true,
                });
                write(
                    &folder.join("pyrightconfig.json"),
                    &format!("{settings:#}\n"),
                )
            }
            Self::Python | Self::Rust | Self::Typescript => Ok(()),
        }
    }
}

/// Writes `compile_commands.json` with one entry for each C or C++ file in `source_folders`.
///
/// It is generated because its `directory` must be absolute: clangd indexes nothing in the background without it.
fn write_compile_commands(
    folder: &Path,
    source_folders: &[&str],
    compiler: &dyn Fn(&Path) -> Vec<&'static str>,
) -> Result<()> {
    let mut files = Vec::new();
    for source_folder in source_folders {
        let listed = folder.join(source_folder);
        for entry in
            fs::read_dir(&listed).with_context(|| format!("cannot list {}", listed.display()))?
        {
            let name = PathBuf::from(entry?.file_name());
            if name
                .extension()
                .is_some_and(|extension| extension == "c" || extension == "cpp")
            {
                files.push(if *source_folder == "." {
                    name
                } else {
                    Path::new(source_folder).join(name)
                });
            }
        }
    }
    files.sort();
    let commands: Vec<_> = files
        .iter()
        .map(|file| {
            let name = file.to_string_lossy();
            let mut arguments = compiler(file);
            arguments.extend(["-c", &name]);
            json!({ "directory": folder, "file": name, "command": arguments.join(" ") })
        })
        .collect();
    write(
        &folder.join("compile_commands.json"),
        &format!("{:#}\n", serde_json::Value::Array(commands)),
    )
}

/// Writes one file.
fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}
