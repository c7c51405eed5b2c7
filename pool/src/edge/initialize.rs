//! The params of a client's `initialize`.
//!
//! Invariant: what the server will be told is what the client wrote, byte for byte, except the members that
//! this file names: `capabilities` is raised, and the two `lspool` members are taken out.

use std::borrow::Cow;

use lspool_normalize::{canonical, capabilities};

use super::InitializeFacts;
use super::members::{integer, items, member, members, span_in, string, with, without};

/// Reads the params.
///
/// # Errors
/// The path of the member that is missing or has another type than the protocol gives it.
pub(super) fn decode(params: Option<&str>) -> Result<Box<InitializeFacts>, String> {
    let params = params.ok_or("params")?;
    let [capabilities, client_info, trace] =
        members(params, ["capabilities", "clientInfo", "trace"]).ok_or("params")?;

    let capabilities = capabilities.filter(|json| *json != "null").unwrap_or("{}");
    let [experimental] = members(capabilities, ["experimental"]).ok_or("params.capabilities")?;
    let knows_lspool = experimental
        .and_then(|experimental| member(experimental, "lspool"))
        .is_some_and(|json| json != "null");
    let offered = without_lspool(capabilities, "experimental");
    let raised = capabilities::raise(offered.as_deref().unwrap_or(capabilities))
        .map_err(|error| format!("params.capabilities ({error})"))?;

    let mut spliced = with(params, "capabilities", &raised.json).ok_or("params")?;
    if let Some(cleaned) = without_lspool(&spliced, "initializationOptions") {
        spliced = cleaned;
    }
    let options_digest =
        match member(&spliced, "initializationOptions").filter(|json| *json != "null") {
            None => 0,
            Some(json) => canonical::digest(json)
                .map_err(|error| format!("params.initializationOptions ({error})"))?,
        };
    let process_id = member(&spliced, "processId");
    Ok(Box::new(InitializeFacts {
        process_id_span: process_id.map(|json| span_in(spliced.as_bytes(), json)),
        process_id: process_id.and_then(integer),
        folders: folders(params)?,
        raised,
        options_digest,
        knows_lspool,
        client_name: client_info
            .and_then(|info| member(info, "name"))
            .and_then(string)
            .map(Cow::into_owned),
        trace: trace.and_then(string).map(Cow::into_owned),
        params: spliced,
    }))
}

/// The object without the member `lspool` of its member `holder`; a holder that held nothing else goes
/// too, so that knowing lspool is not a difference between two clients.
fn without_lspool(object: &str, holder: &str) -> Option<String> {
    let cleaned = without(member(object, holder)?, "lspool")?;
    if cleaned.is_empty {
        return Some(without(object, holder)?.json);
    }
    with(object, holder, &cleaned.json)
}

/// `workspaceFolders`, else `rootUri`, else `rootPath`, as spelled.
fn folders(params: &str) -> Result<Vec<String>, String> {
    let [folders, root_uri, root_path] =
        members(params, ["workspaceFolders", "rootUri", "rootPath"]).ok_or("params")?;
    let folders = match folders.filter(|json| *json != "null") {
        Some(json) => items(json).ok_or("params.workspaceFolders")?,
        None => Vec::new(),
    };
    if folders.is_empty() {
        return Ok(root_uri
            .and_then(string)
            .or(root_path.and_then(string))
            .map(Cow::into_owned)
            .into_iter()
            .collect());
    }
    let uri = |(index, folder)| {
        let uri = member(folder, "uri").and_then(string).map(Cow::into_owned);
        uri.ok_or_else(|| format!("params.workspaceFolders[{index}].uri"))
    };
    folders.into_iter().enumerate().map(uri).collect()
}

#[cfg(test)]
mod tests;
