//! A core with fake clients and fake servers around it and a clock that moves by hand: no task, no thread, no wait.
//!
//! Invariants that the rig itself holds every run to: one answer for each request, none for what was not asked, versions
//! that rise at a server, edits that fit the text which the server has, and every byte of credit given back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use lspool_normalize::{
    Completeness, Encoding, Envelope, Operation, Position, QueryRequest, QueryResult, QueryTarget,
    TextSource, TextVersion, edit,
};
use lspool_pool::core::{
    ClientFace, ClientId, ClientName, Core, CoreConfig, CoreLimits, Effect, Event, ExitReport,
    Frame, Generation, InstanceId, Job, JobId, JobOutcome, LaunchOutcome, LaunchRefusal, Link,
    QueryTicket, RereadDocument, Tick, Timer, compose,
};
use lspool_pool::edge::{ClientEdge, Decoded, ServerEdge, Text};
use lspool_pool::query::{FinishInput, LaunchPlan, Prepared};
use lspool_pool::registry::{LaunchFacts, Registry};
use lspool_pool::wire::{Kind, Message, Outgoing, RawId};
use lspool_world::{Environment, TargetKey};
use serde_json::{Value, json};

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
        retained_bytes: 1 << 20,
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

fn root_key() -> TargetKey {
    static KEY: LazyLock<TargetKey> = LazyLock::new(|| {
        let options = lspool_world::local::LocalOptions {
            scrub_rules: lspool_world::ScrubRules::builtin(),
            inherited_output: lspool_world::local::InheritedOutput::Log,
        };
        let world = lspool_world::World::local(options);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        let target = runtime.block_on(world.fs().resolve(Path::new(ROOT), Path::new("/")));
        target.unwrap().key().clone()
    });
    KEY.clone()
}

/// What the rig leaves to the test instead of doing it at once.
#[derive(Debug, Default)]
#[allow(
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

/// A client as the rig plays it.
#[derive(Debug)]
pub(crate) struct FakeClient {
    edge: ClientEdge,
    reads: bool,
    unread: Vec<usize>,
    pub(crate) inbox: Vec<String>,
    /// Requests that are not answered.
    pub(crate) open: BTreeSet<RawId>,
    /// Requests of servers that this client has not answered.
    pub(crate) asked: Vec<RawId>,
    pub(crate) closed: Option<i32>,
    pub(crate) notices: Vec<String>,
}

/// One process of a server as the rig plays it.
#[derive(Debug)]
pub(crate) struct FakeServer {
    edge: ServerEdge,
    reads: bool,
    unread: Vec<usize>,
    pub(crate) inbox: Vec<String>,
    /// Requests that are not answered: (id, method).
    pub(crate) open: Vec<(u64, String)>,
    /// Its own requests that are not answered.
    pub(crate) asking: BTreeSet<RawId>,
    pub(crate) cancelled: Vec<u64>,
    pub(crate) texts: BTreeMap<String, String>,
    pub(crate) versions: BTreeMap<String, i64>,
    /// The last number heard of each client of the property test.
    heard: BTreeMap<u64, u64>,
    pub(crate) input_closed: bool,
    pub(crate) terminated: bool,
    pub(crate) dead: bool,
}

/// What a query's answer was made of.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) outcome: Result<Arc<QueryResult>, lspool_normalize::RpcError>,
}

/// The whole.
pub(crate) struct Rig {
    pub(crate) core: Core,
    config: Arc<CoreConfig>,
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
    credit: BTreeMap<Link, i64>,
    next_client: u64,
    next_ticket: u64,
    queue: VecDeque<Event>,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(limits())
    }

    fn config(limits: CoreLimits) -> Arc<CoreConfig> {
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

    fn pump(&mut self) {
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
            Effect::Close { client, exit_code } => {
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

    fn spawn(&mut self, instance: InstanceId, generation: Generation) {
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

    fn start(&mut self, instance: InstanceId, generation: Generation) {
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

    fn deliver(&mut self, link: Link, message: &Outgoing) {
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

    fn drain(&mut self, link: Link) {
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

    // ----- jobs -----

    fn start_job(&mut self, job: JobId, work: Job) {
        let held = match &work {
            Job::Launch { .. } => self.hold.launch,
            Job::Open { .. } | Job::Change { .. } => self.hold.compose,
            Job::Lower { .. } => self.hold.lower,
            Job::Prepare { .. } => self.hold.prepare,
            Job::Reread { .. } => self.hold.reread,
            Job::Finish { .. } => false,
        };
        self.jobs.insert(job, work);
        if !held {
            let event = self.finished_job(job);
            self.queue.push_back(event);
        }
    }

    /// Lets a held job come back.
    pub(crate) fn finish_job(&mut self, job: JobId) {
        let event = self.finished_job(job);
        self.handle(event);
    }

    /// Lets all held jobs come back, oldest first.
    pub(crate) fn finish_jobs(&mut self) {
        while let Some(job) = self.jobs.keys().next().copied() {
            self.finish_job(job);
        }
    }

    fn finished_job(&mut self, job: JobId) -> Event {
        let work = self.jobs.remove(&job).unwrap();
        let outcome = match work {
            Job::Launch { argv, folder, .. } => JobOutcome::Launch(match &self.launch_refusal {
                Some(refusal) => Err(refusal.clone()),
                None => Ok(Box::new(launch(&argv[0].to_string_lossy(), folder))),
            }),
            Job::Open { .. } | Job::Change { .. } | Job::Lower { .. } => {
                JobOutcome::Composed(compose(&work).unwrap())
            }
            Job::Prepare { request, .. } => JobOutcome::Prepared(Ok(self.prepare(&request))),
            Job::Reread { documents, .. } => JobOutcome::Reread(self.reread(&documents)),
            Job::Finish { input, .. } => {
                self.finished.push(input.clone());
                JobOutcome::Finished(Ok(Arc::new(result(&input))))
            }
        };
        Event::JobDone { job, outcome }
    }

    fn prepare(&self, request: &QueryRequest) -> Arc<Prepared> {
        let (text, version) = &self.disk[&request.file];
        let registry = Registry::builtin();
        let plan = LaunchPlan {
            argv: vec!["/bin/clangd".into()],
            cwd: ROOT.into(),
            environment: Environment::default(),
            scrub: true,
            facts: facts("clangd-of-query"),
        };
        let prepared = Prepared {
            definition: registry.definition("clangd").unwrap().clone(),
            root_path: ROOT.into(),
            root_uri: ROOT_URI.to_owned(),
            root_key: root_key(),
            file_path: PathBuf::from(request.file.trim_start_matches("file://")),
            file_uri: request.file.clone(),
            asked_uri: request.file.clone(),
            file_key: root_key(),
            language_id: "c".to_owned(),
            text: text.as_str().into(),
            editor_text: None,
            file_version: version.to_string(),
            position: Position {
                line: 0,
                character: 4,
            },
            token: None,
            launch: Some(plan),
        };
        Arc::new(prepared)
    }

    fn reread(&self, documents: &[(String, PathBuf, String)]) -> Vec<RereadDocument> {
        documents
            .iter()
            .filter_map(|(uri, _, known)| {
                let text = self
                    .disk
                    .get(uri)
                    .map(|(text, version)| (Text::from(text.as_str()), version.to_string()));
                let changed = text.as_ref().is_none_or(|(_, version)| version != known);
                changed.then(|| RereadDocument {
                    uri: uri.clone(),
                    text,
                })
            })
            .collect()
    }

    // ----- clients -----

    pub(crate) fn open_client(&mut self, face: ClientFace) -> ClientId {
        self.next_client += 1;
        let client = ClientId(self.next_client);
        let fake = FakeClient {
            edge: ClientEdge::new(),
            reads: true,
            unread: Vec::new(),
            inbox: Vec::new(),
            open: BTreeSet::new(),
            asked: Vec::new(),
            closed: None,
            notices: Vec::new(),
        };
        self.clients.insert(client, fake);
        let name = ClientName {
            pid: 1,
            name: "test".to_owned(),
        };
        self.handle(Event::ClientOpened { client, face, name });
        client
    }

    /// A connection of an editor for `program` that has sent nothing.
    pub(crate) fn client(&mut self, program: &str) -> ClientId {
        self.open_client(ClientFace::Server {
            argv: vec![program.into()],
        })
    }

    /// A connection of a harness in session.
    pub(crate) fn harness(&mut self) -> ClientId {
        let client = self.open_client(ClientFace::Harness {
            root: Some(ROOT.into()),
        });
        self.initialize(client, "{}");
        self.initialized(client);
        client
    }

    pub(crate) fn initialize(&mut self, client: ClientId, capabilities: &str) {
        let params =
            format!(r#"{{"processId":1,"rootUri":"{ROOT_URI}","capabilities":{capabilities}}}"#);
        self.request(client, r#""init""#, "initialize", &params);
    }

    pub(crate) fn initialized(&mut self, client: ClientId) {
        self.notify(client, "initialized", "{}");
    }

    /// An editor in session; its handshake is read away.
    pub(crate) fn attach(&mut self, capabilities: &str) -> ClientId {
        let client = self.client("clangd");
        self.initialize(client, capabilities);
        self.initialized(client);
        self.clients.get_mut(&client).unwrap().inbox.clear();
        client
    }

    pub(crate) fn send(&mut self, client: ClientId, body: &str) {
        let message = Message::parse(Bytes::copy_from_slice(body.as_bytes())).unwrap();
        let fake = self.clients.get_mut(&client).unwrap();
        match message.kind() {
            Kind::Request => {
                fake.open.insert(message.id().unwrap().clone());
            }
            Kind::Response | Kind::ErrorResponse => {
                let id = message.id().unwrap().clone();
                fake.asked.retain(|asked| *asked != id);
            }
            Kind::Notification => {}
        }
        let decoded = fake.edge.decode(&message);
        let link = Link::Client(client);
        let credit = body.len() as u32;
        *self.credit.entry(link).or_default() += i64::from(credit);
        let frame = Box::new(Frame {
            message,
            decoded,
            credit,
        });
        self.handle(Event::Frame { link, frame });
    }

    pub(crate) fn request(&mut self, client: ClientId, id: &str, method: &str, params: &str) {
        self.send(
            client,
            &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#),
        );
    }

    pub(crate) fn hover(&mut self, client: ClientId, id: &str) {
        let params = format!(
            r#"{{"textDocument":{{"uri":"{FILE}"}},"position":{{"line":0,"character":0}}}}"#
        );
        self.request(client, id, "textDocument/hover", &params);
    }

    pub(crate) fn notify(&mut self, client: ClientId, method: &str, params: &str) {
        self.send(
            client,
            &format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#),
        );
    }

    pub(crate) fn cancel(&mut self, client: ClientId, id: &str) {
        self.notify(client, "$/cancelRequest", &format!(r#"{{"id":{id}}}"#));
    }

    pub(crate) fn open(&mut self, client: ClientId, uri: &str, version: &str, text: &str) {
        let params = format!(
            r#"{{"textDocument":{{"uri":"{uri}","languageId":"c","version":{version},"text":{}}}}}"#,
            json!(text)
        );
        self.notify(client, "textDocument/didOpen", &params);
    }

    /// Replaces the whole text.
    pub(crate) fn change(&mut self, client: ClientId, uri: &str, version: &str, text: &str) {
        let params = format!(
            r#"{{"textDocument":{{"uri":"{uri}","version":{version}}},"contentChanges":[{{"text":{}}}]}}"#,
            json!(text)
        );
        self.notify(client, "textDocument/didChange", &params);
    }

    pub(crate) fn close(&mut self, client: ClientId, uri: &str) {
        let params = format!(r#"{{"textDocument":{{"uri":"{uri}"}}}}"#);
        self.notify(client, "textDocument/didClose", &params);
    }

    /// Both directions of a connection break at once.
    pub(crate) fn kill(&mut self, client: ClientId) {
        for reason in ["end of input", "writing failed"] {
            self.handle(Event::LinkClosed {
                link: Link::Client(client),
                reason: reason.to_owned(),
            });
        }
    }

    /// What a client got since the last look.
    pub(crate) fn got(&mut self, client: ClientId) -> Vec<String> {
        std::mem::take(&mut self.clients.get_mut(&client).unwrap().inbox)
    }

    /// The same as values.
    pub(crate) fn got_values(&mut self, client: ClientId) -> Vec<Value> {
        self.got(client)
            .iter()
            .map(|body| serde_json::from_str(body).unwrap())
            .collect()
    }

    /// The one answer to a request that a client got since the last look.
    pub(crate) fn answer(&mut self, client: ClientId, id: Value) -> Value {
        let got = self.got_values(client);
        let mut answers = got
            .iter()
            .filter(|value| value.get("method").is_none() && value["id"] == id);
        let answer = answers
            .next()
            .unwrap_or_else(|| panic!("no answer to {id} in {got:?}"));
        assert!(answers.next().is_none(), "one answer to {id} in {got:?}");
        answer.clone()
    }

    // ----- servers -----

    /// The newest process.
    pub(crate) fn server(&self) -> (InstanceId, Generation) {
        *self.servers.keys().next_back().expect("a server runs")
    }

    pub(crate) fn fake(&mut self, at: (InstanceId, Generation)) -> &mut FakeServer {
        self.servers.get_mut(&at).unwrap()
    }

    fn server_event(&mut self, instance: InstanceId, generation: Generation, body: &str) -> Event {
        let message = Message::parse(Bytes::copy_from_slice(body.as_bytes())).unwrap();
        let server = self.servers.get_mut(&(instance, generation)).unwrap();
        match message.kind() {
            Kind::Response | Kind::ErrorResponse => {
                let id = message.id().and_then(RawId::as_u64);
                server.open.retain(|(number, _)| Some(*number) != id);
            }
            Kind::Request => {
                server.asking.insert(message.id().unwrap().clone());
            }
            Kind::Notification => {}
        }
        let decoded = server.edge.decode(&message);
        let link = Link::Server(instance, generation);
        let credit = body.len() as u32;
        *self.credit.entry(link).or_default() += i64::from(credit);
        let frame = Box::new(Frame {
            message,
            decoded,
            credit,
        });
        Event::Frame { link, frame }
    }

    pub(crate) fn server_says(&mut self, at: (InstanceId, Generation), body: &str) {
        let event = self.server_event(at.0, at.1, body);
        self.handle(event);
    }

    /// The server tells something.
    pub(crate) fn tell(&mut self, method: &str, params: &str) {
        let at = self.server();
        self.server_says(
            at,
            &format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#),
        );
    }

    /// The server asks something.
    pub(crate) fn ask(&mut self, id: &str, method: &str, params: &str) {
        let at = self.server();
        self.server_says(
            at,
            &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#),
        );
    }

    /// The server takes a request of its own back.
    pub(crate) fn withdraw(&mut self, id: &str) {
        let at = self.server();
        let body =
            format!(r#"{{"jsonrpc":"2.0","method":"$/cancelRequest","params":{{"id":{id}}}}}"#);
        let mut event = self.server_event(at.0, at.1, &body);
        if let Event::Frame { frame, .. } = &mut event {
            let start = body.find(r#""id":"#).unwrap() + 5;
            frame.decoded = Decoded::Cancel {
                id: RawId::parse(id).unwrap(),
                span: start..start + id.len(),
            };
        }
        self.handle(event);
    }

    /// The server answers its oldest open request for a method.
    pub(crate) fn serve(&mut self, method: &str, result: &str) {
        let at = self.server();
        let number = self.number(at, method);
        self.server_says(
            at,
            &format!(r#"{{"jsonrpc":"2.0","id":{number},"result":{result}}}"#),
        );
    }

    pub(crate) fn refuse(&mut self, method: &str, code: i64) {
        let at = self.server();
        let number = self.number(at, method);
        self.server_says(
            at,
            &format!(
                r#"{{"jsonrpc":"2.0","id":{number},"error":{{"code":{code},"message":"no"}}}}"#
            ),
        );
    }

    /// The id of the oldest open request for a method.
    pub(crate) fn number(&self, at: (InstanceId, Generation), method: &str) -> u64 {
        let open = &self.servers[&at].open;
        open.iter()
            .find(|(_, name)| name == method)
            .unwrap_or_else(|| panic!("{method} is not in flight: {open:?}"))
            .0
    }

    /// What the newest process got since the last look.
    pub(crate) fn server_got(&mut self) -> Vec<String> {
        let at = self.server();
        std::mem::take(&mut self.fake(at).inbox)
    }

    /// The methods that the newest process got since the last look; answers are `(answer)`.
    pub(crate) fn server_methods(&mut self) -> Vec<String> {
        self.server_got()
            .iter()
            .map(|body| {
                let value: Value = serde_json::from_str(body).unwrap();
                value["method"].as_str().unwrap_or("(answer)").to_owned()
            })
            .collect()
    }

    /// The answer that the newest process got to a request of its own.
    pub(crate) fn server_answer(&mut self, id: Value) -> Value {
        let got: Vec<Value> = self
            .server_got()
            .iter()
            .map(|body| serde_json::from_str(body).unwrap())
            .collect();
        got.iter()
            .find(|value| value.get("method").is_none() && value["id"] == id)
            .unwrap_or_else(|| panic!("no answer to {id} in {got:?}"))
            .clone()
    }

    /// The newest process ends by itself.
    pub(crate) fn exits(&mut self, outcome: &str) {
        let (instance, generation) = self.server();
        self.exits_at((instance, generation), outcome);
    }

    pub(crate) fn exits_at(&mut self, at: (InstanceId, Generation), outcome: &str) {
        if !self.fake(at).dead {
            self.die(at, outcome);
            self.pump();
        }
    }

    fn die(&mut self, at: (InstanceId, Generation), outcome: &str) {
        self.fake(at).dead = true;
        let report = ExitReport {
            outcome: outcome.to_owned(),
            stderr: "last words".to_owned(),
        };
        self.queue.push_back(Event::Exited {
            instance: at.0,
            generation: at.1,
            report,
        });
    }

    // ----- queries -----

    pub(crate) fn query(&mut self, client: ClientId, operation: Operation) -> QueryTicket {
        self.query_with(client, operation, |_| {})
    }

    pub(crate) fn query_with(
        &mut self,
        client: ClientId,
        operation: Operation,
        change: impl FnOnce(&mut QueryRequest),
    ) -> QueryTicket {
        self.next_ticket += 1;
        let ticket = QueryTicket(self.next_ticket);
        let mut request = QueryRequest {
            operation,
            file: FILE.to_owned(),
            workspace_root: None,
            target: QueryTarget::Position {
                position: Position {
                    line: 0,
                    character: 4,
                },
                token: None,
            },
            view: None,
            wait: None,
            timeout_ms: None,
            max_locations: None,
            cursor: None,
            context_lines: None,
            columns: None,
            work_done_token: None,
        };
        change(&mut request);
        self.handle(Event::Query {
            ticket,
            client,
            request: Arc::new(request),
        });
        ticket
    }

    /// The stable code of a query's error.
    pub(crate) fn query_error(&self, ticket: QueryTicket) -> Value {
        let done = self.done.get(&ticket).expect("the query is done");
        let error = done.outcome.as_ref().expect_err("the query failed");
        serde_json::to_value(error).unwrap()
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

impl FakeServer {
    /// Takes a message as a real server does.
    fn take(
        &mut self,
        message: &Message,
        body: String,
        expected: &BTreeMap<(u64, u64), BTreeMap<String, String>>,
    ) {
        let value: Value = serde_json::from_str(&body).unwrap();
        let params = &value["params"];
        if let (Some(client), Some(n)) = (params["client"].as_u64(), params["n"].as_u64()) {
            let last = self.heard.insert(client, n);
            assert!(
                last.is_none_or(|last| last < n),
                "{client}: {n} after {last:?}"
            );
            for (uri, text) in expected.get(&(client, n)).into_iter().flatten() {
                assert_eq!(
                    self.texts.get(uri),
                    Some(text),
                    "{uri} at request {n} of {client}"
                );
            }
        }
        match (message.kind(), message.method().as_deref()) {
            (Kind::Request, Some(method)) => {
                let id = message
                    .id()
                    .and_then(RawId::as_u64)
                    .expect("the pool's ids are numbers");
                self.open.push((id, method.to_owned()));
            }
            (Kind::Response | Kind::ErrorResponse, _) => {
                let id = message.id().unwrap();
                assert!(
                    self.asking.remove(id),
                    "an answer to nothing the server asks: {body}"
                );
            }
            (_, Some("$/cancelRequest")) => {
                self.cancelled.push(params["id"].as_u64().unwrap());
            }
            (_, Some("textDocument/didOpen")) => {
                let document = &params["textDocument"];
                let uri = document["uri"].as_str().unwrap().to_owned();
                self.rise(&uri, document);
                let text = document["text"].as_str().unwrap().to_owned();
                assert!(
                    self.texts.insert(uri, text).is_none(),
                    "opened twice: {body}"
                );
            }
            (_, Some("textDocument/didChange")) => {
                let document = &params["textDocument"];
                let uri = document["uri"].as_str().unwrap().to_owned();
                self.rise(&uri, document);
                let changes: Vec<edit::Change> =
                    serde_json::from_value(params["contentChanges"].clone()).unwrap();
                let text = self
                    .texts
                    .get_mut(&uri)
                    .expect("only an open document changes");
                *text = edit::apply_all(text, &changes, Encoding::Utf16);
            }
            (_, Some("textDocument/didClose")) => {
                let uri = params["textDocument"]["uri"].as_str().unwrap();
                assert!(self.texts.remove(uri).is_some(), "closed twice: {body}");
            }
            _ => {}
        }
        self.inbox.push(body);
    }

    fn rise(&mut self, uri: &str, document: &Value) {
        let version = document["version"].as_i64().expect("a version");
        if let Some(last) = self.versions.insert(uri.to_owned(), version) {
            assert!(version > last, "{uri}: {version} after {last}");
        }
    }
}

fn facts(name: &str) -> LaunchFacts {
    LaunchFacts {
        executable: PathBuf::from("/bin").join(name),
        parts: BTreeMap::new(),
        digest: name.bytes().map(u128::from).sum(),
    }
}

fn launch(program: &str, folder: Option<String>) -> LaunchOutcome {
    LaunchOutcome {
        facts: facts(program),
        argv: vec![PathBuf::from("/bin").join(program).into_os_string()],
        cwd: ROOT.into(),
        environment: Environment::default(),
        root_key: folder.as_ref().map(|_| root_key()),
        root_path: folder.map(|_| ROOT.into()),
    }
}

fn result(input: &FinishInput) -> QueryResult {
    QueryResult::Locations {
        locations: Vec::new(),
        token: None,
        envelope: Envelope {
            servers: vec![input.server.clone()],
            completeness: Completeness::Unknown,
            reason: None,
            readiness: input.readiness,
            progress: input.progress.clone(),
            workspace_uri: input.prepared.root_uri.clone(),
            text: TextVersion {
                source: TextSource::Disk,
                version: input.prepared.file_version.clone(),
            },
            total: 0,
            truncated: false,
            cursor: None,
            dropped: 0,
            waited_ms: input.waited_ms,
            notes: input.notes.clone(),
        },
    }
}
