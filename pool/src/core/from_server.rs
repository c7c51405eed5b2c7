//! What a server sends: in order, to those who may see it, and never into a client that is full.

use lspool_normalize::{CommonCode, LspCode};

use crate::edge::Decoded;
use crate::wire::{Kind, Message, RawId};

use super::Core;
use super::effect::Effect;
use super::event::{Frame, FrameFault};
use super::failure::Failure;
use super::handshake::REQUEST_FAILED;
use super::ids::{ClientId, Generation, InstanceId, Link, Timer};
use super::instance::{Phase, Requester};

impl Core {
    pub(super) fn frame_from_server(
        &mut self,
        target: InstanceId,
        generation: Generation,
        frame: Frame,
        out: &mut Vec<Effect>,
    ) {
        let link = Link::Server(target, generation);
        let Some(instance) = self.process(target, generation) else {
            return out.push(Effect::Release {
                link,
                credit: frame.credit,
            });
        };
        if matches!(instance.phase, Phase::Restarting | Phase::Terminating) {
            // What a process says after its loss is nobody's any more.
            return out.push(Effect::Release {
                link,
                credit: frame.credit,
            });
        }
        let early = instance.is_early();
        if early && frame.message.kind() == Kind::Notification {
            return self.keep_early(target, frame, out);
        }
        let waits = match frame.message.kind() {
            Kind::Response | Kind::ErrorResponse => {
                !self.is_for_the_pool(target, &frame) && self.must_wait(target)
            }
            // Before the initialize answer nobody but the pool can be asked.
            Kind::Request => !early && self.must_wait(target),
            Kind::Notification => self.must_wait(target),
        };
        if waits {
            if let Some(instance) = self.instances.get_mut(&target) {
                instance.parked.push_back(frame);
            }
            return;
        }
        self.serve_server_frame(target, &frame, out);
    }

    /// Serves parked frames of a server until its only client is full again.
    pub(super) fn unpark_server(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        loop {
            let Some(instance) = self.instances.get_mut(&target) else {
                return;
            };
            if instance.is_early() {
                return;
            }
            if instance.parked.is_empty() || self.only_client_is_full(target) {
                return;
            }
            let Some(frame) = self
                .instances
                .get_mut(&target)
                .and_then(|it| it.parked.pop_front())
            else {
                return;
            };
            self.serve_server_frame(target, &frame, out);
        }
    }

    pub(super) fn unpark_servers_of(&mut self, id: ClientId, out: &mut Vec<Effect>) {
        let targets = self
            .clients
            .get(&id)
            .map(|client| client.instances.clone())
            .unwrap_or_default();
        for target in targets {
            self.unpark_server(target, out);
        }
    }

    fn serve_server_frame(&mut self, target: InstanceId, frame: &Frame, out: &mut Vec<Effect>) {
        let Some(instance) = self.instances.get(&target) else {
            return;
        };
        let link = instance.link();
        let credit = frame.credit;
        match frame.message.kind() {
            Kind::Response | Kind::ErrorResponse => self.answer_from_server(target, frame, out),
            Kind::Request => self.request_from_server(target, frame, out),
            Kind::Notification => self.notification_from_server(target, frame, out),
        }
        out.push(Effect::Release { link, credit });
    }

    fn must_wait(&self, target: InstanceId) -> bool {
        self.instances
            .get(&target)
            .is_some_and(|instance| !instance.parked.is_empty())
            || self.only_client_is_full(target)
    }

    /// Whether back-pressure may reach the server: it has one client, and that one is full.
    fn only_client_is_full(&self, target: InstanceId) -> bool {
        let Some(instance) = self.instances.get(&target) else {
            return false;
        };
        match instance.clients.as_slice() {
            [only] if instance.queries.is_empty() => self
                .clients
                .get(only)
                .is_some_and(|client| client.outbox.is_full()),
            _ => false,
        }
    }

    fn is_for_the_pool(&self, target: InstanceId, frame: &Frame) -> bool {
        let pending = frame
            .message
            .id()
            .and_then(RawId::as_u64)
            .and_then(|number| self.instances.get(&target)?.pending.get(&number));
        pending.is_none_or(|pending| !matches!(pending.requester, Requester::Client(..)))
    }

    /// Whether a client shares a server with another user of it.
    pub(super) fn is_shared(&self, id: ClientId) -> bool {
        self.clients.get(&id).is_some_and(|client| {
            client.instances.iter().any(|target| {
                self.instances.get(target).is_some_and(|instance| {
                    instance.clients.len() > 1 || !instance.queries.is_empty()
                })
            })
        })
    }

    /// A full client pushes back on its own server; one that shares is let go before it harms the others.
    pub(super) fn watch_client(&mut self, id: ClientId, out: &mut Vec<Effect>) {
        let Some(client) = self.clients.get(&id) else {
            return;
        };
        if !client.outbox.is_full() || client.is_closing() || !self.is_shared(id) {
            return;
        }
        if client.outbox.exceeds(2) {
            tracing::warn!(client = %id, bytes = client.outbox.bytes(), "a client that does not read was disconnected");
            self.drop_client(id, out);
        } else {
            let at = client
                .outbox
                .last_progress(self.now)
                .after(self.config.limits.hung_ms);
            out.push(Effect::SetTimer {
                timer: Timer::ClientProgress(id),
                at,
            });
        }
    }

    pub(super) fn client_progress_timer(&mut self, id: ClientId, out: &mut Vec<Effect>) {
        let shared = self.is_shared(id);
        let Some(client) = self.clients.get(&id) else {
            return;
        };
        let limits = &self.config.limits;
        let patience = if client.is_closing() {
            limits.stall_ms
        } else if shared && client.outbox.is_full() {
            limits.hung_ms
        } else {
            return;
        };
        let due = client.outbox.last_progress(self.now).after(patience);
        if self.now >= due {
            tracing::warn!(client = %id, "a client that does not read was disconnected");
            self.drop_client(id, out);
        } else {
            out.push(Effect::SetTimer {
                timer: Timer::ClientProgress(id),
                at: due,
            });
        }
    }

    pub(super) fn bad_frame_from_server(
        &mut self,
        target: InstanceId,
        generation: Generation,
        fault: &FrameFault,
        out: &mut Vec<Effect>,
    ) {
        let Some(instance) = self
            .instances
            .get(&target)
            .filter(|it| it.generation == generation)
        else {
            return;
        };
        let server = instance.server.clone();
        match fault {
            FrameFault::TooLarge {
                id: Some(id),
                is_answer: true,
                length,
                cap,
            } => {
                let text = format!(
                    "the answer of {server} has {length} bytes and is over the limit of {cap} bytes"
                );
                let failure = Failure::common(CommonCode::LimitExceeded, &text);
                self.fail_answer_of_server(target, id, failure, out);
            }
            FrameFault::NotAMessage {
                id: Some(id),
                is_answer: true,
                text,
                ..
            } => {
                let text = format!("the answer of {server} cannot be read: {text}");
                let failure = Failure::lsp(LspCode::MalformedResponse, &text);
                self.fail_answer_of_server(target, id, failure, out);
            }
            FrameFault::NotAMessage { id, code, text, .. } => {
                tracing::warn!(instance = %target, server, text, "a message of a server was dropped");
                self.refuse_server_request(target, id.as_ref(), *code, text, out);
            }
            FrameFault::TooLarge {
                id, length, cap, ..
            } => {
                let text = format!("a message of {length} bytes is over the limit of {cap} bytes");
                tracing::warn!(instance = %target, server, text, "a message of a server was dropped");
                self.refuse_server_request(target, id.as_ref(), REQUEST_FAILED, &text, out);
            }
            FrameFault::Skipped { .. } => {}
        }
    }

    /// Answers a request of a server that could not be taken, where its id is known.
    fn refuse_server_request(
        &mut self,
        target: InstanceId,
        id: Option<&RawId>,
        code: i64,
        text: &str,
        out: &mut Vec<Effect>,
    ) {
        if let Some(id) = id {
            self.send_to_server(target, Message::error(id, code, text, None), out);
        }
    }

    fn fail_answer_of_server(
        &mut self,
        target: InstanceId,
        id: &RawId,
        failure: Failure<'_>,
        out: &mut Vec<Effect>,
    ) {
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        let Some(number) = id.as_u64() else { return };
        let Some(pending) = instance.pending.remove(&number) else {
            return;
        };
        for token in &pending.tokens {
            instance.client_tokens.remove(token);
        }
        match pending.requester {
            Requester::Client(client, request) => {
                if let Some(client) = self.clients.get_mut(&client) {
                    client.requests.remove(&request);
                }
                self.answer_failure(client, &request, failure, out);
            }
            Requester::Query(ticket) => self.query_lost_server(ticket, failure, out),
            Requester::Initialize => self.start_failed(
                target,
                Failure::lsp(LspCode::StartFailed, failure.text),
                1,
                out,
            ),
            Requester::Shutdown => self.shutdown_answered(target, out),
            Requester::Gone => {}
        }
    }

    /// A server's own requests and what it tells.
    fn notification_from_server(
        &mut self,
        target: InstanceId,
        frame: &Frame,
        out: &mut Vec<Effect>,
    ) {
        match &frame.decoded {
            Decoded::Diagnostics { .. } => self.publish(target, frame, out),
            Decoded::Progress { .. } => self.progress_from_server(target, frame, out),
            Decoded::ServerStatus { quiescent, .. } => {
                let quiescent = *quiescent;
                if let Some(instance) = self.instances.get_mut(&target) {
                    instance.readiness.status(self.now, quiescent);
                }
                self.tell_all(target, &frame.message, out);
                self.pump_queries(target, out);
            }
            Decoded::Log { message } => {
                if let Some(instance) = self.instances.get_mut(&target) {
                    instance
                        .readiness
                        .logged(self.now, message, instance.definition.as_deref());
                }
                self.tell_all(target, &frame.message, out);
                self.pump_queries(target, out);
            }
            Decoded::Cancel { id, span } => {
                self.server_cancels(target, id, span, &frame.message, out);
            }
            _ => self.tell_all(target, &frame.message, out),
        }
    }
}
