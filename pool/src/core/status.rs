//! What the pool says of itself.

use serde::Serialize;

use super::Core;
use super::ids::InstanceId;
use super::instance::Phase;

/// The pool at one moment.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolStatus {
    /// The servers, oldest first.
    pub instances: Vec<InstanceStatus>,
    /// The connections, oldest first.
    pub clients: Vec<ClientStatus>,
    /// Queries that wait or run.
    pub queries: usize,
    /// Answers that nobody waited for any more.
    pub late_answers: u64,
    /// Requests that were asked again because another client's text had disturbed them.
    pub asked_again: u64,
}

/// One pooled server.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceStatus {
    /// Its id, as `lspool stop` takes it.
    pub id: String,
    /// The definition's id, else the program's name.
    pub server: String,
    /// `serverInfo` of the server, when it gave one.
    pub server_info: Option<String>,
    /// `starting`, `initializing`, `running`, `restarting`, `ending`.
    pub state: &'static str,
    /// `idle`, `indexing`, `settled`, `ready`.
    pub readiness: &'static str,
    /// The folders as the first client spelled them.
    pub folders: Vec<String>,
    /// The command line.
    pub command: Vec<String>,
    /// The process, when it is known.
    pub pid: Option<u32>,
    /// Milliseconds since the present process was started.
    pub uptime_ms: u64,
    /// Starts after the first.
    pub restarts: u64,
    /// How the previous process ended.
    pub last_exit: Option<String>,
    /// Why its processes could not be ended, when that was tried; a stop or a shutdown tries again.
    pub end_failure: Option<String>,
    /// The connections that use it.
    pub clients: Vec<String>,
    /// Queries that use it.
    pub queries: usize,
    /// Documents that are open at the server.
    pub documents: usize,
    /// Requests that the server has not answered.
    pub in_flight: usize,
    /// Milliseconds since the oldest of them was sent.
    pub oldest_ms: Option<u64>,
    /// Bytes that wait to be written to the server.
    pub queued_bytes: usize,
    /// Whether it counts as stalled: full, and not reading.
    pub stalled: bool,
    /// Messages before its initialize answer that were dropped because they were too many.
    pub dropped_early: u64,
    /// Why this is an instance of its own, where another serves the same server and root.
    pub why_not_shared: Option<String>,
}

/// One connection.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientStatus {
    /// Its id.
    pub id: String,
    /// What it calls itself.
    pub name: String,
    /// The peer's process.
    pub pid: u32,
    /// The servers that it uses.
    pub instances: Vec<String>,
    /// Documents that it holds open.
    pub documents: usize,
    /// Requests that it waits for.
    pub in_flight: usize,
    /// Frames that wait for their turn.
    pub parked: usize,
    /// Bytes that wait to be written to it.
    pub queued_bytes: usize,
    /// Milliseconds since it attached.
    pub attached_ms: u64,
}

impl Core {
    /// The pool as it is now; changes nothing.
    pub fn status(&self) -> PoolStatus {
        let clients = self.clients.iter().map(|(id, client)| ClientStatus {
            id: id.to_string(),
            name: client.display_name().to_owned(),
            pid: client.name.pid,
            instances: client.instances.iter().map(ToString::to_string).collect(),
            documents: client.documents.len(),
            in_flight: client.requests.len() + client.calls.len(),
            parked: client.parked.len(),
            queued_bytes: client.outbox.bytes(),
            attached_ms: self.now.since(client.attached_at),
        });
        PoolStatus {
            instances: self
                .instances
                .keys()
                .filter_map(|id| self.instance_status(*id))
                .collect(),
            clients: clients.collect(),
            queries: self.queries.len(),
            late_answers: self.late_answers,
            asked_again: self.asked_again,
        }
    }

    fn instance_status(&self, id: InstanceId) -> Option<InstanceStatus> {
        let instance = self.instances.get(&id)?;
        let rule = instance
            .definition
            .as_ref()
            .unwrap_or_else(|| self.config.registry.defaults());
        Some(InstanceStatus {
            id: id.to_string(),
            server: instance.server.clone(),
            server_info: instance.facts.as_ref().and_then(|facts| facts.name.clone()),
            state: match instance.phase {
                Phase::Starting => "starting",
                Phase::Initializing => "initializing",
                Phase::Ready => "running",
                Phase::Restarting => "restarting",
                Phase::ShuttingDown | Phase::Exiting | Phase::Terminating => "ending",
            },
            readiness: instance.readiness.word(self.now, &rule.readiness),
            folders: instance.folders_as_sent.clone(),
            command: instance
                .launch
                .argv
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            pid: instance.pid,
            uptime_ms: self.now.since(instance.started_at),
            restarts: instance.restarts,
            last_exit: instance.last_exit.clone(),
            end_failure: instance.end_failure.clone(),
            clients: instance.clients.iter().map(ToString::to_string).collect(),
            queries: instance.queries.len(),
            documents: instance.documents.len(),
            in_flight: instance.pending.len(),
            oldest_ms: instance
                .pending
                .values()
                .map(|pending| self.now.since(pending.sent_at))
                .max(),
            queued_bytes: instance.outbox.bytes(),
            stalled: instance.stalled,
            dropped_early: instance.dropped_early,
            why_not_shared: self.why_not_shared(id),
        })
    }

    /// Names what parts an instance from an older one with the same server and root.
    fn why_not_shared(&self, id: InstanceId) -> Option<String> {
        let instance = self.instances.get(&id)?;
        let other = self.instances.values().find(|other| {
            other.id < id
                && other.server == instance.server
                && (other.identity.folders == instance.identity.folders
                    || (other.root_key.is_some() && other.root_key == instance.root_key))
        })?;
        let why = if other.identity.folders != instance.identity.folders {
            "the folders differ".to_owned()
        } else if other.identity.profile != instance.identity.profile {
            "the clients' capabilities differ".to_owned()
        } else if let Some(part) = instance
            .identity
            .launch
            .first_difference(&other.identity.launch)
        {
            format!("{part} differs")
        } else {
            "the other one did not take clients any more".to_owned()
        };
        Some(format!("not shared with {}: {why}", other.id))
    }
}
