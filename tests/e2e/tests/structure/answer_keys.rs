//! The answer keys fit the sources that they are about; a key that drifted would test nothing.

use lspool_e2e::answer_key::{AnswerKey, Expected, Question};
use lspool_e2e::places::Place;
use xtask::corpora::Corpus;
use xtask::projects::Project;

const PROJECTS: [Project; 6] = [
    Project::C,
    Project::Python,
    Project::Rust,
    Project::Typescript,
    Project::Corpus(Corpus::Lua),
    Project::Corpus(Corpus::Flask),
];

/// The part of a line between two columns in UTF-16 code units.
fn utf16_slice(line: &str, start: u32, end: u32) -> String {
    let units: Vec<u16> = line.encode_utf16().collect();
    String::from_utf16_lossy(units.get(start as usize..end as usize).unwrap_or_default())
}

fn line_of(project: Project, file: &str, line: u32) -> String {
    let path = project.sources().join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|failure| {
        panic!(
            "{}: {failure}; `cargo xtask setup` fetches code bases",
            path.display()
        )
    });
    text.lines()
        .nth(line as usize)
        .unwrap_or_default()
        .to_owned()
}

fn assert_question_stands(project: Project, question: &Question) {
    let line = line_of(project, &question.file, question.line);
    let width =
        u32::try_from(question.symbol.encode_utf16().count()).expect("an identifier is short");
    assert_eq!(
        line.trim(),
        question.line_text,
        "{} {}",
        project.name(),
        question.id
    );
    assert_eq!(
        utf16_slice(&line, question.character, question.character + width),
        question.symbol,
        "{} {}",
        project.name(),
        question.id
    );
}

fn assert_place_is_an_identifier(project: Project, question: &Question, place: &Place) {
    assert_eq!(
        place.start[0],
        place.end[0],
        "{} {}: a name is on one line",
        project.name(),
        question.id
    );
    let name = utf16_slice(
        &line_of(project, &place.file, place.start[0]),
        place.start[1],
        place.end[1],
    );
    let is_identifier = !name.is_empty()
        && name
            .chars()
            .all(|character| character.is_alphanumeric() || character == '_');
    assert!(
        is_identifier,
        "{} {}: {place:?} is {name:?}",
        project.name(),
        question.id
    );
}

#[test]
fn every_key_stands_in_its_sources() {
    for project in PROJECTS {
        let key = AnswerKey::load(project).expect("the key is read");
        for question in &key.questions {
            assert_question_stands(project, question);
            if let Expected::Places(places) = question.expected() {
                for place in places {
                    assert_place_is_an_identifier(project, question, place);
                }
            }
        }
    }
}

#[test]
fn the_fixtures_ask_all_four_operations_and_behind_characters_of_two_units() {
    for project in [
        Project::C,
        Project::Python,
        Project::Rust,
        Project::Typescript,
    ] {
        let key = AnswerKey::load(project).expect("the key is read");
        let operations: std::collections::BTreeSet<&str> = key
            .questions
            .iter()
            .map(|question| question.operation.command())
            .collect();
        assert_eq!(operations.len(), 4, "{}: {operations:?}", project.name());
        let behind_a_pair = key.questions.iter().any(|question| {
            let line = line_of(project, &question.file, question.line);
            let before = utf16_slice(&line, 0, question.character);
            before.chars().any(|character| character.len_utf16() == 2)
        });
        assert!(
            behind_a_pair,
            "{} asks nothing behind a surrogate pair",
            project.name()
        );
    }
}
