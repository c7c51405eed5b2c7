//! The pool as a program embeds it: real tasks, the real local world, a shell script as the server.
//!
//! Each wait has an end: one that is not met fails its test.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod embedded;
mod ends;
mod hanging;
mod recording;
mod starts;
