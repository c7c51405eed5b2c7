//! The sight of a tree, shared by its owner and by its handle. Owns the memory of who was seen in it, and the rule that
//! nothing is looked at any more once its end was proved: its ids may belong to strangers then.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::observation::{self, Observed};
use super::table::Identity;
use super::tree::Tree;
use crate::{TerminateError, TreeUsage};

/// A sight of one tree.
#[derive(Clone, Debug)]
pub(in crate::local) struct TreeView {
    /// `None` once its end was proved.
    tree: Arc<Mutex<Option<Tree>>>,
}

impl TreeView {
    /// The sight of a tree that is owned by the caller.
    pub(super) fn new(tree: Tree) -> Self {
        Self {
            tree: Arc::new(Mutex::new(Some(tree))),
        }
    }

    /// Who runs now. Those who are seen for the first time belong to the tree from now on, also when they leave it.
    /// Nobody once the end was proved.
    #[allow(dead_code, reason = "terminals look at their members")]
    pub(in crate::local) async fn look(&self) -> Result<Vec<Identity>, TerminateError> {
        let observed = self.observe().await?;
        Ok(observed.identities())
    }

    /// What the tree uses now; `None` where that cannot be told, and after its end.
    #[allow(dead_code, reason = "not told yet")]
    #[allow(clippy::unused_async, reason = "it will look at the tree")]
    pub(in crate::local) async fn usage(&self) -> Option<TreeUsage> {
        None
    }

    /// Looks at the tree, on the blocking pool.
    pub(super) async fn observe(&self) -> Result<Observed, TerminateError> {
        let view = self.clone();
        let observed = match tokio::task::spawn_blocking(move || view.observe_now()).await {
            Ok(observed) => observed,
            Err(error) => Err(io::Error::other(error)),
        };
        observed.map_err(|error| TerminateError::Unproved {
            reason: error.to_string(),
        })
    }

    /// Looks at the tree in this thread. Blocks.
    pub(super) fn observe_now(&self) -> io::Result<Observed> {
        match &mut *self.tree.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(tree) => observation::observe(tree),
            None => Ok(Observed::nobody()),
        }
    }

    /// Never looks again.
    pub(super) fn close(&self) {
        *self.tree.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
