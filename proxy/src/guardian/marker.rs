//! The tree marker: the variable by which a process is known to belong to a daemon, also when both the daemon and its
//! guardian are gone.
//!
//! It names both with their start times, and the pid namespace in which those numbers mean something, so that a tree is
//! called abandoned only when its two owners are certainly dead. The world adds a number to the value for each tree of
//! the daemon, which is read over here: it does not change whose tree it is.

use std::fmt;
use std::str::FromStr;

use crate::local::processes::{self, ProcessEntry, ProcessIdentity};

/// The value of the marker.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct TreeMarker {
    namespace: String,
    guardian: ProcessIdentity,
    daemon: ProcessIdentity,
}

impl TreeMarker {
    /// The marker of this process's own tree, below this guardian. `None` when the process table cannot be read.
    pub(crate) fn own(guardian: u32) -> Option<Self> {
        Some(Self {
            namespace: processes::pid_namespace()?,
            guardian: ProcessEntry::read(guardian)?.identity,
            daemon: ProcessEntry::read(std::process::id())?.identity,
        })
    }

    /// Whether both owners are dead, judged from this pid namespace; what belongs to another one is never called so.
    pub(crate) fn is_abandoned(&self, own_namespace: &str) -> bool {
        self.namespace == own_namespace && !self.guardian.is_alive() && !self.daemon.is_alive()
    }
}

impl fmt::Display for TreeMarker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}:{}.{}:{}.{}",
            self.namespace,
            self.guardian.pid,
            self.guardian.start,
            self.daemon.pid,
            self.daemon.start
        )
    }
}

impl FromStr for TreeMarker {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let owner = |text: &str| {
            let mut numbers = text.split('.');
            let (pid, started) = (numbers.next().ok_or(())?, numbers.next().ok_or(())?);
            Ok::<_, ()>(ProcessIdentity {
                pid: pid.parse().map_err(|_| ())?,
                start: started.parse().map_err(|_| ())?,
            })
        };
        let mut parts = text.split(':');
        let (Some(namespace), Some(guardian), Some(daemon), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(());
        };
        Ok(Self {
            namespace: namespace.to_owned(),
            guardian: owner(guardian)?,
            daemon: owner(daemon)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_marker_of_a_living_owner_is_not_abandoned() {
        let namespace = processes::pid_namespace().unwrap();
        let marker = TreeMarker::own(std::process::id()).unwrap();
        assert!(!marker.is_abandoned(&namespace));
    }

    #[test]
    fn an_id_that_was_used_again_is_not_the_owner() {
        let namespace = processes::pid_namespace().unwrap();
        let mut marker = TreeMarker::own(std::process::id()).unwrap();
        marker.guardian.start += 1;
        assert!(!marker.is_abandoned(&namespace), "the daemon still lives");
        marker.daemon.start += 1;
        assert!(marker.is_abandoned(&namespace));
        assert!(
            !marker.is_abandoned("another"),
            "numbers of another namespace mean nothing here"
        );
    }

    proptest! {
        #[test]
        fn a_marker_survives_its_text(namespace in "[0-9]{0,12}", pids: [u32; 2], starts: [u64; 2]) {
            let owner = |at: usize| ProcessIdentity { pid: pids[at], start: starts[at] };
            let marker = TreeMarker { namespace, guardian: owner(0), daemon: owner(1) };
            prop_assert_eq!(marker.to_string().parse::<TreeMarker>(), Ok(marker));
        }

        #[test]
        fn a_trees_own_number_does_not_change_its_owners(number: u64) {
            let own = TreeMarker::own(std::process::id()).unwrap();
            prop_assert_eq!(format!("{own}.{number}").parse::<TreeMarker>(), Ok(own));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*") {
            let _ = text.parse::<TreeMarker>();
        }
    }
}
