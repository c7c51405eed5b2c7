//! `cargo xtask TASK`: names the tasks and starts one.

use std::process::ExitCode;

/// What `cargo xtask` prints when it is not given a task that it knows.
const USAGE: &str = "\
usage: cargo xtask TASK

  setup   install what the tests need, into a private folder where possible
  demo    build lspool and let it answer questions about a fixture project
  ci      check formatting and lints, set up, build, and run every test
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let task = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["setup"] => xtask::setup::run,
        ["demo"] => xtask::demo::run,
        ["ci"] => xtask::ci::run,
        _ => {
            xtask::run::complain(USAGE);
            return ExitCode::from(2);
        }
    };
    match task() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            xtask::run::complain(&format!("xtask: {failure:#}"));
            ExitCode::FAILURE
        }
    }
}
