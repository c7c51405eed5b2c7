//! The one task of a terminal: it sees the program's exit, ends what the session has left then or all of it when that is
//! asked for, and lets the device go once nothing is left. Owns the order of an end: first no call takes a further step,
//! then what calls had begun is settled, then the tree is ended.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::super::trees::contained::Contained;
use super::super::trees::control::{Orders, Report, Wanted};
use super::super::trees::exit_watch::ExitWatch;
use super::super::trees::ladder::Order;
use super::super::trees::registry::Place;
use super::super::trees::view::Remains;
use super::condition::Standing;
use super::device::Holder;
use crate::{EndCause, ExitFacts, Transport};

/// How long a session that nobody holds and that does not end is left before the next attempt.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// What a supervisor of a terminal looks after.
pub(super) struct Session {
    pub(super) contained: Contained,
    pub(super) place: Place,
    pub(super) exit_watch: ExitWatch,
    pub(super) orders: Orders,
    pub(super) grace: Duration,
    pub(super) released: CancellationToken,
    pub(super) standing: Arc<Standing>,
    pub(super) holder: Arc<Holder>,
}

impl Session {
    /// Looks after the session until nothing of it is left.
    pub(super) async fn run(self) {
        let Self {
            mut contained,
            place,
            exit_watch,
            orders,
            grace,
            released,
            standing,
            holder,
        } = self;
        let Orders {
            wanted,
            report,
            exit,
            ..
        } = orders;
        let asked = OnceLock::new();
        let observed = observe_exit(&exit_watch, &asked, &exit, &standing);
        let ended = Ending {
            contained: &contained,
            grace,
            report: &report,
            asked: &asked,
            standing: &standing,
            released: &released,
        };
        let (facts, ()) = tokio::join!(observed, ended.until_gone(wanted));
        // What a call began looks at the program by its id, which the unreaped program keeps.
        standing.settled().await;
        contained.reap().await;
        holder.release();
        // Given back before anyone is told, so that whoever was told can use the marker again.
        drop(place);
        report.send_replace(Report::Gone(facts));
    }
}

/// Waits for the program's exit and publishes its facts. The output needs no time to drain: it stays in the device.
async fn observe_exit(
    exit_watch: &ExitWatch,
    asked: &OnceLock<EndCause>,
    exit: &watch::Sender<Option<ExitFacts>>,
    standing: &Standing,
) -> ExitFacts {
    let outcome = exit_watch.exited().await;
    let transport = match &outcome {
        Ok(_) => Transport::Observed,
        Err(error) => {
            tracing::error!(%error, "the exit of a terminal's program could not be observed");
            Transport::Unknown
        }
    };
    let facts = ExitFacts {
        outcome: outcome.ok(),
        transport,
        cause: asked.get().copied().unwrap_or(EndCause::Unasked),
    };
    standing.set_exited();
    exit.send_replace(Some(facts));
    facts
}

/// Ends the session: when someone asks, when the terminal broke, and when the program ended by itself.
struct Ending<'a> {
    contained: &'a Contained,
    grace: Duration,
    report: &'a watch::Sender<Report>,
    asked: &'a OnceLock<EndCause>,
    standing: &'a Standing,
    released: &'a CancellationToken,
}

impl Ending<'_> {
    async fn until_gone(&self, mut wanted: watch::Receiver<Wanted>) {
        let mut has_exited = false;
        let mut has_failed = false;
        loop {
            let is_gone = tokio::select! {
                biased;
                Ok(()) = wanted.changed() => {
                    let cause = wanted.borrow_and_update().cause;
                    self.close(cause.unwrap_or(EndCause::Terminated)).await
                }
                () = self.released.cancelled() => return self.close_released().await,
                () = self.standing.failed(), if !has_failed => {
                    has_failed = true;
                    self.standing.settled().await;
                    self.end().await
                }
                () = self.standing.exit().cancelled(), if !has_exited => {
                    has_exited = true;
                    self.contained.remains().await == Ok(Remains::Nothing) || self.end().await
                }
            };
            if is_gone {
                return;
            }
        }
    }

    /// One attempt at an end that answers no call from now on; whether it succeeded.
    async fn close(&self, cause: EndCause) -> bool {
        // The first who asks is the cause; it no longer counts once the exit was seen.
        let _ = self.asked.set(cause);
        self.standing.close();
        self.standing.settled().await;
        self.end().await
    }

    /// One attempt at an end; whether it succeeded.
    async fn end(&self) -> bool {
        let Err(error) = self.contained.end(self.grace, Order::MembersFirst).await else {
            return true;
        };
        tracing::warn!(pid = self.contained.pid(), %error, "a terminal session did not end");
        self.report.send_modify(|report| {
            if let Report::Alive {
                failed,
                error: last,
            } = report
            {
                *failed += 1;
                *last = Some(error);
            }
        });
        false
    }

    /// Nobody holds the handle any more: the session is ended however long it takes.
    async fn close_released(&self) {
        while !self.close(EndCause::Released).await {
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }
}
