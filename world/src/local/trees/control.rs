//! What a handle and its supervisor say to each other. Owns the joining of calls: a termination is an attempt with a
//! number, concurrent calls wait for the same attempt, and a call after a failed one asks for the next.

use tokio::sync::watch;

use crate::{EndCause, ExitFacts, TerminateError};

/// The attempt at an end that is wanted.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::local) struct Wanted {
    pub(in crate::local) attempt: u64,
    pub(in crate::local) cause: Option<EndCause>,
}

/// How the tree is.
#[derive(Clone, Debug)]
pub(in crate::local) enum Report {
    /// Something of it may run; so many attempts to end it have failed, the last one with this error.
    Alive {
        failed: u64,
        error: Option<TerminateError>,
    },
    /// Nothing of it is left.
    Gone(ExitFacts),
}

/// The handle's side.
#[derive(Debug)]
pub(in crate::local) struct Control {
    wanted: watch::Sender<Wanted>,
    report: watch::Receiver<Report>,
    exit: watch::Receiver<Option<ExitFacts>>,
    watchers: watch::Sender<usize>,
}

/// The supervisor's side.
#[derive(Debug)]
pub(in crate::local) struct Orders {
    pub(in crate::local) wanted: watch::Receiver<Wanted>,
    pub(in crate::local) report: watch::Sender<Report>,
    pub(in crate::local) exit: watch::Sender<Option<ExitFacts>>,
    pub(in crate::local) watchers: watch::Receiver<usize>,
}

/// Two connected sides.
pub(in crate::local) fn connect() -> (Control, Orders) {
    let (wanted, wanted_orders) = watch::channel(Wanted::default());
    let (report_orders, report) = watch::channel(Report::Alive {
        failed: 0,
        error: None,
    });
    let (exit_orders, exit) = watch::channel(None);
    let (watchers, watchers_orders) = watch::channel(0);
    let orders = Orders {
        wanted: wanted_orders,
        report: report_orders,
        exit: exit_orders,
        watchers: watchers_orders,
    };
    (
        Control {
            wanted,
            report,
            exit,
            watchers,
        },
        orders,
    )
}

impl Control {
    /// The facts of the exit; `None` when the supervisor went away without them.
    pub(in crate::local) async fn exited(&self) -> Option<ExitFacts> {
        let mut exit = self.exit.clone();
        exit.wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|facts| *facts)
    }

    /// Ends the tree, or joins the attempt under way.
    pub(in crate::local) async fn end(&self, cause: EndCause) -> Result<ExitFacts, TerminateError> {
        let mut report = self.report.clone();
        let attempt = match &*report.borrow_and_update() {
            Report::Gone(facts) => return Ok(*facts),
            Report::Alive { failed, .. } => failed + 1,
        };
        self.wanted.send_if_modified(|wanted| {
            let is_new = wanted.attempt < attempt;
            if is_new {
                *wanted = Wanted {
                    attempt,
                    cause: Some(cause),
                };
            }
            is_new
        });
        let is_decided = |report: &Report| match report {
            Report::Gone(_) => true,
            Report::Alive { failed, .. } => *failed >= attempt,
        };
        match report.wait_for(is_decided).await.as_deref() {
            Ok(Report::Gone(facts)) => Ok(*facts),
            Ok(Report::Alive {
                error: Some(error), ..
            }) => Err(error.clone()),
            Ok(Report::Alive { error: None, .. }) | Err(_) => Err(unobserved()),
        }
    }

    /// Waits until nothing of the tree is left.
    pub(in crate::local) async fn gone(&self) -> Result<(), TerminateError> {
        let _watching = Watching::new(&self.watchers);
        let mut report = self.report.clone();
        let is_gone = report
            .wait_for(|report| matches!(report, Report::Gone(_)))
            .await
            .is_ok();
        if is_gone { Ok(()) } else { Err(unobserved()) }
    }
}

fn unobserved() -> TerminateError {
    TerminateError::Unproved {
        reason: "the supervisor of the process has ended with its runtime".to_owned(),
    }
}

/// Counts one waiter for the end of the tree, so that it is looked at only while someone waits.
struct Watching<'a>(&'a watch::Sender<usize>);

impl<'a> Watching<'a> {
    fn new(watchers: &'a watch::Sender<usize>) -> Self {
        watchers.send_modify(|count| *count += 1);
        Self(watchers)
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
