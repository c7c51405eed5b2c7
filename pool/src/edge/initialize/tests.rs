use serde_json::{Value, json};

use super::decode;
use crate::edge::InitializeFacts;

fn facts(params: &str) -> InitializeFacts {
    *decode(Some(params)).unwrap_or_else(|error| panic!("{params}: {error}"))
}

#[test]
fn what_is_not_named_keeps_its_bytes() {
    let params = r#"{ "processId" : 1234 , "clientInfo":{"name":"ed\u0069tor","version":"1"}, "_vs_x": [1e2,"\u00e9"],
 "capabilities":{}, "trace":"verbose", "initializationOptions" : { "a" : 1e2 , "lspool":{"faces":["exec"]} } ,"z":123456789012345678901234567890}"#;
    let facts = facts(params);
    let expected = params
        .replace(
            r#""capabilities":{}"#,
            &format!(r#""capabilities":{}"#, facts.raised.json),
        )
        .replace(r#" , "lspool":{"faces":["exec"]}"#, "");
    assert_eq!(facts.params, expected);
    assert_eq!(facts.process_id, Some(1234));
    assert_eq!(
        facts
            .process_id_span
            .clone()
            .map(|span| &facts.params[span]),
        Some("1234")
    );
    assert_eq!(facts.client_name.as_deref(), Some("editor"));
    assert_eq!(facts.trace.as_deref(), Some("verbose"));
}

#[test]
fn knowing_lspool_is_no_difference() {
    let with = facts(
        r#"{"capabilities":{"a":1,"experimental":{"lspool":{}}},"initializationOptions":{"lspool":{}}}"#,
    );
    let without = facts(r#"{"capabilities":{"a":1}}"#);
    assert!(with.knows_lspool);
    assert!(!without.knows_lspool);
    assert_eq!(with.raised.digest, without.raised.digest);
    assert_eq!((with.options_digest, without.options_digest), (0, 0));
    let told: Value = serde_json::from_str(&with.params).unwrap();
    assert_eq!(told.get("initializationOptions"), None);
    assert_eq!(told.pointer("/capabilities/experimental/lspool"), None);

    let kept = facts(r#"{"capabilities":{"experimental":{"x":1,"lspool":true}}}"#);
    let told: Value = serde_json::from_str(&kept.params).unwrap();
    assert_eq!(
        told.pointer("/capabilities/experimental/x"),
        Some(&json!(1))
    );
    assert_eq!(told.pointer("/capabilities/experimental/lspool"), None);
    assert!(!facts(r#"{"capabilities":{"experimental":{"lspool":null}}}"#).knows_lspool);
}

#[test]
fn options_have_a_digest_of_what_they_mean() {
    let digest =
        |options: &str| facts(&format!(r#"{{"initializationOptions":{options}}}"#)).options_digest;
    assert_eq!(digest("null"), 0);
    assert_eq!(facts("{}").options_digest, 0);
    assert_eq!(
        digest(r#"{"a":1,"b":2}"#),
        digest(r#"{ "b":2,"a":1,"lspool":{"x":[]}}"#)
    );
    assert_ne!(digest(r#"{"a":1}"#), digest(r#"{"a":2}"#));
    assert_ne!(digest("{}"), 0);
}

#[test]
fn folders_are_taken_as_spelled_from_the_first_member_that_names_one() {
    for (params, folders) in [
        (
            r#"{"workspaceFolders":[{"uri":"file:///b","name":""},{"uri":"file:\/\/\/a%20"}],"rootUri":"file:///r"}"#,
            &["file:///b", "file:///a%20"][..],
        ),
        (
            r#"{"workspaceFolders":[],"rootUri":"file:///r","rootPath":"/p"}"#,
            &["file:///r"],
        ),
        (
            r#"{"workspaceFolders":null,"rootUri":null,"rootPath":"/p"}"#,
            &["/p"],
        ),
        (r#"{"rootUri":null,"rootPath":null}"#, &[]),
        ("{}", &[]),
    ] {
        assert_eq!(facts(params).folders, folders, "{params}");
    }
}

#[test]
fn absent_capabilities_are_none_and_are_told_raised() {
    for params in ["{}", r#"{"capabilities":null}"#, r#"{"processId":null}"#] {
        let facts = facts(params);
        let told: Value = serde_json::from_str(&facts.params).unwrap();
        assert_eq!(
            told["capabilities"],
            serde_json::from_str::<Value>(&facts.raised.json).unwrap()
        );
        assert_eq!(facts.process_id, None);
    }
    let null = facts(r#"{"processId":null}"#);
    assert_eq!(
        null.process_id_span.clone().map(|span| &null.params[span]),
        Some("null")
    );
}

#[test]
fn what_cannot_be_read_is_named() {
    for (params, path) in [
        (None, "params"),
        (Some("[]"), "params"),
        (Some(r#"{"capabilities":[]}"#), "params.capabilities"),
        (
            Some(r#"{"workspaceFolders":{}}"#),
            "params.workspaceFolders",
        ),
        (
            Some(r#"{"workspaceFolders":[{"uri":"u"},{"name":"n"}]}"#),
            "params.workspaceFolders[1].uri",
        ),
    ] {
        assert_eq!(decode(params).unwrap_err(), path, "{params:?}");
    }
}
