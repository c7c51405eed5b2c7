//! What waits to be written to one link: bounded in bytes, in order, with places held for jobs.
//!
//! The writer of a link holds at most a small window of bytes; the rest stays here, where it can be
//! counted. An answer that a job is still shaping holds its place by a [`Entry::Slot`]; nothing behind an
//! unfilled slot is written (invariant *in order*).

use std::collections::VecDeque;

use crate::wire::Outgoing;

use super::effect::Effect;
use super::ids::{JobId, Link, Tick};

/// Bytes that a writer holds at most, or one message.
const WINDOW_BYTES: usize = 256 * 1024;
/// Messages that a writer holds at most; the shell's queue to a writer is this long.
pub(crate) const WINDOW_MESSAGES: usize = 1024;

#[derive(Clone, Debug)]
enum Entry {
    Ready(Outgoing),
    /// A held place, and the bytes that are charged for it until it is filled.
    Slot(JobId, usize),
}

impl Entry {
    fn bytes(&self) -> usize {
        match self {
            Self::Ready(message) => message.len(),
            Self::Slot(_, charged) => *charged,
        }
    }
}

/// The outbox of one link.
#[derive(Debug)]
pub(super) struct Outbox {
    queue: VecDeque<Entry>,
    queued_bytes: usize,
    window_bytes: usize,
    window_messages: usize,
    bound: usize,
    last_progress: Tick,
}

impl Outbox {
    /// An empty outbox that counts as full from `bound` bytes on.
    pub(super) fn new(bound: usize, now: Tick) -> Self {
        Self {
            queue: VecDeque::new(),
            queued_bytes: 0,
            window_bytes: 0,
            window_messages: 0,
            bound,
            last_progress: now,
        }
    }

    /// Appends a message and hands to the writer what its window allows.
    pub(super) fn push(&mut self, link: Link, message: Outgoing, now: Tick, out: &mut Vec<Effect>) {
        self.queued_bytes += message.len();
        self.queue.push_back(Entry::Ready(message));
        self.pump(link, now, out);
    }

    /// Holds the next place for the message that `job` is shaping, charged with the bytes of what it is made from.
    pub(super) fn reserve(&mut self, job: JobId, bytes: usize) {
        self.queued_bytes += bytes;
        self.queue.push_back(Entry::Slot(job, bytes));
    }

    /// Fills the place of `job`. Returns whether there was one.
    pub(super) fn fill(
        &mut self,
        link: Link,
        job: JobId,
        message: Outgoing,
        now: Tick,
        out: &mut Vec<Effect>,
    ) -> bool {
        let Some(entry) = self
            .queue
            .iter_mut()
            .find(|entry| matches!(entry, Entry::Slot(at, _) if *at == job))
        else {
            return false;
        };
        self.queued_bytes -= entry.bytes();
        self.queued_bytes += message.len();
        *entry = Entry::Ready(message);
        self.pump(link, now, out);
        true
    }

    /// Hands messages to the writer until its window is full or a slot is unfilled.
    pub(super) fn pump(&mut self, link: Link, now: Tick, out: &mut Vec<Effect>) {
        while self.window_messages < WINDOW_MESSAGES
            && (self.window_bytes < WINDOW_BYTES)
            && matches!(self.queue.front(), Some(Entry::Ready(_)))
        {
            let Some(Entry::Ready(message)) = self.queue.pop_front() else {
                return;
            };
            if self.window_messages == 0 {
                self.last_progress = now;
            }
            self.queued_bytes -= message.len();
            self.window_bytes += message.len();
            self.window_messages += 1;
            out.push(Effect::Send { link, message });
        }
    }

    /// The writer has written `messages` messages with `bytes` bytes.
    pub(super) fn drained(&mut self, bytes: usize, messages: usize, now: Tick) {
        self.window_bytes = self.window_bytes.saturating_sub(bytes);
        self.window_messages = self.window_messages.saturating_sub(messages);
        self.last_progress = now;
    }

    /// Bytes not yet written, those charged for held places among them.
    pub(super) fn bytes(&self) -> usize {
        self.queued_bytes + self.window_bytes
    }

    /// Whether everything was written and no slot is open.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.window_messages == 0
    }

    /// Whether messages wait that the writer has not got yet.
    pub(super) fn has_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether the link must be relieved before more is added.
    pub(super) fn is_full(&self) -> bool {
        self.queued_bytes > 0 && self.bytes() >= self.bound
    }

    /// Whether more than `times` the bound waits behind what the writer holds, the largest message not counted: a
    /// message of any size may pass, so a peer that reads is not judged by the size of what it asked for.
    pub(super) fn exceeds(&self, times: usize) -> bool {
        let most = self.bound * times;
        self.queued_bytes >= most && self.queued_bytes - self.largest() >= most
    }

    fn largest(&self) -> usize {
        self.queue
            .iter()
            .map(Entry::bytes)
            .max()
            .unwrap_or_default()
    }

    /// When the writer last wrote something or began to: now while it has nothing to write, since a place that a job
    /// has not filled yet is no fault of the peer.
    pub(super) fn last_progress(&self, now: Tick) -> Tick {
        if self.window_messages == 0 {
            now
        } else {
            self.last_progress
        }
    }

    /// Whether the bytes that are counted are those that wait.
    pub(super) fn is_counted(&self) -> bool {
        self.queued_bytes == self.queue.iter().map(Entry::bytes).sum::<usize>()
    }

    /// The jobs whose places are still open.
    pub(super) fn open_slots(&self) -> impl Iterator<Item = JobId> + '_ {
        self.queue.iter().filter_map(|entry| match entry {
            Entry::Slot(job, _) => Some(*job),
            Entry::Ready(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::ids::ClientId;
    use crate::wire::Message;

    const LINK: Link = Link::Client(ClientId(1));

    fn message(text: &str) -> Outgoing {
        Outgoing::from(Message::notification(text, "{}"))
    }

    fn sent(effects: &[Effect]) -> usize {
        effects
            .iter()
            .filter(|effect| matches!(effect, Effect::Send { .. }))
            .count()
    }

    #[test]
    fn given_an_open_slot_then_nothing_behind_it_is_written_until_it_is_filled() {
        let mut outbox = Outbox::new(1 << 20, Tick(0));
        let mut out = Vec::new();
        outbox.push(LINK, message("first"), Tick(0), &mut out);
        outbox.reserve(JobId(7), 10);
        outbox.push(LINK, message("third"), Tick(0), &mut out);
        assert_eq!(sent(&out), 1);
        assert!(outbox.fill(LINK, JobId(7), message("second"), Tick(0), &mut out));
        assert_eq!(sent(&out), 3);
        assert!(!outbox.fill(LINK, JobId(7), message("again"), Tick(0), &mut out));
    }

    #[test]
    fn given_a_writer_that_does_not_write_then_its_window_bounds_what_it_holds() {
        let mut outbox = Outbox::new(1 << 20, Tick(0));
        let mut out = Vec::new();
        for _ in 0..3 * WINDOW_MESSAGES {
            outbox.push(LINK, message("x"), Tick(0), &mut out);
        }
        assert_eq!(sent(&out), WINDOW_MESSAGES);
        outbox.drained(1, 10, Tick(1));
        outbox.pump(LINK, Tick(1), &mut out);
        assert_eq!(sent(&out), WINDOW_MESSAGES + 10);
    }

    #[test]
    fn given_a_held_place_then_it_is_charged_until_it_is_filled_and_its_peer_is_not_late() {
        let mut outbox = Outbox::new(100, Tick(0));
        let mut out = Vec::new();
        outbox.reserve(JobId(7), 150);
        assert!(outbox.is_full() && outbox.is_counted());
        assert_eq!(outbox.last_progress(Tick(50)), Tick(50));
        assert!(outbox.fill(LINK, JobId(7), message("x"), Tick(60), &mut out));
        assert!(!outbox.is_full() && outbox.is_counted());
        assert_eq!(outbox.last_progress(Tick(90)), Tick(60));
    }
}
