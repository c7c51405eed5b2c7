//! From a client's `initialize` to its answer: finding the instance with the same identity, or starting it.
//!
//! A server sees exactly one `initialize`; every further client gets the recorded result.

use std::sync::Arc;

use lspool_normalize::LspCode;
use lspool_normalize::UriKey;

use crate::edge::{InitializeFacts, ServerFacts, with_announcement};
use crate::wire::{Message, Outgoing, RawId};

use super::client::{Client, ClientFace, ClientName, Phase};
use super::effect::{Effect, Job};
use super::event::{Frame, LaunchOutcome, LaunchRefusal};
use super::failure::Failure;
use super::ids::{ClientId, InstanceId, Link};
use super::instance::{self, Identity, ServerLaunch};
use super::{Core, JobOwner};

/// JSON-RPC: invalid request.
pub(super) const INVALID_REQUEST: i64 = -32600;
/// LSP: the request failed as specified.
pub(super) const REQUEST_FAILED: i64 = -32803;

impl Core {
    pub(super) fn client_opened(
        &mut self,
        id: ClientId,
        face: ClientFace,
        name: ClientName,
        out: &mut Vec<Effect>,
    ) {
        let client = Client::new(face, name, self.config.limits.outbox_bytes, self.now);
        self.clients.insert(id, client);
        if self.shutting_down {
            self.close_client(id, super::ending::LOST, out);
        }
    }

    /// Serves the first `initialize` of a client.
    pub(super) fn initialize(
        &mut self,
        id: ClientId,
        request: RawId,
        facts: Box<InitializeFacts>,
        out: &mut Vec<Effect>,
    ) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        client.phase = Phase::Initializing;
        client.initialize_id = Some(request);
        let options_digest = facts.options_digest;
        let folder = facts.folders.first().cloned();
        client.facts = Some(facts);
        match client.face.clone() {
            ClientFace::Harness { .. } => {
                let result = format!(
                    r#"{{"capabilities":{{"textDocumentSync":{{"openClose":true,"change":2}},"experimental":{{"lspool":{}}}}},"serverInfo":{}}}"#,
                    self.config.announcement, self.config.server_info
                );
                self.answer_initialize(id, &result, out);
            }
            ClientFace::Server { argv } => {
                let identity_environment = argv
                    .first()
                    .and_then(|program| self.config.definition_of(program.as_ref()))
                    .map(|definition| definition.identity_env.clone())
                    .unwrap_or_default();
                let work = Job::Launch {
                    client: id,
                    argv,
                    options_digest,
                    folder,
                    identity_environment,
                };
                self.job(JobOwner::Launch(id), work, out);
            }
        }
    }

    pub(super) fn launch_resolved(
        &mut self,
        id: ClientId,
        result: Result<Box<LaunchOutcome>, LaunchRefusal>,
        out: &mut Vec<Effect>,
    ) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        match result {
            Err(refusal) => {
                let text = refusal.text.clone();
                let failure = Failure::lsp(LspCode::Unavailable, &text);
                self.refuse_client(id, failure, refusal.exit_code, out);
            }
            Ok(outcome) => {
                client.launch = Some(outcome);
                self.join_or_start(id, out);
            }
        }
    }

    /// Gives a client the instance with its identity, started if there is none.
    fn join_or_start(&mut self, id: ClientId, out: &mut Vec<Effect>) {
        let Some(client) = self.clients.get(&id) else {
            return;
        };
        let (Some(facts), Some(outcome)) = (client.facts.as_ref(), client.launch.as_ref()) else {
            return;
        };
        let identity = Identity {
            launch: outcome.facts.clone(),
            folders: facts
                .folders
                .iter()
                .map(|folder| comparable_folder(folder))
                .collect(),
            profile: facts.raised.digest,
        };
        let running = self
            .instances
            .values()
            .find(|instance| instance.admits() && instance.identity.matches(&identity))
            .map(|instance| instance.id);
        let target = match running {
            Some(instance) => instance,
            None => self.start_for_client(id, identity, out),
        };
        self.attach(id, target, out);
    }

    fn start_for_client(
        &mut self,
        id: ClientId,
        identity: Identity,
        out: &mut Vec<Effect>,
    ) -> InstanceId {
        let client = &self.clients[&id];
        let (Some(facts), Some(outcome)) = (client.facts.as_ref(), client.launch.as_ref()) else {
            unreachable!("a client starts a server only with its facts and its launch resolved")
        };
        let definition = outcome
            .argv
            .first()
            .and_then(|program| self.config.definition_of(program.as_ref()));
        let launch = ServerLaunch {
            argv: outcome.argv.clone(),
            cwd: outcome.cwd.clone(),
            environment: outcome.environment.clone(),
            scrub: false,
            umask: outcome.umask,
        };
        let params = with_process_id(facts, self.config.process_id);
        let start = instance::Start {
            identity,
            launch: Arc::new(launch),
            definition,
            root_key: outcome.root_key.clone(),
            root_path: outcome.root_path.clone(),
            folders: facts.folders.clone(),
            initialize_params: params,
        };
        self.start_instance(start, out)
    }

    fn attach(&mut self, id: ClientId, target: InstanceId, out: &mut Vec<Effect>) {
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        instance.clients.push(id);
        out.push(instance.audience());
        instance.had_only_queries = false;
        if let Some(client) = self.clients.get_mut(&id) {
            client.instances.push(target);
        }
        Self::use_instance(target, out);
        // With a second user nothing waits for the first one any more.
        self.unpark_server(target, out);
        let facts = self
            .instances
            .get(&target)
            .filter(|instance| instance.serves())
            .and_then(|it| it.facts.clone());
        if let Some(facts) = facts {
            self.answer_initialize_with(id, &facts, out);
        }
    }

    /// Answers every client that waits for this instance's result.
    pub(super) fn answer_waiting_clients(
        &mut self,
        target: InstanceId,
        facts: &Arc<ServerFacts>,
        out: &mut Vec<Effect>,
    ) {
        let waiting = self.clients_of(target);
        for id in waiting {
            if self
                .clients
                .get(&id)
                .is_some_and(|client| client.phase == Phase::Initializing)
            {
                self.answer_initialize_with(id, facts, out);
            }
        }
    }

    fn answer_initialize_with(&mut self, id: ClientId, facts: &ServerFacts, out: &mut Vec<Effect>) {
        let knows_lspool = self
            .clients
            .get(&id)
            .and_then(|client| client.facts.as_ref())
            .is_some_and(|facts| facts.knows_lspool);
        if knows_lspool {
            let result = with_announcement(&facts.result, &self.config.announcement);
            self.answer_initialize(id, &result, out);
        } else {
            self.answer_initialize(id, &facts.result, out);
        }
    }

    fn answer_initialize(&mut self, id: ClientId, result: &str, out: &mut Vec<Effect>) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let Some(request) = client.initialize_id.take() else {
            return;
        };
        client.phase = Phase::Answered;
        let message = Outgoing::from(Message::result(&request, result));
        self.send_to_client(id, message, out);
    }

    /// Ends a client's handshake with an error, a line for its person and its exit code.
    pub(super) fn refuse_client(
        &mut self,
        id: ClientId,
        failure: Failure<'_>,
        exit_code: i32,
        out: &mut Vec<Effect>,
    ) {
        self.fail_all_requests(id, failure, out);
        out.push(Effect::Notice {
            client: id,
            text: failure.text.to_owned(),
        });
        self.close_client(id, exit_code, out);
    }

    /// Serves a client's `initialized`: the first one goes to the server, each one brings what a late joiner missed.
    pub(super) fn client_initialized(
        &mut self,
        id: ClientId,
        frame: &Frame,
        out: &mut Vec<Effect>,
    ) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        if client.phase != Phase::Answered {
            return;
        }
        client.phase = Phase::Live;
        for target in client.instances.clone() {
            let Some(instance) = self.instances.get_mut(&target) else {
                continue;
            };
            if instance.serves() && !instance.initialized_sent {
                instance.initialized_sent = true;
                self.send_to_server(target, frame.message.clone(), out);
                self.instance_in_service(target, out);
            }
            self.replay_to(id, target, out);
        }
    }

    /// Tells a late joiner what the others were told before it came.
    fn replay_to(&mut self, id: ClientId, target: InstanceId, out: &mut Vec<Effect>) {
        self.replay_registrations(id, target, out);
        self.replay_progress(id, target, out);
        self.replay_loose_diagnostics(id, target, out);
    }

    /// Appends a message to a client's outbox.
    pub(super) fn send_to_client(
        &mut self,
        id: ClientId,
        message: Outgoing,
        out: &mut Vec<Effect>,
    ) {
        let now = self.now;
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        client.outbox.push(Link::Client(id), message, now, out);
        self.watch_client(id, out);
    }
}

/// The params of `initialize` with the process that the server may watch: the pool's own, or none.
fn with_process_id(facts: &InitializeFacts, process_id: Option<u32>) -> String {
    let Some(span) = facts.process_id_span.clone() else {
        return facts.params.clone();
    };
    let value = process_id.map_or_else(|| "null".to_owned(), |pid| pid.to_string());
    let mut params = String::with_capacity(facts.params.len() + value.len());
    params.push_str(&facts.params[..span.start]);
    params.push_str(&value);
    params.push_str(&facts.params[span.end..]);
    params
}

/// A folder as spelled, a URI or a path, for comparison.
fn comparable_folder(folder: &str) -> UriKey {
    let trimmed = folder.trim_end_matches('/');
    if folder.starts_with('/') {
        UriKey::of_path(trimmed.as_bytes())
    } else {
        UriKey::new(trimmed)
    }
}
