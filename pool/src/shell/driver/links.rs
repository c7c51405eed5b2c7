//! The links of the pool: opening them, writing to them, closing them.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{ClientHandle, Driver, Input, LinkHandle};
use crate::core::{ClientId, ClientName, Event, Link, WINDOW_MESSAGES};
use crate::edge::ClientEdge;
use crate::shell::link::{Edge, LINK_CREDIT, Reader, ToWrite, Writer};
use crate::shell::{Connection, ConnectionEnd, Notice};
use crate::wire::{FramerLimits, Outgoing};

/// Bytes of a header block.
const MAX_HEADER: usize = 64 * 1024;
/// Bytes that a server may print before its first header.
const MAX_PREAMBLE: usize = 64 * 1024;

impl Driver {
    pub(super) fn link(&self, link: Link) -> Option<&LinkHandle> {
        match link {
            Link::Client(id) => self.clients.get(&id).map(|client| &client.link),
            Link::Server(id, generation) => self
                .servers
                .get(&(id, generation))
                .map(|server| &server.link),
        }
    }

    pub(super) fn send(&self, link: Link, message: Outgoing) {
        let Some(handle) = self.link(link) else {
            return;
        };
        // The core gives a writer no more than its queue holds, so only a writer that is gone refuses.
        if handle.queue.try_send(ToWrite::Message(message)).is_err() {
            tracing::debug!(?link, "a message found its writer gone");
        }
    }

    pub(super) fn attach(
        &mut self,
        client: ClientId,
        connection: Connection,
        end: oneshot::Sender<ConnectionEnd>,
    ) {
        let Connection {
            input,
            output,
            face,
            context,
            methods,
            gone,
            notices,
        } = connection;
        let name = ClientName {
            pid: context.pid,
            name: context.name.clone(),
        };
        let link = Link::Client(client);
        let (handle, queue) = Self::open_link();
        let limits = self.framer_limits(false);
        let edge = Edge::Client(ClientEdge::new());
        self.start_reader(link, input, edge, limits, &handle, CancellationToken::new());
        let writer = self.writer(link, output, queue, &handle);
        let inputs = self.inputs();
        self.tasks.spawn(async move {
            writer.run().await;
            // The driver is gone only when the pool is.
            let _ = inputs.send(Input::ClientWritten { client }).await;
        });
        self.watch_peer(client, gone, handle.cancel.clone());
        let core_face = (&face).into();
        let handle = ClientHandle {
            link: handle,
            context: Arc::new(context),
            methods,
            notices,
            end: Some(end),
            exit_code: None,
            written: false,
        };
        self.clients.insert(client, handle);
        self.handle(Event::ClientOpened {
            client,
            face: core_face,
            name,
        });
    }

    /// A peer that died may leave a stream that looks as if it had only said its last word.
    fn watch_peer(&self, client: ClientId, gone: CancellationToken, closed: CancellationToken) {
        let inputs = self.inputs();
        self.tasks.spawn(async move {
            tokio::select! {
                () = gone.cancelled() => {}
                () = closed.cancelled() => return,
            }
            let event = Event::LinkClosed {
                link: Link::Client(client),
                reason: "the peer is gone".to_owned(),
            };
            // The driver is gone only when the pool is.
            let _ = inputs.send(Input::Event(event)).await;
        });
    }

    /// The limits of a link. What a server prints before its first header is bounded; a client has no such banner.
    pub(super) fn framer_limits(&self, is_server: bool) -> FramerLimits {
        FramerLimits {
            max_header: MAX_HEADER,
            max_body: self.options.max_body,
            max_preamble: is_server.then_some(MAX_PREAMBLE),
        }
    }

    pub(super) fn open_link() -> (LinkHandle, mpsc::Receiver<ToWrite>) {
        // One place more than the core's window, for the closing.
        let (queue, receiver) = mpsc::channel(WINDOW_MESSAGES + 1);
        let cancel = CancellationToken::new();
        let handle = LinkHandle {
            queue,
            credit: Arc::new(Semaphore::new(LINK_CREDIT)),
            reader_cancel: cancel.child_token(),
            cancel,
        };
        (handle, receiver)
    }

    pub(super) fn start_reader(
        &self,
        link: Link,
        input: Box<dyn AsyncRead + Send + Unpin>,
        edge: Edge,
        limits: FramerLimits,
        handle: &LinkHandle,
        done: CancellationToken,
    ) {
        let reader = Reader {
            link,
            input,
            edge,
            limits,
            credit: handle.credit.clone(),
            inputs: self.inputs(),
            cancel: handle.reader_cancel.clone(),
        };
        self.tasks.spawn(async move {
            reader.run().await;
            done.cancel();
        });
    }

    pub(super) fn writer(
        &self,
        link: Link,
        output: Box<dyn AsyncWrite + Send + Unpin>,
        queue: mpsc::Receiver<ToWrite>,
        handle: &LinkHandle,
    ) -> Writer {
        Writer {
            link,
            output,
            queue,
            inputs: self.inputs(),
            cancel: handle.cancel.clone(),
        }
    }

    pub(super) fn close_client(&mut self, client: ClientId, exit_code: i32, drained: bool) {
        let Some(handle) = self.clients.get_mut(&client) else {
            return;
        };
        handle.exit_code = Some(exit_code);
        handle.link.reader_cancel.cancel();
        // An empty queue would not tell: the writer may hold a message that its peer does not read.
        if drained {
            close(&handle.link);
        } else {
            handle.link.cancel.cancel();
        }
        self.end_if_over(client);
    }

    /// Ends a connection that the core has closed and whose writer is done.
    pub(super) fn end_if_over(&mut self, client: ClientId) {
        let code = self
            .clients
            .get(&client)
            .filter(|handle| handle.written)
            .and_then(|handle| handle.exit_code);
        let Some(exit_code) = code else { return };
        let Some(mut handle) = self.clients.remove(&client) else {
            return;
        };
        handle.link.cancel.cancel();
        if let Some(end) = handle.end.take() {
            // Whoever attached may have gone.
            let _ = end.send(ConnectionEnd { exit_code });
        }
    }

    pub(super) fn notice(&self, client: ClientId, text: String) {
        let Some(handle) = self.clients.get(&client) else {
            return;
        };
        let bytes = text.len();
        if handle.notices.try_send(Notice(text)).is_err() {
            tracing::warn!(%client, bytes, "a line for a person found no room");
        }
    }
}

/// Lets a writer close its stream after what it was given.
pub(super) fn close(link: &LinkHandle) {
    if link.queue.try_send(ToWrite::Close).is_err() {
        link.cancel.cancel();
    }
}
