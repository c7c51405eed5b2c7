//! What must be true of the repository itself, whatever the program does.

mod answer_keys;
mod arrows;
mod exemptions;
mod purity;
mod wording;

use std::path::{Path, PathBuf};

use lspool_e2e::source;

/// One place that breaks a rule, as a test shows it.
fn offence(file: &Path, line: usize, what: &str) -> String {
    let root = xtask::paths::repository();
    format!(
        "{}:{line}: {what}",
        file.strip_prefix(&root).unwrap_or(file).display()
    )
}

/// The Rust files of a folder of the repository. There must be some: a rule about no files would hold for nothing.
fn rust_files_of(folder: &str) -> Vec<(PathBuf, String)> {
    let files = source::rust_files_below(&xtask::paths::repository().join(folder))
        .expect("the folder is listed");
    assert!(!files.is_empty(), "{folder} has no Rust file");
    files
        .into_iter()
        .map(|file| {
            let text = std::fs::read_to_string(&file).expect("a source is readable text");
            (file, text)
        })
        .collect()
}

/// The Rust files of a folder that are part of the product. What only tests are built from is left out: folders and
/// files of that name, modules that are declared for tests, and the test module at the end of a file.
fn product_files_of(folder: &str) -> Vec<(PathBuf, String)> {
    let mut files = rust_files_of(folder);
    let for_tests: Vec<PathBuf> = files
        .iter()
        .flat_map(|(file, text)| source::modules_for_tests(file, text))
        .collect();
    files.retain(|(file, _)| {
        let mut ancestors = file.ancestors();
        !ancestors
            .any(|path| path.ends_with("tests") || for_tests.iter().any(|module| module == path))
            && !file.ends_with("tests.rs")
    });
    for (_, text) in &mut files {
        *text = source::without_test_module(text).to_owned();
    }
    files
}

/// The offences of every file against a list of word sequences that may not occur.
fn occurrences(files: &[(PathBuf, String)], sequences: &[&[&str]]) -> Vec<String> {
    let mut found = Vec::new();
    for (file, text) in files {
        let words = source::words(text);
        for sequence in sequences {
            for line in source::lines_with(&words, sequence) {
                found.push(offence(file, line, &sequence.concat()));
            }
        }
    }
    found
}

/// Fails with one line for each offence.
fn assert_none(offences: &[String], rule: &str) {
    assert!(offences.is_empty(), "{rule}:\n{}", offences.join("\n"));
}
