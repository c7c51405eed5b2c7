//! `cargo xtask TASK`: names the tasks and starts one.

use std::process::ExitCode;

use xtask::flake::Plan;

/// What `cargo xtask` prints when it is not given a task that it knows.
const USAGE: &str = "\
usage: cargo xtask TASK

  setup             install what the tests need, into a private folder where possible
  demo              build lspool and let it answer questions about a fixture project
  ci                check formatting and lints, set up, build, and run every test
  flake CRATE N     run the tests of a crate N times with four test threads for each core,
                    and say which failed; what follows `--` goes to cargo nextest
  bench [world | proxy | BENCH] [--quick] [--json]
                    measure lspool beside its peers, with optimisations
  sanitize [address | thread | miri]
                    run tests under tools that see wrong uses of memory and races
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["setup"] => xtask::setup::run(),
        ["demo"] => xtask::demo::run(),
        ["ci"] => xtask::ci::run(),
        ["flake", ref words @ ..] => match Plan::parse(words) {
            Ok(plan) => plan.run(),
            Err(problem) => return misused(&problem),
        },
        ["bench", ref words @ ..] => xtask::bench::run(words),
        ["sanitize", ref words @ ..] => xtask::sanitize::run(words),
        _ => return misused("that is no task"),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            xtask::run::complain(&format!("xtask: {failure:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Says what is wrong with the command line, and what can be asked for.
fn misused(problem: &str) -> ExitCode {
    xtask::run::complain(&format!("xtask: {problem}\n\n{USAGE}"));
    ExitCode::from(2)
}
