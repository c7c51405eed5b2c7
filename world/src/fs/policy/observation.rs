//! The observation policy: read before you write, and write what you read. Owns what each actor last saw of each file,
//! in bounded memory; what is forgotten is as good as never seen, so that forgetting only ever makes the policy stricter.
//!
//! It is about freshness, not about how much was seen: whoever saw a part of a file at a version may overwrite the whole
//! of that version.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{
    EditDecision, EditIntentGate, Observation, ObservationRecorder, PolicyRefusal, WriteDecision,
    WriteIntentGate,
};
use crate::fs::{EditIntent, FsError, Target, TargetKey, WriteIntent};

/// A write gate, an edit gate and a recorder in one; it has an opinion on every file.
///
/// * A write replaces exactly the version that the actor saw last. Where it saw that nothing was there, or saw nothing at
///   all, the write may only create.
/// * An edit changes exactly the version that the actor saw last. Where it saw that nothing was there it is refused with
///   `FS_NOT_FOUND`, where it saw nothing at all with `FS_NOT_OBSERVED`.
///
/// Actors do not see for each other. The empty name is nobody: nothing is remembered for it.
#[derive(Debug)]
pub struct ObservationPolicy {
    files_per_actor: NonZeroUsize,
    actors: Mutex<HashMap<String, Sightings>>,
}

impl ObservationPolicy {
    /// A policy that has seen nothing. Of each actor it remembers the `files_per_actor` files that were looked at, or
    /// asked about, last.
    pub fn new(files_per_actor: NonZeroUsize) -> Self {
        Self {
            files_per_actor,
            actors: Mutex::default(),
        }
    }

    /// Forgets all that an actor saw, as at the end of its connection. An actor that is never forgotten keeps its memory.
    pub fn forget(&self, actor: &str) {
        self.actors().remove(actor);
    }

    /// What `actor` saw of `target` last.
    fn last_seen(&self, target: &Target, actor: &str) -> Option<Observation> {
        self.actors().get_mut(actor)?.look_up(target.key())
    }

    /// No code runs under the lock that can leave the table half changed, so a panic elsewhere does not poison it.
    fn actors(&self) -> MutexGuard<'_, HashMap<String, Sightings>> {
        self.actors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WriteIntentGate for ObservationPolicy {
    fn write_intent(&self, target: &Target, actor: &str) -> Result<WriteDecision, PolicyRefusal> {
        let intent = match self.last_seen(target, actor) {
            Some(Observation::Present(version)) => WriteIntent::ReplaceIfVersion(version),
            Some(Observation::Absent) | None => WriteIntent::CreateIfAbsent,
        };
        Ok(WriteDecision::Allow(Some(intent)))
    }
}

impl EditIntentGate for ObservationPolicy {
    fn edit_intent(&self, target: &Target, actor: &str) -> Result<EditDecision, PolicyRefusal> {
        let path = target.display_path().to_path_buf();
        match self.last_seen(target, actor) {
            Some(Observation::Present(version)) => {
                Ok(EditDecision::Allow(Some(EditIntent { version })))
            }
            Some(Observation::Absent) => Err(FsError::NotFound {
                path,
                reason: "nothing was there when it was read",
            }),
            None => Err(FsError::NotObserved { path }),
        }
    }
}

impl ObservationRecorder for ObservationPolicy {
    fn observed(&self, target: &Target, actor: &str, observation: &Observation) {
        if actor.is_empty() {
            return;
        }
        let mut actors = self.actors();
        let sightings = actors.entry(actor.to_owned()).or_default();
        sightings.remember(target.key(), observation.clone());
        while sightings.by_file.len() > self.files_per_actor.get() {
            sightings.forget_oldest();
        }
    }
}

/// What one actor saw. The two maps have the same files: by key, and by when each was last used.
#[derive(Debug, Default)]
struct Sightings {
    by_file: HashMap<Arc<TargetKey>, Sighting>,
    by_use: BTreeMap<u64, Arc<TargetKey>>,
    uses: u64,
}

#[derive(Debug)]
struct Sighting {
    observation: Observation,
    last_use: u64,
}

impl Sightings {
    fn look_up(&mut self, file: &TargetKey) -> Option<Observation> {
        let now = self.next_use();
        let sighting = self.by_file.get_mut(file)?;
        if let Some(file) = self.by_use.remove(&sighting.last_use) {
            self.by_use.insert(now, file);
        }
        sighting.last_use = now;
        Some(sighting.observation.clone())
    }

    fn remember(&mut self, file: &TargetKey, observation: Observation) {
        let file = Arc::new(file.clone());
        let last_use = self.next_use();
        let sighting = Sighting {
            observation,
            last_use,
        };
        if let Some(before) = self.by_file.insert(Arc::clone(&file), sighting) {
            self.by_use.remove(&before.last_use);
        }
        self.by_use.insert(last_use, file);
    }

    fn forget_oldest(&mut self) {
        if let Some((_, file)) = self.by_use.pop_first() {
            self.by_file.remove(&file);
        }
    }

    fn next_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::*;
    use crate::fs::FileVersion;

    fn target(name: &str) -> Target {
        let path = PathBuf::from("/").join(name);
        Target::new(TargetKey::from_resolved(path.clone()), path)
    }

    fn present(version: &str) -> Observation {
        Observation::Present(FileVersion::from_text(version))
    }

    fn policy(files_per_actor: usize) -> ObservationPolicy {
        ObservationPolicy::new(NonZeroUsize::new(files_per_actor).unwrap())
    }

    fn may_write(policy: &ObservationPolicy, file: &str, actor: &str) -> WriteIntent {
        match policy.write_intent(&target(file), actor).unwrap() {
            WriteDecision::Allow(Some(intent)) => intent,
            other => panic!("no condition: {other:?}"),
        }
    }

    fn may_edit(
        policy: &ObservationPolicy,
        file: &str,
        actor: &str,
    ) -> Result<String, &'static str> {
        match policy.edit_intent(&target(file), actor) {
            Ok(EditDecision::Allow(Some(intent))) => Ok(intent.version.as_str().to_owned()),
            Ok(other) => panic!("no condition: {other:?}"),
            Err(refusal) => Err(refusal.code()),
        }
    }

    fn replaces(version: &str) -> WriteIntent {
        WriteIntent::ReplaceIfVersion(FileVersion::from_text(version))
    }

    #[test]
    fn what_was_never_seen_can_be_created_only() {
        let policy = policy(4);

        assert_eq!(may_write(&policy, "f", "a"), WriteIntent::CreateIfAbsent);
        assert_eq!(may_edit(&policy, "f", "a"), Err("FS_NOT_OBSERVED"));
    }

    #[test]
    fn what_was_seen_is_changed_at_that_version() {
        let policy = policy(4);

        policy.observed(&target("f"), "a", &present("1"));

        assert_eq!(may_write(&policy, "f", "a"), replaces("1"));
        assert_eq!(may_edit(&policy, "f", "a"), Ok("1".to_owned()));
    }

    #[test]
    fn what_was_seen_to_be_absent_can_be_created_and_not_edited() {
        let policy = policy(4);

        policy.observed(&target("f"), "a", &Observation::Absent);

        assert_eq!(may_write(&policy, "f", "a"), WriteIntent::CreateIfAbsent);
        assert_eq!(may_edit(&policy, "f", "a"), Err("FS_NOT_FOUND"));
    }

    #[test]
    fn the_last_sight_counts() {
        let policy = policy(4);
        for (observation, write) in [
            (present("1"), replaces("1")),
            (Observation::Absent, WriteIntent::CreateIfAbsent),
            (present("2"), replaces("2")),
        ] {
            policy.observed(&target("f"), "a", &observation);

            assert_eq!(may_write(&policy, "f", "a"), write);
        }
    }

    #[test]
    fn actors_do_not_see_for_each_other_and_nobody_sees_nothing() {
        let policy = policy(4);

        policy.observed(&target("f"), "a", &present("1"));
        policy.observed(&target("f"), "b", &present("2"));
        policy.observed(&target("f"), "", &present("3"));

        assert_eq!(may_edit(&policy, "f", "a"), Ok("1".to_owned()));
        assert_eq!(may_edit(&policy, "f", "b"), Ok("2".to_owned()));
        assert_eq!(may_edit(&policy, "f", "c"), Err("FS_NOT_OBSERVED"));
        assert_eq!(may_edit(&policy, "f", ""), Err("FS_NOT_OBSERVED"));
        assert_eq!(may_write(&policy, "f", ""), WriteIntent::CreateIfAbsent);
    }

    #[test]
    fn an_actor_that_left_has_seen_nothing_and_takes_no_memory() {
        let policy = policy(4);
        policy.observed(&target("f"), "a", &present("1"));
        policy.observed(&target("f"), "b", &present("1"));

        policy.forget("a");

        assert_eq!(may_edit(&policy, "f", "a"), Err("FS_NOT_OBSERVED"));
        assert_eq!(may_edit(&policy, "f", "b"), Ok("1".to_owned()));
        assert_eq!(policy.actors().len(), 1, "asking remembers nobody");
    }

    #[test]
    fn the_file_that_was_used_longest_ago_is_forgotten_first() {
        let policy = policy(2);
        policy.observed(&target("old"), "a", &present("1"));
        policy.observed(&target("kept"), "a", &present("1"));
        may_write(&policy, "old", "a");

        policy.observed(&target("new"), "a", &present("1"));

        assert_eq!(may_edit(&policy, "kept", "a"), Err("FS_NOT_OBSERVED"));
        assert_eq!(may_edit(&policy, "old", "a"), Ok("1".to_owned()));
        assert_eq!(may_edit(&policy, "new", "a"), Ok("1".to_owned()));
    }

    proptest! {
        #[test]
        fn memory_is_bounded_and_nothing_is_remembered_that_was_not_seen_last(
            steps in proptest::collection::vec((0_u8..6, proptest::option::of(0_u8..4)), 0..60)
        ) {
            let policy = policy(3);
            let mut last = HashMap::new();
            for (file, version) in steps {
                let name = file.to_string();
                match version {
                    Some(version) => {
                        policy.observed(&target(&name), "a", &present(&version.to_string()));
                        last.insert(file, version.to_string());
                    }
                    None => drop(may_edit(&policy, &name, "a")),
                }
                let actors = policy.actors();
                if let Some(sightings) = actors.get("a") {
                    prop_assert!(sightings.by_file.len() <= 3);
                    prop_assert_eq!(sightings.by_file.len(), sightings.by_use.len());
                }
            }
            for file in 0..6 {
                match may_edit(&policy, &file.to_string(), "a") {
                    Ok(version) => prop_assert_eq!(Some(&version), last.get(&file)),
                    Err(code) => prop_assert_eq!(code, "FS_NOT_OBSERVED"),
                }
            }
        }
    }
}
