//! `lspool/query` on `lspool connect`, as an agent harness asks.

use lspool_e2e::answer_key::{AnswerKey, Expected, Operation, Question};
use lspool_testkit::{Answer, Client, Profile};
use serde_json::{Value, json};
use xtask::projects::Project;

use super::judge;
use super::stage::Stage;

fn ask(agent: &Client, question: &Question) -> Answer {
    let params = json!({
        "operation": question.operation.query_name(),
        "file": question.file,
        "position": { "line": question.line, "character": question.character },
        "token": question.symbol,
    });
    agent
        .request("lspool/query", params)
        .expect("the request is sent")
        .wait()
        .expect("an answer comes")
}

/// What is wrong with the answer to a query.
fn fault(stage: &Stage, question: &Question, answer: &Answer) -> Option<String> {
    let error: Option<Value> = answer
        .error_raw()
        .map(|raw| serde_json::from_slice(&raw).expect("an error is JSON"));
    match (question.expected(), error) {
        (Expected::Error(code), Some(error)) if error["data"]["code"] == code => None,
        (_, Some(error)) => Some(error.to_string()),
        (_, None) => {
            let result: Value = answer.result().expect("a result is JSON");
            if result["envelope"]["workspaceUri"] != stage.uri("").trim_end_matches('/') {
                return Some(format!("another workspace: {}", result["envelope"]));
            }
            judge::query_result(question, &result, &stage.root)
        }
    }
}

/// Each question that only an index can answer is the first one to a daemon of its own.
fn cold(project: Project) {
    let key = AnswerKey::load(project).expect("the answer key is read");
    let needs_an_index = |question: &&Question| {
        matches!(
            question.operation,
            Operation::References | Operation::Implementation
        )
    };
    let mut wrong = Vec::new();
    for question in key.questions.iter().filter(needs_an_index) {
        let stage = Stage::of(project);
        let agent = stage.agent();
        agent
            .initialize(&Profile::bare(), &stage.root)
            .expect("initialize is answered");

        let answer = ask(&agent, question);

        if let Some(fault) = fault(&stage, question, &answer) {
            wrong.push(format!("{}: {fault}", stage.name_of(question)));
        }
        agent.shut_down().expect("the agent leaves");
        stage.finish();
    }
    judge::assert_all_right(&wrong);
}

/// All questions on one connection: one after the other, then all at once.
fn warm(project: Project) {
    let stage = Stage::of(project);
    let agent = stage.agent();
    agent
        .initialize(&Profile::bare(), &stage.root)
        .expect("initialize is answered");
    let mut wrong = Vec::new();

    for question in &stage.key.questions {
        let answer = ask(&agent, question);
        if let Some(fault) = fault(&stage, question, &answer) {
            wrong.push(format!("{}: {fault}", stage.name_of(question)));
        }
    }
    std::thread::scope(|scope| {
        let together: Vec<_> = stage
            .key
            .questions
            .iter()
            .map(|question| (question, scope.spawn(|| ask(&agent, question))))
            .collect();
        for (question, asked) in together {
            let answer = asked.join().expect("the question was asked");
            if let Some(fault) = fault(&stage, question, &answer) {
                wrong.push(format!(
                    "{} (with all others): {fault}",
                    stage.name_of(question)
                ));
            }
        }
    });

    assert!(
        agent.unbalanced().is_empty(),
        "not one answer each: {:?}",
        agent.unbalanced()
    );
    agent.shut_down().expect("the agent leaves");
    stage.finish();
    judge::assert_all_right(&wrong);
}

mod cold_daemon {
    super::super::for_every_project!(super::cold);
}

mod warm_daemon {
    super::super::for_every_project!(super::warm);
}
