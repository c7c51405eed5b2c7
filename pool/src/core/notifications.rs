//! What servers tell: diagnostics, progress and the rest, to every client that may see it, and again to a
//! late joiner.

use std::collections::BTreeSet;

use lspool_normalize::capabilities;

use crate::edge::{Decoded, ProgressPhase};
use crate::wire::{Message, Outgoing, RawId};

use super::Core;
use super::client::VersionOfText::{Named, Unnamed};
use super::client::{self, Client};
use super::effect::Effect;
use super::event::Frame;
use super::ids::{ClientId, InstanceId};
use super::instance::{Diagnostics, Progress};

impl Client {
    /// Whether the client is in session and announced that it wants such a message.
    pub(super) fn wants(&self, method: &str) -> bool {
        let in_session = match self.phase {
            client::Phase::Live => true,
            // The protocol lets a server show and log before `initialized`.
            client::Phase::Answered => {
                matches!(
                    method,
                    "window/logMessage" | "window/showMessage" | "telemetry/event" | "$/logTrace"
                )
            }
            _ => false,
        };
        in_session && self.announced(method)
    }

    /// Whether the client's capabilities allow such a message from a server.
    pub(super) fn announced(&self, method: &str) -> bool {
        self.facts
            .as_ref()
            .is_some_and(|facts| capabilities::allows_server_message(method, &facts.raised.offer))
    }
}

impl Core {
    pub(super) fn clients_of(&self, target: InstanceId) -> Vec<ClientId> {
        self.instances
            .get(&target)
            .map(|instance| instance.clients.clone())
            .unwrap_or_default()
    }

    /// Sends a server's notification, as it is, to every client that may see it.
    pub(super) fn tell_all(
        &mut self,
        target: InstanceId,
        message: &Message,
        out: &mut Vec<Effect>,
    ) {
        let method = message
            .method()
            .map(std::borrow::Cow::into_owned)
            .unwrap_or_default();
        for id in self.clients_of(target) {
            if self
                .clients
                .get(&id)
                .is_some_and(|client| client.wants(&method))
            {
                self.send_to_client(id, message.clone().into(), out);
            }
        }
    }

    /// Gives diagnostics to the clients whose text they are about, in their own versions, and keeps them.
    pub(super) fn publish(&mut self, target: InstanceId, frame: &Frame, out: &mut Vec<Effect>) {
        let Decoded::Diagnostics {
            uri,
            version,
            version_span,
            empty,
        } = &frame.decoded
        else {
            return;
        };
        let now = self.now;
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        instance.readiness.active(now);
        let Some(document) = instance.documents.get_mut(uri) else {
            let nobody = BTreeSet::new();
            return self.publish_loose(target, uri, *empty, &nobody, &frame.message, out);
        };
        let about = match version {
            Some(version) => document
                .versions
                .iter()
                .rev()
                .find(|(at, _)| at == version)
                .map(|(_, text)| *text),
            None => Some(document.text.id),
        };
        let Some(about) = about else {
            tracing::debug!(instance = %target, uri, version, "diagnostics of an unknown version were dropped");
            return;
        };
        let diagnostics = Diagnostics {
            about,
            version: *version,
            version_span: version_span.clone(),
            message: frame.message.clone(),
        };
        document.diagnostics = Some(diagnostics.clone());
        let holders: BTreeSet<ClientId> = document.clients.clone();
        // Whoever was told of the file while nobody had it open must hear when that changes.
        if instance.loose_diagnostics.contains_key(uri) {
            self.publish_loose(target, uri, *empty, &holders, &frame.message, out);
        }
        for id in holders {
            self.publish_to(id, uri, &diagnostics, out);
        }
    }

    /// Gives diagnostics to everybody but the holders of the file, and keeps them while there are any.
    fn publish_loose(
        &mut self,
        target: InstanceId,
        uri: &str,
        empty: bool,
        holders: &BTreeSet<ClientId>,
        message: &Message,
        out: &mut Vec<Effect>,
    ) {
        if let Some(instance) = self.instances.get_mut(&target) {
            if empty {
                instance.loose_diagnostics.remove(uri);
            } else {
                instance
                    .loose_diagnostics
                    .insert(uri.to_owned(), message.clone());
            }
        }
        for id in self.clients_of(target) {
            let in_session = self
                .clients
                .get(&id)
                .is_some_and(|client| client.phase == client::Phase::Live);
            if in_session && !holders.contains(&id) {
                self.send_to_client(id, message.clone().into(), out);
            }
        }
    }

    fn publish_to(
        &mut self,
        id: ClientId,
        uri: &str,
        diagnostics: &Diagnostics,
        out: &mut Vec<Effect>,
    ) {
        let Some(client) = self
            .clients
            .get(&id)
            .filter(|client| client.phase == client::Phase::Live)
        else {
            return;
        };
        let Some(document) = client.documents.get(uri) else {
            return;
        };
        let Some(mine) = document.version_of(diagnostics.about) else {
            return;
        };
        // Without a version a client takes diagnostics for its present text.
        if diagnostics.version.is_none() && document.text.id != diagnostics.about {
            return;
        }
        let message = &diagnostics.message;
        let outgoing = match (diagnostics.version_span.clone(), mine) {
            (Some(span), Named(mine)) if diagnostics.version != Some(mine) => {
                Outgoing::splice(message, &[(span, &mine.to_string())])
            }
            (Some(span), Unnamed) => Outgoing::splice(message, &[(span, "null")]),
            _ => message.clone().into(),
        };
        self.send_to_client(id, outgoing, out);
    }

    /// Brings a client the diagnostics that a document already has.
    pub(super) fn replay_diagnostics(
        &mut self,
        id: ClientId,
        target: InstanceId,
        uri: &str,
        out: &mut Vec<Effect>,
    ) {
        let kept = self
            .instances
            .get(&target)
            .and_then(|instance| instance.documents.get(uri))
            .and_then(|document| document.diagnostics.clone());
        if let Some(diagnostics) = kept {
            self.publish_to(id, uri, &diagnostics, out);
        }
    }

    pub(super) fn replay_loose_diagnostics(
        &mut self,
        id: ClientId,
        target: InstanceId,
        out: &mut Vec<Effect>,
    ) {
        let kept: Vec<Message> = self
            .instances
            .get(&target)
            .map(|instance| instance.loose_diagnostics.values().cloned().collect())
            .unwrap_or_default();
        for message in kept {
            self.send_to_client(id, message.into(), out);
        }
    }

    /// `$/progress`: to the client whose request it is, else to all that show progress.
    pub(super) fn progress_from_server(
        &mut self,
        target: InstanceId,
        frame: &Frame,
        out: &mut Vec<Effect>,
    ) {
        let Decoded::Progress {
            token,
            phase,
            message,
            percentage,
        } = &frame.decoded
        else {
            return;
        };
        let now = self.now;
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        if let Some(entry) = instance.client_tokens.get(&token.token) {
            let (id, original) = (entry.client, entry.original.clone());
            let outgoing = if original.raw() == token.token.raw() {
                frame.message.clone().into()
            } else {
                Outgoing::splice(&frame.message, &[(token.span.clone(), original.raw())])
            };
            return self.send_to_client(id, outgoing, out);
        }
        instance.readiness.progressed(
            now,
            &token.token,
            phase,
            message.as_deref(),
            *percentage,
            instance.definition.as_deref(),
        );
        match phase {
            ProgressPhase::Begin { .. } => {
                let kept = Progress {
                    begin: Some(frame.message.clone()),
                    report: None,
                };
                instance.progress.insert(token.token.clone(), kept);
            }
            ProgressPhase::Report => {
                if let Some(kept) = instance.progress.get_mut(&token.token) {
                    kept.report = Some(frame.message.clone());
                }
            }
            ProgressPhase::End => {
                instance.progress.remove(&token.token);
            }
            ProgressPhase::Other => {}
        }
        for id in self.clients_of(target) {
            if self
                .clients
                .get(&id)
                .is_some_and(|client| client.wants("$/progress"))
            {
                self.send_to_client(id, frame.message.clone().into(), out);
            }
        }
        self.pump_queries(target, out);
    }

    /// Tells a late joiner of the progress under way: its creation, its beginning and its last report.
    pub(super) fn replay_progress(
        &mut self,
        id: ClientId,
        target: InstanceId,
        out: &mut Vec<Effect>,
    ) {
        if !self
            .clients
            .get(&id)
            .is_some_and(|client| client.announced("$/progress"))
        {
            return;
        }
        let Some(instance) = self.instances.get(&target) else {
            return;
        };
        let running: Vec<(RawId, Progress)> = instance
            .progress
            .iter()
            .map(|(token, kept)| (token.clone(), kept.clone()))
            .collect();
        for (token, kept) in running {
            let params = format!(r#"{{"token":{}}}"#, token.raw());
            self.tell_by_request(id, "window/workDoneProgress/create", &params, out);
            for message in [kept.begin, kept.report].into_iter().flatten() {
                self.send_to_client(id, message.into(), out);
            }
        }
    }
}
