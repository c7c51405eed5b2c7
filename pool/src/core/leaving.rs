//! The end of connections: what they hold is given up at once, what they were sent is written first.
//!
//! Invariants: *one answer each* also for requests that still wait for their turn, and *a client that dies
//! leaves nothing open*.

use crate::wire::{Kind, RawId};

use super::client::{Farewell, Phase};
use super::effect::Effect;
use super::event::Frame;
use super::failure::Failure;
use super::ids::{ClientId, Link, Timer};
use super::{Core, JobOwner};

/// What is told to requests that their connection does not live to see answered.
const LEAVING: &str = "the connection is ending";

impl Core {
    /// The input of a client ended, or writing to it failed. A peer that wrote its last message and closed its side
    /// may still read its answers; the second such event, or no progress, ends that wait.
    pub(super) fn client_link_closed(&mut self, id: ClientId, reason: &str, out: &mut Vec<Effect>) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        if std::mem::replace(&mut client.input_ended, true) {
            return self.drop_client(id, out);
        }
        tracing::debug!(client = %id, reason, "a connection ended");
        self.begin_leaving(id, Farewell::EndOfInput, out);
    }

    /// A client said its last word. What it asked before is answered first, as a server that reads in order would,
    /// for as long as the answer to a `shutdown` may take.
    pub(super) fn begin_leaving(
        &mut self,
        id: ClientId,
        farewell: Farewell,
        out: &mut Vec<Effect>,
    ) {
        let patience = self.config.limits.shutdown_ms;
        let now = self.now;
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        if !client.is_owed() {
            return self.finish_leaving(id, out);
        }
        if client.leaving.is_none() {
            client.leaving = Some(farewell);
            out.push(Effect::SetTimer {
                timer: Timer::ClientLeaving(id),
                at: now.after(patience),
            });
            self.answer_for_the_gone(id, out);
        }
    }

    /// The time for the answers of servers is over. What lspool answers itself keeps the time that it has, for who
    /// may still read it.
    pub(super) fn client_leaving_timer(&mut self, id: ClientId, out: &mut Vec<Effect>) {
        let Some(client) = self.clients.get(&id) else {
            return;
        };
        let in_session = client.initialize_id.is_none();
        match client.leaving {
            None => {}
            Some(Farewell::EndOfInput) if in_session => {
                self.fail_requests_in_flight(id, Failure::disposed(LEAVING), out);
                self.fail_parked_requests(id, Failure::disposed(LEAVING), out);
            }
            Some(_) => self.finish_leaving(id, out),
        }
    }

    /// Closes the connection of a client that left: a `shutdown` that still waits for its turn is answered, and all
    /// else that waits is refused.
    pub(super) fn finish_leaving(&mut self, id: ClientId, out: &mut Vec<Effect>) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        if client.leaving.take().is_some() {
            out.push(Effect::ClearTimer {
                timer: Timer::ClientLeaving(id),
            });
        }
        let shutdown = client.parked.iter().position(is_shutdown);
        if let Some(frame) = shutdown.and_then(|at| client.parked.remove(at)) {
            self.serve(id, &frame, out);
        }
        self.fail_all_requests(id, Failure::disposed(LEAVING), out);
        let code = self.clients.get(&id).map_or(1, |client| client.exit_code);
        self.close_client(id, code, out);
    }

    /// `exit` of a client: at once, unless a `shutdown` before it promised that all is answered.
    pub(super) fn exit_from_client(&mut self, id: ClientId, out: &mut Vec<Effect>) {
        let Some(client) = self.clients.get(&id) else {
            return;
        };
        let promised = client.phase == Phase::ShutDown || client.parked.iter().any(is_shutdown);
        if promised {
            self.begin_leaving(id, Farewell::Exit, out);
        } else {
            self.finish_leaving(id, out);
        }
    }

    /// Begins to close a connection: what it was sent is written first, what it holds is given up now.
    pub(super) fn close_client(&mut self, id: ClientId, exit_code: i32, out: &mut Vec<Effect>) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        if client.is_closing() {
            return;
        }
        client.phase = Phase::Closing;
        client.exit_code = exit_code;
        client.initialize_id = None;
        for frame in std::mem::take(&mut client.parked) {
            out.push(Effect::Release {
                link: Link::Client(id),
                credit: frame.credit,
            });
        }
        self.abandon_launch(id, out);
        self.disown_requests(id, out);
        self.abandon_calls(id, out);
        self.abandon_queries(id, out);
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        client.documents.clear();
        let targets = std::mem::take(&mut client.instances);
        // A job that shapes an answer for this client still fills its place.
        for target in &targets {
            self.release_documents(id, *target, out);
            if let Some(instance) = self.instances.get_mut(target) {
                instance.clients.retain(|at| *at != id);
                out.push(instance.audience());
            }
        }
        self.answer_for_the_gone(id, out);
        for target in targets {
            self.unpark_server(target, out);
            self.idle_if_unused(target, out);
        }
        self.bound_farewell(id, out);
    }

    /// The last messages of a connection are waited for only while its peer reads them.
    fn bound_farewell(&self, id: ClientId, out: &mut Vec<Effect>) {
        if self
            .clients
            .get(&id)
            .is_some_and(|client| !client.outbox.is_empty())
        {
            out.push(Effect::SetTimer {
                timer: Timer::ClientProgress(id),
                at: self.now.after(self.config.limits.stall_ms),
            });
        }
    }

    fn abandon_launch(&mut self, id: ClientId, out: &mut Vec<Effect>) {
        let launches: Vec<_> = self
            .jobs
            .iter()
            .filter(|(_, owner)| **owner == JobOwner::Launch(id))
            .map(|(job, _)| *job)
            .collect();
        for job in launches {
            self.jobs.remove(&job);
            out.push(Effect::CancelJob { job });
        }
    }

    /// Closes a connection for good once its last message is written.
    pub(super) fn close_if_drained(&mut self, id: ClientId, out: &mut Vec<Effect>) {
        let drained = self
            .clients
            .get(&id)
            .is_some_and(|client| client.is_closing() && client.outbox.is_empty());
        if drained {
            self.drop_client(id, out);
        }
    }

    /// Closes a connection whose peer reads no more.
    pub(super) fn drop_client(&mut self, id: ClientId, out: &mut Vec<Effect>) {
        let Some(client) = self.clients.get(&id) else {
            return;
        };
        let exit_code = client.exit_code;
        self.close_client(id, exit_code, out);
        let Some(client) = self.clients.remove(&id) else {
            return;
        };
        let drained = client.outbox.is_empty();
        for job in client.outbox.open_slots() {
            self.jobs.remove(&job);
            out.push(Effect::CancelJob { job });
        }
        for timer in [Timer::ClientProgress(id), Timer::ClientLeaving(id)] {
            out.push(Effect::ClearTimer { timer });
        }
        out.push(Effect::Close {
            client: id,
            exit_code,
            drained,
        });
        self.shutdown_if_empty(out);
    }

    /// Answers the requests of a client that wait behind a server that will not come; what the pool answers itself
    /// goes on waiting for its turn.
    pub(super) fn fail_parked_requests(
        &mut self,
        id: ClientId,
        failure: Failure<'_>,
        out: &mut Vec<Effect>,
    ) {
        self.fail_parked(id, failure, super::from_client::is_of_the_pool, out);
    }

    /// Answers every request of a client that is not answered yet: the connection is about to be closed.
    pub(super) fn fail_all_requests(
        &mut self,
        id: ClientId,
        failure: Failure<'_>,
        out: &mut Vec<Effect>,
    ) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let initialize = client.initialize_id.take();
        let waiting: Vec<RawId> = initialize
            .into_iter()
            .chain(client.calls.keys().cloned())
            .collect();
        for request in waiting {
            self.answer_failure(id, &request, failure, out);
        }
        self.abandon_calls(id, out);
        self.fail_requests_in_flight(id, failure, out);
        self.fail_parked(id, failure, |_| false, out);
    }

    /// Answers the requests of a client that its servers have not answered, and cancels them there.
    fn fail_requests_in_flight(
        &mut self,
        id: ClientId,
        failure: Failure<'_>,
        out: &mut Vec<Effect>,
    ) {
        let requests: Vec<RawId> = match self.clients.get(&id) {
            Some(client) => client.requests.keys().cloned().collect(),
            None => return,
        };
        self.disown_requests(id, out);
        for request in requests {
            self.answer_failure(id, &request, failure, out);
        }
    }

    fn fail_parked(
        &mut self,
        id: ClientId,
        failure: Failure<'_>,
        keeps: fn(&str) -> bool,
        out: &mut Vec<Effect>,
    ) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let (kept, failed): (Vec<_>, Vec<_>) = std::mem::take(&mut client.parked)
            .into_iter()
            .partition(|frame| frame.message.method().is_some_and(|method| keeps(&method)));
        client.parked.extend(kept);
        client.examined = 0;
        for frame in failed {
            if let Some(request) = frame
                .message
                .id()
                .filter(|_| frame.message.kind() == Kind::Request)
            {
                let request = request.clone();
                self.answer_failure(id, &request, failure, out);
            }
            out.push(Effect::Release {
                link: Link::Client(id),
                credit: frame.credit,
            });
        }
    }
}

fn is_shutdown(frame: &Frame) -> bool {
    frame.message.kind() == Kind::Request && frame.message.method().as_deref() == Some("shutdown")
}
