//! `cargo xtask ci`: everything that must pass before a change is taken.

use std::time::Instant;

use anyhow::Result;

use crate::run::{command, say, shown, works};
use crate::{demo, paths, setup};

/// Runs all checks in order and stops at the first that fails. The test runner comes last, so that the last line
/// of the output is its own summary.
///
/// # Errors
/// The first check that failed.
pub fn run() -> Result<()> {
    let started = Instant::now();
    let step = |name: &str| say(&format!("\n== {name} ({} s)", started.elapsed().as_secs()));
    step("formatting");
    cargo(&["fmt", "--all", "--check"])?;
    step("what the tests need");
    setup::run()?;
    step("lints");
    cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ])?;
    step("documentation");
    shown(
        cargo_command(&["doc", "--workspace", "--no-deps", "--quiet"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    step("build");
    cargo(&["build", "--workspace", "--all-targets"])?;
    step("demonstration");
    demo::show(&paths::lspool_binary())?;
    step("examples in the documentation");
    cargo(&["test", "--workspace", "--doc", "--quiet"])?;
    step("tests");
    if works("cargo", &["nextest", "--version"]) {
        shown(test_runner().arg("--workspace"))
    } else {
        say("cargo-nextest is not installed, so cargo's own runner runs the tests");
        shown(&mut tests_of(&["test", "--workspace", "--all-targets"]))
    }
}

/// cargo-nextest by the repository's rules; what it runs is for the caller to add.
pub(crate) fn test_runner() -> std::process::Command {
    let mut command = tests_of(&["nextest", "run", "--config-file"]);
    command.arg(paths::repository().join("tests/e2e/nextest.toml"));
    command
}

/// A test runner that uses the binaries that were just built, and is patient with a machine that is busy.
fn tests_of(arguments: &[&str]) -> std::process::Command {
    let mut command = cargo_command(arguments);
    command
        .env("LSPOOL_TEST_BUILD", "never")
        .env("TESTKIT_DEADLINE_MS", "120000");
    command
}

/// Runs a Cargo command in the repository, its output shown.
pub(crate) fn cargo(arguments: &[&str]) -> Result<()> {
    shown(&mut cargo_command(arguments))
}

/// A Cargo command in the repository.
fn cargo_command(arguments: &[&str]) -> std::process::Command {
    let mut command = command("cargo");
    command.args(arguments).current_dir(paths::repository());
    command
}
