//! A pool with short limits and the connections of a test to it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lspool_normalize::RpcError;
use lspool_pool::core::{CoreConfig, CoreLimits};
use lspool_pool::registry::Registry;
use lspool_pool::{
    BoxFuture, ClientContext, Connection, ConnectionEnd, Face, MethodCall, Methods, Pool,
    PoolOptions,
};
use lspool_world::local::{InheritedOutput, LocalOptions};
use lspool_world::{Environment, ScrubRules, World};
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The longest that any wait of these tests may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A server that answers `initialize`, which is request 1 of every server, with its file mode mask, and then only reads.
pub(crate) const SERVER: &str = r#"read -r head
body='{"jsonrpc":"2.0","id":1,"result":{"capabilities":{},"serverInfo":{"name":"'$(umask)'"}}}'
printf 'Content-Length: %d\r\n\r\n%s' "${#body}" "$body"
exec cat >/dev/null"#;

/// A client's `initialize`.
pub(crate) const INITIALIZE: &str =
    r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"capabilities":{}}}"#;

/// A pool in the local world.
pub(crate) fn pool() -> Pool {
    pool_in(local())
}

/// The local world.
pub(crate) fn local() -> World {
    World::local(LocalOptions {
        scrub_rules: ScrubRules::builtin(),
        inherited_output: InheritedOutput::Log,
        control_groups: None,
    })
}

/// What the cores of these tests are told.
pub(crate) fn core_config() -> CoreConfig {
    let limits = CoreLimits {
        outbox_bytes: 300_000,
        instance_idle_ms: 600_000,
        shutdown_ms: 100,
        exit_ms: 5_000,
        startup_ms: 20_000,
        stall_ms: 100,
        hung_ms: 30_000,
        crash_budget: 5,
        crash_window_ms: 180_000,
        restart_pause_ms: 100,
        restart_pause_max_ms: 1_000,
        query_ms: 30_000,
        query_reserve_ms: 5_000,
        queries_per_client: 100,
        queries_in_flight: 4,
        query_documents: 3,
        query_document_bytes: 1 << 20,
    };
    CoreConfig {
        limits,
        registry: Arc::new(Registry::builtin()),
        announcement: r#"{"version":1}"#.to_owned(),
        process_id: None,
        server_info: r#"{"name":"lspool"}"#.to_owned(),
    }
}

/// A pool in a world, which records what happens to it.
pub(crate) fn pool_in(world: World) -> Pool {
    Pool::start(PoolOptions {
        world,
        core: Arc::new(core_config()),
        max_body: 1 << 20,
        marker: None,
        grace_ms: 1_000,
        installs: Vec::new(),
        record: true,
    })
}

struct NoMethods;

impl Methods for NoMethods {
    fn call(&self, call: MethodCall) -> BoxFuture<Result<Box<RawValue>, RpcError>> {
        Box::pin(async move {
            let name = call.method;
            Err(RpcError::method_not_found(&name))
        })
    }
}

/// One attached connection, as its peer holds it.
pub(crate) struct Peer {
    /// What the peer writes.
    pub(crate) input: DuplexStream,
    /// What the peer reads.
    pub(crate) output: DuplexStream,
    end: JoinHandle<ConnectionEnd>,
}

impl Peer {
    /// Attaches to a pool; `room` bytes fit between the pool and a peer that does not read.
    pub(crate) fn attach(pool: &Pool, face: Face, umask: u32, room: usize) -> Self {
        let (input, pool_input) = tokio::io::duplex(64 * 1024);
        let (pool_output, output) = tokio::io::duplex(room);
        let (notices, _) = mpsc::channel(16);
        let path = std::env::var_os("PATH").unwrap();
        let connection = Connection {
            input: Box::new(pool_input),
            output: Box::new(pool_output),
            face,
            context: ClientContext {
                cwd: PathBuf::from("/"),
                environment: Environment::from_pairs([(OsString::from("PATH"), path)]),
                umask,
                pid: std::process::id(),
                name: "test".to_owned(),
            },
            methods: Arc::new(NoMethods),
            gone: CancellationToken::new(),
            notices,
        };
        let pool = pool.clone();
        let end = TaskTracker::new().spawn(async move { pool.attach(connection).await });
        Self { input, output, end }
    }

    pub(crate) async fn send(&mut self, body: &str) {
        let message = format!("Content-Length: {}\r\n\r\n{body}", body.len());
        within(self.input.write_all(message.as_bytes()))
            .await
            .unwrap();
    }

    /// The body of the next message.
    pub(crate) async fn receive(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(within(self.output.read_u8()).await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Length: "));
        let mut body = vec![0; length.unwrap().parse().unwrap()];
        within(self.output.read_exact(&mut body)).await.unwrap();
        String::from_utf8(body).unwrap()
    }

    /// How the connection ended.
    pub(crate) async fn ended(self) -> ConnectionEnd {
        within(self.end).await.unwrap()
    }
}

/// A server that runs `script`.
pub(crate) fn server(script: &str) -> Face {
    Face::Server {
        argv: vec!["/bin/sh".into(), "-c".into(), script.into()],
    }
}

/// What a future gives within the patience of these tests.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("a wait of this test came to no end")
}
