//! The sans-I/O core: everything that decides.
//!
//! One plain struct with one owner and one entry, [`Core::handle`]: no async, no clock, no channel and no
//! lock inside. The shell turns bytes into [`Event`]s and [`Effect`]s into bytes; a program with a manual
//! clock can drive the core as well, and a recorded list of events replayed into a fresh core gives the
//! same effects.
//!
//! Invariants kept here: *in order*, *one answer each*, *nobody waits for a stranger*, *a client cannot tell
//! that it shares*, *a crash is an event*. [`Core::check`] states what must hold between any two events.

mod asking;
mod calls;
mod check;
mod client;
mod compose;
mod config;
mod configuration;
mod crash;
mod disturbed;
mod documents;
mod early;
mod effect;
mod ending;
mod event;
mod failure;
mod from_client;
mod from_server;
mod handshake;
mod ids;
mod instance;
mod leaving;
mod lifecycle;
mod neutral;
mod notifications;
mod outbox;
mod query;
mod readiness;
mod registrations;
mod requests;
mod server_requests;
mod stall;
mod status;

use std::collections::BTreeMap;
use std::sync::Arc;

use lspool_normalize::CommonCode;

pub use client::{ClientFace, ClientName};
pub use compose::{compose, compose_plainly};
pub use config::{CoreConfig, CoreLimits};
pub use effect::{Effect, Job};
pub use event::{
    Event, ExitReport, FinishOutcome, Frame, FrameFault, JobOutcome, LaunchOutcome, LaunchRefusal,
    PrepareOutcome, RereadDocument, RereadOutcome,
};
pub use ids::{
    CallId, ClientId, Generation, InstanceId, InstanceTimer, JobId, Link, QueryTicket, Tick, Timer,
};
pub(crate) use instance::INITIALIZE_ID;
pub use instance::ServerLaunch;
pub(crate) use outbox::WINDOW_MESSAGES;
pub use status::{ClientStatus, InstanceStatus, PoolStatus};

use client::Client;
use failure::Failure;
use instance::{Instance, Phase};
use query::Query;

/// All that the pool knows and decides. See the module for its rules.
#[derive(Debug)]
pub struct Core {
    config: Arc<CoreConfig>,
    now: Tick,
    clients: BTreeMap<ClientId, Client>,
    instances: BTreeMap<InstanceId, Instance>,
    queries: BTreeMap<QueryTicket, Query>,
    jobs: BTreeMap<JobId, JobOwner>,
    calls: BTreeMap<CallId, ClientId>,
    next: Counters,
    shutting_down: bool,
    /// Whether somebody waits for the report of a shutdown.
    shutdown_asked: bool,
    late_answers: u64,
    asked_again: u64,
    #[cfg(debug_assertions)]
    unchecked_events: usize,
}

/// Who waits for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobOwner {
    Launch(ClientId),
    /// An answer is being shaped for a client.
    Lower(ClientId),
    /// A document message is being composed for a server.
    Compose(InstanceId, Generation),
    Prepare(QueryTicket),
    Reread(QueryTicket),
    Finish(QueryTicket),
}

/// The next free number of each kind; numbers are never used twice.
#[derive(Debug, Default)]
struct Counters {
    instance: u64,
    job: u64,
    call: u64,
    request: u64,
    activity: u64,
}

impl Core {
    /// A core without clients and instances.
    pub fn new(config: Arc<CoreConfig>) -> Self {
        Self {
            config,
            now: Tick(0),
            clients: BTreeMap::new(),
            instances: BTreeMap::new(),
            queries: BTreeMap::new(),
            jobs: BTreeMap::new(),
            calls: BTreeMap::new(),
            // 1 is every server's `initialize`.
            next: Counters {
                request: 1,
                ..Counters::default()
            },
            shutting_down: false,
            shutdown_asked: false,
            late_answers: 0,
            asked_again: 0,
            #[cfg(debug_assertions)]
            unchecked_events: 0,
        }
    }

    /// Takes one event and appends what is to be done to `out`, in order.
    ///
    /// `now` never falls between two calls. The cost does not depend on the size of a message's body.
    pub fn handle(&mut self, now: Tick, event: Event, out: &mut Vec<Effect>) {
        self.now = now;
        match event {
            Event::ClientOpened { client, face, name } => {
                self.client_opened(client, face, name, out);
            }
            Event::Frame { link, frame } => match link {
                Link::Client(client) => self.frame_from_client(client, *frame, out),
                Link::Server(instance, generation) => {
                    self.frame_from_server(instance, generation, *frame, out);
                }
            },
            Event::BadFrame {
                link,
                fault,
                credit,
            } => self.bad_frame(link, fault, credit, out),
            Event::LinkClosed { link, reason } => self.link_closed(link, &reason, out),
            Event::Drained {
                link,
                bytes,
                messages,
            } => self.drained(link, bytes, messages, out),
            Event::Timer { timer } => self.timer(timer, out),
            Event::JobDone { job, outcome } => self.job_done(job, outcome, out),
            Event::Spawned {
                instance,
                generation,
                result,
            } => self.spawned(instance, generation, result, out),
            Event::Exited {
                instance,
                generation,
                report,
            } => self.exited(instance, generation, &report, out),
            Event::Terminated {
                instance,
                generation,
                result,
            } => {
                self.terminated(instance, generation, result, out);
            }
            Event::CallDone { call, result } => self.call_done(call, result, out),
            Event::Query {
                ticket,
                client,
                request,
            } => self.query_asked(ticket, client, request, out),
            Event::QueryCancelled { ticket } => self.query_cancelled(ticket, out),
            Event::Stop { instance } => self.stop_requested(instance, out),
            Event::Shutdown => self.shutdown(out),
        }
        self.settle(out);
        #[cfg(debug_assertions)]
        self.check_in_passing();
    }

    /// Whether there is neither a client nor an instance, so that a daemon may leave.
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty() && self.instances.is_empty() && self.queries.is_empty()
    }

    /// The instance, while this is the generation of its process: what comes from an older one counts no more.
    fn process(&mut self, target: InstanceId, generation: Generation) -> Option<&mut Instance> {
        self.instances
            .get_mut(&target)
            .filter(|instance| instance.generation == generation)
    }

    fn job(&mut self, owner: JobOwner, work: Job, out: &mut Vec<Effect>) -> JobId {
        self.next.job += 1;
        let job = JobId(self.next.job);
        self.jobs.insert(job, owner);
        out.push(Effect::Job {
            job,
            work: Box::new(work),
        });
        job
    }

    fn job_done(&mut self, job: JobId, outcome: JobOutcome, out: &mut Vec<Effect>) {
        let Some(owner) = self.jobs.remove(&job) else {
            return;
        };
        match (owner, outcome) {
            (JobOwner::Launch(client), JobOutcome::Launch(result)) => {
                self.launch_resolved(client, result, out);
            }
            (JobOwner::Lower(client), JobOutcome::Composed(message)) => {
                self.lowered(client, job, message, out);
            }
            (JobOwner::Compose(instance, generation), JobOutcome::Composed(message)) => {
                self.composed(instance, generation, job, message, out);
            }
            (JobOwner::Prepare(ticket), JobOutcome::Prepared(result)) => {
                self.query_prepared(ticket, result, out);
            }
            (JobOwner::Reread(ticket), JobOutcome::Reread(documents)) => {
                self.query_reread(ticket, &documents, out);
            }
            (JobOwner::Finish(ticket), JobOutcome::Finished(result)) => {
                self.query_finished(ticket, result, out);
            }
            (owner, JobOutcome::Failed(text)) => self.job_failed(owner, &text, out),
            (owner, outcome) => {
                let outcome = outcome.kind();
                tracing::error!(?owner, outcome, "a job came back as another kind of job");
                self.job_failed(owner, "it came to an outcome of another kind", out);
            }
        }
    }

    /// A job without an outcome: whoever waits for it is told, and a place that nothing can fill ends its link, since
    /// nothing behind it would ever be written.
    fn job_failed(&mut self, owner: JobOwner, text: &str, out: &mut Vec<Effect>) {
        tracing::warn!(?owner, text, "a job failed");
        match owner {
            JobOwner::Launch(client) => {
                let refusal = LaunchRefusal {
                    exit_code: 1,
                    text: format!("lspool: the server's program could not be looked up: {text}"),
                };
                self.launch_resolved(client, Err(refusal), out);
            }
            JobOwner::Prepare(ticket) | JobOwner::Reread(ticket) | JobOwner::Finish(ticket) => {
                let text = format!("the files of the question could not be read: {text}");
                let failure = Failure::common(CommonCode::WorldUnavailable, &text);
                self.fail_query(ticket, failure, out);
            }
            JobOwner::Lower(client) => self.drop_client(client, out),
            JobOwner::Compose(target, generation) => {
                let is_in_service = self.instances.get(&target).is_some_and(|instance| {
                    instance.generation == generation && instance.phase == Phase::Ready
                });
                if is_in_service {
                    let text = format!("a message for the server could not be composed: {text}");
                    self.crashed(target, &text, out);
                }
            }
        }
    }

    fn timer(&mut self, timer: Timer, out: &mut Vec<Effect>) {
        match timer {
            Timer::Instance(instance, kind) => self.instance_timer(instance, kind, out),
            Timer::QueryDeadline(ticket) => self.query_deadline(ticket, out),
            Timer::QueryStep(ticket) => self.query_step(ticket, out),
            Timer::ClientProgress(client) => self.client_progress_timer(client, out),
            Timer::ClientLeaving(client) => self.client_leaving_timer(client, out),
        }
    }

    fn drained(&mut self, link: Link, bytes: usize, messages: usize, out: &mut Vec<Effect>) {
        let now = self.now;
        match link {
            Link::Client(id) => {
                let Some(client) = self.clients.get_mut(&id) else {
                    return;
                };
                client.outbox.drained(bytes, messages, now);
                client.outbox.pump(link, now, out);
                self.unpark_servers_of(id, out);
            }
            Link::Server(id, generation) => {
                let Some(instance) = self.instances.get_mut(&id) else {
                    return;
                };
                if instance.generation != generation {
                    return;
                }
                instance.outbox.drained(bytes, messages, now);
                instance.outbox.pump(link, now, out);
                self.server_made_progress(id, out);
            }
        }
    }

    /// Serves what an event has made possible: parked frames of clients, and clients that may now close.
    fn settle(&mut self, out: &mut Vec<Effect>) {
        let ids: Vec<ClientId> = self
            .clients
            .iter()
            .filter(|(_, client)| client.has_parked() || client.is_leaving() || client.is_closing())
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            self.unpark_client(id, out);
            let left = self
                .clients
                .get(&id)
                .is_some_and(|client| client.is_leaving() && !client.is_owed());
            if left {
                self.finish_leaving(id, out);
            }
            self.close_if_drained(id, out);
        }
    }
}
