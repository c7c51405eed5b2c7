//! Running other programs, and saying so.
//!
//! Invariant: a program that fails is never silent; its command line is in the error.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// Prints one line for the person who watches, on stdout.
///
/// A reader that went away is no reason to stop a task, so a failed write is ignored.
pub fn say(line: &str) {
    let mut output = std::io::stdout().lock();
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}

/// Prints one line about a failure, on stderr; a failed write is ignored as in [`say`].
pub fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// A command without a standard input, since no task may wait for a person.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}

/// The command as a person would type it, for messages.
pub fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Says the command, runs it with its output shown, and waits for it.
///
/// # Errors
/// When it cannot be started or does not end with 0.
pub fn shown(command: &mut Command) -> Result<()> {
    let line = command_line(command);
    say(&format!("$ {line}"));
    let status = command
        .status()
        .with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed: {status}");
    }
    Ok(())
}

/// Runs a command and gives its standard output; its standard error is part of the error when it fails.
///
/// # Errors
/// When it cannot be started, does not end with 0, or prints something that is not UTF-8.
pub fn captured(command: &mut Command) -> Result<String> {
    let line = command_line(command);
    let output = command
        .output()
        .with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{line}` failed: {}\n{}", output.status, said.trim_end());
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("`{line}` printed bytes that are not UTF-8"))
}

/// Whether a program of this name can be started and ends with 0 for the given arguments.
///
/// A file on PATH is not enough: rustup installs a `rust-analyzer` that only says that it has none.
pub fn works(program: impl AsRef<OsStr>, arguments: &[&str]) -> bool {
    let mut command = command(program);
    command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Copies a folder with all that is in it; links are followed.
///
/// # Errors
/// When something cannot be read or written, with its path.
pub fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in
        std::fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))?
    {
        let source = entry
            .with_context(|| format!("cannot list {}", from.display()))?
            .path();
        let Some(name) = source.file_name() else {
            continue;
        };
        let destination = to.join(name);
        if source.is_dir() {
            copy_folder(&source, &destination)?;
        } else {
            std::fs::copy(&source, &destination).with_context(|| {
                format!(
                    "cannot copy {} to {}",
                    source.display(),
                    destination.display()
                )
            })?;
        }
    }
    Ok(())
}
