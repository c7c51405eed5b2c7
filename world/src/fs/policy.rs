//! Policy attached to the file seam from outside. Owns the order of asking: gates are asked in order of mounting, the
//! first that decides owns the decision, and with none mounted writes are unconditional (and still atomic).

use std::fmt::Debug;
use std::sync::Arc;

use super::{EditIntent, FileVersion, FsError, Target, WriteIntent};

/// What a caller saw of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// The file existed with this version.
    Present(FileVersion),
    /// There was no file.
    Absent,
}

/// Why a gate refuses. The error's code is what the caller gets.
pub type PolicyRefusal = FsError;

/// What a write gate decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteDecision {
    /// Write under this condition; `None` in any case.
    Allow(Option<WriteIntent>),
    /// Ask the next gate.
    NoOpinion,
}

/// What an edit gate decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditDecision {
    /// Edit under this condition; `None` in any case.
    Allow(Option<EditIntent>),
    /// Ask the next gate.
    NoOpinion,
}

/// Decides under which condition a file may be written.
pub trait WriteIntentGate: Send + Sync + Debug {
    /// The condition for a write of `target` by `actor` (an opaque name of who asks), or a refusal with its code.
    fn write_intent(&self, target: &Target, actor: &str) -> Result<WriteDecision, PolicyRefusal>;
}

/// Decides under which condition a file may be edited.
pub trait EditIntentGate: Send + Sync + Debug {
    /// The condition for an edit of `target` by `actor`, or a refusal with its code.
    fn edit_intent(&self, target: &Target, actor: &str) -> Result<EditDecision, PolicyRefusal>;
}

/// Is told what callers see of files. It cannot fail: what was read or written is already done.
pub trait ObservationRecorder: Send + Sync + Debug {
    /// `actor` saw `target` as `observation`.
    fn observed(&self, target: &Target, actor: &str, observation: &Observation);
}

/// The policy that is mounted around a file seam.
#[derive(Clone, Debug, Default)]
pub struct PolicyChain {
    write_gates: Vec<Arc<dyn WriteIntentGate>>,
    edit_gates: Vec<Arc<dyn EditIntentGate>>,
    recorders: Vec<Arc<dyn ObservationRecorder>>,
}

impl PolicyChain {
    /// Mounts a write gate after those that are mounted.
    pub fn mount_write_gate(&mut self, gate: Arc<dyn WriteIntentGate>) {
        self.write_gates.push(gate);
    }

    /// Mounts an edit gate after those that are mounted.
    pub fn mount_edit_gate(&mut self, gate: Arc<dyn EditIntentGate>) {
        self.edit_gates.push(gate);
    }

    /// Mounts a recorder after those that are mounted.
    pub fn mount_recorder(&mut self, recorder: Arc<dyn ObservationRecorder>) {
        self.recorders.push(recorder);
    }

    /// The condition for a write: that of the first gate that decides; none when no gate does.
    ///
    /// Gives the refusal of the gate that decides so.
    pub fn write_intent(
        &self,
        target: &Target,
        actor: &str,
    ) -> Result<Option<WriteIntent>, PolicyRefusal> {
        for gate in &self.write_gates {
            if let WriteDecision::Allow(intent) = gate.write_intent(target, actor)? {
                return Ok(intent);
            }
        }
        Ok(None)
    }

    /// The condition for an edit: that of the first gate that decides; none when no gate does.
    ///
    /// Gives the refusal of the gate that decides so.
    pub fn edit_intent(
        &self,
        target: &Target,
        actor: &str,
    ) -> Result<Option<EditIntent>, PolicyRefusal> {
        for gate in &self.edit_gates {
            if let EditDecision::Allow(intent) = gate.edit_intent(target, actor)? {
                return Ok(intent);
            }
        }
        Ok(None)
    }

    /// Tells every recorder, in order of mounting.
    pub fn observed(&self, target: &Target, actor: &str, observation: &Observation) {
        for recorder in &self.recorders {
            recorder.observed(target, actor, observation);
        }
    }
}
