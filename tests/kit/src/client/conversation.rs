//! Owns what came from the peer and the counts of what was asked.
//!
//! Invariant: the lists only grow, so a wait can be satisfied by what came before it began and no
//! message is missed between two waits.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::ChildStdout;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use lspool_scripted_server::framing::Decoder;
use lspool_scripted_server::members::Kind;

use super::message::Received;
use super::stderr::Stderr;
use crate::error::{KitError, deadline};

const READ_BYTES: usize = 64 * 1024;
/// How many of the last messages a failure tells of.
const ACCOUNT_MESSAGES: usize = 8;

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
pub(super) struct Conversation {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    received: Vec<Received>,
    /// By raw id: how many requests were sent, and where their answers are in `received`.
    asked: BTreeMap<String, usize>,
    answers: BTreeMap<String, Vec<usize>>,
    ending: Option<Result<(), String>>,
    paused: bool,
}

impl Conversation {
    /// Starts the thread that reads; `answer` gets each request of the server. The thread ends with the
    /// stream, which a grandchild of the peer can hold open past the peer's own end: it is not joined.
    pub(super) fn read_from(
        self: &Arc<Self>,
        mut output: ChildStdout,
        answer: impl Fn(&Received) + Send + 'static,
    ) {
        let conversation = Arc::clone(self);
        std::thread::spawn(move || {
            let ending = conversation.read_all(&mut output, answer);
            lock(&conversation.state).ending = Some(ending);
            conversation.changed.notify_all();
        });
    }

    fn read_all(&self, output: &mut impl Read, answer: impl Fn(&Received)) -> Result<(), String> {
        let mut decoder = Decoder::new();
        let mut buffer = vec![0; READ_BYTES];
        loop {
            self.wait_unpaused();
            let count = match output.read(&mut buffer) {
                Ok(0) => return decoder.finish().map_err(|error| error.to_string()),
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.to_string()),
            };
            decoder.push(&buffer[..count]);
            while let Some(frame) = decoder.next_frame().map_err(|error| error.to_string())? {
                let received = self.note(frame);
                if received.kind == Kind::Request {
                    answer(&received);
                }
            }
        }
    }

    fn note(&self, frame: lspool_scripted_server::framing::Frame) -> Received {
        let mut state = lock(&self.state);
        let index = state.received.len();
        let received = Received::of(index, frame);
        if let (Kind::Response, Some(id)) = (received.kind, &received.id) {
            state.answers.entry(id.clone()).or_default().push(index);
        }
        state.received.push(received.clone());
        self.changed.notify_all();
        received
    }

    fn wait_unpaused(&self) {
        let state = lock(&self.state);
        drop(
            self.changed
                .wait_while(state, |state| state.paused)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    pub(super) fn set_paused(&self, paused: bool) {
        lock(&self.state).paused = paused;
        self.changed.notify_all();
    }

    /// Counts a request and says in which place it is among those with its id.
    pub(super) fn note_request(&self, id: &str) -> usize {
        let mut state = lock(&self.state);
        let count = state.asked.entry(id.to_owned()).or_default();
        *count += 1;
        *count - 1
    }

    pub(super) fn received(&self) -> Vec<Received> {
        lock(&self.state).received.clone()
    }

    pub(super) fn count(&self) -> usize {
        lock(&self.state).received.len()
    }

    pub(super) fn answer(&self, id: &str, place: usize) -> Option<Received> {
        find_answer(&lock(&self.state), id, place)
    }

    pub(super) fn answers_to(&self, id: &str) -> Vec<Received> {
        let state = lock(&self.state);
        let indices = state.answers.get(id).cloned().unwrap_or_default();
        indices
            .into_iter()
            .map(|index| state.received[index].clone())
            .collect()
    }

    pub(super) fn unbalanced(&self) -> BTreeMap<String, (usize, usize)> {
        let state = lock(&self.state);
        let ids = state.asked.keys().chain(state.answers.keys());
        ids.filter_map(|id| {
            let asked = state.asked.get(id).copied().unwrap_or_default();
            let answered = state.answers.get(id).map_or(0, Vec::len);
            (asked != answered).then(|| (id.clone(), (asked, answered)))
        })
        .collect()
    }

    pub(super) fn wait_answer(
        &self,
        what: &str,
        id: &str,
        place: usize,
        stderr: &Stderr,
    ) -> Result<Received, KitError> {
        self.wait(what, stderr, |state| find_answer(state, id, place))
    }

    pub(super) fn wait_message(
        &self,
        what: &str,
        mark: usize,
        accept: impl Fn(&Received) -> bool,
        stderr: &Stderr,
    ) -> Result<Received, KitError> {
        let mut looked_at = mark;
        self.wait(what, stderr, |state| {
            let from = looked_at.min(state.received.len());
            looked_at = looked_at.max(state.received.len());
            state.received[from..]
                .iter()
                .find(|message| accept(message))
                .cloned()
        })
    }

    pub(super) fn wait_end(&self, stderr: &Stderr) -> Result<bool, KitError> {
        self.wait("the end of the output", stderr, |state| {
            state.ending.as_ref().map(Result::is_ok)
        })
    }

    /// Waits until `find` finds something, the stream ends or the deadline comes.
    fn wait<T>(
        &self,
        what: &str,
        stderr: &Stderr,
        mut find: impl FnMut(&State) -> Option<T>,
    ) -> Result<T, KitError> {
        let end = Instant::now() + deadline();
        let mut state = lock(&self.state);
        loop {
            if let Some(found) = find(&state) {
                return Ok(found);
            }
            let account = |state: &State| account(state, stderr);
            if let Some(ending) = &state.ending {
                let ending = match ending {
                    Ok(()) => "between two messages".to_owned(),
                    Err(reason) => reason.clone(),
                };
                return Err(KitError::StreamEnded {
                    what: what.to_owned(),
                    ending,
                    account: account(&state),
                });
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let (what, waited) = (what.to_owned(), deadline());
                return Err(KitError::Timeout {
                    what,
                    waited,
                    account: account(&state),
                });
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

fn find_answer(state: &State, id: &str, place: usize) -> Option<Received> {
    let index = *state.answers.get(id)?.get(place)?;
    Some(state.received[index].clone())
}

fn account(state: &State, stderr: &Stderr) -> String {
    let skipped = state.received.len().saturating_sub(ACCOUNT_MESSAGES);
    let mut lines = vec![format!("{} messages came; the last:", state.received.len())];
    lines.extend(
        state.received[skipped..]
            .iter()
            .map(|message| format!("  {}", message.summary())),
    );
    lines.push(format!("stderr: {}", stderr.tail()));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io::Read;

    use lspool_scripted_server::framing::encode;
    use lspool_scripted_server::members::Kind;
    use proptest::prelude::*;
    use serde_json::json;

    use super::Conversation;

    /// A stream that gives its bytes in pieces of its own choice.
    struct Pieces<'a> {
        bytes: &'a [u8],
        sizes: Box<dyn Iterator<Item = usize>>,
    }

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let size = self.sizes.next().unwrap_or(1).clamp(1, buffer.len());
            let count = size.min(self.bytes.len());
            buffer[..count].copy_from_slice(&self.bytes[..count]);
            self.bytes = &self.bytes[count..];
            Ok(count)
        }
    }

    #[derive(Clone, Debug)]
    enum Sent {
        Request(u8),
        Notification,
        Answer(u8),
        Junk(Vec<u8>),
    }

    impl Sent {
        fn body(&self) -> Vec<u8> {
            match self {
                Self::Request(id) => json!({"id": id, "method": "m"}).to_string().into_bytes(),
                Self::Notification => b"{\"method\":\"m\"}".to_vec(),
                Self::Answer(id) => json!({"id": id, "result": null}).to_string().into_bytes(),
                Self::Junk(bytes) => bytes.clone(),
            }
        }

        fn kind(&self) -> Kind {
            match self {
                Self::Request(_) => Kind::Request,
                Self::Notification => Kind::Notification,
                Self::Answer(_) => Kind::Response,
                Self::Junk(_) => Kind::Malformed,
            }
        }
    }

    fn sent() -> impl Strategy<Value = Sent> {
        prop_oneof![
            (0_u8..4).prop_map(Sent::Request),
            Just(Sent::Notification),
            (0_u8..4).prop_map(Sent::Answer),
            proptest::collection::vec(b'a'..=b'z', 0..40).prop_map(Sent::Junk),
        ]
    }

    proptest! {
        #[test]
        fn every_message_is_kept_in_order_however_it_is_cut(
            messages in proptest::collection::vec(sent(), 0..20),
            sizes in proptest::collection::vec(1_usize..90, 1..30),
        ) {
            let wire: Vec<u8> = messages.iter().flat_map(|message| encode(&message.body())).collect();
            let mut stream = Pieces { bytes: &wire, sizes: Box::new(sizes.into_iter().cycle()) };
            let conversation = Conversation::default();
            let asked = RefCell::new(Vec::new());
            let ending = conversation.read_all(&mut stream, |request| asked.borrow_mut().push(request.index));
            prop_assert_eq!(ending, Ok(()));
            let received = conversation.received();
            prop_assert_eq!(received.len(), messages.len());
            for (index, (message, sent)) in received.iter().zip(&messages).enumerate() {
                prop_assert_eq!(message.index, index);
                prop_assert_eq!(&message.body[..], &sent.body()[..]);
                prop_assert_eq!(message.kind, sent.kind());
            }
            let requests: Vec<usize> = (0..messages.len())
                .filter(|&index| messages[index].kind() == Kind::Request)
                .collect();
            prop_assert_eq!(asked.into_inner(), requests);
            for id in 0_u8..4 {
                let answers = messages.iter().filter(|sent| matches!(sent, Sent::Answer(other) if *other == id));
                prop_assert_eq!(conversation.answers_to(&id.to_string()).len(), answers.count());
            }
        }

        #[test]
        fn a_stream_that_is_cut_off_says_so(body in "[a-z]{1,40}", cut in any::<prop::sample::Index>()) {
            let wire = encode(body.as_bytes());
            let cut = 1 + cut.index(wire.len() - 1);
            let mut stream = Pieces { bytes: &wire[..cut], sizes: Box::new(std::iter::repeat(7)) };
            let conversation = Conversation::default();
            prop_assert!(conversation.read_all(&mut stream, |_| ()).is_err());
            prop_assert_eq!(conversation.count(), 0);
        }
    }
}
