//! Every shape of an answer that the protocol allows, and the field that is named when one is not allowed.

use lspool_normalize::answer::{parse_hover, parse_locations};
use lspool_normalize::{Operation, Position, Range};
use proptest::prelude::*;
use serde_json::{Value, json};

fn range(line: u32, start: u32, end: u32) -> Range {
    Range::new(Position::new(line, start), Position::new(line, end))
}

fn range_json(line: u32, start: u32, end: u32) -> Value {
    json!({ "start": { "line": line, "character": start }, "end": { "line": line, "character": end } })
}

fn malformed_field(result: &str) -> String {
    parse_locations(result)
        .expect_err("the answer is malformed")
        .field
}

#[test]
fn no_answer_is_an_empty_list() {
    for result in ["null", "", "  ", "[]", " null "] {
        assert_eq!(parse_locations(result).unwrap(), [], "{result:?}");
    }
}

#[test]
fn a_single_location_is_a_list_of_one() {
    let result =
        json!({ "uri": "file:///a%20b", "range": range_json(1, 2, 3), "vendor": { "x": [null] } });
    let places = parse_locations(&result.to_string()).unwrap();
    assert_eq!(places.len(), 1);
    assert_eq!(places[0].uri.as_str(), "file:///a%20b");
    assert_eq!(places[0].range, range(1, 2, 3));
    assert_eq!(places[0].full_range, None);
}

#[test]
fn links_with_and_without_origin_stand_beside_locations() {
    // Given a link with an origin, a link without, and a location in one array.
    let result = json!([
        { "originSelectionRange": range_json(0, 4, 7), "targetUri": "file:///a", "targetRange": range_json(5, 0, 40),
          "targetSelectionRange": range_json(5, 3, 6) },
        { "targetUri": "file:///b", "targetRange": range_json(6, 0, 9), "targetSelectionRange": range_json(6, 1, 2) },
        { "uri": "file:///c", "range": range_json(7, 0, 1) },
    ]);
    // When they are read.
    let places = parse_locations(&result.to_string()).unwrap();
    // Then the name's range counts and the whole range is kept.
    assert_eq!(places[0].origin, Some(range(0, 4, 7)));
    assert_eq!(places[0].range, range(5, 3, 6));
    assert_eq!(places[0].full_range, Some(range(5, 0, 40)));
    assert_eq!(places[1].origin, None);
    assert_eq!(places[1].range, range(6, 1, 2));
    assert_eq!(places[2].full_range, None);
}

#[test]
fn a_single_link_is_a_list_of_one() {
    let result = json!({ "targetUri": "jdt://x", "targetRange": range_json(1, 0, 9), "targetSelectionRange": range_json(1, 2, 3),
                         "originSelectionRange": null });
    let places = parse_locations(&result.to_string()).unwrap();
    assert_eq!((places.len(), places[0].range), (1, range(1, 2, 3)));
}

#[test]
fn a_link_without_its_name_falls_back_to_the_whole() {
    let result = json!([{ "targetUri": "file:///a", "targetRange": range_json(1, 0, 9) }]);
    assert_eq!(
        parse_locations(&result.to_string()).unwrap()[0].range,
        range(1, 0, 9)
    );
}

#[test]
fn numbers_may_be_spelled_as_floats() {
    let result = r#"{"uri":"file:///a","range":{"start":{"line":1.0,"character":2.0e0},"end":{"line":1,"character":2147483647}}}"#;
    assert_eq!(
        parse_locations(result).unwrap()[0].range,
        range(1, 2, 2_147_483_647)
    );
}

#[test]
fn a_malformed_answer_names_the_field() {
    let good = json!({ "uri": "file:///a", "range": range_json(1, 0, 9) });
    let cases = [
        (json!(5), "result"),
        (json!("x"), "result"),
        (json!({}), "result.uri"),
        (json!([good, null]), "result[1]"),
        (json!([[good]]), "result[0]"),
        (
            json!({ "uri": 1, "range": range_json(1, 0, 9) }),
            "result.uri",
        ),
        (
            json!({ "uri": "", "range": range_json(1, 0, 9) }),
            "result.uri",
        ),
        (json!({ "uri": "file:///a" }), "result.range"),
        (
            json!([good, good, { "uri": "file:///a", "range": { "start": { "line": -1, "character": 0 } } }]),
            "result[2].range.start.line",
        ),
        (
            json!({ "uri": "file:///a", "range": { "start": { "line": 1.5, "character": 0 } } }),
            "result.range.start.line",
        ),
        (
            json!({ "uri": "file:///a", "range": { "start": { "line": 4_294_967_296_u64, "character": 0 } } }),
            "result.range.start.line",
        ),
        (
            json!({ "uri": "file:///a", "range": { "start": { "line": 1, "character": 0 } } }),
            "result.range.end",
        ),
        (
            json!([{ "targetUri": "file:///a" }]),
            "result[0].targetSelectionRange",
        ),
        (
            json!([{ "targetUri": "file:///a", "targetSelectionRange": { "start": {}, "end": {} } }]),
            "result[0].targetSelectionRange.start.line",
        ),
    ];
    for (result, field) in cases {
        assert_eq!(malformed_field(&result.to_string()), field, "{result}");
    }
    assert_eq!(malformed_field("[{"), "result");
}

#[test]
fn the_error_names_server_and_field() {
    let error = parse_locations("[3]")
        .unwrap_err()
        .to_rpc("clangd", Operation::GoToDefinition);
    assert_eq!(error.stable_code(), Some("LSP_MALFORMED_RESPONSE"));
    assert_eq!(
        error.message,
        "clangd gave a malformed answer to textDocument/definition: \
         `result[0]` should be a Location or a LocationLink but is 3"
    );
}

fn hover_contents(contents: &Value) -> Option<String> {
    let result = json!({ "contents": contents }).to_string();
    parse_hover(&result).unwrap().map(|hover| hover.contents)
}

#[test]
fn every_form_of_hover_contents_is_read() {
    let cases = [
        (json!("plain"), "plain"),
        (json!({ "kind": "markdown", "value": "**b**\r\n" }), "**b**"),
        (json!({ "kind": "plaintext", "value": "a" }), "a"),
        (json!({ "kind": "html", "value": "<b>" }), "<b>"),
        (
            json!({ "language": "c", "value": "int x;" }),
            "```c\nint x;\n```",
        ),
        (
            json!([null, { "language": "c", "value": "int x;" }, "", "text", null]),
            "```c\nint x;\n```\n\ntext",
        ),
    ];
    for (contents, text) in cases {
        assert_eq!(
            hover_contents(&contents).as_deref(),
            Some(text),
            "{contents}"
        );
    }
}

#[test]
fn blank_hovers_are_none() {
    for result in [
        "null",
        "",
        r#"{"contents":null}"#,
        r#"{"contents":null,"range":null}"#,
    ] {
        assert_eq!(parse_hover(result).unwrap(), None, "{result}");
    }
    for contents in [
        json!(""),
        json!(" \n"),
        json!([]),
        json!([null, null]),
        json!(["", " "]),
        json!({ "kind": "markdown", "value": "" }),
        json!({ "language": "c", "value": " " }),
    ] {
        assert_eq!(hover_contents(&contents), None, "{contents}");
    }
}

#[test]
fn a_hovers_range_is_kept() {
    let result = json!({ "contents": "x", "range": range_json(3, 1, 4) }).to_string();
    assert_eq!(
        parse_hover(&result).unwrap().unwrap().range,
        Some(range(3, 1, 4))
    );
}

#[test]
fn a_malformed_hover_names_the_field() {
    let cases = [
        (json!({}), "result.contents"),
        (json!([]), "result"),
        (json!("x"), "result"),
        (json!({ "contents": 1 }), "result.contents"),
        (json!({ "contents": ["a", 1] }), "result.contents[1]"),
        (
            json!({ "contents": [{ "language": "c" }] }),
            "result.contents[0].value",
        ),
        (
            json!({ "contents": { "kind": "markdown", "value": 7 } }),
            "result.contents.value",
        ),
        (
            json!({ "contents": { "language": 3, "value": "x" } }),
            "result.contents.language",
        ),
        (
            json!({ "contents": "x", "range": { "start": 1 } }),
            "result.range.start.line",
        ),
    ];
    for (result, field) in cases {
        let error = parse_hover(&result.to_string()).expect_err("the hover is malformed");
        assert_eq!(error.field, field, "{result}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z:/]{0,8}".prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "uri",
        "range",
        "start",
        "end",
        "line",
        "character",
        "targetUri",
        "targetRange",
        "targetSelectionRange",
        "contents",
        "value",
        "language",
        "kind",
    ]);
    leaf.prop_recursive(5, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..5).prop_map(|members| {
                Value::Object(
                    members
                        .into_iter()
                        .map(|(key, value)| (key.to_owned(), value))
                        .collect(),
                )
            }),
        ]
    })
}

proptest! {
    #[test]
    fn any_json_is_an_answer_or_an_error_with_a_field(result in any_json()) {
        if let Err(error) = parse_locations(&result.to_string()) {
            prop_assert!(error.field.starts_with("result"));
        }
        match parse_hover(&result.to_string()) {
            Ok(hover) => prop_assert!(hover.is_none_or(|hover| !hover.contents.trim().is_empty())),
            Err(error) => prop_assert!(error.field.starts_with("result")),
        }
    }

    #[test]
    fn any_text_is_an_answer_or_an_error(result in "\\PC{0,40}") {
        if let Err(error) = parse_locations(&result) {
            prop_assert!(error.field.starts_with("result"));
        }
    }

    #[test]
    fn a_list_of_locations_and_links_keeps_its_order(places in prop::collection::vec((any::<bool>(), 0_u32..99, 0_u32..99), 0..12)) {
        let items: Vec<Value> = places
            .iter()
            .map(|(link, line, column)| {
                let range = range_json(*line, *column, column + 1);
                if *link {
                    json!({ "targetUri": "file:///a", "targetRange": range_json(*line, 0, 200), "targetSelectionRange": range })
                } else {
                    json!({ "uri": "file:///a", "range": range })
                }
            })
            .collect();
        let read = parse_locations(&Value::from(items).to_string()).unwrap();
        let expected: Vec<Range> = places.iter().map(|(_, line, column)| range(*line, *column, column + 1)).collect();
        prop_assert_eq!(read.iter().map(|place| place.range).collect::<Vec<_>>(), expected);
    }
}
