//! The text of a refused question for a person, who counts lines and columns from 1.
//!
//! Programs read the code and the detail; only the words differ from those of the method's error.

use std::fmt::Write as _;

use lspool_normalize::error::LspCode;
use lspool_normalize::{Candidate, RpcError};
use serde_json::Value;

/// Places that are listed of an ambiguous symbol.
const LISTED: usize = 20;

/// What a person is told about a failed query.
pub(super) fn for_people(error: &RpcError) -> String {
    worded(error).unwrap_or_else(|| error.message.clone())
}

fn worded(error: &RpcError) -> Option<String> {
    let data = error.data.as_ref()?;
    let detail = data.detail.as_ref()?;
    match LspCode::from_code(&data.code)? {
        LspCode::PositionOutOfRange => out_of_range(detail),
        LspCode::SymbolNotFound => {
            let name = detail["expected"].as_str()?;
            Some(with_candidates(
                format!("there is no `{name}` where it was looked for"),
                detail,
            ))
        }
        LspCode::SymbolAmbiguous => {
            let name = detail["expected"].as_str()?;
            let text = format!(
                "`{name}` stands here several times; name the line, or give a column instead of the symbol"
            );
            Some(with_candidates(text, detail))
        }
        _ => None,
    }
}

fn out_of_range(detail: &Value) -> Option<String> {
    let line = detail["line"].as_u64()? + 1;
    if let Some(count) = detail["lineCount"].as_u64() {
        return Some(format!(
            "line {line} is past the end: the file has {count} lines"
        ));
    }
    let column = detail["character"].as_u64()? + 1;
    let last = detail["lineLength"].as_u64()? + 1;
    Some(format!(
        "column {column} is past the end of line {line}, whose last column is {last}"
    ))
}

fn with_candidates(mut text: String, detail: &Value) -> String {
    let candidates: Vec<Candidate> =
        serde_json::from_value(detail["candidates"].clone()).unwrap_or_default();
    for candidate in candidates.iter().take(LISTED) {
        let (line, column) = (candidate.line + 1, candidate.character + 1);
        // Writing to a string does not fail.
        let _ = write!(text, "\n  {line}:{column}  {}", candidate.text.trim());
    }
    if candidates.len() > LISTED {
        let _ = write!(text, "\n  … {} more", candidates.len() - LISTED);
    }
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    fn refused(code: LspCode, detail: Value) -> String {
        for_people(&RpcError::lsp(code, "line 9 (zero-based)", Some(detail)))
    }

    #[test]
    fn lines_and_columns_are_told_as_they_were_typed() {
        let line = json!({ "line": 99_998, "lineCount": 1_900 });
        expect!["line 99999 is past the end: the file has 1900 lines"]
            .assert_eq(&refused(LspCode::PositionOutOfRange, line));
        let column = json!({ "line": 699, "character": 998, "lineLength": 23 });
        expect!["column 999 is past the end of line 700, whose last column is 24"]
            .assert_eq(&refused(LspCode::PositionOutOfRange, column));
    }

    #[test]
    fn the_places_of_an_ambiguous_symbol_can_be_given_back_as_a_question() {
        let places = json!({ "expected": "x", "found": null, "candidates": [
            { "line": 4, "character": 6, "text": "int x = 1;" },
            { "line": 9, "character": 0, "text": "x++;" },
        ] });
        expect![[r"
            `x` stands here several times; name the line, or give a column instead of the symbol
              5:7  int x = 1;
              10:1  x++;"]]
        .assert_eq(&refused(LspCode::SymbolAmbiguous, places));
    }

    #[test]
    fn what_counts_no_lines_is_told_as_the_method_said_it() {
        let error = RpcError::lsp(LspCode::Unavailable, "no server", None);
        assert_eq!(for_people(&error), "no server");
    }
}
