//! `lspool`: the faces of the pool of language servers (design §6), and the daemon and guardian behind them.
//!
//! The first argument decides what this process is. Three hidden ones are for lspool's own starts; everything else is a
//! person's command line.

mod cli;
mod config;
mod daemon;
mod defaults;
mod face;
mod guardian;
mod hello;
mod local;
mod methods;
mod serve;
mod standard_streams;
mod system;

use std::ffi::OsString;
use std::process::ExitCode;

use local::binary;

fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match arguments.first().and_then(|first| first.to_str()) {
        Some(binary::DETACH) => guardian::detached::detach(),
        Some(binary::GUARDIAN) => guardian::guard_daemon(),
        Some(binary::GUARDED) => {
            let rest = arguments.split_off(2.min(arguments.len()));
            let guardian = arguments
                .get(1)
                .and_then(|pid| pid.to_str())
                .and_then(|pid| pid.parse().ok());
            match guardian {
                Some(guardian) => run_guarded(guardian, &rest),
                None => ExitCode::from(cli::code::USAGE),
            }
        }
        _ => cli::run(&arguments, None),
    }
}

fn run_guarded(guardian: u32, arguments: &[OsString]) -> ExitCode {
    guardian::accept_guard(guardian);
    if arguments
        .first()
        .is_some_and(|first| first == binary::DAEMON)
    {
        return daemon::run_for_face(guardian);
    }
    cli::run(arguments, Some(guardian))
}
