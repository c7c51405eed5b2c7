//! The reader and the writer of one link.
//!
//! The reader takes credit between a frame's head and its body, so a peer that sends more than can be routed is not
//! read. The writer puts small messages together and writes large ones from where they are.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::core::{Event, Frame, FrameFault, Link};
use crate::edge::{ClientEdge, Decoded, ServerEdge};
use crate::wire::{FrameItem, Framer, FramerLimits, Message, Outgoing, Peek};

use super::driver::Input;

/// Bytes of frames that a link may have read and not yet routed.
pub(super) const LINK_CREDIT: usize = 192 * 1024;
/// The share of one frame, however large, so that 64 KiB behind a waiting head can still be read.
const FRAME_SHARE: usize = 128 * 1024;
/// Messages up to this size are copied together into one write.
const COALESCED: usize = 16 * 1024;
/// Bytes of small messages in one write.
const BATCH: usize = 64 * 1024;
/// The longest time between two reports while a large message is being read, however slowly.
const REPORT_PAUSE: Duration = Duration::from_secs(1);
/// How long a stream may take to close once all is written.
const CLOSING: Duration = Duration::from_secs(3);

/// The decoder of one side.
pub(super) enum Edge {
    Client(ClientEdge),
    Server(ServerEdge),
}

impl Edge {
    fn decode(&mut self, message: &Message) -> Decoded {
        match self {
            Self::Client(edge) => edge.decode(message),
            Self::Server(edge) => edge.decode(message),
        }
    }
}

/// What a reader needs.
pub(super) struct Reader {
    pub(super) link: Link,
    pub(super) input: Box<dyn AsyncRead + Send + Unpin>,
    pub(super) edge: Edge,
    pub(super) limits: FramerLimits,
    pub(super) credit: Arc<Semaphore>,
    pub(super) inputs: mpsc::Sender<Input>,
    pub(super) cancel: CancellationToken,
}

impl Reader {
    /// Reads until the input ends, breaks, or the link is cancelled.
    pub(super) async fn run(mut self) {
        let cancel = self.cancel.clone();
        let reason = tokio::select! {
            () = cancel.cancelled() => return,
            reason = self.read_all() => reason,
        };
        if let Some(reason) = reason {
            // The driver is gone only when the pool is.
            let _ = self
                .inputs
                .send(Input::Event(Event::LinkClosed {
                    link: self.link,
                    reason,
                }))
                .await;
        }
    }

    async fn read_all(&mut self) -> Option<String> {
        let mut framer = Framer::new(self.limits);
        let mut credit = 0;
        loop {
            match framer.next() {
                Ok(Some(FrameItem::Head { length })) => {
                    credit = u32::try_from(length.clamp(1, FRAME_SHARE)).unwrap_or(u32::MAX);
                    self.credit.acquire_many(credit).await.ok()?.forget();
                }
                Ok(Some(FrameItem::Body(body))) => {
                    self.take_body(body, std::mem::take(&mut credit)).await?;
                }
                Ok(Some(FrameItem::Skipped { total, sample })) => {
                    self.skipped(total, &sample).await?;
                }
                Ok(Some(FrameItem::TooLarge { length, head })) => {
                    let peek = Peek::new(&head);
                    let fault = FrameFault::TooLarge {
                        id: peek.id,
                        is_answer: peek.is_answer,
                        length,
                        cap: self.limits.max_body as u64,
                    };
                    self.fault(fault, std::mem::take(&mut credit)).await?;
                }
                Ok(None) => match self.input.read_buf(framer.buffer()).await {
                    Ok(0) => return self.at_end_of_input(&mut framer).await,
                    Ok(_) => {}
                    Err(error) => return Some(error.to_string()),
                },
                Err(error) => return Some(error.to_string()),
            }
        }
    }

    async fn skipped(&mut self, total: usize, sample: &[u8]) -> Option<()> {
        let sample = String::from_utf8_lossy(sample).into_owned();
        let total = total as u64;
        self.fault(FrameFault::Skipped { total, sample }, 0).await
    }

    /// What a peer printed last and what is missing of its last frame.
    async fn at_end_of_input(&mut self, framer: &mut Framer) -> Option<String> {
        match framer.finish() {
            Ok(Some(FrameItem::Skipped { total, sample })) => {
                self.skipped(total, &sample).await?;
                Some("end of input".to_owned())
            }
            Ok(_) => Some("end of input".to_owned()),
            Err(error) => Some(error.to_string()),
        }
    }

    async fn take_body(&mut self, body: Bytes, credit: u32) -> Option<()> {
        let Some(parts) = Message::split_batch(&body) else {
            return self.take_message(body, credit).await;
        };
        let mut credit = credit;
        for part in parts {
            self.take_message(part, std::mem::take(&mut credit)).await?;
        }
        if credit > 0 {
            // An empty batch.
            self.credit.add_permits(credit as usize);
        }
        Some(())
    }

    async fn take_message(&mut self, body: Bytes, credit: u32) -> Option<()> {
        // A client's broken body must not reach a server that others use; a server's harms only its reader.
        let parsed = match self.link {
            Link::Client(_) => Message::parse_whole(body),
            Link::Server(..) => Message::parse(body),
        };
        match parsed {
            Ok(message) => {
                let decoded = self.edge.decode(&message);
                let frame = Frame {
                    message,
                    decoded,
                    credit,
                };
                self.inputs
                    .send(Input::Event(Event::Frame {
                        link: self.link,
                        frame: Box::new(frame),
                    }))
                    .await
                    .ok()
            }
            Err(error) => {
                let code = error.code();
                let text = error.to_string();
                let (id, is_answer) = (error.id, error.is_answer);
                self.fault(
                    FrameFault::NotAMessage {
                        id,
                        is_answer,
                        code,
                        text,
                    },
                    credit,
                )
                .await
            }
        }
    }

    async fn fault(&mut self, fault: FrameFault, credit: u32) -> Option<()> {
        self.inputs
            .send(Input::Event(Event::BadFrame {
                link: self.link,
                fault,
                credit,
            }))
            .await
            .ok()
    }
}

/// What a writer is given.
pub(super) enum ToWrite {
    /// A message.
    Message(Outgoing),
    /// Nothing more will come; the stream is closed once all is written.
    Close,
}

/// What a writer needs.
pub(super) struct Writer {
    pub(super) link: Link,
    pub(super) output: Box<dyn AsyncWrite + Send + Unpin>,
    pub(super) queue: mpsc::Receiver<ToWrite>,
    pub(super) inputs: mpsc::Sender<Input>,
    pub(super) cancel: CancellationToken,
}

impl Writer {
    /// Writes until it is told to close, its queue is gone, or the link is cancelled.
    pub(super) async fn run(mut self) {
        let cancel = self.cancel.clone();
        let failure = tokio::select! {
            () = cancel.cancelled() => return,
            result = self.write_all() => result.err(),
        };
        if let Some(error) = failure {
            let reason = format!("writing failed: {error}");
            let _ = self
                .inputs
                .send(Input::Event(Event::LinkClosed {
                    link: self.link,
                    reason,
                }))
                .await;
        }
    }

    async fn write_all(&mut self) -> io::Result<()> {
        let mut buffer = BytesMut::with_capacity(BATCH);
        while let Some(first) = self.queue.recv().await {
            let (mut bytes, mut messages) = (0, 0);
            let mut next = Some(first);
            let mut closing = false;
            while let Some(item) = next {
                let ToWrite::Message(message) = item else {
                    closing = true;
                    break;
                };
                bytes += message.len();
                messages += 1;
                if message.len() > COALESCED {
                    bytes -= self.write_large(&mut buffer, &message).await?;
                    break;
                }
                buffer.extend_from_slice(&message.header());
                for segment in message.segments() {
                    buffer.extend_from_slice(segment);
                }
                next = if buffer.len() < BATCH {
                    self.queue.try_recv().ok()
                } else {
                    None
                };
            }
            self.output.write_all(&buffer).await?;
            buffer.clear();
            self.output.flush().await?;
            if messages > 0 {
                self.report(bytes, messages).await?;
            }
            if closing {
                break;
            }
        }
        tokio::time::timeout(CLOSING, self.output.shutdown())
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Tells the core what was written.
    async fn report(&mut self, bytes: usize, messages: usize) -> io::Result<()> {
        let drained = Event::Drained {
            link: self.link,
            bytes,
            messages,
        };
        let sent = self.inputs.send(Input::Event(drained)).await;
        // The driver is gone only when the pool is, and then nobody reads the link any more.
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Writes what is buffered, then the message from where it lies, in as few calls as the stream takes. A peer that
    /// reads a large message slowly makes progress all the same, so parts are reported: gives how many bytes were.
    async fn write_large(
        &mut self,
        buffer: &mut BytesMut,
        message: &Outgoing,
    ) -> io::Result<usize> {
        buffer.extend_from_slice(&message.header());
        let mut chunks: Vec<Bytes> = vec![buffer.split().freeze()];
        chunks.extend(message.segments().iter().cloned());
        let (mut reported, mut unreported) = (0, 0);
        let mut last_report = Instant::now();
        let mut at = 0;
        while at < chunks.len() {
            if chunks[at].is_empty() {
                at += 1;
                continue;
            }
            let slices: Vec<io::IoSlice<'_>> = chunks[at..]
                .iter()
                .map(|chunk| io::IoSlice::new(chunk))
                .collect();
            let mut written = self.output.write_vectored(&slices).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            while at < chunks.len() && written > 0 {
                let taken = written.min(chunks[at].len());
                let _ = chunks[at].split_to(taken);
                written -= taken;
                // The first chunk is headers and messages that are reported whole.
                if at > 0 {
                    unreported += taken;
                }
                if chunks[at].is_empty() {
                    at += 1;
                }
            }
            let due = unreported >= BATCH || last_report.elapsed() >= REPORT_PAUSE;
            if due && unreported > 0 && at < chunks.len() {
                self.report(unreported, 0).await?;
                reported += std::mem::take(&mut unreported);
                last_report = Instant::now();
            }
        }
        Ok(reported)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::ClientId;

    /// A message over the size from which it is written from where it lies.
    const LARGE: usize = 10 * BATCH;

    #[tokio::test]
    async fn given_a_large_message_then_its_parts_are_reported_while_it_is_read() {
        let (output, mut peer) = tokio::io::duplex(BATCH);
        let (inputs, mut reports) = mpsc::channel(4);
        let (queue, messages) = mpsc::channel(4);
        let writer = Writer {
            link: Link::Client(ClientId(1)),
            output: Box::new(output),
            queue: messages,
            inputs,
            cancel: CancellationToken::new(),
        };
        let params = format!("\"{}\"", "x".repeat(LARGE));
        let small = Message::notification("small", "{}");
        let large = Message::notification("large", &params);
        let bytes = small.len() + large.len();
        for message in [small, large] {
            let sent = queue.send(ToWrite::Message(Outgoing::from(message))).await;
            assert!(sent.is_ok());
        }
        assert!(queue.send(ToWrite::Close).await.is_ok());

        let mut read = Vec::new();
        let mut parts = Vec::new();
        let reports = async {
            while let Some(Input::Event(event)) = reports.recv().await {
                let Event::Drained {
                    bytes, messages, ..
                } = event
                else {
                    panic!("{event:?}");
                };
                parts.push((bytes, messages));
            }
        };
        let ((), all_read, ()) = tokio::join!(writer.run(), peer.read_to_end(&mut read), reports);

        assert!(parts.len() > 2, "{parts:?}");
        let sum = parts
            .iter()
            .fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
        assert_eq!(sum, (bytes, 2));
        assert!(all_read.unwrap() > bytes);
    }
}
