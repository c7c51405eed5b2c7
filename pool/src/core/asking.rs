//! Requests of servers that a client answers, and what a client is told in the form of a request.
//!
//! Invariant: *one answer each*, also when the client that was asked dies first.

use std::ops::Range;

use crate::wire::{Kind, Message, Outgoing, RawId};

use super::Core;
use super::client::Asked;
use super::effect::Effect;
use super::event::Frame;
use super::handshake::{INVALID_REQUEST, REQUEST_FAILED};
use super::ids::{ClientId, InstanceId};
use super::instance::Ask;

impl Core {
    pub(super) fn ask_client(
        &mut self,
        target: InstanceId,
        id: RawId,
        ask: Ask,
        message: &Message,
        out: &mut Vec<Effect>,
    ) {
        let (client_id, number) = (ask.client, ask.number);
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        if instance.asks.contains_key(&id) {
            let text = format!("the id {} is that of a request still in flight", id.raw());
            let error = Message::error(&id, INVALID_REQUEST, &text, None);
            return self.send_to_server(target, error, out);
        }
        let generation = instance.generation;
        instance.asks.insert(id.clone(), ask);
        if let Some(client) = self.clients.get_mut(&client_id) {
            let asked = Asked {
                instance: target,
                generation,
                id,
            };
            client.asked.insert(number, asked);
        }
        let message = Outgoing::with_id(message, &RawId::number(number));
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
        self.send_to_client(id, Message::request(number, method, params).into(), out);
    }

    /// Passes a request that the pool has answered on to every client that wants it.
    pub(super) fn tell_all_by_request(
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
        let Some(answer) = frame.message.id() else {
            return;
        };
        let Some((target, request, ask)) = self.take_ask(id, answer) else {
            return;
        };
        if frame.message.kind() == Kind::ErrorResponse && ask.settings.is_some() {
            return self.ask_failed(target, request, ask, out);
        }
        self.send_to_server(target, Outgoing::with_id(&frame.message, &request), out);
    }

    /// A client's answer that cannot be taken: the server gets an error in its place.
    pub(super) fn fail_answer_of_client(
        &mut self,
        id: ClientId,
        answer: &RawId,
        text: &str,
        out: &mut Vec<Effect>,
    ) {
        let Some((target, request, ask)) = self.take_ask(id, answer) else {
            return;
        };
        if ask.settings.is_some() {
            return self.ask_failed(target, request, ask, out);
        }
        let message = Message::error(&request, REQUEST_FAILED, text, None);
        self.send_to_server(target, message, out);
    }

    /// The request of a server that a client's answer is for; `None` where nobody waits for the answer.
    fn take_ask(&mut self, id: ClientId, answer: &RawId) -> Option<(InstanceId, RawId, Ask)> {
        let client = self.clients.get_mut(&id)?;
        let asked = answer
            .as_u64()
            .and_then(|number| client.asked.remove(&number));
        let Some(asked) = asked else {
            tracing::debug!(client = %id, "an answer without a request was dropped");
            return None;
        };
        let Asked {
            instance: target,
            generation,
            id: request,
        } = asked;
        let instance = self.process(target, generation)?;
        let ask = instance.asks.remove(&request)?;
        Some((target, request, ask))
    }

    /// The client that was asked gave no answer: the next one is asked, or the neutral answer is given.
    fn ask_failed(&mut self, target: InstanceId, request: RawId, ask: Ask, out: &mut Vec<Effect>) {
        match (ask.settings, ask.neutral) {
            (Some(mut question), Some(neutral)) => {
                question.failed.push(ask.client);
                self.ask_settings(target, request, question, neutral, out);
            }
            (_, neutral) => self.answer_neutrally(target, &request, neutral.as_deref(), out),
        }
    }

    /// Answers, in the place of a client that is gone, what servers had asked it.
    pub(super) fn answer_for_the_gone(&mut self, id: ClientId, out: &mut Vec<Effect>) {
        let numbers: Vec<u64> = match self.clients.get(&id) {
            Some(client) => client.asked.keys().copied().collect(),
            None => return,
        };
        for number in numbers {
            if let Some((target, request, ask)) = self.take_ask(id, &RawId::number(number)) {
                self.ask_failed(target, request, ask, out);
            }
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
        let Some(ask) = instance.asks.get(id) else {
            return;
        };
        let (client, number) = (ask.client, ask.number.to_string());
        self.send_to_client(
            client,
            Outgoing::splice(message, &[(span.clone(), &number)]),
            out,
        );
    }
}
