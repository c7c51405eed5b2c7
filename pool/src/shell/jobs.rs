//! The jobs of the core: what needs the world, and what reads a body.

use std::path::Path;
use std::sync::Arc;

use lspool_world::World;

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

/// Does one job. `client` is the connection that it is for, where it is for one.
pub(super) async fn run(
    context: JobContext,
    client: Option<Arc<ClientContext>>,
    work: Job,
) -> Option<JobOutcome> {
    match work {
        Job::Launch {
            argv,
            options_digest,
            folder,
            identity_environment,
            ..
        } => {
            let client = client?;
            Some(JobOutcome::Launch(
                launch(
                    &context.world,
                    &client,
                    argv,
                    options_digest,
                    folder,
                    &identity_environment,
                )
                .await,
            ))
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
            let client = client?;
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
            Some(JobOutcome::Prepared(prepared))
        }
        Job::Reread { documents, limit } => Some(JobOutcome::Reread(
            reread(&context.world, documents, limit).await,
        )),
        Job::Finish { input, .. } => {
            let result = query::finish(&context.world, &input).await;
            Some(JobOutcome::Finished(result.map(Arc::new).map_err(Box::new)))
        }
    }
}

/// Composes beside the runtime's own threads. The core holds a place for the message, so there is always one.
async fn composed(work: Job) -> Option<JobOutcome> {
    let work = Arc::new(work);
    let shared = work.clone();
    let message = match tokio::task::spawn_blocking(move || compose(&shared)).await {
        Ok(message) => message,
        Err(error) => {
            tracing::error!(%error, "a message could not be composed");
            compose_plainly(&work)
        }
    };
    message.map(JobOutcome::Composed)
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
