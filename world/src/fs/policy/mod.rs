//! Policy around the file seam, attached from outside: a provider knows nothing of it, and with nothing mounted every
//! write is unconditional (and still atomic).
//!
//! A change of a file takes four steps in this order, and [`GuardedFiles`] is the one place that takes them:
//!
//! 1. the fence ([`writable_target`]) says whether the sandbox policy allows a change there, and gives the target as it
//!    resolves now;
//! 2. the gates ([`PolicyChain`]) say under which condition that target may be changed;
//! 3. the provider changes it, if the condition holds;
//! 4. the recorders are told what the caller has seen by that.

mod chain;
mod fence;
mod guarded;
mod observation;

pub use chain::{
    EditDecision, EditIntentGate, Observation, ObservationRecorder, PolicyChain, PolicyRefusal,
    WriteDecision, WriteIntentGate,
};
pub use fence::writable_target;
pub use guarded::GuardedFiles;
pub use observation::ObservationPolicy;
