//! What a client sends: what is acted on at once, what keeps its place, and what each phase allows.

use lspool_normalize::CommonCode;

use crate::edge::Decoded;
use crate::wire::{Kind, Message, Outgoing, RawId};

use super::Core;
use super::client::{Client, ClientFace, Phase};
use super::effect::Effect;
use super::event::{Frame, FrameFault};
use super::failure::Failure;
use super::handshake::{INVALID_REQUEST, REQUEST_FAILED};
use super::ids::{ClientId, Link};

/// LSP: no `initialize` came before.
const SERVER_NOT_INITIALIZED: i64 = -32002;
/// JSON-RPC: unknown method.
pub(super) const METHOD_NOT_FOUND: i64 = -32601;
/// JSON-RPC: params of the wrong shape.
const INVALID_PARAMS: i64 = -32602;

/// The prefix of the methods that lspool answers itself.
const OWN_METHODS: &str = "lspool/";

/// Characters of what a server printed outside of any message that the log tells.
const LOGGED_SAMPLE: usize = 200;

impl Core {
    pub(super) fn frame_from_client(&mut self, id: ClientId, frame: Frame, out: &mut Vec<Effect>) {
        self.next.activity += 1;
        let activity = self.next.activity;
        let Some(client) = self.clients.get_mut(&id) else {
            return out.push(Effect::Release {
                link: Link::Client(id),
                credit: frame.credit,
            });
        };
        client.activity = activity;
        if acts_at_once(&frame) {
            return self.serve_at_once(id, &frame, out);
        }
        client.parked.push_back(frame);
        self.unpark_client(id, out);
        self.hold_for_handshake(id, out);
    }

    /// What is held until the handshake is over is held without credit, up to a full outbox: what ends the wait may
    /// stand behind it on the same link.
    fn hold_for_handshake(&mut self, id: ClientId, out: &mut Vec<Effect>) {
        let cap = self.config.limits.outbox_bytes;
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        if !matches!(client.phase, Phase::Initializing | Phase::Answered) {
            return;
        }
        let Some(frame) = client.parked.back_mut().filter(|frame| frame.credit > 0) else {
            return;
        };
        if client.held_bytes + frame.message.len() > cap {
            tracing::warn!(client = %id, "a client sent more than is held before it is initialized");
            return;
        }
        client.held_bytes += frame.message.len();
        let credit = std::mem::take(&mut frame.credit);
        out.push(Effect::Release {
            link: Link::Client(id),
            credit,
        });
    }

    /// Serves parked frames in order until one must go on waiting.
    pub(super) fn unpark_client(&mut self, id: ClientId, out: &mut Vec<Effect>) {
        while let Some(at) = self.next_parked(id) {
            let Some(client) = self.clients.get_mut(&id) else {
                return;
            };
            if client.phase == Phase::Answered {
                client.examined = at;
            }
            let Some(frame) = client.parked.remove(at) else {
                return;
            };
            self.serve(id, &frame, out);
        }
        if let Some(client) = self.clients.get_mut(&id)
            && client.phase == Phase::Answered
        {
            client.examined = client.parked.len();
        }
    }

    /// The parked frame that is served next: the head. While everything else is held for `initialized` it is the first
    /// one that is not, and behind a notification that waits for a stalled server the first request, to be refused.
    fn next_parked(&self, id: ClientId) -> Option<usize> {
        let client = self.clients.get(&id)?;
        if client.phase == Phase::Answered {
            let from = client.examined.min(client.parked.len());
            let mut rest = client.parked.range(from..);
            let at = rest.position(|frame| self.can_serve(id, frame));
            return at.map(|at| from + at);
        }
        let head = client.parked.front()?;
        if self.can_serve(id, head) {
            return Some(0);
        }
        let mut behind = client.parked.iter().skip(1);
        let at = if self.uses_a_stalled_server(client) {
            behind.position(|frame| {
                frame.message.kind() == Kind::Request
                    && !frame
                        .message
                        .method()
                        .is_some_and(|method| is_of_the_pool(&method))
            })
        } else {
            None
        };
        at.map(|at| at + 1)
    }

    fn uses_a_stalled_server(&self, client: &Client) -> bool {
        let first = client.instances.first();
        client.phase == Phase::Live
            && first
                .and_then(|target| self.instances.get(target))
                .is_some_and(|instance| instance.stalled)
    }

    /// Whether the head of a client's link can be acted on now.
    pub(super) fn can_serve(&self, id: ClientId, frame: &Frame) -> bool {
        let Some(client) = self.clients.get(&id) else {
            return true;
        };
        let method = frame.message.method();
        let method = method.as_deref().unwrap_or_default();
        match client.phase {
            Phase::New | Phase::ShutDown | Phase::Closing => true,
            Phase::Initializing => method == "initialize",
            Phase::Answered => {
                method.starts_with(OWN_METHODS)
                    || matches!(method, "initialized" | "initialize" | "shutdown")
            }
            Phase::Live => {
                if is_of_the_pool(method) {
                    return true;
                }
                let Some(instance) = client
                    .instances
                    .first()
                    .and_then(|target| self.instances.get(target))
                else {
                    return true;
                };
                // A stalled server's requests are refused and its changes are kept as the client's text.
                let needs_no_room = instance.stalled
                    && (frame.message.kind() == Kind::Request
                        || matches!(frame.decoded, Decoded::Change { .. }));
                needs_no_room
                    || (instance.serves() && !instance.outbox.is_full())
                    || !instance.admits()
            }
        }
    }

    fn serve_at_once(&mut self, id: ClientId, frame: &Frame, out: &mut Vec<Effect>) {
        let credit = frame.credit;
        match (&frame.decoded, frame.message.kind()) {
            (Decoded::Cancel { id: request, .. }, _) => self.cancel_from_client(id, request, out),
            (_, Kind::Response | Kind::ErrorResponse) => self.answer_from_client(id, frame, out),
            _ => self.exit_from_client(id, out),
        }
        out.push(Effect::Release {
            link: Link::Client(id),
            credit,
        });
    }

    pub(super) fn serve(&mut self, id: ClientId, frame: &Frame, out: &mut Vec<Effect>) {
        let credit = frame.credit;
        match frame.message.kind() {
            Kind::Request => self.serve_request(id, frame, out),
            _ => self.serve_notification(id, frame, out),
        }
        out.push(Effect::Release {
            link: Link::Client(id),
            credit,
        });
    }

    fn serve_request(&mut self, id: ClientId, frame: &Frame, out: &mut Vec<Effect>) {
        let Some(request) = frame.message.id().cloned() else {
            return;
        };
        let Some(client) = self.clients.get(&id) else {
            return;
        };
        let method = frame
            .message
            .method()
            .map(std::borrow::Cow::into_owned)
            .unwrap_or_default();
        if client.requests.contains_key(&request) || client.calls.contains_key(&request) {
            let text = format!(
                "the id {} is that of a request still in flight",
                request.raw()
            );
            return self.answer_error(id, &request, INVALID_REQUEST, &text, out);
        }
        if let Decoded::Malformed(text) = &frame.decoded {
            let text = format!("{method}: {text}");
            return self.answer_error(id, &request, INVALID_PARAMS, &text, out);
        }
        match (client.phase, method.as_str()) {
            (Phase::New, "initialize") => match &frame.decoded {
                Decoded::Initialize(facts) => self.initialize(id, request, facts.clone(), out),
                _ => self.answer_error(
                    id,
                    &request,
                    INVALID_PARAMS,
                    "initialize has no params object",
                    out,
                ),
            },
            (Phase::New, _) => {
                let text = format!("{method} came before initialize");
                self.answer_error(id, &request, SERVER_NOT_INITIALIZED, &text, out);
            }
            (Phase::ShutDown | Phase::Closing, _) => {
                let text = format!("{method} came after shutdown");
                self.answer_error(id, &request, INVALID_REQUEST, &text, out);
            }
            (_, "initialize") => {
                self.answer_error(
                    id,
                    &request,
                    INVALID_REQUEST,
                    "initialize was already sent on this connection",
                    out,
                );
            }
            (_, "shutdown") => self.shutdown_from_client(id, &request, out),
            (_, own) if own.starts_with(OWN_METHODS) => {
                self.call_from_client(id, request, own, frame, out);
            }
            (_, _) if matches!(client.face, ClientFace::Harness { .. }) => {
                let text = format!(
                    "{method} is not a method of a connection without a server; lspool/* and document sync are"
                );
                self.answer_error(id, &request, METHOD_NOT_FOUND, &text, out);
            }
            (_, _) => self.forward_request(id, request, method, frame, out),
        }
    }

    fn serve_notification(&mut self, id: ClientId, frame: &Frame, out: &mut Vec<Effect>) {
        let Some(client) = self.clients.get(&id) else {
            return;
        };
        let harness = matches!(client.face, ClientFace::Harness { .. });
        let method = frame
            .message
            .method()
            .map(std::borrow::Cow::into_owned)
            .unwrap_or_default();
        match client.phase {
            // LSP: a notification before `initialize` is dropped, and after `shutdown` only `exit` counts.
            Phase::Answered if method == "initialized" => {
                return self.client_initialized(id, frame, out);
            }
            Phase::New
            | Phase::Initializing
            | Phase::Answered
            | Phase::ShutDown
            | Phase::Closing => return,
            Phase::Live => {}
        }
        match &frame.decoded {
            Decoded::Malformed(text) => {
                tracing::warn!(client = %id, method, text, "a notification was dropped");
                let text = format!("lspool dropped {method}: {text}");
                self.tell_client(id, 2, &text, out);
            }
            Decoded::Open { .. } => self.client_opens(id, frame, out),
            Decoded::Change { .. } => self.client_changes(id, frame, out),
            Decoded::Close { .. } => self.client_closes(id, frame, out),
            Decoded::Save { .. } if !harness => self.client_saves(id, frame, out),
            Decoded::Configuration { digest } => {
                let digest = *digest;
                self.client_configures(id, digest, frame, out);
            }
            Decoded::CancelProgress { token } => {
                let token = token.clone();
                self.cancel_progress(id, &token, frame, out);
            }
            _ if harness || method == "initialized" => {}
            _ => self.forward_notification(id, frame, out),
        }
    }

    fn shutdown_from_client(&mut self, id: ClientId, request: &RawId, out: &mut Vec<Effect>) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        client.phase = Phase::ShutDown;
        client.exit_code = 0;
        self.send_to_client(id, Message::result(request, "null").into(), out);
    }

    /// Answers a client's request with an error of the pool's own.
    pub(super) fn answer_error(
        &mut self,
        id: ClientId,
        request: &RawId,
        code: i64,
        text: &str,
        out: &mut Vec<Effect>,
    ) {
        self.send_to_client(id, Message::error(request, code, text, None).into(), out);
    }

    /// Answers a client's request with −32803 and a stable code.
    pub(super) fn answer_failure(
        &mut self,
        id: ClientId,
        request: &RawId,
        failure: Failure<'_>,
        out: &mut Vec<Effect>,
    ) {
        let message = Message::error(request, REQUEST_FAILED, failure.text, Some(&failure.data()));
        self.send_to_client(id, message.into(), out);
    }

    /// Tells a client something with `window/logMessage`; `kind` is the protocol's message type.
    pub(super) fn tell_client(
        &mut self,
        id: ClientId,
        kind: u8,
        text: &str,
        out: &mut Vec<Effect>,
    ) {
        let params = format!(
            r#"{{"type":{kind},"message":{}}}"#,
            crate::wire::quoted(text)
        );
        self.send_to_client(
            id,
            Outgoing::from(Message::notification("window/logMessage", &params)),
            out,
        );
    }

    pub(super) fn bad_frame(
        &mut self,
        link: Link,
        fault: FrameFault,
        credit: u32,
        out: &mut Vec<Effect>,
    ) {
        match (link, fault) {
            (_, FrameFault::Skipped { total, sample }) => {
                tracing::warn!(?link, total, "bytes outside any message were skipped");
                match link {
                    Link::Client(client) => {
                        // It can be a part of a document.
                        tracing::trace!(?link, sample, "the beginning of what was skipped");
                        let sample = crate::wire::quoted(&sample);
                        let text =
                            format!("lspool skipped {total} bytes that are no message: {sample}");
                        out.push(Effect::Notice { client, text });
                    }
                    Link::Server(..) => {
                        let begin: String = sample.chars().take(LOGGED_SAMPLE).collect();
                        tracing::debug!(?link, begin, "the beginning of what was skipped");
                        self.note_printed(link, sample);
                    }
                }
            }
            (
                Link::Client(id),
                FrameFault::NotAMessage {
                    id: Some(answer),
                    is_answer: true,
                    text,
                    ..
                },
            ) => {
                self.fail_answer_of_client(id, &answer, &text, out);
            }
            (
                Link::Client(id),
                FrameFault::NotAMessage {
                    id: request,
                    code,
                    text,
                    ..
                },
            ) => {
                let request = request.unwrap_or_else(RawId::null);
                self.answer_error(id, &request, code, &text, out);
            }
            (
                Link::Client(id),
                FrameFault::TooLarge {
                    id: request,
                    is_answer,
                    length,
                    cap,
                },
            ) => {
                let text = format!("a message of {length} bytes is over the limit of {cap} bytes");
                match request {
                    Some(request) if !is_answer => {
                        let failure = Failure::common(CommonCode::LimitExceeded, &text);
                        self.answer_failure(id, &request, failure, out);
                    }
                    Some(answer) => self.fail_answer_of_client(id, &answer, &text, out),
                    None => tracing::warn!(client = %id, text, "a notification was dropped"),
                }
            }
            (Link::Server(instance, generation), fault) => {
                self.bad_frame_from_server(instance, generation, &fault, out);
            }
        }
        out.push(Effect::Release { link, credit });
    }
}

/// Whether the pool itself answers a method, so that it needs no server.
pub(super) fn is_of_the_pool(method: &str) -> bool {
    method.starts_with(OWN_METHODS) || method == "shutdown"
}

/// Cancels, answers and `exit` never wait behind a parked frame (`sharing.md`, Flow control, look-ahead).
fn acts_at_once(frame: &Frame) -> bool {
    matches!(frame.decoded, Decoded::Cancel { .. })
        || matches!(frame.message.kind(), Kind::Response | Kind::ErrorResponse)
        || (frame.message.kind() == Kind::Notification
            && frame.message.method().as_deref() == Some("exit"))
}
