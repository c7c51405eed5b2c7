//! Documents: counted per client, one text at the server, rising versions whatever clients send.
//!
//! The server has one text per document, Σ. A client's edit is passed on as it was sent while Σ is what the
//! client edited; otherwise the server is switched to the client's text by one change of the pool's own.
//! Before a request of a client the server is switched to that client's texts.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use crate::edge::{Decoded, Text};
use crate::wire::{Message, Outgoing};

use super::client::{ClientDocument, VERSIONS_KEPT};
use super::effect::{Effect, Job};
use super::event::Frame;
use super::ids::{ClientId, Generation, InstanceId, JobId, Link};
use super::instance::{Instance, ServerDocument};
use super::{Core, JobOwner};

/// A client's own version is told to the server up to this one, so that rising by one stays within the protocol's
/// integers of 31 bits.
const HIGHEST_OFFERED: i64 = 1 << 30;

impl ServerDocument {
    fn advance(&mut self, text: Text) {
        self.version += 1;
        if self.versions.len() == VERSIONS_KEPT {
            self.versions.pop_front();
        }
        self.versions.push_back((self.version, text.id));
        self.text = text;
    }

    /// Whether anybody holds it open.
    pub(super) fn is_held(&self) -> bool {
        !self.clients.is_empty() || self.query.is_some()
    }
}

impl Instance {
    /// The version with which a document is opened: the client's own where it rises.
    pub(super) fn opening_version(&self, uri: &str, offered: Option<i64>) -> i64 {
        let offered =
            offered.filter(|version| (-HIGHEST_OFFERED..=HIGHEST_OFFERED).contains(version));
        let least = self.closed_versions.get(uri).map(|last| last + 1);
        match (least, offered) {
            (Some(least), Some(offered)) => offered.max(least),
            (Some(least), None) => least,
            (None, offered) => offered.unwrap_or(1),
        }
    }
}

impl Core {
    /// The server that a client's messages go to, while it is there.
    pub(super) fn first_instance(&self, id: ClientId) -> Option<InstanceId> {
        let target = *self.clients.get(&id)?.instances.first()?;
        self.instances.contains_key(&target).then_some(target)
    }

    pub(super) fn client_opens(&mut self, id: ClientId, frame: &Frame, out: &mut Vec<Effect>) {
        let Decoded::Open {
            uri,
            language,
            version,
            version_span,
            text,
        } = &frame.decoded
        else {
            return;
        };
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        if client.documents.contains_key(uri) {
            tracing::warn!(client = %id, uri, "a document was opened twice; the second text replaces the first");
        }
        client
            .documents
            .insert(uri.clone(), ClientDocument::new(text.clone(), *version));
        let Some(target) = self.first_instance(id) else {
            return;
        };
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        if let Some(document) = instance.documents.get_mut(uri) {
            document.clients.insert(id);
            if document.text.id != text.id {
                self.switch(target, uri, text, out);
            }
            return self.replay_diagnostics(id, target, uri, out);
        }
        let opened = instance.opening_version(uri, *version);
        let document = ServerDocument {
            versions: VecDeque::from([(opened, text.id)]),
            text: text.clone(),
            version: opened,
            language: language.clone(),
            clients: BTreeSet::from([id]),
            query: None,
            behind: false,
            diagnostics: None,
        };
        instance.documents.insert(uri.clone(), document);
        instance.readiness.opened(self.now);
        match with_version(&frame.message, *version, version_span.as_ref(), opened) {
            Some(message) => self.send_document(target, message, out),
            None if self.serves(target) => {
                let work = Job::Open {
                    uri: uri.clone(),
                    language: language.clone(),
                    version: opened,
                    text: text.clone(),
                };
                self.compose(target, work, out);
            }
            None => {}
        }
    }

    pub(super) fn client_changes(&mut self, id: ClientId, frame: &Frame, out: &mut Vec<Effect>) {
        let Decoded::Change {
            uri,
            version,
            version_span,
            before,
            text,
        } = &frame.decoded
        else {
            return;
        };
        let (Some(before), Some(text)) = (before, text) else {
            let message = format!("lspool dropped textDocument/didChange: {uri} is not open");
            return self.tell_client(id, 2, &message, out);
        };
        if let Some(document) = self
            .clients
            .get_mut(&id)
            .and_then(|client| client.documents.get_mut(uri))
        {
            document.replace(text.clone(), *version);
        }
        let Some(target) = self.first_instance(id) else {
            return;
        };
        self.own_edit(id, target, uri);
        let asked = self.asks_about(target, uri);
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        let told = instance.serves() && !instance.stalled;
        let Some(document) = instance.documents.get_mut(uri) else {
            return;
        };
        if document.text.id != *before {
            // A question about another text is not disturbed; its end gives the server the editor's text back.
            if document.text.id != text.id && !asked {
                self.switch(target, uri, text, out);
            }
            return;
        }
        let message = with_version(
            &frame.message,
            *version,
            version_span.as_ref(),
            document.version + 1,
        );
        match message.filter(|_| told) {
            Some(message) => {
                document.advance(text.clone());
                self.send_document(target, message, out);
                self.taint_queries(target, uri);
                self.disturb_requests(target, uri, text);
            }
            None => self.switch(target, uri, text, out),
        }
    }

    pub(super) fn client_closes(&mut self, id: ClientId, frame: &Frame, out: &mut Vec<Effect>) {
        let Decoded::Close { uri } = &frame.decoded else {
            return;
        };
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        if client.documents.remove(uri).is_none() {
            tracing::debug!(client = %id, uri, "a document that was not open was closed");
        }
        if let Some(target) = self.first_instance(id) {
            self.release_document(id, target, uri, Some(frame.message.clone().into()), out);
        }
    }

    /// Takes a client's hold off a document; the last hold closes it at the server.
    pub(super) fn release_document(
        &mut self,
        id: ClientId,
        target: InstanceId,
        uri: &str,
        message: Option<Outgoing>,
        out: &mut Vec<Effect>,
    ) {
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        let Some(document) = instance.documents.get_mut(uri) else {
            return;
        };
        if !document.clients.remove(&id) {
            return;
        }
        if document.is_held() {
            return self.show_last_active(target, uri, out);
        }
        self.close_document(target, uri, message, out);
    }

    /// Closes a document that nobody holds any more.
    pub(super) fn close_document(
        &mut self,
        target: InstanceId,
        uri: &str,
        message: Option<Outgoing>,
        out: &mut Vec<Effect>,
    ) {
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        let Some(document) = instance.documents.remove(uri) else {
            return;
        };
        instance
            .closed_versions
            .insert(uri.to_owned(), document.version);
        let message = message.unwrap_or_else(|| {
            let params = format!(
                r#"{{"textDocument":{{"uri":{}}}}}"#,
                crate::wire::quoted(uri)
            );
            Message::notification("textDocument/didClose", &params).into()
        });
        self.send_document(target, message, out);
    }

    pub(super) fn client_saves(&mut self, id: ClientId, frame: &Frame, out: &mut Vec<Effect>) {
        let Decoded::Save { uri } = &frame.decoded else {
            return;
        };
        let Some(target) = self.first_instance(id) else {
            return;
        };
        let text = self
            .clients
            .get(&id)
            .and_then(|client| client.documents.get(uri))
            .map(|it| it.text.clone());
        let told = self
            .instances
            .get(&target)
            .and_then(|instance| instance.documents.get(uri))
            .map(|it| it.text.id);
        if let (Some(text), Some(told)) = (text, told)
            && text.id != told
        {
            self.switch(target, uri, &text, out);
        }
        self.forward_notification(id, frame, out);
    }

    /// Switches the server to each of a client's texts that it does not have.
    pub(super) fn show_texts_of(
        &mut self,
        id: ClientId,
        target: InstanceId,
        out: &mut Vec<Effect>,
    ) {
        let (Some(client), Some(instance)) = (self.clients.get(&id), self.instances.get(&target))
        else {
            return;
        };
        let differing: Vec<(String, Text)> = client
            .documents
            .iter()
            .filter(|(uri, mine)| {
                instance
                    .documents
                    .get(*uri)
                    .is_some_and(|document| document.text.id != mine.text.id)
            })
            .map(|(uri, mine)| (uri.clone(), mine.text.clone()))
            .collect();
        for (uri, text) in differing {
            self.switch(target, &uri, &text, out);
        }
    }

    /// Gives the server the text of the holder that was active last, else the one that queries hold, so that it never
    /// keeps one that is gone.
    pub(super) fn show_last_active(
        &mut self,
        target: InstanceId,
        uri: &str,
        out: &mut Vec<Effect>,
    ) {
        let Some(document) = self
            .instances
            .get(&target)
            .and_then(|instance| instance.documents.get(uri))
        else {
            return;
        };
        let latest = document
            .clients
            .iter()
            .filter_map(|id| self.clients.get(id))
            .max_by_key(|client| client.activity)
            .and_then(|client| client.documents.get(uri))
            .map(|mine| &mine.text);
        let text = latest.or(document.query.as_ref().map(|hold| &hold.text));
        if let Some(text) = text.filter(|text| text.id != document.text.id) {
            let text = text.clone();
            self.switch(target, uri, &text, out);
        }
    }

    /// Leads the server from its text of a document to another by one change.
    pub(super) fn switch(
        &mut self,
        target: InstanceId,
        uri: &str,
        text: &Text,
        out: &mut Vec<Effect>,
    ) {
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        let incremental = instance
            .facts
            .as_ref()
            .is_some_and(|facts| facts.sync_kind == 2);
        let told = instance.serves() && !instance.stalled;
        let Some(document) = instance.documents.get_mut(uri) else {
            return;
        };
        let before = document.text.clone();
        document.advance(text.clone());
        if !told {
            document.behind = true;
            return;
        }
        let version = document.version;
        let work = Job::Change {
            uri: uri.to_owned(),
            version,
            before,
            after: text.clone(),
            incremental,
        };
        self.compose(target, work, out);
        self.taint_queries(target, uri);
        self.disturb_requests(target, uri, text);
    }

    /// Sends the document message that a job composes, in its place.
    pub(super) fn compose(&mut self, target: InstanceId, work: Job, out: &mut Vec<Effect>) {
        let Some(generation) = self
            .instances
            .get(&target)
            .map(|instance| instance.generation)
        else {
            return;
        };
        let bytes = match &work {
            Job::Open { text, .. } | Job::Change { after: text, .. } => text.id.length,
            _ => 0,
        };
        let job = self.job(JobOwner::Compose(target, generation), work, out);
        if let Some(instance) = self.instances.get_mut(&target) {
            instance.outbox.reserve(job, bytes);
        }
        self.watch_server(target, out);
    }

    pub(super) fn composed(
        &mut self,
        target: InstanceId,
        generation: Generation,
        job: JobId,
        message: Outgoing,
        out: &mut Vec<Effect>,
    ) {
        let now = self.now;
        let Some(instance) = self.process(target, generation) else {
            return;
        };
        let link = Link::Server(target, generation);
        instance.outbox.fill(link, job, message, now, out);
        self.watch_server(target, out);
        // The place may have been charged with more than it needed.
        self.server_made_progress(target, out);
    }

    fn send_document(&mut self, target: InstanceId, message: Outgoing, out: &mut Vec<Effect>) {
        if self.serves(target) {
            self.send_to_server(target, message, out);
        }
    }

    /// After a stall: one whole text for each document whose changes the server missed.
    pub(super) fn resend_missed_changes(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        let missed: Vec<(String, i64, Text)> = instance
            .documents
            .iter_mut()
            .filter(|(_, document)| document.behind)
            .map(|(uri, document)| {
                document.behind = false;
                (uri.clone(), document.version, document.text.clone())
            })
            .collect();
        for (uri, version, after) in missed {
            let work = Job::Change {
                uri,
                version,
                before: after.clone(),
                after,
                incremental: false,
            };
            self.compose(target, work, out);
        }
    }

    /// Opens at a new process every document that its predecessor had open.
    pub(super) fn reopen_documents(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        let documents: Vec<Job> = instance
            .documents
            .iter_mut()
            .map(|(uri, document)| {
                document.behind = false;
                document.advance(document.text.clone());
                Job::Open {
                    uri: uri.clone(),
                    language: document.language.clone(),
                    version: document.version,
                    text: document.text.clone(),
                }
            })
            .collect();
        if !documents.is_empty() {
            instance.readiness.opened(self.now);
        }
        for work in documents {
            self.compose(target, work, out);
        }
    }

    /// Takes all holds of a client off an instance's documents.
    pub(super) fn release_documents(
        &mut self,
        id: ClientId,
        target: InstanceId,
        out: &mut Vec<Effect>,
    ) {
        let uris: Vec<String> = match self.instances.get(&target) {
            Some(instance) => instance
                .documents
                .iter()
                .filter(|(_, document)| document.clients.contains(&id))
                .map(|(uri, _)| uri.clone())
                .collect(),
            None => return,
        };
        for uri in uris {
            self.release_document(id, target, &uri, None, out);
        }
    }
}

/// The message with the pool's version, untouched where the client's is the same; `None` where it has no place for a
/// version.
fn with_version(
    message: &Message,
    sent: Option<i64>,
    span: Option<&Range<usize>>,
    told: i64,
) -> Option<Outgoing> {
    let span = span?;
    Some(if sent == Some(told) {
        message.clone().into()
    } else {
        Outgoing::splice(message, &[(span.clone(), &told.to_string())])
    })
}
