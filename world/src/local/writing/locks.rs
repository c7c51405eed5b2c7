//! The order of changes within this process: one at a time for each key, first come, first served. Owns the rule that
//! the table holds an entry only while somebody has or waits for its lock.
//!
//! Other processes are not held off; a version in the intent, which is looked at again right before the publication, is
//! what tells of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;

use crate::TargetKey;

/// The locks of one provider.
#[derive(Clone, Debug, Default)]
pub(in crate::local) struct KeyLocks {
    table: Arc<Mutex<HashMap<TargetKey, Entry>>>,
}

#[derive(Debug, Default)]
struct Entry {
    lock: Arc<tokio::sync::Mutex<()>>,
    /// How many have the lock or wait for it.
    users: usize,
}

/// The lock of one key, held until it is dropped.
#[derive(Debug)]
pub(in crate::local) struct KeyLock {
    // Given back before the ticket, so that an entry without users has a free lock.
    _guard: OwnedMutexGuard<()>,
    _ticket: Ticket,
}

/// The place of one user in the table.
#[derive(Debug)]
struct Ticket {
    locks: KeyLocks,
    key: TargetKey,
}

impl KeyLocks {
    /// Waits for the lock of a key. Dropping the future gives the place in the queue up.
    pub(in crate::local) async fn acquire(&self, key: &TargetKey) -> KeyLock {
        let lock = {
            let mut table = self.table();
            let entry = table.entry(key.clone()).or_default();
            entry.users += 1;
            entry.lock.clone()
        };
        let ticket = Ticket {
            locks: self.clone(),
            key: key.clone(),
        };
        KeyLock {
            _guard: lock.lock_owned().await,
            _ticket: ticket,
        }
    }

    fn table(&self) -> MutexGuard<'_, HashMap<TargetKey, Entry>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut table = self.locks.table();
        if let Some(entry) = table.get_mut(&self.key) {
            entry.users -= 1;
            if entry.users == 0 {
                table.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn key(path: &str) -> TargetKey {
        TargetKey::from_resolved(path.into())
    }

    fn poll<F: Future>(future: &mut Pin<&mut F>) -> Poll<F::Output> {
        future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
    }

    fn ready<F: Future>(future: &mut Pin<&mut F>) -> F::Output {
        match poll(future) {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("the lock is not free"),
        }
    }

    #[test]
    fn waiters_come_in_order_and_one_that_leaves_holds_nobody_up() {
        // given a holder and three that wait, of whom the second leaves
        let locks = KeyLocks::default();
        let key = key("/a");
        let holder = ready(&mut pin!(locks.acquire(&key)));
        let mut first = pin!(locks.acquire(&key));
        let mut leaving = Box::pin(locks.acquire(&key));
        let mut last = pin!(locks.acquire(&key));
        assert!(poll(&mut first).is_pending());
        assert!(poll(&mut leaving.as_mut()).is_pending());
        assert!(poll(&mut last).is_pending());
        drop(leaving);

        // when the holder is done, then the first has it and the last waits for that one
        drop(holder);
        assert!(poll(&mut last).is_pending());
        let first = ready(&mut first);
        assert!(poll(&mut last).is_pending());
        drop(first);
        ready(&mut last);
        assert!(locks.table().is_empty());
    }

    #[test]
    fn keys_do_not_wait_for_each_other_and_leave_no_entry() {
        let locks = KeyLocks::default();
        let (one, other) = (key("/a"), key("/b"));

        let held = ready(&mut pin!(locks.acquire(&one)));
        let also_held = ready(&mut pin!(locks.acquire(&other)));

        assert_eq!(locks.table().len(), 2);
        drop((held, also_held));
        assert!(locks.table().is_empty());
    }

    #[test]
    fn a_waiter_that_was_never_polled_leaves_no_entry() {
        let locks = KeyLocks::default();

        drop(locks.acquire(&key("/a")));

        assert!(locks.table().is_empty());
    }
}
