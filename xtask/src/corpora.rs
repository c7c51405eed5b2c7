//! The two real code bases that the end-to-end suite asks about, fetched at exact versions.
//!
//! Invariant: a code base lies below [`crate::paths::cache`] whole or not at all; tests copy it and never change it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::paths;
use crate::run::{command, copy_folder, say, shown};
use crate::tools::pip_install;

/// The versions of Flask and all that it needs, as the answer key was made with.
const FLASK_PACKAGES: [&str; 7] = [
    "flask==3.1.0",
    "werkzeug==3.1.3",
    "click==8.1.8",
    "jinja2==3.1.5",
    "itsdangerous==2.2.0",
    "markupsafe==3.0.2",
    "blinker==1.9.0",
];

/// A code base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corpus {
    /// Lua 5.4, in C, from the crate `lua-src`.
    Lua,
    /// Flask and its dependencies, in Python.
    Flask,
}

impl Corpus {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Lua, Self::Flask];

    /// Its name in the answer keys.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lua => "lua",
            Self::Flask => "flask",
        }
    }

    /// Where it lies once it was fetched.
    pub fn folder(self) -> PathBuf {
        paths::cache().join("corpora").join(self.name())
    }

    /// Whether it was fetched.
    pub fn is_fetched(self) -> bool {
        self.folder().is_dir()
    }

    /// Fetches it, saying so; quick when it is there already.
    ///
    /// # Errors
    /// When a package client is missing or fails.
    pub fn fetch(self) -> Result<()> {
        if !self.is_fetched() {
            say(&format!("fetching the code base {}", self.name()));
            let parent = paths::cache().join("corpora");
            fs::create_dir_all(&parent)
                .with_context(|| format!("cannot make {}", parent.display()))?;
            let staging =
                tempfile::tempdir_in(&parent).context("cannot make a folder to fetch into")?;
            let staged = match self {
                Self::Lua => fetch_lua(staging.path())?,
                Self::Flask => fetch_flask(staging.path())?,
            };
            fs::rename(&staged, self.folder())
                .with_context(|| format!("cannot move {} into place", staged.display()))?;
        }
        say(&format!(
            "code base {}: {}",
            self.name(),
            self.folder().display()
        ));
        Ok(())
    }
}

/// Fetches the crate through Cargo's own client and takes the folder of the language's version 5.4 out of it.
fn fetch_lua(staging: &Path) -> Result<PathBuf> {
    let scratch = staging.join("scratch");
    fs::create_dir_all(scratch.join("src"))?;
    fs::write(scratch.join("src/lib.rs"), "")?;
    let manifest = "[package]\nname = \"scratch\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
                    [dependencies]\nlua-src = \"=547.0.0\"\n\n[workspace]\n";
    fs::write(scratch.join("Cargo.toml"), manifest)?;
    shown(
        command("cargo")
            .args(["vendor", "--quiet", "vendor"])
            .current_dir(&scratch)
            .stdout(std::process::Stdio::null()),
    )?;
    let crate_folder = scratch.join("vendor/lua-src");
    for entry in fs::read_dir(&crate_folder)
        .with_context(|| format!("cannot list {}", crate_folder.display()))?
    {
        let folder = entry?.path();
        let is_version = folder
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("lua-5.4"));
        if is_version && folder.is_dir() {
            let staged = staging.join("lua");
            copy_folder(&folder, &staged)?;
            return Ok(staged);
        }
    }
    bail!("the crate lua-src has no folder of Lua 5.4")
}

/// Fetches the packages with pip and removes what is not their code.
fn fetch_flask(staging: &Path) -> Result<PathBuf> {
    let staged = staging.join("flask");
    pip_install(&staged, &FLASK_PACKAGES)?;
    for entry in fs::read_dir(&staged)? {
        let folder = entry?.path();
        let name = folder
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        if name.ends_with(".dist-info") || name == "bin" {
            fs::remove_dir_all(&folder)
                .with_context(|| format!("cannot remove {}", folder.display()))?;
        }
    }
    Ok(staged)
}
