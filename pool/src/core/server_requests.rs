//! Requests of servers: each gets exactly one answer, also when nobody is attached and when the client that
//! was asked dies first.

use std::ops::Range;

use lspool_normalize::capabilities::{Filtered, filter_registrations, filter_unregistrations};

use crate::edge::{Decoded, Registration};
use crate::wire::{Message, Outgoing, RawId, quoted};

use super::Core;
use super::client::{Asked, Phase};
use super::effect::Effect;
use super::event::Frame;
use super::ids::{ClientId, InstanceId};
use super::instance::{self, Requester};
use super::neutral::neutral_answer;

impl Core {
    pub(super) fn request_from_server(
        &mut self,
        target: InstanceId,
        frame: &Frame,
        out: &mut Vec<Effect>,
    ) {
        let Some(id) = frame.message.id().cloned() else {
            return;
        };
        let method = frame
            .message
            .method()
            .map(|method| method.into_owned())
            .unwrap_or_default();
        match &frame.decoded {
            Decoded::Register(registrations) => {
                self.answer_server(target, &id, "null", out);
                self.register(target, registrations.clone(), out);
            }
            Decoded::Unregister(entries) => {
                self.answer_server(target, &id, "null", out);
                self.unregister(target, entries, &frame.message, out);
            }
            Decoded::CreateProgress { token } => {
                self.answer_server(target, &id, "null", out);
                let kept = instance::Progress {
                    begin: None,
                    report: None,
                };
                if let Some(instance) = self.instances.get_mut(&target) {
                    instance.progress.insert(token.token.clone(), kept);
                }
                self.tell_all_by_request(target, &method, &frame.message, out);
            }
            Decoded::AskConfiguration(sections) => match self.configuration_source(target) {
                Some(client) => {
                    let neutral = Some(self.pool_settings(target, sections));
                    self.ask_client(target, id, client, neutral, frame, out);
                }
                None => {
                    let answer = self.pool_settings(target, sections);
                    self.answer_server(target, &id, &answer, out);
                }
            },
            _ if method == "workspace/workspaceFolders" => {
                let answer = self.folders_told(target);
                self.answer_server(target, &id, &answer, out);
            }
            _ if is_refresh(&method) => {
                self.answer_server(target, &id, "null", out);
                self.tell_all_by_request(target, &method, &frame.message, out);
            }
            _ => match self.client_to_ask(target, &method) {
                Some(client) => {
                    let neutral = neutral_answer(&method).map(str::to_owned);
                    self.ask_client(target, id, client, neutral, frame, out);
                }
                None => self.answer_neutrally(target, &id, neutral_answer(&method), out),
            },
        }
    }

    fn answer_server(
        &mut self,
        target: InstanceId,
        id: &RawId,
        result: &str,
        out: &mut Vec<Effect>,
    ) {
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        let link = instance.link();
        instance
            .outbox
            .push(link, Message::result(id, result).into(), self.now, out);
    }

    fn answer_neutrally(
        &mut self,
        target: InstanceId,
        id: &RawId,
        neutral: Option<&str>,
        out: &mut Vec<Effect>,
    ) {
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        let link = instance.link();
        let message = match neutral {
            Some(result) => Message::result(id, result),
            None => Message::error(id, -32601, "no attached client answers this method", None),
        };
        instance.outbox.push(link, message.into(), self.now, out);
    }

    /// The client whose settings are the instance's: its first one that answers such questions.
    fn configuration_source(&self, target: InstanceId) -> Option<ClientId> {
        let instance = self.instances.get(&target)?;
        if !instance.serves() {
            return None;
        }
        instance.clients.iter().copied().find(|id| {
            self.clients.get(id).is_some_and(|client| {
                client.phase == Phase::Live && client.announced("workspace/configuration")
            })
        })
    }

    /// The pool's own answer to `workspace/configuration`: the definition's settings, an empty object for the rest.
    fn pool_settings(&self, target: InstanceId, sections: &[Option<String>]) -> String {
        let definition = self
            .instances
            .get(&target)
            .and_then(|instance| instance.definition.clone());
        let items: Vec<String> = sections
            .iter()
            .map(|section| {
                let known = definition
                    .as_ref()
                    .and_then(|definition| definition.setting(section.as_deref()));
                // One server is known to end itself on a null item, so an unknown section is an empty object.
                known.map_or_else(|| "{}".to_owned(), |value| value.to_string())
            })
            .collect();
        format!("[{}]", items.join(","))
    }

    fn folders_told(&self, target: InstanceId) -> String {
        let folders = self
            .instances
            .get(&target)
            .map(|it| it.folders_as_sent.clone())
            .unwrap_or_default();
        if folders.is_empty() {
            return "null".to_owned();
        }
        let items: Vec<String> = folders
            .iter()
            .map(|uri| {
                let name = uri.trim_end_matches('/').rsplit('/').next().unwrap_or(uri);
                format!(r#"{{"uri":{},"name":{}}}"#, quoted(uri), quoted(name))
            })
            .collect();
        format!("[{}]", items.join(","))
    }

    /// Who is asked: the client whose command is in flight, else whose request is, else the last active one.
    fn client_to_ask(&self, target: InstanceId, method: &str) -> Option<ClientId> {
        let instance = self.instances.get(&target)?;
        if !instance.serves() {
            return None;
        }
        let able = |id: &ClientId| {
            self.clients
                .get(id)
                .is_some_and(|client| client.phase == Phase::Live && client.announced(method))
        };
        let causing = |commands_only: bool| {
            instance
                .pending
                .values()
                .rev()
                .find_map(|pending| match &pending.requester {
                    Requester::Client(id, _)
                        if able(id)
                            && (!commands_only || pending.method == "workspace/executeCommand") =>
                    {
                        Some(*id)
                    }
                    _ => None,
                })
        };
        causing(true).or_else(|| causing(false)).or_else(|| {
            let able = instance.clients.iter().copied().filter(able);
            able.max_by_key(|id| self.clients.get(id).map_or(0, |client| client.activity))
        })
    }

    fn ask_client(
        &mut self,
        target: InstanceId,
        id: RawId,
        client_id: ClientId,
        neutral: Option<String>,
        frame: &Frame,
        out: &mut Vec<Effect>,
    ) {
        let number = self.next_request();
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        if instance.asks.contains_key(&id) {
            let link = instance.link();
            let text = format!("the id {} is that of a request still in flight", id.raw());
            let message = Message::error(&id, super::handshake::INVALID_REQUEST, &text, None);
            return instance.outbox.push(link, message.into(), self.now, out);
        }
        let generation = instance.generation;
        instance
            .asks
            .insert(id.clone(), (client_id, number, neutral));
        if let Some(client) = self.clients.get_mut(&client_id) {
            client.asked.insert(
                number,
                Asked::ForServer {
                    instance: target,
                    generation,
                    id,
                },
            );
        }
        let message = Outgoing::with_id(&frame.message, &RawId::number(number));
        self.send_to_client(client_id, message, out);
    }

    /// Tells one client something in the form of a request whose answer nobody needs.
    pub(super) fn tell_by_request(
        &mut self,
        id: ClientId,
        method: &str,
        params: &str,
        out: &mut Vec<Effect>,
    ) {
        let number = self.next_request();
        if let Some(client) = self.clients.get_mut(&id) {
            client.asked.insert(number, Asked::Told);
        }
        self.send_to_client(id, Message::request(number, method, params).into(), out);
    }

    /// Passes a request that the pool has answered on to every client that wants it.
    fn tell_all_by_request(
        &mut self,
        target: InstanceId,
        method: &str,
        message: &Message,
        out: &mut Vec<Effect>,
    ) {
        for id in self.clients_of(target) {
            if !self
                .clients
                .get(&id)
                .is_some_and(|client| client.wants(method))
            {
                continue;
            }
            let number = self.next_request();
            if let Some(client) = self.clients.get_mut(&id) {
                client.asked.insert(number, Asked::Told);
            }
            self.send_to_client(id, Outgoing::with_id(message, &RawId::number(number)), out);
        }
    }

    /// A client's answer to a request of a server.
    pub(super) fn answer_from_client(
        &mut self,
        id: ClientId,
        frame: &Frame,
        out: &mut Vec<Effect>,
    ) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let asked = frame
            .message
            .id()
            .and_then(RawId::as_u64)
            .and_then(|number| client.asked.remove(&number));
        match asked {
            Some(Asked::ForServer {
                instance: target,
                generation,
                id: request,
            }) => {
                let Some(instance) = self
                    .instances
                    .get_mut(&target)
                    .filter(|it| it.generation == generation)
                else {
                    return;
                };
                instance.asks.remove(&request);
                let link = instance.link();
                instance.outbox.push(
                    link,
                    Outgoing::with_id(&frame.message, &request),
                    self.now,
                    out,
                );
            }
            Some(Asked::Told) => {}
            None => tracing::debug!(client = %id, "an answer without a request was dropped"),
        }
    }

    /// A client's answer that was too large to take: the server gets an error in its place.
    pub(super) fn fail_answer_of_client(
        &mut self,
        id: ClientId,
        answer: &RawId,
        text: &str,
        out: &mut Vec<Effect>,
    ) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let asked = answer
            .as_u64()
            .and_then(|number| client.asked.remove(&number));
        if let Some(Asked::ForServer {
            instance: target,
            id: request,
            ..
        }) = asked
            && let Some(instance) = self.instances.get_mut(&target)
        {
            instance.asks.remove(&request);
            let link = instance.link();
            let message = Message::error(&request, super::handshake::REQUEST_FAILED, text, None);
            instance.outbox.push(link, message.into(), self.now, out);
        }
    }

    /// Answers, in the place of a client that is gone, what servers had asked it.
    pub(super) fn answer_for_the_gone(&mut self, id: ClientId, out: &mut Vec<Effect>) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        for asked in std::mem::take(&mut client.asked).into_values() {
            let Asked::ForServer {
                instance: target,
                generation,
                id: request,
            } = asked
            else {
                continue;
            };
            let Some(instance) = self
                .instances
                .get_mut(&target)
                .filter(|it| it.generation == generation)
            else {
                continue;
            };
            let Some((_, _, neutral)) = instance.asks.remove(&request) else {
                continue;
            };
            self.answer_neutrally(target, &request, neutral.as_deref(), out);
        }
    }

    /// A server withdraws a request that it made.
    pub(super) fn server_cancels(
        &mut self,
        target: InstanceId,
        id: &RawId,
        span: &Range<usize>,
        message: &Message,
        out: &mut Vec<Effect>,
    ) {
        let Some(instance) = self.instances.get(&target) else {
            return;
        };
        let Some((client, number, _)) = instance.asks.get(id) else {
            return;
        };
        let (client, number) = (*client, number.to_string());
        self.send_to_client(
            client,
            Outgoing::splice(message, &[(span.clone(), &number)]),
            out,
        );
    }

    fn register(
        &mut self,
        target: InstanceId,
        registrations: Vec<Registration>,
        out: &mut Vec<Effect>,
    ) {
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        for registration in &registrations {
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
                self.pass_registrations(id, &registrations, out);
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

    fn unregister(
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
        for id in self.clients_of(target) {
            let Some(client) = self
                .clients
                .get(&id)
                .filter(|client| client.phase == Phase::Live)
            else {
                continue;
            };
            let Some(facts) = client.facts.as_ref() else {
                continue;
            };
            let params = message.params().unwrap_or("{}");
            match filter_unregistrations(params, &facts.raised.offer) {
                Filtered::Unchanged => {
                    let params = params.to_owned();
                    self.tell_by_request(id, "client/unregisterCapability", &params, out);
                }
                Filtered::Changed(params) => {
                    self.tell_by_request(id, "client/unregisterCapability", &params, out)
                }
                Filtered::Nothing => {}
            }
        }
    }
}

/// Requests that only tell every client to ask again.
fn is_refresh(method: &str) -> bool {
    method.starts_with("workspace/") && method.ends_with("/refresh")
}
