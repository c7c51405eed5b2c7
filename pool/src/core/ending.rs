//! The end of connections, of instances and of the pool: the ladder `shutdown`, `exit`, closed input, TERM,
//! KILL, and the proof that the process tree is gone.

use crate::wire::{Message, RawId};

use super::Core;
use super::client::Phase as ClientPhase;
use super::effect::Effect;
use super::ids::{ClientId, Generation, InstanceId, InstanceTimer, Link, Timer};
use super::instance::{Pending, Phase, Requester};

impl Core {
    pub(super) fn link_closed(&mut self, link: Link, reason: &str, out: &mut Vec<Effect>) {
        match link {
            Link::Client(id) => {
                let Some(client) = self.clients.get_mut(&id) else {
                    return;
                };
                client.input_ended = true;
                if !client.is_closing() {
                    tracing::debug!(client = %id, reason, "a connection ended");
                    let code = client.exit_code;
                    self.close_client(id, code, out);
                }
                self.drop_client(id, out);
            }
            Link::Server(target, generation) => {
                let Some(instance) = self
                    .instances
                    .get_mut(&target)
                    .filter(|it| it.generation == generation)
                else {
                    return;
                };
                // A server that closed its output, or prints what is no protocol, can serve nobody.
                if !instance.exited
                    && matches!(
                        instance.phase,
                        Phase::Starting | Phase::Initializing | Phase::Ready
                    )
                {
                    let text = format!("{} closed its output: {reason}", instance.server);
                    tracing::debug!(instance = %target, text, "a server's output ended");
                    self.output_ended(target, &text, out);
                }
            }
        }
    }

    /// Begins to close a connection: what it was sent is written first, what it holds is given up now.
    pub(super) fn close_client(&mut self, id: ClientId, exit_code: i32, out: &mut Vec<Effect>) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        if client.is_closing() {
            return;
        }
        client.phase = ClientPhase::Closing;
        client.exit_code = exit_code;
        for frame in std::mem::take(&mut client.parked) {
            out.push(Effect::Release {
                link: Link::Client(id),
                credit: frame.credit,
            });
        }
        self.disown_requests(id, out);
        self.abandon_calls(id, out);
        self.abandon_queries(id, out);
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        client.documents.clear();
        let targets = std::mem::take(&mut client.instances);
        // A job that shapes an answer for this client still fills its place.
        for target in &targets {
            self.release_documents(id, *target, out);
            if let Some(instance) = self.instances.get_mut(target) {
                instance.clients.retain(|at| *at != id);
            }
        }
        self.answer_for_the_gone(id, out);
        for target in targets {
            self.unpark_server(target, out);
            self.idle_if_unused(target, out);
        }
    }

    /// Closes a connection for good once its last message is written.
    pub(super) fn close_if_drained(&mut self, id: ClientId, out: &mut Vec<Effect>) {
        let Some(client) = self.clients.get(&id) else {
            return;
        };
        if client.is_closing() && client.outbox.is_empty() {
            let exit_code = client.exit_code;
            self.clients.remove(&id);
            out.push(Effect::ClearTimer {
                timer: Timer::ClientProgress(id),
            });
            out.push(Effect::Close {
                client: id,
                exit_code,
            });
        }
    }

    /// Closes a connection whose peer reads no more.
    pub(super) fn drop_client(&mut self, id: ClientId, out: &mut Vec<Effect>) {
        let Some(client) = self.clients.get(&id) else {
            return;
        };
        let exit_code = client.exit_code;
        self.close_client(id, exit_code, out);
        let Some(client) = self.clients.remove(&id) else {
            return;
        };
        for job in client.outbox.open_slots() {
            self.jobs.remove(&job);
            out.push(Effect::CancelJob { job });
        }
        out.push(Effect::ClearTimer {
            timer: Timer::ClientProgress(id),
        });
        out.push(Effect::Close {
            client: id,
            exit_code,
        });
    }

    /// Answers the requests of a client that wait behind a server that will not come.
    pub(super) fn fail_parked_requests(
        &mut self,
        id: ClientId,
        code: &str,
        text: &str,
        out: &mut Vec<Effect>,
    ) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let parked = std::mem::take(&mut client.parked);
        for frame in parked {
            let own = frame
                .message
                .method()
                .is_some_and(|method| method.starts_with("lspool/") || method == "shutdown");
            if own {
                if let Some(client) = self.clients.get_mut(&id) {
                    client.parked.push_back(frame);
                }
                continue;
            }
            if let Some(request) = frame
                .message
                .id()
                .filter(|_| frame.message.kind() == crate::wire::Kind::Request)
            {
                let request = request.clone();
                self.answer_failure(id, &request, code, false, text, out);
            }
            out.push(Effect::Release {
                link: Link::Client(id),
                credit: frame.credit,
            });
        }
    }

    /// Notes that somebody uses an instance.
    pub(super) fn use_instance(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        out.push(Effect::ClearTimer {
            timer: Timer::Instance(target, InstanceTimer::Idle),
        });
    }

    /// Arms the idle time of an instance that nobody uses; one that never came into service is ended at once.
    pub(super) fn idle_if_unused(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let idle = self.config.limits.instance_idle_ms;
        let Some(instance) = self.instances.get(&target) else {
            return;
        };
        if !instance.is_unused() || !instance.admits() {
            return;
        }
        if self.shutting_down || matches!(instance.phase, Phase::Restarting) {
            return self.end_instance(target, out);
        }
        let timer = Timer::Instance(target, InstanceTimer::Idle);
        out.push(Effect::SetTimer {
            timer,
            at: self.now.after(idle),
        });
    }

    pub(super) fn instance_timer(
        &mut self,
        target: InstanceId,
        kind: InstanceTimer,
        out: &mut Vec<Effect>,
    ) {
        let Some(instance) = self.instances.get(&target) else {
            return;
        };
        match kind {
            InstanceTimer::Startup
                if matches!(instance.phase, Phase::Starting | Phase::Initializing) =>
            {
                let text = format!(
                    "{} did not answer initialize within {} ms",
                    instance.server,
                    self.startup_ms(target)
                );
                self.start_failed(target, "LSP_TIMEOUT", &text, 1, out);
            }
            InstanceTimer::Restart => self.restart(target, out),
            InstanceTimer::Idle if instance.is_unused() => self.end_instance(target, out),
            InstanceTimer::Stall => self.stall_timer(target, out),
            InstanceTimer::Ending => self.next_end_step(target, out),
            InstanceTimer::Startup | InstanceTimer::Idle => {}
        }
    }

    /// Begins the end ladder of an instance.
    pub(super) fn end_instance(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let now = self.now;
        let shutdown_ms = self.config.limits.shutdown_ms;
        let number = self.next_request();
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        match instance.phase {
            Phase::Ready => {
                instance.phase = Phase::ShuttingDown;
                let pending = Pending {
                    requester: Requester::Shutdown,
                    method: "shutdown".to_owned(),
                    document: None,
                    tokens: Vec::new(),
                    sent_at: now,
                    cancelled: false,
                };
                instance.pending.insert(number, pending);
                let link = instance.link();
                // `shutdown` has no params; several servers refuse null.
                instance.outbox.push(
                    link,
                    Message::request_without_params(number, "shutdown").into(),
                    now,
                    out,
                );
                let timer = Timer::Instance(target, InstanceTimer::Ending);
                out.push(Effect::SetTimer {
                    timer,
                    at: now.after(shutdown_ms),
                });
            }
            // `shutdown` is not sent to a server that never finished `initialize`.
            Phase::Starting | Phase::Initializing => self.tell_exit(target, out),
            Phase::Restarting => self.terminate(target, out),
            Phase::ShuttingDown | Phase::Exiting | Phase::Terminating => {}
        }
    }

    pub(super) fn shutdown_answered(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        if self
            .instances
            .get(&target)
            .is_some_and(|instance| instance.phase == Phase::ShuttingDown)
        {
            self.tell_exit(target, out);
        }
    }

    fn tell_exit(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let now = self.now;
        let exit_ms = self.config.limits.exit_ms;
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        if instance.phase == Phase::Starting {
            return self.terminate(target, out);
        }
        instance.phase = Phase::Exiting;
        let link = instance.link();
        instance.outbox.push(
            link,
            Message::notification_without_params("exit").into(),
            now,
            out,
        );
        out.push(Effect::CloseInput {
            instance: target,
            generation: instance.generation,
        });
        let timer = Timer::Instance(target, InstanceTimer::Ending);
        out.push(Effect::SetTimer {
            timer,
            at: now.after(exit_ms),
        });
    }

    fn next_end_step(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        match self
            .instances
            .get(&target)
            .map(|instance| instance.phase.clone())
        {
            Some(Phase::ShuttingDown) => self.tell_exit(target, out),
            Some(Phase::Exiting) => self.terminate(target, out),
            _ => {}
        }
    }

    /// Ends the process tree, whatever it does; the instance is forgotten when the tree is proved gone.
    pub(super) fn terminate(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        if instance.phase == Phase::Terminating {
            return;
        }
        instance.phase = Phase::Terminating;
        for kind in [
            InstanceTimer::Ending,
            InstanceTimer::Startup,
            InstanceTimer::Restart,
            InstanceTimer::Stall,
            InstanceTimer::Idle,
        ] {
            out.push(Effect::ClearTimer {
                timer: Timer::Instance(target, kind),
            });
        }
        out.push(Effect::Terminate {
            instance: target,
            generation: instance.generation,
        });
        for id in self.clients_of(target) {
            self.fail_parked_requests(id, "LSP_DISPOSED", "the language server is ending", out);
        }
        self.fail_pending(
            target,
            "LSP_DISPOSED",
            false,
            "the language server is ending",
            out,
        );
        self.fail_queries_of(target, "LSP_DISPOSED", "the language server is ending", out);
    }

    pub(super) fn terminated(
        &mut self,
        target: InstanceId,
        generation: Generation,
        result: Result<(), String>,
        out: &mut Vec<Effect>,
    ) {
        let Some(instance) = self
            .instances
            .get(&target)
            .filter(|it| it.generation == generation)
        else {
            return;
        };
        if let Err(text) = result {
            let text = format!(
                "the processes of {} could not be ended: {text}",
                instance.server
            );
            tracing::error!(instance = %target, text);
            self.failures.push(text);
        }
        if instance.phase != Phase::Terminating {
            return;
        }
        self.remove_instance(target, out);
    }

    fn remove_instance(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let Some(instance) = self.instances.remove(&target) else {
            return;
        };
        for job in instance.outbox.open_slots() {
            self.jobs.remove(&job);
            out.push(Effect::CancelJob { job });
        }
        for frame in &instance.parked {
            out.push(Effect::Release {
                link: instance.link(),
                credit: frame.credit,
            });
        }
        for (client, number, _) in instance.asks.into_values() {
            if let Some(client) = self.clients.get_mut(&client) {
                client.asked.insert(number, super::client::Asked::Told);
            }
        }
        for client in self.clients.values_mut() {
            client.instances.retain(|at| *at != target);
        }
        self.shutdown_if_empty(out);
    }

    /// One instance is to end at a person's word; its clients keep their connection and get errors.
    pub(super) fn stop_requested(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        self.end_instance(target, out);
    }

    /// Ends everything: admission closes first, connections are told, then each instance goes down its ladder.
    pub(super) fn shutdown(&mut self, out: &mut Vec<Effect>) {
        self.shutting_down = true;
        let tickets: Vec<_> = self.queries.keys().copied().collect();
        for ticket in tickets {
            self.fail_query(ticket, "LSP_DISPOSED", false, "lspool is ending", out);
        }
        let clients: Vec<ClientId> = self.clients.keys().copied().collect();
        for id in clients {
            self.fail_requests_of(id, out);
            // The daemon is lost for this client.
            self.close_client(id, 70, out);
        }
        let targets: Vec<InstanceId> = self.instances.keys().copied().collect();
        for target in targets {
            self.end_instance(target, out);
        }
        self.shutdown_if_empty(out);
    }

    fn fail_requests_of(&mut self, id: ClientId, out: &mut Vec<Effect>) {
        let Some(client) = self.clients.get(&id) else {
            return;
        };
        let waiting: Vec<RawId> = client
            .initialize_id
            .iter()
            .chain(client.requests.keys())
            .chain(client.calls.keys())
            .cloned()
            .collect();
        for request in waiting {
            self.answer_failure(id, &request, "LSP_DISPOSED", false, "lspool is ending", out);
        }
        self.fail_parked_requests(id, "LSP_DISPOSED", "lspool is ending", out);
    }

    fn shutdown_if_empty(&mut self, out: &mut Vec<Effect>) {
        if self.shutting_down && self.instances.is_empty() {
            out.push(Effect::ShutdownDone {
                failures: std::mem::take(&mut self.failures),
            });
        }
    }

    fn output_ended(&mut self, target: InstanceId, text: &str, out: &mut Vec<Effect>) {
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        // The exit follows within moments and knows more; the startup time bounds the wait for it.
        if instance.ever_ready {
            instance.last_exit = Some(text.to_owned());
        }
        out.push(Effect::Terminate {
            instance: target,
            generation: instance.generation,
        });
    }
}
