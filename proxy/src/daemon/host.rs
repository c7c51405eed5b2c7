//! What serves connections, in the daemon and in a `--no-daemon` process alike: the pool, who is attached, and the
//! decision to leave.
//!
//! Invariant: a connection is either registered before the host decided to leave, and then it is served, or it is
//! turned away before its acknowledgement, so that its face can go elsewhere without having lost a byte.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::config::Settings;
use crate::defaults::{FIRST_CLIENT, ORPHANED_GRACE, PARTING_TIMEOUT, SWEEP_TIMEOUT};
use crate::guardian::marker::TreeMarker;
use crate::guardian::{INTERNAL, groups, is_guardian_gone, sweep};
use crate::local::processes::ControlGroups;
use crate::serve::Serving;

/// Who is attached, as `status` shows it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Attached {
    /// The peer's process id.
    pub(crate) pid: u32,
    /// The program that started the face, by its short name.
    pub(crate) name: String,
    /// `server`, `connect` or `stop`.
    pub(crate) face: &'static str,
    /// The program of a server connection, without its arguments.
    pub(crate) program: Option<String>,
}

/// Why a connection was not registered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NotRegistered {
    /// The host is leaving.
    Leaving,
    /// There are as many as the limit allows.
    Full,
}

/// The parts that all connections share.
pub(crate) struct Host {
    /// The pool behind all connections.
    pub(crate) serving: Serving,
    /// What the configuration file says.
    pub(crate) settings: Settings,
    guardian: u32,
    marker: Option<TreeMarker>,
    groups: Option<Arc<ControlGroups>>,
    started: Instant,
    state: Mutex<State>,
    activity: watch::Sender<u64>,
    leaving: CancellationToken,
    ended: CancellationToken,
    partings: TaskTracker,
}

/// Keeps the pool for the one who asked the host to leave: the pool does not end while it lives.
#[derive(Debug)]
pub(crate) struct Parting {
    _token: TaskTrackerToken,
}

#[derive(Debug, Default)]
struct State {
    attached: BTreeMap<u64, Attached>,
    next: u64,
    leaving: bool,
}

/// A registered connection; dropping it takes the entry away.
pub(crate) struct Registration<'a> {
    host: &'a Host,
    key: u64,
}

impl Host {
    /// Starts the pool. Must be called inside a runtime.
    pub(crate) fn start(settings: Settings, guardian: u32) -> Self {
        let marker = TreeMarker::own(guardian);
        let groups = groups::of(guardian).map(Arc::new);
        let serving = Serving::start(&settings, marker.as_ref(), groups.clone());
        Self {
            serving,
            settings,
            guardian,
            marker,
            groups,
            started: Instant::now(),
            state: Mutex::default(),
            activity: watch::Sender::new(0),
            leaving: CancellationToken::new(),
            ended: CancellationToken::new(),
            partings: TaskTracker::new(),
        }
    }

    /// Registers a connection, unless the host is leaving or full.
    pub(crate) fn register(&self, who: Attached) -> Result<Registration<'_>, NotRegistered> {
        let mut state = self.state();
        if state.leaving {
            return Err(NotRegistered::Leaving);
        }
        if state.attached.len() as u64 >= self.settings.numbers.connections {
            return Err(NotRegistered::Full);
        }
        let key = state.next;
        state.next += 1;
        state.attached.insert(key, who);
        drop(state);
        self.activity.send_modify(|count| *count += 1);
        Ok(Registration { host: self, key })
    }

    /// Who is attached now.
    pub(crate) fn attached(&self) -> Vec<Attached> {
        self.state().attached.values().cloned().collect()
    }

    /// Decides to leave, whoever is attached.
    pub(crate) fn leave(&self) {
        self.state().leaving = true;
        self.leaving.cancel();
    }

    /// Decides to leave at somebody's word: not while editors are attached, unless forced. The error names them.
    ///
    /// Looking and deciding are one step, so that an editor is either named here or turned away.
    pub(crate) fn leave_unless_attached(&self, force: bool) -> Result<Parting, String> {
        let mut state = self.state();
        let editors: Vec<String> = state
            .attached
            .values()
            .filter(|attached| attached.face == "server")
            .map(|attached| format!("{} (process {})", attached.name, attached.pid))
            .collect();
        if !force && !editors.is_empty() {
            return Err(format!(
                "editors are attached: {}; `lspool stop --force` ends the daemon all the same",
                editors.join(", ")
            ));
        }
        state.leaving = true;
        drop(state);
        let parting = Parting {
            _token: self.partings.token(),
        };
        self.leaving.cancel();
        Ok(parting)
    }

    /// Lets the pool end once the one who asked for it has taken its leave, or does not within a bound.
    pub(crate) fn end_after(&self, parting: Parting, over: CancellationToken) {
        self.partings.spawn(async move {
            // One who stays has had its answer, or does not read it.
            let _ = tokio::time::timeout(PARTING_TIMEOUT, over.cancelled_owned()).await;
            drop(parting);
        });
    }

    /// Resolves when the host has decided to leave.
    pub(crate) async fn left(&self) {
        self.leaving.cancelled().await;
    }

    /// Resolves when the end ladder is done.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Leaves when nothing was attached or running for as long as the configuration says.
    pub(crate) async fn leave_when_idle(&self) {
        let configured = Duration::from_millis(self.settings.numbers.idle_daemon_ms);
        let mut activity = self.activity.subscribe();
        loop {
            self.serving.idle().await;
            let is_unused = *activity.borrow_and_update() == 0;
            // Whoever had it started is on the way, however short the configured time is.
            let patience = if is_unused {
                configured.max(FIRST_CLIENT)
            } else {
                configured
            };
            tokio::select! {
                () = tokio::time::sleep(patience) => {
                    if self.leave_if_unused() {
                        return;
                    }
                }
                // The sender lives in this very value, so a change is the only way to get here.
                _ = activity.changed() => {}
            }
        }
    }

    /// Runs the end ladder: every tree is proved gone when it returns. Failures are logged and told.
    pub(crate) async fn end(&self) -> Result<(), String> {
        if is_guardian_gone(self.guardian) {
            self.end_orphaned().await;
        }
        self.partings.close();
        self.partings.wait().await;
        let outcome = self.serving.shutdown().await;
        if let Err(error) = &outcome {
            tracing::error!(%error, "the end ladder failed");
        }
        self.ended.cancel();
        outcome
    }

    /// What whoever attaches should know of the configuration file.
    pub(crate) async fn configuration_remark(&self) -> Option<String> {
        let settings = self.settings.clone();
        // A look that failed is no remark.
        tokio::task::spawn_blocking(move || settings.remark())
            .await
            .unwrap_or_default()
    }

    /// Facts about this process for `status`.
    pub(crate) async fn facts(&self) -> serde_json::Value {
        let configuration = self.configuration_remark().await;
        serde_json::json!({
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "guardianPid": self.guardian,
            "uptimeMs": self.started.elapsed().as_millis() as u64,
            "configuration": configuration.as_deref().unwrap_or("in force"),
            "connections": self.attached(),
        })
    }

    /// Without the guardian nobody else would end what escaped the pool's own trees, and it is time to hurry. Ends this
    /// process too: whoever is attached learns it from the end of its socket, and nothing that is still said to anybody
    /// may hold it up.
    async fn end_orphaned(&self) -> ! {
        tracing::error!("the guardian is gone; ending everything that was started");
        let begun = Instant::now();
        let _ = tokio::time::timeout(ORPHANED_GRACE, self.serving.shutdown()).await;
        let (groups, marker) = (self.groups.clone(), self.marker.clone());
        let sweep = move || sweep::end_own(groups, marker.as_ref(), SWEEP_TIMEOUT);
        let swept = tokio::task::spawn_blocking(sweep).await;
        tracing::info!(
            ?swept,
            took_ms = begun.elapsed().as_millis() as u64,
            "swept the tree"
        );
        std::process::exit(i32::from(INTERNAL))
    }

    fn leave_if_unused(&self) -> bool {
        let mut state = self.state();
        if !state.attached.is_empty() {
            return false;
        }
        state.leaving = true;
        drop(state);
        self.leaving.cancel();
        true
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // Nothing panics while it holds the lock; were it so, the table would still be whole.
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.host.state().attached.remove(&self.key);
        self.host.activity.send_modify(|count| *count += 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::Places;

    fn editor() -> Attached {
        Attached {
            pid: 7,
            name: "vi".to_owned(),
            face: "server",
            program: None,
        }
    }

    fn host() -> Host {
        Host::start(
            Settings::load(&Places::default()),
            nix::unistd::getppid().as_raw().cast_unsigned(),
        )
    }

    #[tokio::test]
    async fn an_editor_is_named_to_who_stops_or_is_turned_away() {
        // given an editor that is attached
        let host = host();
        let registration = host.register(editor()).unwrap();

        // when somebody wants the end, the editor is named and another is let in
        let refused = host.leave_unless_attached(false).unwrap_err();
        assert!(refused.contains("vi (process 7)"), "{refused}");
        drop(host.register(editor()).unwrap());

        // when it has gone, the host leaves and lets nobody in
        drop(registration);
        let _parting = host.leave_unless_attached(false).unwrap();
        assert_eq!(host.register(editor()).err(), Some(NotRegistered::Leaving));
    }

    #[tokio::test]
    async fn the_pool_outlives_the_leave_of_who_asked_for_its_end() {
        let host = host();
        let over = CancellationToken::new();
        let parting = host.leave_unless_attached(false).unwrap();
        host.end_after(parting, over.clone());
        let mut end = Box::pin(host.end());
        assert!(is_waiting(&mut end).await, "it waits for the one who asked");

        over.cancel();
        end.await.unwrap();
    }

    /// Whether a future is still waiting after one look.
    async fn is_waiting(future: &mut (impl Future + Unpin)) -> bool {
        std::future::poll_fn(|context| {
            std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(context).is_pending())
        })
        .await
    }
}
