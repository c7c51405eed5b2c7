//! The end of a query: its answer shaped, its budget spent, its asker or its server gone.

use std::sync::Arc;

use lspool_normalize::{LspCode, QueryResult, Readiness, RpcError, UriKey};

use super::Stage;
use crate::core::effect::{Effect, Job};
use crate::core::event::FinishOutcome;
use crate::core::failure::Failure;
use crate::core::ids::{ClientId, InstanceId, QueryTicket, Timer};
use crate::core::instance::Requester;
use crate::core::{Core, JobOwner};
use crate::query::FinishInput;

/// Files outside of its root that are remembered per instance.
const NAMED_FILES: usize = 1_000;

impl Core {
    pub(super) fn finish_with_result(
        &mut self,
        ticket: QueryTicket,
        target: InstanceId,
        result: String,
        definition_result: Option<String>,
        out: &mut Vec<Effect>,
    ) {
        let Some(instance) = self.instances.get(&target) else {
            return;
        };
        let (server, progress) = (instance.server.clone(), instance.readiness.progress());
        let still_indexing = instance.readiness.is_indexing();
        let open_texts = instance
            .documents
            .iter()
            .map(|(uri, document)| (UriKey::new(uri), document.text.content.clone()))
            .collect();
        let Some(query) = self.queries.get(&ticket) else {
            return;
        };
        let Some(prepared) = query.prepared.clone() else {
            return;
        };
        let readiness = query.readiness.unwrap_or(Readiness::NotWaited);
        let mut notes = Vec::new();
        if query.retries > 0 {
            notes.push(format!(
                "asked again {} times because the server was busy",
                query.retries
            ));
        }
        let input = FinishInput {
            request: query.request.clone(),
            prepared,
            open_texts,
            result,
            definition_result,
            server,
            readiness,
            indexing: readiness != Readiness::Signal && (query.indexing || still_indexing),
            progress,
            notes,
            waited_ms: query.waited_ms,
        };
        let client = query.client;
        let job = self.job(
            JobOwner::Finish(ticket),
            Job::Finish {
                client,
                input: Arc::new(input),
            },
            out,
        );
        if let Some(query) = self.queries.get_mut(&ticket) {
            query.stage = Stage::Finishing(job);
        }
    }

    pub(in crate::core) fn query_finished(
        &mut self,
        ticket: QueryTicket,
        result: FinishOutcome,
        out: &mut Vec<Effect>,
    ) {
        self.note_named_files(ticket, &result);
        self.finish_query(ticket, result, out);
    }

    /// Remembers the files outside of the root that an answer names, so that they can be asked about next.
    fn note_named_files(&mut self, ticket: QueryTicket, result: &FinishOutcome) {
        let target = self.queries.get(&ticket).and_then(|query| query.instance);
        let instance = target.and_then(|target| self.instances.get_mut(&target));
        let (Some(instance), Ok(result)) = (instance, result) else {
            return;
        };
        let QueryResult::Locations { locations, .. } = result.as_ref() else {
            return;
        };
        for location in locations.iter().filter(|location| !location.in_workspace) {
            if instance.named_files.len() < NAMED_FILES {
                instance
                    .named_files
                    .insert(UriKey::new(location.uri.as_str()));
            }
        }
    }

    /// Gives a query its answer and lets go of what it holds.
    pub(super) fn finish_query(
        &mut self,
        ticket: QueryTicket,
        result: FinishOutcome,
        out: &mut Vec<Effect>,
    ) {
        if !self.queries.contains_key(&ticket) {
            return;
        }
        self.drop_query(ticket, out);
        out.push(Effect::QueryDone { ticket, result });
    }

    pub(super) fn drop_query(&mut self, ticket: QueryTicket, out: &mut Vec<Effect>) {
        out.push(Effect::ClearTimer {
            timer: Timer::QueryDeadline(ticket),
        });
        out.push(Effect::ClearTimer {
            timer: Timer::QueryStep(ticket),
        });
        let Some(query) = self.queries.get(&ticket) else {
            return;
        };
        match query.stage {
            Stage::Preparing(job) | Stage::Freshening(job) | Stage::Finishing(job) => {
                if self.jobs.remove(&job).is_some() {
                    out.push(Effect::CancelJob { job });
                }
            }
            Stage::Asking(number) | Stage::AskingDeclaration(number) => {
                if let Some(target) = query.instance {
                    self.cancel_at_server(target, number, out);
                    let pending = self
                        .instances
                        .get_mut(&target)
                        .and_then(|it| it.pending.get_mut(&number));
                    if let Some(pending) = pending {
                        pending.requester = Requester::Gone;
                    }
                }
            }
            Stage::Booting | Stage::AwaitingReadiness | Stage::Queued | Stage::Pausing => {}
        }
        self.leave_instance(ticket, out);
        self.queries.remove(&ticket);
    }

    /// Takes a query off its instance and gives the server back the text of its editors.
    pub(super) fn leave_instance(&mut self, ticket: QueryTicket, out: &mut Vec<Effect>) {
        let Some(query) = self.queries.get_mut(&ticket) else {
            return;
        };
        let Some(target) = query.instance.take() else {
            return;
        };
        let uri = query
            .prepared
            .as_ref()
            .map(|prepared| prepared.file_uri.clone());
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        instance.queries.remove(&ticket);
        if let Some(uri) = uri.filter(|uri| !self.asks_about(target, uri)) {
            self.show_last_active(target, &uri, out);
        }
        self.unpark_server(target, out);
        self.pump_queries(target, out);
        self.end_if_superseded(target, out);
        self.idle_if_unused(target, out);
    }

    pub(in crate::core) fn query_deadline(&mut self, ticket: QueryTicket, out: &mut Vec<Effect>) {
        let Some(query) = self.queries.get(&ticket) else {
            return;
        };
        let server = query
            .instance
            .and_then(|target| self.instances.get(&target))
            .map_or_else(
                || "the language server".to_owned(),
                |instance| instance.server.clone(),
            );
        let phase = match query.stage {
            Stage::Preparing(_) | Stage::Booting => "boot",
            _ => "request",
        };
        let text = match phase {
            "boot" => format!("{server} was not in service within the time given"),
            _ => format!("{server} did not answer within the time given"),
        };
        let detail = serde_json::json!({ "phase": phase });
        let error = RpcError::lsp(LspCode::Timeout, text, Some(detail));
        self.finish_query(ticket, Err(Box::new(error)), out);
    }

    pub(in crate::core) fn query_cancelled(&mut self, ticket: QueryTicket, out: &mut Vec<Effect>) {
        self.drop_query(ticket, out);
    }

    /// The server of a query died or ended: what is read-only is asked again at the next process, once.
    pub(in crate::core) fn query_lost_server(
        &mut self,
        ticket: QueryTicket,
        failure: Failure<'_>,
        out: &mut Vec<Effect>,
    ) {
        let Some(query) = self.queries.get_mut(&ticket) else {
            return;
        };
        if failure.code() == LspCode::Restarted.as_str() && !query.survived_crash {
            query.survived_crash = true;
            query.tainted = false;
            query.stage = Stage::Booting;
            query.readiness = None;
            return;
        }
        self.fail_query(ticket, failure, out);
    }

    pub(in crate::core) fn fail_query(
        &mut self,
        ticket: QueryTicket,
        failure: Failure<'_>,
        out: &mut Vec<Effect>,
    ) {
        self.finish_query(ticket, Err(Box::new(failure.to_rpc())), out);
    }

    /// Fails every query of an instance that cannot serve any more.
    pub(in crate::core) fn fail_queries_of(
        &mut self,
        target: InstanceId,
        failure: Failure<'_>,
        out: &mut Vec<Effect>,
    ) {
        let tickets: Vec<QueryTicket> = match self.instances.get(&target) {
            Some(instance) => instance.queries.iter().copied().collect(),
            None => return,
        };
        for ticket in tickets {
            self.fail_query(ticket, failure, out);
        }
    }

    pub(in crate::core) fn abandon_queries(&mut self, id: ClientId, out: &mut Vec<Effect>) {
        let tickets: Vec<QueryTicket> = self
            .queries
            .iter()
            .filter(|(_, query)| query.client == id)
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in tickets {
            self.fail_query(ticket, Failure::disposed("the connection was closed"), out);
        }
    }

    /// An editor's server is in service: an instance of the same server and root that only queries use leaves.
    pub(in crate::core) fn supersede_query_instances(
        &mut self,
        target: InstanceId,
        out: &mut Vec<Effect>,
    ) {
        let others: Vec<InstanceId> = self
            .instances
            .keys()
            .copied()
            .filter(|other| *other != target)
            .collect();
        for other in others {
            self.end_if_superseded(other, out);
        }
    }

    pub(super) fn end_if_superseded(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let Some(instance) = self.instances.get(&target) else {
            return;
        };
        if !instance.is_unused() || !instance.serves() || !instance.had_only_queries {
            return;
        }
        let superseded = self.instances.values().any(|other| {
            other.id != target
                && other.serves()
                && !other.clients.is_empty()
                && other.root_key.is_some()
                && other.root_key == instance.root_key
                && other.server == instance.server
        });
        if superseded {
            self.end_instance(target, out);
        }
    }
}
