//! One normalised query, from the question to its answer, as a machine of stages.
//!
//! ```text
//! Preparing ─▶ Booting ─▶ Freshening ─▶ AwaitingReadiness ─▶ Queued ─▶ Asking ─▶ Finishing ─▶ done
//!                                                              ▲         │
//!                                                              └ Pausing ┘   (−32801, −32802, an unasked −32800)
//! ```

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use lspool_normalize::request::Wait;
use lspool_normalize::{
    Encoding, LspCode, Operation, QueryRequest, Readiness, RpcError, UriKey, capabilities,
};

use crate::edge::{Decoded, Text};
use crate::query::{FinishInput, Prepared, RunningRoot};
use crate::registry::LaunchFacts;
use crate::wire::{Message, quoted};

use super::client::ClientFace;
use super::effect::{Effect, Job};
use super::event::{Frame, PrepareOutcome, PreparedQuery, RereadDocument};
use super::ids::{ClientId, InstanceId, JobId, QueryTicket, Tick, Timer};
use super::instance::{
    Identity, Pending, QueryHold, Requester, ServerDocument, ServerLaunch, Start,
};
use super::lifecycle::query_initialize_params;
use super::readiness::Assessment;
use super::{Core, JobOwner};

/// LSP: the content was changed while the request ran.
const CONTENT_MODIFIED: i64 = -32801;
/// LSP: the server cancelled the request.
const SERVER_CANCELLED: i64 = -32802;
/// The first and the longest pause before a repeated question, in milliseconds.
const RETRY_PAUSE_MS: (u64, u64) = (50, 1_000);

/// Where a query stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Preparing(JobId),
    Booting,
    Freshening(JobId),
    AwaitingReadiness,
    Queued,
    Asking(u64),
    /// References are there; their declaration is asked for.
    AskingDeclaration(u64),
    Pausing,
    Finishing(JobId),
}

/// One normalised query.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) client: ClientId,
    request: Arc<QueryRequest>,
    pub(super) stage: Stage,
    prepared: Option<Arc<Prepared>>,
    pub(super) instance: Option<InstanceId>,
    deadline: Option<Tick>,
    /// When the wait for readiness began and, once it ended, what it gave.
    waiting_since: Option<Tick>,
    readiness: Option<Readiness>,
    waited_ms: u64,
    indexing: bool,
    retries: u32,
    /// The answer to `textDocument/references`, while the declaration is asked for.
    references: Option<String>,
}

impl Core {
    pub(super) fn query_asked(
        &mut self,
        ticket: QueryTicket,
        client: ClientId,
        request: Arc<QueryRequest>,
        out: &mut Vec<Effect>,
    ) {
        let limits = &self.config.limits;
        let cap = limits.queries_per_client;
        let running = self
            .queries
            .values()
            .filter(|query| query.client == client)
            .count();
        if self.shutting_down || !self.clients.contains_key(&client) {
            let error = RpcError::lsp(LspCode::Disposed, "lspool is ending", None);
            return out.push(Effect::QueryDone {
                ticket,
                result: Err(Box::new(error)),
            });
        }
        if running >= cap {
            let error = RpcError::limit_exceeded("queries in flight", cap as u64);
            return out.push(Effect::QueryDone {
                ticket,
                result: Err(Box::new(error)),
            });
        }
        let deadline = request
            .timeout_ms
            .map(|budget| self.now.after(u64::from(budget)));
        if let Some(at) = deadline {
            out.push(Effect::SetTimer {
                timer: Timer::QueryDeadline(ticket),
                at,
            });
        }
        let work = Job::Prepare {
            client,
            roots: self.roots_of(client),
            request: request.clone(),
            running: self.running_roots(),
        };
        let job = self.job(JobOwner::Prepare(ticket), work, out);
        let query = Query {
            client,
            request,
            stage: Stage::Preparing(job),
            prepared: None,
            instance: None,
            deadline,
            waiting_since: None,
            readiness: None,
            waited_ms: 0,
            indexing: false,
            retries: 0,
            references: None,
        };
        self.queries.insert(ticket, query);
    }

    /// The roots that a connection named, in order.
    fn roots_of(&self, client: ClientId) -> Vec<PathBuf> {
        let Some(client) = self.clients.get(&client) else {
            return Vec::new();
        };
        let own = match &client.face {
            ClientFace::Harness { root: Some(root) } => vec![root.clone()],
            _ => client
                .launch
                .as_ref()
                .and_then(|outcome| outcome.root_path.clone())
                .into_iter()
                .collect(),
        };
        let named = client.facts.iter().flat_map(|facts| facts.folders.iter());
        let named = named.filter_map(|folder| UriKey::new(folder).file_path().map(path_from_bytes));
        let mut roots: Vec<PathBuf> = own;
        for root in named {
            if !roots.contains(&root) {
                roots.push(root);
            }
        }
        roots
    }

    fn running_roots(&self) -> Vec<RunningRoot> {
        self.instances
            .values()
            .filter(|instance| instance.admits())
            .filter_map(|instance| {
                Some(RunningRoot {
                    server: instance.definition.as_ref()?.id.clone(),
                    root_key: instance.root_key.clone()?,
                    root_path: instance.root_path.clone()?,
                    root_uri: instance.folders_as_sent.first()?.clone(),
                })
            })
            .collect()
    }

    pub(super) fn query_prepared(
        &mut self,
        ticket: QueryTicket,
        result: PrepareOutcome,
        out: &mut Vec<Effect>,
    ) {
        let Some(query) = self.queries.get_mut(&ticket) else {
            return;
        };
        match result {
            Err(error) => self.finish_query(ticket, Err(error), out),
            Ok(PreparedQuery { prepared, launch }) => {
                query.prepared = Some(prepared.clone());
                query.stage = Stage::Booting;
                let running = self.instance_for(&prepared);
                let target = match running {
                    Some(target) => target,
                    None => match self.start_for_query(&prepared, launch, out) {
                        Ok(target) => target,
                        Err(error) => return self.finish_query(ticket, Err(error), out),
                    },
                };
                self.join_query(ticket, target, out);
            }
        }
    }

    /// The instance that serves a prepared query: one that editors use before one that only queries use.
    fn instance_for(&self, prepared: &Prepared) -> Option<InstanceId> {
        let serving = self.instances.values().filter(|instance| {
            instance.admits()
                && instance.root_key.as_ref() == Some(&prepared.root_key)
                && instance
                    .definition
                    .as_ref()
                    .is_some_and(|definition| definition.id == prepared.definition.id)
        });
        let order = |instance: &&super::instance::Instance| {
            (instance.clients.is_empty(), !instance.serves(), instance.id)
        };
        serving.min_by_key(order).map(|instance| instance.id)
    }

    fn start_for_query(
        &mut self,
        prepared: &Prepared,
        facts: Option<LaunchFacts>,
        out: &mut Vec<Effect>,
    ) -> Result<InstanceId, Box<RpcError>> {
        let (Some(plan), Some(facts)) = (prepared.launch.as_ref(), facts) else {
            let text = format!("no program of {} can be found", prepared.definition.id);
            return Err(Box::new(RpcError::lsp(LspCode::Unavailable, text, None)));
        };
        let launch = ServerLaunch {
            argv: plan.argv.clone(),
            cwd: plan.cwd.clone(),
            environment: plan.environment.clone(),
            scrub: plan.scrub,
        };
        let identity = Identity {
            launch: facts,
            folders: vec![UriKey::new(&prepared.root_uri)],
            profile: capabilities::raise(capabilities::full()).map_or(0, |raised| raised.digest),
        };
        let initialize_params = query_initialize_params(
            &prepared.root_uri,
            &prepared.root_path.to_string_lossy(),
            prepared.definition.initialization_options.as_ref(),
            self.config.process_id,
        );
        let start = Start {
            identity,
            launch: Arc::new(launch),
            definition: Some(prepared.definition.clone()),
            root_key: Some(prepared.root_key.clone()),
            root_path: Some(prepared.root_path.clone()),
            folders: vec![prepared.root_uri.clone()],
            initialize_params,
        };
        Ok(self.start_instance(start, out))
    }

    fn join_query(&mut self, ticket: QueryTicket, target: InstanceId, out: &mut Vec<Effect>) {
        let startup = self.startup_ms(target);
        let default_budget = self.config.limits.query_ms;
        let now = self.now;
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        instance.queries.insert(ticket);
        let booted = instance.serves();
        if let Some(query) = self.queries.get_mut(&ticket) {
            query.instance = Some(target);
            if query.deadline.is_none() {
                let at = now.after(if booted { default_budget } else { startup });
                out.push(Effect::SetTimer {
                    timer: Timer::QueryDeadline(ticket),
                    at,
                });
            }
        }
        self.use_instance(target, out);
        self.advance_query(ticket, out);
    }

    /// Moves a query on from where it waits for its instance.
    fn advance_query(&mut self, ticket: QueryTicket, out: &mut Vec<Effect>) {
        let Some(query) = self.queries.get(&ticket) else {
            return;
        };
        let Some(target) = query.instance else { return };
        match query.stage {
            Stage::Booting => self.query_booted(ticket, target, out),
            Stage::AwaitingReadiness => self.query_step(ticket, out),
            Stage::Queued => self.ask_if_free(ticket, target, out),
            _ => {}
        }
    }

    /// Moves on every query of an instance that may go on, oldest first.
    pub(super) fn pump_queries(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let tickets: Vec<QueryTicket> = match self.instances.get(&target) {
            Some(instance) if !instance.queries.is_empty() => {
                instance.queries.iter().copied().collect()
            }
            _ => return,
        };
        for ticket in tickets {
            self.advance_query(ticket, out);
        }
    }

    fn query_booted(&mut self, ticket: QueryTicket, target: InstanceId, out: &mut Vec<Effect>) {
        if !self
            .instances
            .get(&target)
            .is_some_and(super::instance::Instance::serves)
        {
            return;
        }
        self.initialized_by_pool(target, out);
        let budget = self.config.limits.query_ms;
        let now = self.now;
        let (Some(query), Some(instance)) = (
            self.queries.get_mut(&ticket),
            self.instances.get_mut(&target),
        ) else {
            return;
        };
        let Some(prepared) = query.prepared.clone() else {
            return;
        };
        if query.deadline.is_none() {
            let at = now.after(budget);
            query.deadline = Some(at);
            out.push(Effect::SetTimer {
                timer: Timer::QueryDeadline(ticket),
                at,
            });
        }
        let limit = prepared.definition.max_document_bytes;
        let mut documents: Vec<(String, PathBuf, String)> = instance
            .documents
            .iter()
            .filter(|(uri, document)| document.clients.is_empty() && **uri != prepared.file_uri)
            .filter_map(|(uri, document)| {
                let hold = document.query.as_ref()?;
                Some((uri.clone(), hold.path.clone(), hold.file_version.clone()))
            })
            .collect();
        // The file itself was read before a boot that may have taken long.
        documents.push((
            prepared.file_uri.clone(),
            prepared.file_path.clone(),
            prepared.file_version.clone(),
        ));
        let job = self.job(
            JobOwner::Reread(ticket),
            Job::Reread { documents, limit },
            out,
        );
        if let Some(query) = self.queries.get_mut(&ticket) {
            query.stage = Stage::Freshening(job);
        }
    }

    pub(super) fn query_reread(
        &mut self,
        ticket: QueryTicket,
        changed: Vec<RereadDocument>,
        out: &mut Vec<Effect>,
    ) {
        let Some(query) = self.queries.get(&ticket) else {
            return;
        };
        let (Some(target), Some(prepared), client) =
            (query.instance, query.prepared.clone(), query.client)
        else {
            return;
        };
        if !self
            .instances
            .get(&target)
            .is_some_and(super::instance::Instance::serves)
        {
            // The server died meanwhile; the documents are read anew once it is back.
            if let Some(query) = self.queries.get_mut(&ticket) {
                query.stage = Stage::Booting;
            }
            return;
        }
        let mut own_changed = false;
        for document in &changed {
            own_changed |= document.uri == prepared.file_uri;
            if document.uri != prepared.file_uri {
                self.refresh_document(target, document, out);
            }
        }
        if own_changed {
            // Position and text belong together: both are found again on the text of now.
            let work = Job::Prepare {
                client,
                roots: self.roots_of(client),
                request: self.queries[&ticket].request.clone(),
                running: self.running_roots(),
            };
            let job = self.job(JobOwner::Prepare(ticket), work, out);
            if let Some(query) = self.queries.get_mut(&ticket) {
                query.stage = Stage::Preparing(job);
            }
            self.leave_instance(ticket, out);
            return;
        }
        self.announce_changes(target, &changed, out);
        self.hold_for_query(target, &prepared, out);
        let waits = self
            .queries
            .get(&ticket)
            .is_some_and(|query| query.request.wait != Some(Wait::None));
        let now = self.now;
        if let Some(query) = self.queries.get_mut(&ticket) {
            query.waiting_since.get_or_insert(now);
            query.stage = Stage::AwaitingReadiness;
            if !waits {
                query.readiness = Some(Readiness::NotWaited);
            }
        }
        self.query_step(ticket, out);
    }

    /// Brings a document that only queries hold to its file's present text, or closes it.
    fn refresh_document(
        &mut self,
        target: InstanceId,
        document: &RereadDocument,
        out: &mut Vec<Effect>,
    ) {
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        let Some(known) = instance.documents.get_mut(&document.uri) else {
            return;
        };
        match &document.text {
            Some((text, version)) => {
                if let Some(hold) = known.query.as_mut() {
                    hold.file_version.clone_from(version);
                }
                if known.clients.is_empty() && known.text.id != text.id {
                    self.switch(target, &document.uri, text.clone(), out);
                }
            }
            None => {
                known.query = None;
                if !known.is_held() {
                    self.close_document(target, &document.uri, None, out);
                }
            }
        }
    }

    fn announce_changes(
        &mut self,
        target: InstanceId,
        changed: &[RereadDocument],
        out: &mut Vec<Effect>,
    ) {
        if changed.is_empty() {
            return;
        }
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        let events: Vec<String> = changed
            .iter()
            .map(|document| {
                let kind = if document.text.is_some() { 2 } else { 3 };
                format!(r#"{{"uri":{},"type":{kind}}}"#, quoted(&document.uri))
            })
            .collect();
        let params = format!(r#"{{"changes":[{}]}}"#, events.join(","));
        let link = instance.link();
        let message = Message::notification("workspace/didChangeWatchedFiles", &params);
        instance.outbox.push(link, message.into(), self.now, out);
    }

    /// Opens the queried document at the server, or switches it to the text on disk.
    fn hold_for_query(&mut self, target: InstanceId, prepared: &Prepared, out: &mut Vec<Effect>) {
        let now = self.now;
        let hold = QueryHold {
            path: prepared.file_path.clone(),
            file_version: prepared.file_version.clone(),
            last_use: now,
        };
        let text = Text::new(prepared.text.clone());
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        if let Some(document) = instance.documents.get_mut(&prepared.file_uri) {
            document.query = Some(hold);
            if document.text.id != text.id {
                self.switch(target, &prepared.file_uri, text, out);
            }
            return;
        }
        let version = instance.opening_version(&prepared.file_uri, None);
        let document = ServerDocument {
            versions: VecDeque::from([(version, text.id)]),
            text: text.clone(),
            version,
            language: prepared.language_id.clone(),
            clients: BTreeSet::new(),
            query: Some(hold),
            behind: false,
            diagnostics: None,
        };
        instance
            .documents
            .insert(prepared.file_uri.clone(), document);
        instance.readiness.opened(now);
        let work = Job::Open {
            uri: prepared.file_uri.clone(),
            language: prepared.language_id.clone(),
            version,
            text,
        };
        self.compose(target, work, out);
        self.close_least_used(target, &prepared.file_uri, out);
    }

    /// Keeps the documents that only queries hold within their bounds, least recently used closed first.
    fn close_least_used(&mut self, target: InstanceId, keep: &str, out: &mut Vec<Effect>) {
        let (count_cap, byte_cap) = (
            self.config.limits.query_documents,
            self.config.limits.query_document_bytes,
        );
        loop {
            let Some(instance) = self.instances.get_mut(&target) else {
                return;
            };
            let held: Vec<(Tick, String, usize)> = instance
                .documents
                .iter()
                .filter_map(|(uri, document)| {
                    let hold = document.query.as_ref()?;
                    Some((hold.last_use, uri.clone(), document.text.id.length))
                })
                .collect();
            let bytes: usize = held.iter().map(|(_, _, length)| length).sum();
            if held.len() <= count_cap && bytes <= byte_cap {
                return;
            }
            let Some((_, uri, _)) = held.into_iter().filter(|(_, uri, _)| uri != keep).min() else {
                return;
            };
            let Some(document) = instance.documents.get_mut(&uri) else {
                return;
            };
            document.query = None;
            if !document.is_held() {
                self.close_document(target, &uri, None, out);
            }
        }
    }

    /// Looks whether a query that waits for readiness, or that pauses, can go on.
    pub(super) fn query_step(&mut self, ticket: QueryTicket, out: &mut Vec<Effect>) {
        let Some(query) = self.queries.get(&ticket) else {
            return;
        };
        let Some(target) = query.instance else { return };
        let now = self.now;
        match query.stage {
            Stage::Pausing => {
                if let Some(query) = self.queries.get_mut(&ticket) {
                    query.stage = Stage::Queued;
                }
                self.ask_if_free(ticket, target, out);
            }
            Stage::AwaitingReadiness => {
                let Some(instance) = self
                    .instances
                    .get(&target)
                    .filter(|instance| instance.serves())
                else {
                    return;
                };
                let rule = self.readiness_rule(target);
                let assessment = instance.readiness.assess(now, &rule.readiness);
                let ask_at = query
                    .deadline
                    .map(|deadline| Tick(deadline.0.saturating_sub(self.reserve(deadline, now))));
                let indexing = instance.readiness.is_indexing();
                let found = match (query.readiness, assessment) {
                    (Some(readiness), _) => Some(readiness),
                    (None, Assessment::Signal) => Some(Readiness::Signal),
                    (None, Assessment::Settled) => Some(Readiness::Settled),
                    (None, Assessment::Wait(_)) if ask_at.is_some_and(|at| now >= at) => {
                        Some(Readiness::Timeout)
                    }
                    (None, Assessment::Wait(until)) => {
                        let at = [until, ask_at].into_iter().flatten().min();
                        if let Some(at) = at {
                            out.push(Effect::SetTimer {
                                timer: Timer::QueryStep(ticket),
                                at,
                            });
                        }
                        None
                    }
                };
                let Some(found) = found else { return };
                if let Some(query) = self.queries.get_mut(&ticket) {
                    query.readiness = Some(found);
                    query.indexing = found != Readiness::Signal && indexing;
                    query.waited_ms = query.waiting_since.map_or(0, |since| now.since(since));
                    query.stage = Stage::Queued;
                }
                self.ask_if_free(ticket, target, out);
            }
            _ => {}
        }
    }

    /// Milliseconds of a budget that are kept for the question: 5 s or a fifth, whichever is less.
    fn reserve(&self, deadline: Tick, now: Tick) -> u64 {
        let whole = self.config.limits.query_ms.min(deadline.since(now).max(1));
        self.config.limits.query_reserve_ms.min(whole / 5)
    }

    fn readiness_rule(&self, target: InstanceId) -> Arc<crate::registry::Definition> {
        let own = self
            .instances
            .get(&target)
            .and_then(|instance| instance.definition.clone());
        own.unwrap_or_else(|| self.config.registry.defaults().clone())
    }

    /// Asks the server, unless its share of queries is in flight or an editor's message waits.
    fn ask_if_free(&mut self, ticket: QueryTicket, target: InstanceId, out: &mut Vec<Effect>) {
        let cap = self.config.limits.queries_in_flight;
        let Some(instance) = self
            .instances
            .get(&target)
            .filter(|instance| instance.serves())
        else {
            return;
        };
        let in_flight = instance
            .pending
            .values()
            .filter(|it| matches!(it.requester, Requester::Query(_)))
            .count();
        if in_flight >= cap || instance.editor_waits() {
            return;
        }
        let Some(query) = self.queries.get(&ticket) else {
            return;
        };
        let Some(prepared) = query.prepared.clone() else {
            return;
        };
        let operation = query.request.operation;
        if !instance.supports(operation.capability(), operation.method()) {
            let text = format!("{} does not support {}", instance.server, operation.name());
            let error = RpcError::lsp(LspCode::UnsupportedOperation, text, None);
            return self.finish_query(ticket, Err(Box::new(error)), out);
        }
        self.hold_for_query(target, &prepared, out);
        let number = self.send_question(ticket, target, operation, &prepared, out);
        if let Some(query) = self.queries.get_mut(&ticket) {
            query.stage = Stage::Asking(number);
        }
    }

    pub(super) fn query_answered(
        &mut self,
        ticket: QueryTicket,
        number: u64,
        frame: &Frame,
        out: &mut Vec<Effect>,
    ) {
        let Some(query) = self.queries.get(&ticket) else {
            return;
        };
        let Some(target) = query.instance else { return };
        let result = frame.message.result_json().unwrap_or("null").to_owned();
        match query.stage {
            Stage::Asking(at) if at == number => {}
            Stage::AskingDeclaration(at) if at == number => {
                let declaration =
                    matches!(frame.decoded, Decoded::Answer { error: None }).then_some(result);
                let references = self
                    .queries
                    .get_mut(&ticket)
                    .and_then(|query| query.references.take());
                return self.finish_with_result(
                    ticket,
                    target,
                    references.unwrap_or_default(),
                    declaration,
                    out,
                );
            }
            _ => return,
        }
        match frame.decoded {
            Decoded::Answer { error: Some(code) } => {
                self.query_refused(ticket, target, code, frame, out)
            }
            _ if self.asks_declaration(ticket, target, &result) => {
                let Some(prepared) = self
                    .queries
                    .get(&ticket)
                    .and_then(|query| query.prepared.clone())
                else {
                    return;
                };
                let number =
                    self.send_question(ticket, target, Operation::GoToDefinition, &prepared, out);
                if let Some(query) = self.queries.get_mut(&ticket) {
                    query.references = Some(result);
                    query.stage = Stage::AskingDeclaration(number);
                }
            }
            _ => self.finish_with_result(ticket, target, result, None, out),
        }
    }

    /// References are marked with the declaration among them, which only a second question tells.
    fn asks_declaration(&self, ticket: QueryTicket, target: InstanceId, result: &str) -> bool {
        let references = self
            .queries
            .get(&ticket)
            .is_some_and(|query| query.request.operation == Operation::FindReferences);
        let definition = Operation::GoToDefinition;
        references
            && result.trim() != "null"
            && self
                .instances
                .get(&target)
                .is_some_and(|it| it.supports(definition.capability(), definition.method()))
    }

    /// Sends the question of an operation about a prepared position.
    fn send_question(
        &mut self,
        ticket: QueryTicket,
        target: InstanceId,
        operation: Operation,
        prepared: &Prepared,
        out: &mut Vec<Effect>,
    ) -> u64 {
        let number = self.next_request();
        let Some(instance) = self.instances.get_mut(&target) else {
            return number;
        };
        let pending = Pending {
            requester: Requester::Query(ticket),
            method: operation.method().to_owned(),
            document: Some(prepared.file_uri.clone()),
            tokens: Vec::new(),
            sent_at: self.now,
            cancelled: false,
        };
        instance.pending.insert(number, pending);
        let link = instance.link();
        let message = Message::request(number, operation.method(), &question(operation, prepared));
        instance.outbox.push(link, message.into(), self.now, out);
        number
    }

    fn query_refused(
        &mut self,
        ticket: QueryTicket,
        target: InstanceId,
        code: i64,
        frame: &Frame,
        out: &mut Vec<Effect>,
    ) {
        let now = self.now;
        let again = matches!(
            code,
            CONTENT_MODIFIED | SERVER_CANCELLED | super::requests::REQUEST_CANCELLED
        );
        let server = self
            .instances
            .get(&target)
            .map(|instance| instance.server.clone())
            .unwrap_or_default();
        let Some(query) = self.queries.get_mut(&ticket) else {
            return;
        };
        if again {
            query.retries += 1;
            query.stage = Stage::Pausing;
            let (first, longest) = RETRY_PAUSE_MS;
            let pause = first
                .saturating_mul(1 << query.retries.saturating_sub(1).min(8))
                .min(longest);
            // Queries that were refused together are not asked again together.
            let jitter = ticket.0 % (pause / 4 + 1);
            let timer = Timer::QueryStep(ticket);
            return out.push(Effect::SetTimer {
                timer,
                at: now.after(pause + jitter),
            });
        }
        let said = frame.message.error_json().unwrap_or("null");
        let message = error_text(said).unwrap_or_else(|| format!("error {code}"));
        let operation = query.request.operation.name();
        let error = if matches!(code, -32601 | -32600) {
            let text = format!("{server} does not support {operation}: {message}");
            RpcError::lsp(LspCode::UnsupportedOperation, text, None)
        } else {
            let text = format!("{server} failed on {operation}: {message}");
            RpcError::lsp(LspCode::ServerError, text, serde_json::from_str(said).ok())
        };
        self.finish_query(ticket, Err(Box::new(error)), out);
    }

    fn finish_with_result(
        &mut self,
        ticket: QueryTicket,
        target: InstanceId,
        result: String,
        definition_result: Option<String>,
        out: &mut Vec<Effect>,
    ) {
        let Some(instance) = self.instances.get(&target) else {
            return;
        };
        let (server, progress) = (instance.server.clone(), instance.readiness.progress());
        let still_indexing = instance.readiness.is_indexing();
        let open_texts = instance
            .documents
            .iter()
            .map(|(uri, document)| (UriKey::new(uri), document.text.content.clone()))
            .collect();
        let Some(query) = self.queries.get(&ticket) else {
            return;
        };
        let Some(prepared) = query.prepared.clone() else {
            return;
        };
        let readiness = query.readiness.unwrap_or(Readiness::NotWaited);
        let mut notes = Vec::new();
        if query.retries > 0 {
            notes.push(format!(
                "asked again {} times because the server was busy",
                query.retries
            ));
        }
        let input = FinishInput {
            request: query.request.clone(),
            prepared,
            editor_text: None,
            open_texts,
            encoding: Encoding::Utf16,
            result,
            definition_result,
            known_reason: None,
            server,
            readiness,
            indexing: readiness != Readiness::Signal && (query.indexing || still_indexing),
            progress,
            notes,
            waited_ms: query.waited_ms,
        };
        let client = query.client;
        let job = self.job(
            JobOwner::Finish(ticket),
            Job::Finish {
                client,
                input: Arc::new(input),
            },
            out,
        );
        if let Some(query) = self.queries.get_mut(&ticket) {
            query.stage = Stage::Finishing(job);
        }
    }

    pub(super) fn query_finished(
        &mut self,
        ticket: QueryTicket,
        result: super::event::FinishOutcome,
        out: &mut Vec<Effect>,
    ) {
        self.finish_query(ticket, result, out);
    }

    /// Gives a query its answer and lets go of what it holds.
    fn finish_query(
        &mut self,
        ticket: QueryTicket,
        result: super::event::FinishOutcome,
        out: &mut Vec<Effect>,
    ) {
        if !self.queries.contains_key(&ticket) {
            return;
        }
        self.drop_query(ticket, out);
        out.push(Effect::QueryDone { ticket, result });
    }

    fn drop_query(&mut self, ticket: QueryTicket, out: &mut Vec<Effect>) {
        out.push(Effect::ClearTimer {
            timer: Timer::QueryDeadline(ticket),
        });
        out.push(Effect::ClearTimer {
            timer: Timer::QueryStep(ticket),
        });
        let Some(query) = self.queries.get(&ticket) else {
            return;
        };
        match query.stage {
            Stage::Preparing(job) | Stage::Freshening(job) | Stage::Finishing(job) => {
                if self.jobs.remove(&job).is_some() {
                    out.push(Effect::CancelJob { job });
                }
            }
            Stage::Asking(number) | Stage::AskingDeclaration(number) => {
                if let Some(target) = query.instance {
                    self.cancel_at_server(target, number, out);
                    let pending = self
                        .instances
                        .get_mut(&target)
                        .and_then(|it| it.pending.get_mut(&number));
                    if let Some(pending) = pending {
                        pending.requester = Requester::Gone;
                    }
                }
            }
            Stage::Booting | Stage::AwaitingReadiness | Stage::Queued | Stage::Pausing => {}
        }
        self.leave_instance(ticket, out);
        self.queries.remove(&ticket);
    }

    /// Takes a query off its instance and gives the server back the text of its editors.
    fn leave_instance(&mut self, ticket: QueryTicket, out: &mut Vec<Effect>) {
        let Some(query) = self.queries.get_mut(&ticket) else {
            return;
        };
        let Some(target) = query.instance.take() else {
            return;
        };
        let uri = query
            .prepared
            .as_ref()
            .map(|prepared| prepared.file_uri.clone());
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        instance.queries.remove(&ticket);
        if let Some(uri) = uri {
            self.show_last_active(target, &uri, out);
        }
        self.unpark_server(target, out);
        self.pump_queries(target, out);
        self.end_if_superseded(target, out);
        self.idle_if_unused(target, out);
    }

    pub(super) fn query_deadline(&mut self, ticket: QueryTicket, out: &mut Vec<Effect>) {
        let Some(query) = self.queries.get(&ticket) else {
            return;
        };
        let server = query
            .instance
            .and_then(|target| self.instances.get(&target))
            .map_or_else(
                || "the language server".to_owned(),
                |instance| instance.server.clone(),
            );
        let phase = match query.stage {
            Stage::Preparing(_) | Stage::Booting => "boot",
            _ => "request",
        };
        let text = match phase {
            "boot" => format!("{server} was not in service within the time given"),
            _ => format!("{server} did not answer within the time given"),
        };
        let detail = serde_json::json!({ "phase": phase });
        let error = RpcError::lsp(LspCode::Timeout, text, Some(detail));
        self.finish_query(ticket, Err(Box::new(error)), out);
    }

    pub(super) fn query_cancelled(&mut self, ticket: QueryTicket, out: &mut Vec<Effect>) {
        self.drop_query(ticket, out);
    }

    /// The server of a query died or ended: what is read-only is asked again at the next process, once.
    pub(super) fn query_lost_server(
        &mut self,
        ticket: QueryTicket,
        code: &str,
        retryable: bool,
        text: &str,
        out: &mut Vec<Effect>,
    ) {
        let Some(query) = self.queries.get_mut(&ticket) else {
            return;
        };
        if code == "LSP_CRASHED" && retryable && query.retries == 0 {
            query.retries += 1;
            query.stage = Stage::Booting;
            query.readiness = None;
            return;
        }
        self.fail_query(ticket, code, retryable, text, out);
    }

    pub(super) fn fail_query(
        &mut self,
        ticket: QueryTicket,
        code: &str,
        retryable: bool,
        text: &str,
        out: &mut Vec<Effect>,
    ) {
        let error = RpcError::failed(code.to_owned(), retryable, text, None);
        self.finish_query(ticket, Err(Box::new(error)), out);
    }

    /// Fails every query of an instance that cannot serve any more.
    pub(super) fn fail_queries_of(
        &mut self,
        target: InstanceId,
        code: &str,
        text: &str,
        out: &mut Vec<Effect>,
    ) {
        let tickets: Vec<QueryTicket> = match self.instances.get(&target) {
            Some(instance) => instance.queries.iter().copied().collect(),
            None => return,
        };
        for ticket in tickets {
            self.fail_query(ticket, code, false, text, out);
        }
    }

    pub(super) fn abandon_queries(&mut self, id: ClientId, out: &mut Vec<Effect>) {
        let tickets: Vec<QueryTicket> = self
            .queries
            .iter()
            .filter(|(_, query)| query.client == id)
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in tickets {
            self.fail_query(
                ticket,
                "LSP_DISPOSED",
                false,
                "the connection was closed",
                out,
            );
        }
    }

    /// An editor's server is in service: an instance of the same server and root that only queries use leaves.
    pub(super) fn supersede_query_instances(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let others: Vec<InstanceId> = self
            .instances
            .keys()
            .copied()
            .filter(|other| *other != target)
            .collect();
        for other in others {
            self.end_if_superseded(other, out);
        }
    }

    fn end_if_superseded(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let Some(instance) = self.instances.get(&target) else {
            return;
        };
        if !instance.is_unused() || !instance.serves() || !instance.had_only_queries {
            return;
        }
        let superseded = self.instances.values().any(|other| {
            other.id != target
                && other.serves()
                && !other.clients.is_empty()
                && other.root_key.is_some()
                && other.root_key == instance.root_key
                && other.server == instance.server
        });
        if superseded {
            self.end_instance(target, out);
        }
    }
}

/// The params of the server's request for an operation.
fn question(operation: Operation, prepared: &Prepared) -> String {
    let uri = quoted(&prepared.file_uri);
    let (line, character) = (prepared.position.line, prepared.position.character);
    let context = match operation {
        Operation::FindReferences => r#","context":{"includeDeclaration":true}"#,
        _ => "",
    };
    format!(
        r#"{{"textDocument":{{"uri":{uri}}},"position":{{"line":{line},"character":{character}}}{context}}}"#
    )
}

/// The `message` of a JSON-RPC error object.
pub(super) fn error_text(error: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Said {
        message: String,
    }
    serde_json::from_str::<Said>(error)
        .ok()
        .map(|said| said.message)
}

fn path_from_bytes(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}
