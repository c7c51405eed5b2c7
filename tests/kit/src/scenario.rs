//! Owns the writing of scenarios in Rust: the format's own types with short forms for common rules.

use lspool_scripted_server::scenario::{Action, Delay, ErrorBody, Event, On, Rule, Scenario};
use serde::Serialize;
use serde_json::value::RawValue;

/// Raw JSON for a body or params, kept byte for byte.
///
/// # Panics
///
/// When `json` is not JSON.
pub fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned())
        .unwrap_or_else(|error| panic!("{json} is not JSON: {error}"))
}

/// A scenario under construction. Every server of it journals its process id.
#[derive(Clone, Debug)]
pub struct ScenarioBuilder {
    /// The scenario, for what has no short form.
    pub scenario: Scenario,
}

impl Default for ScenarioBuilder {
    fn default() -> Self {
        let mut scenario = Scenario::default();
        scenario.journal.pid = true;
        Self { scenario }
    }
}

impl ScenarioBuilder {
    /// A well-behaved server.
    pub fn new() -> Self {
        Self::default()
    }

    /// Changes the scenario's own members.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Scenario)) -> Self {
        change(&mut self.scenario);
        self
    }

    /// Applies a merge patch to the capabilities that the server announces.
    ///
    /// # Panics
    ///
    /// When `patch` cannot be JSON.
    #[must_use]
    pub fn capabilities(mut self, patch: impl Serialize) -> Self {
        let patch =
            serde_json::to_value(patch).unwrap_or_else(|error| panic!("capabilities: {error}"));
        self.scenario.capabilities = Some(patch);
        self
    }

    /// Adds a rule.
    #[must_use]
    pub fn rule(mut self, rule: impl Into<Rule>) -> Self {
        self.scenario.rules.push(rule.into());
        self
    }

    /// Adds a rule for messages with this method (`*` is any).
    #[must_use]
    pub fn on(self, method: &str, actions: impl IntoIterator<Item = Action>) -> Self {
        self.rule(RuleBuilder::method(method).act(actions))
    }

    /// Adds a rule that answers a method after a random time from the scenario's seed, as it would
    /// without the rule.
    #[must_use]
    pub fn late(self, method: &str, least_ms: u64, greatest_ms: u64) -> Self {
        let delay = Delay::Random {
            random: (least_ms, greatest_ms),
        };
        self.on(method, [Action::Delay(delay), Action::Continue])
    }

    /// Adds a rule that never answers a method.
    #[must_use]
    pub fn hang(self, method: &str) -> Self {
        self.on(method, [])
    }

    /// Adds a rule that answers a method with an error so many times, and then as without the rule.
    #[must_use]
    pub fn refuse(self, method: &str, times: u64, code: i64) -> Self {
        let error = ErrorBody {
            code,
            message: "not now".to_owned(),
            data: None,
        };
        self.rule(
            RuleBuilder::method(method)
                .last(times)
                .act([Action::ReplyError(error)]),
        )
    }

    /// The scenario file's text.
    ///
    /// # Panics
    ///
    /// Never: every scenario is JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(&self.scenario).unwrap_or_else(|error| panic!("scenario: {error}"))
    }
}

/// A rule under construction.
#[derive(Clone, Debug)]
pub struct RuleBuilder {
    rule: Rule,
}

impl RuleBuilder {
    fn on(on: On) -> Self {
        Self {
            rule: Rule {
                on,
                actions: Vec::new(),
            },
        }
    }

    /// A rule for requests and notifications with this method (`*` is any).
    pub fn method(method: &str) -> Self {
        Self::on(On {
            method: Some(method.to_owned()),
            ..On::default()
        })
    }

    /// A rule for something else than a message with a method.
    pub fn event(event: Event) -> Self {
        Self::on(On {
            event: Some(event),
            ..On::default()
        })
    }

    /// Only for messages with this raw id.
    #[must_use]
    pub fn id(mut self, id: &str) -> Self {
        self.rule.on.id = Some(id.to_owned());
        self
    }

    /// Only for documents whose URI ends so.
    #[must_use]
    pub fn uri_ends_with(mut self, end: &str) -> Self {
        self.rule.on.uri_ends_with = Some(end.to_owned());
        self
    }

    /// Only on this match, counted from 1.
    #[must_use]
    pub fn nth(mut self, nth: u64) -> Self {
        self.rule.on.nth = Some(nth);
        self
    }

    /// From this match on, counted from 1.
    #[must_use]
    pub fn first(mut self, first: u64) -> Self {
        self.rule.on.first = Some(first);
        self
    }

    /// Up to this match, counted from 1.
    #[must_use]
    pub fn last(mut self, last: u64) -> Self {
        self.rule.on.last = Some(last);
        self
    }

    /// Adds actions.
    #[must_use]
    pub fn act(mut self, actions: impl IntoIterator<Item = Action>) -> Self {
        self.rule.actions.extend(actions);
        self
    }
}

impl From<RuleBuilder> for Rule {
    fn from(builder: RuleBuilder) -> Self {
        builder.rule
    }
}
