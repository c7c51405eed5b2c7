//! Whether calls on a terminal are answered. Owns the order of the answers: a failure stands for good, an end that was
//! asked for comes before an exit, and nothing succeeds after one of them. It also knows the work of calls that goes on
//! outside of their futures, so that an end can wait for exactly that.

use std::future::Future;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::TerminalError;

/// How a terminal is, each state stronger than those before it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Condition {
    Open,
    Exited,
    Closing,
    Failed(String),
}

impl Condition {
    /// Why a call is refused.
    fn refusal(&self) -> Option<TerminalError> {
        match self {
            Self::Open => None,
            Self::Exited => Some(TerminalError::Exited),
            Self::Closing => Some(TerminalError::Closing),
            Self::Failed(reason) => Some(TerminalError::Failed {
                reason: reason.clone(),
            }),
        }
    }
}

/// What the handle, the output and the supervisor of one terminal share.
#[derive(Debug)]
pub(super) struct Standing {
    condition: watch::Sender<Condition>,
    exited: CancellationToken,
    effects: TaskTracker,
}

impl Default for Standing {
    fn default() -> Self {
        let effects = TaskTracker::new();
        // It only counts; that nobody waits yet is no reason to keep it open.
        effects.close();
        Self {
            condition: watch::Sender::new(Condition::Open),
            exited: CancellationToken::new(),
            effects,
        }
    }
}

impl Standing {
    /// Says that the program has ended.
    pub(super) fn set_exited(&self) {
        self.exited.cancel();
        self.raise(Condition::Exited);
    }

    /// Says that an end was asked for.
    pub(super) fn close(&self) {
        self.raise(Condition::Closing);
    }

    /// Says that the terminal broke; the first reason stands.
    pub(super) fn fail(&self, reason: String) {
        self.raise(Condition::Failed(reason));
    }

    fn raise(&self, to: Condition) {
        self.condition.send_if_modified(|condition| {
            let rises = *condition < to && !matches!(condition, Condition::Failed(_));
            if rises {
                *condition = to;
            }
            rises
        });
    }

    /// Cancelled when the program has ended.
    pub(super) fn exit(&self) -> &CancellationToken {
        &self.exited
    }

    /// Waits until the terminal broke.
    pub(super) async fn failed(&self) {
        let mut condition = self.condition.subscribe();
        let is_failed = |condition: &Condition| matches!(condition, Condition::Failed(_));
        if condition.wait_for(is_failed).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Fails where calls are refused.
    pub(super) fn check(&self) -> Result<(), TerminalError> {
        self.condition.borrow().refusal().map_or(Ok(()), Err)
    }

    /// Answers a call: with its own result, or with the refusal once there is one. The refusal is looked at before each
    /// step of the call, so that a call that was under way takes no further step.
    pub(super) async fn answer<T>(
        &self,
        call: impl Future<Output = Result<T, TerminalError>>,
    ) -> Result<T, TerminalError> {
        let mut condition = self.condition.subscribe();
        let refused = async {
            let is_refusing = |condition: &Condition| *condition != Condition::Open;
            match condition.wait_for(is_refusing).await {
                Ok(condition) => condition.refusal(),
                Err(_) => None,
            }
        };
        tokio::select! {
            biased;
            Some(error) = refused => Err(error),
            result = call => result,
        }
    }

    /// Counts work that goes on also when the call that began it is dropped.
    pub(super) fn effect(&self) -> TaskTrackerToken {
        self.effects.token()
    }

    /// Waits until no such work goes on. None begins any more once calls are refused.
    pub(super) async fn settled(&self) {
        self.effects.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(standing: &Standing) -> Option<&'static str> {
        standing.check().err().map(|error| error.code())
    }

    #[test]
    fn an_end_that_was_asked_for_is_told_before_an_exit() {
        let standing = Standing::default();
        assert_eq!(code(&standing), None);
        standing.set_exited();
        assert_eq!(code(&standing), Some("TERMINAL_EXITED"));
        standing.close();
        standing.set_exited();
        assert_eq!(code(&standing), Some("TERMINAL_CLOSING"));
    }

    #[test]
    fn the_first_failure_stands() {
        let standing = Standing::default();
        standing.fail("b".to_owned());
        standing.fail("c".to_owned());
        standing.close();
        let reason = "b".to_owned();
        assert_eq!(standing.check(), Err(TerminalError::Failed { reason }));
    }

    #[tokio::test]
    async fn a_call_under_way_is_answered_with_the_refusal() {
        let standing = Standing::default();
        let waits = standing.answer(std::future::pending::<Result<(), _>>());

        let (answered, ()) = tokio::join!(waits, async { standing.close() });

        assert_eq!(answered, Err(TerminalError::Closing));
    }

    #[tokio::test]
    async fn a_refused_call_takes_no_step() {
        let standing = Standing::default();
        standing.close();

        let answered = standing
            .answer::<()>(async { unreachable!("the call went on") })
            .await;

        assert_eq!(answered, Err(TerminalError::Closing));
    }
}
