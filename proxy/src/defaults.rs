//! Every default and cap of the faces and of what they ask of the pool, in one table.
//!
//! Nothing below the faces has a default of its own: a request becomes a complete specification with these numbers.

use std::time::Duration;

use lspool_pool::core::CoreLimits;

/// The protocol version of the socket; part of the socket's name and of every hello.
pub(crate) const SOCKET_PROTOCOL: u32 = 1;

/// The version of the custom methods, announced in `capabilities.experimental.lspool.version`.
pub(crate) const METHODS_VERSION: u32 = 1;

/// The variable that marks every process below a daemon, so that a tree can be found when its owners are gone.
pub(crate) const TREE_MARKER: &str = "LSPOOL_TREE";

/// How long the daemon stays after its last connection and instance, unless `idle.daemon_ms` says otherwise.
pub(crate) const IDLE_DAEMON: Duration = Duration::from_mins(5);

/// How long an instance stays after its last client, unless `idle.instance_ms` says otherwise.
pub(crate) const IDLE_INSTANCE: Duration = Duration::from_mins(10);

/// The longest duration that a request or a configuration file may name, in milliseconds.
pub(crate) const MAX_DURATION_MS: u64 = 2_147_483_647;

/// The largest hello, in bytes. An environment is at most a few megabytes; this leaves room for its encoding.
pub(crate) const MAX_HELLO_BYTES: usize = 16 * 1024 * 1024;

/// How long a peer may take to send its whole hello.
pub(crate) const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections of one daemon at once; one more is refused.
pub(crate) const MAX_CONNECTIONS: usize = 1_000;

/// Lines for a client's stderr that wait while its face does not read them; what comes above is dropped.
pub(crate) const NOTICE_QUEUE: usize = 256;

/// The longest line for a client's stderr, in bytes; the rest of a longer one is cut.
pub(crate) const MAX_NOTICE_BYTES: usize = 8 * 1024;

/// How long the last line on a control socket may take to be written.
pub(crate) const FAREWELL_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a client that asked for the daemon's end may stay before the pool ends under it.
pub(crate) const PARTING_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a face waits for a daemon to be ready, another face's start included.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a face waits for the daemon's acknowledgement, and the command line for an answer that takes no server.
pub(crate) const ACKNOWLEDGEMENT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a daemon that holds its lock may be without its socket before a face takes it for unreachable.
pub(crate) const SOCKET_TIMEOUT: Duration = Duration::from_secs(2);

/// How long `lspool stop` waits for the end of a daemon that has heard of it.
pub(crate) const END_TIMEOUT: Duration = Duration::from_mins(1);

/// How long after a query's own timeout its answer may come before the daemon counts as hung.
pub(crate) const ANSWER_RESERVE: Duration = Duration::from_secs(2);

/// How often a face asks again when the daemon that it reached was leaving at that moment.
pub(crate) const START_ATTEMPTS: u32 = 5;

/// How long a new daemon stays for its first connection at least.
pub(crate) const FIRST_CLIENT: Duration = Duration::from_secs(10);

/// How long a new daemon waits for a leaving one to give up the lock.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// How long one look at a daemon's busy lock lasts before its socket is tried again.
pub(crate) const LOCK_SLICE: Duration = Duration::from_millis(250);

/// The first and the longest pause before a busy lock is tried again.
pub(crate) const LOCK_PAUSE: (Duration, Duration) =
    (Duration::from_millis(1), Duration::from_millis(50));

/// How long the daemon rests after the system had no descriptor for a connection.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long blocking work that hangs in a dead file system may hold the end of a process.
pub(crate) const BLOCKED_TIMEOUT: Duration = Duration::from_secs(1);

/// How long bytes that a lost daemon had already sent may take to reach a reader that does not hurry.
pub(crate) const LAST_BYTES_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a killed process is given before a sweep looks again.
pub(crate) const SWEEP_PAUSE: Duration = Duration::from_millis(5);

/// How long the guardian waits for the next sign of life while it ends processes.
pub(crate) const GUARDIAN_PAUSE: Duration = Duration::from_millis(10);

/// How long the pool may take for its own end once the guardian is gone, before every process of the tree is killed.
pub(crate) const ORPHANED_GRACE: Duration = Duration::from_millis(400);

/// Whether process trees are held by control groups where they can be made, unless `containment.control_groups` says
/// otherwise.
pub(crate) const CONTROL_GROUPS: bool = true;

/// How long killed processes may take to disappear before the guardian gives up and says so.
pub(crate) const SWEEP_TIMEOUT: Duration = Duration::from_secs(10);

/// Two end signals within this time are one: a signal to a process group also arrives through the guardian.
pub(crate) const SIGNAL_ECHO: Duration = Duration::from_millis(200);

/// Bytes of a log file before it is rotated.
pub(crate) const LOG_FILE_BYTES: u64 = 10_000_000;

/// Log files that are kept, the one being written included.
pub(crate) const LOG_FILES: u32 = 3;

/// The largest configuration file, in bytes.
pub(crate) const MAX_CONFIG_BYTES: u64 = 1_000_000;

/// `lspool/query` requests of one connection that wait or run at once; one more is `LIMIT_EXCEEDED`.
pub(crate) const MAX_QUERIES: usize = 1_000;

/// Queries in one `lspool/queryBatch`; more is `LIMIT_EXCEEDED`.
pub(crate) const MAX_BATCH: u32 = 200;

/// Bytes that a relay moves in one call.
pub(crate) const RELAY_CHUNK: usize = 64 * 1024;

/// The largest body of one message, in bytes.
pub(crate) const MAX_BODY_BYTES: u64 = 256 * 1024 * 1024;

/// Bytes from which an outbox counts as full.
pub(crate) const OUTBOX_BYTES: u64 = 16 * 1024 * 1024;

/// The highest `maxLocations` of a query.
pub(crate) const MAX_LOCATIONS: u32 = 10_000;

/// The highest `contextLines` of a query.
pub(crate) const MAX_CONTEXT_LINES: u32 = 50;

/// Milliseconds between SIGTERM and SIGKILL for a server.
pub(crate) const TERMINATE_GRACE_MS: u64 = 2_000;

/// What the pool's core is told, before the configuration file.
pub(crate) const CORE_LIMITS: CoreLimits = CoreLimits {
    outbox_bytes: OUTBOX_BYTES as usize,
    instance_idle_ms: IDLE_INSTANCE.as_millis() as u64,
    shutdown_ms: 2_000,
    exit_ms: 1_000,
    startup_ms: 60_000,
    stall_ms: 2_000,
    hung_ms: 30_000,
    crash_budget: 5,
    crash_window_ms: 180_000,
    restart_pause_ms: 500,
    restart_pause_max_ms: 30_000,
    query_ms: 60_000,
    query_reserve_ms: 5_000,
    queries_per_client: MAX_QUERIES,
    queries_in_flight: 4,
    query_documents: 64,
    query_document_bytes: 64_000_000,
};
