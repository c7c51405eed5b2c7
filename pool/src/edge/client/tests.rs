use bytes::Bytes;
use proptest::prelude::*;
use serde_json::json;

use super::ClientEdge;
use crate::edge::{Decoded, Text, TextId, TokenSpan};
use crate::wire::hostile::Generator;
use crate::wire::{Message, RawId};

const URI: &str = "file:///a%20b.rs";

fn message(body: &str) -> Message {
    Message::parse(Bytes::copy_from_slice(body.as_bytes()))
        .unwrap_or_else(|error| panic!("{body}: {error}"))
}

fn decode(edge: &mut ClientEdge, body: &str) -> Decoded {
    edge.decode(&message(body))
}

fn open(edge: &mut ClientEdge, text: &str) -> Decoded {
    let document = json!({ "uri": URI, "languageId": "rust", "version": 1, "text": text });
    let params = json!({ "textDocument": document });
    edge.decode(&Message::notification(
        "textDocument/didOpen",
        &params.to_string(),
    ))
}

fn change(edge: &mut ClientEdge, changes: &serde_json::Value) -> Decoded {
    let params = json!({ "textDocument": { "uri": URI, "version": 2 }, "contentChanges": changes });
    edge.decode(&Message::notification(
        "textDocument/didChange",
        &params.to_string(),
    ))
}

/// The text after a change that was applied.
fn text_after(decoded: Decoded) -> String {
    match decoded {
        Decoded::Change {
            text: Some(text), ..
        } => text.content.to_string(),
        other => panic!("{other:?}"),
    }
}

fn at(line: u32, character: u32) -> serde_json::Value {
    json!({ "line": line, "character": character })
}

#[test]
fn an_opened_document_is_read_with_the_place_of_its_version() {
    let body = r#"{"method":"textDocument/didOpen","params":{"textDocument":{"uri":"file:\/\/\/\u00e9","languageId":"c","version": -1.0 ,"text":"a\n\ud83d\ude00é"}}}"#;
    let Decoded::Open {
        uri,
        language,
        version,
        version_span,
        text,
    } = decode(&mut ClientEdge::new(), body)
    else {
        panic!("an open document")
    };
    assert_eq!(
        (uri.as_str(), language.as_str(), version),
        ("file:///é", "c", Some(-1))
    );
    assert_eq!(version_span.map(|span| &body[span]), Some("-1.0"));
    assert_eq!(&*text.content, "a\n😀é");
}

#[test]
fn a_version_may_be_null_or_missing_and_a_language_missing() {
    let body = r#"{"method":"textDocument/didOpen","params":{"textDocument":{"uri":"u","version":null,"text":""}}}"#;
    let Decoded::Open {
        language,
        version,
        version_span,
        ..
    } = decode(&mut ClientEdge::new(), body)
    else {
        panic!("an open document")
    };
    assert_eq!((language.as_str(), version), ("", None));
    assert_eq!(version_span.map(|span| &body[span]), Some("null"));

    let body =
        r#"{"method":"textDocument/didOpen","params":{"textDocument":{"uri":"u","text":""}}}"#;
    let decoded = decode(&mut ClientEdge::new(), body);
    assert!(
        matches!(
            decoded,
            Decoded::Open {
                version: None,
                version_span: None,
                ..
            }
        ),
        "{decoded:?}"
    );
}

#[test]
fn changes_are_applied_in_order_and_in_utf_16() {
    let mut edge = ClientEdge::new();
    open(&mut edge, "a😀b\r\nc\n");
    let changes = json!([
        { "range": { "start": at(0, 3), "end": at(0, 4) }, "text": "XY" },
        { "range": { "start": at(0, 4), "end": at(1, 0) }, "rangeLength": 3, "text": "" },
        { "range": null, "text": "whole" },
        { "range": { "start": at(0, 5), "end": at(9, 9) }, "text": "!" },
    ]);
    let before = TextId::of("a😀b\r\nc\n");
    let decoded = change(&mut edge, &json!([changes[0], changes[1]]));
    let expected = Decoded::Change {
        uri: URI.to_owned(),
        version: Some(2),
        version_span: None,
        before: Some(before),
        text: Some(Text::from("a😀Xc\n")),
    };
    let Decoded::Change {
        version_span,
        uri,
        version,
        before,
        text,
    } = decoded
    else {
        panic!("a change")
    };
    assert!(version_span.is_some());
    assert_eq!(
        Decoded::Change {
            uri,
            version,
            version_span: None,
            before,
            text
        },
        expected
    );
    assert_eq!(
        text_after(change(&mut edge, &json!([changes[2], changes[3]]))),
        "whole!"
    );
    assert_eq!(text_after(change(&mut edge, &json!([]))), "whole!");
}

#[test]
fn a_change_of_a_document_that_is_not_open_has_no_text() {
    let decoded = change(&mut ClientEdge::new(), &json!([{ "text": "x" }]));
    assert!(
        matches!(
            decoded,
            Decoded::Change {
                before: None,
                text: None,
                ..
            }
        ),
        "{decoded:?}"
    );
}

#[test]
fn a_closed_document_is_forgotten() {
    let mut edge = ClientEdge::new();
    open(&mut edge, "x");
    let close = json!({ "textDocument": { "uri": URI } }).to_string();
    let closed = edge.decode(&Message::notification("textDocument/didClose", &close));
    assert_eq!(
        closed,
        Decoded::Close {
            uri: URI.to_owned()
        }
    );
    let decoded = change(&mut edge, &json!([{ "text": "y" }]));
    assert!(
        matches!(decoded, Decoded::Change { text: None, .. }),
        "{decoded:?}"
    );
    let saved = edge.decode(&Message::notification("textDocument/didSave", &close));
    assert_eq!(
        saved,
        Decoded::Save {
            uri: URI.to_owned()
        }
    );
}

#[test]
fn a_change_that_cannot_be_read_names_its_member_and_leaves_the_text() {
    let mut edge = ClientEdge::new();
    open(&mut edge, "x");
    for (changes, path) in [
        (json!({}), "params.contentChanges"),
        (json!([1]), "params.contentChanges[0]"),
        (
            json!([{ "text": "y" }, { "range": null }]),
            "params.contentChanges[1].text",
        ),
        (
            json!([{ "text": "y", "range": {} }]),
            "params.contentChanges[0].range",
        ),
        (
            json!([{ "text": "y", "range": { "start": at(0, 0), "end": { "line": -1, "character": 0 } } }]),
            "params.contentChanges[0].range",
        ),
    ] {
        match change(&mut edge, &changes) {
            Decoded::Malformed(text) => assert!(text.contains(&format!("`{path}`")), "{text}"),
            other => panic!("{changes}: {other:?}"),
        }
    }
    assert_eq!(text_after(change(&mut edge, &json!([]))), "x");
}

#[test]
fn a_required_member_that_is_missing_is_named() {
    for (method, params, path) in [
        ("textDocument/didOpen", "{}", "params.textDocument"),
        (
            "textDocument/didOpen",
            r#"{"textDocument":{"uri":1,"text":""}}"#,
            "params.textDocument.uri",
        ),
        (
            "textDocument/didOpen",
            r#"{"textDocument":{"uri":"u"}}"#,
            "params.textDocument.text",
        ),
        ("textDocument/didChange", "[]", "params"),
        (
            "textDocument/didChange",
            r#"{"textDocument":{"uri":"u"}}"#,
            "params.contentChanges",
        ),
        (
            "textDocument/didClose",
            r#"{"textDocument":{}}"#,
            "params.textDocument.uri",
        ),
        (
            "textDocument/didSave",
            r#"{"textDocument":7}"#,
            "params.textDocument.uri",
        ),
        ("$/cancelRequest", r#"{"id":null}"#, "params.id"),
        ("window/workDoneProgress/cancel", "{}", "params.token"),
    ] {
        match ClientEdge::new().decode(&Message::notification(method, params)) {
            Decoded::Malformed(text) => {
                assert!(text.contains(&format!("`{path}`")), "{method}: {text}");
            }
            other => panic!("{method} {params}: {other:?}"),
        }
    }
}

#[test]
fn a_cancel_names_an_id_and_its_place() {
    for token in ["1", "\"1\"", "1.0", "123456789012345678901234567890"] {
        let body = format!(r#"{{"method":"$/cancelRequest","params":{{ "id" : {token} }}}}"#);
        let start = body.find(token).unwrap();
        let expected = Decoded::Cancel {
            id: RawId::parse(token).unwrap(),
            span: start..start + token.len(),
        };
        assert_eq!(decode(&mut ClientEdge::new(), &body), expected);
    }
}

#[test]
fn a_request_shows_its_tokens_and_its_document() {
    let body = r#"{"id":1,"method":"vendor/x","params":{"workDoneToken":"t\u0031","a":{"workDoneToken":9},"partialResultToken":7,"textDocument":{"uri":"u\/v"}}}"#;
    let token = |text: &str| {
        let start = body.find(text).unwrap();
        Some(TokenSpan {
            token: RawId::parse(text).unwrap(),
            span: start..start + text.len(),
        })
    };
    let expected = Decoded::Request {
        work_done: token(r#""t\u0031""#),
        partial_result: token("7"),
        document: Some("u/v".to_owned()),
    };
    assert_eq!(decode(&mut ClientEdge::new(), body), expected);
    let bare = Decoded::Request {
        work_done: None,
        partial_result: None,
        document: None,
    };
    for params in [
        "",
        r#","params":null"#,
        r#","params":[1]"#,
        r#","params":{"workDoneToken":null,"textDocument":3}"#,
    ] {
        assert_eq!(
            decode(
                &mut ClientEdge::new(),
                &format!(r#"{{"id":1,"method":"x"{params}}}"#)
            ),
            bare,
            "{params}"
        );
    }
}

#[test]
fn settings_that_say_nothing_have_no_digest() {
    let digest = |params: &str| match ClientEdge::new().decode(&Message::notification(
        "workspace/didChangeConfiguration",
        params,
    )) {
        Decoded::Configuration { digest } => digest,
        other => panic!("{params}: {other:?}"),
    };
    for params in ["{}", r#"{"settings":null}"#, r#"{"settings":{ }}"#] {
        assert_eq!(digest(params), 0, "{params}");
    }
    let first = digest(r#"{"settings":{"a":1,"b":[true]}}"#);
    assert_ne!(first, 0);
    assert_eq!(digest(r#"{"settings":{ "b":[ true ],"\u0061":1}}"#), first);
    assert_ne!(digest(r#"{"settings":{"a":2,"b":[true]}}"#), first);
}

#[test]
fn answers_tell_their_error() {
    let error = |body: &str| match decode(&mut ClientEdge::new(), body) {
        Decoded::Answer { error } => error,
        other => panic!("{body}: {other:?}"),
    };
    assert_eq!(error(r#"{"id":1,"result":null}"#), None);
    assert_eq!(
        error(r#"{"id":1,"error":{"code":-32601,"message":""}}"#),
        Some(-32601)
    );
    assert_eq!(error(r#"{"id":1,"error":{"code":-32601.0}}"#), Some(-32601));
    assert_eq!(error(r#"{"id":1,"error":"no"}"#), Some(-32001));
}

#[test]
fn other_notifications_are_plain() {
    for method in [
        "initialized",
        "exit",
        "vendor/thing",
        "textDocument/didopen",
    ] {
        assert_eq!(
            ClientEdge::new().decode(&Message::notification(method, "[]")),
            Decoded::Plain
        );
    }
}

/// The position of an offset in UTF-16 units, counted naively; CR, LF and CR LF end a line.
fn position(units: &[u16], offset: usize) -> serde_json::Value {
    let (mut line, mut character) = (0, 0);
    for (index, &unit) in units[..offset].iter().enumerate() {
        let joined = unit == u16::from(b'\r') && units.get(index + 1) == Some(&u16::from(b'\n'));
        if (unit == u16::from(b'\n') || unit == u16::from(b'\r')) && !joined {
            line += 1;
            character = 0;
        } else {
            character += 1;
        }
    }
    at(line, character)
}

/// Whether a text may be cut here: not within a surrogate pair or a CR LF.
fn is_cut(units: &[u16], offset: usize) -> bool {
    let [Some(before), Some(after)] =
        [offset.checked_sub(1), Some(offset)].map(|at| at.and_then(|at| units.get(at)))
    else {
        return true;
    };
    !((0xd800..0xdc00).contains(before) && (0xdc00..0xe000).contains(after))
        && (*before, *after) != (u16::from(b'\r'), u16::from(b'\n'))
}

fn text() -> impl Strategy<Value = String> {
    "[aé😀\u{2028}\n\r]{0,12}"
}

proptest! {
    #[test]
    fn any_row_of_changes_gives_the_text_that_the_client_has(
        start in text(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), text(), 0_u8..8), 1..8),
    ) {
        let mut edge = ClientEdge::new();
        open(&mut edge, &start);
        let mut units: Vec<u16> = start.encode_utf16().collect();
        let mut changes = Vec::new();
        for (first, last, replacement, kind) in edits {
            if kind == 0 {
                changes.push(json!({ "text": replacement }));
                units = replacement.encode_utf16().collect();
                continue;
            }
            let cuts: Vec<usize> = (0..=units.len()).filter(|&offset| is_cut(&units, offset)).collect();
            let (one, other) = (*first.get(&cuts), *last.get(&cuts));
            let (from, to) = (one.min(other), one.max(other));
            let range = json!({ "start": position(&units, from), "end": position(&units, to) });
            changes.push(json!({ "range": range, "text": replacement }));
            units.splice(from..to, replacement.encode_utf16());
        }
        let expected = String::from_utf16(&units).unwrap();
        let all_at_once = text_after(change(&mut edge, &json!(changes)));
        prop_assert_eq!(&all_at_once, &expected);

        open(&mut edge, &start);
        let mut one_by_one = start;
        for each in changes {
            one_by_one = text_after(change(&mut edge, &json!([each])));
        }
        prop_assert_eq!(one_by_one, expected);
    }
}

#[test]
fn hostile_params_never_break_the_decoder() {
    let mut generator = Generator::new(5);
    let mut edge = ClientEdge::new();
    let mut malformed = 0;
    for _ in 0..20_000 {
        let (method, is_request) = generator.pick(&[
            ("textDocument/didOpen", false),
            ("textDocument/didChange", false),
            ("textDocument/didClose", false),
            ("$/cancelRequest", false),
            ("window/workDoneProgress/cancel", false),
            ("workspace/didChangeConfiguration", false),
            ("initialize", true),
            ("textDocument/hover", true),
        ]);
        let body = generator.message_of(method, is_request);
        let message = Message::parse(Bytes::from(body)).unwrap();
        let decoded = edge.decode(&message);
        check_spans(&message, &decoded);
        malformed += usize::from(matches!(decoded, Decoded::Malformed(_)));
    }
    assert!((1_000..19_000).contains(&malformed), "{malformed}");
}

/// Spans must hold the token that was decoded.
fn check_spans(message: &Message, decoded: &Decoded) {
    let slice = |span: &std::ops::Range<usize>| {
        std::str::from_utf8(&message.bytes()[span.clone()]).unwrap()
    };
    match decoded {
        Decoded::Cancel { id, span } => assert_eq!(slice(span), id.raw()),
        Decoded::Request {
            work_done,
            partial_result,
            ..
        } => {
            for token in [work_done, partial_result].into_iter().flatten() {
                assert_eq!(slice(&token.span), token.token.raw());
            }
        }
        Decoded::Initialize(facts) => {
            serde_json::from_str::<serde::de::IgnoredAny>(&facts.params).unwrap();
            if let (Some(span), Some(id)) = (&facts.process_id_span, facts.process_id) {
                assert_eq!(
                    crate::edge::members::integer(&facts.params[span.clone()]),
                    Some(id)
                );
            }
        }
        _ => {}
    }
}
