//! Where in a text a query asks.
//!
//! Invariant: what is sent to the server is in UTF-16 and inside the text; what is told to the caller is in the
//! caller's unit.

use lspool_normalize::token::{check_token, find_symbol, identifier_at};
use lspool_normalize::{Encoding, LineIndex, Position, QueryRequest, QueryTarget, RpcError, Token};

/// A position that a server can be asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// Zero-based, in UTF-16 code units, inside the text.
    pub position: Position,
    /// The identifier there, its range in the unit of the request; `None` where none stands.
    pub token: Option<Token>,
}

/// Finds the position of a query in the text that it is asked about.
///
/// # Errors
/// `LSP_POSITION_OUT_OF_RANGE`, `LSP_TOKEN_MISMATCH`, `LSP_SYMBOL_NOT_FOUND`, `LSP_SYMBOL_AMBIGUOUS`.
pub fn locate(text: &str, request: &QueryRequest) -> Result<Located, RpcError> {
    let unit = request.columns.unwrap_or(Encoding::Utf16);
    let index = LineIndex::new(text);
    let (position, token) = match &request.target {
        QueryTarget::Position {
            position,
            token: Some(expected),
        } => {
            let token =
                check_token(&index, *position, expected, unit).map_err(|error| error.to_rpc())?;
            (*position, Some(token))
        }
        QueryTarget::Position {
            position,
            token: None,
        } => {
            let token = identifier_at(&index, *position, unit).map_err(|error| error.to_rpc())?;
            (*position, token)
        }
        QueryTarget::Symbol {
            name,
            line,
            occurrence,
        } => {
            let token = find_symbol(&index, name, *line, *occurrence, unit)
                .map_err(|error| error.to_rpc())?;
            (token.range.start, Some(token))
        }
    };
    let position = index
        .convert(position, unit, Encoding::Utf16)
        .map_err(|error| error.to_rpc())?;
    Ok(Located { position, token })
}

#[cfg(test)]
mod tests {
    use lspool_normalize::Operation;
    use proptest::prelude::*;

    use super::*;

    fn request(target: QueryTarget, columns: Option<Encoding>) -> QueryRequest {
        QueryRequest {
            operation: Operation::Hover,
            file: "/p/a.rs".into(),
            workspace_root: None,
            target,
            view: None,
            wait: None,
            timeout_ms: None,
            max_locations: None,
            cursor: None,
            context_lines: None,
            columns,
            work_done_token: None,
        }
    }

    fn at(line: u32, character: u32, token: Option<&str>) -> QueryTarget {
        QueryTarget::Position {
            position: Position::new(line, character),
            token: token.map(str::to_owned),
        }
    }

    fn symbol(name: &str, line: Option<u32>) -> QueryTarget {
        QueryTarget::Symbol {
            name: name.into(),
            line,
            occurrence: None,
        }
    }

    const TEXT: &str = "let 🙂 = 1;\r\nlet é = fish; fish(é)\r\nlet bird = 2;\r\n";

    #[test]
    fn each_unit_finds_the_same_name() {
        for (unit, column) in [
            (Encoding::Utf8, 9),
            (Encoding::Utf16, 8),
            (Encoding::Codepoint, 8),
        ] {
            let located = locate(TEXT, &request(at(1, column, Some("fish")), Some(unit))).unwrap();
            assert_eq!(located.position, Position::new(1, 8), "{unit:?}");
            let token = located.token.unwrap();
            assert_eq!(
                (token.text.as_str(), token.range.start),
                ("fish", Position::new(1, column)),
                "{unit:?}"
            );
        }
    }

    #[test]
    fn a_symbol_is_asked_about_at_its_start() {
        let located = locate(TEXT, &request(symbol("bird", None), None)).unwrap();
        assert_eq!(located.position, Position::new(2, 4));
    }

    #[test]
    fn every_way_to_miss_has_its_code() {
        let code = |target| {
            locate(TEXT, &request(target, None))
                .unwrap_err()
                .stable_code()
                .unwrap()
                .to_owned()
        };

        assert_eq!(code(at(0, 99, None)), "LSP_POSITION_OUT_OF_RANGE");
        assert_eq!(code(at(9, 0, None)), "LSP_POSITION_OUT_OF_RANGE");
        assert_eq!(code(at(0, 0, Some("bird"))), "LSP_TOKEN_MISMATCH");
        assert_eq!(code(symbol("cat", None)), "LSP_SYMBOL_NOT_FOUND");
        assert_eq!(code(symbol("fish", Some(1))), "LSP_SYMBOL_AMBIGUOUS");
        assert_eq!(code(symbol("fish", Some(70))), "LSP_POSITION_OUT_OF_RANGE");
    }

    #[test]
    fn a_position_past_the_line_says_how_long_the_line_is() {
        let error = locate(TEXT, &request(at(1, 40, None), None)).unwrap_err();
        assert_eq!(error.data.unwrap().detail.unwrap()["lineLength"], 21);
    }

    proptest! {
        #[test]
        fn a_located_position_is_inside_the_text(text in "[ab🙂é \r\n]{0,30}", line in 0_u32..4, character in 0_u32..12) {
            if let Ok(located) = locate(&text, &request(at(line, character, None), Some(Encoding::Utf8))) {
                prop_assert!(LineIndex::new(&text).offset(located.position, Encoding::Utf16).is_ok());
            }
        }
    }
}
