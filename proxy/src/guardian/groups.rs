//! The control groups of a guardian: one folder of them, named by the guardian's identity, so that whoever finds it can
//! tell whether its owner still lives.
//!
//! The guardian makes the folder before it starts the guarded process, and removes it after the last tree; the guarded
//! process finds it by its guardian. A folder whose guardian is dead holds only what nobody wants any more: a guarded
//! process that is still there is ending all of it too.

use crate::local::processes::{self, ControlGroups, ProcessEntry, ProcessIdentity};

/// Makes the folder of this process, which is a guardian. `None` where control groups cannot be made.
///
/// Blocks.
pub(crate) fn make() -> Option<ControlGroups> {
    ControlGroups::make(&name_of(std::process::id())?)
}

/// The folder that this guardian has made, if it has. Blocks.
pub(crate) fn of(guardian: u32) -> Option<ControlGroups> {
    let name = name_of(guardian)?;
    let mut siblings = ControlGroups::siblings().into_iter();
    siblings.find(|groups| groups.name() == name)
}

/// The folders of guardians that are dead. Blocks.
pub(crate) fn abandoned() -> Vec<ControlGroups> {
    let Some(namespace) = processes::pid_namespace() else {
        return Vec::new();
    };
    let mut groups = ControlGroups::siblings();
    groups.retain(|groups| is_abandoned(groups.name(), &namespace));
    groups
}

fn name_of(guardian: u32) -> Option<String> {
    let identity = ProcessEntry::read(guardian)?.identity;
    Some(name(&processes::pid_namespace()?, identity))
}

fn name(namespace: &str, guardian: ProcessIdentity) -> String {
    format!("{namespace}-{}-{}", guardian.pid, guardian.start)
}

/// Whether a folder of this name belongs to a dead guardian, judged from this pid namespace; what is not named by a
/// guardian, or by one of another namespace, is never called so.
fn is_abandoned(name: &str, own_namespace: &str) -> bool {
    parse(name)
        .is_some_and(|(namespace, guardian)| namespace == own_namespace && !guardian.is_alive())
}

fn parse(name: &str) -> Option<(&str, ProcessIdentity)> {
    let mut parts = name.split('-');
    let (namespace, pid, start) = (parts.next()?, parts.next()?, parts.next()?);
    let identity = ProcessIdentity {
        pid: pid.parse().ok()?,
        start: start.parse().ok()?,
    };
    parts.next().is_none().then_some((namespace, identity))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_the_folder_of_a_dead_guardian_of_this_namespace_is_abandoned() {
        let namespace = processes::pid_namespace().unwrap();
        let own = ProcessEntry::read(std::process::id()).unwrap().identity;
        let dead = ProcessIdentity {
            start: own.start + 1,
            ..own
        };
        assert!(!is_abandoned(&name(&namespace, own), &namespace));
        assert!(is_abandoned(&name(&namespace, dead), &namespace));
        assert!(!is_abandoned(&name("1", dead), &namespace));
        for strange in ["", "a", "1-2", "1-2-3-4", "1-x-3", "1-2-x"] {
            assert!(!is_abandoned(strange, "1"), "{strange:?}");
        }
    }

    proptest! {
        #[test]
        fn a_guardian_survives_its_name(namespace in "[0-9]{1,12}", pid: u32, start: u64) {
            let guardian = ProcessIdentity { pid, start };
            let name = name(&namespace, guardian);
            prop_assert_eq!(parse(&name), Some((&*namespace, guardian)));
        }

        #[test]
        fn any_name_is_read_or_refused(name in "\\PC*") {
            let _ = parse(&name);
        }
    }
}
