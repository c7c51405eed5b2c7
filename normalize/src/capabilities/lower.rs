//! Turning a server's richer answers back into what one client announced.
//!
//! Invariant: an answer that the client can take as it is stays byte for byte; members that are carried over keep their
//! spelling. An answer whose shape is not the protocol's is left alone: the client sees what the server said.

use serde::Serialize;
use serde_json::value::RawValue;

use super::markdown::plain_text;
use super::offer::ClientOffer;
use super::table::Key;
use crate::canonical::Members;
use crate::hover;

/// Whether answers to this method may have to be turned back for this client.
pub fn needs_lowering(method: &str, offer: &ClientOffer) -> bool {
    match link_key(method) {
        Some(key) => !offer.has(key),
        None => match method {
            "textDocument/hover" => {
                let formats = offer.hover_formats();
                !(formats.markdown && formats.plaintext)
            }
            "textDocument/documentSymbol" => !offer.has(Key::HierarchicalSymbols),
            _ => false,
        },
    }
}

/// The result of a request as this client announced it; `None` when it can stay as it is.
///
/// `document_uri` is the URI of the request's `textDocument` as the client spelled it; document symbols need it and stay
/// as they are without. The same serves for partial results, which have the shape of the result.
pub fn lower(
    method: &str,
    offer: &ClientOffer,
    result: &str,
    document_uri: Option<&str>,
) -> Option<String> {
    if !needs_lowering(method, offer) {
        return None;
    }
    let result: &RawValue = serde_json::from_str(result).ok()?;
    let result = result.get();
    match method {
        "textDocument/hover" => lower_hover(result, offer),
        "textDocument/documentSymbol" => flatten_symbols(result, document_uri?),
        _ => lower_links(result),
    }
}

fn link_key(method: &str) -> Option<Key> {
    match method {
        "textDocument/definition" => Some(Key::DefinitionLinks),
        "textDocument/declaration" => Some(Key::DeclarationLinks),
        "textDocument/typeDefinition" => Some(Key::TypeDefinitionLinks),
        "textDocument/implementation" => Some(Key::ImplementationLinks),
        _ => None,
    }
}

/// Members of an object by name, the last of equal ones.
struct Named<'json>(Members<'json>);

impl<'json> Named<'json> {
    fn read(object: &'json str) -> Option<Self> {
        if !object.starts_with('{') {
            return None;
        }
        serde_json::from_str(object).ok().map(Self)
    }

    /// The member's value unless it is absent or `null`.
    fn get(&self, name: &str) -> Option<&'json str> {
        let found = self
            .0
            .0
            .iter()
            .rev()
            .find(|member| member.name().as_deref() == Some(name))?;
        (found.value != "null").then_some(found.value)
    }
}

fn lower_links(result: &str) -> Option<String> {
    if !result.starts_with('[') {
        return link_to_location(result);
    }
    let items: Vec<&RawValue> = serde_json::from_str(result).ok()?;
    let mut changed = false;
    let mut lowered = Vec::with_capacity(items.len());
    for item in items {
        match link_to_location(item.get()) {
            Some(location) => {
                changed = true;
                lowered.push(location);
            }
            None => lowered.push(item.get().to_owned()),
        }
    }
    changed.then(|| format!("[{}]", lowered.join(",")))
}

/// `{ uri, range }` of a link; `None` for anything else. The name's range is where a client puts the cursor.
fn link_to_location(item: &str) -> Option<String> {
    let link = Named::read(item)?;
    let uri = link.get("targetUri")?;
    let range = link
        .get("targetSelectionRange")
        .or_else(|| link.get("targetRange"))?;
    Some(format!("{{\"uri\":{uri},\"range\":{range}}}"))
}

fn lower_hover(result: &str, offer: &ClientOffer) -> Option<String> {
    let members: Members<'_> = if result.starts_with('{') {
        serde_json::from_str(result).ok()?
    } else {
        return None;
    };
    let mut changed = false;
    let mut out = Vec::with_capacity(members.0.len());
    for member in &members.0 {
        let lowered = (member.name().as_deref() == Some("contents"))
            .then(|| lower_contents(member.value, offer))
            .flatten();
        changed |= lowered.is_some();
        out.push(format!(
            "{}:{}",
            member.key,
            lowered.as_deref().unwrap_or(member.value)
        ));
    }
    changed.then(|| format!("{{{}}}", out.join(",")))
}

/// `MarkupContent` in a form that the client takes; `None` when it is no `MarkupContent` or can stay.
///
/// A client that announced no format knows `MarkedString` alone, whose plain form is Markdown; plain text goes into it
/// as a code block, which nothing in it can leave.
fn lower_contents(contents: &str, offer: &ClientOffer) -> Option<String> {
    let markup = Named::read(contents)?;
    let kind: String = serde_json::from_str(markup.get("kind")?).ok()?;
    let value: String = serde_json::from_str(markup.get("value")?).ok()?;
    let formats = offer.hover_formats();
    match (kind.as_str(), formats.markdown, formats.plaintext) {
        ("markdown", false, true) => json(&Markup {
            kind: "plaintext",
            value: plain_text(&value),
        }),
        ("plaintext", true, false) => json(&Markup {
            kind: "markdown",
            value: hover::fence("", &value),
        }),
        ("plaintext", false, false) => json(&MarkedCode {
            language: "plaintext",
            value,
        }),
        (_, false, false) => json(&value),
        _ => None,
    }
}

#[derive(Serialize)]
struct Markup {
    kind: &'static str,
    value: String,
}

#[derive(Serialize)]
struct MarkedCode {
    language: &'static str,
    value: String,
}

fn json(value: &impl Serialize) -> Option<String> {
    serde_json::to_string(value).ok()
}

/// Symbols nested deeper than this are left as they are, so that a hostile answer cannot exhaust the stack.
const MAX_SYMBOL_DEPTH: usize = 128;

/// A tree of `DocumentSymbol` as the flat list of `SymbolInformation`; `None` when the answer is flat already.
fn flatten_symbols(result: &str, document_uri: &str) -> Option<String> {
    let items: Vec<&RawValue> = serde_json::from_str(result).ok()?;
    let uri = json(&document_uri)?;
    let mut flat = Vec::new();
    let mut changed = false;
    for item in items {
        let symbol = Named::read(item.get())?;
        if symbol.get("location").is_some() {
            flat.push(item.get().to_owned());
        } else {
            changed = true;
            flatten_symbol(&symbol, &uri, None, 0, &mut flat)?;
        }
    }
    changed.then(|| format!("[{}]", flat.join(",")))
}

fn flatten_symbol(
    symbol: &Named<'_>,
    uri: &str,
    container: Option<&str>,
    depth: usize,
    flat: &mut Vec<String>,
) -> Option<()> {
    if depth > MAX_SYMBOL_DEPTH {
        return None;
    }
    let name = symbol.get("name")?;
    let mut members = vec![
        format!("\"name\":{name}"),
        format!("\"kind\":{}", symbol.get("kind")?),
    ];
    for carried in ["tags", "deprecated"] {
        members.extend(
            symbol
                .get(carried)
                .map(|value| format!("\"{carried}\":{value}")),
        );
    }
    let range = symbol.get("range")?;
    members.push(format!("\"location\":{{\"uri\":{uri},\"range\":{range}}}"));
    members.extend(container.map(|container| format!("\"containerName\":{container}")));
    flat.push(format!("{{{}}}", members.join(",")));
    if let Some(children) = symbol.get("children") {
        let children: Vec<&RawValue> = serde_json::from_str(children).ok()?;
        for child in children {
            flatten_symbol(&Named::read(child.get())?, uri, Some(name), depth + 1, flat)?;
        }
    }
    Some(())
}
