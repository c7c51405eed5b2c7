//! The life of an instance: started, initialised, in service, crashed, started again.

use std::sync::Arc;

use crate::edge::Decoded;
use crate::wire::{Message, Outgoing, quoted};

use super::Core;
use super::effect::Effect;
use super::event::{ExitReport, Frame};
use super::ids::{Generation, InstanceId, InstanceTimer, Timer};
use super::instance::{INITIALIZE_ID, Instance, Pending, Phase, Requester, Start};
use super::outbox::Outbox;
use super::query::error_text;
use super::readiness::Readiness;

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
    fn spawn(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let startup = self.startup_ms(target);
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        instance.phase = Phase::Starting;
        instance.started_at = self.now;
        instance.exited = false;
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
        let Some(instance) = self
            .instances
            .get_mut(&target)
            .filter(|it| it.generation == generation)
        else {
            return;
        };
        match result {
            Err(text) => {
                instance.exited = true;
                let text = format!("{} could not be started: {text}", instance.server);
                self.start_failed(target, "LSP_START_FAILED", &text, 126, out);
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
                };
                instance.pending.insert(INITIALIZE_ID, pending);
                let message =
                    Message::request(INITIALIZE_ID, "initialize", &instance.initialize_params);
                let link = instance.link();
                instance.outbox.push(link, message.into(), now, out);
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
        let Some(instance) = self.instances.get_mut(&target) else {
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
            return self.start_failed(target, "LSP_START_FAILED", &text, 1, out);
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
            return self.start_failed(target, "LSP_ENCODING", &text, 1, out);
        }
        out.push(Effect::ClearTimer {
            timer: Timer::Instance(target, InstanceTimer::Startup),
        });
        let first = !instance.ever_ready;
        instance.phase = Phase::Ready;
        instance.ever_ready = true;
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
        let link = instance.link();
        instance.outbox.push(
            link,
            Message::notification("initialized", "{}").into(),
            self.now,
            out,
        );
        self.instance_in_service(target, out);
    }

    /// What an instance that was just told `initialized` needs first.
    pub(super) fn instance_in_service(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        // A server that queries started has no editor that pushes its settings; several read none before.
        if !instance.clients.is_empty() || instance.configuration.is_some() {
            return;
        }
        let Some(settings) = instance
            .definition
            .as_ref()
            .map(|it| &it.settings)
            .filter(|it| !it.is_empty())
        else {
            return;
        };
        let settings = serde_json::Value::Object(settings.clone());
        let message = Message::notification(
            "workspace/didChangeConfiguration",
            &format!(r#"{{"settings":{settings}}}"#),
        );
        let link = instance.link();
        instance.outbox.push(link, message.into(), self.now, out);
    }

    /// A client's settings: those of the first client are the instance's.
    pub(super) fn client_configures(
        &mut self,
        id: super::ClientId,
        digest: u128,
        frame: Frame,
        out: &mut Vec<Effect>,
    ) {
        let target = self
            .clients
            .get(&id)
            .and_then(|client| client.instances.first().copied());
        let Some(target) = target else { return };
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        let owner = instance.clients.first() == Some(&id);
        let same = digest == 0
            || instance
                .configuration
                .as_ref()
                .is_some_and(|(known, _)| *known == digest);
        if owner {
            instance.configuration = Some((digest, frame.message.clone()));
            self.forward_notification(id, &frame, out);
        } else if !same {
            let text = format!(
                "lspool: settings of this editor differ from those of the editor that started {}; they are not applied to the shared server",
                instance.server
            );
            self.tell_client(id, 2, &text, out);
        }
    }

    fn replay_configuration(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        if let Some((_, message)) = instance.configuration.clone() {
            let link = instance.link();
            instance.outbox.push(link, message.into(), self.now, out);
        }
    }

    /// A start that cannot succeed: everybody who waits for it is told, and the instance is ended.
    pub(super) fn start_failed(
        &mut self,
        target: InstanceId,
        code: &str,
        text: &str,
        exit_code: i32,
        out: &mut Vec<Effect>,
    ) {
        tracing::warn!(instance = %target, code, text, "a server could not be brought into service");
        out.push(Effect::ClearTimer {
            timer: Timer::Instance(target, InstanceTimer::Startup),
        });
        self.fail_pending(target, code, false, text, out);
        self.fail_queries_of(target, code, text, out);
        for id in self.clients_of(target) {
            let waiting = self
                .clients
                .get(&id)
                .is_some_and(|client| client.initialize_id.is_some());
            if waiting {
                self.refuse_client(id, code, text, exit_code, out);
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
                self.fail_parked_requests(id, code, text, out);
            }
        }
        self.terminate(target, out);
    }

    pub(super) fn exited(
        &mut self,
        target: InstanceId,
        generation: Generation,
        report: ExitReport,
        out: &mut Vec<Effect>,
    ) {
        let now = self.now;
        let Some(instance) = self
            .instances
            .get_mut(&target)
            .filter(|it| it.generation == generation)
        else {
            return;
        };
        instance.exited = true;
        instance.last_exit = Some(report.outcome.clone());
        let server = instance.server.clone();
        match instance.phase {
            Phase::ShuttingDown | Phase::Exiting => self.terminate(target, out),
            Phase::Terminating => {}
            Phase::Starting | Phase::Initializing if !instance.ever_ready => {
                let text = with_stderr(
                    &format!(
                        "{server} ended with {} before it answered initialize",
                        report.outcome
                    ),
                    &report,
                );
                self.start_failed(target, "LSP_START_FAILED", &text, 1, out);
            }
            Phase::Starting | Phase::Initializing | Phase::Ready | Phase::Restarting => {
                let text = with_stderr(&format!("{server} ended with {}", report.outcome), &report);
                tracing::warn!(instance = %target, text, "a server crashed");
                let window = self.config.limits.crash_window_ms;
                instance.crashes.retain(|at| now.since(*at) <= window);
                instance.crashes.push_back(now);
                let spent = instance.crashes.len() > self.config.limits.crash_budget;
                self.fail_pending(target, "LSP_CRASHED", !spent, &text, out);
                self.forget_process(target, out);
                if spent {
                    let text = format!(
                        "{text}; it crashed too often and is not started again, attach anew to try"
                    );
                    self.start_failed(target, "LSP_CRASHED", &text, 1, out);
                } else {
                    self.arm_restart(target, out);
                }
            }
        }
    }

    /// Whatever belongs to a process that is gone: its outbox, its requests, its progress.
    fn forget_process(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let now = self.now;
        let bytes = self.config.limits.outbox_bytes;
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        let (old_link, parked) = (instance.link(), std::mem::take(&mut instance.parked));
        for frame in parked {
            out.push(Effect::Release {
                link: old_link,
                credit: frame.credit,
            });
        }
        let slots: Vec<_> = instance.outbox.open_slots().collect();
        instance.outbox = Outbox::new(bytes, now);
        instance.readiness = Readiness::default();
        instance.initialized_sent = false;
        instance.stalled = false;
        instance.pid = None;
        let asks = std::mem::take(&mut instance.asks);
        let progress = std::mem::take(&mut instance.progress);
        let registrations = std::mem::take(&mut instance.registrations);
        out.push(Effect::ClearTimer {
            timer: Timer::Instance(target, InstanceTimer::Stall),
        });
        // The tree is proved gone before the next process starts.
        out.push(Effect::Terminate {
            instance: target,
            generation: instance.generation,
        });
        for job in slots {
            self.jobs.remove(&job);
            out.push(Effect::CancelJob { job });
        }
        for (_, (client, number, _)) in asks {
            if let Some(client) = self.clients.get_mut(&client) {
                client.asked.insert(number, super::client::Asked::Told);
            }
            let params = format!(r#"{{"id":{number}}}"#);
            self.send_to_client(
                client,
                Message::notification("$/cancelRequest", &params).into(),
                out,
            );
        }
        self.end_progress(target, progress.into_keys().collect(), out);
        self.take_back_registrations(target, &registrations, out);
    }

    fn end_progress(
        &mut self,
        target: InstanceId,
        tokens: Vec<crate::wire::RawId>,
        out: &mut Vec<Effect>,
    ) {
        for token in tokens {
            let params = format!(r#"{{"token":{},"value":{{"kind":"end"}}}}"#, token.raw());
            self.tell_all(target, &Message::notification("$/progress", &params), out);
        }
    }

    fn arm_restart(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let limits = &self.config.limits;
        let (first, longest) = (limits.restart_pause_ms, limits.restart_pause_max_ms);
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        instance.phase = Phase::Restarting;
        let doublings = instance.crashes.len().saturating_sub(1).min(16) as u32;
        let pause = first.saturating_mul(1 << doublings).min(longest);
        let timer = Timer::Instance(target, InstanceTimer::Restart);
        out.push(Effect::SetTimer {
            timer,
            at: self.now.after(pause),
        });
    }

    pub(super) fn restart(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        if instance.phase != Phase::Restarting {
            return;
        }
        instance.generation = Generation(instance.generation.0 + 1);
        instance.restarts += 1;
        self.spawn(target, out);
    }

    /// Watches a server that is given more than it reads.
    pub(super) fn watch_server(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let stall = self.config.limits.stall_ms;
        let Some(instance) = self.instances.get(&target) else {
            return;
        };
        if instance.outbox.is_full() && !instance.stalled {
            let timer = Timer::Instance(target, InstanceTimer::Stall);
            out.push(Effect::SetTimer {
                timer,
                at: instance.outbox.last_progress().after(stall),
            });
        }
    }

    pub(super) fn server_made_progress(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        if instance.stalled && !instance.outbox.is_full() {
            instance.stalled = false;
            out.push(Effect::ClearTimer {
                timer: Timer::Instance(target, InstanceTimer::Stall),
            });
            self.resend_missed_changes(target, out);
        }
        for id in self.clients_of(target) {
            self.unpark_client(id, out);
        }
        self.pump_queries(target, out);
    }

    /// A full server: after a while it counts as stalled, after longer it is restarted.
    pub(super) fn stall_timer(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let (stall, hung) = (self.config.limits.stall_ms, self.config.limits.hung_ms);
        let now = self.now;
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        if !instance.outbox.is_full() {
            return;
        }
        let timer = Timer::Instance(target, InstanceTimer::Stall);
        let since = instance.outbox.last_progress();
        if now < since.after(stall) {
            return out.push(Effect::SetTimer {
                timer,
                at: since.after(stall),
            });
        }
        if now < since.after(hung) {
            instance.stalled = true;
            out.push(Effect::SetTimer {
                timer,
                at: since.after(hung),
            });
            for id in self.clients_of(target) {
                self.unpark_client(id, out);
            }
            return;
        }
        tracing::warn!(instance = %target, "a server that does not read is restarted");
        let report = ExitReport {
            outcome: "no sign of reading".to_owned(),
            stderr: String::new(),
        };
        let generation = instance.generation;
        self.exited(target, generation, report, out);
    }

    fn take_back_registrations(
        &mut self,
        target: InstanceId,
        registrations: &[crate::edge::Registration],
        out: &mut Vec<Effect>,
    ) {
        if registrations.is_empty() {
            return;
        }
        let entries: Vec<String> = registrations
            .iter()
            .map(|it| {
                format!(
                    r#"{{"id":{},"method":{}}}"#,
                    quoted(&it.id),
                    quoted(&it.method)
                )
            })
            .collect();
        // The protocol's own spelling of the member.
        let params = format!(r#"{{"unregisterations":[{}]}}"#, entries.join(","));
        for id in self.clients_of(target) {
            if self
                .clients
                .get(&id)
                .is_some_and(|client| client.phase == super::client::Phase::Live)
            {
                self.tell_by_request(id, "client/unregisterCapability", &params, out);
            }
        }
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

fn with_stderr(text: &str, report: &ExitReport) -> String {
    let tail = report.stderr.trim();
    if tail.is_empty() {
        text.to_owned()
    } else {
        format!("{text}; it said: {tail}")
    }
}
