//! What end-to-end tests of a language-server pool need: a [`Harness`] with a private home, a blocking
//! [`Client`] that keeps every byte, capability [`Profile`]s of real editors, the scripted server with its
//! [`ScenarioBuilder`] and [`Journal`], and the [`LeakOracle`] that every test ends with.
//!
//! Nothing in it knows a particular pool: a [`Launch`] is any command line that speaks the language
//! server protocol on its standard streams.
//!
//! ```no_run
//! use lspool_testkit::{Client, Harness, KitError, Profile, ScenarioBuilder};
//!
//! # fn main() -> Result<(), KitError> {
//! let harness = Harness::new()?;
//! // Everything by default, but every hover is late and the first two references fail.
//! let scenario = ScenarioBuilder::new()
//!     .late("textDocument/hover", 0, 50)
//!     .refuse("textDocument/references", 2, -32801);
//! let server = harness.scripted_server("server", &scenario)?;
//! // The pool under test, in front of the scripted server.
//! let pool = harness.launch("/usr/bin/some-pool").arg("--").args(server.argv());
//! let client = Client::start(&pool)?;
//! client.initialize(&Profile::neovim(), &harness.work_folder())?;
//! client.did_open("file:///a", "toy", 1, "one two one")?;
//! let places: Vec<serde_json::Value> =
//!     client.ask_at("textDocument/definition", "file:///a", 0, 8)?.result()?;
//! assert_eq!(places.len(), 1);
//! client.shut_down()?;
//! assert_eq!(server.journal().servers_started(), 1);
//! server.journal().assert_no_violations();
//! harness.finish();
//! # Ok(())
//! # }
//! ```
//!
//! Invariant: every wait has a deadline ([`deadline`]), and what runs out of time says what it waited for,
//! what had come instead and what the peer wrote to stderr.

mod binaries;
mod client;
mod error;
mod harness;
mod journal;
mod leak;
mod profile;
mod scenario;
mod uri;

pub use binaries::{binary, build_binary, repository_folder};
pub use client::{Answer, Client, ClientReply, Exit, Launch, Pending, Received};
pub use error::{KitError, deadline};
pub use harness::{Harness, MARK_VARIABLE, ScriptedServer, fixture_folder};
pub use journal::Journal;
pub use leak::{Leak, LeakOracle};
pub use lspool_scripted_server::members::{Kind, Members};
pub use lspool_scripted_server::{
    framing, hash, journal as journal_entry, scenario as scenario_format,
};
pub use profile::{Profile, initialize_params};
pub use scenario::{RuleBuilder, ScenarioBuilder, raw};
pub use uri::file_uri;
