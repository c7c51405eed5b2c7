//! Raising a client's capabilities: what is set, what stays byte for byte, and what two clients have in common.

use lspool_normalize::Encoding;
use lspool_normalize::canonical;
use lspool_normalize::capabilities::table::{Key, ROWS};
use lspool_normalize::capabilities::{CapabilitiesError, full, raise};
use proptest::prelude::*;
use serde_json::{Value, json};

fn raised(capabilities: &str) -> String {
    raise(capabilities).unwrap().json
}

fn at<'value>(value: &'value Value, path: &[&str]) -> &'value Value {
    path.iter().fold(value, |value, name| &value[*name])
}

#[test]
fn every_key_of_the_table_is_set_on_an_empty_client() {
    for empty in ["{}", "null", " { } ", r#"{"workspace":null}"#] {
        let json: Value = serde_json::from_str(&raised(empty)).unwrap();
        for row in ROWS {
            let wanted: Value = serde_json::from_str(row.value).unwrap();
            assert_eq!(at(&json, row.path), &wanted, "{empty}: {:?}", row.key);
        }
    }
}

#[test]
fn paths_of_the_table_are_distinct() {
    for (index, row) in ROWS.iter().enumerate() {
        assert!(
            ROWS[index + 1..]
                .iter()
                .all(|other| other.path != row.path && other.key != row.key)
        );
    }
}

#[test]
fn every_other_byte_stays_as_the_client_sent_it() {
    // Given odd spellings, vendor members, and a long number around the keys that are set.
    let client = "{ \"vendor\" : {\"n\":123456789012345678901234567890, \"e\":1e2,\"u\":\"\\u00e9é\"} ,\r\n \
                  \"window\":{ \"workDoneProgress\" : false ,\"x\":1.0 }, \"experimental\":{\"commands\":[ 1 ]} }";
    // When it is raised.
    let json = raised(client);
    // Then each part around them is there as it was.
    for part in [
        "{ \"vendor\" : {\"n\":123456789012345678901234567890, \"e\":1e2,\"u\":\"\\u00e9é\"} ,\r\n \"window\":{ ",
        "\"workDoneProgress\" : true ,\"x\":1.0 }, \"experimental\":{\"commands\":[ 1 ],\"serverStatusNotification\":true}",
    ] {
        assert!(json.contains(part), "{part} in {json}");
    }
}

#[test]
fn what_is_raised_already_stays_byte_for_byte() {
    assert_eq!(raised(full()), full().trim());
    assert_eq!(
        raise(full()).unwrap().digest,
        canonical::digest(full()).unwrap()
    );
}

#[test]
fn utf_16_is_forced_whatever_the_client_offers() {
    let client =
        r#"{"general":{"positionEncodings":["utf-8","utf-16"]},"offsetEncoding":["utf-8"]}"#;
    let json: Value = serde_json::from_str(&raised(client)).unwrap();
    assert_eq!(json["general"]["positionEncodings"], json!(["utf-16"]));
    assert_eq!(json["offsetEncoding"], json!(["utf-16"]));
    let offer = raise(client).unwrap().offer;
    assert!(offer.offers_encoding(Encoding::Utf8) && offer.offers_encoding(Encoding::Utf16));
    assert!(!offer.offers_encoding(Encoding::Codepoint));
    let json: Value = serde_json::from_str(&raised(r#"{"general":7}"#)).unwrap();
    assert_eq!(json["general"]["positionEncodings"], json!(["utf-16"]));
}

#[test]
fn experimental_that_is_no_object_stays() {
    let json: Value = serde_json::from_str(&raised(r#"{"experimental":["x"]}"#)).unwrap();
    assert_eq!(json["experimental"], json!(["x"]));
}

#[test]
fn no_server_sees_that_a_client_knows_lspool() {
    let plain = raise("{}").unwrap();
    for client in [
        r#"{"experimental":{"lspool":{"version":1}}}"#,
        r#"{"experimental":{"lspool":true,"serverStatusNotification":true}}"#,
        r#"{"experimental":{"serverStatusNotification":true,"lspool":{}}}"#,
        r#"{"experimental":{"lspool":1,"lspool":2}}"#,
    ] {
        let with_lspool = raise(client).unwrap();
        assert!(!with_lspool.json.contains("lspool"), "{}", with_lspool.json);
        assert_eq!(with_lspool.digest, plain.digest, "{client}");
        assert!(with_lspool.offer.knows_lspool());
    }
    assert!(!plain.offer.knows_lspool());
    let kept = raised(r#"{"experimental":{"a":1, "lspool":{}, "b":2}}"#);
    assert!(
        kept.contains(r#"{"a":1, "b":2,"serverStatusNotification":true}"#),
        "{kept}"
    );
}

#[test]
fn clients_share_exactly_when_they_differ_in_keys_of_the_table() {
    let digest = |client: &str| raise(client).unwrap().digest;
    let rich = r#"{"textDocument":{"hover":{"contentFormat":["markdown","plaintext"]},"definition":{"linkSupport":true}},
                   "window":{"workDoneProgress":true}}"#;
    let poor = r#"{"window":{},"textDocument":{"definition":{"linkSupport":false},"hover":{"contentFormat":["plaintext"]}}}"#;
    assert_eq!(digest(rich), digest(poor));
    let other = r#"{"textDocument":{"foldingRange":{"rangeLimit":5000}}}"#;
    assert_ne!(digest(rich), digest(other));
    assert_ne!(digest(rich), digest(r#"{"vendor":1}"#));
}

#[test]
fn the_offer_is_what_the_client_announced_itself() {
    let offer = raise(
        r#"{"textDocument":{"definition":{"linkSupport":true},"declaration":{"linkSupport":"yes"}},
            "workspace":{"configuration":true,"applyEdit":null}}"#,
    )
    .unwrap()
    .offer;
    assert!(offer.has(Key::DefinitionLinks) && offer.has(Key::Configuration));
    for key in [
        Key::DeclarationLinks,
        Key::ApplyEdit,
        Key::WorkDoneProgress,
        Key::ServerStatus,
    ] {
        assert!(!offer.has(key), "{key:?}");
    }
    assert!(!offer.hover_formats().markdown && !offer.hover_formats().plaintext);
}

#[test]
fn what_cannot_be_read_is_refused() {
    for wrong in ["[]", "1", "\"{}\"", "true"] {
        assert!(
            matches!(raise(wrong), Err(CapabilitiesError::NotAnObject)),
            "{wrong}"
        );
    }
    assert!(matches!(raise("{"), Err(CapabilitiesError::Unreadable(_))));
    let deep = format!("{{\"x\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(matches!(
        raise(&deep),
        Err(CapabilitiesError::Unreadable(_))
    ));
}

/// Capabilities with any of the table's keys, right and wrong, beside members that nobody knows.
fn clients() -> impl Strategy<Value = String> {
    let member = prop_oneof![
        prop::sample::select(ROWS.iter().map(|row| row.path).collect::<Vec<_>>())
            .prop_map(<[&str]>::to_vec),
        prop::sample::select(vec![
            vec!["experimental", "lspool"],
            vec!["vendor"],
            vec!["textDocument"],
            vec!["experimental"],
            vec!["window", "x"],
            vec!["workspace", "didChangeWatchedFiles"],
        ]),
    ];
    let value = prop::sample::select(vec![
        json!(true),
        json!(false),
        json!(null),
        json!(7),
        json!({}),
        json!(["plaintext"]),
        json!({ "a": [1, { "b": null }] }),
    ]);
    prop::collection::vec((member, value), 0..12).prop_map(|members| {
        let mut client = json!({});
        for (path, value) in members {
            let mut at = &mut client;
            for name in path {
                if !at.is_object() {
                    *at = json!({});
                }
                at = &mut at[name];
            }
            *at = value;
        }
        client.to_string()
    })
}

/// The value without the table's keys, without `experimental.lspool`, and without what is empty then.
fn rest(mut value: Value) -> Value {
    let mut paths: Vec<Vec<&str>> = ROWS.iter().map(|row| row.path.to_vec()).collect();
    paths.push(vec!["experimental", "lspool"]);
    // Longest first, so that parents are looked at when their members are gone.
    for path in paths {
        for depth in (1..=path.len()).rev() {
            let (parents, name) = (&path[..depth - 1], path[depth - 1]);
            let pointer = [&[""], parents].concat().join("/");
            let Some(Value::Object(parent)) = value.pointer_mut(&pointer) else {
                continue;
            };
            let goes = depth == path.len()
                || parent
                    .get(name)
                    .is_some_and(|found| found.is_null() || *found == json!({}));
            if goes {
                parent.remove(name);
            }
        }
    }
    value
}

proptest! {
    #[test]
    fn raising_is_idempotent(client in clients()) {
        let once = raise(&client).unwrap();
        let twice = raise(&once.json).unwrap();
        prop_assert_eq!(&twice.json, &once.json);
        prop_assert_eq!(twice.digest, once.digest);
    }

    #[test]
    fn nothing_but_the_table_changes(client in clients()) {
        let before: Value = serde_json::from_str(&client).unwrap();
        let after: Value = serde_json::from_str(&raised(&client)).unwrap();
        // A `general` that is no object gives way, since a forced key lies below it.
        let mut before = before;
        if !before["general"].is_object() {
            before.as_object_mut().unwrap().remove("general");
        }
        prop_assert_eq!(rest(after), rest(before));
    }

    #[test]
    fn any_text_is_raised_or_refused(text in "[{}\\[\\]\",:a1 ]{0,24}") {
        if let Ok(raised) = raise(&text) {
            prop_assert!(serde_json::from_str::<Value>(&raised.json).unwrap().is_object());
        }
    }
}
