//! Terminals of this machine: a program that leads a session on a pseudoterminal of its own. Owns the device and the
//! bytes that pass through it, and the rule that the device is closed only once the session's tree is gone, so that
//! nothing ends by an accidental hang-up; the tree is looked after by [`super::trees`].
//!
//! The device is driven without a blocking call in an async task: its master descriptor is non-blocking and registered
//! with the runtime, and whatever looks at processes runs on the blocking pool.

mod condition;
mod device;
mod foreground;
mod handle;
mod output;
mod session;
mod start;
#[cfg(target_os = "linux")]
mod waiting;

use std::io;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::condition::Standing;
use self::device::{Device, Holder, Pair};
use self::handle::LocalTerminal;
use self::output::Output;
use self::session::Session;
use super::trees::contained::Contained;
use super::trees::control;
use super::trees::exit_watch::ExitWatch;
use super::trees::registry::Place;
use super::{LocalOptions, launch};
use crate::{SpawnError, TerminalHandle, TerminalSize, TerminalSpec};

/// Whether it can be proved here that a program waits for input from its terminal.
#[cfg(target_os = "linux")]
pub(super) const PROVES_WAITING: bool = waiting::IS_POSSIBLE;

/// Whether it can be proved here that a program waits for input from its terminal.
#[cfg(not(target_os = "linux"))]
pub(super) const PROVES_WAITING: bool = false;

/// Refuses a size that no terminal has.
pub(super) fn check(size: TerminalSize) -> Result<(), SpawnError> {
    if size.is_possible() {
        return Ok(());
    }
    Err(SpawnError::InvalidSpec {
        field: "size",
        reason: "is not from 1 to 1,000 rows and columns",
    })
}

/// A terminal that is being opened. Whatever becomes of the caller, it holds its place until nothing of it is left.
pub(super) struct Opening {
    pub(super) spec: TerminalSpec,
    pub(super) place: Place,
    pub(super) options: Arc<LocalOptions>,
    pub(super) supervisors: TaskTracker,
}

impl Opening {
    /// Opens the terminal on the blocking pool and hands its handle out; its supervisor runs from then on. A caller that
    /// gives up the wait, or cancels it, is answered at once; the handle is dropped as soon as it is made, which ends the
    /// session.
    pub(super) async fn run(self) -> Result<Box<dyn TerminalHandle>, SpawnError> {
        let cancel = self.spec.cancel.clone();
        // Taken before the wait, so that a shutdown that begins meanwhile waits for this start too.
        let tracked = self.supervisors.token();
        let open = move || {
            let terminal = self.open();
            drop(tracked);
            terminal
        };
        tokio::select! {
            biased;
            opened = tokio::task::spawn_blocking(open) => match opened {
                Ok(opened) => opened,
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(_) => Err(SpawnError::Disposed),
            },
            () = cancel.cancelled() => Err(SpawnError::Cancelled),
        }
    }

    /// Blocks until the new program runs.
    fn open(self) -> Result<Box<dyn TerminalHandle>, SpawnError> {
        let Self {
            spec,
            place,
            options,
            supervisors,
        } = self;
        let (contained, pair) = start::start(&spec, &options)?;
        let (terminal, session) = supervise(contained, pair, place, &spec)
            .map_err(|error| launch::refused(&spec.launch, error))?;
        supervisors.spawn(session.run());
        Ok(Box::new(terminal))
    }
}

/// Connects a started program with a handle and a supervisor. An error drops the program's owner, which ends it.
fn supervise(
    contained: Contained,
    pair: Pair,
    place: Place,
    spec: &TerminalSpec,
) -> io::Result<(LocalTerminal, Session)> {
    let pid = contained.pid();
    let exit_watch = ExitWatch::new(pid)?;
    let device = Arc::new(Device::new(pair)?);
    let standing = Arc::new(Standing::default());
    let output = Output::new(Arc::clone(&device), Arc::clone(&standing));
    let holder = Arc::new(Holder::new(device));
    let (control, orders) = control::connect();
    let control = Arc::new(control);
    place.started(Arc::clone(&control));
    let released = CancellationToken::new();
    let terminal = LocalTerminal::new(
        foreground::Owner {
            program: pid,
            is_protected: spec.protects_program,
        },
        Arc::clone(&holder),
        output,
        Arc::clone(&standing),
        control,
        contained.view(),
        released.clone().drop_guard(),
    );
    let session = Session {
        contained,
        place,
        exit_watch,
        orders,
        grace: spec.grace,
        released,
        standing,
        holder,
    };
    Ok((terminal, session))
}

#[cfg(test)]
mod tests;
