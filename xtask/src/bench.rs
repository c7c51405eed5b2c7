//! `cargo xtask bench`: builds the benches with optimisations and runs them.
//!
//! They are numbers for people: no check passes or fails by them. That they run at all, a test of their own crate shows.

use anyhow::Result;

use crate::paths;
use crate::run::{command, shown};

/// Builds what the benches start, and runs them with the given words (see `benches/src/main.rs`).
///
/// # Errors
/// A build that fails, or a bench that does not run to its end.
pub fn run(words: &[&str]) -> Result<()> {
    let mut build = command("cargo");
    build
        .args(["build", "--release"])
        .args(["--package", "lspool-benches"])
        .args(["--package", "lspool"])
        .args(["--package", "lspool-scripted-server"])
        .current_dir(paths::repository());
    shown(&mut build)?;
    let mut benches = command(paths::target().join("release/lspool-benches"));
    // What was built just now is up to date.
    benches.args(words).env("LSPOOL_TEST_BUILD", "never");
    shown(&mut benches)
}
