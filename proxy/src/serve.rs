//! The one place where the faces meet the pool: a hello becomes a connection, settings become limits, and the custom
//! methods get their backend.
//!
//! Nothing below has a default: every number that the pool is told comes from the settings or from `defaults`.

use std::sync::{Arc, OnceLock, Weak};

use lspool_normalize::{QueryRequest, QueryResult, RpcError};
use lspool_pool::core::{ClientId, CoreConfig, CoreLimits, InstanceId, InstanceStatus};
use lspool_pool::registry::{LaunchFacts, LaunchInput};
use lspool_pool::{
    BoxFuture, ClientContext, Connection, Face, MethodCall, Methods, Notice, Pool, PoolOptions,
};
use lspool_world::local::{InheritedOutput, LocalOptions};
use lspool_world::{Environment, TreeMarker as WorldMarker, World};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::config::{Numbers, Settings};
use crate::daemon::host::Host;
use crate::daemon::streams::{Input, Output};
use crate::defaults;
use crate::guardian::marker::TreeMarker;
use crate::hello::{Hello, HelloFace};
use crate::local::processes::{ControlGroups, ProcessTable, memory_bytes};
use crate::methods::{Answer, Backend, ConnectionMethods, StopRequest};

/// The exit code of a connection whose input ended without `shutdown`.
const INPUT_ENDED: i32 = 1;

/// One accepted attachment.
pub(crate) struct Session {
    /// What the face said.
    pub(crate) hello: Hello,
    /// The peer's process id.
    pub(crate) peer: u32,
    /// The program behind the face, for people.
    pub(crate) name: String,
    /// Bytes from the client.
    pub(crate) input: Input,
    /// Bytes to the client.
    pub(crate) output: Output,
    /// Cancelled when the client is known to be gone.
    pub(crate) gone: CancellationToken,
    /// Lines for the person behind the client.
    pub(crate) notices: mpsc::Sender<Notice>,
}

/// The pool as the faces use it.
pub(crate) struct Serving {
    pool: Pool,
    world: World,
}

impl Serving {
    /// Starts the pool on the present runtime, its processes marked as this tree's.
    pub(crate) fn start(
        settings: &Settings,
        marker: Option<&TreeMarker>,
        control_groups: Option<Arc<ControlGroups>>,
    ) -> Self {
        let world = World::local(LocalOptions {
            scrub_rules: settings.scrub_rules.clone(),
            inherited_output: InheritedOutput::Log,
            control_groups,
        });
        let core = CoreConfig {
            limits: limits(&settings.numbers),
            registry: Arc::new(settings.registry.clone()),
            announcement: announcement(&world, &settings.numbers).to_string(),
            process_id: Some(std::process::id()),
            server_info: json!({ "name": "lspool", "version": env!("CARGO_PKG_VERSION") })
                .to_string(),
        };
        Self {
            world: world.clone(),
            pool: Pool::start(PoolOptions {
                world,
                core: Arc::new(core),
                max_body: settings.numbers.body_bytes as usize,
                marker: marker.map(|marker| WorldMarker {
                    name: defaults::TREE_MARKER.into(),
                    value: marker.to_string().into(),
                }),
                grace_ms: defaults::TERMINATE_GRACE_MS,
                installs: settings.installs.clone(),
                record: false,
            }),
        }
    }

    /// Serves one attachment to its end; the exit code of its face. A face that wants the daemon's end is not one.
    pub(crate) async fn attach(&self, host: &Arc<Host>, session: Session) -> i32 {
        let Session {
            hello,
            peer,
            name,
            input,
            output,
            gone,
            notices,
        } = session;
        let face = match hello.face {
            HelloFace::Server { argv } => Face::Server {
                argv: argv.into_iter().map(|word| word.0).collect(),
            },
            HelloFace::Harness { root, .. } => Face::Harness {
                root: root.map(crate::hello::OsText::into_path),
            },
            HelloFace::Stop { .. } => return 0,
        };
        let context = ClientContext {
            cwd: hello.cwd.into_path(),
            environment: Environment::from_pairs(
                hello
                    .environment
                    .into_iter()
                    .map(|(name, value)| (name.0, value.0)),
            ),
            umask: hello.umask,
            pid: peer,
            name,
        };
        let unasked = Unasked {
            face: face.clone(),
            context: context.clone(),
            notices: notices.clone(),
        };
        let over = CancellationToken::new();
        let _over_at_the_end = over.clone().drop_guard();
        let backend = ConnectionBackend {
            host: Arc::downgrade(host),
            pool: self.pool.clone(),
            client: Arc::default(),
            over: over.clone(),
        };
        let methods = ServedMethods {
            client: Arc::clone(&backend.client),
            methods: ConnectionMethods::new(backend).await,
        };
        let connection = Connection {
            input,
            output,
            face,
            context,
            methods: Arc::new(methods),
            gone,
            notices,
        };
        let code = self.pool.attach(connection).await.exit_code;
        if code == INPUT_ENDED {
            return unasked.exit_code(&self.world).await.unwrap_or(code);
        }
        code
    }

    /// Resolves when there is neither a client nor an instance.
    pub(crate) async fn idle(&self) {
        self.pool.idle().await;
    }

    /// Runs the end ladder; every tree is gone when it succeeds, and a failed one can be repeated.
    pub(crate) async fn shutdown(&self) -> Result<(), String> {
        self.pool
            .shutdown()
            .await
            .map_err(|error| error.to_string())
    }
}

/// A connection that ended at the end of its input, perhaps before it asked for its server.
struct Unasked {
    face: Face,
    context: ClientContext,
    notices: mpsc::Sender<Notice>,
}

impl Unasked {
    /// The code of a server that could not have been started, as a shell has it, with a word to the person.
    async fn exit_code(&self, world: &World) -> Option<i32> {
        let Face::Server { argv } = &self.face else {
            return None;
        };
        let input = LaunchInput {
            argv,
            cwd: &self.context.cwd,
            environment: &self.context.environment,
            scrub: false,
            options_digest: 0,
            identity_env: &[],
        };
        let error = LaunchFacts::resolve(world, input).await.err()?;
        // The face of a person who has read nothing for so long that there is no room has no use for it.
        let _ = self.notices.try_send(Notice(format!("lspool: {error}")));
        Some(error.exit_code())
    }
}

/// The custom methods of one connection as the pool calls them.
struct ServedMethods {
    client: Arc<OnceLock<ClientId>>,
    methods: ConnectionMethods<ConnectionBackend>,
}

impl Methods for ServedMethods {
    fn call(&self, call: MethodCall) -> BoxFuture<Result<Box<RawValue>, RpcError>> {
        // A connection has one id for its whole life; it is known with the first call.
        let _ = self.client.set(call.client);
        self.methods.call(call.method, call.params.as_deref())
    }
}

/// What the methods of one connection reach.
struct ConnectionBackend {
    // The host owns the connections, so a connection does not own the host.
    host: Weak<Host>,
    pool: Pool,
    client: Arc<OnceLock<ClientId>>,
    /// Cancelled when the connection has ended.
    over: CancellationToken,
}

impl Backend for ConnectionBackend {
    fn query(&self, request: QueryRequest) -> Answer<Arc<QueryResult>> {
        let pool = self.pool.clone();
        let client = self.client.get().copied();
        Box::pin(async move {
            let client = client.expect(
                "a method is called with its connection's id, which is set before the call",
            );
            pool.query(client, request).await
        })
    }

    fn status(&self) -> Answer<Value> {
        let pool = self.pool.clone();
        let host = self.host.clone();
        Box::pin(async move {
            let (Some(status), Some(host)) = (pool.status().await, host.upgrade()) else {
                return Err(disposed());
            };
            let memory = memory(&status.instances).await;
            let mut answer = serde_json::to_value(&status).map_err(|_| disposed())?;
            if let Some(instances) = answer["instances"].as_array_mut() {
                for (instance, bytes) in instances.iter_mut().zip(memory) {
                    instance["memoryBytes"] = json!(bytes);
                }
            }
            answer["daemon"] = host.facts().await;
            answer["worlds"] = json!([world_facts(&host.serving.world)]);
            Ok(answer)
        })
    }

    fn stop(&self, request: StopRequest) -> Answer<Value> {
        let pool = self.pool.clone();
        let host = self.host.clone();
        let over = self.over.clone();
        Box::pin(async move {
            let instances = pool.status().await.ok_or_else(disposed)?.instances;
            let Some(wanted) = request.instance else {
                let host = host.upgrade().ok_or_else(disposed)?;
                let parting = host
                    .leave_unless_attached(request.force)
                    .map_err(|message| {
                        RpcError::failed("EDITORS_ATTACHED", false, message, None)
                    })?;
                for instance in &instances {
                    end_instance(&pool, instance).await?;
                }
                host.end_after(parting, over);
                return Ok(json!({}));
            };
            let found = instances
                .iter()
                .find(|instance| instance.id == wanted)
                .ok_or_else(|| {
                    let known: Vec<&str> = instances
                        .iter()
                        .map(|instance| instance.id.as_str())
                        .collect();
                    RpcError::failed(
                        "INSTANCE_NOT_FOUND",
                        false,
                        format!(
                            "there is no instance {wanted}; there are [{}]",
                            known.join(", ")
                        ),
                        None,
                    )
                })?;
            end_instance(&pool, found).await?;
            Ok(json!({}))
        })
    }
}

/// Ends one instance; the pool has let it go, its tree proved gone, when this returns.
async fn end_instance(pool: &Pool, instance: &InstanceStatus) -> Result<(), RpcError> {
    let number = instance.id.trim_start_matches('i').parse();
    pool.stop(number.map(InstanceId).map_err(|_| disposed())?)
        .await
        .map_err(|error| {
            let message = format!("{} could not be ended: {error}", instance.id);
            RpcError::failed("INSTANCE_NOT_ENDED", true, message, None)
        })
}

/// The resident memory of each instance's tree, in their order.
async fn memory(instances: &[InstanceStatus]) -> Vec<u64> {
    let pids: Vec<Option<u32>> = instances.iter().map(|instance| instance.pid).collect();
    let measured = tokio::task::spawn_blocking(move || {
        let table = ProcessTable::read().unwrap_or_default();
        let of_tree = |root: u32| {
            let below = table.below(root);
            let pids = below.iter().map(|process| process.identity.pid);
            pids.chain([root]).map(memory_bytes).sum()
        };
        let of_instance = |pid: Option<u32>| pid.map_or(0, of_tree);
        pids.into_iter().map(of_instance).collect()
    });
    // Memory is a remark; a look that failed says 0.
    measured.await.unwrap_or_default()
}

fn disposed() -> RpcError {
    RpcError::lsp(
        lspool_normalize::LspCode::Disposed,
        "lspool is ending",
        None,
    )
}

fn limits(numbers: &Numbers) -> CoreLimits {
    CoreLimits {
        outbox_bytes: numbers.outbox_bytes as usize,
        instance_idle_ms: numbers.idle_instance_ms,
        queries_per_client: numbers.queries as usize,
        stall_ms: numbers.stall_ms,
        ..defaults::CORE_LIMITS
    }
}

/// A world as `status` shows it: what it is, and what holds the processes in it together.
fn world_facts(world: &World) -> Value {
    let facts = world.subprocess().facts();
    json!({
        "id": world.id(),
        "kind": "local",
        "containment": facts.containment,
    })
}

/// `capabilities.experimental.lspool` of an `initialize` result.
fn announcement(world: &World, numbers: &Numbers) -> Value {
    json!({
        "version": defaults::METHODS_VERSION,
        "world": { "id": world.id(), "kind": "local", "os": std::env::consts::OS, "rootUri": null },
        "methods": crate::methods::ANNOUNCED,
        "sandbox": { "default": "danger-full-access", "modes": ["danger-full-access"], "enforced": {} },
        "limits": {
            "maxLocations": defaults::MAX_LOCATIONS,
            "contextLines": defaults::MAX_CONTEXT_LINES,
            "batch": defaults::MAX_BATCH,
            "queries": numbers.queries,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lspool_world::ScrubRules;

    #[test]
    fn configured_numbers_are_kept_and_that_of_queries_is_announced() {
        let numbers = Numbers {
            queries: 5_000,
            stall_ms: 7_000,
            ..Numbers::default()
        };
        let world = World::local(LocalOptions {
            scrub_rules: ScrubRules::builtin(),
            inherited_output: InheritedOutput::Log,
            control_groups: None,
        });
        assert_eq!(limits(&numbers).queries_per_client, 5_000);
        assert_eq!(limits(&numbers).stall_ms, 7_000);
        assert_eq!(announcement(&world, &numbers)["limits"]["queries"], 5_000);
    }
}
