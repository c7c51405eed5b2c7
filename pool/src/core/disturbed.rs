//! Requests that another client's text disturbed: asked again once, so that nobody pays for a stranger's typing.
//!
//! Invariant *a client cannot tell that it shares*: while a request of one client is in flight, another's edit may
//! change the server's text of a document. Servers then fail the request or answer it on the other text.

use std::ops::Range;

use crate::edge::{Decoded, Text};
use crate::wire::Message;

use super::Core;
use super::effect::Effect;
use super::event::Frame;
use super::ids::{ClientId, InstanceId};
use super::instance::{Pending, Requester};
use super::requests::spliced;

/// LSP: the content was changed while the request ran; the server cancelled the request.
const DISTURBED: [i64; 2] = [-32801, -32802];

/// Requests that change nothing and carry nothing that the server made: they can be sent twice.
const READ_ONLY: &[&str] = &[
    "textDocument/codeAction",
    "textDocument/codeLens",
    "textDocument/completion",
    "textDocument/declaration",
    "textDocument/definition",
    "textDocument/diagnostic",
    "textDocument/documentColor",
    "textDocument/documentHighlight",
    "textDocument/documentLink",
    "textDocument/documentSymbol",
    "textDocument/foldingRange",
    "textDocument/formatting",
    "textDocument/hover",
    "textDocument/implementation",
    "textDocument/inlayHint",
    "textDocument/inlineValue",
    "textDocument/linkedEditingRange",
    "textDocument/moniker",
    "textDocument/onTypeFormatting",
    "textDocument/prepareCallHierarchy",
    "textDocument/prepareRename",
    "textDocument/prepareTypeHierarchy",
    "textDocument/rangeFormatting",
    "textDocument/references",
    "textDocument/rename",
    "textDocument/selectionRange",
    "textDocument/semanticTokens/full",
    "textDocument/semanticTokens/range",
    "textDocument/signatureHelp",
    "textDocument/typeDefinition",
    "workspace/symbol",
];

/// What a request is sent again with.
#[derive(Clone, Debug)]
pub(super) struct Again {
    /// The client's message.
    message: Message,
    /// What is changed in it besides the id.
    edits: Vec<(Range<usize>, String)>,
    /// Whether another client's text of any document came between the request and its answer.
    disturbed: bool,
    /// Whether that was the document that the request is about.
    at_its_document: bool,
}

impl Again {
    /// What a request of a shared server can be repeated with; `None` for one that cannot be.
    pub(super) fn of(
        frame: &Frame,
        method: &str,
        edits: &[(Range<usize>, String)],
    ) -> Option<Box<Self>> {
        let partial = matches!(
            &frame.decoded,
            Decoded::Request {
                partial_result: Some(_),
                ..
            }
        );
        let repeatable = READ_ONLY.binary_search(&method).is_ok() && !partial;
        repeatable.then(|| {
            Box::new(Self {
                message: frame.message.clone(),
                edits: edits.to_vec(),
                disturbed: false,
                at_its_document: false,
            })
        })
    }
}

impl Core {
    /// The server's text of a document becomes `text`: requests of clients that have another text are disturbed.
    pub(super) fn disturb_requests(&mut self, target: InstanceId, uri: &str, text: &Text) {
        let clients = &self.clients;
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        for pending in instance.pending.values_mut() {
            let Requester::Client(id, _) = &pending.requester else {
                continue;
            };
            let own = clients
                .get(id)
                .and_then(|client| client.documents.get(uri))
                .is_some_and(|mine| mine.text.id == text.id);
            let about = pending.document.as_deref() == Some(uri);
            if let Some(again) = pending.again.as_mut().filter(|_| !own) {
                again.disturbed = true;
                again.at_its_document |= about;
            }
        }
    }

    /// A client edited a document itself: what the server makes of its own requests on it is its own affair.
    pub(super) fn own_edit(&mut self, id: ClientId, target: InstanceId, uri: &str) {
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        for pending in instance.pending.values_mut() {
            let own = matches!(&pending.requester, Requester::Client(owner, _) if *owner == id);
            if own && pending.document.as_deref() == Some(uri) {
                pending.again = None;
            }
        }
    }

    /// Sends a disturbed request once more, on its client's own texts. Returns whether it did.
    pub(super) fn ask_again(
        &mut self,
        target: InstanceId,
        pending: &Pending,
        frame: &Frame,
        out: &mut Vec<Effect>,
    ) -> bool {
        let Requester::Client(id, request) = &pending.requester else {
            return false;
        };
        let Some(again) = pending.again.as_ref().filter(|again| again.disturbed) else {
            return false;
        };
        let worth = match frame.decoded {
            Decoded::Answer { error: None } => again.at_its_document,
            Decoded::Answer { error: Some(code) } => DISTURBED.contains(&code),
            _ => false,
        };
        let owed = self
            .clients
            .get(id)
            .is_some_and(|client| client.requests.contains_key(request));
        if !worth || !owed || pending.cancelled || !self.serves(target) {
            return false;
        }
        self.show_texts_of(*id, target, out);
        let number = self.next_request();
        let Some(id_span) = again.message.id_span() else {
            return false;
        };
        let mut edits = again.edits.clone();
        edits.retain(|(span, _)| *span != id_span);
        edits.push((id_span, number.to_string()));
        edits.sort_by_key(|(span, _)| span.start);
        let second = Pending {
            again: None,
            sent_at: self.now,
            ..pending.clone()
        };
        if let Some(client) = self.clients.get_mut(id) {
            client.requests.insert(request.clone(), (target, number));
        }
        if let Some(instance) = self.instances.get_mut(&target) {
            instance.pending.insert(number, second);
        }
        self.asked_again += 1;
        self.send_to_server(target, spliced(&again.message, &edits), out);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_so_that_it_can_be_searched() {
        assert!(READ_ONLY.is_sorted());
    }
}
