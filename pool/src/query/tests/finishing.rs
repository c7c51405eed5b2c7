use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use lspool_normalize::{
    Completeness, Encoding, Location, Operation, Position, QueryRequest, QueryResult, Readiness,
    Reason, RpcError, TextSource, UriKey,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Bench, ask};
use crate::edge::TextId;
use crate::query::{EditorText, FinishInput, finish, prepare};
use crate::registry::Registry;

const MAIN: &str = "fn main() {\n    bird();\n    \"🙂\"; bird();\n}\n";
const BIRD: &str = "// first\npub fn bird() {}\n";

/// A Rust project whose `src/main.rs` uses the `bird` of `src/bird.rs`.
struct Project {
    bench: Bench,
}

impl Project {
    fn new() -> Self {
        let bench = Bench::new();
        bench.program("bin/rust-analyzer");
        bench.write("work/p/Cargo.toml", "[package]\nname = \"p\"\n");
        bench.write("work/p/src/main.rs", MAIN);
        bench.write("work/p/src/bird.rs", BIRD);
        Self { bench }
    }

    fn uri(&self, relative: &str) -> String {
        format!("file://{}", self.bench.path(relative).display())
    }

    fn place(&self, relative: &str, line: u32, start: u32, end: u32) -> Value {
        json!({ "uri": self.uri(relative), "range": range(line, start, end) })
    }

    async fn input(&self, request: QueryRequest, result: &Value) -> FinishInput {
        let context = self.bench.context();
        let prepared = prepare(
            &self.bench.world,
            &Registry::builtin(),
            &context,
            &request,
            &[],
        )
        .await
        .unwrap();
        FinishInput {
            request: Arc::new(request),
            prepared: Arc::new(prepared),
            open_texts: BTreeMap::new(),
            server: "rust-analyzer".into(),
            result: result.to_string(),
            definition_result: None,
            readiness: Readiness::Signal,
            indexing: false,
            progress: None,
            waited_ms: 7,
            notes: vec!["asked again 2 times".into()],
        }
    }

    fn request(&self, operation: Operation) -> QueryRequest {
        QueryRequest {
            operation,
            ..ask(self.bench.path("work/p/src/main.rs"))
        }
    }

    async fn finish(&self, input: &FinishInput) -> Result<QueryResult, RpcError> {
        finish(&self.bench.world, input).await
    }

    /// The result of an operation on the main file.
    async fn result(&self, operation: Operation, result: &Value) -> QueryResult {
        let input = self.input(self.request(operation), result).await;
        self.finish(&input).await.unwrap()
    }
}

fn range(line: u32, start: u32, end: u32) -> Value {
    json!({ "start": { "line": line, "character": start }, "end": { "line": line, "character": end } })
}

fn locations(result: &QueryResult) -> &[Location] {
    match result {
        QueryResult::Locations { locations, .. } => locations,
        QueryResult::Hover { .. } => panic!("a hover is no list"),
    }
}

fn lines(result: &QueryResult) -> Vec<(&str, u32)> {
    let name = |location: &Location| location.range.start.line;
    locations(result)
        .iter()
        .map(|location| {
            (
                Path::new(&location.path)
                    .file_name()
                    .unwrap()
                    .to_str()
                    .unwrap(),
                name(location),
            )
        })
        .collect()
}

#[tokio::test]
async fn a_location_has_all_that_an_agent_needs_to_go_on() {
    let project = Project::new();
    let mut request = project.request(Operation::GoToDefinition);
    request.context_lines = Some(1);
    let link = json!([{ "targetUri": project.uri("work/p/src/bird.rs"), "targetRange": range(1, 0, 16),
                        "targetSelectionRange": range(1, 7, 11) }]);

    let result = project
        .finish(&project.input(request, &link).await)
        .await
        .unwrap();

    let version = locations(&result)[0].version.clone().unwrap();
    let text_version = result.envelope().text.version.clone();
    assert_eq!(
        serde_json::to_value(&result).unwrap(),
        json!({
            "kind": "locations",
            "locations": [{
                "uri": project.uri("work/p/src/bird.rs"), "range": range(1, 7, 11), "fullRange": range(1, 0, 16),
                "path": project.bench.path("work/p/src/bird.rs"), "inWorkspace": true, "line": "pub fn bird() {}",
                "context": [{ "line": 0, "text": "// first" }, { "line": 1, "text": "pub fn bird() {}" },
                            { "line": 2, "text": "" }],
                "version": version,
            }],
            "token": { "text": "fn", "range": range(0, 0, 2) },
            "envelope": {
                "servers": ["rust-analyzer"], "completeness": "complete", "readiness": "signal",
                "workspaceUri": project.uri("work/p"), "text": { "source": "disk", "version": text_version },
                "total": 1, "truncated": false, "dropped": 0, "waitedMs": 7, "notes": ["asked again 2 times"],
            },
        })
    );
}

#[tokio::test]
async fn places_are_told_once_and_in_order() {
    let project = Project::new();
    project.bench.write("work/lib/z.rs", "fn z() {}\n");
    project
        .bench
        .link(&project.bench.path("work/p"), "work/alias");
    let result = json!([
        project.place("work/lib/z.rs", 0, 3, 4),
        project.place("work/p/src/bird.rs", 1, 7, 11),
        project.place("work/alias/src/bird.rs", 1, 7, 11),
        project.place("work/p/src/main.rs", 2, 10, 14),
        project.place("work/alias/src/main.rs", 1, 4, 8),
        project.place("work/p/src/main.rs", 1, 4, 8),
    ]);

    let result = project.result(Operation::GoToImplementation, &result).await;

    assert_eq!(
        lines(&result),
        [("main.rs", 1), ("main.rs", 2), ("bird.rs", 1), ("z.rs", 0)]
    );
    assert_eq!(result.envelope().total, 4);
    let told = locations(&result);
    assert!(
        told[..3]
            .iter()
            .all(|location| location.in_workspace && !location.path.contains("alias"))
    );
    assert!(!told[3].in_workspace);
}

#[tokio::test]
async fn the_queried_file_is_told_as_it_was_asked() {
    let project = Project::new();
    let mut request = project.request(Operation::GoToDefinition);
    request.file = project.uri("work/p/src/main.rs").replace("main", "m%61in");
    let answer = json!([project.place("work/p/src/main.rs", 0, 3, 7)]);

    let result = project
        .finish(&project.input(request.clone(), &answer).await)
        .await
        .unwrap();

    assert_eq!(locations(&result)[0].uri.as_str(), request.file);
    assert_eq!(
        locations(&result)[0].path,
        project.bench.path("work/p/src/main.rs").to_str().unwrap()
    );
}

#[tokio::test]
async fn a_place_that_no_longer_stands_is_dropped_and_counted() {
    let project = Project::new();
    let result = json!([
        project.place("work/p/src/bird.rs", 1, 7, 11),
        project.place("work/p/src/bird.rs", 9, 7, 11),
        project.place("work/p/src/bird.rs", 1, 70, 74),
        project.place("work/p/src/gone.rs", 0, 0, 1),
    ]);

    let result = project.result(Operation::GoToImplementation, &result).await;

    assert_eq!(lines(&result), [("bird.rs", 1)]);
    assert_eq!((result.envelope().total, result.envelope().dropped), (1, 3));
}

#[tokio::test]
async fn a_file_that_cannot_be_read_keeps_its_place_without_text() {
    let project = Project::new();
    std::fs::write(project.bench.path("work/p/src/raw.rs"), b"a\0b").unwrap();
    let answer = json!([
        project.place("work/p/src/raw.rs", 0, 1, 2),
        { "uri": "jdt://contents/rt.jar", "range": range(3, 1, 2) },
    ]);
    let mut input = project
        .input(project.request(Operation::GoToDefinition), &answer)
        .await;

    let result = project.finish(&input).await.unwrap();
    for location in locations(&result) {
        assert_eq!(
            (&location.line, &location.version),
            (&None, &None),
            "{}",
            location.path
        );
    }
    assert_eq!(locations(&result)[1].path, "jdt://contents/rt.jar");

    let mut request = project.request(Operation::GoToDefinition);
    request.columns = Some(Encoding::Utf8);
    input.request = Arc::new(request);
    let error = project.finish(&input).await.unwrap_err();
    assert_eq!(error.stable_code(), Some("LSP_ENCODING"));
}

#[tokio::test]
async fn columns_are_told_in_the_callers_unit() {
    let project = Project::new();
    for (caller, at_caller) in [
        (Encoding::Utf8, 12),
        (Encoding::Utf16, 10),
        (Encoding::Codepoint, 9),
    ] {
        let mut request = project.request(Operation::GoToDefinition);
        request.columns = Some(caller);
        let answer = project.place("work/p/src/main.rs", 2, 10, 14);
        let input = project.input(request, &answer).await;
        let result = project.finish(&input).await.unwrap();
        let told = locations(&result)[0].range;
        assert_eq!(
            (told.start, told.end),
            (Position::new(2, at_caller), Position::new(2, at_caller + 4))
        );
    }
}

#[tokio::test]
async fn an_answer_is_about_the_text_that_the_server_holds() {
    let project = Project::new();
    let held = "\n\n\npub fn bird() {}\n";
    let answer = json!([project.place("work/p/src/bird.rs", 3, 7, 11)]);
    let mut input = project
        .input(project.request(Operation::GoToDefinition), &answer)
        .await;
    let key = UriKey::new(&project.uri("work/p/src/bird.rs"));
    input.open_texts.insert(key.clone(), Arc::from(held));

    let result = project.finish(&input).await.unwrap();
    assert_eq!(
        locations(&result)[0].line.as_deref(),
        Some("pub fn bird() {}")
    );
    assert_eq!(
        locations(&result)[0].version,
        None,
        "the disk has another text"
    );

    input.open_texts.insert(key, Arc::from(BIRD));
    input.result = json!([project.place("work/p/src/bird.rs", 1, 7, 11)]).to_string();
    let result = project.finish(&input).await.unwrap();
    assert!(
        locations(&result)[0].version.is_some(),
        "the disk has the same text"
    );
}

#[tokio::test]
async fn an_editors_text_is_named_as_such() {
    let project = Project::new();
    let answer = json!([project.place("work/p/src/main.rs", 5, 0, 1)]);
    let mut input = project
        .input(project.request(Operation::GoToDefinition), &answer)
        .await;
    let text: Arc<str> = Arc::from("\n\n\n\n\nx\n");
    let mut prepared = (*input.prepared).clone();
    prepared.text = Arc::clone(&text);
    prepared.text_id = TextId::of(&text);
    prepared.editor_text = Some(EditorText {
        text,
        version: "12".into(),
    });
    input.prepared = Arc::new(prepared);

    let result = project.finish(&input).await.unwrap();

    assert_eq!(locations(&result)[0].line.as_deref(), Some("x"));
    assert_eq!(result.envelope().text.source, TextSource::Editor);
    assert_eq!(result.envelope().text.version, "12");
}

#[tokio::test]
async fn the_declaration_is_marked_added_or_said_to_be_unknown() {
    let project = Project::new();
    let declaration = project.place("work/p/src/bird.rs", 1, 7, 11);
    let uses = [
        project.place("work/p/src/main.rs", 1, 4, 8),
        project.place("work/p/src/main.rs", 2, 10, 14),
    ];
    let all = json!([uses[0], uses[1], declaration]);
    let mut input = project
        .input(project.request(Operation::FindReferences), &all)
        .await;
    input.notes.clear();
    let told = |result: &QueryResult| {
        let marks: Vec<bool> = locations(result)
            .iter()
            .map(|location| location.declaration)
            .collect();
        (marks, result.envelope().notes.clone())
    };

    input.definition_result = Some(json!([declaration]).to_string());
    assert_eq!(
        told(&project.finish(&input).await.unwrap()),
        (vec![false, false, true], vec![])
    );

    input.result = json!(uses).to_string();
    let added = "rust-analyzer left the declaration out; it was added".to_owned();
    assert_eq!(
        told(&project.finish(&input).await.unwrap()),
        (vec![false, false, true], vec![added])
    );

    input.result = "null".to_owned();
    let (marks, _) = told(&project.finish(&input).await.unwrap());
    assert_eq!(marks, [true], "a symbol without uses has its declaration");

    input.result = json!(uses).to_string();
    for unusable in [
        None,
        Some("null".to_owned()),
        Some("{\"odd\":1}".to_owned()),
    ] {
        input.definition_result = unusable;
        let (marks, notes) = told(&project.finish(&input).await.unwrap());
        assert_eq!(marks, [false, false]);
        assert_eq!(
            notes,
            ["which place is the declaration is not known: rust-analyzer gave no definition"]
        );
    }
}

#[tokio::test]
async fn generated_files_are_marked_by_their_text_or_their_path() {
    let project = Project::new();
    let late = format!("{}// @generated\nfn late() {{}}\n", "\n".repeat(20));
    project.bench.write(
        "work/p/src/a.rs",
        "// @generated by a tool\r\nfn a() {}\r\n",
    );
    project.bench.write(
        "work/p/src/b.rs",
        "\n// Code generated by x. DO NOT EDIT.\nfn b() {}\n",
    );
    project
        .bench
        .write("work/p/src/c.rs", "// Code generated by hand, DO EDIT\n");
    project.bench.write("work/p/src/late.rs", &late);
    let places: Vec<Value> = ["a", "b", "c", "late"]
        .map(|name| project.place(&format!("work/p/src/{name}.rs"), 0, 0, 0))
        .to_vec();

    let result = project
        .result(Operation::GoToImplementation, &json!(places))
        .await;

    let marks: Vec<bool> = locations(&result)
        .iter()
        .map(|location| location.generated)
        .collect();
    assert_eq!(marks, [true, true, false, false]);
}

#[tokio::test]
async fn a_cut_answer_goes_on_where_it_was_cut() {
    let project = Project::new();
    let places: Vec<Value> = (0..5)
        .map(|column| project.place("work/p/src/bird.rs", 1, column, column + 1))
        .collect();
    let stale = project.place("work/p/src/bird.rs", 8, 0, 1);
    let mut answer = places.clone();
    answer.push(stale);
    let mut request = project.request(Operation::GoToImplementation);
    request.max_locations = Some(2);
    let mut seen = Vec::new();
    let mut pages = 0;
    let last = loop {
        let input = project.input(request.clone(), &json!(answer)).await;
        let result = project.finish(&input).await.unwrap();
        seen.extend(
            locations(&result)
                .iter()
                .map(|location| location.range.start.character),
        );
        pages += 1;
        assert_eq!(
            result.envelope().truncated,
            result.envelope().cursor.is_some()
        );
        match result.envelope().cursor.clone() {
            Some(cursor) => {
                assert_eq!(result.envelope().reason, Some(Reason::Limit));
                request.cursor = Some(cursor);
            }
            None => break result,
        }
    };
    assert_eq!((pages, seen), (3, vec![0, 1, 2, 3, 4]));
    assert_eq!(last.envelope().dropped, 1);

    // When the list has changed, the cursor no longer holds.
    for cursor in [
        request.cursor.unwrap(),
        "nonsense".into(),
        "ff.0".into(),
        String::new(),
    ] {
        let mut request = project.request(Operation::GoToImplementation);
        request.cursor = Some(cursor);
        let error = project
            .finish(&project.input(request, &json!(places)).await)
            .await
            .unwrap_err();
        assert_eq!(error.code, -32602);
        assert_eq!(error.data.unwrap().detail.unwrap()["field"], "cursor");
    }
}

#[tokio::test]
async fn hover_text_is_cleaned_and_its_range_told_in_the_callers_unit() {
    let project = Project::new();
    let mut request = project.request(Operation::Hover);
    request.columns = Some(Encoding::Utf8);
    let answer = json!({ "contents": [{ "language": "rust", "value": "fn bird()" }, null, "", "Sings. \r\n"],
                         "range": range(2, 10, 14) });

    let result = project
        .finish(&project.input(request, &answer).await)
        .await
        .unwrap();

    let QueryResult::Hover {
        hover: Some(hover),
        envelope,
        ..
    } = result
    else {
        panic!("there is a hover")
    };
    assert_eq!(hover.contents, "```rust\nfn bird()\n```\n\nSings.");
    assert_eq!(hover.range.unwrap().start, Position::new(2, 12));
    assert_eq!(
        (envelope.total, envelope.completeness),
        (1, Completeness::Complete)
    );

    for nothing in [
        json!(null),
        json!({ "contents": "" }),
        json!({ "contents": [null, null] }),
    ] {
        let result = project.result(Operation::Hover, &nothing).await;
        assert!(result.is_empty(), "{nothing}");
        assert_eq!(result.envelope().total, 0);
    }
}

#[tokio::test]
async fn a_malformed_answer_names_server_and_field() {
    let project = Project::new();
    for (operation, answer, field) in [
        (
            Operation::GoToDefinition,
            json!([{ "uri": 3 }]),
            "result[0].uri",
        ),
        (Operation::FindReferences, json!("no"), "result"),
        (
            Operation::GoToImplementation,
            json!({ "uri": "file:///a" }),
            "result.range",
        ),
        (Operation::Hover, json!({}), "result.contents"),
    ] {
        let input = project.input(project.request(operation), &answer).await;
        let error = project.finish(&input).await.unwrap_err();
        assert!(error.message.contains("rust-analyzer"), "{error}");
        let data = error.data.unwrap();
        assert_eq!(data.code, "LSP_MALFORMED_RESPONSE");
        assert_eq!(data.detail.unwrap()["field"], field);
    }
}

#[tokio::test]
async fn an_empty_answer_from_a_cold_server_is_never_passed_off_as_none() {
    let project = Project::new();
    for (readiness, indexing, expected) in [
        (Readiness::Signal, false, (Completeness::Complete, None)),
        (Readiness::Settled, false, (Completeness::Unknown, None)),
        (Readiness::NotWaited, false, (Completeness::Unknown, None)),
        (
            Readiness::Timeout,
            true,
            (Completeness::Partial, Some(Reason::Indexing)),
        ),
        (
            Readiness::Timeout,
            false,
            (Completeness::Partial, Some(Reason::Timeout)),
        ),
    ] {
        for answer in [
            json!(null),
            json!([]),
            json!([project.place("work/p/src/gone.rs", 0, 0, 1)]),
        ] {
            let mut input = project
                .input(project.request(Operation::GoToDefinition), &answer)
                .await;
            input.readiness = readiness;
            input.indexing = indexing;
            let result = project.finish(&input).await.unwrap();
            let envelope = result.envelope();
            assert_eq!(
                (envelope.completeness, envelope.reason),
                expected,
                "{readiness:?} {answer}"
            );
            assert!(result.is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_place_told_stands_in_its_text(places in prop::collection::vec((0_u32..6, 0_u32..20, 0_u32..20), 0..12)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let project = Project::new();
            let answer: Vec<Value> = places
                .iter()
                .map(|(line, start, end)| project.place("work/p/src/main.rs", *line, *start, *end))
                .collect();
            let result = project.result(Operation::GoToImplementation, &json!(answer)).await;
            let text_lines: Vec<&str> = MAIN.split('\n').collect();
            for location in locations(&result) {
                let line = text_lines[location.range.start.line as usize];
                assert_eq!(location.line.as_deref(), Some(line));
                assert!(location.range.start.character <= Encoding::Utf16.length(line));
            }
            let envelope = result.envelope();
            assert_eq!(envelope.total, locations(&result).len() as u64);
            let distinct: std::collections::BTreeSet<_> = places.iter().collect();
            assert_eq!(envelope.total + envelope.dropped, distinct.len() as u64);
        });
    }
}
