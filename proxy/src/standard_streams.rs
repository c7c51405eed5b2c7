//! The three standard descriptors of a process of lspool: lines for the person on stderr, and pointing descriptors
//! elsewhere.
//!
//! stdout carries results or the protocol and nothing else; every other word goes through [`complain`].

use std::fs::File;
use std::io::{self, Write as _};

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout};

/// Writes one line to stderr. A stderr that is gone is no reason to fail.
pub(crate) fn complain(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Writes results to stdout; an error is that nobody reads them any more.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Points stdin and stdout at nothing, so that the pipes behind them end with whoever else has them.
pub(crate) fn silence_input_and_output() -> io::Result<()> {
    let nothing = nothing()?;
    dup2_stdin(&nothing)?;
    dup2_stdout(&nothing)?;
    Ok(())
}

/// Points all three at nothing.
pub(crate) fn silence() -> io::Result<()> {
    silence_input_and_output()?;
    dup2_stderr(nothing()?)?;
    Ok(())
}

fn nothing() -> io::Result<File> {
    Ok(open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())?.into())
}

/// This process's file mode creation mask. Reading it means setting it for a moment, so this is for a process that has
/// not yet made a file in another thread.
pub(crate) fn file_mask() -> u32 {
    let mask = nix::sys::stat::umask(Mode::from_bits_truncate(0o077));
    nix::sys::stat::umask(mask);
    mask.bits()
}
