use bytes::Bytes;

use super::ServerEdge;
use crate::edge::{Decoded, ProgressPhase, ServerFacts, TokenSpan};
use crate::wire::hostile::Generator;
use crate::wire::{Message, RawId};

fn decode(body: &str) -> Decoded {
    let message = Message::parse(Bytes::copy_from_slice(body.as_bytes()))
        .unwrap_or_else(|error| panic!("{body}: {error}"));
    ServerEdge::new(0).decode(&message)
}

fn notify(method: &str, params: &str) -> Decoded {
    ServerEdge::new(0).decode(&Message::notification(method, params))
}

fn ask(method: &str, params: &str) -> Decoded {
    ServerEdge::new(0).decode(&Message::request(4, method, params))
}

fn facts(result: &str) -> ServerFacts {
    match decode(&format!(r#"{{"id":0.0,"result":{result}}}"#)) {
        Decoded::ServerInitialized(facts) => *facts,
        other => panic!("{result}: {other:?}"),
    }
}

#[test]
fn the_answer_to_initialize_is_known_by_its_id_and_kept_as_written() {
    let result = r#"{ "capabilities" : {"hoverProvider":true,"definitionProvider":{"workDoneProgress":false},"referencesProvider":false,"renameProvider":null,"typeDefinitionProvider":"x","providerOf":true,"textDocumentSync":{"openClose":true,"change":2,"save":{}},"positionEncoding":"utf-16"}, "serverInfo":{"name":"s","version":"1.2"},"vendor":1e2 }"#;
    let expected = ServerFacts {
        result: result.to_owned(),
        encoding: Some("utf-16".to_owned()),
        sync_kind: 2,
        wants_save: true,
        providers: vec!["definitionProvider".to_owned(), "hoverProvider".to_owned()],
        name: Some("s 1.2".to_owned()),
    };
    assert_eq!(facts(result), expected);
    assert_eq!(
        decode(r#"{"id":1,"result":{"capabilities":{}}}"#),
        Decoded::Answer { error: None }
    );
    assert_eq!(
        decode(r#"{"id":"0","result":{"capabilities":{}}}"#),
        Decoded::Answer { error: None }
    );
    assert_eq!(
        decode(r#"{"id":0,"error":{"code":5,"message":""}}"#),
        Decoded::Answer { error: Some(5) }
    );
}

#[test]
fn sync_and_saves_are_read_in_every_form() {
    for (sync, expected) in [
        ("0", (0, false)),
        ("1", (1, true)),
        ("2.0", (2, true)),
        ("9", (1, true)),
        ("null", (0, false)),
        ("{}", (0, false)),
        (r#"{"change":1}"#, (1, false)),
        (r#"{"change":2,"save":true}"#, (2, true)),
        (r#"{"change":2,"save":false}"#, (2, false)),
        (r#"{"change":2,"save":{"includeText":true}}"#, (2, true)),
    ] {
        let facts = facts(&format!(
            r#"{{"capabilities":{{"textDocumentSync":{sync}}}}}"#
        ));
        assert_eq!((facts.sync_kind, facts.wants_save), expected, "{sync}");
    }
    let none = facts(r#"{"capabilities":{}}"#);
    assert_eq!(
        (none.sync_kind, none.wants_save, none.encoding, none.name),
        (0, false, None, None)
    );
}

#[test]
fn the_encoding_is_found_where_servers_put_it() {
    assert_eq!(
        facts(r#"{"capabilities":{},"offsetEncoding":"utf-8"}"#)
            .encoding
            .as_deref(),
        Some("utf-8")
    );
    assert_eq!(
        facts(r#"{"capabilities":{"offsetEncoding":"utf-32"}}"#)
            .encoding
            .as_deref(),
        Some("utf-32")
    );
    let both = facts(r#"{"capabilities":{"positionEncoding":"utf-16"},"offsetEncoding":"utf-8"}"#);
    assert_eq!(both.encoding.as_deref(), Some("utf-16"));
    assert_eq!(
        facts(r#"{"capabilities":{},"serverInfo":{"name":"s"}}"#)
            .name
            .as_deref(),
        Some("s")
    );
}

#[test]
fn an_initialize_result_without_capabilities_is_named() {
    for (result, path) in [
        ("null", "result"),
        ("{}", "result.capabilities"),
        (r#"{"capabilities":1}"#, "result.capabilities"),
    ] {
        match decode(&format!(r#"{{"id":0,"result":{result}}}"#)) {
            Decoded::Malformed(text) => assert!(text.contains(&format!("`{path}`")), "{text}"),
            other => panic!("{result}: {other:?}"),
        }
    }
}

#[test]
fn progress_is_read_with_the_place_of_its_token() {
    let body = r#"{"method":"$/progress","params":{"value":{"kind":"begin","title":"Index\u0069ng","message":"m","percentage":12.7},"token":"rust\/x"}}"#;
    let token = r#""rust\/x""#;
    let start = body.find(token).unwrap();
    let expected = Decoded::Progress {
        token: TokenSpan {
            token: RawId::parse(token).unwrap(),
            span: start..start + token.len(),
        },
        phase: ProgressPhase::Begin {
            title: "Indexing".to_owned(),
        },
        message: Some("m".to_owned()),
        percentage: Some(12),
    };
    assert_eq!(decode(body), expected);
    for (value, phase, percentage) in [
        (
            r#"{"kind":"report","percentage":250}"#,
            ProgressPhase::Report,
            Some(100),
        ),
        (
            r#"{"kind":"end","percentage":-1}"#,
            ProgressPhase::End,
            None,
        ),
        (r#"{"kind":"other"}"#, ProgressPhase::Other, None),
        (r#"[{"uri":"a"}]"#, ProgressPhase::Other, None),
        ("null", ProgressPhase::Other, None),
    ] {
        match notify("$/progress", &format!(r#"{{"token":1,"value":{value}}}"#)) {
            Decoded::Progress {
                phase: found,
                percentage: percent,
                ..
            } => {
                assert_eq!((found, percent), (phase, percentage), "{value}");
            }
            other => panic!("{value}: {other:?}"),
        }
    }
    assert!(
        matches!(notify("$/progress", r#"{"value":{}}"#), Decoded::Malformed(text) if text.contains("`params.token`"))
    );
    let created = ask("window/workDoneProgress/create", r#"{"token":7}"#);
    assert!(
        matches!(&created, Decoded::CreateProgress { token } if token.token == RawId::number(7)),
        "{created:?}"
    );
}

#[test]
fn diagnostics_show_their_head() {
    for (rest, version, has_span, empty) in [
        (r#","diagnostics":[]"#, None, false, true),
        (r#","diagnostics":[ ] ,"version":3"#, Some(3), true, true),
        (r#","version":null,"diagnostics":[{}]"#, None, true, false),
        (r#","version":4.0,"diagnostics":[[]]"#, Some(4), true, false),
        ("", None, false, true),
    ] {
        match notify(
            "textDocument/publishDiagnostics",
            &format!(r#"{{"uri":"file:\/\/\/a"{rest}}}"#),
        ) {
            Decoded::Diagnostics {
                uri,
                version: found,
                version_span,
                empty: is_empty,
            } => {
                assert_eq!(uri, "file:///a");
                assert_eq!(
                    (found, version_span.is_some(), is_empty),
                    (version, has_span, empty),
                    "{rest}"
                );
            }
            other => panic!("{rest}: {other:?}"),
        }
    }
    let malformed = notify("textDocument/publishDiagnostics", r#"{"diagnostics":[]}"#);
    assert!(
        matches!(&malformed, Decoded::Malformed(text) if text.contains("`params.uri`")),
        "{malformed:?}"
    );
}

#[test]
fn registrations_are_kept_whole() {
    let raw = r#"{"id":"1","method":"m", "registerOptions":{"x":1e2}}"#;
    match ask(
        "client/registerCapability",
        &format!(r#"{{"registrations":[{raw},{{"id":2,"method":"n"}}]}}"#),
    ) {
        Decoded::Register(list) => {
            assert_eq!(
                (
                    list[0].id.as_str(),
                    list[0].method.as_str(),
                    list[0].raw.get()
                ),
                ("1", "m", raw)
            );
            assert_eq!((list[1].id.as_str(), list[1].method.as_str()), ("2", "n"));
        }
        other => panic!("{other:?}"),
    }
    let pair = vec![("1".to_owned(), "m".to_owned())];
    for name in ["unregisterations", "unregistrations"] {
        let params = format!(r#"{{"{name}":[{{"id":"1","method":"m"}}]}}"#);
        assert_eq!(
            ask("client/unregisterCapability", &params),
            Decoded::Unregister(pair.clone())
        );
    }
    for (method, params, path) in [
        ("client/registerCapability", "{}", "params.registrations"),
        (
            "client/registerCapability",
            r#"{"registrations":[{"id":"1"}]}"#,
            "params.registrations[0].method",
        ),
        (
            "client/unregisterCapability",
            r#"{"unregisterations":[{"method":"m"}]}"#,
            "params.unregisterations[0].id",
        ),
        ("workspace/configuration", "{}", "params.items"),
        ("window/workDoneProgress/create", "{}", "params.token"),
    ] {
        match ask(method, params) {
            Decoded::Malformed(text) => assert!(text.contains(&format!("`{path}`")), "{text}"),
            other => panic!("{method} {params}: {other:?}"),
        }
    }
}

#[test]
fn configuration_is_asked_by_section() {
    let decoded = ask(
        "workspace/configuration",
        r#"{"items":[{"section":"a.b"},{"scopeUri":"u"},{"section":null}]}"#,
    );
    assert_eq!(
        decoded,
        Decoded::AskConfiguration(vec![Some("a.b".to_owned()), None, None])
    );
}

#[test]
fn status_and_logs_are_read() {
    let status = notify(
        "experimental/serverStatus",
        r#"{"health":"ok","quiescent":true,"message":null}"#,
    );
    let expected = Decoded::ServerStatus {
        quiescent: true,
        health: Some("ok".to_owned()),
        message: None,
    };
    assert_eq!(status, expected);
    assert_eq!(
        notify("experimental/serverStatus", r#"{"health":"ok"}"#),
        Decoded::Plain
    );
    for method in ["window/logMessage", "window/showMessage"] {
        let log = notify(method, r#"{"type":3,"message":"a\nb"}"#);
        assert_eq!(
            log,
            Decoded::Log {
                message: "a\nb".to_owned()
            }
        );
        assert_eq!(notify(method, "{}"), Decoded::Plain);
    }
}

#[test]
fn other_messages_are_plain() {
    assert_eq!(notify("vendor/thing", "[]"), Decoded::Plain);
    assert_eq!(ask("workspace/applyEdit", "{}"), Decoded::Plain);
    assert_eq!(ask("vendor/thing", "7"), Decoded::Plain);
}

#[test]
fn hostile_params_never_break_the_decoder() {
    let mut generator = Generator::new(6);
    let mut malformed = 0;
    for _ in 0..20_000 {
        let (method, is_request) = generator.pick(&[
            ("client/registerCapability", true),
            ("client/unregisterCapability", true),
            ("workspace/configuration", true),
            ("window/workDoneProgress/create", true),
            ("$/progress", false),
            ("textDocument/publishDiagnostics", false),
            ("experimental/serverStatus", false),
            ("window/logMessage", false),
        ]);
        let body = generator.message_of(method, is_request);
        let message = Message::parse(Bytes::from(body)).unwrap();
        match ServerEdge::new(3).decode(&message) {
            Decoded::Progress { token, .. } | Decoded::CreateProgress { token } => {
                assert_eq!(&message.bytes()[token.span], token.token.raw().as_bytes());
            }
            Decoded::Malformed(_) => malformed += 1,
            _ => {}
        }
    }
    assert!((1_000..19_000).contains(&malformed), "{malformed}");
}
