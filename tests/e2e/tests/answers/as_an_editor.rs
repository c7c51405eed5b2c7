//! The four requests as an editor sends them through `lspool -- SERVER`: it opens the file, and it asks again while
//! the answer is not there yet, because nothing tells an editor that an index is complete.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use lspool_e2e::answer_key::{Expected, Question};
use lspool_e2e::places::{Column, column_in};
use lspool_testkit::{Client, Profile};
use serde_json::Value;
use xtask::projects::Project;

use super::judge;
use super::stage::Stage;

/// How long an editor waits for a server to become ready: two cores, a cold index, and other tests beside it.
const READY_LIMIT: Duration = Duration::from_secs(90);

/// How long it waits before it asks again.
const PATIENCE: Duration = Duration::from_millis(100);

/// An editor at work: its connection, what it has open and how it counts columns.
struct Editor<'a> {
    client: Client,
    stage: &'a Stage,
    open: BTreeSet<String>,
    columns: Column,
}

impl<'a> Editor<'a> {
    /// Attaches to the stage's project.
    fn attach(stage: &'a Stage, profile: &Profile) -> Self {
        let client = stage.editor();
        let answer = client
            .initialize(profile, &stage.root)
            .expect("initialize is answered");
        let result: Value = answer.result().expect("its result is JSON");
        let encoding = result["capabilities"]["positionEncoding"]
            .as_str()
            .unwrap_or("utf-16");
        let columns =
            Column::from_encoding(encoding).unwrap_or_else(|| panic!("the encoding is {encoding}"));
        Self {
            client,
            stage,
            open: BTreeSet::new(),
            columns,
        }
    }

    /// Opens a file once.
    fn open(&mut self, file: &str) {
        if self.open.insert(file.to_owned()) {
            let text = self.stage.text(file);
            self.client
                .did_open(&self.stage.uri(file), language_of(file), 1, &text)
                .expect("the document is opened");
        }
    }

    /// Asks until the answer is right or the limit is reached; gives what is wrong with the last one.
    fn ask_until_right(&mut self, question: &Question, limit: Duration) -> Option<String> {
        self.open(&question.file);
        let end = Instant::now() + limit;
        loop {
            let fault = self.ask(question)?;
            if Instant::now() >= end {
                return Some(fault);
            }
            std::thread::park_timeout(PATIENCE);
        }
    }

    /// Asks once.
    fn ask(&self, question: &Question) -> Option<String> {
        let text = self.stage.text(&question.file);
        let character = column_in(
            &text,
            question.line,
            question.character,
            Column::Utf16,
            self.columns,
        );
        let character = character.expect("the question stands in its file");
        let uri = self.stage.uri(&question.file);
        let pending = self
            .client
            .ask_at(question.operation.method(), &uri, question.line, character)
            .expect("the request is sent");
        let answer = pending.wait().expect("an answer comes");
        match (question.expected(), answer.error_raw()) {
            (Expected::Error(_), Some(_)) => None,
            (_, Some(error)) => Some(String::from_utf8_lossy(&error).into_owned()),
            (_, None) => {
                let mut result: Value = answer.result().expect("a result is JSON");
                self.to_utf16(&mut result);
                judge::editor_result(question, &result, &self.stage.root)
            }
        }
    }

    /// Rewrites the positions of an answer from the agreed unit to UTF-16, in which the keys are.
    fn to_utf16(&self, result: &mut Value) {
        if self.columns == Column::Utf16 {
            return;
        }
        let locations = match result {
            Value::Array(items) => items.iter_mut().collect(),
            one => vec![one],
        };
        for location in locations {
            for (uri, range) in [("uri", "range"), ("targetUri", "targetSelectionRange")] {
                let Some(path) = location[uri]
                    .as_str()
                    .and_then(lspool_e2e::places::path_of_file_uri)
                else {
                    continue;
                };
                let Ok(text) = std::fs::read_to_string(&path) else {
                    continue;
                };
                for end in ["start", "end"] {
                    rewrite_column(&mut location[range][end], &text, self.columns);
                }
            }
        }
    }

    /// Leaves as an editor does that is closed.
    fn leave(self) {
        let client = &self.client;
        assert!(
            client.unbalanced().is_empty(),
            "not one answer each: {:?}",
            client.unbalanced()
        );
        client.shut_down().expect("the editor leaves");
    }
}

fn rewrite_column(position: &mut Value, text: &str, from: Column) {
    let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
    let (Some(line), Some(character)) = (number(&position["line"]), number(&position["character"]))
    else {
        return;
    };
    if let Some(column) = column_in(text, line, character, from, Column::Utf16) {
        position["character"] = column.into();
    }
}

/// The language id that an editor sends for a file.
fn language_of(file: &str) -> &'static str {
    match Path::new(file)
        .extension()
        .and_then(|extension| extension.to_str())
    {
        Some("c" | "h") => "c",
        Some("cpp" | "hpp") => "cpp",
        Some("py") => "python",
        Some("rs") => "rust",
        Some("ts") => "typescript",
        other => panic!("{file}: no language for {other:?}"),
    }
}

/// One editor on a cold daemon asks everything; then it asks again and every answer must be right at once; then a
/// second one attaches beside it and finds the server ready.
fn ask_everything(project: Project, profile: &Profile) {
    let stage = Stage::of(project);
    let mut first = Editor::attach(&stage, profile);
    let mut wrong = Vec::new();

    for question in &stage.key.questions {
        if let Some(fault) = first.ask_until_right(question, READY_LIMIT) {
            wrong.push(format!("{} (cold): {fault}", stage.name_of(question)));
        }
    }
    for question in &stage.key.questions {
        if let Some(fault) = first.ask(question) {
            wrong.push(format!("{} (warm): {fault}", stage.name_of(question)));
        }
    }
    let mut second = Editor::attach(&stage, profile);
    for question in &stage.key.questions {
        second.open(&question.file);
        if let Some(fault) = second.ask(question) {
            wrong.push(format!(
                "{} (second editor): {fault}",
                stage.name_of(question)
            ));
        }
    }

    second.leave();
    first.leave();
    stage.finish();
    judge::assert_all_right(&wrong);
}

mod vscode {
    fn ask(project: xtask::projects::Project) {
        super::ask_everything(project, &lspool_testkit::Profile::vscode());
    }

    super::super::for_every_project!(ask);
}

mod neovim {
    fn ask(project: xtask::projects::Project) {
        super::ask_everything(project, &lspool_testkit::Profile::neovim());
    }

    super::super::for_projects!(ask: c python rust lua);
}

mod eglot {
    fn ask(project: xtask::projects::Project) {
        super::ask_everything(project, &lspool_testkit::Profile::eglot());
    }

    super::super::for_projects!(ask: c python rust);
}
