//! The sans-I/O core, rule by rule: events in, effects out, no clock and no task.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod documents;
mod ending;
mod handshake;
mod jobs;
mod leaving;
mod pressure;
mod property;
mod queries;
mod requests;
mod rig;
mod server_messages;
