//! The owner of the core: takes inputs one by one, and does what the core asks without ever waiting.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lspool_normalize::{QueryRequest, QueryResult, RpcError};
use lspool_world::{ProcessHandle, TreeMarker};
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::core::{
    CallId, ClientId, ClientName, Core, Effect, Event, Generation, INITIALIZE_ID, InstanceId, Job,
    JobId, Link, PoolStatus, QueryTicket, ServerLaunch, Tick, Timer, WINDOW_MESSAGES,
};
use crate::edge::{ClientEdge, ServerEdge};
use crate::wire::{FramerLimits, Outgoing};

use super::jobs::{self, JobContext};
use super::link::{Edge, LINK_CREDIT, Reader, ToWrite, Writer};
use super::process::OutputWatch;
use super::stderr::{Audience, Stderr};
use super::{
    ClientContext, Connection, ConnectionEnd, MethodCall, Methods, Notice, PoolOptions, Step,
    process,
};

/// Bytes of a header block.
const MAX_HEADER: usize = 64 * 1024;
/// Bytes that a peer may print before its first header.
const MAX_PREAMBLE: usize = 64 * 1024;
/// Steps that a recording keeps.
const RECORDED_STEPS: usize = 1 << 20;

/// What the driver is given.
pub(super) enum Input {
    Event(Event),
    Attach {
        client: ClientId,
        connection: Box<Connection>,
        end: oneshot::Sender<ConnectionEnd>,
    },
    Started {
        instance: InstanceId,
        generation: Generation,
        result: Result<Arc<dyn ProcessHandle>, String>,
    },
    Terminated {
        instance: InstanceId,
        generation: Generation,
        result: Result<(), String>,
    },
    ClientWritten {
        client: ClientId,
    },
    Query {
        ticket: QueryTicket,
        client: ClientId,
        request: Arc<QueryRequest>,
        reply: oneshot::Sender<Result<Arc<QueryResult>, Box<RpcError>>>,
    },
    Status(oneshot::Sender<PoolStatus>),
    Recording(oneshot::Sender<Vec<Step>>),
    Shutdown(oneshot::Sender<Vec<String>>),
}

/// A link as the driver holds it.
struct LinkHandle {
    queue: mpsc::Sender<ToWrite>,
    credit: Arc<Semaphore>,
    /// Ends reader and writer at once.
    cancel: CancellationToken,
    /// Ends the reader alone.
    reader_cancel: CancellationToken,
}

struct ClientHandle {
    link: LinkHandle,
    context: Arc<ClientContext>,
    methods: Arc<dyn Methods>,
    notices: mpsc::Sender<Notice>,
    end: Option<oneshot::Sender<ConnectionEnd>>,
    exit_code: i32,
}

struct ServerHandle {
    link: LinkHandle,
    process: Arc<dyn ProcessHandle>,
}

/// The owner of the core.
pub(super) struct Driver {
    core: Core,
    started: Instant,
    context: JobContext,
    options: PoolOptions,
    inputs: mpsc::Sender<Input>,
    idle: watch::Sender<bool>,
    tasks: TaskTracker,
    clients: BTreeMap<ClientId, ClientHandle>,
    servers: BTreeMap<(InstanceId, Generation), ServerHandle>,
    /// Processes that are being started, and whether each is to be ended at once.
    starting: BTreeMap<(InstanceId, Generation), bool>,
    audiences: BTreeMap<InstanceId, watch::Sender<Audience>>,
    timers: BTreeMap<Timer, Tick>,
    due: BTreeSet<(Tick, Timer)>,
    jobs: BTreeMap<JobId, CancellationToken>,
    calls: BTreeMap<CallId, CancellationToken>,
    queries: BTreeMap<QueryTicket, oneshot::Sender<Result<Arc<QueryResult>, Box<RpcError>>>>,
    shutdowns: Vec<oneshot::Sender<Vec<String>>>,
    recording: Vec<Step>,
    effects: Vec<Effect>,
}

impl Driver {
    pub(super) fn new(
        options: PoolOptions,
        inputs: mpsc::Sender<Input>,
        idle: watch::Sender<bool>,
        tasks: TaskTracker,
    ) -> Self {
        let context = JobContext {
            world: options.world.clone(),
            registry: options.core.registry.clone(),
            installs: options.installs.clone(),
        };
        Self {
            core: Core::new(options.core.clone()),
            started: Instant::now(),
            context,
            options,
            inputs,
            idle,
            tasks,
            clients: BTreeMap::new(),
            servers: BTreeMap::new(),
            starting: BTreeMap::new(),
            audiences: BTreeMap::new(),
            timers: BTreeMap::new(),
            due: BTreeSet::new(),
            jobs: BTreeMap::new(),
            calls: BTreeMap::new(),
            queries: BTreeMap::new(),
            shutdowns: Vec::new(),
            recording: Vec::new(),
            effects: Vec::new(),
        }
    }

    /// Runs until every handle of the pool is gone, or until a shutdown is complete.
    pub(super) async fn run(mut self, mut receiver: mpsc::Receiver<Input>) {
        loop {
            let next = self
                .due
                .first()
                .map(|(at, _)| self.started + Duration::from_millis(at.0));
            let timer = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = timer => self.timers_due(),
                input = receiver.recv() => match input {
                    Some(input) => self.input(input),
                    None => return,
                },
            }
            let empty = self.core.is_empty() && self.clients.is_empty();
            self.idle
                .send_if_modified(|idle| std::mem::replace(idle, empty) != empty);
        }
    }

    fn now(&self) -> Tick {
        Tick(self.started.elapsed().as_millis() as u64)
    }

    fn timers_due(&mut self) {
        let now = self.now();
        while let Some((at, timer)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, timer));
            self.timers.remove(&timer);
            self.handle(Event::Timer { timer });
        }
    }

    fn input(&mut self, input: Input) {
        match input {
            Input::Event(event) => {
                if let Event::JobDone { job, .. } = &event
                    && self.jobs.remove(job).is_none()
                {
                    return;
                }
                if let Event::CallDone { call, .. } = &event
                    && self.calls.remove(call).is_none()
                {
                    return;
                }
                self.handle(event);
            }
            Input::Attach {
                client,
                connection,
                end,
            } => self.attach(client, *connection, end),
            Input::Started {
                instance,
                generation,
                result,
            } => self.process_started(instance, generation, result),
            Input::Terminated {
                instance,
                generation,
                result,
            } => {
                if result.is_ok()
                    && let Some(server) = self.servers.remove(&(instance, generation))
                {
                    server.link.cancel.cancel();
                }
                self.handle(Event::Terminated {
                    instance,
                    generation,
                    result,
                });
            }
            Input::ClientWritten { client } => {
                if let Some(mut handle) = self.clients.remove(&client)
                    && let Some(end) = handle.end.take()
                {
                    // Whoever attached may have gone.
                    let _ = end.send(ConnectionEnd {
                        exit_code: handle.exit_code,
                    });
                }
            }
            Input::Query {
                ticket,
                client,
                request,
                reply,
            } => {
                self.queries.insert(ticket, reply);
                self.handle(Event::Query {
                    ticket,
                    client,
                    request,
                });
            }
            Input::Status(reply) => {
                let _ = reply.send(self.core.status());
            }
            Input::Recording(reply) => {
                let _ = reply.send(self.recording.clone());
            }
            Input::Shutdown(reply) => {
                self.shutdowns.push(reply);
                self.handle(Event::Shutdown);
            }
        }
    }

    fn handle(&mut self, event: Event) {
        let now = self.now();
        let recorded =
            (self.options.record && self.recording.len() < RECORDED_STEPS).then(|| event.clone());
        let mut effects = std::mem::take(&mut self.effects);
        self.core.handle(now, event, &mut effects);
        if let Some(event) = recorded {
            let effects = effects.iter().map(|effect| format!("{effect:?}")).collect();
            self.recording.push(Step {
                tick: now,
                event,
                effects,
            });
        }
        for effect in effects.drain(..) {
            self.perform(effect);
        }
        self.effects = effects;
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Send { link, message } => self.send(link, message),
            Effect::Release { link, credit } => {
                if let Some(link) = self.link(link) {
                    link.credit.add_permits(credit as usize);
                }
            }
            Effect::Job { job, work } => self.start_job(job, *work),
            Effect::CancelJob { job } => {
                if let Some(cancel) = self.jobs.remove(&job) {
                    cancel.cancel();
                }
            }
            Effect::SetTimer { timer, at } => {
                if let Some(old) = self.timers.insert(timer, at) {
                    self.due.remove(&(old, timer));
                }
                self.due.insert((at, timer));
            }
            Effect::ClearTimer { timer } => {
                if let Some(old) = self.timers.remove(&timer) {
                    self.due.remove(&(old, timer));
                }
            }
            Effect::Spawn {
                instance,
                generation,
                launch,
            } => self.spawn(instance, generation, &launch),
            Effect::CloseInput {
                instance,
                generation,
            } => {
                if let Some(server) = self.servers.get(&(instance, generation)) {
                    close(&server.link);
                }
            }
            Effect::Audience { instance, clients } => self.set_audience(instance, &clients),
            Effect::Forget { instance } => {
                self.audiences.remove(&instance);
            }
            Effect::Terminate {
                instance,
                generation,
            } => self.terminate(instance, generation),
            Effect::Close { client, exit_code } => self.close_client(client, exit_code),
            Effect::Notice { client, text } => self.notice(client, text),
            Effect::Call {
                call,
                client,
                method,
                params,
            } => self.start_call(call, client, method, params),
            Effect::CancelCall { call } => {
                if let Some(cancel) = self.calls.remove(&call) {
                    cancel.cancel();
                }
            }
            Effect::QueryDone { ticket, result } => {
                if let Some(reply) = self.queries.remove(&ticket) {
                    // The asker may have gone.
                    let _ = reply.send(result);
                }
            }
            Effect::ShutdownDone { failures } => {
                for reply in self.shutdowns.drain(..) {
                    let _ = reply.send(failures.clone());
                }
            }
        }
    }

    fn link(&self, link: Link) -> Option<&LinkHandle> {
        match link {
            Link::Client(id) => self.clients.get(&id).map(|client| &client.link),
            Link::Server(id, generation) => self
                .servers
                .get(&(id, generation))
                .map(|server| &server.link),
        }
    }

    fn send(&self, link: Link, message: Outgoing) {
        let Some(handle) = self.link(link) else {
            return;
        };
        // The core gives a writer no more than its queue holds, so only a writer that is gone refuses.
        if handle.queue.try_send(ToWrite::Message(message)).is_err() {
            tracing::debug!(?link, "a message found its writer gone");
        }
    }

    fn attach(
        &mut self,
        client: ClientId,
        connection: Connection,
        end: oneshot::Sender<ConnectionEnd>,
    ) {
        let Connection {
            input,
            output,
            face,
            context,
            methods,
            notices,
        } = connection;
        let name = ClientName {
            pid: context.pid,
            name: context.name.clone(),
        };
        let link = Link::Client(client);
        let (handle, queue) = self.open_link();
        let limits = FramerLimits {
            max_header: MAX_HEADER,
            max_body: self.options.max_body,
            max_preamble: None,
        };
        let edge = Edge::Client(ClientEdge::new());
        self.start_reader(link, input, edge, limits, &handle, CancellationToken::new());
        let writer = self.writer(link, output, queue, &handle);
        let inputs = self.inputs.clone();
        self.tasks.spawn(async move {
            writer.run().await;
            // The driver is gone only when the pool is.
            let _ = inputs.send(Input::ClientWritten { client }).await;
        });
        let core_face = (&face).into();
        let handle = ClientHandle {
            link: handle,
            context: Arc::new(context),
            methods,
            notices,
            end: Some(end),
            exit_code: 1,
        };
        self.clients.insert(client, handle);
        self.handle(Event::ClientOpened {
            client,
            face: core_face,
            name,
        });
    }

    fn open_link(&self) -> (LinkHandle, mpsc::Receiver<ToWrite>) {
        // One place more than the core's window, for the closing.
        let (queue, receiver) = mpsc::channel(WINDOW_MESSAGES + 1);
        let cancel = CancellationToken::new();
        let handle = LinkHandle {
            queue,
            credit: Arc::new(Semaphore::new(LINK_CREDIT)),
            reader_cancel: cancel.child_token(),
            cancel,
        };
        (handle, receiver)
    }

    fn start_reader(
        &self,
        link: Link,
        input: Box<dyn tokio::io::AsyncRead + Send + Unpin>,
        edge: Edge,
        limits: FramerLimits,
        handle: &LinkHandle,
        done: CancellationToken,
    ) {
        let reader = Reader {
            link,
            input,
            edge,
            limits,
            credit: handle.credit.clone(),
            inputs: self.inputs.clone(),
            cancel: handle.reader_cancel.clone(),
        };
        self.tasks.spawn(async move {
            reader.run().await;
            done.cancel();
        });
    }

    fn writer(
        &self,
        link: Link,
        output: Box<dyn tokio::io::AsyncWrite + Send + Unpin>,
        queue: mpsc::Receiver<ToWrite>,
        handle: &LinkHandle,
    ) -> Writer {
        Writer {
            link,
            output,
            queue,
            inputs: self.inputs.clone(),
            cancel: handle.cancel.clone(),
        }
    }

    fn close_client(&mut self, client: ClientId, exit_code: i32) {
        let Some(handle) = self.clients.get_mut(&client) else {
            return;
        };
        handle.exit_code = exit_code;
        handle.link.reader_cancel.cancel();
        // All that counts is written; a peer that does not read gets no more time.
        if handle.link.queue.capacity() == handle.link.queue.max_capacity() {
            close(&handle.link);
        } else {
            handle.link.cancel.cancel();
        }
    }

    fn notice(&self, client: ClientId, text: String) {
        let Some(handle) = self.clients.get(&client) else {
            return;
        };
        if let Err(error) = handle.notices.try_send(Notice(text)) {
            tracing::warn!(%client, notice = ?error.into_inner(), "a line for a person found no room");
        }
    }

    fn spawn(&mut self, instance: InstanceId, generation: Generation, launch: &ServerLaunch) {
        self.starting.insert((instance, generation), false);
        let grace = Duration::from_millis(self.options.grace_ms);
        let spec = process::spec(launch, self.tree_marker(), grace, CancellationToken::new());
        let start = process::start(
            self.options.world.clone(),
            spec,
            instance,
            generation,
            self.inputs.clone(),
        );
        self.tasks.spawn(start);
    }

    /// The people who hear what an instance says, over all its processes.
    fn audience(&mut self, instance: InstanceId) -> &watch::Sender<Audience> {
        self.audiences
            .entry(instance)
            .or_insert_with(|| watch::Sender::new(Audience::new()))
    }

    fn set_audience(&mut self, instance: InstanceId, clients: &[ClientId]) {
        let people = clients
            .iter()
            .filter_map(|client| Some(self.clients.get(client)?.notices.clone()))
            .collect();
        self.audience(instance).send_replace(people);
    }

    /// A marker of its own for each tree: what carries it ends with the tree, and never with another.
    fn tree_marker(&self) -> Option<TreeMarker> {
        let owner = self.options.marker.as_ref()?;
        Some(TreeMarker::unique(
            owner.name.clone(),
            &owner.value.to_string_lossy(),
        ))
    }

    fn process_started(
        &mut self,
        instance: InstanceId,
        generation: Generation,
        result: Result<Arc<dyn ProcessHandle>, String>,
    ) {
        let end_at_once = self
            .starting
            .remove(&(instance, generation))
            .unwrap_or(false);
        let process = match result {
            Ok(process) => process,
            Err(text) => {
                self.handle(Event::Spawned {
                    instance,
                    generation,
                    result: Err(text),
                });
                if end_at_once {
                    self.handle(Event::Terminated {
                        instance,
                        generation,
                        result: Ok(()),
                    });
                }
                return;
            }
        };
        let link = Link::Server(instance, generation);
        let (handle, queue) = self.open_link();
        let output_read = CancellationToken::new();
        if let Some(stdout) = process.take_stdout() {
            let limits = FramerLimits {
                max_header: MAX_HEADER,
                max_body: self.options.max_body,
                max_preamble: Some(MAX_PREAMBLE),
            };
            let edge = Edge::Server(ServerEdge::new(INITIALIZE_ID));
            self.start_reader(link, stdout, edge, limits, &handle, output_read.clone());
        }
        if let Some(stdin) = process.take_stdin() {
            self.tasks
                .spawn(self.writer(link, stdin, queue, &handle).run());
        }
        let finished = CancellationToken::new();
        let (tail, stderr_tail) = oneshot::channel();
        if let Some(pipe) = process.take_stderr() {
            let audience = self.audience(instance).subscribe();
            let stderr = Stderr {
                pipe,
                audience,
                finished: finished.clone(),
                tail,
            };
            self.tasks.spawn(stderr.run());
        }
        let output = OutputWatch {
            stdout_read: output_read,
            finished,
            stderr_tail,
        };
        self.tasks.spawn(process::wait(
            process.clone(),
            instance,
            generation,
            output,
            self.inputs.clone(),
        ));
        let pid = process.pid();
        self.servers.insert(
            (instance, generation),
            ServerHandle {
                link: handle,
                process,
            },
        );
        if end_at_once {
            self.terminate(instance, generation);
        }
        self.handle(Event::Spawned {
            instance,
            generation,
            result: Ok(pid),
        });
    }

    fn terminate(&mut self, instance: InstanceId, generation: Generation) {
        if let Some(server) = self.servers.get(&(instance, generation)) {
            let end = process::terminate(
                server.process.clone(),
                instance,
                generation,
                self.inputs.clone(),
            );
            self.tasks.spawn(end);
        } else if let Some(end_at_once) = self.starting.get_mut(&(instance, generation)) {
            *end_at_once = true;
        } else {
            // There is nothing to end; the answer comes as an event of its own, as for every other end.
            let inputs = self.inputs.clone();
            self.tasks.spawn(async move {
                let _ = inputs
                    .send(Input::Terminated {
                        instance,
                        generation,
                        result: Ok(()),
                    })
                    .await;
            });
        }
    }

    fn start_job(&mut self, job: JobId, work: Job) {
        let client = match &work {
            Job::Launch { client, .. }
            | Job::Prepare { client, .. }
            | Job::Finish { client, .. } => self
                .clients
                .get(client)
                .map(|handle| handle.context.clone()),
            _ => None,
        };
        let cancel = CancellationToken::new();
        self.jobs.insert(job, cancel.clone());
        let (context, inputs) = (self.context.clone(), self.inputs.clone());
        self.tasks.spawn(async move {
            let outcome = tokio::select! {
                () = cancel.cancelled() => return,
                outcome = jobs::run(context, client, work) => outcome,
            };
            match outcome {
                Some(outcome) => {
                    let _ = inputs
                        .send(Input::Event(Event::JobDone { job, outcome }))
                        .await;
                }
                None => tracing::debug!(%job, "a job was for a connection that is gone"),
            }
        });
    }

    fn start_call(
        &mut self,
        call: CallId,
        client: ClientId,
        method: String,
        params: Option<String>,
    ) {
        let Some(handle) = self.clients.get(&client) else {
            return;
        };
        let cancel = CancellationToken::new();
        self.calls.insert(call, cancel.clone());
        let params = params.and_then(|params| RawValue::from_string(params).ok());
        let future = handle.methods.call(MethodCall {
            client,
            method,
            params,
        });
        let inputs = self.inputs.clone();
        self.tasks.spawn(async move {
            let result = tokio::select! {
                () = cancel.cancelled() => return,
                result = future => result,
            };
            let result = result.map(|value| value.get().to_owned()).map_err(Box::new);
            let _ = inputs
                .send(Input::Event(Event::CallDone { call, result }))
                .await;
        });
    }
}

/// Lets a writer close its stream after what it was given.
fn close(link: &LinkHandle) {
    if link.queue.try_send(ToWrite::Close).is_err() {
        link.cancel.cancel();
    }
}
