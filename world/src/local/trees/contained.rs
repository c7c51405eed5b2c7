//! One started process with its tree. Owns the child until its tree is proved gone: the child is not reaped before, since
//! its unreaped id is what keeps the group's id from being reused. Dropping it kills what is left and reaps the child.

use std::collections::HashSet;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::bonds::Bonds;
use super::group::Changes;
use super::ladder::{Circle, Order, Rung, Signalled, Step};
use super::observation::Proof;
use super::signals;
use super::table::ProcessIdentity;
use super::tree::Tree;
use super::view::{Remains, TreeView};
use crate::TerminateError;

/// How long the last kill at a drop may take. The runtime is going down then; nobody is left to ask later.
const LAST_KILL: Duration = Duration::from_millis(500);

/// A started child and its tree.
#[derive(Debug)]
pub(in crate::local) struct Contained {
    child: Child,
    view: TreeView,
    is_reaped: bool,
}

impl Contained {
    /// Takes over a child that leads its own process group. Blocks.
    pub(in crate::local) fn new(child: Child, bonds: Bonds) -> Self {
        let pid = child.id();
        let group = bonds.group.filter(|group| {
            let has_joined = group.has(pid);
            if !has_joined {
                tracing::debug!(pid, "a process did not join its control group");
            }
            has_joined
        });
        Self {
            child,
            view: TreeView::new(Tree::new(pid, bonds.marker), group),
            is_reaped: false,
        }
    }

    /// The process id of the child.
    pub(in crate::local) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The child, for its pipes.
    pub(in crate::local) fn child_mut(&mut self) -> &mut Child {
        &mut self.child
    }

    /// A sight of the tree for its handle.
    pub(in crate::local) fn view(&self) -> TreeView {
        self.view.clone()
    }

    /// Ends the tree in the given order, each of its parts by SIGTERM, `grace`, SIGKILL. When it answers, nothing of the
    /// tree runs.
    pub(in crate::local) async fn end(
        &self,
        grace: Duration,
        order: Order,
    ) -> Result<(), TerminateError> {
        let mut survivors = Vec::new();
        for rung in order.rungs(grace) {
            // Who outlives one rung is met again on the last, which is for all.
            survivors = self.climb(&rung).await?;
        }
        if survivors.is_empty() {
            Ok(())
        } else {
            Err(TerminateError::Survivors { pids: survivors })
        }
    }

    /// Takes the steps of a rung until its circle is empty, and gives the ids of those who are left after the last.
    async fn climb(&self, rung: &Rung) -> Result<Vec<u32>, TerminateError> {
        let mut survivors = HashSet::new();
        for step in &rung.0 {
            survivors = self.take(step).await?;
            if survivors.is_empty() {
                break;
            }
        }
        let mut pids: Vec<u32> = survivors.into_iter().map(|one| one.pid).collect();
        pids.sort_unstable();
        Ok(pids)
    }

    /// Takes one step and gives those of its circle who are left after it.
    ///
    /// Of the members alone, those are waited for whom the first look finds: a root that starts programs in a loop would
    /// never be without one. Newcomers are ended with the next step.
    async fn take(&self, step: &Step) -> Result<HashSet<ProcessIdentity>, TerminateError> {
        let deadline = tokio::time::Instant::now() + step.patience;
        let changes = self.view.changes();
        let mut pause = Pause::default();
        let mut proof = Proof::default();
        let mut signalled = Signalled::default();
        let mut is_glance_enough = false;
        let mut first_seen = None;
        loop {
            let looked = if is_glance_enough {
                self.view.glance().await
            } else {
                self.view.observe().await
            };
            let observed = match looked {
                Ok(observed) => observed,
                Err(error) => {
                    // What cannot be observed cannot be given a grace that ends; the error says that nothing is proved.
                    signals::signal_group(self.pid(), Signal::KILL);
                    return Err(error);
                }
            };
            let left = step.circle.awaited(&observed, self.pid());
            if step.circle == Circle::Members {
                let first_seen = first_seen.get_or_insert_with(|| left.clone());
                if !left.iter().any(|one| first_seen.contains(one)) {
                    return Ok(left);
                }
            }
            if proof.add(left.is_empty(), &observed) {
                return Ok(HashSet::new());
            }
            is_glance_enough = !left.is_empty();
            if left.is_empty() && !observed.is_whole {
                continue;
            }
            if step.ends_all()
                && let Some(group) = self.view.group()
            {
                group.kill();
            }
            signalled.send(self.pid(), &observed, step);
            if tokio::time::Instant::now() >= deadline && !left.is_empty() {
                return Ok(left);
            }
            pause.wait_or(changes.as_ref()).await;
        }
    }

    /// What is left of the tree, whose child has exited.
    pub(in crate::local) async fn remains(&self) -> Result<Remains, TerminateError> {
        self.view.remains().await
    }

    /// The coming changes of whether anybody is left; `None` where only looking tells.
    pub(super) fn changes(&self) -> Option<Changes> {
        self.view.changes()
    }

    /// Reaps the child, whose tree is gone, and removes what held the tree together.
    pub(in crate::local) async fn reap(&mut self) {
        let group = self.view.close();
        self.is_reaped = true;
        if let Err(error) = self.child.wait() {
            tracing::warn!(pid = self.child.id(), %error, "an ended process could not be reaped");
        }
        if let Some(group) = group {
            // A removal that the end of the runtime cuts off is done by dropping the group.
            let _ = tokio::task::spawn_blocking(move || group.remove()).await;
        }
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        if self.is_reaped {
            return;
        }
        let last = Step {
            circle: Circle::All,
            signal: Signal::KILL,
            patience: LAST_KILL,
        };
        signals::signal_group(self.child.id(), last.signal);
        let deadline = Instant::now() + last.patience;
        let mut proof = Proof::default();
        while Instant::now() < deadline {
            if let Some(group) = self.view.group() {
                group.kill();
            }
            let Ok(observed) = self.view.observe_now() else {
                break;
            };
            if proof.add(observed.is_empty(), &observed) {
                break;
            }
            Signalled::default().send(self.child.id(), &observed, &last);
            std::thread::sleep(Duration::from_millis(2));
        }
        drop(self.view.close());
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            tracing::warn!(
                pid = self.child.id(),
                "a process was left behind at the end of its owner"
            );
        }
    }
}

/// Pauses that grow: an end is mostly seen at once, a long grace is not spent on looking.
#[derive(Debug)]
pub(in crate::local) struct Pause(Duration);

impl Default for Pause {
    fn default() -> Self {
        Self(Duration::from_millis(2))
    }
}

impl Pause {
    /// Waits, and doubles the next pause up to 100 milliseconds.
    pub(in crate::local) async fn wait(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(Duration::from_millis(100));
    }

    /// Waits no longer than until the next change.
    pub(super) async fn wait_or(&mut self, changes: Option<&Changes>) {
        let Some(changes) = changes else {
            return self.wait().await;
        };
        tokio::select! {
            () = self.wait() => {}
            Ok(()) = changes.next() => {}
        }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read};
    use std::os::unix::process::CommandExt;
    use std::process::{ChildStdout, Command, Stdio};

    /// A started script with its output, after its first line.
    fn start(script: &str) -> (Contained, BufReader<ChildStdout>) {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).process_group(0);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let marker = format!("{}-{:?}", std::process::id(), std::thread::current().id());
        command.env("LADDER_TEST", &marker);
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut String::new()).unwrap();
        let bonds = Bonds {
            marker: Some(format!("LADDER_TEST={marker}").into_bytes()),
            group: None,
        };
        (Contained::new(child, bonds), output)
    }

    async fn ended(script: &str, grace: Duration, order: Order) -> String {
        let (mut contained, mut output) = start(script);
        contained.end(grace, order).await.unwrap();
        assert_eq!(contained.remains().await.unwrap(), Remains::Nothing);
        contained.reap().await;
        let mut printed = String::new();
        output.read_to_string(&mut printed).unwrap();
        printed
    }

    const LONG: Duration = Duration::from_mins(1);
    const SHORT: Duration = Duration::from_millis(100);

    #[tokio::test]
    async fn the_root_is_asked_after_its_members_have_ended() {
        let script =
            "sh -c 'trap \"echo member; exit\" TERM; echo ready; while :; do sleep 0.01; done' &
            trap 'echo root; exit' TERM; while :; do wait; done";

        assert_eq!(
            ended(script, LONG, Order::MembersFirst).await,
            "member\nroot\n"
        );
    }

    #[tokio::test]
    async fn a_root_that_stays_is_killed_after_its_members() {
        let script = "sh -c 'trap \"\" TERM; echo ready; while :; do sleep 0.01; done' &
            trap 'echo root' TERM; while :; do wait; done";

        assert_eq!(ended(script, SHORT, Order::MembersFirst).await, "root\n");
    }

    #[tokio::test]
    async fn what_the_root_starts_while_it_ends_is_swept_after_it() {
        let script = "trap '(setsid sh -c \"trap \\\"\\\" TERM; echo new; while :; do sleep 0.01; done\" &); exit' TERM
            echo ready; while :; do sleep 0.01; done";

        // The output ends only when nobody is left who could write to it.
        let printed = ended(script, SHORT, Order::MembersFirst).await;

        assert!(["new\n", ""].contains(&printed.as_str()), "{printed}");
    }

    #[tokio::test]
    async fn a_root_that_starts_programs_in_a_loop_does_not_use_up_its_grace() {
        let script = "echo ready; trap 'echo root; exit' TERM; while :; do sleep 1000; done";

        assert_eq!(ended(script, LONG, Order::MembersFirst).await, "root\n");
    }

    #[tokio::test]
    async fn nobody_is_looked_at_after_the_end() {
        let (mut contained, _output) = start("echo ready; exec sleep 1000");
        let view = contained.view();
        assert_eq!(view.look().await.unwrap().len(), 1);
        assert!(view.usage().await.is_some());

        contained.end(LONG, Order::Together).await.unwrap();
        contained.reap().await;

        assert_eq!(view.look().await.unwrap(), []);
        assert_eq!(view.usage().await, None);
    }
}
