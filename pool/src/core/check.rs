//! What must hold between any two events.

use super::Core;
use super::client::Phase;
use super::ids::ClientId;
use super::instance::{Ask, Requester};

/// Requests and documents for which one more event passes between two checks of a debug build.
#[cfg(debug_assertions)]
const CHECKED_IN_PASSING: usize = 32;

impl Core {
    /// Checks in debug builds as often as what is held allows, so that the cost of an event does not grow with it.
    #[cfg(debug_assertions)]
    pub(super) fn check_in_passing(&mut self) {
        let held: usize = self
            .instances
            .values()
            .map(|instance| instance.pending.len() + instance.documents.len())
            .sum();
        self.unchecked_events += 1;
        if self.unchecked_events * CHECKED_IN_PASSING >= held {
            self.unchecked_events = 0;
            self.check();
        }
    }

    /// Asserts the core's invariants: no request without an owner, no open count without a client, no slot
    /// without a job. Called by debug builds and by tests.
    ///
    /// # Panics
    /// When one of them is broken: that is a fault of the core.
    pub fn check(&self) {
        for (id, instance) in &self.instances {
            for client in &instance.clients {
                let known = self
                    .clients
                    .get(client)
                    .is_some_and(|client| client.instances.contains(id));
                assert!(
                    known,
                    "{id} has the client {client}, which does not have it"
                );
            }
            for (number, pending) in &instance.pending {
                match &pending.requester {
                    Requester::Client(client, request) => {
                        let owner = self
                            .clients
                            .get(client)
                            .and_then(|client| client.requests.get(request));
                        assert_eq!(
                            owner,
                            Some(&(*id, *number)),
                            "{id} has a request without an owner"
                        );
                    }
                    Requester::Query(ticket) => {
                        assert!(
                            self.queries.contains_key(ticket),
                            "{id} has a question of no query"
                        );
                    }
                    Requester::Initialize | Requester::Shutdown | Requester::Gone => {}
                }
            }
            for (uri, document) in &instance.documents {
                assert!(document.is_held(), "{id} has {uri} open for nobody");
                for client in &document.clients {
                    let held = self
                        .clients
                        .get(client)
                        .is_some_and(|client| client.documents.contains_key(uri));
                    assert!(held, "{id} has {uri} open for {client}, which has not");
                }
            }
            for ticket in &instance.queries {
                let here = self
                    .queries
                    .get(ticket)
                    .is_some_and(|query| query.instance == Some(*id));
                assert!(here, "{id} has a query that is not there");
            }
            assert!(instance.outbox.is_counted(), "{id} miscounts its outbox");
            assert!(
                !instance.is_early() || instance.parked.iter().all(|frame| frame.credit == 0),
                "{id} holds the credit that its initialize answer needs"
            );
            for job in instance.outbox.open_slots() {
                assert!(
                    self.jobs.contains_key(&job),
                    "{id} has a slot without a job"
                );
            }
            for Ask { client, number, .. } in instance.asks.values() {
                let asked = self
                    .clients
                    .get(client)
                    .is_some_and(|client| client.asked.contains_key(number));
                assert!(
                    asked,
                    "{id} waits for an answer that {client} was not asked for"
                );
            }
        }
        for (id, client) in &self.clients {
            self.check_examined(*id);
            for (target, number) in client.requests.values() {
                let known = self
                    .instances
                    .get(target)
                    .is_some_and(|it| it.pending.contains_key(number));
                assert!(known, "{id} waits for an answer that nobody owes");
            }
            for call in client.calls.values() {
                assert_eq!(
                    self.calls.get(call),
                    Some(id),
                    "{id} waits for a call that is not there"
                );
            }
            assert!(client.outbox.is_counted(), "{id} miscounts its outbox");
            for job in client.outbox.open_slots() {
                assert!(
                    self.jobs.contains_key(&job),
                    "{id} has a slot without a job"
                );
            }
        }
    }

    fn check_examined(&self, id: ClientId) {
        let client = &self.clients[&id];
        if client.phase == Phase::Answered {
            let waits = client
                .parked
                .iter()
                .take(client.examined)
                .all(|frame| !self.can_serve(id, frame));
            assert!(waits, "{id} has a frame that nobody will serve");
        }
    }
}
