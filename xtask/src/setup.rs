//! `cargo xtask setup`: installs what the tests need.

use anyhow::{Result, bail};

use crate::corpora::Corpus;
use crate::run::{complain, say};
use crate::tools::Tool;

/// Installs every tool and fetches every code base. What is there already is only named.
///
/// # Errors
/// When something is missing in the end. All is tried first, and each thing that failed has its own message, so
/// that a person can mend everything at once.
pub fn run() -> Result<()> {
    say("setup: the language servers and code bases that the tests use");
    let mut missing = Vec::new();
    for tool in Tool::ALL {
        if let Err(failure) = tool.install() {
            complain(&format!("{}: {failure:#}", tool.name()));
            missing.push(tool.name());
        }
    }
    for corpus in Corpus::ALL {
        if let Err(failure) = corpus.fetch() {
            complain(&format!("code base {}: {failure:#}", corpus.name()));
            missing.push(corpus.name());
        }
    }
    if !missing.is_empty() {
        bail!("setup is not complete, see above: {}", missing.join(", "));
    }
    say("setup: done");
    Ok(())
}
