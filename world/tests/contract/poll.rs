//! Dropping a future at each of its await points. A future can be dropped wherever it was polled and is not ready; what
//! it leaves then is the same for every place in it only if it was tried at every place.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// More polls than any operation of this suite needs.
const TOO_MANY: usize = 10_000;

/// Where a future is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PollN {
    polls: usize,
    moment: Moment,
}

/// When the drop comes after the last poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// At once: what the future waits for is under way.
    Pending,
    /// When the future was woken: what it waited for has come, and nobody takes it.
    Woken,
}

impl PollN {
    /// Polls `future` until it is ready or has been polled so often, each time only when it was woken, so that each poll
    /// is a step. Gives what it gave; `None` when it was dropped before.
    ///
    /// Nothing else may run in the task meanwhile: its wake-ups would count as those of the future.
    pub(crate) async fn drive<T>(self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        let mut polls = 0;
        poll_fn(|context| {
            if polls == self.polls {
                return Poll::Ready(None);
            }
            polls += 1;
            match future.as_mut().poll(context) {
                Poll::Ready(output) => Poll::Ready(Some(output)),
                Poll::Pending if polls == self.polls && self.moment == Moment::Pending => {
                    Poll::Ready(None)
                }
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }
}

/// Makes `attempt` for one poll, for two, and so on, until it says that its future was ready. An attempt begins from a
/// state of its own, drives its future, and looks at what is left.
pub(crate) async fn each_drop(mut attempt: impl AsyncFnMut(PollN) -> bool) {
    for moment in [Moment::Pending, Moment::Woken] {
        let mut polls = 1;
        while !attempt(PollN { polls, moment }).await {
            polls += 1;
            assert!(polls < TOO_MANY, "the future is never ready");
        }
    }
}

#[tokio::test]
async fn every_place_is_tried_once() {
    let mut reached = Vec::new();
    each_drop(async |at| {
        let mut steps = 0;
        let completed = at
            .drive(async {
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                    steps += 1;
                }
            })
            .await
            .is_some();
        reached.push((steps, completed));
        completed
    })
    .await;

    let each = [(0, false), (1, false), (2, false), (3, true)];
    assert_eq!(reached, [each, each].concat());
}

#[tokio::test]
async fn a_future_is_polled_again_only_when_it_was_woken() {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let waited = tokio::spawn(async {
        let at = PollN {
            polls: 2,
            moment: Moment::Pending,
        };
        at.drive(receiver).await
    });
    tokio::task::yield_now().await;
    assert!(!waited.is_finished());

    sender.send(5).unwrap();

    assert_eq!(waited.await.unwrap(), Some(Ok(5)));
}
