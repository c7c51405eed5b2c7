//! The question itself: asked when the server is ready or the budget nears its end, again when it was refused for now.

use std::sync::Arc;

use lspool_normalize::{LspCode, Operation, Readiness, RpcError};

use super::{CONTENT_MODIFIED, Query, RETRY_PAUSE_MS, SERVER_CANCELLED, Stage, error_text};
use crate::core::Core;
use crate::core::effect::Effect;
use crate::core::event::Frame;
use crate::core::ids::{InstanceId, QueryTicket, Tick, Timer};
use crate::core::instance::{Pending, Requester};
use crate::core::readiness::Assessment;
use crate::edge::Decoded;
use crate::query::Prepared;
use crate::wire::{Message, quoted};

impl Core {
    /// Looks whether a query that waits for readiness, or that pauses, can go on.
    pub(in crate::core) fn query_step(&mut self, ticket: QueryTicket, out: &mut Vec<Effect>) {
        let Some(query) = self.queries.get(&ticket) else {
            return;
        };
        let Some(target) = query.instance else { return };
        let now = self.now;
        match query.stage {
            Stage::Pausing => {
                if let Some(query) = self.queries.get_mut(&ticket) {
                    query.stage = Stage::Queued;
                }
                self.ask_if_free(ticket, target, out);
            }
            Stage::AwaitingReadiness => {
                let Some(instance) = self
                    .instances
                    .get(&target)
                    .filter(|instance| instance.serves())
                else {
                    return;
                };
                let rule = self.readiness_rule(target);
                let assessment = instance.readiness.assess(now, &rule.readiness);
                let ask_at = self.ask_at(query);
                let indexing = instance.readiness.is_indexing();
                let found = match (query.readiness, assessment) {
                    (Some(readiness), _) => Some(readiness),
                    (None, Assessment::Signal) => Some(Readiness::Signal),
                    (None, Assessment::Settled) => Some(Readiness::Settled),
                    (None, Assessment::Wait(_)) if ask_at.is_some_and(|at| now >= at) => {
                        Some(Readiness::Timeout)
                    }
                    (None, Assessment::Wait(until)) => {
                        let at = [until, ask_at].into_iter().flatten().min();
                        if let Some(at) = at {
                            out.push(Effect::SetTimer {
                                timer: Timer::QueryStep(ticket),
                                at,
                            });
                        }
                        None
                    }
                };
                let Some(found) = found else { return };
                if let Some(query) = self.queries.get_mut(&ticket) {
                    query.readiness = Some(found);
                    query.indexing = found != Readiness::Signal && indexing;
                    query.waited_ms = query.waiting_since.map_or(0, |since| now.since(since));
                    query.stage = Stage::Queued;
                }
                self.ask_if_free(ticket, target, out);
            }
            _ => {}
        }
    }

    /// When a query is asked whatever the server's readiness: 5 s or a fifth of its budget before its end, whichever
    /// is less.
    fn ask_at(&self, query: &Query) -> Option<Tick> {
        let deadline = query.deadline?;
        let waiting = query.waiting_since.unwrap_or(self.now);
        let reserve = self
            .config
            .limits
            .query_reserve_ms
            .min(deadline.since(waiting) / 5);
        Some(Tick(deadline.0.saturating_sub(reserve)))
    }

    pub(super) fn readiness_rule(&self, target: InstanceId) -> Arc<crate::registry::Definition> {
        let own = self
            .instances
            .get(&target)
            .and_then(|instance| instance.definition.clone());
        own.unwrap_or_else(|| self.config.registry.defaults().clone())
    }

    /// Asks the server, unless its share of queries is in flight or an editor's message waits.
    pub(super) fn ask_if_free(
        &mut self,
        ticket: QueryTicket,
        target: InstanceId,
        out: &mut Vec<Effect>,
    ) {
        let cap = self.config.limits.queries_in_flight;
        let Some(instance) = self
            .instances
            .get(&target)
            .filter(|instance| instance.serves())
        else {
            return;
        };
        let in_flight = instance
            .pending
            .values()
            .filter(|it| matches!(it.requester, Requester::Query(_)))
            .count();
        if in_flight >= cap || instance.editor_waits() {
            return;
        }
        let Some(query) = self.queries.get(&ticket) else {
            return;
        };
        let Some(prepared) = query.prepared.clone() else {
            return;
        };
        if self.is_outdated(query) {
            return self.prepare_again(ticket, out);
        }
        let operation = query.request.operation;
        if !instance.supports(operation.capability(), operation.method()) {
            let text = format!("{} does not support {}", instance.server, operation.name());
            let error = RpcError::lsp(LspCode::UnsupportedOperation, text, None);
            return self.finish_query(ticket, Err(Box::new(error)), out);
        }
        self.hold_for_query(target, &prepared, out);
        let number = self.send_question(ticket, target, operation, &prepared, out);
        if let Some(query) = self.queries.get_mut(&ticket) {
            query.stage = Stage::Asking(number);
        }
    }

    pub(in crate::core) fn query_answered(
        &mut self,
        ticket: QueryTicket,
        number: u64,
        frame: &Frame,
        out: &mut Vec<Effect>,
    ) {
        let Some(query) = self.queries.get_mut(&ticket) else {
            return;
        };
        let Some(target) = query.instance else { return };
        if query.is_asking(number) && std::mem::take(&mut query.tainted) {
            return self.ask_later(ticket, out);
        }
        let result = frame.message.result_json().unwrap_or("null").to_owned();
        match query.stage {
            Stage::Asking(at) if at == number => {}
            Stage::AskingDeclaration(at) if at == number => {
                let declaration =
                    matches!(frame.decoded, Decoded::Answer { error: None }).then_some(result);
                let references = self
                    .queries
                    .get_mut(&ticket)
                    .and_then(|query| query.references.take());
                return self.finish_with_result(
                    ticket,
                    target,
                    references.unwrap_or_default(),
                    declaration,
                    out,
                );
            }
            _ => return,
        }
        match frame.decoded {
            Decoded::Answer { error: Some(code) } => {
                self.query_refused(ticket, target, code, frame, out);
            }
            _ if self.asks_declaration(ticket, target, &result) => {
                let Some(prepared) = self
                    .queries
                    .get(&ticket)
                    .and_then(|query| query.prepared.clone())
                else {
                    return;
                };
                let number =
                    self.send_question(ticket, target, Operation::GoToDefinition, &prepared, out);
                if let Some(query) = self.queries.get_mut(&ticket) {
                    query.references = Some(result);
                    query.stage = Stage::AskingDeclaration(number);
                }
            }
            _ => self.finish_with_result(ticket, target, result, None, out),
        }
    }

    /// References are marked with the declaration among them, which only a second question tells.
    pub(super) fn asks_declaration(
        &self,
        ticket: QueryTicket,
        target: InstanceId,
        result: &str,
    ) -> bool {
        let references = self
            .queries
            .get(&ticket)
            .is_some_and(|query| query.request.operation == Operation::FindReferences);
        let definition = Operation::GoToDefinition;
        references
            && result.trim() != "null"
            && self
                .instances
                .get(&target)
                .is_some_and(|it| it.supports(definition.capability(), definition.method()))
    }

    /// Sends the question of an operation about a prepared position.
    pub(super) fn send_question(
        &mut self,
        ticket: QueryTicket,
        target: InstanceId,
        operation: Operation,
        prepared: &Prepared,
        out: &mut Vec<Effect>,
    ) -> u64 {
        let number = self.next_request();
        let Some(instance) = self.instances.get_mut(&target) else {
            return number;
        };
        let pending = Pending {
            requester: Requester::Query(ticket),
            method: operation.method().to_owned(),
            document: Some(prepared.file_uri.clone()),
            tokens: Vec::new(),
            sent_at: self.now,
            cancelled: false,
            again: None,
        };
        instance.pending.insert(number, pending);
        let message = Message::request(number, operation.method(), &question(operation, prepared));
        self.send_to_server(target, message, out);
        number
    }

    /// Asks a question again after a pause: the server was busy, or its text of the document was another meanwhile.
    fn ask_later(&mut self, ticket: QueryTicket, out: &mut Vec<Effect>) {
        let now = self.now;
        let Some(query) = self.queries.get_mut(&ticket) else {
            return;
        };
        query.retries += 1;
        query.stage = Stage::Pausing;
        let (first, longest) = RETRY_PAUSE_MS;
        let pause = first
            .saturating_mul(1 << query.retries.saturating_sub(1).min(8))
            .min(longest);
        // Queries that were refused together are not asked again together.
        let jitter = ticket.0 % (pause / 4 + 1);
        out.push(Effect::SetTimer {
            timer: Timer::QueryStep(ticket),
            at: now.after(pause + jitter),
        });
    }

    /// Whether a question about a document is in flight.
    pub(in crate::core) fn asks_about(&self, target: InstanceId, uri: &str) -> bool {
        self.instances.get(&target).is_some_and(|instance| {
            instance.queries.iter().any(|ticket| {
                self.queries
                    .get(ticket)
                    .is_some_and(|query| query.asks_about(uri))
            })
        })
    }

    /// The server was given another text of a document: what it answers to questions about it is not about theirs.
    pub(in crate::core) fn taint_queries(&mut self, target: InstanceId, uri: &str) {
        let Some(instance) = self.instances.get(&target) else {
            return;
        };
        for ticket in &instance.queries {
            if let Some(query) = self.queries.get_mut(ticket)
                && query.asks_about(uri)
            {
                query.tainted = true;
            }
        }
    }

    pub(super) fn query_refused(
        &mut self,
        ticket: QueryTicket,
        target: InstanceId,
        code: i64,
        frame: &Frame,
        out: &mut Vec<Effect>,
    ) {
        let again = matches!(
            code,
            CONTENT_MODIFIED | SERVER_CANCELLED | crate::core::requests::REQUEST_CANCELLED
        );
        let server = self
            .instances
            .get(&target)
            .map(|instance| instance.server.clone())
            .unwrap_or_default();
        let Some(query) = self.queries.get_mut(&ticket) else {
            return;
        };
        if again {
            return self.ask_later(ticket, out);
        }
        let said = frame.message.error_json().unwrap_or("null");
        let message = error_text(said).unwrap_or_else(|| format!("error {code}"));
        let operation = query.request.operation.name();
        let error = if matches!(code, -32601 | -32600) {
            let text = format!("{server} does not support {operation}: {message}");
            RpcError::lsp(LspCode::UnsupportedOperation, text, None)
        } else {
            let text = format!("{server} failed on {operation}: {message}");
            RpcError::lsp(LspCode::ServerError, text, serde_json::from_str(said).ok())
        };
        self.finish_query(ticket, Err(Box::new(error)), out);
    }
}

/// The params of the server's request for an operation.
fn question(operation: Operation, prepared: &Prepared) -> String {
    let uri = quoted(&prepared.file_uri);
    let (line, character) = (prepared.position.line, prepared.position.character);
    let context = match operation {
        Operation::FindReferences => r#","context":{"includeDeclaration":true}"#,
        _ => "",
    };
    format!(
        r#"{{"textDocument":{{"uri":{uri}}},"position":{{"line":{line},"character":{character}}}{context}}}"#
    )
}
