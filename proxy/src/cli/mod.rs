//! The command line: what it accepts, and the exit code of each command.
//!
//! stdout carries results and nothing else. Codes: 0 done, 1 a negative answer, 2 usage, 70 a lost daemon; `query` adds
//! 3 for an answer that is not complete and 4 for a missing server.

mod query;
mod refusal;
mod status;
mod stop;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use lspool_normalize::RpcError;

use crate::daemon;
use crate::defaults::{ACKNOWLEDGEMENT_TIMEOUT, METHODS_VERSION, SOCKET_PROTOCOL};
use crate::face::client::{CallError, MethodClient};
use crate::face::{AttachError, How, shim};
use crate::guardian;
use crate::hello::{HelloFace, OsText};
use crate::standard_streams::{complain, print};

/// One pool of language servers, shared by editors and agents.
///
/// `lspool -- SERVER ARGS…` stands in for the server in an editor's configuration. `lspool query` asks from the shell.
#[derive(Debug, Parser)]
#[command(
    name = "lspool",
    disable_version_flag = true,
    args_conflicts_with_subcommands = false
)]
pub(crate) struct Cli {
    /// Run everything in this process and its guardian, without the shared daemon.
    #[arg(long, global = true)]
    no_daemon: bool,

    /// Print the versions of lspool, of its socket and of its methods, and the daemon's where one runs.
    #[arg(long, short = 'V')]
    version: bool,

    #[command(subcommand)]
    command: Option<Command>,

    /// A language server and its arguments, after `--`: speak LSP on stdin and stdout in its place.
    #[arg(last = true, value_name = "SERVER")]
    server: Vec<OsString>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Ask a language server about a place in a file.
    Query(query::QueryArgs),
    /// Open a connection without a fixed server on stdin and stdout, for agent harnesses.
    Connect(ConnectArgs),
    /// Show what runs and who is attached; starts nothing.
    Status(StatusArgs),
    /// End the daemon and everything that it runs, or one server.
    Stop(stop::StopArgs),
    /// Run the daemon, which otherwise starts by itself when it is needed.
    Daemon(DaemonArgs),
}

#[derive(Debug, Args)]
struct ConnectArgs {
    /// The execution world; `local` is this machine.
    #[arg(long, value_name = "WORLD")]
    world: Option<String>,
    /// The workspace root of the connection.
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct StatusArgs {
    /// Print the whole status as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct DaemonArgs {
    /// Stay in the foreground: for a service manager.
    #[arg(long, required = true)]
    foreground: bool,
}

/// An exit code and what it means.
pub(crate) mod code {
    /// Done, or there are answers.
    pub(crate) const DONE: u8 = 0;
    /// A negative answer.
    pub(crate) const NEGATIVE: u8 = 1;
    /// The command line, or what it names, is wrong.
    pub(crate) const USAGE: u8 = 2;
    /// The answer is not complete.
    pub(crate) const INCOMPLETE: u8 = 3;
    /// There is no server for the file.
    pub(crate) const SERVER_MISSING: u8 = 4;
    /// The daemon is lost or cannot be had.
    pub(crate) const DAEMON_LOST: u8 = 70;
}

/// Runs the command line. `guardian` is the process id of this process's guardian, if it has one.
pub(crate) fn run(arguments: &[OsString], guardian: Option<u32>) -> ExitCode {
    let cli = Cli::parse_from(std::iter::once("lspool".into()).chain(arguments.iter().cloned()));
    if cli.version {
        return version();
    }
    let is_foreground_daemon = matches!(cli.command, Some(Command::Daemon(_)));
    let needs_session = match cli.command {
        Some(Command::Query(_) | Command::Connect(_)) => true,
        Some(_) => false,
        None => !cli.server.is_empty(),
    };
    match guardian {
        // This process becomes the guardian of one that does the work.
        None if is_foreground_daemon || (cli.no_daemon && needs_session) => {
            guardian::guard(arguments, is_foreground_daemon)
        }
        None => dispatch(cli, How::Shared, None),
        Some(guardian) => dispatch(cli, How::InProcess { guardian }, Some(guardian)),
    }
}

fn dispatch(cli: Cli, how: How, guardian: Option<u32>) -> ExitCode {
    match cli.command {
        None if cli.server.is_empty() => {
            print_usage();
            ExitCode::from(code::USAGE)
        }
        None => attach(shim::server_face(cli.server), how),
        Some(_) if !cli.server.is_empty() => usage("a server after `--` goes with no command"),
        Some(Command::Connect(arguments)) => match harness_face(arguments.root, arguments.world) {
            Ok(face) => attach(face, how),
            Err(message) => usage(&message),
        },
        Some(Command::Query(arguments)) => query::run(&arguments, how),
        Some(Command::Status(arguments)) => status::run(arguments.json),
        Some(Command::Stop(arguments)) => stop::run(&arguments),
        Some(Command::Daemon(_)) => match guardian {
            Some(guardian) => daemon::run_in_foreground(guardian),
            None => usage("the daemon runs below its guardian"),
        },
    }
}

fn attach(face: HelloFace, how: How) -> ExitCode {
    match shim::run(face, how) {
        // A code of the protocol's own range; what a shell cannot show is an internal failure.
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(code::DAEMON_LOST)),
        Err(error) => not_attached(&error),
    }
}

fn version() -> ExitCode {
    let daemon = match MethodClient::open(
        connect_face(),
        How::SharedIfRunning,
        ACKNOWLEDGEMENT_TIMEOUT,
    ) {
        Ok(client) => {
            let (pid, version) = client.daemon();
            let line = format!("{version} (process {pid})");
            client.close();
            line
        }
        Err(CallError::Attach(AttachError::NotRunning)) => "not running".to_owned(),
        Err(error) => format!("not asked: {error}"),
    };
    let text = format!(
        "lspool {}\nsocket protocol {SOCKET_PROTOCOL}\ncustom methods {METHODS_VERSION}\ndaemon {daemon}\n",
        env!("CARGO_PKG_VERSION")
    );
    printed(&text, code::DONE)
}

/// Prints results; a stdout that nobody reads any more is as good as read.
fn printed(text: &str, code: u8) -> ExitCode {
    let _ = print(text);
    ExitCode::from(code)
}

fn print_usage() {
    let help = Cli::command().render_help();
    complain(&help.to_string());
}

fn usage(message: &str) -> ExitCode {
    complain(&format!("lspool: {message}"));
    ExitCode::from(code::USAGE)
}

fn not_attached(error: &AttachError) -> ExitCode {
    complain(&format!("lspool: {error}"));
    ExitCode::from(code::DAEMON_LOST)
}

/// What is said and answered when a method failed; the codes of a wrong request are usage.
fn failed(error: &CallError, of_method: impl Fn(&RpcError) -> u8) -> ExitCode {
    match error {
        CallError::Method(refused) => {
            complain(&format!("lspool: {}", refusal::for_people(refused)));
        }
        CallError::Attach(_) | CallError::Lost(_) => complain(&format!("lspool: {error}")),
    }
    ExitCode::from(match error {
        CallError::Attach(_) | CallError::Lost(_) => code::DAEMON_LOST,
        CallError::Method(error) => of_method(error),
    })
}

fn connect_face() -> HelloFace {
    HelloFace::Harness {
        root: None,
        world: None,
    }
}

fn harness_face(root: Option<PathBuf>, world: Option<String>) -> Result<HelloFace, String> {
    let root = root
        .map(|root| {
            std::path::absolute(&root)
                .map_err(|error| format!("the root {}: {error}", root.display()))
        })
        .transpose()?;
    Ok(HelloFace::Harness {
        root: root.as_deref().map(OsText::from),
        world,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once(&"lspool").chain(line))
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn everything_after_the_first_separator_is_one_server() {
        let cli = parse(&["--no-daemon", "--", "clangd", "--help", "--", "query", "-V"]).unwrap();
        assert!(cli.no_daemon);
        assert!(cli.command.is_none());
        assert_eq!(cli.server, ["clangd", "--help", "--", "query", "-V"]);
    }

    #[test]
    fn a_server_without_a_separator_is_a_usage_error() {
        assert!(parse(&["clangd"]).is_err());
    }

    #[test]
    fn the_daemon_switch_goes_before_and_after_a_command() {
        assert!(parse(&["--no-daemon", "connect"]).unwrap().no_daemon);
        assert!(parse(&["connect", "--no-daemon"]).unwrap().no_daemon);
    }

    #[test]
    fn a_daemon_is_only_had_in_the_foreground() {
        assert!(parse(&["daemon"]).is_err());
        assert!(parse(&["daemon", "--foreground"]).is_ok());
    }
}
