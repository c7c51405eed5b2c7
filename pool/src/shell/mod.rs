//! The shell around the core: tasks that turn bytes into events and effects into bytes.
//!
//! A reader and a writer a link, a waiter a process, one driver that owns the core. Nothing here decides; the
//! driver never waits for anything but its next input, so no link can hold up another.

mod driver;
mod jobs;
mod link;
mod process;
mod stderr;

use std::ffi::OsString;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lspool_normalize::{LspCode, QueryRequest, QueryResult, RpcError};
use lspool_world::{Environment, TreeMarker, World};
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::core::{
    ClientFace, ClientId, CoreConfig, Event, InstanceId, PoolStatus, QueryTicket, Tick,
};

use driver::{Driver, Input};

/// How long the tasks of a pool may take to end once all that they serve is gone.
const TASKS_END: Duration = Duration::from_secs(5);
/// Inputs that wait for the driver; its senders wait when it is full.
const INPUT_QUEUE: usize = 1024;

/// A future without a name.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What a pool is made of.
#[derive(Debug)]
pub struct PoolOptions {
    /// Where servers and files live.
    pub world: World,
    /// Limits, server definitions and what is announced to clients.
    pub core: Arc<CoreConfig>,
    /// The largest body that is taken from any peer, in bytes.
    pub max_body: usize,
    /// The variable that marks the pool's processes, and its owner; each tree's value is `OWNER.N`.
    pub marker: Option<TreeMarker>,
    /// Milliseconds between SIGTERM and SIGKILL for a server.
    pub grace_ms: u64,
    /// Folders with servers that lspool installed, searched after the client's PATH.
    pub installs: Vec<PathBuf>,
    /// Whether every event and its effects are kept for [`Pool::recording`].
    pub record: bool,
}

/// Who attaches and from where.
#[derive(Clone, Debug)]
pub struct ClientContext {
    /// The client's working directory, absolute.
    pub cwd: PathBuf,
    /// The client's environment, whole.
    pub environment: Environment,
    /// The client's file mode mask.
    pub umask: u32,
    /// The peer's process.
    pub pid: u32,
    /// The name of the face or program.
    pub name: String,
}

/// What a connection is for.
#[derive(Clone, Debug)]
pub enum Face {
    /// One server by its command line.
    Server {
        /// The command and its arguments, as given.
        argv: Vec<OsString>,
    },
    /// The custom methods without a fixed server.
    Harness {
        /// The root that the person named, absolute.
        root: Option<PathBuf>,
    },
}

/// A call of a custom method. Dropping the future that serves it cancels it.
#[derive(Debug)]
pub struct MethodCall {
    /// Whose connection.
    pub client: ClientId,
    /// The method, `lspool/…`.
    pub method: String,
    /// Its params as sent.
    pub params: Option<Box<RawValue>>,
}

/// The custom methods of a connection.
pub trait Methods: Send + Sync {
    /// Serves one call.
    ///
    /// # Errors
    /// Whatever the method's page says; an unknown method is −32601.
    fn call(&self, call: MethodCall) -> BoxFuture<Result<Box<RawValue>, RpcError>>;
}

/// A line for the person behind a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice(pub String);

/// A connection to attach.
pub struct Connection {
    /// Bytes from the peer.
    pub input: Box<dyn AsyncRead + Send + Unpin>,
    /// Bytes to the peer.
    pub output: Box<dyn AsyncWrite + Send + Unpin>,
    /// What it is for.
    pub face: Face,
    /// Who it is.
    pub context: ClientContext,
    /// Its custom methods.
    pub methods: Arc<dyn Methods>,
    /// Cancelled when the peer is known to be gone, whatever its streams say.
    pub gone: CancellationToken,
    /// Where lines for its person go; a line that finds no room is logged instead.
    pub notices: mpsc::Sender<Notice>,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionEnd {
    /// The exit code for its face.
    pub exit_code: i32,
}

/// Why the pool could not be ended cleanly. Code `LSP_DISPOSED`.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{}", .failures.join("; "))]
pub struct PoolError {
    /// One text per failure.
    pub failures: Vec<String>,
}

/// One recorded step: the tick, the event, and what the core asked for.
#[derive(Clone, Debug)]
pub struct Step {
    /// When.
    pub tick: Tick,
    /// What happened.
    pub event: Event,
    /// The effects in their debug form, in order.
    pub effects: Vec<String>,
}

/// A handle to a running pool; clones are the same pool.
#[derive(Clone, Debug)]
pub struct Pool {
    inputs: mpsc::Sender<Input>,
    tickets: Arc<AtomicU64>,
    clients: Arc<AtomicU64>,
    idle: watch::Receiver<bool>,
    tasks: TaskTracker,
    runtime: Handle,
    world: World,
}

impl Pool {
    /// Starts a pool on the present runtime.
    pub fn start(options: PoolOptions) -> Self {
        let (inputs, receiver) = mpsc::channel(INPUT_QUEUE);
        let (idle_sender, idle) = watch::channel(true);
        let tasks = TaskTracker::new();
        let world = options.world.clone();
        let driver = Driver::new(options, inputs.downgrade(), idle_sender, tasks.clone());
        tasks.spawn(driver.run(receiver));
        Self {
            inputs,
            tickets: Arc::new(AtomicU64::new(0)),
            clients: Arc::new(AtomicU64::new(0)),
            idle,
            tasks,
            runtime: Handle::current(),
            world,
        }
    }

    /// Attaches a connection and serves it to its end.
    pub async fn attach(&self, connection: Connection) -> ConnectionEnd {
        let client = ClientId(self.clients.fetch_add(1, Ordering::Relaxed) + 1);
        let (end, ended) = oneshot::channel();
        let lost = ConnectionEnd { exit_code: 70 };
        if self
            .inputs
            .send(Input::Attach {
                client,
                connection: Box::new(connection),
                end,
            })
            .await
            .is_err()
        {
            return lost;
        }
        ended.await.unwrap_or(lost)
    }

    /// Asks a normalised query for a connection. Dropping the future cancels the query.
    ///
    /// # Errors
    /// The codes of `lspool/query`.
    pub async fn query(
        &self,
        client: ClientId,
        request: QueryRequest,
    ) -> Result<Arc<QueryResult>, RpcError> {
        let ticket = QueryTicket(self.tickets.fetch_add(1, Ordering::Relaxed) + 1);
        let (reply, answer) = oneshot::channel();
        let disposed = || RpcError::lsp(LspCode::Disposed, "lspool is ending", None);
        let input = Input::Query {
            ticket,
            client,
            request: Arc::new(request),
            reply,
        };
        self.inputs.send(input).await.map_err(|_| disposed())?;
        let mut guard = CancelOnDrop {
            pool: self,
            ticket,
            armed: true,
        };
        let result = answer.await;
        guard.armed = false;
        result.map_err(|_| disposed())?.map_err(|error| *error)
    }

    /// The pool as it is now.
    pub async fn status(&self) -> Option<PoolStatus> {
        let (reply, answer) = oneshot::channel();
        self.inputs.send(Input::Status(reply)).await.ok()?;
        answer.await.ok()
    }

    /// Ends one instance and answers when it is gone; for one that does not exist, at once. Dropping the future ends it
    /// all the same.
    ///
    /// # Errors
    /// Why its processes could not be ended. The instance stays, and another call tries again.
    pub async fn stop(&self, instance: InstanceId) -> Result<(), PoolError> {
        let (reply, gone) = oneshot::channel();
        // A pool that is gone has stopped it already.
        let _ = self.inputs.send(Input::Stop { instance, reply }).await;
        match gone.await {
            Ok(failure) => Err(PoolError {
                failures: vec![failure],
            }),
            // The sender is dropped at the end.
            Err(_) => Ok(()),
        }
    }

    /// Waits until there is neither a client nor an instance.
    pub async fn idle(&self) {
        let mut idle = self.idle.clone();
        // A pool that is gone is idle.
        let _ = idle.wait_for(|idle| *idle).await;
    }

    /// What was recorded so far, when the pool records.
    pub async fn recording(&self) -> Vec<Step> {
        let (reply, answer) = oneshot::channel();
        if self.inputs.send(Input::Recording(reply)).await.is_err() {
            return Vec::new();
        }
        answer.await.unwrap_or_default()
    }

    /// Ends everything and answers when all process trees are proved gone and every task of the pool has ended. A call
    /// after a failure tries again.
    ///
    /// # Errors
    /// All failures in one.
    pub async fn shutdown(&self) -> Result<(), PoolError> {
        let (reply, answer) = oneshot::channel();
        let mut failures = Vec::new();
        if self.inputs.send(Input::Shutdown(reply)).await.is_ok() {
            failures = answer.await.unwrap_or_default();
        }
        if let Err(error) = self.world.subprocess().shutdown().await {
            failures.push(error.to_string());
        }
        // After a failure the driver stays for another try.
        if failures.is_empty() {
            self.tasks.close();
            if tokio::time::timeout(TASKS_END, self.tasks.wait())
                .await
                .is_err()
            {
                failures.push(format!(
                    "{} tasks of the pool did not end",
                    self.tasks.len()
                ));
            }
        }
        if failures.is_empty() {
            Ok(())
        } else {
            Err(PoolError { failures })
        }
    }
}

/// Tells the core that nobody waits for a query any more.
struct CancelOnDrop<'a> {
    pool: &'a Pool,
    ticket: QueryTicket,
    armed: bool,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let ticket = self.ticket;
        let cancelled = Input::Event(Event::QueryCancelled { ticket });
        if let Err(TrySendError::Full(cancelled)) = self.pool.inputs.try_send(cancelled) {
            let inputs = self.pool.inputs.clone();
            let send = async move {
                // The driver is gone only when the pool is, and its queries with it.
                let _ = inputs.send(cancelled).await;
            };
            // A future may be dropped outside of its runtime.
            self.pool.tasks.spawn_on(send, &self.pool.runtime);
        }
    }
}

impl From<&Face> for ClientFace {
    fn from(face: &Face) -> Self {
        match face {
            Face::Server { argv } => Self::Server { argv: argv.clone() },
            Face::Harness { root } => Self::Harness { root: root.clone() },
        }
    }
}

#[cfg(test)]
mod tests {
    use lspool_world::ScrubRules;
    use lspool_world::local::{InheritedOutput, LocalOptions};

    use super::*;

    #[tokio::test]
    async fn given_a_driver_that_is_behind_when_a_query_is_given_up_then_its_cancel_is_not_lost() {
        let (inputs, mut receiver) = mpsc::channel(1);
        let (_idle, idle) = watch::channel(true);
        let pool = Pool {
            inputs,
            tickets: Arc::default(),
            clients: Arc::default(),
            idle,
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
            world: World::local(LocalOptions {
                scrub_rules: ScrubRules::builtin(),
                inherited_output: InheritedOutput::Log,
                control_groups: None,
            }),
        };
        let shutdown = Input::Event(Event::Shutdown);
        assert!(pool.inputs.try_send(shutdown).is_ok(), "the queue is full");

        drop(CancelOnDrop {
            pool: &pool,
            ticket: QueryTicket(7),
            armed: true,
        });

        let first = receiver.recv().await;
        assert!(matches!(first, Some(Input::Event(Event::Shutdown))));
        let second = receiver.recv().await;
        assert!(matches!(
            second,
            Some(Input::Event(Event::QueryCancelled {
                ticket: QueryTicket(7)
            }))
        ));
    }
}
