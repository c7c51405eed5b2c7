//! The content changes of `textDocument/didChange`, applied.
//!
//! Invariant: changes are applied in the order sent, each to the text that the one before left, with columns
//! in UTF-16 code units (LSP 3.17, `textDocument/didChange`).

use lspool_normalize::{Encoding, Range, edit};

use super::members::{items, members, string};

/// The text after the changes, which are the JSON array `contentChanges`.
///
/// # Errors
/// The path of the member that is missing or has another type than the protocol gives it.
pub(super) fn apply(text: &str, changes: &str) -> Result<String, String> {
    let changes = items(changes).ok_or("params.contentChanges")?;
    let mut current: Option<String> = None;
    for (index, change) in changes.into_iter().enumerate() {
        let wrong = |name: &str| format!("params.contentChanges[{index}]{name}");
        let [range, replacement] = members(change, ["range", "text"]).ok_or_else(|| wrong(""))?;
        let replacement = replacement.and_then(string).ok_or_else(|| wrong(".text"))?;
        current = Some(match range.filter(|&range| range != "null") {
            None => replacement.into_owned(),
            Some(range) => {
                let range: Range = serde_json::from_str(range).map_err(|_| wrong(".range"))?;
                edit::apply(
                    current.as_deref().unwrap_or(text),
                    &range,
                    &replacement,
                    Encoding::Utf16,
                )
            }
        });
    }
    Ok(current.unwrap_or_else(|| text.to_owned()))
}
