//! Which messages of a server a client gets, by what it announced.
//!
//! Invariant: a client never gets a request or a notification whose capability it did not announce; what it does not
//! get is answered by the pool.

use serde_json::value::RawValue;

use super::offer::ClientOffer;
use super::table::Key;
use crate::canonical::{Member, Members};
use crate::uri::UriKey;

/// The key by which a feature of `textDocument` announces registration.
macro_rules! dynamic {
    ($feature:literal) => {
        &["textDocument", $feature, "dynamicRegistration"]
    };
}

/// Server messages that a client must have announced, with the key that announces them.
pub(super) const SERVER_MESSAGES: &[(&str, &[&str])] = &[
    (
        "window/workDoneProgress/create",
        &["window", "workDoneProgress"],
    ),
    (
        "window/showDocument",
        &["window", "showDocument", "support"],
    ),
    ("workspace/configuration", &["workspace", "configuration"]),
    (
        "workspace/workspaceFolders",
        &["workspace", "workspaceFolders"],
    ),
    ("workspace/applyEdit", &["workspace", "applyEdit"]),
    (
        "experimental/serverStatus",
        &["experimental", "serverStatusNotification"],
    ),
    (
        "workspace/codeLens/refresh",
        &["workspace", "codeLens", "refreshSupport"],
    ),
    (
        "workspace/semanticTokens/refresh",
        &["workspace", "semanticTokens", "refreshSupport"],
    ),
    (
        "workspace/inlayHint/refresh",
        &["workspace", "inlayHint", "refreshSupport"],
    ),
    (
        "workspace/inlineValue/refresh",
        &["workspace", "inlineValue", "refreshSupport"],
    ),
    (
        "workspace/diagnostic/refresh",
        &["workspace", "diagnostics", "refreshSupport"],
    ),
    (
        "workspace/foldingRange/refresh",
        &["workspace", "foldingRange", "refreshSupport"],
    ),
];

/// Methods that can be registered for, with the key that announces it.
pub(super) const REGISTRATIONS: &[(&str, &[&str])] = &[
    (
        "workspace/didChangeWatchedFiles",
        &["workspace", "didChangeWatchedFiles", "dynamicRegistration"],
    ),
    (
        "workspace/didChangeConfiguration",
        &["workspace", "didChangeConfiguration", "dynamicRegistration"],
    ),
    (
        "workspace/didChangeWorkspaceFolders",
        &["workspace", "workspaceFolders"],
    ),
    (
        "workspace/symbol",
        &["workspace", "symbol", "dynamicRegistration"],
    ),
    (
        "workspace/executeCommand",
        &["workspace", "executeCommand", "dynamicRegistration"],
    ),
    (
        "workspace/textDocumentContent",
        &["workspace", "textDocumentContent", "dynamicRegistration"],
    ),
    ("workspace/willCreateFiles", FILE_OPERATIONS),
    ("workspace/willRenameFiles", FILE_OPERATIONS),
    ("workspace/willDeleteFiles", FILE_OPERATIONS),
    ("workspace/didCreateFiles", FILE_OPERATIONS),
    ("workspace/didRenameFiles", FILE_OPERATIONS),
    ("workspace/didDeleteFiles", FILE_OPERATIONS),
    ("textDocument/didOpen", SYNCHRONISATION),
    ("textDocument/didChange", SYNCHRONISATION),
    ("textDocument/didClose", SYNCHRONISATION),
    ("textDocument/didSave", SYNCHRONISATION),
    ("textDocument/willSave", SYNCHRONISATION),
    ("textDocument/willSaveWaitUntil", SYNCHRONISATION),
    ("textDocument/completion", dynamic!("completion")),
    ("textDocument/hover", dynamic!("hover")),
    ("textDocument/signatureHelp", dynamic!("signatureHelp")),
    ("textDocument/declaration", dynamic!("declaration")),
    ("textDocument/definition", dynamic!("definition")),
    ("textDocument/typeDefinition", dynamic!("typeDefinition")),
    ("textDocument/implementation", dynamic!("implementation")),
    ("textDocument/references", dynamic!("references")),
    (
        "textDocument/documentHighlight",
        dynamic!("documentHighlight"),
    ),
    ("textDocument/documentSymbol", dynamic!("documentSymbol")),
    ("textDocument/codeAction", dynamic!("codeAction")),
    ("textDocument/codeLens", dynamic!("codeLens")),
    ("textDocument/documentLink", dynamic!("documentLink")),
    ("textDocument/documentColor", dynamic!("colorProvider")),
    ("textDocument/formatting", dynamic!("formatting")),
    ("textDocument/rangeFormatting", dynamic!("rangeFormatting")),
    (
        "textDocument/onTypeFormatting",
        dynamic!("onTypeFormatting"),
    ),
    ("textDocument/rename", dynamic!("rename")),
    ("textDocument/foldingRange", dynamic!("foldingRange")),
    ("textDocument/selectionRange", dynamic!("selectionRange")),
    (
        "textDocument/linkedEditingRange",
        dynamic!("linkedEditingRange"),
    ),
    (
        "textDocument/prepareCallHierarchy",
        dynamic!("callHierarchy"),
    ),
    (
        "textDocument/prepareTypeHierarchy",
        dynamic!("typeHierarchy"),
    ),
    ("textDocument/semanticTokens", dynamic!("semanticTokens")),
    ("textDocument/moniker", dynamic!("moniker")),
    ("textDocument/inlayHint", dynamic!("inlayHint")),
    ("textDocument/inlineValue", dynamic!("inlineValue")),
    (
        "textDocument/inlineCompletion",
        dynamic!("inlineCompletion"),
    ),
    ("textDocument/diagnostic", dynamic!("diagnostic")),
    (
        "notebookDocument/sync",
        &["notebookDocument", "synchronization", "dynamicRegistration"],
    ),
];

const FILE_OPERATIONS: &[&str] = &["workspace", "fileOperations", "dynamicRegistration"];
const SYNCHRONISATION: &[&str] = dynamic!("synchronization");

/// Whether a client gets a request or a notification of a server.
///
/// Progress that a server began by itself needs `window.workDoneProgress`; ask here with `$/progress` for its tokens
/// alone, since progress on a token of the client's own needs nothing. Methods without a capability are let through.
pub fn allows_server_message(method: &str, offer: &ClientOffer) -> bool {
    match method {
        "$/progress" => offer.has(Key::WorkDoneProgress),
        _ => offer.takes_message(method).unwrap_or(true),
    }
}

/// What is left of a registration for one client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filtered {
    /// All of it, byte for byte.
    Unchanged,
    /// These parameters instead.
    Changed(String),
    /// Nothing: the client does not get the request.
    Nothing,
}

/// The parameters of `client/registerCapability` for one client: registrations that it did not announce are left out,
/// and patterns relative to a base become absolute ones for a client that does not know them.
pub fn filter_registrations(params: &str, offer: &ClientOffer) -> Filtered {
    filter(params, &["registrations"], offer)
}

/// The same for `client/unregisterCapability`, whose member the protocol misspells (`unregisterations`).
pub fn filter_unregistrations(params: &str, offer: &ClientOffer) -> Filtered {
    filter(params, &["unregisterations", "unregistrations"], offer)
}

fn filter(params: &str, names: &[&str], offer: &ClientOffer) -> Filtered {
    // What cannot be read is passed on as it is: a client is the better judge of it than a guess would be.
    try_filter(params, names, offer).unwrap_or(Filtered::Unchanged)
}

fn try_filter(
    params: &str,
    names: &[&str],
    offer: &ClientOffer,
) -> Result<Filtered, serde_json::Error> {
    let raw: &RawValue = serde_json::from_str(params)?;
    let members: Members<'_> = serde_json::from_str(raw.get())?;
    let mut out = Vec::new();
    let (mut changed, mut left) = (false, 0);
    for member in &members.0 {
        let is_list = member
            .name()
            .is_some_and(|name| names.contains(&name.as_str()));
        if !is_list {
            out.push(format!("{}:{}", member.key, member.value));
            continue;
        }
        let items: Vec<&RawValue> = serde_json::from_str(member.value)?;
        let mut kept = Vec::new();
        for item in items {
            match registration(item.get(), offer)? {
                Filtered::Unchanged => kept.push(item.get().to_owned()),
                Filtered::Changed(lowered) => {
                    kept.push(lowered);
                    changed = true;
                }
                Filtered::Nothing => changed = true,
            }
        }
        left += kept.len();
        out.push(format!("{}:[{}]", member.key, kept.join(",")));
    }
    Ok(match (changed, left) {
        (false, _) => Filtered::Unchanged,
        (true, 0) => Filtered::Nothing,
        (true, _) => Filtered::Changed(format!("{{{}}}", out.join(","))),
    })
}

fn registration(item: &str, offer: &ClientOffer) -> Result<Filtered, serde_json::Error> {
    let members: Members<'_> = serde_json::from_str(item)?;
    let method = members
        .0
        .iter()
        .rev()
        .find(|member| is_named(member, "method"));
    let Some(method) = method.and_then(|member| serde_json::from_str::<String>(member.value).ok())
    else {
        return Ok(Filtered::Unchanged);
    };
    if !offer.takes_registration(&method) {
        return Ok(Filtered::Nothing);
    }
    if method == "workspace/didChangeWatchedFiles" && !offer.has(Key::RelativePatterns) {
        return absolute_patterns(&members);
    }
    Ok(Filtered::Unchanged)
}

/// The registration with `{ baseUri, pattern }` written as one absolute pattern, as servers themselves write it for
/// clients that do not know the pair.
fn absolute_patterns(members: &Members<'_>) -> Result<Filtered, serde_json::Error> {
    let mut out = Vec::new();
    let mut changed = false;
    for member in &members.0 {
        let mut value = member.value.to_owned();
        if is_named(member, "registerOptions") {
            let mut options: serde_json::Value = serde_json::from_str(member.value)?;
            let watchers = options
                .get_mut("watchers")
                .and_then(serde_json::Value::as_array_mut);
            for watcher in watchers.into_iter().flatten() {
                if let Some(pattern) = watcher.get("globPattern").and_then(absolute_pattern) {
                    watcher["globPattern"] = pattern.into();
                    changed = true;
                }
            }
            value = options.to_string();
        }
        out.push(format!("{}:{value}", member.key));
    }
    if changed {
        Ok(Filtered::Changed(format!("{{{}}}", out.join(","))))
    } else {
        Ok(Filtered::Unchanged)
    }
}

/// The absolute pattern of a relative one; `None` for a plain string or a base that is no file.
fn absolute_pattern(pattern: &serde_json::Value) -> Option<String> {
    let base = pattern.get("baseUri")?;
    let uri = base.as_str().or_else(|| base.get("uri")?.as_str())?;
    let key = UriKey::new(uri);
    let base = std::str::from_utf8(key.file_path()?).ok()?;
    let relative = pattern.get("pattern")?.as_str()?;
    Some(format!("{}/{relative}", base.trim_end_matches('/')))
}

fn is_named(member: &Member<'_>, name: &str) -> bool {
    member.name().as_deref() == Some(name)
}
