//! The chain of gates and recorders. Owns the order of asking: gates are asked in order of mounting, and the first that
//! decides owns the decision.

use std::fmt::Debug;
use std::sync::Arc;

use crate::fs::{EditIntent, FileVersion, FsError, Target, WriteIntent};

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

    /// Mounts a policy that is write gate, edit gate and recorder in one.
    pub fn mount<P>(&mut self, policy: &Arc<P>)
    where
        P: WriteIntentGate + EditIntentGate + ObservationRecorder + 'static,
    {
        self.mount_write_gate(Arc::clone(policy) as _);
        self.mount_edit_gate(Arc::clone(policy) as _);
        self.mount_recorder(Arc::clone(policy) as _);
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Mutex;

    use super::*;
    use crate::TargetKey;

    /// A gate that answers as it is told and a recorder that remembers.
    #[derive(Debug, Default)]
    struct Scripted {
        write: Option<WriteIntent>,
        has_opinion: bool,
        refuses: bool,
        seen: Mutex<Vec<(String, Observation)>>,
    }

    impl WriteIntentGate for Scripted {
        fn write_intent(&self, target: &Target, _: &str) -> Result<WriteDecision, PolicyRefusal> {
            if self.refuses {
                return Err(FsError::NotObserved {
                    path: target.display_path().to_path_buf(),
                });
            }
            Ok(if self.has_opinion {
                WriteDecision::Allow(self.write.clone())
            } else {
                WriteDecision::NoOpinion
            })
        }
    }

    impl EditIntentGate for Scripted {
        fn edit_intent(&self, _: &Target, actor: &str) -> Result<EditDecision, PolicyRefusal> {
            let version = FileVersion::from_text(actor);
            Ok(if self.has_opinion {
                EditDecision::Allow(Some(EditIntent { version }))
            } else {
                EditDecision::NoOpinion
            })
        }
    }

    impl ObservationRecorder for Scripted {
        fn observed(&self, _: &Target, actor: &str, observation: &Observation) {
            self.seen
                .lock()
                .unwrap()
                .push((actor.to_owned(), observation.clone()));
        }
    }

    fn target() -> Target {
        Target::new(
            TargetKey::from_resolved(PathBuf::from("/f")),
            PathBuf::from("/f"),
        )
    }

    #[test]
    fn without_a_gate_writes_and_edits_are_unconditional() {
        let chain = PolicyChain::default();

        assert_eq!(chain.write_intent(&target(), "agent").unwrap(), None);
        assert_eq!(chain.edit_intent(&target(), "agent").unwrap(), None);
    }

    #[test]
    fn the_first_gate_with_an_opinion_decides() {
        let opinion = |write| {
            Arc::new(Scripted {
                write,
                has_opinion: true,
                ..Scripted::default()
            })
        };
        let mut chain = PolicyChain::default();
        chain.mount_write_gate(Arc::new(Scripted::default()));
        chain.mount_write_gate(opinion(Some(WriteIntent::CreateIfAbsent)));
        chain.mount_write_gate(Arc::new(Scripted {
            refuses: true,
            ..Scripted::default()
        }));
        chain.mount_edit_gate(Arc::new(Scripted::default()));
        chain.mount_edit_gate(opinion(None));

        assert_eq!(
            chain.write_intent(&target(), "agent").unwrap(),
            Some(WriteIntent::CreateIfAbsent)
        );
        let expected = EditIntent {
            version: FileVersion::from_text("agent"),
        };
        assert_eq!(
            chain.edit_intent(&target(), "agent").unwrap(),
            Some(expected)
        );
    }

    #[test]
    fn a_refusal_keeps_its_code_and_is_not_overruled() {
        let mut chain = PolicyChain::default();
        chain.mount_write_gate(Arc::new(Scripted {
            refuses: true,
            ..Scripted::default()
        }));
        chain.mount_write_gate(Arc::new(Scripted {
            has_opinion: true,
            ..Scripted::default()
        }));

        assert_eq!(
            chain.write_intent(&target(), "agent").unwrap_err().code(),
            "FS_NOT_OBSERVED"
        );
    }

    #[test]
    fn every_recorder_is_told() {
        let recorders = [Arc::new(Scripted::default()), Arc::new(Scripted::default())];
        let mut chain = PolicyChain::default();
        for recorder in &recorders {
            chain.mount_recorder(recorder.clone());
        }

        chain.observed(&target(), "agent", &Observation::Absent);

        for recorder in recorders {
            assert_eq!(
                *recorder.seen.lock().unwrap(),
                [("agent".to_owned(), Observation::Absent)]
            );
        }
    }
}
