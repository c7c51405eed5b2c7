//! Which server messages and registrations reach a client.

use lspool_normalize::capabilities::{
    ClientOffer, Filtered, allows_server_message, filter_registrations, filter_unregistrations,
    full, raise,
};
use serde_json::{Value, json};

fn offer(capabilities: &Value) -> ClientOffer {
    raise(&capabilities.to_string()).unwrap().offer
}

const NEED_A_CAPABILITY: [&str; 13] = [
    "$/progress",
    "window/workDoneProgress/create",
    "window/showDocument",
    "workspace/configuration",
    "workspace/workspaceFolders",
    "workspace/applyEdit",
    "experimental/serverStatus",
    "workspace/codeLens/refresh",
    "workspace/semanticTokens/refresh",
    "workspace/inlayHint/refresh",
    "workspace/inlineValue/refresh",
    "workspace/diagnostic/refresh",
    "workspace/foldingRange/refresh",
];

#[test]
fn a_client_gets_only_the_messages_that_it_announced() {
    let nothing = offer(&json!({}));
    let everything = raise(full()).unwrap().offer;
    for method in NEED_A_CAPABILITY {
        assert!(!allows_server_message(method, &nothing), "{method}");
        assert!(allows_server_message(method, &everything), "{method}");
    }
    for method in [
        "window/logMessage",
        "window/showMessageRequest",
        "telemetry/event",
        "vendor/thing",
    ] {
        assert!(allows_server_message(method, &nothing), "{method}");
    }
}

#[test]
fn registrations_that_were_not_announced_are_left_out() {
    let client = offer(&json!({ "textDocument": { "hover": { "dynamicRegistration": true } } }));
    let hover = r#"{"id":"1", "method":"textDocument/hover","registerOptions":{"n":1.0}}"#;
    let watch = r#"{"id":"2","method":"workspace/didChangeWatchedFiles","registerOptions":{"watchers":[]}}"#;
    let vendor = r#"{"id":"3","method":"vendor/x"}"#;
    assert_eq!(
        filter_registrations(
            &format!(r#"{{"x":1,"registrations":[{hover},{watch},{vendor}]}}"#),
            &client
        ),
        Filtered::Changed(format!(r#"{{"x":1,"registrations":[{hover},{vendor}]}}"#))
    );
    assert_eq!(
        filter_registrations(&format!(r#"{{"registrations":[{watch}]}}"#), &client),
        Filtered::Nothing
    );
    assert_eq!(
        filter_registrations(&format!(r#"{{"registrations":[{hover}]}}"#), &client),
        Filtered::Unchanged
    );
    assert_eq!(filter_registrations("[]", &client), Filtered::Unchanged);
}

#[test]
fn unregistrations_are_left_out_under_both_spellings() {
    let client = offer(&json!({}));
    for name in ["unregisterations", "unregistrations"] {
        let params =
            format!(r#"{{"{name}":[{{"id":"2","method":"workspace/didChangeWatchedFiles"}}]}}"#);
        assert_eq!(filter_unregistrations(&params, &client), Filtered::Nothing);
    }
}

#[test]
fn relative_patterns_become_absolute_for_a_client_that_does_not_know_them() {
    let params = |pattern: Value| {
        json!({ "registrations": [{ "id": "1", "method": "workspace/didChangeWatchedFiles",
                "registerOptions": { "watchers": [{ "globPattern": pattern, "kind": 7 }] } }] })
    };
    let client = offer(
        &json!({ "workspace": { "didChangeWatchedFiles": { "dynamicRegistration": true } } }),
    );
    for base in [
        json!("file:///p%20q/"),
        json!({ "uri": "file:///p%20q", "name": "p" }),
    ] {
        let given = params(json!({ "baseUri": base, "pattern": "**/*.rs" })).to_string();
        let Filtered::Changed(lowered) = filter_registrations(&given, &client) else {
            panic!("the pattern changes");
        };
        assert_eq!(
            serde_json::from_str::<Value>(&lowered).unwrap(),
            params(json!("/p q/**/*.rs"))
        );
        let full = raise(full()).unwrap().offer;
        assert_eq!(filter_registrations(&given, &full), Filtered::Unchanged);
    }
    let plain = params(json!("**/*.rs")).to_string();
    assert_eq!(filter_registrations(&plain, &client), Filtered::Unchanged);
}
