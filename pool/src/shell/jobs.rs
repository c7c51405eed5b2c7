//! The jobs of the core: what needs the world, and what reads a body.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lspool_world::World;
use tokio::task::JoinSet;

use crate::core::{
    Job, JobOutcome, LaunchOutcome, LaunchRefusal, RereadDocument, compose, compose_plainly,
};
use crate::edge::Text;
use crate::query::{self, QueryContext, Reread};
use crate::registry::{LaunchFacts, LaunchInput, Registry};

use super::ClientContext;

/// What jobs share.
#[derive(Clone)]
pub(super) struct JobContext {
    pub(super) world: World,
    pub(super) registry: Arc<Registry>,
    pub(super) installs: Vec<std::path::PathBuf>,
}

/// How long a job that looks up or reads a few files may take, a file system that hangs included.
const FILES: Duration = Duration::from_secs(30);
/// How long the preparation of a query may take, which looks at folders and candidates.
const PREPARE: Duration = Duration::from_mins(1);

/// The time that a job has; `None` for one that only computes.
pub(super) fn deadline(work: &Job) -> Option<Duration> {
    match work {
        Job::Launch { .. } | Job::Reread { .. } | Job::Finish { .. } => Some(FILES),
        Job::Prepare { .. } => Some(PREPARE),
        Job::Lower { .. } | Job::Open { .. } | Job::Change { .. } => None,
    }
}

/// Waits for a job, which has an outcome whatever becomes of it: at its deadline it is given up, and one that panics
/// takes nobody along.
pub(super) async fn bounded(
    deadline: Option<Duration>,
    work: impl Future<Output = JobOutcome> + Send + 'static,
) -> JobOutcome {
    // A set ends its task when it is dropped.
    let mut task = JoinSet::new();
    task.spawn(work);
    let joined = match deadline {
        Some(deadline) => {
            let Ok(joined) = tokio::time::timeout(deadline, task.join_next()).await else {
                let seconds = deadline.as_secs();
                return JobOutcome::Failed(format!("no answer within {seconds} s"));
            };
            joined
        }
        None => task.join_next().await,
    };
    match joined {
        Some(Ok(outcome)) => outcome,
        Some(Err(error)) => {
            tracing::error!(%error, "a job did not come to its end");
            JobOutcome::Failed("lspool failed at it; its log says more".to_owned())
        }
        None => JobOutcome::Failed("lspool lost it".to_owned()),
    }
}

/// Does one job. `client` is the connection that it is for, where it is for one.
pub(super) async fn run(
    context: JobContext,
    client: Option<Arc<ClientContext>>,
    work: Job,
) -> JobOutcome {
    let is_gone = || JobOutcome::Failed("the connection is gone".to_owned());
    match work {
        Job::Launch {
            argv,
            options_digest,
            folder,
            identity_environment,
            ..
        } => {
            let Some(client) = client else {
                return is_gone();
            };
            let launched = launch(
                &context.world,
                &client,
                argv,
                options_digest,
                folder,
                &identity_environment,
            );
            JobOutcome::Launch(launched.await)
        }
        Job::Lower { .. } | Job::Open { .. } | Job::Change { .. } => composed(work).await,
        Job::Prepare {
            roots,
            named_files,
            editor_texts,
            request,
            running,
            ..
        } => {
            let Some(client) = client else {
                return is_gone();
            };
            let query_context = QueryContext {
                cwd: client.cwd.clone(),
                environment: client.environment.clone(),
                umask: client.umask,
                roots,
                installs: context.installs.clone(),
                named_files,
                editor_texts,
            };
            let prepared = query::prepare(
                &context.world,
                &context.registry,
                &query_context,
                &request,
                &running,
            );
            let prepared = prepared.await.map(Arc::new).map_err(Box::new);
            JobOutcome::Prepared(prepared)
        }
        Job::Reread { documents, limit } => {
            JobOutcome::Reread(reread(&context.world, documents, limit).await)
        }
        Job::Finish { input, .. } => {
            let result = query::finish(&context.world, &input).await;
            JobOutcome::Finished(result.map(Arc::new).map_err(Box::new))
        }
    }
}

/// Composes beside the runtime's own threads. The core holds a place for the message, so there is always one.
async fn composed(work: Job) -> JobOutcome {
    let work = Arc::new(work);
    let shared = work.clone();
    let message = match tokio::task::spawn_blocking(move || compose(&shared)).await {
        Ok(message) => message,
        Err(error) => {
            tracing::error!(%error, "a message could not be composed");
            compose_plainly(&work)
        }
    };
    match message {
        Some(message) => JobOutcome::Composed(message),
        None => JobOutcome::Failed("it composes no message".to_owned()),
    }
}

async fn launch(
    world: &World,
    client: &ClientContext,
    mut argv: Vec<std::ffi::OsString>,
    options_digest: u128,
    folder: Option<String>,
    identity_env: &[String],
) -> Result<Box<LaunchOutcome>, LaunchRefusal> {
    let input = LaunchInput {
        argv: &argv,
        cwd: &client.cwd,
        environment: &client.environment,
        scrub: false,
        options_digest,
        identity_env,
    };
    let facts = LaunchFacts::resolve(world, input)
        .await
        .map_err(|error| LaunchRefusal {
            exit_code: error.exit_code(),
            text: format!("lspool: {error}"),
        })?;
    if let Some(program) = argv.first_mut() {
        *program = facts.executable.clone().into_os_string();
    }
    let root_path = folder.and_then(|folder| {
        if folder.starts_with('/') {
            Some(folder.into())
        } else {
            world.fs().path_from_uri(&folder).ok()
        }
    });
    let root_key = match &root_path {
        Some(path) => world
            .fs()
            .resolve(path, Path::new("/"))
            .await
            .ok()
            .map(|target| target.key().clone()),
        None => None,
    };
    Ok(Box::new(LaunchOutcome {
        facts,
        argv,
        cwd: client.cwd.clone(),
        environment: client.environment.clone(),
        umask: client.umask,
        root_key,
        root_path,
    }))
}

async fn reread(
    world: &World,
    documents: Vec<(String, std::path::PathBuf, String)>,
    limit: u64,
) -> Vec<RereadDocument> {
    let mut changed = Vec::new();
    for (uri, path, known) in documents {
        match query::reread(world, &path, &known, limit).await {
            Reread::Unchanged => {}
            Reread::Changed { text, version } => {
                changed.push(RereadDocument {
                    uri,
                    text: Some((Text::new(text), version)),
                });
            }
            Reread::Gone => changed.push(RereadDocument { uri, text: None }),
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn given_a_job_that_panics_then_whoever_waits_is_told() {
        let outcome = bounded(None, async { panic!("a mistake") }).await;

        assert!(matches!(outcome, JobOutcome::Failed(_)), "{outcome:?}");
    }

    #[tokio::test]
    async fn given_a_job_that_hangs_when_its_time_is_over_then_whoever_waits_is_told() {
        let hung = std::future::pending::<JobOutcome>();

        let outcome = bounded(Some(Duration::from_millis(1)), hung).await;

        assert!(matches!(outcome, JobOutcome::Failed(_)), "{outcome:?}");
    }
}
