//! The start of an instance: its process, its `initialize`, its service.

use std::sync::Arc;

use lspool_normalize::LspCode;

use crate::edge::Decoded;
use crate::wire::{Message, Outgoing, quoted};

use super::Core;
use super::effect::Effect;
use super::event::Frame;
use super::failure::Failure;
use super::ids::{Generation, InstanceId, InstanceTimer, Timer};
use super::instance::{INITIALIZE_ID, Instance, Pending, Phase, ProcessEnd, Requester, Start};
use super::query::error_text;

impl Core {
    /// Begins an instance and asks for its first process.
    pub(super) fn start_instance(&mut self, start: Start, out: &mut Vec<Effect>) -> InstanceId {
        self.next.instance += 1;
        let id = InstanceId(self.next.instance);
        let instance = Instance::new(id, start, self.config.limits.outbox_bytes, self.now);
        self.instances.insert(id, instance);
        self.spawn(id, out);
        id
    }

    /// Asks for the process of the present generation.
    pub(super) fn spawn(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let startup = self.startup_ms(target);
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        instance.phase = Phase::Starting;
        instance.early_bytes = 0;
        instance.started_at = self.now;
        instance.end = ProcessEnd::default();
        out.push(Effect::Spawn {
            instance: target,
            generation: instance.generation,
            launch: instance.launch.clone(),
        });
        let timer = Timer::Instance(target, InstanceTimer::Startup);
        out.push(Effect::SetTimer {
            timer,
            at: self.now.after(startup),
        });
    }

    /// Milliseconds that a start of this instance may take.
    pub(super) fn startup_ms(&self, target: InstanceId) -> u64 {
        let own = self
            .instances
            .get(&target)
            .and_then(|instance| instance.definition.as_ref())
            .map(|definition| u64::from(definition.startup_ms));
        own.unwrap_or(self.config.limits.startup_ms)
    }

    pub(super) fn spawned(
        &mut self,
        target: InstanceId,
        generation: Generation,
        result: Result<Option<u32>, String>,
        out: &mut Vec<Effect>,
    ) {
        let now = self.now;
        let Some(instance) = self.process(target, generation) else {
            return;
        };
        match result {
            Err(text) => {
                instance.end.exited = true;
                let text = format!("{} could not be started: {text}", instance.server);
                let failure = Failure::lsp(LspCode::StartFailed, &text);
                self.start_lost(target, failure, 126, out);
            }
            Ok(pid) => {
                instance.pid = pid;
                if instance.phase != Phase::Starting {
                    return;
                }
                instance.phase = Phase::Initializing;
                let pending = Pending {
                    requester: Requester::Initialize,
                    method: "initialize".to_owned(),
                    document: None,
                    tokens: Vec::new(),
                    sent_at: now,
                    cancelled: false,
                    again: None,
                };
                instance.pending.insert(INITIALIZE_ID, pending);
                let message =
                    Message::request(INITIALIZE_ID, "initialize", &instance.initialize_params);
                self.send_to_server(target, message, out);
            }
        }
    }

    /// The server answered the pool's `initialize`.
    pub(super) fn server_initialized(
        &mut self,
        target: InstanceId,
        frame: &Frame,
        out: &mut Vec<Effect>,
    ) {
        let Some(instance) = self
            .instances
            .get_mut(&target)
            .filter(|instance| instance.phase == Phase::Initializing)
        else {
            return;
        };
        let Decoded::ServerInitialized(facts) = &frame.decoded else {
            let text = format!(
                "{} refused to initialize: {}",
                instance.server,
                frame
                    .message
                    .error_json()
                    .and_then(error_text)
                    .unwrap_or_else(|| "its answer cannot be read".to_owned())
            );
            let failure = Failure::lsp(LspCode::StartFailed, &text);
            return self.start_failed(target, failure, 1, out);
        };
        if let Some(encoding) = facts
            .encoding
            .as_deref()
            .filter(|encoding| *encoding != "utf-16")
        {
            let text = format!(
                "{} counts columns in {encoding} although only utf-16 was offered",
                instance.server
            );
            return self.start_failed(target, Failure::lsp(LspCode::Encoding, &text), 1, out);
        }
        out.push(Effect::ClearTimer {
            timer: Timer::Instance(target, InstanceTimer::Startup),
        });
        let first = !instance.ever_ready();
        instance.phase = Phase::Ready;
        // It says nothing of a later end.
        instance.printed = None;
        let facts = match &instance.facts {
            // Clients keep the result that they were given.
            Some(known) if !first => known.clone(),
            _ => Arc::new((**facts).clone()),
        };
        instance.facts = Some(facts.clone());
        if !first {
            self.initialized_by_pool(target, out);
            self.replay_configuration(target, out);
        }
        self.answer_waiting_clients(target, &facts, out);
        if !first {
            self.reopen_documents(target, out);
        }
        self.unpark_server(target, out);
        self.supersede_query_instances(target, out);
        self.pump_queries(target, out);
    }

    /// Sends the pool's own `initialized`, once a process.
    pub(super) fn initialized_by_pool(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        if std::mem::replace(&mut instance.initialized_sent, true) {
            return;
        }
        self.send_to_server(target, Message::notification("initialized", "{}"), out);
        self.instance_in_service(target, out);
    }

    /// A start that cannot succeed: everybody who waits for it is told, and the instance is ended.
    pub(super) fn start_failed(
        &mut self,
        target: InstanceId,
        failure: Failure<'_>,
        exit_code: i32,
        out: &mut Vec<Effect>,
    ) {
        let (code, text) = (failure.code(), failure.text);
        tracing::warn!(instance = %target, code, text, "a server could not be brought into service");
        out.push(Effect::ClearTimer {
            timer: Timer::Instance(target, InstanceTimer::Startup),
        });
        self.fail_pending(target, failure, out);
        self.fail_queries_of(target, failure, out);
        for id in self.clients_of(target) {
            let waiting = self
                .clients
                .get(&id)
                .is_some_and(|client| client.initialize_id.is_some());
            if waiting {
                self.refuse_client(id, failure, exit_code, out);
            } else {
                let message = format!(
                    r#"{{"type":1,"message":{}}}"#,
                    quoted(&format!("lspool: {text}"))
                );
                self.send_to_client(
                    id,
                    Outgoing::from(Message::notification("window/showMessage", &message)),
                    out,
                );
                self.fail_parked_requests(id, failure, out);
            }
        }
        self.terminate(target, out);
    }
}

/// The `initialize` params of an instance that a query starts.
pub(super) fn query_initialize_params(
    root_uri: &str,
    root_path: &str,
    options: Option<&serde_json::Value>,
    process_id: Option<u32>,
) -> String {
    let process = process_id.map_or_else(|| "null".to_owned(), |pid| pid.to_string());
    let (uri, path) = (quoted(root_uri), quoted(root_path));
    let name = quoted(
        root_uri
            .trim_end_matches('/')
            .rsplit('/')
            .next()
            .unwrap_or(root_uri),
    );
    let options = options
        .map(|options| format!(r#","initializationOptions":{options}"#))
        .unwrap_or_default();
    format!(
        r#"{{"processId":{process},"clientInfo":{{"name":"lspool","version":{version}}},"locale":"en","rootPath":{path},"rootUri":{uri},"capabilities":{capabilities},"workspaceFolders":[{{"uri":{uri},"name":{name}}}]{options}}}"#,
        version = quoted(env!("CARGO_PKG_VERSION")),
        capabilities = lspool_normalize::capabilities::full(),
    )
}
