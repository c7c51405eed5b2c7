//! Results as text for people.

use expect_test::{Expect, expect};
use lspool_normalize::render::{TextOptions, text_for_people};
use lspool_normalize::{
    Completeness, ContextLine, Encoding, Envelope, HoverContent, Location, Operation, Position,
    Progress, QueryResult, Range, Readiness, Reason, TextSource, TextVersion, Token, WireUri,
};

fn envelope(total: u64) -> Envelope {
    Envelope {
        servers: vec!["clangd".to_owned()],
        completeness: Completeness::Complete,
        reason: None,
        readiness: Readiness::Signal,
        progress: None,
        workspace_uri: "file:///home/me/a%20b".to_owned(),
        text: TextVersion {
            source: TextSource::Disk,
            version: "1".to_owned(),
        },
        total,
        truncated: false,
        cursor: None,
        dropped: 0,
        waited_ms: 0,
        notes: Vec::new(),
    }
}

fn location(path: &str, line: u32, character: u32, text: &str) -> Location {
    let start = Position::new(line, character);
    Location {
        uri: WireUri::new(format!("file://{path}")),
        range: Range::new(start, start),
        full_range: None,
        path: path.to_owned(),
        in_workspace: true,
        declaration: false,
        generated: false,
        line: Some(text.to_owned()),
        context: None,
        version: None,
    }
}

fn token(text: &str) -> Token {
    Token {
        text: text.to_owned(),
        range: Range::default(),
    }
}

fn check(result: &QueryResult, operation: Operation, expected: &Expect) {
    let columns = Encoding::Utf16;
    expected.assert_eq(&text_for_people(result, TextOptions { operation, columns }));
}

#[test]
fn references_are_grouped_by_file_and_counted_from_one() {
    let mut declaration = location(
        "/home/me/a b/src/main.c",
        3,
        4,
        "int greet(const char *name);",
    );
    declaration.declaration = true;
    let mut generated = location("/home/me/a b/out/gen.c", 0, 0, "greet(\"x\");");
    generated.generated = true;
    let mut unreadable = location("/usr/include/greet.h", 11, 8, "");
    unreadable.line = None;
    let result = QueryResult::Locations {
        locations: vec![
            declaration,
            location("/home/me/a b/src/main.c", 99, 11, "\treturn greet(\"x\");"),
            generated,
            unreadable,
        ],
        token: Some(token("greet")),
        envelope: envelope(4),
    };
    check(
        &result,
        Operation::FindReferences,
        &expect![[r#"
            4 references of `greet`

            src/main.c
              4:5     int greet(const char *name);  [declaration]
              100:12  	return greet("x");

            out/gen.c
              1:1  greet("x");  [generated]

            /usr/include/greet.h
              12:9
        "#]],
    );
}

#[test]
fn context_lines_stand_around_the_place() {
    let with_context = |line: u32| {
        let mut location = location("/home/me/a b/x.c", line, 2, "  call();");
        location.context = Some(vec![
            ContextLine {
                line: line - 1,
                text: "void f() {".to_owned(),
            },
            ContextLine {
                line: line + 1,
                text: String::new(),
            },
        ]);
        location
    };
    let result = QueryResult::Locations {
        locations: vec![with_context(1), with_context(9)],
        token: None,
        envelope: envelope(2),
    };
    check(
        &result,
        Operation::GoToImplementation,
        &expect![[r"
            2 implementations

            x.c
              1     void f() {
              2:3     call();
              3
              --
              9     void f() {
              10:3    call();
              11
        "]],
    );
}

#[test]
fn a_cut_and_partial_list_says_so() {
    let mut envelope = envelope(14);
    envelope.truncated = true;
    envelope.completeness = Completeness::Partial;
    envelope.reason = Some(Reason::Indexing);
    envelope.readiness = Readiness::Timeout;
    envelope.progress = Some(Progress {
        message: Some("crates\n3/9".to_owned()),
        percent: Some(45),
    });
    envelope.dropped = 2;
    envelope.notes = vec!["asked again 3 times".to_owned()];
    let result = QueryResult::Locations {
        locations: vec![location("/home/me/a b/x.c", 0, 0, "x")],
        token: Some(token("x")),
        envelope,
    };
    check(
        &result,
        Operation::GoToDefinition,
        &expect![[r"
            14 definitions of `x`

            x.c
              1:1  x

            … 13 more

            partial: the server is still indexing (crates 3/9, 45%); ask again for the rest
            2 places no longer stand, because their files changed, and were left out
            note: asked again 3 times
        "]],
    );
}

#[test]
fn nothing_found_is_said_with_how_sure_it_is() {
    let mut envelope = envelope(0);
    envelope.completeness = Completeness::Unknown;
    envelope.readiness = Readiness::Settled;
    let result = QueryResult::Locations {
        locations: Vec::new(),
        token: Some(token("x")),
        envelope,
    };
    check(
        &result,
        Operation::FindReferences,
        &expect![[r"
            no reference of `x`

            completeness unknown: the server gives no sign of when its index is complete
        "]],
    );
}

#[test]
fn hover_text_stands_as_it_is() {
    let result = QueryResult::Hover {
        hover: Some(HoverContent {
            contents: "```c\nint x;\n```\n\na word".to_owned(),
            range: None,
        }),
        token: Some(token("x")),
        envelope: envelope(1),
    };
    check(
        &result,
        Operation::Hover,
        &expect![[r"
            ```c
            int x;
            ```

            a word
        "]],
    );
    let result = QueryResult::Hover {
        hover: None,
        token: Some(token("x")),
        envelope: envelope(0),
    };
    check(
        &result,
        Operation::Hover,
        &expect![[r"
            no hover of `x`
        "]],
    );
}

#[test]
fn no_file_steers_a_terminal() {
    let result = QueryResult::Locations {
        locations: vec![location(
            "/home/me/a b/x\u{1b}[2J.c",
            0,
            0,
            "a\u{1b}[31mred\u{7}",
        )],
        token: Some(token("a\u{1b}")),
        envelope: envelope(1),
    };
    let text = text_for_people(
        &result,
        TextOptions {
            operation: Operation::GoToDefinition,
            columns: Encoding::Utf16,
        },
    );
    assert!(text.contains("a\u{fffd}[31mred\u{fffd}"), "{text}");
    assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'));
}

#[test]
fn a_long_line_is_shown_around_its_place() {
    let line = format!("{}needle{}", "é".repeat(1000), "x".repeat(1000));
    let result = QueryResult::Locations {
        locations: vec![location("/home/me/a b/min.js", 0, 1000, &line)],
        token: None,
        envelope: envelope(1),
    };
    let text = text_for_people(
        &result,
        TextOptions {
            operation: Operation::GoToDefinition,
            columns: Encoding::Utf16,
        },
    );
    let shown = text.lines().find(|line| line.contains("needle")).unwrap();
    assert!(shown.contains("…é") && shown.ends_with("x…"), "{shown}");
    assert!(shown.chars().count() < 260);
}
