//! Whether an answer is right: exactly the places of the key, or a text that holds what it must.

use std::path::Path;

use lspool_e2e::answer_key::{Expected, Question};
use lspool_e2e::places::{Place, difference, places_of_result};
use serde_json::Value;

/// What is wrong with a result of `lspool/query`, which also has to say that it is complete.
pub(super) fn query_result(question: &Question, result: &Value, root: &Path) -> Option<String> {
    let envelope = &result["envelope"];
    if envelope["completeness"] != "complete" {
        return Some(format!("it is not complete: {envelope}"));
    }
    match question.expected() {
        Expected::Places(expected) => match places_of_result(&result["locations"], root) {
            Some(found) => {
                difference(&expected, &found).or_else(|| wrong_marks(question, result, &found))
            }
            None => Some(format!("it holds something that is no place: {result}")),
        },
        Expected::Texts(texts) => missing_texts(texts, &result["hover"]),
        Expected::Error(code) => Some(format!("it must be the error {code}: {result}")),
    }
}

/// What is wrong with a result of a request that an editor sent.
pub(super) fn editor_result(question: &Question, result: &Value, root: &Path) -> Option<String> {
    match question.expected() {
        Expected::Places(expected) => match places_of_result(result, root) {
            Some(found) => difference(&expected, &found),
            None => Some(format!("it holds something that is no place: {result}")),
        },
        Expected::Texts(texts) => missing_texts(texts, &result["contents"]),
        Expected::Error(code) => Some(format!("it must be the error {code}: {result}")),
    }
}

/// What the members beside the places say wrongly: the token, the number, and each place's own line.
fn wrong_marks(question: &Question, result: &Value, found: &[Place]) -> Option<String> {
    let locations = result["locations"].as_array()?;
    if result["token"]["text"] != question.symbol.as_str() {
        return Some(format!("the token is {}", result["token"]));
    }
    if result["envelope"]["total"] != found.len() {
        return Some(format!(
            "the total is {} of {}",
            result["envelope"]["total"],
            found.len()
        ));
    }
    let without_line = locations
        .iter()
        .find(|location| location["line"].as_str().is_none_or(str::is_empty));
    without_line.map(|location| format!("a place has no line: {location}"))
}

/// The texts that a hover lacks.
fn missing_texts(expected: &[String], hover: &Value) -> Option<String> {
    let mut text = String::new();
    collect_text(hover, &mut text);
    let missing: Vec<&str> = expected
        .iter()
        .map(String::as_str)
        .filter(|expected| !text.contains(expected))
        .collect();
    (!missing.is_empty()).then(|| format!("it lacks {missing:?}: {text}"))
}

/// All strings of a value, one a line.
fn collect_text(value: &Value, text: &mut String) {
    match value {
        Value::String(part) => {
            text.push_str(part);
            text.push('\n');
        }
        Value::Array(items) => items.iter().for_each(|item| collect_text(item, text)),
        Value::Object(members) => members
            .values()
            .for_each(|member| collect_text(member, text)),
        _ => {}
    }
}

/// Fails with one paragraph for each wrong answer.
pub(super) fn assert_all_right(wrong: &[String]) {
    assert!(
        wrong.is_empty(),
        "{} wrong answers\n{}",
        wrong.len(),
        wrong.join("\n\n")
    );
}
