//! `lspool query … --json`, as a person or a script asks.

use lspool_e2e::answer_key::{AnswerKey, Expected, Question};
use xtask::projects::Project;

use super::judge;
use super::stage::{Finished, Stage};

/// The exit code of a query that has no complete answer, an operation that the server does not offer among them.
const INCOMPLETE: i32 = 3;

fn ask(stage: &Stage, question: &Question) -> Finished {
    stage.run([
        "query",
        question.operation.command(),
        &question.one_based(),
        "--json",
    ])
}

/// What is wrong with what a query printed and ended with.
fn fault(stage: &Stage, question: &Question, finished: &Finished) -> Option<String> {
    let said = format!(
        "exit code {:?}\n{}{}",
        finished.code, finished.stderr, finished.stdout
    );
    if let Expected::Error(_) = question.expected() {
        let is_told = finished.code == Some(INCOMPLETE)
            && !finished.stderr.is_empty()
            && finished.stdout.is_empty();
        return (!is_told).then_some(said);
    }
    let Ok(result) = serde_json::from_str(&finished.stdout) else {
        return Some(said);
    };
    if finished.code != Some(0) {
        return Some(said);
    }
    judge::query_result(question, &result, &stage.root)
}

/// Each question is the first one to a daemon of its own, with no index on the disk.
fn cold(project: Project) {
    let key = AnswerKey::load(project).expect("the answer key is read");
    let mut wrong = Vec::new();
    for question in &key.questions {
        let stage = Stage::of(project);

        let finished = ask(&stage, question);

        if let Some(fault) = fault(&stage, question, &finished) {
            wrong.push(format!("{}: {fault}", stage.name_of(question)));
        }
        stage.finish();
    }
    judge::assert_all_right(&wrong);
}

/// All questions to one daemon, twice: what the second round answers must not differ.
fn warm(project: Project) {
    let stage = Stage::of(project);
    let mut wrong = Vec::new();
    for round in ["first", "second"] {
        for question in &stage.key.questions {
            let finished = ask(&stage, question);

            if let Some(fault) = fault(&stage, question, &finished) {
                wrong.push(format!(
                    "{} ({round} round): {fault}",
                    stage.name_of(question)
                ));
            }
        }
    }
    stage.finish();
    judge::assert_all_right(&wrong);
}

mod cold_daemon {
    super::super::for_every_project!(super::cold);
}

mod warm_daemon {
    super::super::for_every_project!(super::warm);
}
