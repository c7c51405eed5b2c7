//! The work that the core gives away: jobs and calls of custom methods.

use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{Driver, Input};
use crate::core::{CallId, ClientId, Event, InstanceId, Job, JobId};
use crate::shell::{MethodCall, jobs};

impl Driver {
    /// Ends an instance; `reply` is dropped once it is gone, or told why it is not.
    pub(super) fn stop(&mut self, instance: InstanceId, reply: oneshot::Sender<String>) {
        let id = instance.to_string();
        // The core forgets an instance once only, so one that it does not know would be waited for without end.
        if self.core.status().instances.iter().any(|it| it.id == id) {
            self.stops.entry(instance).or_default().push(reply);
            self.handle(Event::Stop { instance });
        }
    }

    pub(super) fn start_job(&mut self, job: JobId, work: Job) {
        let client = match &work {
            Job::Launch { client, .. }
            | Job::Prepare { client, .. }
            | Job::Finish { client, .. } => self
                .clients
                .get(client)
                .map(|handle| handle.context.clone()),
            _ => None,
        };
        let cancel = CancellationToken::new();
        self.jobs.insert(job, cancel.clone());
        let (context, inputs) = (self.context.clone(), self.inputs());
        let deadline = jobs::deadline(&work);
        let work = self
            .tasks
            .track_future(async move { jobs::run(context, client, work).await });
        self.tasks.spawn(async move {
            let outcome = tokio::select! {
                () = cancel.cancelled() => return,
                outcome = jobs::bounded(deadline, work) => outcome,
            };
            // The driver is gone only when the pool is.
            let _ = inputs
                .send(Input::Event(Event::JobDone { job, outcome }))
                .await;
        });
    }

    pub(super) fn start_call(
        &mut self,
        call: CallId,
        client: ClientId,
        method: String,
        params: Option<String>,
    ) {
        let Some(handle) = self.clients.get(&client) else {
            return;
        };
        let cancel = CancellationToken::new();
        self.calls.insert(call, cancel.clone());
        let params = params.and_then(|params| RawValue::from_string(params).ok());
        let future = handle.methods.call(MethodCall {
            client,
            method,
            params,
        });
        let inputs = self.inputs();
        self.tasks.spawn(async move {
            let result = tokio::select! {
                () = cancel.cancelled() => return,
                result = future => result,
            };
            let result = result.map(|value| value.get().to_owned()).map_err(Box::new);
            let _ = inputs
                .send(Input::Event(Event::CallDone { call, result }))
                .await;
        });
    }
}
