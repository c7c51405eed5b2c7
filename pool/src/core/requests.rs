//! Requests of clients: out with the pool's id, back with the client's, cancelled by either name.

use std::ops::Range;

use lspool_normalize::LspCode;
use lspool_normalize::capabilities;

use crate::edge::{Decoded, TokenSpan};
use crate::wire::{Message, Outgoing, RawId, quoted};

use super::disturbed::Again;
use super::effect::{Effect, Job};
use super::event::Frame;
use super::failure::Failure;
use super::ids::{ClientId, InstanceId, Link};
use super::instance::{ClientToken, Pending, Requester};
use super::{Core, JobOwner};

/// LSP: the request was cancelled.
pub(super) const REQUEST_CANCELLED: i64 = -32800;

impl Core {
    /// The next id of a message of the pool's own numbering, unique over all links.
    pub(super) fn next_request(&mut self) -> u64 {
        self.next.request += 1;
        self.next.request
    }

    pub(super) fn forward_request(
        &mut self,
        id: ClientId,
        request: RawId,
        method: String,
        frame: &Frame,
        out: &mut Vec<Effect>,
    ) {
        let Some(target) = self.first_instance(id) else {
            let text = format!(
                "{method} cannot be answered: the language server is gone; see `lspool status`"
            );
            return self.answer_failure(id, &request, Failure::lsp(LspCode::Crashed, &text), out);
        };
        let (stalled, serves, server) = {
            let instance = &self.instances[&target];
            (instance.stalled, instance.serves(), instance.server.clone())
        };
        if stalled {
            let text = format!("{server} has not read for a while; {method} was not sent to it");
            let failure = Failure::lsp(LspCode::Stalled, &text);
            return self.answer_failure(id, &request, failure, out);
        }
        if !serves {
            let text = format!("{method} cannot be answered: {server} is ending");
            return self.answer_failure(id, &request, Failure::disposed(&text), out);
        }
        self.show_texts_of(id, target, out);
        let number = self.next_request();
        let Decoded::Request {
            work_done,
            partial_result,
            document,
        } = &frame.decoded
        else {
            return;
        };
        let Some(id_span) = frame.message.id_span() else {
            return;
        };
        let mut edits: Vec<(Range<usize>, String)> = vec![(id_span, number.to_string())];
        let mut tokens = Vec::new();
        for token in [work_done, partial_result].into_iter().flatten() {
            let told = self.admit_token(id, target, token, &mut edits);
            tokens.push(told);
        }
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        let again = Again::of(frame, &method, &edits);
        let pending = Pending {
            requester: Requester::Client(id, request.clone()),
            method,
            document: document.clone(),
            tokens,
            sent_at: self.now,
            cancelled: false,
            again,
        };
        instance.pending.insert(number, pending);
        if let Some(client) = self.clients.get_mut(&id) {
            client.requests.insert(request, (target, number));
        }
        self.send_to_server(target, spliced(&frame.message, &edits), out);
    }

    /// Makes a client's progress token known, renamed when the server would hear it twice.
    fn admit_token(
        &mut self,
        id: ClientId,
        target: InstanceId,
        token: &TokenSpan,
        edits: &mut Vec<(Range<usize>, String)>,
    ) -> RawId {
        let Some(instance) = self.instances.get_mut(&target) else {
            return token.token.clone();
        };
        let taken = instance.client_tokens.contains_key(&token.token)
            || instance.progress.contains_key(&token.token);
        let mut told = token.token.clone();
        if taken {
            self.next.request += 1;
            told = RawId::parse(&quoted(&format!("lspool/{}", self.next.request)))
                .unwrap_or_else(RawId::null);
            edits.push((token.span.clone(), told.raw().to_owned()));
        }
        let entry = ClientToken {
            client: id,
            original: token.token.clone(),
        };
        instance.client_tokens.insert(told.clone(), entry);
        told
    }

    pub(super) fn forward_notification(
        &mut self,
        id: ClientId,
        frame: &Frame,
        out: &mut Vec<Effect>,
    ) {
        let Some(target) = self
            .first_instance(id)
            .filter(|target| self.serves(*target))
        else {
            return;
        };
        self.send_to_server(target, frame.message.clone(), out);
    }

    /// Whether requests can be sent to an instance now.
    pub(super) fn serves(&self, target: InstanceId) -> bool {
        self.instances
            .get(&target)
            .is_some_and(super::instance::Instance::serves)
    }

    /// A client's `$/cancelRequest`: it reaches the request that this client means and no other.
    pub(super) fn cancel_from_client(
        &mut self,
        id: ClientId,
        request: &RawId,
        out: &mut Vec<Effect>,
    ) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        if let Some(call) = client.calls.remove(request) {
            self.calls.remove(&call);
            out.push(Effect::CancelCall { call });
            return self.answer_error(
                id,
                request,
                REQUEST_CANCELLED,
                "cancelled by the client",
                out,
            );
        }
        if let Some((target, number)) = client.requests.get(request).copied() {
            return self.cancel_at_server(target, number, out);
        }
        let parked = client
            .parked
            .iter()
            .position(|frame| frame.message.id() == Some(request));
        if let Some(frame) = parked.and_then(|at| client.parked.remove(at)) {
            client.examined = client.examined.saturating_sub(1);
            out.push(Effect::Release {
                link: Link::Client(id),
                credit: frame.credit,
            });
            self.answer_error(
                id,
                request,
                REQUEST_CANCELLED,
                "cancelled by the client before it was sent",
                out,
            );
        }
    }

    /// Sends a cancel with the pool's id, once.
    pub(super) fn cancel_at_server(
        &mut self,
        target: InstanceId,
        number: u64,
        out: &mut Vec<Effect>,
    ) {
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        let Some(pending) = instance.pending.get_mut(&number) else {
            return;
        };
        if std::mem::replace(&mut pending.cancelled, true) {
            return;
        }
        let message = Message::notification("$/cancelRequest", &format!(r#"{{"id":{number}}}"#));
        self.send_to_server(target, message, out);
    }

    /// `window/workDoneProgress/cancel` of a client: its own tokens by their told name, the server's as they are.
    pub(super) fn cancel_progress(
        &mut self,
        id: ClientId,
        token: &TokenSpan,
        frame: &Frame,
        out: &mut Vec<Effect>,
    ) {
        let Some((target, instance)) = self
            .first_instance(id)
            .and_then(|target| Some((target, self.instances.get(&target)?)))
        else {
            return;
        };
        let told = instance
            .client_tokens
            .iter()
            .find(|(_, entry)| entry.client == id && entry.original == token.token)
            .map(|(told, _)| told.raw().to_owned());
        if told.is_none() && instance.client_tokens.contains_key(&token.token) {
            // Under this name the server knows the request of another client.
            return tracing::debug!(client = %id, "the cancel of another client's progress was dropped");
        }
        let message = match told {
            Some(told) => Outgoing::splice(&frame.message, &[(token.span.clone(), &told)]),
            None => frame.message.clone().into(),
        };
        self.send_to_server(target, message, out);
    }

    /// An answer of a server: exactly one for each request, to the one who asked.
    pub(super) fn answer_from_server(
        &mut self,
        target: InstanceId,
        frame: &Frame,
        out: &mut Vec<Effect>,
    ) {
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        let pending = frame
            .message
            .id()
            .and_then(RawId::as_u64)
            .and_then(|number| {
                let pending = instance.pending.remove(&number)?;
                Some((number, pending))
            });
        let Some((number, pending)) = pending else {
            self.late_answers += 1;
            tracing::debug!(instance = %target, "an answer without a request was dropped");
            return;
        };
        if self.ask_again(target, &pending, frame, out) {
            return;
        }
        if let Some(instance) = self.instances.get_mut(&target) {
            for token in &pending.tokens {
                instance.client_tokens.remove(token);
            }
        }
        match pending.requester.clone() {
            Requester::Client(client, request) => {
                self.deliver_answer(client, request, pending, frame, out);
            }
            Requester::Query(ticket) => self.query_answered(ticket, number, frame, out),
            Requester::Initialize => self.server_initialized(target, frame, out),
            Requester::Shutdown => self.shutdown_answered(target, out),
            Requester::Gone => self.late_answers += 1,
        }
        self.pump_queries(target, out);
    }

    fn deliver_answer(
        &mut self,
        id: ClientId,
        request: RawId,
        pending: Pending,
        frame: &Frame,
        out: &mut Vec<Effect>,
    ) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        client.requests.remove(&request);
        let offer = client.facts.as_ref().map(|facts| &facts.raised.offer);
        let succeeded = matches!(frame.decoded, Decoded::Answer { error: None });
        match offer {
            Some(offer) if succeeded && capabilities::needs_lowering(&pending.method, offer) => {
                let bytes = frame.message.len();
                let work = Job::Lower {
                    method: pending.method,
                    document: pending.document,
                    offer: Box::new(offer.clone()),
                    answer: Box::new(frame.message.clone()),
                    id: request,
                };
                let job = self.job(JobOwner::Lower(id), work, out);
                if let Some(client) = self.clients.get_mut(&id) {
                    client.outbox.reserve(job, bytes);
                }
                self.watch_client(id, out);
            }
            _ => self.send_to_client(id, Outgoing::with_id(&frame.message, &request), out),
        }
    }

    pub(super) fn lowered(
        &mut self,
        id: ClientId,
        job: super::JobId,
        message: Outgoing,
        out: &mut Vec<Effect>,
    ) {
        let now = self.now;
        if let Some(client) = self.clients.get_mut(&id) {
            client.outbox.fill(Link::Client(id), job, message, now, out);
        }
        self.watch_client(id, out);
        // The place may have been charged with more than it needed.
        self.unpark_servers_of(id, out);
    }

    /// Fails every request that a dead or ending server has not answered.
    pub(super) fn fail_pending(
        &mut self,
        target: InstanceId,
        failure: Failure<'_>,
        out: &mut Vec<Effect>,
    ) {
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        let pending = std::mem::take(&mut instance.pending);
        instance.client_tokens.clear();
        for (_, pending) in pending {
            match pending.requester {
                Requester::Client(client, request) => {
                    if let Some(client) = self.clients.get_mut(&client) {
                        client.requests.remove(&request);
                    }
                    self.answer_failure(client, &request, failure, out);
                }
                Requester::Query(ticket) => self.query_lost_server(ticket, failure, out),
                Requester::Initialize | Requester::Shutdown | Requester::Gone => {}
            }
        }
    }

    /// Takes a client's requests away from it: cancelled at their servers, their answers dropped.
    pub(super) fn disown_requests(&mut self, id: ClientId, out: &mut Vec<Effect>) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let requests = std::mem::take(&mut client.requests);
        for (target, number) in requests.into_values() {
            self.cancel_at_server(target, number, out);
            let pending = self
                .instances
                .get_mut(&target)
                .and_then(|instance| instance.pending.get_mut(&number));
            if let Some(pending) = pending {
                pending.requester = Requester::Gone;
            }
        }
    }
}

/// The message with its edits applied; edits may come in any order and never overlap.
pub(super) fn spliced(message: &Message, edits: &[(Range<usize>, String)]) -> Outgoing {
    let edits: Vec<(Range<usize>, &str)> = edits
        .iter()
        .map(|(range, text)| (range.clone(), text.as_str()))
        .collect();
    Outgoing::splice(message, &edits)
}
