//! The documents that queries need open: read again when their file changed, held while used, bounded.

use std::collections::{BTreeSet, VecDeque};

use lspool_normalize::Readiness;
use lspool_normalize::request::Wait;

use super::Stage;
use crate::core::effect::{Effect, Job};
use crate::core::event::RereadDocument;
use crate::core::ids::{InstanceId, QueryTicket, Tick};
use crate::core::instance::{Instance, QueryHold, ServerDocument};
use crate::core::{Core, JobOwner};
use crate::edge::Text;
use crate::query::Prepared;
use crate::wire::{Message, quoted};

impl Core {
    pub(in crate::core) fn query_reread(
        &mut self,
        ticket: QueryTicket,
        changed: &[RereadDocument],
        out: &mut Vec<Effect>,
    ) {
        let Some(query) = self.queries.get(&ticket) else {
            return;
        };
        let (Some(target), Some(prepared)) = (query.instance, query.prepared.clone()) else {
            return;
        };
        if !self.instances.get(&target).is_some_and(Instance::serves) {
            // The server died meanwhile; the documents are read anew once it is back.
            if let Some(query) = self.queries.get_mut(&ticket) {
                query.stage = Stage::Booting;
            }
            return;
        }
        self.announce_changes(target, changed, out);
        let mut own_changed = false;
        for document in changed {
            own_changed |= document.uri == prepared.file_uri;
            if document.uri != prepared.file_uri {
                self.refresh_document(target, document, out);
            }
        }
        if own_changed {
            return self.prepare_again(ticket, out);
        }
        self.hold_for_query(target, &prepared, out);
        let waits = self
            .queries
            .get(&ticket)
            .is_some_and(|query| query.request.wait != Some(Wait::None));
        let now = self.now;
        if let Some(query) = self.queries.get_mut(&ticket) {
            query.waiting_since.get_or_insert(now);
            query.stage = Stage::AwaitingReadiness;
            if !waits {
                query.readiness = Some(Readiness::NotWaited);
            }
        }
        self.query_step(ticket, out);
    }

    /// Position and text belong together: both are found again on the text of now.
    pub(super) fn prepare_again(&mut self, ticket: QueryTicket, out: &mut Vec<Effect>) {
        let Some(query) = self.queries.get(&ticket) else {
            return;
        };
        let work = self.preparation(query.client, &query.request);
        let job = self.job(JobOwner::Prepare(ticket), work, out);
        if let Some(query) = self.queries.get_mut(&ticket) {
            query.stage = Stage::Preparing(job);
        }
        self.leave_instance(ticket, out);
    }

    /// Brings a document that only queries hold to its file's present text, or closes it.
    pub(super) fn refresh_document(
        &mut self,
        target: InstanceId,
        document: &RereadDocument,
        out: &mut Vec<Effect>,
    ) {
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        let Some(known) = instance.documents.get_mut(&document.uri) else {
            return;
        };
        let Some((text, version)) = &document.text else {
            known.query = None;
            if !known.is_held() {
                self.close_document(target, &document.uri, None, out);
            }
            return;
        };
        if let Some(hold) = known.query.as_mut() {
            hold.file_version.clone_from(version);
            hold.text = text.clone();
        }
        if known.clients.is_empty() && known.text.id != text.id {
            self.switch(target, &document.uri, text, out);
        }
    }

    pub(super) fn announce_changes(
        &mut self,
        target: InstanceId,
        changed: &[RereadDocument],
        out: &mut Vec<Effect>,
    ) {
        if changed.is_empty() {
            return;
        }
        let events: Vec<String> = changed
            .iter()
            .map(|document| {
                let kind = if document.text.is_some() { 2 } else { 3 };
                format!(r#"{{"uri":{},"type":{kind}}}"#, quoted(&document.uri))
            })
            .collect();
        let params = format!(r#"{{"changes":[{}]}}"#, events.join(","));
        let message = Message::notification("workspace/didChangeWatchedFiles", &params);
        self.send_to_server(target, message, out);
    }

    /// Opens the queried document at the server, or switches it to the text on disk.
    pub(super) fn hold_for_query(
        &mut self,
        target: InstanceId,
        prepared: &Prepared,
        out: &mut Vec<Effect>,
    ) {
        let now = self.now;
        let text = Text {
            id: prepared.text_id,
            content: prepared.text.clone(),
        };
        let hold = QueryHold {
            path: prepared.file_path.clone(),
            text: text.clone(),
            // An editor's text is that of no file, so the next query reads the file again.
            file_version: match prepared.editor_text {
                Some(_) => String::new(),
                None => prepared.file_version.clone(),
            },
            last_use: now,
        };
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        if let Some(document) = instance.documents.get_mut(&prepared.file_uri) {
            document.query = Some(hold);
            if document.text.id != text.id {
                self.switch(target, &prepared.file_uri, &text, out);
            }
            return;
        }
        let version = instance.opening_version(&prepared.file_uri, None);
        let document = ServerDocument {
            versions: VecDeque::from([(version, text.id)]),
            text: text.clone(),
            version,
            language: prepared.language_id.clone(),
            clients: BTreeSet::new(),
            query: Some(hold),
            behind: false,
            diagnostics: None,
        };
        instance
            .documents
            .insert(prepared.file_uri.clone(), document);
        instance.readiness.opened(now);
        let work = Job::Open {
            uri: prepared.file_uri.clone(),
            language: prepared.language_id.clone(),
            version,
            text,
        };
        self.compose(target, work, out);
        self.close_least_used(target, &prepared.file_uri, out);
    }

    /// Keeps the documents that only queries hold within their bounds, least recently used closed first.
    pub(super) fn close_least_used(
        &mut self,
        target: InstanceId,
        keep: &str,
        out: &mut Vec<Effect>,
    ) {
        let (count_cap, byte_cap) = (
            self.config.limits.query_documents,
            self.config.limits.query_document_bytes,
        );
        loop {
            let Some(instance) = self.instances.get_mut(&target) else {
                return;
            };
            let held: Vec<(Tick, String, usize)> = instance
                .documents
                .iter()
                .filter_map(|(uri, document)| {
                    let hold = document.query.as_ref()?;
                    Some((hold.last_use, uri.clone(), document.text.id.length))
                })
                .collect();
            let bytes: usize = held.iter().map(|(_, _, length)| length).sum();
            if held.len() <= count_cap && bytes <= byte_cap {
                return;
            }
            let Some((_, uri, _)) = held.into_iter().filter(|(_, uri, _)| uri != keep).min() else {
                return;
            };
            let Some(document) = instance.documents.get_mut(&uri) else {
                return;
            };
            document.query = None;
            if !document.is_held() {
                self.close_document(target, &uri, None, out);
            }
        }
    }
}
