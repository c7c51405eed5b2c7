//! Servers that are given more than they read: first full, then stalled, then restarted (`sharing.md`, Flow control).

use crate::wire::Outgoing;

use super::Core;
use super::effect::Effect;
use super::ids::{InstanceId, InstanceTimer, Timer};
use super::instance::Phase;

impl Core {
    /// Appends a message to a server's outbox; without a process there is nobody to tell.
    pub(super) fn send_to_server(
        &mut self,
        target: InstanceId,
        message: impl Into<Outgoing>,
        out: &mut Vec<Effect>,
    ) {
        let now = self.now;
        let Some(instance) = self
            .instances
            .get_mut(&target)
            .filter(|instance| instance.has_process())
        else {
            return;
        };
        let link = instance.link();
        instance.outbox.push(link, message.into(), now, out);
        self.watch_server(target, out);
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
                at: instance.outbox.last_progress(self.now).after(stall),
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
        let since = instance.outbox.last_progress(now);
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
        if instance.phase == Phase::Ready {
            let text = format!(
                "{} did not read for {hung} ms and was ended",
                instance.server
            );
            self.crashed(target, &text, out);
        }
    }
}
