//! Words and paths that do not belong in the repository, and the length of its files.

use lspool_e2e::source::files_below;

use super::{assert_none, offence};

/// A Rust file longer than this is two files.
const LONGEST_FILE_LINES: usize = 800;

/// What no text of the repository holds, in parts so that this file does not hold it either: folders of the machine
/// that it was written on, and the hosts of package registries (a person's own client knows which it uses).
const FORBIDDEN: [[&str; 2]; 10] = [
    ["/wo", "rk/main"],
    ["/wo", "rk/shared"],
    ["/ro", "ot/"],
    ["/far", "m/"],
    [".lib", "rary"],
    ["crates", ".io/"],
    ["pypi", ".org"],
    ["pythonhosted", ".org"],
    ["registry.npm", "js"],
    ["deb.deb", "ian"],
];

/// Whether the text holds the word, and as the begin of a path where it begins with a slash.
fn names(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !word.starts_with('/')
            || !before.is_some_and(|before| before.is_alphanumeric() || "._-}".contains(before))
    })
}

/// Written by Cargo, which names its registry in it.
const GENERATED: &str = "Cargo.lock";

/// Whether the text names an issue by its number. The protocol's own texts are cited by name.
fn names_an_issue(line: &str) -> bool {
    let lower = line.to_lowercase();
    lower.match_indices("issue").any(|(at, word)| {
        let after = lower[at + word.len()..].trim_start_matches([' ', '#']);
        after.starts_with(|character: char| character.is_ascii_digit())
    })
}

#[test]
fn no_text_names_a_machine_a_registry_or_an_issue() {
    let mut offences = Vec::new();
    for file in files_below(&xtask::paths::repository()).expect("the repository is listed") {
        let is_generated = file.file_name().is_some_and(|name| name == GENERATED);
        let Ok(text) = std::fs::read_to_string(&file) else {
            continue;
        };
        for (number, line) in text.lines().enumerate().filter(|_| !is_generated) {
            for word in FORBIDDEN.map(|parts| parts.concat()) {
                if names(line, &word) {
                    offences.push(offence(&file, number + 1, &word));
                }
            }
            if names_an_issue(line) {
                offences.push(offence(&file, number + 1, "the number of an issue"));
            }
        }
    }
    assert_none(&offences, "the project speaks of the project alone");
}

#[test]
fn a_folder_is_recognised_where_a_path_begins() {
    assert!(names("cd /top/x", "/top/"));
    assert!(names("\"file:///top/x\"", "/top/"));
    assert!(!names("../top/x {base}/top/x a/top/x", "/top/"));
}

#[test]
fn an_issue_by_its_number_is_recognised() {
    let number = 12;
    assert!(names_an_issue(&format!("see issue {number}")));
    assert!(names_an_issue(&format!("fixes Issue #{number}")));
    assert!(!names_an_issue("an issue of the protocol"));
}

#[test]
fn no_source_is_too_long_to_have_one_purpose() {
    let mut offences = Vec::new();
    let mut longest = (0, String::new());
    for file in files_below(&xtask::paths::repository()).expect("the repository is listed") {
        if file.extension().is_some_and(|extension| extension == "rs") {
            let lines = std::fs::read_to_string(&file)
                .expect("a source is readable text")
                .lines()
                .count();
            let named = offence(&file, lines, "lines");
            if lines > LONGEST_FILE_LINES {
                offences.push(named.clone());
            }
            longest = longest.max((lines, named));
        }
    }
    println!("the longest source is {}", longest.1);
    assert_none(&offences, "a file has one reason to exist");
}
