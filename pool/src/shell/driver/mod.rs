//! The owner of the core: takes inputs one by one, and does what the core asks without ever waiting.

mod links;
mod processes;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lspool_normalize::{QueryRequest, QueryResult, RpcError};
use lspool_world::ProcessHandle;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::core::{
    CallId, ClientId, Core, Effect, Event, Generation, InstanceId, JobId, PoolStatus, QueryTicket,
    Tick, Timer,
};

use super::jobs::JobContext;
use super::link::ToWrite;
use super::stderr::Audience;
use super::{ClientContext, Connection, ConnectionEnd, Methods, Notice, PoolOptions, Step};

/// Steps that a recording keeps.
const RECORDED_STEPS: usize = 1 << 20;

/// What a query's asker gets.
pub(super) type QueryOutcome = Result<Arc<QueryResult>, Box<RpcError>>;

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
        reply: oneshot::Sender<QueryOutcome>,
    },
    Stop {
        instance: InstanceId,
        reply: oneshot::Sender<String>,
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
    /// The core's word on the end, which alone knows the exit code.
    exit_code: Option<i32>,
    /// Whether the writer has ended, by its own failure or by order.
    written: bool,
}

struct ServerHandle {
    link: LinkHandle,
    process: Arc<dyn ProcessHandle>,
}

/// A process that is being started.
#[derive(Default)]
struct Starting {
    /// Gives the start up; what comes of it all the same is ended at once.
    cancel: CancellationToken,
    /// Cancelled when the start has come to an outcome.
    over: CancellationToken,
}

/// The owner of the core.
pub(super) struct Driver {
    core: Core,
    started: Instant,
    context: JobContext,
    options: PoolOptions,
    /// Weak, so that the driver does not keep itself alive.
    inputs: mpsc::WeakSender<Input>,
    idle: watch::Sender<bool>,
    tasks: TaskTracker,
    clients: BTreeMap<ClientId, ClientHandle>,
    servers: BTreeMap<(InstanceId, Generation), ServerHandle>,
    starting: BTreeMap<(InstanceId, Generation), Starting>,
    audiences: BTreeMap<InstanceId, watch::Sender<Audience>>,
    timers: BTreeMap<Timer, Tick>,
    due: BTreeSet<(Tick, Timer)>,
    jobs: BTreeMap<JobId, CancellationToken>,
    calls: BTreeMap<CallId, CancellationToken>,
    queries: BTreeMap<QueryTicket, oneshot::Sender<QueryOutcome>>,
    /// Who waits for the end of an instance: told a failure, else nothing.
    stops: BTreeMap<InstanceId, Vec<oneshot::Sender<String>>>,
    shutdowns: Vec<oneshot::Sender<Vec<String>>>,
    /// Whether a shutdown found everything gone.
    has_ended: bool,
    recording: Vec<Step>,
    effects: Vec<Effect>,
}

impl Driver {
    pub(super) fn new(
        options: PoolOptions,
        inputs: mpsc::WeakSender<Input>,
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
            stops: BTreeMap::new(),
            shutdowns: Vec::new(),
            has_ended: false,
            recording: Vec::new(),
            effects: Vec::new(),
        }
    }

    /// Runs until every handle of the pool is gone and nothing runs, or until a shutdown is complete and every
    /// connection is closed.
    pub(super) async fn run(mut self, mut receiver: mpsc::Receiver<Input>) {
        while !(self.has_ended && self.clients.is_empty()) {
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
                    None => break,
                },
            }
            let empty = self.core.is_empty() && self.clients.is_empty();
            self.idle
                .send_if_modified(|idle| std::mem::replace(idle, empty) != empty);
        }
        self.let_go();
    }

    /// Ends the tasks for whose outcome nobody waits any more; those of connections and processes have ended.
    fn let_go(&self) {
        let links = self.servers.values().map(|server| &server.link.cancel);
        let starts = self.starting.values().map(|start| &start.over);
        let work = self.jobs.values().chain(self.calls.values());
        for cancel in work.chain(links).chain(starts) {
            cancel.cancel();
        }
    }

    /// Where tasks send what happens. With no sender left nobody is there to hear it either.
    fn inputs(&self) -> mpsc::Sender<Input> {
        self.inputs.upgrade().unwrap_or_else(|| mpsc::channel(1).0)
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
                if let Event::QueryCancelled { ticket } = &event {
                    // Nobody waits any more, so the core gives no answer that would take the entry away.
                    self.queries.remove(ticket);
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
                if let Err(text) = &result {
                    for reply in self.stops.remove(&instance).unwrap_or_default() {
                        // Whoever asked may have gone.
                        let _ = reply.send(text.clone());
                    }
                }
                self.handle(Event::Terminated {
                    instance,
                    generation,
                    result,
                });
            }
            Input::ClientWritten { client } => {
                if let Some(handle) = self.clients.get_mut(&client) {
                    handle.written = true;
                }
                self.end_if_over(client);
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
            Input::Stop { instance, reply } => self.stop(instance, reply),
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
                    links::close(&server.link);
                }
            }
            Effect::Audience { instance, clients } => self.set_audience(instance, &clients),
            Effect::Forget { instance } => {
                self.audiences.remove(&instance);
                // A dropped reply is the answer.
                self.stops.remove(&instance);
            }
            Effect::Terminate {
                instance,
                generation,
            } => self.terminate(instance, generation),
            Effect::Close {
                client,
                exit_code,
                drained,
            } => self.close_client(client, exit_code, drained),
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
                self.has_ended = failures.is_empty();
                for reply in self.shutdowns.drain(..) {
                    let _ = reply.send(failures.clone());
                }
            }
        }
    }
}
