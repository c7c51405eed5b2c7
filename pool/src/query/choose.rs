//! Which server answers a query, in which root, and what starts it.

use std::path::PathBuf;
use std::sync::Arc;

use lspool_normalize::{LspCode, RpcError, canonical};
use lspool_world::{Environment, World};
use serde_json::json;

use super::asked::{AskedFile, Root};
use super::path::{fs_error, workspace_required};
use super::program::{ProgramFault, find_program};
use super::root::{Candidates, is_refused_root};
use super::text::read_first_line;
use super::{LaunchPlan, QueryContext, RunningRoot};
use crate::registry::{
    Definition, EnvironmentRule, LaunchError, LaunchFacts, LaunchInput, Registry, ServerMatch,
};

/// Bytes of a script's first line that are looked at for its interpreter.
const FIRST_LINE_BYTES: usize = 256;

/// The server, its root and how it is started.
pub(super) struct Chosen {
    pub(super) server: ServerMatch,
    pub(super) root: Root,
    pub(super) launch: Option<LaunchPlan>,
}

/// A server that would do, and why it cannot be started.
struct Refused {
    server: ServerMatch,
    fault: ProgramFault,
}

/// Chooses among the servers of the file's language: one that runs in its root, else the first that can be started.
///
/// # Errors
/// `LSP_UNAVAILABLE`, `LSP_WORKSPACE_REQUIRED`, the fs codes of folders on the way.
pub(super) async fn choose(
    world: &World,
    registry: &Registry,
    context: &QueryContext,
    asked: &AskedFile,
    given_root: Option<Root>,
    running: &[RunningRoot],
) -> Result<Chosen, RpcError> {
    let candidates = Candidates::above(world, &context.environment, &asked.path)
        .await
        .map_err(|e| fs_error(&e))?;
    let given = given_root.map(|root| root.path);
    let mut startable: Option<Chosen> = None;
    let mut refused = Vec::new();
    for server in servers_for(world, registry, asked).await {
        let definition = Arc::clone(&server.definition);
        let root_path = match (&given, &asked.named_by) {
            (Some(root), _) => root.clone(),
            (None, Some(owner)) => owner.root_path.clone(),
            (None, None) => own_root(world, context, &candidates, &definition, asked).await?,
        };
        let yields = given.is_none() && asked.named_by.is_none();
        if yields
            && candidates
                .yields(world, &definition, &root_path)
                .await
                .map_err(|error| fs_error(&error))?
        {
            refused.push(Refused {
                server,
                fault: ProgramFault::OtherProject,
            });
            continue;
        }
        let mut root = Root::at(world, &root_path)
            .await?
            .admitted(world, &context.environment)
            .await?;
        let lives = running.iter().find(|instance| {
            instance.server == definition.id && instance.root_key == *root.target.key()
        });
        if lives.is_none() && startable.is_some() {
            continue;
        }
        let launch = plan(world, context, &definition, &root).await;
        if let Some(instance) = lives {
            root.path.clone_from(&instance.root_path);
            root.uri.clone_from(&instance.root_uri);
            return Ok(Chosen {
                server,
                root,
                launch: launch.ok(),
            });
        }
        match launch {
            Ok(launch) => {
                startable = Some(Chosen {
                    server,
                    root,
                    launch: Some(launch),
                });
            }
            Err(fault) => refused.push(Refused { server, fault }),
        }
    }
    startable.ok_or_else(|| unavailable(asked, &refused, registry))
}

/// The servers with navigation for the file, best first; the one that named the file alone, where one did.
async fn servers_for(world: &World, registry: &Registry, asked: &AskedFile) -> Vec<ServerMatch> {
    let mut servers = registry.definitions_for(&asked.path, None);
    if servers.is_empty() {
        let first_line = read_first_line(world, &asked.target, FIRST_LINE_BYTES).await;
        servers = registry.definitions_for(&asked.path, first_line.as_deref());
    }
    servers.retain(|server| server.definition.navigation);
    if let Some(owner) = &asked.named_by {
        servers.sort_by_key(|server| server.definition.id != owner.server);
        servers.truncate(1);
    }
    servers
}

/// The file's own root: by markers, else the connection's deepest root around it, else its folder.
async fn own_root(
    world: &World,
    context: &QueryContext,
    candidates: &Candidates,
    definition: &Definition,
    asked: &AskedFile,
) -> Result<PathBuf, RpcError> {
    if let Some(root) = candidates
        .by_markers(world, definition)
        .await
        .map_err(|error| fs_error(&error))?
    {
        return Ok(root);
    }
    let mut deepest: Option<Root> = None;
    for path in &context.roots {
        let root = Root::at(world, path).await?;
        let refused = is_refused_root(world, &context.environment, &root.path)
            .await
            .map_err(|e| fs_error(&e))?;
        let deeper = deepest
            .as_ref()
            .is_none_or(|known| world.fs().contains(&known.target, &root.target));
        if !refused && deeper && world.fs().contains(&root.target, &asked.target) {
            deepest = Some(root);
        }
    }
    match (deepest, candidates.own_folder()) {
        (Some(root), _) => Ok(root.path),
        (None, Some(folder)) => Ok(folder.to_path_buf()),
        (None, None) => Err(workspace_required(format!(
            "{} lies in no project: its folder is too wide to be a workspace; move it into a folder of its own",
            asked.path.display()
        ))),
    }
}

async fn plan(
    world: &World,
    context: &QueryContext,
    definition: &Definition,
    root: &Root,
) -> Result<LaunchPlan, ProgramFault> {
    let scrub = definition.environment == EnvironmentRule::Scrub;
    let environment = child_environment(world, &context.environment, scrub);
    let argv = find_program(
        world,
        definition,
        &environment,
        &context.installs,
        &root.target,
    )
    .await?;
    let facts = LaunchFacts::resolve(
        world,
        LaunchInput {
            argv: &argv,
            cwd: &root.path,
            environment: &context.environment,
            scrub,
            options_digest: options_digest(definition),
            identity_env: &definition.identity_env,
        },
    );
    // Between the two looks the program can only have gone away or lost its permission.
    let facts = facts.await.map_err(|error| match error {
        LaunchError::NotFound { .. } => ProgramFault::Missing,
        LaunchError::NotExecutable { .. } => ProgramFault::NotExecutable,
    })?;
    Ok(LaunchPlan {
        argv,
        cwd: root.path.clone(),
        environment: context.environment.clone(),
        scrub,
        umask: context.umask,
        facts,
    })
}

/// The digest that a client's `initializationOptions` of the same value has.
fn options_digest(definition: &Definition) -> u128 {
    let text = definition
        .initialization_options
        .as_ref()
        .map(serde_json::Value::to_string);
    // A value that serialises always has a canonical form, unless it is nested beyond what TOML can spell.
    text.and_then(|text| canonical::digest(&text).ok())
        .unwrap_or(0)
}

fn child_environment(world: &World, environment: &Environment, scrub: bool) -> Environment {
    if scrub {
        environment.scrubbed(world.subprocess().scrub_rules())
    } else {
        environment.clone()
    }
}

/// `LSP_UNAVAILABLE`: which servers would do, why each cannot be started, and how it is had.
fn unavailable(asked: &AskedFile, refused: &[Refused], registry: &Registry) -> RpcError {
    let name = asked.path.display();
    if refused.is_empty() {
        let languages = registry.languages();
        return RpcError::lsp(
            LspCode::Unavailable,
            format!(
                "no language server is known for {name}; define one with `[[server]]` in config.toml"
            ),
            Some(json!({ "servers": [], "languages": languages })),
        );
    }
    let mut sentences = Vec::new();
    let mut servers = Vec::new();
    for Refused { server, fault } in refused {
        let definition = &server.definition;
        let commands: Vec<&str> = definition
            .commands
            .iter()
            .filter_map(|command| command.first())
            .map(String::as_str)
            .collect();
        let program = commands.first().copied().unwrap_or_default();
        let reason = match fault {
            ProgramFault::Missing => format!("`{program}` is not on PATH"),
            ProgramFault::NotExecutable => format!("`{program}` is not executable"),
            ProgramFault::InsideWorkspace => {
                format!("`{program}` was found inside the workspace only")
            }
            ProgramFault::OtherProject => "the project is one of another tool".to_owned(),
        };
        let hints: Vec<&str> = definition
            .install
            .iter()
            .map(|hint| hint.command.as_str())
            .collect();
        let how = if hints.is_empty() {
            String::new()
        } else {
            format!(" (install: {})", hints.join("; or "))
        };
        sentences.push(format!("{}: {reason}{how}", definition.id));
        let install: Vec<_> = definition
            .install
            .iter()
            .map(|hint| json!({ "manager": hint.manager, "command": hint.command }))
            .collect();
        servers.push(json!({ "id": definition.id, "commands": commands, "reason": fault, "install": install }));
    }
    let language = &refused[0].server.language_id;
    RpcError::lsp(
        LspCode::Unavailable,
        format!(
            "no language server for {language} can be started for {name}. {}",
            sentences.join(". ")
        ),
        Some(json!({ "languageId": language, "servers": servers })),
    )
}
