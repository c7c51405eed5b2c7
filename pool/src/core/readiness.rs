//! Whether a server's index is complete, as far as the server shows it.
//!
//! Everything counts from the first `didOpen`: several servers begin no work earlier.

use std::collections::BTreeSet;

use crate::edge::ProgressPhase;
use crate::registry::{Definition, Readiness as Rule};
use crate::wire::RawId;

use super::ids::Tick;

/// What is known of one process's readiness.
#[derive(Debug, Default)]
pub(super) struct Readiness {
    first_open: Option<Tick>,
    last_active: Option<Tick>,
    quiescent: Option<bool>,
    indexing: BTreeSet<RawId>,
    indexing_ended: bool,
    logged: bool,
    running: BTreeSet<RawId>,
    message: Option<String>,
    percent: Option<u32>,
}

/// What a question may rely on now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Assessment {
    /// The server said that it is ready.
    Signal,
    /// It was quiet for its settle time.
    Settled,
    /// Neither yet; look again at this tick, or at the next sign.
    Wait(Option<Tick>),
}

impl Readiness {
    /// A document was opened.
    pub(super) fn opened(&mut self, now: Tick) {
        self.first_open.get_or_insert(now);
    }

    /// The server did something that a settling server does not do.
    pub(super) fn active(&mut self, now: Tick) {
        self.last_active = Some(now);
    }

    /// rust-analyzer's `experimental/serverStatus`.
    pub(super) fn status(&mut self, now: Tick, quiescent: bool) {
        self.active(now);
        self.quiescent = Some(quiescent);
    }

    /// A log line, which for some servers is the sign.
    pub(super) fn logged(&mut self, now: Tick, message: &str, definition: Option<&Definition>) {
        if definition.is_some_and(|definition| definition.readiness.is_ready_message(message)) {
            self.active(now);
            self.logged = true;
        }
    }

    /// A progress of the server's own making.
    pub(super) fn progressed(
        &mut self,
        now: Tick,
        token: &RawId,
        phase: &ProgressPhase,
        message: Option<&str>,
        percentage: Option<u32>,
        definition: Option<&Definition>,
    ) {
        self.active(now);
        if message.is_some() || percentage.is_some() {
            self.message = message.map(str::to_owned).or_else(|| self.message.take());
            self.percent = percentage.or(self.percent);
        }
        match phase {
            ProgressPhase::Begin { title } => {
                self.running.insert(token.clone());
                self.message = Some(
                    message.map_or_else(|| title.clone(), |message| format!("{title}: {message}")),
                );
                let name = token_name(token);
                if definition.is_some_and(|definition| {
                    definition.readiness.is_indexing_progress(&name, title)
                }) {
                    self.indexing.insert(token.clone());
                }
            }
            ProgressPhase::End => {
                self.running.remove(token);
                if self.indexing.remove(token) {
                    self.indexing_ended = true;
                }
                if self.running.is_empty() {
                    self.message = None;
                    self.percent = None;
                }
            }
            ProgressPhase::Report | ProgressPhase::Other => {}
        }
    }

    /// Whether the server is known to be at work on its index.
    pub(super) fn is_indexing(&self) -> bool {
        !self.indexing.is_empty() || self.quiescent == Some(false) || !self.running.is_empty()
    }

    /// The progress as last reported, while there is one.
    pub(super) fn progress(&self) -> Option<lspool_normalize::Progress> {
        let reported = self.message.is_some() || self.percent.is_some();
        reported.then(|| lspool_normalize::Progress {
            message: self.message.clone(),
            percent: self.percent,
        })
    }

    /// A word for `status`.
    pub(super) fn word(&self, now: Tick, rule: &Rule) -> &'static str {
        match self.assess(now, rule) {
            Assessment::Signal => "ready",
            Assessment::Settled => "settled",
            Assessment::Wait(_) if self.first_open.is_none() => "idle",
            Assessment::Wait(_) => "indexing",
        }
    }

    /// What a question may rely on now, by the server's rule.
    pub(super) fn assess(&self, now: Tick, rule: &Rule) -> Assessment {
        let Some(open) = self.first_open else {
            return Assessment::Wait(None);
        };
        if rule.has_signal() {
            if self.shows_signal(rule) {
                return Assessment::Signal;
            }
            let at_work = self.quiescent.is_some() || !self.indexing.is_empty();
            if at_work {
                return Assessment::Wait(None);
            }
            let grace_ends = open.after(u64::from(rule.start_grace_ms));
            if now < grace_ends {
                return Assessment::Wait(Some(grace_ends));
            }
        }
        let latest = open.after(u64::from(rule.settle_max_ms));
        if now >= latest {
            return Assessment::Settled;
        }
        if !self.running.is_empty() {
            return Assessment::Wait(Some(latest));
        }
        let quiet = self
            .last_active
            .map_or(open, |active| active.max(open))
            .after(u64::from(rule.settle_ms));
        if now >= quiet {
            Assessment::Settled
        } else {
            Assessment::Wait(Some(quiet.min(latest)))
        }
    }

    fn shows_signal(&self, rule: &Rule) -> bool {
        if !self.indexing.is_empty() || self.quiescent == Some(false) {
            return false;
        }
        (rule.server_status && self.quiescent == Some(true))
            || (!rule.progress_tokens.is_empty() && self.indexing_ended)
            || (!rule.log_patterns.is_empty() && self.logged)
    }
}

/// The token as rules name it: a string without its quotes, a number as decimal text.
fn token_name(token: &RawId) -> String {
    serde_json::from_str::<String>(token.raw()).unwrap_or_else(|_| token.raw().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    fn begin(title: &str) -> ProgressPhase {
        ProgressPhase::Begin {
            title: title.to_owned(),
        }
    }

    #[test]
    fn given_clangd_then_it_is_ready_when_its_background_index_ended_and_not_while_it_runs() {
        let registry = Registry::builtin();
        let clangd = registry.definition("clangd").unwrap();
        let rule = &clangd.readiness;
        let token = RawId::parse(r#""backgroundIndexProgress""#).unwrap();
        let mut readiness = Readiness::default();
        assert_eq!(readiness.assess(Tick(0), rule), Assessment::Wait(None));
        readiness.opened(Tick(10));
        assert!(matches!(
            readiness.assess(Tick(11), rule),
            Assessment::Wait(Some(_))
        ));
        readiness.progressed(
            Tick(20),
            &token,
            &begin("indexing"),
            None,
            None,
            Some(clangd),
        );
        assert_eq!(readiness.assess(Tick(60_000), rule), Assessment::Wait(None));
        readiness.progressed(
            Tick(70_000),
            &token,
            &ProgressPhase::End,
            None,
            None,
            Some(clangd),
        );
        assert_eq!(readiness.assess(Tick(70_000), rule), Assessment::Signal);
        readiness.progressed(
            Tick(80_000),
            &token,
            &begin("indexing"),
            None,
            None,
            Some(clangd),
        );
        assert_eq!(readiness.assess(Tick(80_001), rule), Assessment::Wait(None));
    }

    #[test]
    fn given_no_rule_then_it_settles_after_quiet_and_at_most_after_the_longest_time() {
        let registry = Registry::builtin();
        let rule = &registry.defaults().readiness;
        let mut readiness = Readiness::default();
        readiness.opened(Tick(0));
        assert_eq!(
            readiness.assess(Tick(999), rule),
            Assessment::Wait(Some(Tick(1_000)))
        );
        readiness.active(Tick(900));
        assert_eq!(
            readiness.assess(Tick(1_000), rule),
            Assessment::Wait(Some(Tick(1_900)))
        );
        assert_eq!(readiness.assess(Tick(1_900), rule), Assessment::Settled);
        readiness.active(Tick(9_999));
        assert_eq!(readiness.assess(Tick(10_000), rule), Assessment::Settled);
    }

    #[test]
    fn given_a_server_with_status_then_only_quiescence_counts() {
        let registry = Registry::builtin();
        let analyzer = registry.definition("rust-analyzer").unwrap();
        let mut readiness = Readiness::default();
        readiness.opened(Tick(0));
        readiness.status(Tick(1), false);
        assert_eq!(
            readiness.assess(Tick(100_000), &analyzer.readiness),
            Assessment::Wait(None)
        );
        readiness.status(Tick(100_000), true);
        assert_eq!(
            readiness.assess(Tick(100_000), &analyzer.readiness),
            Assessment::Signal
        );
    }
}
