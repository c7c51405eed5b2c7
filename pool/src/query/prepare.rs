//! From a request to a server, a root, a text and a position.
//!
//! Invariant: errors are found in the order file, root, server, text, position, so that a caller who corrects one is
//! not sent back to an earlier one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lspool_normalize::{LspCode, QueryRequest, RpcError, UriKey, canonical};
use lspool_world::{Environment, FileKind, Target, World};
use serde_json::json;

use super::locate::locate;
use super::path::{Named, fs_error, named, workspace_required};
use super::program::{ProgramFault, find_program};
use super::root::{Candidates, is_refused_root};
use super::text::{TextLimit, read_bounded, read_first_line};
use super::{LaunchPlan, NamedFile, Prepared, QueryContext, RunningRoot};
use crate::registry::{
    Definition, EnvironmentRule, LaunchError, LaunchFacts, LaunchInput, Registry, ServerMatch,
};

/// Bytes of a script's first line that are looked at for its interpreter.
const FIRST_LINE_BYTES: usize = 256;

/// Finds what a query is about and how it can be asked. `running` are the instances that live now: one of them that
/// serves the file is preferred, and its root's spelling is used.
///
/// # Errors
/// The fs codes for the file and the root, `LSP_WORKSPACE_REQUIRED`, `LSP_OUTSIDE_WORKSPACE`, `LSP_UNAVAILABLE`,
/// `LSP_DOCUMENT_TOO_LARGE`, and those of [`locate`].
pub async fn prepare(
    world: &World,
    registry: &Registry,
    context: &QueryContext,
    request: &QueryRequest,
    running: &[RunningRoot],
) -> Result<Prepared, RpcError> {
    let asked = AskedFile::resolve(world, context, request).await?;
    let given_root = given_root(world, context, request, &asked).await?;
    let chosen = choose(world, registry, context, &asked, given_root, running).await?;
    let definition = &chosen.server.definition;
    let limit = definition.max_document_bytes;
    let file = read_bounded(world, &asked.target, limit).await.map_err(|fault| match fault {
        TextLimit::Fs(error) => fs_error(&error),
        TextLimit::TooLarge { at_least } => too_large(&asked.path, limit, at_least),
    })?;
    let located = locate(&file.text, request)?;
    let file_path = chosen.root.spell(world, &asked);
    let file_uri = world.fs().spelled_uri(&file_path).map_err(|error| fs_error(&error))?;
    Ok(Prepared {
        definition: Arc::clone(definition),
        root_path: chosen.root.path,
        root_uri: chosen.root.uri,
        root_key: chosen.root.target.key().clone(),
        file_path,
        file_uri,
        asked_uri: asked.uri,
        file_key: asked.target.key().clone(),
        language_id: chosen.server.language_id,
        text: Arc::from(file.text),
        file_version: file.version,
        position: located.position,
        token: located.token,
        launch: chosen.launch,
    })
}

/// The file that a request names.
struct AskedFile {
    /// Absolute, as spelled, without dot segments.
    path: PathBuf,
    /// As the request spelled it where that was a URI.
    uri: String,
    target: Target,
    /// Who named it, when an answer did.
    named_by: Option<NamedFile>,
}

impl AskedFile {
    async fn resolve(world: &World, context: &QueryContext, request: &QueryRequest) -> Result<Self, RpcError> {
        let (path, is_uri) = match named(world, &context.environment, &request.file).map_err(|e| fs_error(&e))? {
            Named::Path(path) => (path, false),
            Named::Uri(path) => (path, true),
            Named::Virtual => return Err(virtual_document(&request.file)),
        };
        let base = if path.is_absolute() { PathBuf::from("/") } else { base_folder(world, context, request)? };
        let target = world.fs().resolve(&path, &base).await.map_err(|error| fs_error(&error))?;
        let metadata = world.fs().stat(&target).await.map_err(|error| fs_error(&error))?;
        let display = target.display_path().to_path_buf();
        match metadata.map(|metadata| metadata.kind) {
            Some(FileKind::File) => {}
            Some(_) => return Err(fs_error(&lspool_world::FsError::NotRegularFile { path: display })),
            None => {
                let reason = "nothing exists there";
                return Err(fs_error(&lspool_world::FsError::NotFound { path: display, reason }));
            }
        }
        let spelled = world.fs().spelled_uri(&display).map_err(|error| fs_error(&error))?;
        let uri = if is_uri { request.file.clone() } else { spelled };
        let named_by = [UriKey::new(&uri), UriKey::new(&world.fs().file_uri(&target))]
            .iter()
            .find_map(|key| context.named_files.get(key))
            .cloned();
        Ok(Self { path: display, uri, target, named_by })
    }
}

/// What a relative file is relative to: the given root, else the connection's only one.
fn base_folder(world: &World, context: &QueryContext, request: &QueryRequest) -> Result<PathBuf, RpcError> {
    if let Some(root) = &request.workspace_root {
        return root_path(world, context, root);
    }
    match context.roots.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(workspace_required(format!(
            "`{}` is relative and there is no root that it could be relative to; give `workspaceRoot` or an absolute path",
            request.file
        ))),
        several => Err(workspace_required(format!(
            "`{}` is relative and this connection has {} roots; give `workspaceRoot` or an absolute path",
            request.file,
            several.len()
        ))),
    }
}

fn root_path(world: &World, context: &QueryContext, text: &str) -> Result<PathBuf, RpcError> {
    match named(world, &context.environment, text).map_err(|error| fs_error(&error))? {
        Named::Path(path) | Named::Uri(path) => Ok(context.cwd.join(path)),
        Named::Virtual => Err(RpcError::invalid_params("workspaceRoot", "`workspaceRoot` must be a path or a file URI")),
    }
}

/// A root in one spelling.
struct Root {
    path: PathBuf,
    uri: String,
    target: Target,
}

impl Root {
    async fn at(world: &World, path: &Path) -> Result<Self, RpcError> {
        let target = world.fs().resolve(path, Path::new("/")).await.map_err(|error| fs_error(&error))?;
        let path = target.display_path().to_path_buf();
        let uri = world.fs().spelled_uri(&path).map_err(|error| fs_error(&error))?;
        Ok(Self { path, uri, target })
    }

    /// The asked file's path below this root's own spelling, where it lies inside; else as it was asked.
    fn spell(&self, world: &World, asked: &AskedFile) -> PathBuf {
        if asked.path.starts_with(&self.path) {
            return asked.path.clone();
        }
        let resolved_root = world.fs().process_path(&self.target);
        let resolved_file = world.fs().process_path(&asked.target);
        match resolved_file.strip_prefix(resolved_root) {
            Ok(relative) => self.path.join(relative),
            Err(_) => asked.path.clone(),
        }
    }
}

/// The root that the request names, checked against the file.
async fn given_root(
    world: &World,
    context: &QueryContext,
    request: &QueryRequest,
    asked: &AskedFile,
) -> Result<Option<Root>, RpcError> {
    let Some(text) = &request.workspace_root else { return Ok(None) };
    let root = Root::at(world, &root_path(world, context, text)?).await?;
    match world.fs().stat(&root.target).await.map_err(|error| fs_error(&error))?.map(|metadata| metadata.kind) {
        Some(FileKind::Directory) => {}
        Some(_) => return Err(fs_error(&lspool_world::FsError::NotDirectory { path: root.path })),
        None => {
            let reason = "the root does not exist";
            return Err(fs_error(&lspool_world::FsError::NotFound { path: root.path, reason }));
        }
    }
    if is_refused_root(world, &context.environment, &root.path).await.map_err(|error| fs_error(&error))? {
        return Err(workspace_required(format!(
            "{} is too wide to be a workspace: name the project's own folder as `workspaceRoot`",
            root.path.display()
        )));
    }
    if world.fs().contains(&root.target, &asked.target) {
        return Ok(Some(root));
    }
    if let Some(owner) = &asked.named_by {
        let owner_root = Root::at(world, &owner.root_path).await?;
        if owner_root.target.key() == root.target.key() {
            return Ok(Some(root));
        }
    }
    Err(RpcError::lsp(
        LspCode::OutsideWorkspace,
        format!(
            "{} is not inside the root {}; leave `workspaceRoot` out or give the file's own root",
            asked.path.display(),
            root.path.display()
        ),
        Some(json!({ "file": asked.uri, "workspaceUri": root.uri })),
    ))
}

/// The server, its root and how it is started.
struct Chosen {
    server: ServerMatch,
    root: Root,
    launch: Option<LaunchPlan>,
}

/// A server that would do, and why it cannot be started.
struct Refused {
    server: ServerMatch,
    fault: ProgramFault,
}

async fn choose(
    world: &World,
    registry: &Registry,
    context: &QueryContext,
    asked: &AskedFile,
    given_root: Option<Root>,
    running: &[RunningRoot],
) -> Result<Chosen, RpcError> {
    let candidates = Candidates::above(world, &context.environment, &asked.path).await.map_err(|e| fs_error(&e))?;
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
        if yields && candidates.yields(world, &definition, &root_path).await.map_err(|error| fs_error(&error))? {
            continue;
        }
        let mut root = Root::at(world, &root_path).await?;
        let lives = running
            .iter()
            .find(|instance| instance.server == definition.id && instance.root_key == *root.target.key());
        if lives.is_none() && startable.is_some() {
            continue;
        }
        let launch = plan(world, context, &definition, &root).await;
        if let Some(instance) = lives {
            root.path.clone_from(&instance.root_path);
            root.uri.clone_from(&instance.root_uri);
            return Ok(Chosen { server, root, launch: launch.ok() });
        }
        match launch {
            Ok(launch) => startable = Some(Chosen { server, root, launch: Some(launch) }),
            Err(fault) => refused.push(Refused { server, fault }),
        }
    }
    startable.ok_or_else(|| unavailable(asked, &refused, registry))
}

/// The servers with navigation for the file, best first; the one that named the file alone, where one did.
async fn servers_for(world: &World, registry: &Registry, asked: &AskedFile) -> Vec<ServerMatch> {
    let mut servers = registry.definitions_for(&asked.path, None, None);
    if servers.is_empty() {
        let first_line = read_first_line(world, &asked.target, FIRST_LINE_BYTES).await;
        servers = registry.definitions_for(&asked.path, None, first_line.as_deref());
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
    if let Some(root) = candidates.by_markers(world, definition).await.map_err(|error| fs_error(&error))? {
        return Ok(root);
    }
    let mut deepest: Option<Root> = None;
    for path in &context.roots {
        let root = Root::at(world, path).await?;
        let refused = is_refused_root(world, &context.environment, &root.path).await.map_err(|e| fs_error(&e))?;
        let deeper = deepest.as_ref().is_none_or(|known| world.fs().contains(&known.target, &root.target));
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
    let argv = find_program(world, definition, &environment, &context.installs, &root.target).await?;
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
    Ok(LaunchPlan { argv, cwd: root.path.clone(), environment: context.environment.clone(), scrub, facts })
}

/// The digest that a client's `initializationOptions` of the same value has.
fn options_digest(definition: &Definition) -> u128 {
    let text = definition.initialization_options.as_ref().map(serde_json::Value::to_string);
    // A value that serialises always has a canonical form, unless it is nested beyond what TOML can spell.
    text.and_then(|text| canonical::digest(&text).ok()).unwrap_or(0)
}

fn child_environment(world: &World, environment: &Environment, scrub: bool) -> Environment {
    if scrub { environment.scrubbed(world.subprocess().scrub_rules()) } else { environment.clone() }
}

fn too_large(path: &Path, limit: u64, at_least: u64) -> RpcError {
    RpcError::lsp(
        LspCode::DocumentTooLarge,
        format!("{} has at least {at_least} bytes; a server is given documents of at most {limit}", path.display()),
        Some(json!({ "limit": limit, "atLeast": at_least })),
    )
}

fn virtual_document(uri: &str) -> RpcError {
    RpcError::lsp(
        LspCode::Unavailable,
        format!("`{uri}` is no file, and no running server named it"),
        Some(json!({ "uri": uri })),
    )
}

/// `LSP_UNAVAILABLE`: which servers would do, why each cannot be started, and how it is had.
fn unavailable(asked: &AskedFile, refused: &[Refused], registry: &Registry) -> RpcError {
    let name = asked.path.display();
    if refused.is_empty() {
        let languages = registry.languages();
        return RpcError::lsp(
            LspCode::Unavailable,
            format!("no language server is known for {name}; define one with `[[server]]` in config.toml"),
            Some(json!({ "servers": [], "languages": languages })),
        );
    }
    let mut sentences = Vec::new();
    let mut servers = Vec::new();
    for Refused { server, fault } in refused {
        let definition = &server.definition;
        let commands: Vec<&str> =
            definition.commands.iter().filter_map(|command| command.first()).map(String::as_str).collect();
        let program = commands.first().copied().unwrap_or_default();
        let reason = match fault {
            ProgramFault::Missing => format!("`{program}` is not on PATH"),
            ProgramFault::NotExecutable => format!("`{program}` is not executable"),
            ProgramFault::InsideWorkspace => format!("`{program}` was found inside the workspace only"),
        };
        let hints: Vec<&str> = definition.install.iter().map(|hint| hint.command.as_str()).collect();
        let how = if hints.is_empty() { String::new() } else { format!(" (install: {})", hints.join("; or ")) };
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
        format!("no language server for {language} can be started for {name}. {}", sentences.join(". ")),
        Some(json!({ "languageId": language, "servers": servers })),
    )
}
