//! `lspool-benches [world | proxy | BENCH] [--quick] [--json]`: runs benches and prints what they found.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use lspool_benches::machine::Machine;
use lspool_benches::report::{self, Comparison};
use lspool_benches::{Scale, proxy, world};

/// What is printed when the arguments are not understood.
const USAGE: &str = "\
usage: lspool-benches [world | proxy | BENCH] [--quick] [--json]

  world     files, processes and terminals of the local world
  proxy     messages through lspool to a server
  BENCH     one of them, by the name that the JSON has
            without any of these, all of them
  --quick   a few samples of little work: shows that everything runs, not how fast
  --json    prints JSON instead of a table
";

/// What a run was asked for.
#[derive(Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a word that is there or not"
)]
struct Request {
    world: bool,
    proxy: bool,
    quick: bool,
    json: bool,
    /// The one bench that is wanted.
    only: Option<String>,
}

impl Request {
    /// `None` where an argument is not known.
    fn parse(arguments: &[String]) -> Option<Self> {
        let mut request = Self::default();
        for argument in arguments {
            match argument.as_str() {
                "world" => request.world = true,
                "proxy" => request.proxy = true,
                "--quick" => request.quick = true,
                "--json" => request.json = true,
                bench if world::BENCHES.contains(&bench) => {
                    (request.world, request.only) = (true, Some(bench.to_owned()));
                }
                bench if proxy::BENCHES.contains(&bench) => {
                    (request.proxy, request.only) = (true, Some(bench.to_owned()));
                }
                _ => return None,
            }
        }
        if !request.world && !request.proxy {
            (request.world, request.proxy) = (true, true);
        }
        Some(request)
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(request) = Request::parse(&arguments) else {
        complain(USAGE);
        return ExitCode::from(2);
    };
    let command = ["lspool-benches"]
        .into_iter()
        .chain(arguments.iter().map(String::as_str))
        .collect::<Vec<_>>()
        .join(" ");
    match run(&request, &command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            complain(&format!("lspool-benches: {failure:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(request: &Request, command: &str) -> Result<()> {
    let machine = Machine::here();
    let scale = if request.quick {
        Scale::QUICK
    } else {
        Scale::FULL
    };
    // As many workers as the daemon has.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("no runtime can be made")?;
    let only = request.only.as_deref();
    let mut found: Vec<Comparison> = Vec::new();
    let mut keep = |comparison: Comparison| {
        // A run takes minutes; whoever waits sees that it goes on.
        complain(&format!("measured: {}", comparison.what));
        found.push(comparison);
    };
    if request.world {
        runtime.block_on(world::run(&scale, only, &mut keep))?;
    }
    if request.proxy {
        runtime.block_on(proxy::run(&scale, only, &mut keep))?;
    }
    let text = if request.json {
        serde_json::to_string_pretty(&report::json(&machine, command, &found))?
    } else {
        report::table(&machine, command, &found)
    };
    writeln!(std::io::stdout(), "{text}").context("the report cannot be printed")
}

/// Prints to stderr; a reader that went away is no reason to stop.
fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", text.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Option<Request> {
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        Request::parse(&arguments)
    }

    #[test]
    fn without_a_suite_all_run() {
        let request = parse(&["--quick"]).unwrap();

        assert!(request.world && request.proxy && request.quick && !request.json);
    }

    #[test]
    fn a_suite_is_run_alone() {
        let request = parse(&["world", "--json"]).unwrap();

        assert!(request.world && !request.proxy && request.json);
    }

    #[test]
    fn one_bench_is_run_with_its_suite() {
        let request = parse(&["echo_bulk"]).unwrap();

        assert!(request.proxy && !request.world);
        assert_eq!(request.only.as_deref(), Some("echo_bulk"));
    }

    #[test]
    fn an_unknown_word_is_refused() {
        assert_eq!(parse(&["world", "fast"]), None);
    }
}
