use std::ops::Range;

use bytes::Bytes;
use proptest::prelude::*;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{EnvelopeErrorKind, FULL_SCAN_LIMIT, Peek, head_and_tail};
use crate::wire::hostile::Generator;
use crate::wire::{Kind, Message, RawId};

/// The envelope as serde's derive reads it: the reference of the differential tests.
#[derive(Debug, Deserialize)]
struct Reference<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

fn message(body: &str) -> Message {
    Message::parse(Bytes::copy_from_slice(body.as_bytes()))
        .unwrap_or_else(|error| panic!("{body}: {error}"))
}

#[test]
fn an_answer_that_leaves_its_null_result_out_is_an_answer() {
    let answer = message(r#"{"jsonrpc":"2.0","id":1}"#);
    assert_eq!(answer.kind(), Kind::Response);
    assert_eq!(answer.result_json(), None);
}

fn refusal(body: &[u8]) -> super::EnvelopeError {
    match Message::parse(Bytes::copy_from_slice(body)) {
        Err(error) => error,
        Ok(message) => panic!("{message:?} was accepted"),
    }
}

#[test]
fn both_ways_of_reading_agree_with_serde_on_hostile_messages() {
    const CASES: usize = 110_000;
    let mut generator = Generator::new(1);
    let mut fast = 0;
    let mut accepted = 0;
    for case in 0..CASES {
        let body = Bytes::from(generator.message().body);
        let text = String::from_utf8_lossy(&body).into_owned();
        let parsed = Message::parse_whole(body.clone());
        let reference = serde_json::from_slice::<Reference<'_>>(&body);
        let reference = match reference {
            Ok(reference) => reference,
            Err(error) => {
                assert!(
                    error.to_string().contains("duplicate field"),
                    "case {case}: {text}: {error}"
                );
                let refused = parsed.expect_err(&text);
                assert_eq!(
                    refused.kind,
                    EnvelopeErrorKind::NotMessage,
                    "case {case}: {text}"
                );
                assert!(
                    refused.text.contains("twice"),
                    "case {case}: {text}: {refused}"
                );
                continue;
            }
        };
        let head = head_and_tail(&body);
        fast += usize::from(head.is_some());
        let Ok(parsed) = parsed else {
            assert!(head.is_none(), "case {case}: {text}");
            assert!(!is_legal(&reference), "case {case}: {text}");
            continue;
        };
        accepted += 1;
        let raw = |value: Option<&RawValue>| value.map(|value| value.get().to_owned());
        assert_eq!(
            parsed.id().map(RawId::raw),
            reference.id.map(RawValue::get),
            "case {case}: {text}"
        );
        assert_eq!(
            parsed.params().map(str::to_owned),
            raw(reference.params),
            "case {case}: {text}"
        );
        assert_eq!(
            parsed.result_json().map(str::to_owned),
            raw(reference.result),
            "case {case}: {text}"
        );
        assert_eq!(
            parsed.error_json().map(str::to_owned),
            raw(reference.error),
            "case {case}: {text}"
        );
        if let Some(span) = parsed.id_span() {
            assert_eq!(
                Some(&text[span]),
                reference.id.map(RawValue::get),
                "case {case}: {text}"
            );
        }
        let method = reference
            .method
            .and_then(|it| serde_json::from_str::<String>(it.get()).ok());
        // serde decodes no lone surrogate.
        if let Some(method) = method
            && matches!(parsed.kind(), Kind::Request | Kind::Notification)
        {
            assert_eq!(
                parsed.method().as_deref(),
                Some(method.as_str()),
                "case {case}: {text}"
            );
        }
        if let Some(head) = head {
            let trusted = Message::from_parts(body.clone(), head, None);
            let facts = |it: &Message| {
                (
                    it.kind(),
                    it.id().cloned(),
                    it.id_span(),
                    it.method().map(String::from),
                )
            };
            assert_eq!(facts(&trusted), facts(&parsed), "case {case}: {text}");
            assert_eq!(trusted.params(), parsed.params(), "case {case}: {text}");
        }
    }
    assert!(
        fast > CASES / 5,
        "the short way was taken {fast} times only"
    );
    assert!(
        accepted > CASES / 2,
        "{accepted} messages were accepted only"
    );
}

/// Whether JSON-RPC knows such a message.
fn is_legal(reference: &Reference<'_>) -> bool {
    let id = reference.id.map(|id| RawId::parse(id.get()));
    let method = reference.method.map(|method| method.get().starts_with('"'));
    let answers = reference.result.is_some() || reference.error.is_some();
    match (id, method, answers) {
        (Some(None), ..) | (None, _, true) | (_, Some(false) | None, false) => false,
        // Params make it a question where they come first.
        (_, Some(false) | None, true) => reference.params.is_none(),
        _ => true,
    }
}

#[test]
fn damaged_messages_are_refused_exactly_where_serde_refuses_them() {
    let mut generator = Generator::new(2);
    let mut refused = 0;
    for case in 0..50_000 {
        let body = generator.damaged();
        let is_json = serde_json::from_slice::<&RawValue>(&body).is_ok();
        let _ = Peek::new(&body);
        let _ = head_and_tail(&body);
        match Message::parse(Bytes::from(body.clone())) {
            Ok(_) => assert!(is_json, "case {case}: {:?}", String::from_utf8_lossy(&body)),
            Err(error) => {
                let expected = if is_json {
                    EnvelopeErrorKind::NotMessage
                } else {
                    EnvelopeErrorKind::NotJson
                };
                assert_eq!(
                    error.kind,
                    expected,
                    "case {case}: {:?}: {error}",
                    String::from_utf8_lossy(&body)
                );
                refused += usize::from(!is_json);
            }
        }
    }
    assert!(refused > 10_000, "{refused}");
}

#[test]
fn kinds_are_told_by_their_members() {
    for (body, kind) in [
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{}}"#,
            Kind::Request,
        ),
        (r#"{"id":1,"method":"shutdown"}"#, Kind::Request),
        (r#"{"id":null,"method":"m"}"#, Kind::Request),
        (r#"{"method":"m","params":[]}"#, Kind::Notification),
        (r#"{"method":"exit"}"#, Kind::Notification),
        (r#"{"id":1,"result":null}"#, Kind::Response),
        (r#"{"id":1,"error":null,"result":null}"#, Kind::Response),
        (r#"{"id":1,"error":null,"result":{}}"#, Kind::Response),
        (
            r#"{"id":1,"result":null,"error":{"code":1,"message":""}}"#,
            Kind::ErrorResponse,
        ),
        (
            r#"{"id":1,"error":{"code":1,"message":""},"result":null}"#,
            Kind::ErrorResponse,
        ),
        (
            r#"{"id":null,"error":{"code":-32700,"message":""}}"#,
            Kind::ErrorResponse,
        ),
        (r#"{"id":1,"method":"echoed","result":3}"#, Kind::Response),
    ] {
        assert_eq!(message(body).kind(), kind, "{body}");
    }
}

#[test]
fn a_refusal_names_the_fault_and_keeps_the_id() {
    let id = |token: &str| RawId::parse(token);
    for (body, code, id, part) in [
        (
            r#"{"id":5,"method":"m","params":{oops}}"#,
            -32700,
            id("5"),
            "line 1 column 32",
        ),
        (
            r#"{"method":"m","params":{oops},"id":"a"}"#,
            -32700,
            id("\"a\""),
            "not JSON",
        ),
        ("hello", -32700, None, "not JSON"),
        ("", -32700, None, "not JSON"),
        ("\u{feff}{\"id\":1}", -32700, None, "byte order mark"),
        (
            r#"{"id":1,"method":"m"} x"#,
            -32700,
            id("1"),
            "trailing characters",
        ),
        (
            r#"{"id":1,"id":2,"method":"m"}"#,
            -32600,
            None,
            "`id` stands twice",
        ),
        (
            r#"{"id":1,"method":"m","method":"n"}"#,
            -32600,
            id("1"),
            "`method` stands twice",
        ),
        (
            r#"{"id":1,"method":"m","params":{},"params":{}}"#,
            -32600,
            id("1"),
            "`params` stands twice",
        ),
        (
            r#"{"jsonrpc":"2.0"}"#,
            -32600,
            None,
            "neither `method` nor `result` nor `error`",
        ),
        (
            r#"{"id":1,"params":{}}"#,
            -32600,
            id("1"),
            "no member `method`",
        ),
        (
            r#"{"id":1,"method":7}"#,
            -32600,
            id("1"),
            "`method` is not a string",
        ),
        (
            r#"{"id":true,"method":"m"}"#,
            -32600,
            None,
            "`id` is neither",
        ),
        (
            r#"{"result":1}"#,
            -32600,
            None,
            "answer without the member `id`",
        ),
        ("7", -32600, None, "no object"),
        ("[]", -32600, None, "no object"),
    ] {
        let error = refusal(body.as_bytes());
        assert_eq!(
            (error.code(), error.id.as_ref()),
            (code, id.as_ref()),
            "{body}: {error}"
        );
        assert!(error.text.contains(part), "{body}: {error}");
    }
    assert!(refusal(br#"{"id":1,"result":{oops}}"#).is_answer);
    assert!(!refusal(br#"{"id":1,"method":"m","params":{oops}}"#).is_answer);
    assert_eq!(refusal(b"{\"method\":\"\xff\"}").code(), -32700);
}

/// A valid body over the limit of the full scan, with `%` in place of its long value.
fn long(pattern: &str) -> Bytes {
    let value = format!(
        "[{}\"}}\"]",
        "{\"id\":9,\"x\":\",\\\"id\\\":8}\"},".repeat(FULL_SCAN_LIMIT / 16)
    );
    Bytes::from(pattern.replace('%', &value))
}

#[test]
fn long_messages_are_read_from_their_ends_as_if_read_whole() {
    for (pattern, fast) in [
        (r#"{"jsonrpc":"2.0","id":1,"result":%}"#, true),
        (r#"{"jsonrpc":"2.0","result":%,"id":"a"}"#, true),
        (
            r#" { "jsonrpc" : "2.0" , "result" : % , "id" : 1e2 } "#,
            true,
        ),
        (r#"{"id":1,"error":%}"#, true),
        (r#"{"jsonrpc":"2.0","method":"m","params":%,"id":3}"#, true),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":%,"vendor":{"id":2}}"#,
            true,
        ),
        (r#"{"id":1,"result":null,"error":%}"#, false),
        (r#"{"vendor":{"id":2},"id":1,"result":%}"#, false),
        (r#"{"vendor":%,"id":1,"method":"m"}"#, false),
        (r#"{"method":"m","params":%}"#, false),
        (r#"{"result":%,"id":"a\"b"}"#, false),
        (r#"{"result":%,"id":1,"vendor":2}"#, false),
        (r#"{"method":"m","params":%,"x\"id":3}"#, false),
        (r#"{"\u0069d":1,"result":%}"#, false),
        (r#"{"id":1,"params":%,"method":"m"}"#, false),
    ] {
        let body = long(pattern);
        let facts = |it: &Message| -> (Kind, Option<RawId>, Option<Range<usize>>, Option<String>) {
            (
                it.kind(),
                it.id().cloned(),
                it.id_span(),
                it.method().map(String::from),
            )
        };
        let whole =
            Message::parse_whole(body.clone()).unwrap_or_else(|error| panic!("{pattern}: {error}"));
        let parsed =
            Message::parse(body.clone()).unwrap_or_else(|error| panic!("{pattern}: {error}"));
        assert_eq!(facts(&parsed), facts(&whole), "{pattern}");
        assert_eq!(head_and_tail(&body).is_some(), fast, "{pattern}");
        assert_eq!(parsed.bytes().as_ptr(), body.as_ptr(), "no byte is copied");
        assert_eq!(parsed.params_span(), whole.params_span());
    }
}

#[test]
fn a_fault_in_the_middle_of_a_long_message_is_found_when_the_whole_is_read() {
    let mut body = long(r#"{"id":1,"method":"m","params":%}"#).to_vec();
    let middle = body.len() / 2;
    body[middle] = 0;
    let trusted = Message::parse(Bytes::from(body.clone())).unwrap();
    assert_eq!(trusted.id(), Some(&RawId::number(1)));
    assert_eq!(trusted.params(), None);
    let error = Message::parse_whole(Bytes::from(body.clone())).unwrap_err();
    assert_eq!((error.code(), error.id), (-32700, Some(RawId::number(1))));
    body.truncate(middle);
    assert_eq!(
        refusal(&body).code(),
        -32700,
        "a long message must at least end"
    );
}

#[test]
fn the_beginning_of_a_body_tells_its_id() {
    let peek = |text: &str| Peek::new(text.as_bytes());
    let request = peek(r#"{"jsonrpc":"2.0","id":12,"method":"m","params":{"a":["#);
    assert_eq!(
        (request.id, request.method.as_deref(), request.is_answer),
        (RawId::parse("12"), Some("m"), false)
    );
    let answer = peek(r#"{"id":"x","result":[1,"#);
    assert_eq!((answer.id, answer.is_answer), (RawId::parse("\"x\""), true));
    assert_eq!(
        peek(r#"{"id":12"#).id,
        None,
        "the number may go on behind the cut"
    );
    assert_eq!(peek("junk"), Peek::default());
}

#[test]
fn a_batch_is_split_without_copying() {
    let body = Bytes::from_static(b" [ {\"id\":1} ,2, [3] ]\n");
    let parts = Message::split_batch(&body).unwrap();
    assert_eq!(parts, [&b"{\"id\":1}"[..], b"2", b"[3]"]);
    assert_eq!(parts[0].as_ptr(), body[3..].as_ptr());
    assert_eq!(
        Message::split_batch(&Bytes::from_static(b"[]")),
        Some(vec![])
    );
    assert_eq!(Message::split_batch(&Bytes::from_static(b"[1,")), None);
    assert_eq!(Message::split_batch(&Bytes::from_static(b"{}")), None);
}

#[test]
fn what_the_pool_writes_reads_back_as_it_was_meant() {
    let id = RawId::parse(r#""a\"b""#).unwrap();
    for (written, kind, body) in [
        (
            Message::request(7, "m", "[1]"),
            Kind::Request,
            r#"{"jsonrpc":"2.0","id":7,"method":"m","params":[1]}"#,
        ),
        (
            Message::request_without_params(7, "shutdown"),
            Kind::Request,
            r#"{"jsonrpc":"2.0","id":7,"method":"shutdown"}"#,
        ),
        (
            Message::notification("a\"b", "{}"),
            Kind::Notification,
            r#"{"jsonrpc":"2.0","method":"a\"b","params":{}}"#,
        ),
        (
            Message::notification_without_params("exit"),
            Kind::Notification,
            r#"{"jsonrpc":"2.0","method":"exit"}"#,
        ),
        (
            Message::result(&id, "null"),
            Kind::Response,
            r#"{"jsonrpc":"2.0","id":"a\"b","result":null}"#,
        ),
        (
            Message::error(&RawId::null(), -32700, "no\n", Some("{}")),
            Kind::ErrorResponse,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no\n","data":{}}}"#,
        ),
    ] {
        assert_eq!(written.bytes(), body);
        let read = message(body);
        assert_eq!(read.kind(), kind);
        let facts = |it: &Message| {
            let members =
                [it.params(), it.result_json(), it.error_json()].map(|text| text.map(String::from));
            (
                it.kind(),
                it.id().cloned(),
                it.id_span(),
                it.method().map(String::from),
                members,
            )
        };
        assert_eq!(facts(&written), facts(&read), "{body}");
        assert_eq!(written, read);
    }
}

proptest! {
    #[test]
    fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), text in r#"[\[\]{}":,\\a-e0-9 ]{0,80}"#) {
        for body in [bytes, text.into_bytes()] {
            let body = Bytes::from(body);
            let _ = Message::parse(body.clone());
            let _ = head_and_tail(&body);
            let _ = Peek::new(&body);
            let _ = Message::split_batch(&body);
        }
    }
}
