//! Answers turned back into what one client announced.

use expect_test::{Expect, expect};
use lspool_normalize::capabilities::{ClientOffer, full, lower, needs_lowering, plain_text, raise};
use proptest::prelude::*;
use serde_json::{Value, json};

fn offer(capabilities: &Value) -> ClientOffer {
    raise(&capabilities.to_string()).unwrap().offer
}

fn nothing_announced() -> ClientOffer {
    offer(&json!({}))
}

const LINK_METHODS: [&str; 4] = [
    "textDocument/definition",
    "textDocument/declaration",
    "textDocument/typeDefinition",
    "textDocument/implementation",
];

const LINK: &str = r#"{"originSelectionRange":{},"targetUri":"file:///a%20\u0062","targetRange":{"w":1},"targetSelectionRange":{"start":{"line":1.0,"character":2},"end":{"line":1,"character":3}}}"#;
const LINK_AS_LOCATION: &str = r#"{"uri":"file:///a%20\u0062","range":{"start":{"line":1.0,"character":2},"end":{"line":1,"character":3}}}"#;

#[test]
fn links_become_locations_for_a_client_without_them() {
    let location = r#"{ "uri":"x", "range":{} , "more":[1] }"#;
    for method in LINK_METHODS {
        let lower = |result: &str| lower(method, &nothing_announced(), result, None);
        assert_eq!(lower(LINK).as_deref(), Some(LINK_AS_LOCATION));
        assert_eq!(
            lower(&format!("[{LINK},{location}]")),
            Some(format!("[{LINK_AS_LOCATION},{location}]"))
        );
        for unchanged in ["null", "[]", location, "[ null ]", "7"] {
            assert_eq!(lower(unchanged), None, "{unchanged}");
        }
    }
}

#[test]
fn links_stay_for_a_client_that_announced_them() {
    let links = offer(&json!({ "textDocument": { "definition": { "linkSupport": true } } }));
    assert!(!needs_lowering("textDocument/definition", &links));
    assert_eq!(lower("textDocument/definition", &links, LINK, None), None);
    assert!(needs_lowering("textDocument/implementation", &links));
}

#[test]
fn nothing_is_lowered_for_a_full_client() {
    let full = raise(full()).unwrap().offer;
    for method in LINK_METHODS
        .into_iter()
        .chain(["textDocument/hover", "textDocument/documentSymbol"])
    {
        assert!(!needs_lowering(method, &full), "{method}");
    }
    assert!(!needs_lowering(
        "textDocument/completion",
        &nothing_announced()
    ));
}

fn lowered_hover(formats: &Value, contents: &Value) -> Option<Value> {
    let client = offer(&json!({ "textDocument": { "hover": { "contentFormat": formats } } }));
    let result = json!({ "contents": contents, "range": { "start": 1 } }).to_string();
    let lowered = lower("textDocument/hover", &client, &result, None)?;
    let lowered: Value = serde_json::from_str(&lowered).unwrap();
    assert_eq!(lowered["range"], json!({ "start": 1 }));
    Some(lowered["contents"].clone())
}

#[test]
fn a_hover_takes_a_form_that_was_announced() {
    let markdown = json!({ "kind": "markdown", "value": "**b** `c`" });
    let plaintext = json!({ "kind": "plaintext", "value": "a < *b*" });
    let cases = [
        (
            json!(["plaintext"]),
            &markdown,
            Some(json!({ "kind": "plaintext", "value": "b c" })),
        ),
        (json!(["plaintext"]), &plaintext, None),
        (json!(["markdown"]), &markdown, None),
        (
            json!(["markdown"]),
            &plaintext,
            Some(json!({ "kind": "markdown", "value": "```\na < *b*\n```" })),
        ),
        (json!(["plaintext", "markdown"]), &markdown, None),
        (json!(null), &markdown, Some(json!("**b** `c`"))),
        (
            json!(null),
            &plaintext,
            Some(json!({ "language": "plaintext", "value": "a < *b*" })),
        ),
        (json!([]), &markdown, Some(json!("**b** `c`"))),
    ];
    for (formats, contents, expected) in cases {
        assert_eq!(
            lowered_hover(&formats, contents),
            expected,
            "{formats} {contents}"
        );
    }
    // A MarkedString is in every client's vocabulary.
    assert_eq!(
        lowered_hover(
            &json!(null),
            &json!(["a", { "language": "c", "value": "x" }])
        ),
        None
    );
    assert_eq!(
        lower("textDocument/hover", &nothing_announced(), "null", None),
        None
    );
}

#[test]
fn a_symbol_tree_becomes_a_list_with_containers() {
    let range = |line: u32| json!({ "start": { "line": line, "character": 0 }, "end": { "line": line + 1, "character": 0 } });
    let result = json!([
        { "name": "A", "detail": "d", "kind": 5, "tags": [1], "range": range(0), "selectionRange": range(0), "children": [
            { "name": "m", "kind": 6, "deprecated": true, "range": range(1), "selectionRange": range(1), "children": [
                { "name": "x", "kind": 13, "range": range(2), "selectionRange": range(2), "children": [] } ] } ] },
        { "name": "f", "kind": 12, "range": range(9), "selectionRange": range(9), "children": null },
    ])
    .to_string();
    let lowered = lower(
        "textDocument/documentSymbol",
        &nothing_announced(),
        &result,
        Some("file:///a\"b"),
    )
    .unwrap();
    let at = |line: u32| json!({ "uri": "file:///a\"b", "range": range(line) });
    assert_eq!(
        serde_json::from_str::<Value>(&lowered).unwrap(),
        json!([
            { "name": "A", "kind": 5, "tags": [1], "location": at(0) },
            { "name": "m", "kind": 6, "deprecated": true, "location": at(1), "containerName": "A" },
            { "name": "x", "kind": 13, "location": at(2), "containerName": "m" },
            { "name": "f", "kind": 12, "location": at(9) },
        ])
    );
}

#[test]
fn symbols_that_are_flat_or_malformed_stay() {
    let lower = |result: &str| {
        lower(
            "textDocument/documentSymbol",
            &nothing_announced(),
            result,
            Some("file:///a"),
        )
    };
    for result in [
        "null",
        "[]",
        r#"[{"name":"a","kind":1,"location":{"uri":"x","range":{}}}]"#,
        r#"[{"name":"a"}]"#,
        "[3]",
    ] {
        assert_eq!(lower(result), None, "{result}");
    }
    let deep = format!(
        "[{}{}]",
        r#"{"name":"a","kind":1,"range":{},"children":["#.repeat(1000),
        "]}".repeat(1000)
    );
    assert_eq!(lower(&deep), None);
}

fn check_plain(markdown: &str, expected: &Expect) {
    expected.assert_eq(&plain_text(markdown));
}

#[test]
fn markdown_becomes_what_a_reader_sees() {
    check_plain(
        "### function `greet`  \r\n\r\n---\r\n→ `int`\\\r\nParameters:\r\n\r\n- `const char *name` — the *name*, __bold__ \
         and ~~old~~\r\n\r\n> quoted **text**\r\n\r\nSee [docs](https://x.y/z_(a) \"title\"), ![logo](l.png), \
         <https://e.f> &lt;b&gt; \\*not\\*\r\n\r\n```cpp\r\n// In *ns*  \r\n\r\n\r\nint greet(`x`);\r\n```\r\n",
        &expect![[r"
            function greet

            → int
            Parameters:

            - const char *name — the name, bold and old

            quoted text

            See docs (https://x.y/z_(a)), logo, https://e.f <b> *not*

            // In *ns*  


            int greet(`x`);"]],
    );
}

#[test]
fn what_is_not_surely_a_mark_stays() {
    for text in [
        "snake_case_name and __dunder",
        "a * b * c",
        "2*3",
        "Vec<T> where T: A & B",
        "array[i](x",
        "#include <stdio.h>",
        "C#",
        "a ** b",
        "x `unclosed",
        "~/path ~approx",
        "f(*args, **kwargs)",
    ] {
        assert_eq!(plain_text(text), text);
    }
}

proptest! {
    #[test]
    fn no_markdown_makes_it_panic_and_no_letter_is_lost(text in "[ab*_~`#>\\[\\]()!\\\\<& \n-]{0,48}") {
        let letters = |text: &str| text.chars().filter(char::is_ascii_alphabetic).collect::<String>();
        let plain = plain_text(&text);
        // The info line of a fence and the address of an image are what a reader does not see.
        if !text.contains("```") && !text.contains("~~~") && !text.contains("![") {
            prop_assert_eq!(letters(&plain), letters(&text));
        }
    }

    #[test]
    fn plain_words_stay_as_they_are(text in "[a-z]{1,6}( [a-z]{1,6}){0,5}") {
        prop_assert_eq!(plain_text(&text), text);
    }

    #[test]
    fn any_json_is_lowered_to_json_or_left(result in "[{}\\[\\]\",:a1 ]{0,24}") {
        for method in LINK_METHODS.into_iter().chain(["textDocument/hover", "textDocument/documentSymbol"]) {
            if let Some(lowered) = lower(method, &nothing_announced(), &result, Some("file:///a")) {
                prop_assert!(serde_json::from_str::<Value>(&lowered).is_ok());
            }
        }
    }
}
