//! Registrations of servers: recorded, passed on to the clients that announced them, brought to late joiners.

use lspool_normalize::capabilities::{Filtered, filter_registrations, filter_unregistrations};

use crate::edge::Registration;
use crate::wire::{Message, quoted};

use super::Core;
use super::client::Phase;
use super::effect::Effect;
use super::ids::{ClientId, InstanceId};

impl Core {
    pub(super) fn register(
        &mut self,
        target: InstanceId,
        registrations: &[Registration],
        out: &mut Vec<Effect>,
    ) {
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        for registration in registrations {
            instance
                .registrations
                .retain(|known| known.id != registration.id || known.method != registration.method);
            instance.registrations.push(registration.clone());
        }
        for id in self.clients_of(target) {
            if self
                .clients
                .get(&id)
                .is_some_and(|client| client.phase == Phase::Live)
            {
                self.pass_registrations(id, registrations, out);
            }
        }
        self.pump_queries(target, out);
    }

    fn pass_registrations(
        &mut self,
        id: ClientId,
        registrations: &[Registration],
        out: &mut Vec<Effect>,
    ) {
        let Some(facts) = self
            .clients
            .get(&id)
            .and_then(|client| client.facts.as_ref())
        else {
            return;
        };
        let items: Vec<&str> = registrations
            .iter()
            .map(|registration| registration.raw.get())
            .collect();
        let params = format!(r#"{{"registrations":[{}]}}"#, items.join(","));
        let params = match filter_registrations(&params, &facts.raised.offer) {
            Filtered::Unchanged => params,
            Filtered::Changed(params) => params,
            Filtered::Nothing => return,
        };
        self.tell_by_request(id, "client/registerCapability", &params, out);
    }

    pub(super) fn replay_registrations(
        &mut self,
        id: ClientId,
        target: InstanceId,
        out: &mut Vec<Effect>,
    ) {
        let registrations = match self.instances.get(&target) {
            Some(instance) if !instance.registrations.is_empty() => instance.registrations.clone(),
            _ => return,
        };
        self.pass_registrations(id, &registrations, out);
    }

    pub(super) fn unregister(
        &mut self,
        target: InstanceId,
        entries: &[(String, String)],
        message: &Message,
        out: &mut Vec<Effect>,
    ) {
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        instance.registrations.retain(|known| {
            !entries
                .iter()
                .any(|(id, method)| known.id == *id && known.method == *method)
        });
        let params = message.params().unwrap_or("{}").to_owned();
        self.pass_unregistrations(target, &params, out);
    }

    /// Tells each client of the end of those registrations that it was told of.
    fn pass_unregistrations(&mut self, target: InstanceId, params: &str, out: &mut Vec<Effect>) {
        for id in self.clients_of(target) {
            let Some(facts) = self
                .clients
                .get(&id)
                .filter(|client| client.phase == Phase::Live)
                .and_then(|client| client.facts.as_ref())
            else {
                continue;
            };
            match filter_unregistrations(params, &facts.raised.offer) {
                Filtered::Unchanged => {
                    self.tell_by_request(id, "client/unregisterCapability", params, out);
                }
                Filtered::Changed(params) => {
                    self.tell_by_request(id, "client/unregisterCapability", &params, out);
                }
                Filtered::Nothing => {}
            }
        }
    }

    /// Takes back, at every client, what a process that is gone had registered.
    pub(super) fn take_back_registrations(
        &mut self,
        target: InstanceId,
        registrations: &[Registration],
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
        self.pass_unregistrations(target, &params, out);
    }
}
