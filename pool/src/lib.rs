//! The pool of language servers: framing, the sans-I/O core, instances, clients, shared documents,
//! routing, the server registry, readiness and the query pipeline.
//!
//! ```text
//! bytes ─ reader ─▶ Frame ─ edge ─▶ Event ─▶ Core::handle ─▶ Effect ─ writer ─▶ bytes
//! ```
//!
//! [`wire`] frames bytes and finds the members that routing needs, [`edge`] decodes what the core must
//! know of a message before the message becomes an event, `core` decides, `shell` runs what was decided.
//! The pool starts processes and reads files only through the seams of `lspool-world`.

pub mod core;
pub mod edge;
pub mod query;
pub mod registry;
pub mod shell;
pub mod wire;

pub use shell::{
    BoxFuture, ClientContext, Connection, ConnectionEnd, Face, MethodCall, Methods, Notice, Pool,
    PoolError, PoolOptions, Step,
};
