//! From a prepared query to a server in service that it may use: one that runs, else one that it starts.

use std::path::PathBuf;
use std::sync::Arc;

use lspool_normalize::{LspCode, RpcError, UriKey, capabilities};

use super::Stage;
use crate::core::effect::{Effect, Job};
use crate::core::event::PrepareOutcome;
use crate::core::ids::{InstanceId, QueryTicket, Timer};
use crate::core::instance::{Identity, Instance, ServerLaunch, Start};
use crate::core::lifecycle::query_initialize_params;
use crate::core::{Core, JobOwner};
use crate::query::Prepared;

impl Core {
    pub(in crate::core) fn query_prepared(
        &mut self,
        ticket: QueryTicket,
        result: PrepareOutcome,
        out: &mut Vec<Effect>,
    ) {
        let Some(query) = self.queries.get_mut(&ticket) else {
            return;
        };
        match result {
            Err(error) => self.finish_query(ticket, Err(error), out),
            Ok(prepared) => {
                query.prepared = Some(prepared.clone());
                query.stage = Stage::Booting;
                let running = self.instance_for(&prepared);
                let target = match running {
                    Some(target) => target,
                    None => match self.start_for_query(&prepared, out) {
                        Ok(target) => target,
                        Err(error) => return self.finish_query(ticket, Err(error), out),
                    },
                };
                self.join_query(ticket, target, out);
            }
        }
    }

    /// The instance that serves a prepared query: one in service before one that starts, then one
    /// that editors use before one that only queries use.
    pub(super) fn instance_for(&self, prepared: &Prepared) -> Option<InstanceId> {
        let serving = self.instances.values().filter(|instance| {
            instance.admits()
                && instance.root_key.as_ref() == Some(&prepared.root_key)
                && instance
                    .definition
                    .as_ref()
                    .is_some_and(|definition| definition.id == prepared.definition.id)
        });
        let order =
            |instance: &&Instance| (!instance.serves(), instance.clients.is_empty(), instance.id);
        serving.min_by_key(order).map(|instance| instance.id)
    }

    pub(super) fn start_for_query(
        &mut self,
        prepared: &Prepared,
        out: &mut Vec<Effect>,
    ) -> Result<InstanceId, Box<RpcError>> {
        let Some(plan) = prepared.launch.as_ref() else {
            let text = format!("no program of {} can be found", prepared.definition.id);
            return Err(Box::new(RpcError::lsp(LspCode::Unavailable, text, None)));
        };
        let launch = ServerLaunch {
            argv: plan.argv.clone(),
            cwd: plan.cwd.clone(),
            environment: plan.environment.clone(),
            scrub: plan.scrub,
            umask: plan.umask,
        };
        let identity = Identity {
            launch: plan.facts.clone(),
            folders: vec![UriKey::new(&prepared.root_uri)],
            profile: capabilities::raise(capabilities::full()).map_or(0, |raised| raised.digest),
        };
        let initialize_params = query_initialize_params(
            &prepared.root_uri,
            &prepared.root_path.to_string_lossy(),
            prepared.definition.initialization_options.as_ref(),
            self.config.process_id,
        );
        let start = Start {
            identity,
            launch: Arc::new(launch),
            definition: Some(prepared.definition.clone()),
            root_key: Some(prepared.root_key.clone()),
            root_path: Some(prepared.root_path.clone()),
            folders: vec![prepared.root_uri.clone()],
            initialize_params,
        };
        Ok(self.start_instance(start, out))
    }

    pub(super) fn join_query(
        &mut self,
        ticket: QueryTicket,
        target: InstanceId,
        out: &mut Vec<Effect>,
    ) {
        let startup = self.startup_ms(target);
        let default_budget = self.config.limits.query_ms;
        let now = self.now;
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        instance.queries.insert(ticket);
        let booted = instance.serves();
        if let Some(query) = self.queries.get_mut(&ticket) {
            query.instance = Some(target);
            if query.deadline.is_none() {
                let at = now.after(if booted { default_budget } else { startup });
                out.push(Effect::SetTimer {
                    timer: Timer::QueryDeadline(ticket),
                    at,
                });
            }
        }
        Self::use_instance(target, out);
        // With a second user nothing waits for the first one any more.
        self.unpark_server(target, out);
        self.advance_query(ticket, out);
    }

    pub(super) fn query_booted(
        &mut self,
        ticket: QueryTicket,
        target: InstanceId,
        out: &mut Vec<Effect>,
    ) {
        if !self.instances.get(&target).is_some_and(Instance::serves) {
            return;
        }
        self.initialized_by_pool(target, out);
        let budget = self.config.limits.query_ms;
        let now = self.now;
        let (Some(query), Some(instance)) = (
            self.queries.get_mut(&ticket),
            self.instances.get_mut(&target),
        ) else {
            return;
        };
        let Some(prepared) = query.prepared.clone() else {
            return;
        };
        if query.deadline.is_none() {
            let at = now.after(budget);
            query.deadline = Some(at);
            out.push(Effect::SetTimer {
                timer: Timer::QueryDeadline(ticket),
                at,
            });
        }
        let limit = prepared.definition.max_document_bytes;
        let mut documents: Vec<(String, PathBuf, String)> = instance
            .documents
            .iter()
            .filter(|(uri, document)| document.clients.is_empty() && **uri != prepared.file_uri)
            .filter_map(|(uri, document)| {
                let hold = document.query.as_ref()?;
                Some((uri.clone(), hold.path.clone(), hold.file_version.clone()))
            })
            .collect();
        // The file itself was read before a boot that may have taken long.
        documents.push((
            prepared.file_uri.clone(),
            prepared.file_path.clone(),
            prepared.file_version.clone(),
        ));
        let job = self.job(
            JobOwner::Reread(ticket),
            Job::Reread { documents, limit },
            out,
        );
        if let Some(query) = self.queries.get_mut(&ticket) {
            query.stage = Stage::Freshening(job);
        }
    }
}
