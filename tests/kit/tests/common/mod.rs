//! What the kit's own tests share: a client and a scripted server with nothing between them.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(
    clippy::unwrap_used,
    reason = "this is test code outside a test function"
)]

use lspool_testkit::{
    Client, Exit, Harness, Profile, ScenarioBuilder, ScriptedServer, journal_entry::Ending,
};

/// The one document of most tests.
pub(crate) const URI: &str = "file:///a.toy";

pub(crate) struct Pair {
    pub(crate) harness: Harness,
    pub(crate) server: ScriptedServer,
    pub(crate) client: Client,
}

impl Pair {
    /// Starts a server of `scenario` and a client of it, and says nothing yet.
    pub(crate) fn start(scenario: &ScenarioBuilder) -> Self {
        let harness = Harness::new().unwrap();
        Self::start_in(harness, scenario)
    }

    pub(crate) fn start_in(harness: Harness, scenario: &ScenarioBuilder) -> Self {
        let server = harness.scripted_server("server", scenario).unwrap();
        let client = harness.client_of(&server).unwrap();
        Self {
            harness,
            server,
            client,
        }
    }

    /// Starts both and initializes.
    pub(crate) fn ready(scenario: &ScenarioBuilder) -> Self {
        let pair = Self::start(scenario);
        pair.initialize();
        pair
    }

    /// Starts both, initializes and opens [`URI`].
    pub(crate) fn open(scenario: &ScenarioBuilder, text: &str) -> Self {
        let pair = Self::ready(scenario);
        pair.client.did_open(URI, "toy", 1, text).unwrap();
        pair
    }

    pub(crate) fn initialize(&self) {
        self.client
            .initialize(&Profile::full(), &self.harness.work_folder())
            .unwrap();
    }

    /// Ends politely: the server exits with 0 and nothing was unanswered or against the protocol.
    pub(crate) fn finish(self) {
        assert_eq!(self.client.shut_down().unwrap(), Exit::Code(0));
        assert_eq!(self.client.unbalanced(), std::collections::BTreeMap::new());
        self.server.journal().assert_no_violations();
        assert_eq!(
            self.server.journal().wait_for_ending(1).unwrap(),
            Ending::ExitNotification(0)
        );
        self.harness.finish();
    }

    /// Ends by SIGKILL.
    pub(crate) fn kill(self) {
        self.client.kill().unwrap();
        self.harness.finish();
    }
}
