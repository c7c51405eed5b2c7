//! A core with fake clients and fake servers around it and a clock that moves by hand: no task, no thread, no wait.
//!
//! Invariants that the rig itself holds every run to: one answer for each request, none for what was not asked, versions
//! that rise at a server, edits that fit the text which the server has, and every byte of credit given back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use lspool_pool::core::{
    ClientId, Core, CoreConfig, CoreLimits, Effect, Event, Generation, InstanceId, Job, JobId,
    LaunchRefusal, Link, QueryTicket, Tick, Timer,
};
use lspool_pool::edge::ServerEdge;
use lspool_pool::query::FinishInput;
use lspool_pool::registry::Registry;
use lspool_pool::wire::{Kind, Message, Outgoing};

mod clients;
mod jobs;
mod queries;
mod servers;

use clients::FakeClient;
use queries::Done;
use servers::FakeServer;

/// The root of the made-up project.
pub(crate) const ROOT: &str = "/lspool-rig";
/// Its URI.
pub(crate) const ROOT_URI: &str = "file:///lspool-rig";
/// A document in it.
pub(crate) const FILE: &str = "file:///lspool-rig/a.c";

/// What the fake servers answer to `initialize`, with blanks and an order that no serialiser would make.
pub(crate) const RESULT: &str = r#"{ "serverInfo":{"name":"fake","version":"1"}, "capabilities":{"textDocumentSync":2,"hoverProvider":true,"definitionProvider":true,"referencesProvider":true , "x":1e2}}"#;

/// Limits that tests state in short numbers.
pub(crate) fn limits() -> CoreLimits {
    CoreLimits {
        outbox_bytes: 300_000,
        instance_idle_ms: 600_000,
        shutdown_ms: 2_000,
        exit_ms: 1_000,
        startup_ms: 60_000,
        stall_ms: 2_000,
        hung_ms: 30_000,
        crash_budget: 5,
        crash_window_ms: 180_000,
        restart_pause_ms: 500,
        restart_pause_max_ms: 30_000,
        query_ms: 30_000,
        query_reserve_ms: 5_000,
        queries_per_client: 100,
        queries_in_flight: 4,
        query_documents: 3,
        query_document_bytes: 1 << 20,
    }
}

/// What the rig leaves to the test instead of doing it at once.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches of a test"
)]
pub(crate) struct Hold {
    pub(crate) launch: bool,
    pub(crate) compose: bool,
    pub(crate) lower: bool,
    pub(crate) prepare: bool,
    pub(crate) reread: bool,
    pub(crate) spawn: bool,
    pub(crate) initialize: bool,
    pub(crate) terminate: bool,
    /// Whether the end of a process by [`Effect::Terminate`] is not reported as its exit.
    pub(crate) exit: bool,
}

/// The whole.
pub(crate) struct Rig {
    pub(crate) core: Core,
    pub(super) config: Arc<CoreConfig>,
    pub(crate) now: u64,
    pub(crate) hold: Hold,
    pub(crate) result: String,
    pub(crate) clients: BTreeMap<ClientId, FakeClient>,
    pub(crate) servers: BTreeMap<(InstanceId, Generation), FakeServer>,
    pub(crate) timers: BTreeMap<Timer, Tick>,
    pub(crate) jobs: BTreeMap<JobId, Job>,
    pub(crate) done: BTreeMap<QueryTicket, Done>,
    pub(crate) finished: Vec<Arc<FinishInput>>,
    pub(crate) calls: Vec<(lspool_pool::core::CallId, String)>,
    pub(crate) shutdowns: Vec<Vec<String>>,
    pub(crate) spawns: usize,
    /// The clients that hear each server's standard error.
    pub(crate) audiences: BTreeMap<InstanceId, Vec<ClientId>>,
    pub(crate) forgotten: Vec<InstanceId>,
    /// What a server must have when it gets a request of the property test, by its client and number.
    pub(crate) expected: BTreeMap<(u64, u64), BTreeMap<String, String>>,
    /// The text of each file on disk and its version.
    pub(crate) disk: BTreeMap<String, (String, u32)>,
    pub(crate) launch_refusal: Option<LaunchRefusal>,
    pub(crate) steps: Vec<(Tick, Event, Vec<String>)>,
    pub(super) credit: BTreeMap<Link, i64>,
    pub(super) next_client: u64,
    pub(super) next_ticket: u64,
    pub(super) queue: VecDeque<Event>,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(limits())
    }

    pub(super) fn config(limits: CoreLimits) -> Arc<CoreConfig> {
        Arc::new(CoreConfig {
            limits,
            registry: Arc::new(Registry::builtin()),
            announcement: r#"{"version":1}"#.to_owned(),
            process_id: Some(4711),
            server_info: r#"{"name":"lspool"}"#.to_owned(),
        })
    }

    pub(crate) fn with(limits: CoreLimits) -> Self {
        let file = (FILE.to_owned(), ("int a;\n".to_owned(), 1));
        let config = Self::config(limits);
        Self {
            core: Core::new(config.clone()),
            config,
            now: 0,
            hold: Hold::default(),
            result: RESULT.to_owned(),
            clients: BTreeMap::new(),
            servers: BTreeMap::new(),
            timers: BTreeMap::new(),
            jobs: BTreeMap::new(),
            done: BTreeMap::new(),
            finished: Vec::new(),
            calls: Vec::new(),
            shutdowns: Vec::new(),
            spawns: 0,
            audiences: BTreeMap::new(),
            forgotten: Vec::new(),
            expected: BTreeMap::new(),
            disk: BTreeMap::from([file]),
            launch_refusal: None,
            steps: Vec::new(),
            credit: BTreeMap::new(),
            next_client: 0,
            next_ticket: 0,
            queue: VecDeque::new(),
        }
    }

    // ----- events -----

    /// Hands an event to the core and does all that follows from it at this tick.
    pub(crate) fn handle(&mut self, event: Event) {
        self.queue.push_back(event);
        self.pump();
    }

    pub(super) fn pump(&mut self) {
        while let Some(event) = self.queue.pop_front() {
            let mut effects = Vec::new();
            self.core
                .handle(Tick(self.now), event.clone(), &mut effects);
            self.core.check();
            let shown = effects.iter().map(|effect| format!("{effect:?}")).collect();
            self.steps.push((Tick(self.now), event, shown));
            for effect in effects {
                self.perform(effect);
            }
        }
    }

    /// Moves the clock, firing what is due on the way.
    pub(crate) fn advance(&mut self, milliseconds: u64) {
        let end = self.now + milliseconds;
        while let Some((timer, at)) = self
            .timers
            .iter()
            .map(|(timer, at)| (*timer, *at))
            .filter(|(_, at)| at.0 <= end)
            .min_by_key(|(timer, at)| (*at, *timer))
        {
            self.timers.remove(&timer);
            self.now = self.now.max(at.0);
            self.handle(Event::Timer { timer });
        }
        self.now = end;
    }

    pub(crate) fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Send { link, message } => self.deliver(link, &message),
            Effect::Release { link, credit } => {
                *self.credit.entry(link).or_default() -= i64::from(credit);
            }
            Effect::Job { job, work } => self.start_job(job, *work),
            Effect::CancelJob { job } => {
                self.jobs.remove(&job);
                self.queue
                    .retain(|event| !matches!(event, Event::JobDone { job: at, .. } if *at == job));
            }
            Effect::SetTimer { timer, at } => {
                self.timers.insert(timer, at);
            }
            Effect::ClearTimer { timer } => {
                self.timers.remove(&timer);
            }
            Effect::Spawn {
                instance,
                generation,
                ..
            } => self.spawn(instance, generation),
            Effect::CloseInput {
                instance,
                generation,
            } => {
                if let Some(server) = self.servers.get_mut(&(instance, generation)) {
                    server.input_closed = true;
                }
            }
            Effect::Terminate {
                instance,
                generation,
            } => {
                let ended = self
                    .servers
                    .get_mut(&(instance, generation))
                    .is_some_and(|server| {
                        server.terminated = true;
                        !server.dead
                    });
                if ended && !self.hold.exit {
                    self.die((instance, generation), "signal 15");
                }
                if !self.hold.terminate {
                    self.queue.push_back(Event::Terminated {
                        instance,
                        generation,
                        result: Ok(()),
                    });
                }
            }
            Effect::Audience { instance, clients } => {
                for client in &clients {
                    assert!(
                        self.clients.contains_key(client),
                        "{client} hears {instance}"
                    );
                }
                self.audiences.insert(instance, clients);
            }
            Effect::Forget { instance } => {
                self.audiences.remove(&instance);
                self.forgotten.push(instance);
            }
            Effect::Close {
                client, exit_code, ..
            } => {
                let fake = self.clients.get_mut(&client).unwrap();
                assert_eq!(fake.closed, None, "{client} is closed once");
                fake.closed = Some(exit_code);
            }
            Effect::Notice { client, text } => {
                self.clients.get_mut(&client).unwrap().notices.push(text);
            }
            Effect::Call { call, method, .. } => self.calls.push((call, method)),
            Effect::CancelCall { call } => self.calls.retain(|(at, _)| *at != call),
            Effect::QueryDone { ticket, result } => {
                let outcome = result.map_err(|error| *error);
                let earlier = self.done.insert(ticket, Done { outcome });
                assert!(earlier.is_none(), "{ticket} is answered once");
            }
            Effect::ShutdownDone { failures } => self.shutdowns.push(failures),
        }
    }

    pub(super) fn spawn(&mut self, instance: InstanceId, generation: Generation) {
        self.spawns += 1;
        if !self.hold.spawn {
            self.start(instance, generation);
        }
    }

    /// The process that was asked for runs.
    pub(crate) fn spawned(&mut self, instance: InstanceId, generation: Generation) {
        self.start(instance, generation);
        self.pump();
    }

    pub(super) fn start(&mut self, instance: InstanceId, generation: Generation) {
        let server = FakeServer {
            edge: ServerEdge::new(1),
            reads: true,
            unread: Vec::new(),
            inbox: Vec::new(),
            open: Vec::new(),
            asking: BTreeSet::new(),
            cancelled: Vec::new(),
            texts: BTreeMap::new(),
            versions: BTreeMap::new(),
            heard: BTreeMap::new(),
            input_closed: false,
            terminated: false,
            dead: false,
        };
        self.servers.insert((instance, generation), server);
        self.queue.push_back(Event::Spawned {
            instance,
            generation,
            result: Ok(Some(100)),
        });
    }

    pub(super) fn deliver(&mut self, link: Link, message: &Outgoing) {
        let body = String::from_utf8(message.to_vec()).unwrap();
        let parsed = Message::parse(Bytes::from(message.to_vec())).unwrap();
        let (reads, unread) = match link {
            Link::Client(id) => {
                let client = self.clients.get_mut(&id).unwrap();
                assert_eq!(client.closed, None, "nothing is sent to {id} after its end");
                match parsed.kind() {
                    Kind::Response | Kind::ErrorResponse => {
                        let answered = parsed.id().unwrap();
                        assert!(
                            client.open.remove(answered) || answered.is_null(),
                            "{id} got an answer to nothing it asks: {body}"
                        );
                    }
                    Kind::Request => client.asked.push(parsed.id().unwrap().clone()),
                    Kind::Notification => {}
                }
                client.inbox.push(body);
                (client.reads, &mut client.unread)
            }
            Link::Server(instance, generation) => {
                let server = self.servers.get_mut(&(instance, generation)).unwrap();
                server.take(&parsed, body, &self.expected);
                (server.reads, &mut server.unread)
            }
        };
        unread.push(message.len());
        if reads {
            self.drain(link);
        }
        if let Link::Server(instance, generation) = link
            && parsed.method().as_deref() == Some("initialize")
            && !self.hold.initialize
        {
            let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{}}}"#, self.result);
            let event = self.server_event(instance, generation, &answer);
            self.queue.push_back(event);
        }
    }

    pub(super) fn drain(&mut self, link: Link) {
        let unread = match link {
            Link::Client(id) => &mut self.clients.get_mut(&id).unwrap().unread,
            Link::Server(instance, generation) => {
                &mut self
                    .servers
                    .get_mut(&(instance, generation))
                    .unwrap()
                    .unread
            }
        };
        let unread = std::mem::take(unread);
        if !unread.is_empty() {
            self.queue.push_back(Event::Drained {
                link,
                bytes: unread.iter().sum(),
                messages: unread.len(),
            });
        }
    }

    /// Whether a link reads what is written to it.
    pub(crate) fn set_reads(&mut self, link: Link, reads: bool) {
        match link {
            Link::Client(id) => self.clients.get_mut(&id).unwrap().reads = reads,
            Link::Server(instance, generation) => {
                self.servers.get_mut(&(instance, generation)).unwrap().reads = reads;
            }
        }
        if reads {
            self.drain(link);
            self.pump();
        }
    }

    // ----- end -----

    /// Ends the pool and holds the whole run to the rig's invariants.
    pub(crate) fn end(mut self) {
        for at in self.servers.keys().copied().collect::<Vec<_>>() {
            self.set_reads(Link::Server(at.0, at.1), true);
        }
        self.hold.terminate = false;
        self.handle(Event::Shutdown);
        self.finish_jobs();
        self.advance(10_000);
        assert_eq!(self.shutdowns.len(), 1, "the end is reported once");
        assert!(self.core.is_empty());
        self.check_credit();
        for (id, client) in &self.clients {
            assert!(client.closed.is_some(), "{id} is closed");
        }
        self.replay();
    }

    /// Bytes of a link's credit that are not given back.
    pub(crate) fn credit_of(&self, link: Link) -> i64 {
        self.credit.get(&link).copied().unwrap_or_default()
    }

    /// Every byte of credit was given back.
    pub(crate) fn check_credit(&self) {
        for (link, left) in &self.credit {
            assert_eq!(*left, 0, "credit of {link:?}");
        }
    }

    /// The recorded events give the same effects in a fresh core.
    pub(crate) fn replay(&self) {
        let mut core = Core::new(self.config.clone());
        for (at, (tick, event, expected)) in self.steps.iter().enumerate() {
            let mut effects = Vec::new();
            core.handle(*tick, event.clone(), &mut effects);
            let shown: Vec<String> = effects.iter().map(|effect| format!("{effect:?}")).collect();
            assert_eq!(&shown, expected, "step {at}: {event:?}");
        }
    }
}
