//! The one task of a process: it sees the exit, completes collected output, ends the tree when that is asked for, and
//! reaps the child once nothing of the tree is left. Owns the settlement: exit plus a bounded drain, never the end of a
//! stream alone, since a descendant can hold a stream open for ever.

use std::sync::OnceLock;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::contained::{Contained, Pause};
use super::control::{Orders, Report};
use super::exit_watch::ExitWatch;
use super::ladder::Order;
use super::registry::Place;
use super::view::Remains;
use crate::{EndCause, ExitFacts, Transport};

/// How long a released tree that does not end is left before the next attempt.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The tasks that move bytes of a process's streams; the default has none, for a tree whose bytes go another way.
#[derive(Debug, Default)]
pub(in crate::local) struct Pumps {
    /// Read output until its end or until `stop`.
    pub(in crate::local) outputs: JoinSet<()>,
    /// Write the given input.
    pub(in crate::local) inputs: JoinSet<()>,
    /// Tells the outputs to come to an end.
    pub(in crate::local) stop: CancellationToken,
}

/// What a supervisor looks after.
pub(in crate::local) struct Supervisor {
    pub(in crate::local) contained: Contained,
    pub(in crate::local) place: Place,
    pub(in crate::local) exit_watch: ExitWatch,
    pub(in crate::local) pumps: Pumps,
    pub(in crate::local) orders: Orders,
    pub(in crate::local) grace: Duration,
    pub(in crate::local) order: Order,
    pub(in crate::local) cancel: CancellationToken,
    pub(in crate::local) released: CancellationToken,
}

impl Supervisor {
    /// Looks after the process until nothing of its tree is left.
    pub(in crate::local) async fn run(self) {
        let Self {
            mut contained,
            place,
            exit_watch,
            pumps,
            orders,
            grace,
            order,
            cancel,
            released,
        } = self;
        let Orders {
            mut wanted,
            report,
            exit,
            watchers,
        } = orders;
        let asked = OnceLock::new();
        let exit_seen = exit.subscribe();
        let settled = settle(&exit_watch, pumps, grace, &asked, &exit);
        let ended = async {
            let mut guard = Guard {
                contained: &contained,
                grace,
                order,
                report: &report,
                asked: &asked,
                exit: exit_seen,
                watchers,
            };
            guard.until_gone(&mut wanted, &cancel, &released).await;
        };
        let (facts, ()) = tokio::join!(settled, ended);
        contained.reap().await;
        // Given back before anyone is told, so that whoever was told can use the marker again.
        drop(place);
        report.send_replace(Report::Gone(facts));
    }
}

/// Waits for the exit and the drain, and publishes the facts.
async fn settle(
    exit_watch: &ExitWatch,
    mut pumps: Pumps,
    drain: Duration,
    asked: &OnceLock<EndCause>,
    exit: &watch::Sender<Option<ExitFacts>>,
) -> ExitFacts {
    let outcome = exit_watch.exited().await;
    let cause = asked.get().copied().unwrap_or(EndCause::Unasked);
    let facts = match outcome {
        Ok(outcome) => ExitFacts {
            outcome: Some(outcome),
            transport: Transport::Observed,
            cause,
        },
        Err(error) => {
            tracing::error!(%error, "the exit of a process could not be observed");
            ExitFacts {
                outcome: None,
                transport: Transport::Unknown,
                cause,
            }
        }
    };
    let drained = tokio::time::timeout(drain, join_all(&mut pumps.outputs)).await;
    if drained.is_err() {
        pumps.stop.cancel();
        join_all(&mut pumps.outputs).await;
    }
    pumps.inputs.shutdown().await;
    exit.send_replace(Some(facts));
    facts
}

async fn join_all(tasks: &mut JoinSet<()>) {
    while tasks.join_next().await.is_some() {}
}

/// Ends the tree when someone asks, and notices when it ended by itself.
struct Guard<'a> {
    contained: &'a Contained,
    grace: Duration,
    order: Order,
    report: &'a watch::Sender<Report>,
    asked: &'a OnceLock<EndCause>,
    exit: watch::Receiver<Option<ExitFacts>>,
    watchers: watch::Receiver<usize>,
}

impl Guard<'_> {
    async fn until_gone(
        &mut self,
        wanted: &mut watch::Receiver<super::control::Wanted>,
        cancel: &CancellationToken,
        released: &CancellationToken,
    ) {
        let mut has_exited = false;
        let mut is_cancelled = false;
        loop {
            let wake = tokio::select! {
                biased;
                Ok(()) = wanted.changed() => Wake::Wanted,
                () = cancel.cancelled(), if !is_cancelled => Wake::Cancelled,
                () = released.cancelled() => Wake::Released,
                () = observed_exit(&mut self.exit), if !has_exited => Wake::Exited,
                () = seen_gone(self.contained, &mut self.watchers), if has_exited => Wake::Gone,
            };
            let is_gone = match wake {
                Wake::Wanted => {
                    let cause = wanted
                        .borrow_and_update()
                        .cause
                        .unwrap_or(EndCause::Terminated);
                    self.end(cause).await
                }
                Wake::Cancelled => {
                    is_cancelled = true;
                    self.end(EndCause::Cancelled).await
                }
                Wake::Released => return self.end_released().await,
                Wake::Exited => {
                    has_exited = true;
                    self.contained.remains().await == Ok(Remains::Nothing)
                }
                Wake::Gone => true,
            };
            if is_gone {
                return;
            }
        }
    }

    /// One attempt at an end; whether it succeeded.
    async fn end(&self, cause: EndCause) -> bool {
        // The first who asks is the cause; it no longer counts once the exit was seen.
        let _ = self.asked.set(cause);
        match self.contained.end(self.grace, self.order).await {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(pid = self.contained.pid(), %error, "a process tree did not end");
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
        }
    }

    /// Nobody holds the handle any more: the tree is ended however long it takes.
    async fn end_released(&self) {
        while !self.end(EndCause::Released).await {
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }
}

/// What a guard wakes up for.
enum Wake {
    Wanted,
    Cancelled,
    Released,
    Exited,
    Gone,
}

/// Waits for the published exit.
async fn observed_exit(exit: &mut watch::Receiver<Option<ExitFacts>>) {
    if exit.wait_for(Option::is_some).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Answers when the tree is gone. Where its control group tells of its changes, they are waited for; else the tree is
/// looked at with growing pauses, and only while someone waits for its end.
async fn seen_gone(contained: &Contained, watchers: &mut watch::Receiver<usize>) {
    let mut pause = Pause::default();
    loop {
        let changes = contained.changes();
        if changes.is_none() && watchers.wait_for(|count| *count > 0).await.is_err() {
            return std::future::pending().await;
        }
        match (contained.remains().await, changes) {
            (Ok(Remains::Nothing), _) => return,
            (Ok(Remains::Processes), Some(changes)) => {
                if changes.next().await.is_err() {
                    pause.wait().await;
                }
            }
            _ => pause.wait().await,
        }
    }
}
