//! The file that a query asks about, and the root that it gives.
//!
//! Invariant: identity is judged on targets, with links resolved; what is told keeps the caller's spelling.

use std::path::{Path, PathBuf};

use lspool_normalize::{LspCode, QueryRequest, RpcError, UriKey};
use lspool_world::{Environment, FileKind, FsError, Target, World};
use serde_json::json;

use super::path::{Named, fs_error, named, workspace_required};
use super::root::is_refused_root;
use super::{NamedFile, QueryContext};

/// The file that a request names.
pub(super) struct AskedFile {
    /// Absolute, as spelled, without dot segments.
    pub(super) path: PathBuf,
    /// As the request spelled it where that was a URI.
    pub(super) uri: String,
    pub(super) target: Target,
    /// Who named it, when an answer did.
    pub(super) named_by: Option<NamedFile>,
}

impl AskedFile {
    pub(super) async fn resolve(
        world: &World,
        context: &QueryContext,
        request: &QueryRequest,
    ) -> Result<Self, RpcError> {
        let (path, is_uri) =
            match named(world, &context.environment, &request.file).map_err(|e| fs_error(&e))? {
                Named::Path(path) => (path, false),
                Named::Uri(path) => (path, true),
                Named::Virtual => return Err(virtual_document(&request.file)),
            };
        let base = if path.is_absolute() {
            PathBuf::from("/")
        } else {
            base_folder(world, context, request)?
        };
        let target = world
            .fs()
            .resolve(&path, &base)
            .await
            .map_err(|error| fs_error(&error))?;
        let metadata = world
            .fs()
            .stat(&target)
            .await
            .map_err(|error| fs_error(&error))?;
        let display = target.display_path().to_path_buf();
        match metadata.map(|metadata| metadata.kind) {
            Some(FileKind::File) => {}
            Some(_) => {
                return Err(fs_error(&FsError::NotRegularFile { path: display }));
            }
            None => {
                let reason = "nothing exists there";
                return Err(fs_error(&FsError::NotFound {
                    path: display,
                    reason,
                }));
            }
        }
        let spelled = world
            .fs()
            .spelled_uri(&display)
            .map_err(|error| fs_error(&error))?;
        let uri = if is_uri {
            request.file.clone()
        } else {
            spelled
        };
        let named_by = [
            UriKey::new(&uri),
            UriKey::new(&world.fs().file_uri(&target)),
        ]
        .iter()
        .find_map(|key| context.named_files.get(key))
        .cloned();
        Ok(Self {
            path: display,
            uri,
            target,
            named_by,
        })
    }
}

/// What a relative file is relative to: the given root, else the connection's only one.
fn base_folder(
    world: &World,
    context: &QueryContext,
    request: &QueryRequest,
) -> Result<PathBuf, RpcError> {
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
        Named::Virtual => Err(RpcError::invalid_params(
            "workspaceRoot",
            "`workspaceRoot` must be a path or a file URI",
        )),
    }
}

/// A root in one spelling.
pub(super) struct Root {
    pub(super) path: PathBuf,
    pub(super) uri: String,
    pub(super) target: Target,
}

impl Root {
    pub(super) async fn at(world: &World, path: &Path) -> Result<Self, RpcError> {
        let target = world
            .fs()
            .resolve(path, Path::new("/"))
            .await
            .map_err(|error| fs_error(&error))?;
        let path = target.display_path().to_path_buf();
        let uri = world
            .fs()
            .spelled_uri(&path)
            .map_err(|error| fs_error(&error))?;
        Ok(Self { path, uri, target })
    }

    /// This root, unless it is one that no server is let loose on, whatever rule or person named it.
    ///
    /// # Errors
    /// `LSP_WORKSPACE_REQUIRED` for `/` and the home folder.
    pub(super) async fn admitted(
        self,
        world: &World,
        environment: &Environment,
    ) -> Result<Self, RpcError> {
        if is_refused_root(world, environment, &self.path)
            .await
            .map_err(|error| fs_error(&error))?
        {
            return Err(workspace_required(format!(
                "{} is too wide to be a workspace: name the project's own folder as `workspaceRoot`",
                self.path.display()
            )));
        }
        Ok(self)
    }

    /// The asked file's path below this root's own spelling, where it lies inside; else as it was asked.
    pub(super) fn spell(&self, world: &World, asked: &AskedFile) -> PathBuf {
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
pub(super) async fn given_root(
    world: &World,
    context: &QueryContext,
    request: &QueryRequest,
    asked: &AskedFile,
) -> Result<Option<Root>, RpcError> {
    let Some(text) = &request.workspace_root else {
        return Ok(None);
    };
    let root = Root::at(world, &root_path(world, context, text)?).await?;
    match world
        .fs()
        .stat(&root.target)
        .await
        .map_err(|error| fs_error(&error))?
        .map(|metadata| metadata.kind)
    {
        Some(FileKind::Directory) => {}
        Some(_) => {
            return Err(fs_error(&FsError::NotDirectory { path: root.path }));
        }
        None => {
            let reason = "the root does not exist";
            return Err(fs_error(&FsError::NotFound {
                path: root.path,
                reason,
            }));
        }
    }
    let root = root.admitted(world, &context.environment).await?;
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

fn virtual_document(uri: &str) -> RpcError {
    RpcError::lsp(
        LspCode::Unavailable,
        format!("`{uri}` is no file, and no running server named it"),
        Some(json!({ "uri": uri })),
    )
}
