//! The death of a server that was in service: what it owed is answered, and it is started again.
//!
//! Invariants: *a crash is an event*, *one answer each*; the next process starts only once the tree of the last one
//! is proved gone.

use lspool_normalize::LspCode;

use crate::wire::{Message, RawId};

use super::Core;
use super::effect::Effect;
use super::event::ExitReport;
use super::failure::Failure;
use super::ids::{Generation, InstanceId, InstanceTimer, Link, Timer};
use super::instance::{Ask, Instance, Phase};
use super::outbox::Outbox;
use super::readiness::Readiness;

/// Milliseconds between the restarts of two instances that died together.
const JITTER_STEP_MS: u64 = 37;

impl Core {
    pub(super) fn exited(
        &mut self,
        target: InstanceId,
        generation: Generation,
        report: &ExitReport,
        out: &mut Vec<Effect>,
    ) {
        let Some(instance) = self.process(target, generation) else {
            return;
        };
        instance.end.exited = true;
        let outcome = match instance.end.ordered {
            // The signal is our own.
            Some(ordered) if matches!(report.outcome.as_str(), "signal 9" | "signal 15") => {
                ordered.to_owned()
            }
            _ => format!("ended with {}", report.outcome),
        };
        let ended = format!("{} {outcome}", instance.server);
        instance.last_exit = Some(match instance.end.ordered {
            Some(_) => outcome,
            None => report.outcome.clone(),
        });
        // What a program that is no language server has to say may stand on either stream.
        let printed = instance.printed.take().unwrap_or_default();
        let said = format!("{printed}\n{}", report.stderr);
        match instance.phase {
            Phase::ShuttingDown | Phase::Exiting => self.terminate(target, out),
            Phase::Starting | Phase::Initializing => {
                let text = quoting(&format!("{ended} before it answered initialize"), &said);
                self.start_lost(target, Failure::lsp(LspCode::StartFailed, &text), 1, out);
            }
            Phase::Ready => self.crashed(target, &quoting(&ended, &said), out),
            // Its loss is known already.
            Phase::Restarting | Phase::Terminating => {}
        }
    }

    /// Keeps what a server that never was in service printed outside of any message.
    pub(super) fn note_printed(&mut self, link: Link, sample: String) {
        let Link::Server(target, generation) = link else {
            return;
        };
        let instance = self.instances.get_mut(&target);
        if let Some(instance) =
            instance.filter(|it| it.generation == generation && !it.ever_ready())
        {
            instance.printed = Some(sample);
        }
    }

    /// A start that did not succeed: the end of a new instance, one more crash of one that was in service before.
    pub(super) fn start_lost(
        &mut self,
        target: InstanceId,
        failure: Failure<'_>,
        exit_code: i32,
        out: &mut Vec<Effect>,
    ) {
        let known = self
            .instances
            .get(&target)
            .is_some_and(Instance::ever_ready);
        if known {
            self.crashed(target, failure.text, out);
        } else {
            self.start_failed(target, failure, exit_code, out);
        }
    }

    /// A server in service is lost: all that it owed is answered, and it is started again within its budget.
    pub(super) fn crashed(&mut self, target: InstanceId, text: &str, out: &mut Vec<Effect>) {
        let now = self.now;
        let (window, budget) = (
            self.config.limits.crash_window_ms,
            self.config.limits.crash_budget,
        );
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        tracing::warn!(instance = %target, text, "a server crashed");
        instance.crashes.retain(|at| now.since(*at) <= window);
        instance.crashes.push_back(now);
        let spent = instance.crashes.len() > budget;
        // From here on nothing is sent to the process that is gone.
        instance.phase = Phase::Restarting;
        let generation = instance.generation;
        self.forget_process(target, out);
        let code = if spent {
            LspCode::Crashed
        } else {
            LspCode::Restarted
        };
        let failure = Failure::lsp(code, text);
        self.fail_pending(target, failure, out);
        if spent {
            let text = format!(
                "{text}; it crashed too often and is not started again, attach anew to try"
            );
            self.start_failed(target, Failure::lsp(LspCode::Crashed, &text), 1, out);
        } else if self
            .instances
            .get(&target)
            .is_some_and(|instance| instance.phase == Phase::Restarting && instance.is_unused())
        {
            self.terminate(target, out);
        } else {
            out.push(Effect::Terminate {
                instance: target,
                generation,
            });
            self.arm_restart(target, out);
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
        for job in slots {
            self.jobs.remove(&job);
            out.push(Effect::CancelJob { job });
        }
        for Ask { client, number, .. } in asks.into_values() {
            if let Some(client) = self.clients.get_mut(&client) {
                client.asked.remove(&number);
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

    fn end_progress(&mut self, target: InstanceId, tokens: Vec<RawId>, out: &mut Vec<Effect>) {
        for token in tokens {
            let params = format!(r#"{{"token":{},"value":{{"kind":"end"}}}}"#, token.raw());
            self.tell_all(target, &Message::notification("$/progress", &params), out);
        }
    }

    fn arm_restart(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let limits = &self.config.limits;
        let (first, longest) = (limits.restart_pause_ms, limits.restart_pause_max_ms);
        let Some(instance) = self
            .instances
            .get(&target)
            .filter(|instance| instance.phase == Phase::Restarting)
        else {
            return;
        };
        let doublings = instance.crashes.len().saturating_sub(1).min(16) as u32;
        let pause = first.saturating_mul(1 << doublings).min(longest);
        // Servers that died together are not started again together: a quarter of the pause is spread over them.
        let jitter = target.0.saturating_sub(1).wrapping_mul(JITTER_STEP_MS) % (pause / 4 + 1);
        out.push(Effect::SetTimer {
            timer: Timer::Instance(target, InstanceTimer::Restart),
            at: self.now.after(pause + jitter),
        });
    }

    pub(super) fn restart(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let bytes = self.config.limits.outbox_bytes;
        let now = self.now;
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        if instance.phase != Phase::Restarting {
            return;
        }
        if !instance.end.gone {
            instance.end.restart_due = true;
            return;
        }
        instance.generation = Generation(instance.generation.0 + 1);
        instance.outbox = Outbox::new(bytes, now);
        instance.restarts += 1;
        self.spawn(target, out);
    }
}

fn quoting(text: &str, said: &str) -> String {
    match said.trim() {
        "" => text.to_owned(),
        said => format!("{text}; it said: {said}"),
    }
}
