//! The end of instances and of the pool: the ladder `shutdown`, `exit`, closed input, TERM,
//! KILL, and the proof that the process tree is gone.

use lspool_normalize::LspCode;

use crate::wire::Message;

use super::Core;
use super::client::Phase as ClientPhase;
use super::effect::Effect;
use super::failure::Failure;
use super::ids::{ClientId, Generation, InstanceId, InstanceTimer, Link, Timer};
use super::instance::{Ask, Instance, Pending, Phase, Requester};

/// What the reason of a closed link says when nothing was wrong.
const END_OF_INPUT: &str = "end of input";

/// The exit code of a face that lost its daemon.
pub(super) const LOST: i32 = 70;

impl Core {
    pub(super) fn link_closed(&mut self, link: Link, reason: &str, out: &mut Vec<Effect>) {
        match link {
            Link::Client(id) => self.client_link_closed(id, reason, out),
            Link::Server(target, generation) => {
                let Some(instance) = self.process(target, generation) else {
                    return;
                };
                // A server that closed its output, or prints what is no protocol, can serve nobody.
                if !instance.end.exited
                    && matches!(
                        instance.phase,
                        Phase::Starting | Phase::Initializing | Phase::Ready
                    )
                {
                    tracing::debug!(instance = %target, reason, "a server's output ended");
                    self.output_ended(target, reason, out);
                }
            }
        }
    }

    /// Notes that somebody uses an instance.
    pub(super) fn use_instance(target: InstanceId, out: &mut Vec<Effect>) {
        out.push(Effect::ClearTimer {
            timer: Timer::Instance(target, InstanceTimer::Idle),
        });
    }

    /// Arms the idle time of an instance that nobody uses; one whose process died is not started again for nobody.
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
                self.start_lost(target, Failure::lsp(LspCode::Timeout, &text), 1, out);
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
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        match instance.phase {
            Phase::Ready => {
                instance.phase = Phase::ShuttingDown;
                self.dispose_users(target, out);
                self.ask_shutdown(target, out);
            }
            // `shutdown` is not sent to a server that never finished `initialize`.
            Phase::Initializing => {
                instance.phase = Phase::Exiting;
                self.dispose_users(target, out);
                self.tell_exit(target, out);
            }
            Phase::Starting | Phase::Restarting => self.terminate(target, out),
            // An end that failed is tried again.
            Phase::Terminating if instance.end_failure.take().is_some() => {
                out.push(Effect::Terminate {
                    instance: target,
                    generation: instance.generation,
                });
            }
            Phase::ShuttingDown | Phase::Exiting | Phase::Terminating => {}
        }
    }

    fn ask_shutdown(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let at = self.now.after(self.config.limits.shutdown_ms);
        let number = self.next_request();
        let pending = Pending {
            requester: Requester::Shutdown,
            method: "shutdown".to_owned(),
            document: None,
            tokens: Vec::new(),
            sent_at: self.now,
            cancelled: false,
            again: None,
        };
        if let Some(instance) = self.instances.get_mut(&target) {
            instance.pending.insert(number, pending);
        }
        // `shutdown` has no params; several servers refuse null.
        self.send_to_server(
            target,
            Message::request_without_params(number, "shutdown"),
            out,
        );
        out.push(Effect::SetTimer {
            timer: Timer::Instance(target, InstanceTimer::Ending),
            at,
        });
    }

    /// Answers all that waits for an instance which serves nobody any more.
    fn dispose_users(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let text = match self.instances.get(&target) {
            Some(instance) => format!("{} is ending", instance.server),
            None => return,
        };
        let failure = Failure::disposed(&text);
        out.push(Effect::ClearTimer {
            timer: Timer::Instance(target, InstanceTimer::Startup),
        });
        self.fail_pending(target, failure, out);
        self.fail_queries_of(target, failure, out);
        for id in self.clients_of(target) {
            if self
                .clients
                .get(&id)
                .is_some_and(|client| client.initialize_id.is_some())
            {
                self.refuse_client(id, failure, 1, out);
            } else {
                self.fail_parked_requests(id, failure, out);
            }
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
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        instance.phase = Phase::Exiting;
        let generation = instance.generation;
        self.send_to_server(target, Message::notification_without_params("exit"), out);
        out.push(Effect::CloseInput {
            instance: target,
            generation,
        });
        out.push(Effect::SetTimer {
            timer: Timer::Instance(target, InstanceTimer::Ending),
            at: self.now.after(self.config.limits.exit_ms),
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
        instance.end_failure = None;
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
        self.dispose_users(target, out);
    }

    pub(super) fn terminated(
        &mut self,
        target: InstanceId,
        generation: Generation,
        result: Result<(), String>,
        out: &mut Vec<Effect>,
    ) {
        let Some(instance) = self.process(target, generation) else {
            return;
        };
        match result {
            Ok(()) => {
                instance.end.gone = true;
                instance.end_failure = None;
            }
            Err(text) => {
                let text = format!(
                    "the processes of {} could not be ended: {text}",
                    instance.server
                );
                tracing::error!(instance = %target, text);
                instance.end_failure = Some(text.clone());
                if instance.phase == Phase::Terminating {
                    return self.shutdown_if_empty(out);
                }
                if instance.admits() {
                    // Two processes of one server would write over each other.
                    let failure = Failure::lsp(LspCode::Crashed, &text);
                    return self.start_failed(target, failure, 1, out);
                }
            }
        }
        match instance.phase {
            Phase::Terminating => self.remove_instance(target, out),
            Phase::Restarting if instance.end.restart_due => self.restart(target, out),
            _ => {}
        }
    }

    fn remove_instance(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let Some(instance) = self.instances.remove(&target) else {
            return;
        };
        out.push(Effect::Forget { instance: target });
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
        for Ask { client, number, .. } in instance.asks.into_values() {
            if let Some(client) = self.clients.get_mut(&client) {
                client.asked.remove(&number);
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
        self.shutdown_asked = true;
        let failure = Failure::disposed("lspool is ending");
        let tickets: Vec<_> = self.queries.keys().copied().collect();
        for ticket in tickets {
            self.fail_query(ticket, failure, out);
        }
        let clients: Vec<ClientId> = self.clients.keys().copied().collect();
        for id in clients {
            self.fail_all_requests(id, failure, out);
            self.close_client(id, self.exit_code_when_lost(id), out);
        }
        let targets: Vec<InstanceId> = self.instances.keys().copied().collect();
        for target in targets {
            self.end_instance(target, out);
        }
        self.shutdown_if_empty(out);
    }

    /// The exit code of a client whose daemon goes: 0 for one that had taken its leave.
    fn exit_code_when_lost(&self, id: ClientId) -> i32 {
        let left = self
            .clients
            .get(&id)
            .is_some_and(|client| client.phase == ClientPhase::ShutDown);
        if left { 0 } else { LOST }
    }

    /// Reports the end once everything is gone or failed to go, and every connection has got its last message. What
    /// failed stays, so that the next shutdown tries it again and reports what came of that.
    pub(super) fn shutdown_if_empty(&mut self, out: &mut Vec<Effect>) {
        if !self.shutdown_asked || !self.clients.is_empty() {
            return;
        }
        let failed = self.instances.values().map(Instance::failed_end);
        let failures: Option<Vec<String>> = failed.map(|text| text.map(str::to_owned)).collect();
        if let Some(failures) = failures {
            self.shutdown_asked = false;
            out.push(Effect::ShutdownDone { failures });
        }
    }

    fn output_ended(&mut self, target: InstanceId, reason: &str, out: &mut Vec<Effect>) {
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        // The exit follows within moments and knows more; the startup time bounds the wait for it.
        if reason == END_OF_INPUT {
            instance.end.ordered = Some("closed its output");
        } else {
            instance.end.ordered = Some("was ended since its output cannot be read");
            instance.printed = Some(reason.to_owned());
        }
        out.push(Effect::Terminate {
            instance: target,
            generation: instance.generation,
        });
    }
}
