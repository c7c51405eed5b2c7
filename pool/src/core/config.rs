//! What the core is told once: limits and server definitions.

use std::path::Path;
use std::sync::Arc;

use crate::registry::{Definition, Registry};

/// The limits that the core keeps. There are no defaults here: the face states each of them.
#[derive(Clone, Debug)]
pub struct CoreLimits {
    /// Bytes from which an outbox counts as full.
    pub outbox_bytes: usize,
    /// Milliseconds that an instance without users lives on.
    pub instance_idle_ms: u64,
    /// Milliseconds for an answer to `shutdown`.
    pub shutdown_ms: u64,
    /// Milliseconds for the exit after `exit`.
    pub exit_ms: u64,
    /// Milliseconds for an answer to `initialize` where the definition names none.
    pub startup_ms: u64,
    /// Milliseconds without progress after which a full server counts as stalled.
    pub stall_ms: u64,
    /// Milliseconds without progress after which a full server is restarted, a full client disconnected.
    pub hung_ms: u64,
    /// Crashes within `crash_window_ms` after which an instance is given up.
    pub crash_budget: usize,
    /// The window of the crash budget, in milliseconds.
    pub crash_window_ms: u64,
    /// The first pause before a restart, in milliseconds; it doubles.
    pub restart_pause_ms: u64,
    /// The longest pause before a restart, in milliseconds.
    pub restart_pause_max_ms: u64,
    /// Milliseconds of a query's budget after the boot where the query names none.
    pub query_ms: u64,
    /// Milliseconds kept for the question itself when readiness does not come.
    pub query_reserve_ms: u64,
    /// Queries that wait or run on one connection.
    pub queries_per_client: usize,
    /// Requests of queries in flight on one instance.
    pub queries_in_flight: usize,
    /// Documents that queries hold open on one instance.
    pub query_documents: usize,
    /// Bytes of documents that queries hold open on one instance.
    pub query_document_bytes: usize,
}

/// The configuration of a core.
#[derive(Clone, Debug)]
pub struct CoreConfig {
    /// Limits.
    pub limits: CoreLimits,
    /// Server definitions.
    pub registry: Arc<Registry>,
    /// `capabilities.experimental.lspool` of an `initialize` result, as JSON text.
    pub announcement: String,
    /// The process that servers may watch as their parent (`processId`), absent where servers cannot see it.
    pub process_id: Option<u32>,
    /// `serverInfo` of connections without a server, as JSON text.
    pub server_info: String,
}

impl CoreConfig {
    /// The definition whose command a person's command line names, by file name.
    pub(super) fn definition_of(&self, program: &Path) -> Option<Arc<Definition>> {
        self.registry.definition_of_program(program)
    }
}
