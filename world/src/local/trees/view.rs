//! The sight of a tree, shared by its owner and by its handle. Owns the memory of who was seen in it, and the rule that
//! nothing is looked at any more once its end was proved: its ids may belong to strangers then.
//!
//! A look at everything reads the process table and, where there is one, the tree's control group. A quick look reads the
//! group alone; it is enough while no member was ever seen outside of the group.
//!
//! On Linux the process table tells every member; elsewhere on Unix the process group is all that can be seen, which the
//! provider's facts say.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::group::{Changes, TreeGroup};
use super::observation::{Observed, Proof};
use super::table::{self, ProcessEntry, ProcessIdentity, ProcessTable};
use super::tree::Tree;
use super::{looks, signals, usage};
use crate::{TerminateError, TreeUsage};

/// A sight of one tree.
#[derive(Clone, Debug)]
pub(in crate::local) struct TreeView(Arc<Sight>);

/// What is left of a tree whose root has exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::local) enum Remains {
    /// Nothing, and that is for good.
    Nothing,
    /// Processes that are on their way out, of whose end no more is told.
    Moments,
    /// Processes that run.
    Processes,
}

#[derive(Debug)]
struct Sight {
    /// `None` once its end was proved.
    tree: Mutex<Option<Tree>>,
    /// `None` where the tree is in none, and after the group was removed.
    group: Mutex<Option<Arc<TreeGroup>>>,
    /// Whether a member was seen outside of the control group.
    has_strays: AtomicBool,
}

impl TreeView {
    /// The sight of a tree that is owned by the caller, and whose root has joined the group.
    pub(super) fn new(tree: Tree, group: Option<TreeGroup>) -> Self {
        Self(Arc::new(Sight {
            tree: Mutex::new(Some(tree)),
            group: Mutex::new(group.map(Arc::new)),
            has_strays: AtomicBool::new(false),
        }))
    }

    /// Who runs now. Those who are seen for the first time belong to the tree from now on, also when they leave it.
    /// Nobody once the end was proved.
    pub(in crate::local) async fn look(&self) -> Result<Vec<ProcessIdentity>, TerminateError> {
        let observed = self.observe().await?;
        Ok(observed.identities())
    }

    /// What the tree uses now; `None` where that cannot be told, and after its end.
    pub(in crate::local) async fn usage(&self) -> Option<TreeUsage> {
        let sight = Arc::clone(&self.0);
        blocking(move || Ok(sight.usage())).await.ok().flatten()
    }

    /// Looks at everything.
    pub(super) async fn observe(&self) -> Result<Observed, TerminateError> {
        let sight = Arc::clone(&self.0);
        blocking(move || sight.observe()).await
    }

    /// Looks at the control group alone where that is enough, else at everything.
    pub(super) async fn glance(&self) -> Result<Observed, TerminateError> {
        let sight = Arc::clone(&self.0);
        blocking(move || sight.glance()).await
    }

    /// What is left of the tree, whose root has exited and is not reaped.
    pub(super) async fn remains(&self) -> Result<Remains, TerminateError> {
        let sight = Arc::clone(&self.0);
        blocking(move || sight.remains()).await
    }

    /// Looks at everything, in this thread. Blocks.
    pub(super) fn observe_now(&self) -> io::Result<Observed> {
        self.0.observe()
    }

    /// The control group, while it is there.
    pub(super) fn group(&self) -> Option<Arc<TreeGroup>> {
        self.0.group().clone()
    }

    /// The coming changes of the control group, where it alone tells whether the tree is gone.
    pub(super) fn changes(&self) -> Option<Changes> {
        self.0.sole_group()?.changes()
    }

    /// Never looks again, and gives back the control group.
    pub(super) fn close(&self) -> Option<Arc<TreeGroup>> {
        *self.0.tree() = None;
        self.0.group().take()
    }
}

impl Sight {
    fn tree(&self) -> MutexGuard<'_, Option<Tree>> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn group(&self) -> MutexGuard<'_, Option<Arc<TreeGroup>>> {
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The control group, where no member was ever seen outside of it.
    fn sole_group(&self) -> Option<Arc<TreeGroup>> {
        if self.has_strays.load(Ordering::Relaxed) {
            return None;
        }
        self.group().clone()
    }

    fn observe(&self) -> io::Result<Observed> {
        if !cfg!(target_os = "linux") {
            return Ok(self.observe_group());
        }
        let table = looks::table()?;
        let group = self.group().clone();
        let Some(tree) = &mut *self.tree() else {
            return Ok(proved_empty());
        };
        let members = match group {
            Some(group) => self.members_with(tree, &table, &group)?,
            None => tree.members(&table, &HashSet::new()),
        };
        Ok(Observed {
            members,
            is_whole: true,
            is_exhaustive: table.is_exhaustive(),
        })
    }

    /// The members by the table and by the control group.
    fn members_with(
        &self,
        tree: &mut Tree,
        table: &ProcessTable,
        group: &TreeGroup,
    ) -> io::Result<Vec<ProcessEntry>> {
        let held = group.folder().processes()?;
        let mut members = tree.members(table, &held);
        let seen: HashSet<u32> = members.iter().map(|entry| entry.identity.pid).collect();
        // Who joined after the table was read.
        if !held.is_subset(&seen) {
            let newcomers = group.members()?;
            let is_new = |entry: &ProcessEntry| !seen.contains(&entry.identity.pid);
            let newcomers: Vec<ProcessEntry> = newcomers.into_iter().filter(is_new).collect();
            tree.remember(newcomers.iter().map(|entry| entry.identity));
            members.extend(newcomers);
        }
        let is_stray = |entry: &ProcessEntry| {
            let pid = entry.identity.pid;
            entry.is_live && !held.contains(&pid) && seen.contains(&pid) && !group.has(pid)
        };
        // One that ended meanwhile was no stray.
        if members
            .iter()
            .any(|entry| is_stray(entry) && entry.identity.is_alive())
        {
            self.has_strays.store(true, Ordering::Relaxed);
        }
        Ok(members)
    }

    fn glance(&self) -> io::Result<Observed> {
        let Some(group) = self.sole_group() else {
            return self.observe();
        };
        let Some(tree) = &mut *self.tree() else {
            return Ok(proved_empty());
        };
        let mut members = group.members()?;
        let held: HashSet<ProcessIdentity> = members.iter().map(|entry| entry.identity).collect();
        members.extend(still_living(tree, &held));
        tree.remember_only(members.iter().map(|entry| entry.identity));
        Ok(Observed {
            members,
            is_whole: false,
            is_exhaustive: false,
        })
    }

    /// Costs one small file where a control group tells, or where nothing was started after the root; else one reading
    /// of the table, or two where something was started meanwhile.
    fn remains(&self) -> io::Result<Remains> {
        if let Some(group) = self.sole_group() {
            if group.folder().is_populated()? {
                return Ok(Remains::Processes);
            }
            // The group lets go of a process shortly before the table calls it ended.
            let tree = self.tree();
            let is_left = |tree: &Tree| !still_living(tree, &HashSet::new()).is_empty();
            return Ok(if tree.as_ref().is_some_and(is_left) {
                Remains::Moments
            } else {
                Remains::Nothing
            });
        }
        let root = self.tree().as_ref().map(Tree::root);
        if root.is_none_or(|root| table::last_pid() == Some(root)) {
            // Nothing was started after the root, so it started nobody.
            return Ok(Remains::Nothing);
        }
        let mut proof = Proof::default();
        loop {
            let observed = self.observe()?;
            if !observed.is_empty() {
                return Ok(Remains::Processes);
            }
            if proof.add(true, &observed) {
                return Ok(Remains::Nothing);
            }
        }
    }

    fn usage(&self) -> Option<TreeUsage> {
        if !cfg!(target_os = "linux") {
            return None;
        }
        let group = self.sole_group();
        let observed = self.glance().ok()?;
        if observed.is_empty() {
            return None;
        }
        let whole = group.and_then(|group| group.folder().cpu_time());
        let memory = observed.living().map(|entry| entry.identity.pid);
        Some(TreeUsage {
            processes: u32::try_from(observed.living().count()).unwrap_or(u32::MAX),
            memory_bytes: memory.map(usage::memory_bytes).sum(),
            cpu: whole.unwrap_or_else(|| usage::cpu_time(&observed.members)),
            cpu_is_whole: whole.is_some(),
        })
    }

    /// Looks at the group of the root, which is all that can be seen. A group of zombies alone answers EPERM or ESRCH to
    /// a signal.
    fn observe_group(&self) -> Observed {
        let Some(root) = self.tree().as_ref().map(Tree::root) else {
            return proved_empty();
        };
        let is_alive = signals::kernel_id(root)
            .is_some_and(|group| rustix::process::test_kill_process_group(group).is_ok());
        let leader = ProcessEntry {
            identity: ProcessIdentity {
                pid: root,
                start: 0,
            },
            parent: std::process::id(),
            group: root,
            session: 0,
            is_live: true,
            cpu_ticks: 0,
        };
        Observed {
            members: is_alive.then_some(leader).into_iter().collect(),
            is_whole: true,
            is_exhaustive: false,
        }
    }
}

/// Those members of the last look, other than `others`, who still run.
fn still_living(tree: &Tree, others: &HashSet<ProcessIdentity>) -> Vec<ProcessEntry> {
    let missing = tree.known().difference(others);
    missing
        .filter_map(|identity| {
            let entry = ProcessEntry::read(identity.pid)?;
            (entry.identity == *identity && entry.is_live).then_some(entry)
        })
        .collect()
}

/// What is seen of a tree whose end was proved.
fn proved_empty() -> Observed {
    Observed {
        members: Vec::new(),
        is_whole: true,
        is_exhaustive: true,
    }
}

/// Runs a look on the blocking pool.
async fn blocking<T: Send + 'static>(
    look: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, TerminateError> {
    let looked = match tokio::task::spawn_blocking(look).await {
        Ok(looked) => looked,
        Err(error) => Err(io::Error::other(error)),
    };
    looked.map_err(|error| TerminateError::Unproved {
        reason: error.to_string(),
    })
}
