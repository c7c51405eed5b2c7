//! How a process ended. Owns the separation of three facts that are easily mixed: what the process reported, who asked
//! for its end, and what the transport saw. A lost link is never an exit code.

use serde::Serialize;

/// What the process itself reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ProcessOutcome {
    /// It ended with this code.
    Exited(i32),
    /// This signal ended it (its number on the world's system).
    Signaled(i32),
}

/// What the transport saw of the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Transport {
    /// The end itself.
    Observed,
    /// The world went away with the process.
    WorldGone,
    /// Nothing that can be told.
    Unknown,
}

/// Who asked for the end, before it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum EndCause {
    /// Nobody.
    Unasked,
    /// A call of `terminate`.
    Terminated,
    /// The spec's cancellation.
    Cancelled,
    /// The handle was dropped.
    Released,
    /// The provider was shut down.
    Shutdown,
}

/// The facts of an end. The cause is told apart from the outcome: a process that was asked to end may exit with 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExitFacts {
    /// What the process reported; `None` unless the transport observed it.
    pub outcome: Option<ProcessOutcome>,
    /// What the transport saw.
    pub transport: Transport,
    /// Who had asked for the end when it came.
    pub cause: EndCause,
}

impl ExitFacts {
    /// The exit code, of a process that exited.
    pub fn exit_code(&self) -> Option<i32> {
        match self.outcome {
            Some(ProcessOutcome::Exited(code)) => Some(code),
            _ => None,
        }
    }

    /// The number of the signal that ended the process.
    pub fn signal(&self) -> Option<i32> {
        match self.outcome {
            Some(ProcessOutcome::Signaled(signal)) => Some(signal),
            _ => None,
        }
    }
}
