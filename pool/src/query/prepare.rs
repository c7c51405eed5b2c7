//! From a request to a server, a root, a text and a position.
//!
//! Invariant: errors are found in the order file, root, server, text, position, so that a caller who corrects one is
//! not sent back to an earlier one.

use std::path::Path;
use std::sync::Arc;

use lspool_normalize::request::View;
use lspool_normalize::{LspCode, QueryRequest, RpcError, UriKey};
use lspool_world::World;
use serde_json::json;

use super::asked::{AskedFile, given_root};
use super::choose::choose;
use super::locate::locate;
use super::path::fs_error;
use super::text::{TextLimit, read_bounded};
use super::{EditorText, Prepared, QueryContext, RunningRoot};
use crate::edge::TextId;
use crate::registry::Registry;

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
    let file = read_bounded(world, &asked.target, limit)
        .await
        .map_err(|fault| match fault {
            TextLimit::Fs(error) => fs_error(&error),
            TextLimit::TooLarge { at_least } => too_large(&asked.path, limit, at_least),
        })?;
    let editor_text = editor_text(context, request, &asked);
    let text = editor_text
        .as_ref()
        .map_or_else(|| Arc::from(file.text), |editor| Arc::clone(&editor.text));
    let located = locate(&text, request)?;
    let file_path = chosen.root.spell(world, &asked);
    let file_uri = world
        .fs()
        .spelled_uri(&file_path)
        .map_err(|error| fs_error(&error))?;
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
        text_id: TextId::of(&text),
        text,
        editor_text,
        file_version: file.version,
        position: located.position,
        token: located.token,
        launch: chosen.launch,
    })
}

/// The text that an editor holds of the asked file, where the request wants that view.
fn editor_text(
    context: &QueryContext,
    request: &QueryRequest,
    asked: &AskedFile,
) -> Option<EditorText> {
    if request.view != Some(View::Editor) {
        return None;
    }
    context.editor_texts.get(&UriKey::new(&asked.uri)).cloned()
}

fn too_large(path: &Path, limit: u64, at_least: u64) -> RpcError {
    RpcError::lsp(
        LspCode::DocumentTooLarge,
        format!(
            "{} has at least {at_least} bytes; a server is given documents of at most {limit}",
            path.display()
        ),
        Some(json!({ "limit": limit, "atLeast": at_least })),
    )
}
