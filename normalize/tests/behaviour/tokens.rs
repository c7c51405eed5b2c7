//! Identifiers at positions and symbols by name.

use lspool_normalize::token::{TokenError, check_token, find_symbol, identifier_at};
use lspool_normalize::{Encoding, LineIndex, Position, PositionError, SymbolError};
use proptest::prelude::*;
use serde_json::json;

const UTF16: Encoding = Encoding::Utf16;

fn token_at(text: &str, character: u32) -> Option<String> {
    let index = LineIndex::new(text);
    identifier_at(&index, Position::new(0, character), UTF16)
        .unwrap()
        .map(|token| token.text)
}

#[test]
fn a_cursor_in_before_or_behind_an_identifier_means_it() {
    for character in 4..=7 {
        assert_eq!(
            token_at("int foo(bar);", character).as_deref(),
            Some("foo"),
            "{character}"
        );
    }
    assert_eq!(token_at("a + b", 2), None);
    assert_eq!(token_at("", 0), None);
}

#[test]
fn identifiers_of_every_script_are_whole() {
    assert_eq!(token_at("let größe_2 = 1", 6).as_deref(), Some("größe_2"));
    assert_eq!(
        token_at("e\u{301}t\u{e9}()", 0).as_deref(),
        Some("e\u{301}t\u{e9}")
    );
    assert_eq!(token_at("変数 = 1", 1).as_deref(), Some("変数"));
}

#[test]
fn a_dollar_belongs_to_the_word_and_a_hyphen_does_not() {
    assert_eq!(token_at("$scope.x", 2).as_deref(), Some("$scope"));
    assert_eq!(token_at("a-b", 0).as_deref(), Some("a"));
}

#[test]
fn the_range_counts_in_the_unit_of_the_request() {
    let index = LineIndex::new("🙂é name");
    for (encoding, start) in [(Encoding::Utf8, 7), (UTF16, 4), (Encoding::Codepoint, 3)] {
        let token = identifier_at(&index, Position::new(0, start), encoding)
            .unwrap()
            .unwrap();
        assert_eq!(token.text, "name");
        assert_eq!(
            (token.range.start.character, token.range.end.character),
            (start, start + 4)
        );
    }
}

#[test]
fn a_position_past_the_end_is_an_error() {
    let index = LineIndex::new("abc");
    assert_eq!(
        identifier_at(&index, Position::new(0, 4), UTF16),
        Err(PositionError::Character {
            line: 0,
            character: 4,
            length: 3
        })
    );
    let error = identifier_at(&index, Position::new(7, 0), UTF16)
        .unwrap_err()
        .to_rpc();
    assert_eq!(error.stable_code(), Some("LSP_POSITION_OUT_OF_RANGE"));
    assert_eq!(
        error.data.unwrap().detail,
        Some(json!({ "line": 7, "lineCount": 1 }))
    );
}

const PROGRAM: &str =
    "int count;\nint main() {\n  count = count + 1;\n  return counter;\n}\n\n\n\nint last;\n";

fn find(name: &str, line: Option<u32>, occurrence: Option<u32>) -> Result<(u32, u32), SymbolError> {
    let token = find_symbol(&LineIndex::new(PROGRAM), name, line, occurrence, UTF16)?;
    assert_eq!(token.text, name);
    Ok((token.range.start.line, token.range.start.character))
}

#[test]
fn the_only_occurrence_needs_no_line() {
    assert_eq!(find("main", None, None), Ok((1, 4)));
    assert_eq!(find("counter", None, None), Ok((3, 9)));
}

#[test]
fn a_line_wins_over_its_neighbours() {
    assert_eq!(find("count", Some(0), None), Ok((0, 4)));
    assert_eq!(find("main", Some(4), None), Ok((1, 4)));
}

#[test]
fn several_are_ambiguous_with_the_list() {
    let Err(SymbolError::Ambiguous {
        count, candidates, ..
    }) = find("count", Some(2), None)
    else {
        panic!("line 2 has two");
    };
    assert_eq!(count, 2);
    let columns: Vec<u32> = candidates
        .iter()
        .map(|candidate| candidate.character)
        .collect();
    assert_eq!(columns, [2, 10]);
    let Err(SymbolError::Ambiguous { count, .. }) = find("count", None, None) else {
        panic!("the file has three");
    };
    assert_eq!(count, 3);
    // Three lines below the nearest one, no line of its own: the neighbours compete.
    assert!(matches!(
        find("count", Some(3), None),
        Err(SymbolError::Ambiguous { count: 3, .. })
    ));
}

#[test]
fn an_occurrence_is_counted_from_one() {
    assert_eq!(find("count", Some(2), Some(2)), Ok((2, 10)));
    assert_eq!(find("count", None, Some(1)), Ok((0, 4)));
    for occurrence in [0, 4] {
        let error = find("count", None, Some(occurrence)).unwrap_err();
        assert!(
            matches!(error, SymbolError::NotFound { .. }),
            "{occurrence}"
        );
    }
}

#[test]
fn what_is_not_there_says_where_it_is() {
    let Err(error @ SymbolError::NotFound { .. }) = find("last", Some(2), None) else {
        panic!("line 2 is too far away");
    };
    let rpc = error.to_rpc();
    assert_eq!(rpc.stable_code(), Some("LSP_SYMBOL_NOT_FOUND"));
    assert_eq!(
        rpc.data.unwrap().detail,
        Some(json!({ "expected": "last", "found": null,
                     "candidates": [{ "line": 8, "character": 4, "text": "int last;" }] }))
    );
    let Err(SymbolError::NotFound { candidates, .. }) = find("MAIN", None, None) else {
        panic!("case matters");
    };
    assert_eq!((candidates[0].line, candidates[0].character), (1, 4));
    assert!(
        matches!(find("nothing", None, None), Err(SymbolError::NotFound { candidates, .. }) if candidates.is_empty())
    );
    assert!(matches!(
        find("main", Some(99), None),
        Err(SymbolError::Position(PositionError::Line { line: 99, .. }))
    ));
}

#[test]
fn a_name_need_not_be_an_identifier() {
    let find = |text: &str, name: &str| {
        find_symbol(&LineIndex::new(text), name, None, None, UTF16)
            .map(|token| token.range.start.character)
    };
    assert_eq!(find("x operator+(y)", "operator+"), Ok(2));
    assert_eq!(find(".my-var my-variable", "my-var"), Ok(1));
    assert_eq!(find("echo $name $names", "name"), Ok(6));
    assert_eq!(find("this.#field", "#field"), Ok(5));
    assert_eq!(find("echo $name", "$name"), Ok(5));
    assert!(find("a$name", "name").is_err());
}

#[test]
fn an_expected_token_is_checked() {
    let index = LineIndex::new(PROGRAM);
    let token = check_token(&index, Position::new(2, 12), "count", UTF16).unwrap();
    assert_eq!(
        (token.range.start.character, token.range.end.character),
        (10, 15)
    );
    assert!(check_token(&index, Position::new(2, 15), "count", UTF16).is_ok());
}

#[test]
fn a_mismatch_says_what_stands_there_and_where_the_expected_stands() {
    let index = LineIndex::new(PROGRAM);
    let error = check_token(&index, Position::new(3, 3), "count", UTF16).unwrap_err();
    let rpc = error.to_rpc();
    assert_eq!(rpc.stable_code(), Some("LSP_TOKEN_MISMATCH"));
    assert_eq!(
        rpc.data.unwrap().detail,
        Some(
            json!({ "expected": "count", "found": "return", "candidates": [
            { "line": 2, "character": 2, "text": "  count = count + 1;" },
            { "line": 2, "character": 10, "text": "  count = count + 1;" },
            { "line": 0, "character": 4, "text": "int count;" },
        ] })
        )
    );
    let Err(TokenError::Mismatch(mismatch)) = check_token(&index, Position::new(5, 0), "x", UTF16)
    else {
        panic!("the line is empty");
    };
    assert_eq!(mismatch.found, None);
    let Err(TokenError::Mismatch(mismatch)) = check_token(&index, Position::new(1, 9), "x", UTF16)
    else {
        panic!("a bracket stands there");
    };
    assert_eq!(mismatch.found.as_deref(), Some(")"));
}

#[test]
fn a_long_line_is_quoted_in_part() {
    let text = format!("x{}", "é".repeat(1000));
    let index = LineIndex::new(&text);
    let Err(TokenError::Mismatch(mismatch)) = check_token(&index, Position::new(0, 0), "y", UTF16)
    else {
        panic!("no `y` is there");
    };
    assert!(mismatch.candidates.is_empty());
    let Err(SymbolError::NotFound { candidates, .. }) = find_symbol(
        &LineIndex::new(&format!("Y {text}")),
        "y",
        None,
        None,
        UTF16,
    ) else {
        panic!("only `Y` is there");
    };
    assert_eq!(candidates[0].text.chars().count(), 200);
}

proptest! {
    #[test]
    fn a_found_symbol_is_the_identifier_at_its_place(text in "[ab_ 🙂\n(]{0,40}", name in "[ab_]{1,3}") {
        let index = LineIndex::new(&text);
        if let Ok(token) = find_symbol(&index, &name, None, None, UTF16) {
            let at = identifier_at(&index, token.range.start, UTF16).unwrap().unwrap();
            prop_assert_eq!(&at, &token);
            prop_assert_eq!(&check_token(&index, token.range.start, &name, UTF16).unwrap(), &token);
        }
    }

    #[test]
    fn no_text_and_no_name_makes_it_panic(text in "\\PC{0,40}", name in "\\PC{0,4}", line in 0_u32..3, character in 0_u32..40) {
        let index = LineIndex::new(&text);
        for encoding in [Encoding::Utf8, UTF16, Encoding::Codepoint] {
            let position = Position::new(line, character);
            if let Ok(Some(token)) = identifier_at(&index, position, encoding) {
                prop_assert!(token.range.touches(index.convert(position, encoding, encoding).unwrap()));
            }
            if let Ok(token) = find_symbol(&index, &name, Some(line), Some(1), encoding) {
                prop_assert_eq!(token.text, name.clone());
            }
            let _ = check_token(&index, position, &name, encoding);
        }
    }
}
