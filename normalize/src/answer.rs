//! What servers answer, in every shape that the protocol allows.
//!
//! Invariant: a legal shape is never refused and an illegal one never becomes an empty answer; the error names the
//! field. Members that are not needed may be anything.

use serde_json::Value;

use crate::error::{LspCode, RpcError};
use crate::hover;
use crate::json::{self, Field};
use crate::operation::Operation;
use crate::position::Range;
use crate::uri::WireUri;

/// A place as a server named it, in the server's own column unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file, as the server spelled it.
    pub uri: WireUri,
    /// The name's range: `range`, or `targetSelectionRange` of a link.
    pub range: Range,
    /// The whole item's range: `targetRange` of a link.
    pub full_range: Option<Range>,
    /// What the question was understood to be about: `originSelectionRange` of a link, in the asked file.
    pub origin: Option<Range>,
    /// Whether it is known to be the declaration; no server says so, `locations::with_declarations` finds out.
    pub declaration: bool,
}

/// A hover as a server gave it, cleaned and in one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoverAnswer {
    /// Markdown or plain text, never blank.
    pub contents: String,
    /// What it is about, in the server's own column unit.
    pub range: Option<Range>,
}

/// An answer with an illegal shape. Code `LSP_MALFORMED_RESPONSE`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` should be {expected} but is {found}")]
pub struct Malformed {
    /// The field, such as `result[2].range.start.line`.
    pub field: String,
    /// What belongs there.
    pub expected: &'static str,
    /// What stands there.
    pub found: String,
}

impl Malformed {
    /// The error of a query, naming the server and the field.
    pub fn to_rpc(&self, server: &str, operation: Operation) -> RpcError {
        let method = operation.method();
        RpcError::lsp(
            LspCode::MalformedResponse,
            format!("{server} gave a malformed answer to {method}: {self}"),
            Some(serde_json::json!({
                "server": server, "method": method, "field": self.field, "expected": self.expected, "found": self.found,
            })),
        )
    }
}

/// Reads the result of a definition, references or implementation request: `null`, an absent result (empty text), one
/// `Location` or `LocationLink`, or an array in which both may stand.
///
/// A link that lacks its selection range falls back to its whole range.
pub fn parse_locations(result: &str) -> Result<Vec<Place>, Malformed> {
    let Some(result) = parse(result)? else {
        return Ok(Vec::new());
    };
    let top = Field::top("result", &result);
    match &result {
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(index, item)| place(&top.item(index, item)))
            .collect(),
        _ => Ok(vec![place(&top)?]),
    }
}

/// Reads the result of a hover request: `null`, an absent result (empty text), or a hover whose contents are
/// `MarkupContent`, a `MarkedString` of either form, or an array of those. Null members are skipped; blank contents
/// are no hover.
pub fn parse_hover(result: &str) -> Result<Option<HoverAnswer>, Malformed> {
    let Some(result) = parse(result)? else {
        return Ok(None);
    };
    let top = Field::top("result", &result);
    let Value::Object(members) = &result else {
        return Err(top.malformed("a hover or null"));
    };
    let range = top
        .optional("range")
        .map(|range| range.range())
        .transpose()?;
    if members.get("contents").is_some_and(Value::is_null) {
        return Ok(None);
    }
    let contents = hover_text(&top.required("contents", "hover contents")?)?;
    let contents = hover::clean(&contents);
    Ok((!contents.is_empty()).then_some(HoverAnswer { contents, range }))
}

/// The result as a value; `None` for `null` and for nothing at all.
fn parse(result: &str) -> Result<Option<Value>, Malformed> {
    if result.trim().is_empty() {
        return Ok(None);
    }
    match json::parse(result) {
        Ok(Value::Null) => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(error) => Err(Malformed {
            field: "result".to_owned(),
            expected: "JSON",
            found: error.to_string(),
        }),
    }
}

fn place(field: &Field<'_, '_>) -> Result<Place, Malformed> {
    if !field.value.is_object() {
        return Err(field.malformed("a Location or a LocationLink"));
    }
    if let Some(target) = field.optional("targetUri") {
        let full_range = field
            .optional("targetRange")
            .map(|range| range.range())
            .transpose()?;
        let name = field
            .optional("targetSelectionRange")
            .map(|range| range.range())
            .transpose()?;
        let Some(range) = name.or(full_range) else {
            return Err(field
                .required("targetSelectionRange", "a range")
                .err()
                .unwrap_or_else(|| field.malformed("a LocationLink")));
        };
        return Ok(Place {
            uri: uri(&target)?,
            range,
            full_range,
            origin: field
                .optional("originSelectionRange")
                .map(|range| range.range())
                .transpose()?,
            declaration: false,
        });
    }
    Ok(Place {
        uri: uri(&field.required("uri", "a URI")?)?,
        range: field.required("range", "a range")?.range()?,
        full_range: None,
        origin: None,
        declaration: false,
    })
}

fn uri(field: &Field<'_, '_>) -> Result<WireUri, Malformed> {
    let spelling = field.string()?;
    if spelling.is_empty() {
        return Err(field.malformed("a URI that is not empty"));
    }
    Ok(WireUri::new(spelling))
}

fn hover_text(contents: &Field<'_, '_>) -> Result<String, Malformed> {
    let Value::Array(items) = contents.value else {
        return marked_string(contents);
    };
    let mut parts = Vec::new();
    for (index, item) in items.iter().enumerate() {
        if !item.is_null() {
            let part = marked_string(&contents.item(index, item))?;
            if !part.trim().is_empty() {
                parts.push(part);
            }
        }
    }
    Ok(parts.join("\n\n"))
}

/// A string, a `{ language, value }` pair or a `{ kind, value }` of `MarkupContent`.
fn marked_string(field: &Field<'_, '_>) -> Result<String, Malformed> {
    match field.value {
        Value::String(text) => Ok(text.clone()),
        Value::Object(_) => {
            let value = field.required("value", "a string")?.string()?;
            match field.optional("language") {
                Some(language) if !value.trim().is_empty() => {
                    Ok(hover::fence(language.string()?, value))
                }
                _ => Ok(value.to_owned()),
            }
        }
        _ => Err(field.malformed("a string, MarkupContent or a MarkedString")),
    }
}
