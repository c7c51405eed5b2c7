//! Whether somebody still waits for a change. Owns the one point from which on a change counts: before it, a caller that
//! has gone ends the change; after it, the change is finished whether or not anybody hears of it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::FsError;

const WAITING: u8 = 0;
const GONE: u8 = 1;
const COMMITTED: u8 = 2;

/// Held by the future of a change: dropping it says that nobody waits.
#[derive(Debug)]
pub(in crate::local) struct Presence(Arc<AtomicU8>);

/// Held by the thread that makes the change.
#[derive(Debug)]
pub(in crate::local) struct Caller(Arc<AtomicU8>);

/// Both ends of one change.
pub(in crate::local) fn caller() -> (Presence, Caller) {
    let state = Arc::new(AtomicU8::new(WAITING));
    (Presence(state.clone()), Caller(state))
}

impl Caller {
    /// Gives `FS_ABORTED` once nobody waits any more.
    pub(in crate::local) fn require(&self, display: &Path) -> Result<(), FsError> {
        if self.0.load(Ordering::Acquire) == GONE {
            return Err(aborted(display));
        }
        Ok(())
    }

    /// Makes the change count from now on, or gives `FS_ABORTED` when nobody waits: never both.
    pub(in crate::local) fn commit(&self, display: &Path) -> Result<(), FsError> {
        self.0
            .compare_exchange(WAITING, COMMITTED, Ordering::AcqRel, Ordering::Acquire)
            .map_or_else(|_| Err(aborted(display)), |_| Ok(()))
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        // A change that counts already is finished.
        let _ = self
            .0
            .compare_exchange(WAITING, GONE, Ordering::AcqRel, Ordering::Acquire);
    }
}

fn aborted(display: &Path) -> FsError {
    FsError::Aborted {
        path: display.to_path_buf(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_that_goes_before_the_commit_ends_the_change() {
        let (presence, caller) = caller();
        caller.require(Path::new("/x")).unwrap();

        drop(presence);

        assert_eq!(
            caller.require(Path::new("/x")).unwrap_err().code(),
            "FS_ABORTED"
        );
        assert_eq!(
            caller.commit(Path::new("/x")).unwrap_err().code(),
            "FS_ABORTED"
        );
    }

    #[test]
    fn a_caller_that_goes_after_the_commit_changes_nothing() {
        let (presence, caller) = caller();
        caller.commit(Path::new("/x")).unwrap();

        drop(presence);

        caller.require(Path::new("/x")).unwrap();
    }
}
