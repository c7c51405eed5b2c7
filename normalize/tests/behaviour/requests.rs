//! Strict reading of queries.

use lspool_normalize::request::{MAX_DURATION_MS, View, Wait, decode_batch};
use lspool_normalize::{
    Encoding, Operation, Position, QueryCaps, QueryRequest, QueryTarget, RequestError,
};
use proptest::prelude::*;
use serde_json::{Value, json};

const CAPS: QueryCaps = QueryCaps {
    max_locations: 10_000,
    context_lines: 50,
    batch: 200,
};

fn query() -> Value {
    json!({ "operation": "hover", "file": "a.c", "position": { "line": 1, "character": 2 } })
}

fn with(field: &str, value: Value) -> Value {
    let mut params = query();
    params[field] = value;
    params
}

fn invalid_field(params: &Value) -> String {
    match QueryRequest::decode(params, &CAPS) {
        Err(RequestError::Invalid { field, .. }) => field,
        other => panic!("{params} gave {other:?}"),
    }
}

#[test]
fn a_full_query_is_read() {
    let request = QueryRequest::decode(
        &json!({
            "operation": "findReferences", "file": "src/a.c", "workspaceRoot": "/p",
            "symbol": { "name": "main", "line": 3, "occurrence": 2 }, "view": "editor", "wait": "none",
            "timeoutMs": 5000, "maxLocations": 10_000, "cursor": "c", "contextLines": 50, "columns": "codepoint",
            "workDoneToken": "t",
        }),
        &CAPS,
    )
    .unwrap();
    assert_eq!(request.operation, Operation::FindReferences);
    assert_eq!(request.workspace_root.as_deref(), Some("/p"));
    assert_eq!(
        request.target,
        QueryTarget::Symbol {
            name: "main".to_owned(),
            line: Some(3),
            occurrence: Some(2)
        }
    );
    assert_eq!(
        (request.view, request.wait),
        (Some(View::Editor), Some(Wait::None))
    );
    assert_eq!(
        (request.timeout_ms, request.max_locations),
        (Some(5000), Some(10_000))
    );
    assert_eq!(
        (request.context_lines, request.columns),
        (Some(50), Some(Encoding::Codepoint))
    );
}

#[test]
fn null_is_absent_and_a_whole_float_is_a_number() {
    let request = QueryRequest::decode(
        &json!({
            "operation": "hover", "file": "a.c", "position": { "line": 1.0, "character": 2 }, "symbol": null,
            "token": null, "view": null, "wait": null, "timeoutMs": null, "maxLocations": null, "cursor": null,
            "contextLines": null, "columns": null, "workspaceRoot": null, "workDoneToken": null,
        }),
        &CAPS,
    )
    .unwrap();
    assert_eq!(request, QueryRequest::decode(&query(), &CAPS).unwrap());
    assert_eq!(
        request.target,
        QueryTarget::Position {
            position: Position::new(1, 2),
            token: None
        }
    );
}

#[test]
fn every_fault_names_its_field() {
    let cases = [
        (json!([]), "params"),
        (json!(null), "params"),
        (json!({}), "operation"),
        (with("operation", json!("rename")), "operation"),
        (with("operation", json!(1)), "operation"),
        (with("file", json!(null)), "file"),
        (with("file", json!(" ")), "file"),
        (with("file", json!(["a"])), "file"),
        (with("workspaceRoot", json!("")), "workspaceRoot"),
        (with("position", json!(null)), "position"),
        (with("position", json!([1, 2])), "position"),
        (with("position", json!({ "line": 1 })), "position.character"),
        (
            with("position", json!({ "line": -1, "character": 0 })),
            "position.line",
        ),
        (
            with("position", json!({ "line": 1, "character": 0.5 })),
            "position.character",
        ),
        (
            with(
                "position",
                json!({ "line": 4_294_967_296_u64, "character": 0 }),
            ),
            "position.line",
        ),
        (
            with("position", json!({ "line": 1, "character": 0, "col": 1 })),
            "position.col",
        ),
        (with("symbol", json!({ "name": "x" })), "symbol"),
        (with("token", json!("")), "token"),
        (with("view", json!("memory")), "view"),
        (with("wait", json!(true)), "wait"),
        (with("columns", json!("utf-32")), "columns"),
        (with("timeoutMs", json!(0)), "timeoutMs"),
        (
            with("timeoutMs", json!(u64::from(MAX_DURATION_MS) + 1)),
            "timeoutMs",
        ),
        (with("timeoutMs", json!(1.5)), "timeoutMs"),
        (with("timeoutMs", json!("1")), "timeoutMs"),
        (with("maxLocations", json!(0)), "maxLocations"),
        (with("contextLines", json!(-1)), "contextLines"),
        (with("cursor", json!(7)), "cursor"),
        (with("workDoneToken", json!({})), "workDoneToken"),
        (with("maxlocations", json!(1)), "maxlocations"),
        (
            json!({ "operation": "hover", "file": "a", "symbol": {} }),
            "symbol.name",
        ),
        (
            json!({ "operation": "hover", "file": "a", "symbol": { "name": "" } }),
            "symbol.name",
        ),
        (
            json!({ "operation": "hover", "file": "a", "symbol": { "name": "a\nb" } }),
            "symbol.name",
        ),
        (
            json!({ "operation": "hover", "file": "a", "symbol": { "name": "a", "occurrence": 0 } }),
            "symbol.occurrence",
        ),
        (
            json!({ "operation": "hover", "file": "a", "symbol": { "name": "a", "column": 0 } }),
            "symbol.column",
        ),
        (
            json!({ "operation": "hover", "file": "a", "symbol": { "name": "a" }, "token": "a" }),
            "token",
        ),
    ];
    for (params, field) in cases {
        assert_eq!(invalid_field(&params), field, "{params}");
    }
}

#[test]
fn shape_comes_before_values_and_values_before_limits() {
    let mut params = with("maxLocations", json!(10_001));
    params["timeoutMs"] = json!(0);
    params["cursor"] = json!(1);
    assert_eq!(invalid_field(&params), "cursor");
    params["cursor"] = json!(null);
    assert_eq!(invalid_field(&params), "timeoutMs");
    params["timeoutMs"] = json!(MAX_DURATION_MS);
    let error = QueryRequest::decode(&params, &CAPS).unwrap_err();
    assert_eq!(
        error,
        RequestError::Limit {
            field: "maxLocations",
            cap: 10_000
        }
    );
    assert_eq!(
        error.to_rpc().data.unwrap().detail,
        Some(json!({ "field": "maxLocations", "cap": 10_000 }))
    );
}

#[test]
fn numbers_above_their_cap_are_never_lowered_in_silence() {
    for (field, value) in [
        ("maxLocations", json!(10_001)),
        ("contextLines", json!(51)),
        ("maxLocations", json!(u64::MAX)),
    ] {
        let error = QueryRequest::decode(&with(field, value), &CAPS)
            .unwrap_err()
            .to_rpc();
        assert_eq!(error.stable_code(), Some("LIMIT_EXCEEDED"));
    }
}

#[test]
fn a_wrong_parameter_is_32602_with_its_field() {
    let error = QueryRequest::decode(&with("colour", json!(1)), &CAPS)
        .unwrap_err()
        .to_rpc();
    assert_eq!(error.code, -32602);
    assert_eq!(
        serde_json::to_value(error.data).unwrap(),
        json!({ "code": "INVALID_PARAMS", "detail": { "field": "colour" } })
    );
}

#[test]
fn a_batch_reads_each_query_by_itself() {
    let items = decode_batch(
        &json!({ "queries": [query(), {}, query()], "partialResultToken": 1 }),
        &CAPS,
    )
    .unwrap();
    assert!(items[0].is_ok() && items[1].is_err() && items[2].is_ok());
}

#[test]
fn a_faulty_batch_is_refused_whole() {
    let many = vec![query(); 201];
    let error = decode_batch(&json!({ "queries": many }), &CAPS).unwrap_err();
    assert_eq!(
        error,
        RequestError::Limit {
            field: "queries",
            cap: 200
        }
    );
    for (params, field) in [
        (json!({}), "queries"),
        (json!({ "queries": {} }), "queries"),
        (json!({ "queries": [], "query": 1 }), "query"),
        (
            json!({ "queries": [], "partialResultToken": true }),
            "partialResultToken",
        ),
    ] {
        let Err(RequestError::Invalid { field: found, .. }) = decode_batch(&params, &CAPS) else {
            panic!("{params} is faulty");
        };
        assert_eq!(found, field);
    }
}

fn requests() -> impl Strategy<Value = QueryRequest> {
    let target = prop_oneof![
        (any::<u32>(), any::<u32>(), prop::option::of("[a-z]{1,5}")).prop_map(
            |(line, character, token)| {
                let position = Position::new(line, character);
                QueryTarget::Position { position, token }
            }
        ),
        (
            "[a-z+]{1,5}",
            prop::option::of(any::<u32>()),
            prop::option::of(1_u32..9)
        )
            .prop_map(|(name, line, occurrence)| QueryTarget::Symbol {
                name,
                line,
                occurrence
            }),
    ];
    let numbers = (
        prop::option::of(1..=MAX_DURATION_MS),
        prop::option::of(1..=CAPS.max_locations),
        prop::option::of(0..=CAPS.context_lines),
    );
    let words = (
        prop::option::of("[a-z/]{1,9}"),
        prop::option::of("[a-z]{0,9}"),
        prop::option::of(prop::sample::select(vec![View::Disk, View::Editor])),
        prop::option::of(prop::sample::select(vec![Wait::Ready, Wait::None])),
        prop::option::of(prop::sample::select(vec![
            Encoding::Utf8,
            Encoding::Utf16,
            Encoding::Codepoint,
        ])),
    );
    (
        prop::sample::select(Operation::ALL.to_vec()),
        "[a-z/:]{1,9}",
        target,
        numbers,
        words,
    )
        .prop_map(
            |(
                operation,
                file,
                target,
                (timeout_ms, max_locations, context_lines),
                (workspace_root, cursor, view, wait, columns),
            )| {
                QueryRequest {
                    operation,
                    file,
                    workspace_root,
                    target,
                    view,
                    wait,
                    timeout_ms,
                    max_locations,
                    cursor,
                    context_lines,
                    columns,
                    work_done_token: None,
                }
            },
        )
}

proptest! {
    #[test]
    fn a_written_request_is_read_back(request in requests()) {
        let params = serde_json::to_value(&request).unwrap();
        prop_assert_eq!(QueryRequest::decode(&params, &CAPS).unwrap(), request);
    }

    #[test]
    fn an_unknown_field_is_always_named(request in requests(), name in "[A-Z][a-z]{0,6}") {
        let mut params = serde_json::to_value(&request).unwrap();
        params[&name] = Value::Null;
        prop_assert_eq!(invalid_field(&params), name);
    }
}
