//! The repository's files, for the tests that hold its structure.
//!
//! Rust sources are read as words: comments and the contents of strings do not count, so that a comment may say
//! what the code does not use.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Every regular file below a folder, in order of its path; build output and hidden caches are left out.
///
/// # Errors
/// When a folder cannot be listed.
pub fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(listed) = waiting.pop() {
        for entry in
            fs::read_dir(&listed).with_context(|| format!("cannot list {}", listed.display()))?
        {
            let entry = entry?;
            let kind = entry.file_type()?;
            let name = entry.file_name();
            // A second working tree has a file of that name where the first has a folder.
            if name == ".git" {
                continue;
            }
            if kind.is_dir() && name != "target" && name != ".cache" {
                waiting.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Every Rust file below a folder, in order of its path.
///
/// # Errors
/// When a folder cannot be listed.
pub fn rust_files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = files_below(folder)?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "rs"));
    Ok(files)
}

/// The words of a Rust source with their lines (one-based): identifiers, keywords, and `::`; nothing of comments,
/// strings, numbers' suffixes or lifetimes.
pub fn words(source: &str) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    let mut scanner = Scanner {
        rest: source,
        line: 1,
    };
    while let Some(first) = scanner.rest.chars().next() {
        if scanner.rest.starts_with("//") {
            scanner.skip_to_line_end();
        } else if scanner.rest.starts_with("/*") {
            scanner.skip_block_comment();
        } else if let Some(hashes) = raw_string_hashes(scanner.rest) {
            scanner.skip_raw_string(hashes);
        } else if first == '"' {
            scanner.skip_string();
        } else if first == '\'' {
            scanner.skip_character_or_lifetime();
        } else if scanner.rest.starts_with("::") {
            words.push((scanner.line, "::".to_owned()));
            scanner.advance(2);
        } else if first.is_alphanumeric() || first == '_' {
            let length = word_length(scanner.rest);
            let word = &scanner.rest[..length];
            if !first.is_ascii_digit() && !is_string_prefix(word, &scanner.rest[length..]) {
                words.push((scanner.line, word.to_owned()));
            }
            scanner.advance(length);
        } else {
            scanner.advance(first.len_utf8());
        }
    }
    words
}

/// The source before its own test module, by the convention that `#[cfg(test)] mod tests` comes last in a file.
pub fn without_test_module(source: &str) -> &str {
    let end = source
        .match_indices("\n#[cfg(test)]\nmod ")
        .next()
        .map_or(source.len(), |(at, _)| at);
    &source[..end]
}

/// The files and folders of the modules that a source declares for tests alone (`#[cfg(test)] mod name;`).
///
/// Both places that a module may have are given; usually one of them exists.
pub fn modules_for_tests(file: &Path, source: &str) -> Vec<PathBuf> {
    let is_root = file
        .file_name()
        .is_some_and(|name| name == "mod.rs" || name == "lib.rs" || name == "main.rs");
    let folder = if is_root {
        file.with_file_name("")
    } else {
        file.with_extension("")
    };
    let declared = source.split("#[cfg(test)]").skip(1).filter_map(|after| {
        let declaration = after
            .trim_start()
            .trim_start_matches("pub(crate) ")
            .trim_start_matches("pub(super) ");
        let name = declaration.strip_prefix("mod ")?;
        let end = name.find(|character: char| !character.is_alphanumeric() && character != '_')?;
        name[end..].starts_with(';').then(|| &name[..end])
    });
    declared
        .flat_map(|name| [folder.join(name), folder.join(format!("{name}.rs"))])
        .collect()
}

/// The one-based lines on which a word, or several in a row, occur among the [`words`] of a source.
pub fn lines_with(words: &[(usize, String)], sequence: &[&str]) -> Vec<usize> {
    words
        .windows(sequence.len())
        .filter(|window| {
            window
                .iter()
                .zip(sequence)
                .all(|((_, word), want)| word == want)
        })
        .map(|window| window[0].0)
        .collect()
}

/// What is left to read of a source.
struct Scanner<'a> {
    rest: &'a str,
    line: usize,
}

impl Scanner<'_> {
    fn advance(&mut self, bytes: usize) {
        let (passed, rest) = self.rest.split_at(bytes.min(self.rest.len()));
        self.line += passed.matches('\n').count();
        self.rest = rest;
    }

    fn skip_to_line_end(&mut self) {
        self.advance(self.rest.find('\n').unwrap_or(self.rest.len()));
    }

    fn skip_block_comment(&mut self) {
        let mut depth = 0_u32;
        loop {
            if self.rest.starts_with("/*") {
                depth += 1;
                self.advance(2);
            } else if self.rest.starts_with("*/") {
                depth -= 1;
                self.advance(2);
                if depth == 0 {
                    return;
                }
            } else if let Some(character) = self.rest.chars().next() {
                self.advance(character.len_utf8());
            } else {
                return;
            }
        }
    }

    fn skip_raw_string(&mut self, hashes: usize) {
        let opening = self.rest.find('"').map_or(self.rest.len(), |at| at + 1);
        self.advance(opening);
        let closing = format!("\"{}", "#".repeat(hashes));
        self.advance(
            self.rest
                .find(&closing)
                .map_or(self.rest.len(), |at| at + closing.len()),
        );
    }

    fn skip_string(&mut self) {
        self.advance(1);
        while let Some(character) = self.rest.chars().next() {
            match character {
                '\\' => {
                    self.advance(1);
                    let escaped = self.rest.chars().next().map_or(0, char::len_utf8);
                    self.advance(escaped);
                }
                '"' => return self.advance(1),
                other => self.advance(other.len_utf8()),
            }
        }
    }

    /// A character ends with a quote after one character or an escape; anything else is a lifetime or a label.
    fn skip_character_or_lifetime(&mut self) {
        self.advance(1);
        if self.rest.starts_with('\\') {
            self.advance(2);
            self.advance(self.rest.find('\'').map_or(self.rest.len(), |at| at + 1));
            return;
        }
        let mut characters = self.rest.chars();
        let first = characters.next().map_or(0, char::len_utf8);
        if characters.next() == Some('\'') {
            self.advance(first + 1);
        } else {
            self.advance(word_length(self.rest));
        }
    }
}

/// The bytes of the word that the text begins with.
fn word_length(text: &str) -> usize {
    text.find(|character: char| !character.is_alphanumeric() && character != '_')
        .unwrap_or(text.len())
}

/// Whether the word is the prefix of the string or character that follows, as in `b"…"`.
fn is_string_prefix(word: &str, rest: &str) -> bool {
    matches!(word, "b" | "c") && (rest.starts_with('"') || (word == "b" && rest.starts_with('\'')))
}

/// The number of `#` of the raw string that the text begins with.
fn raw_string_hashes(text: &str) -> Option<usize> {
    let after = ["r", "br", "cr"]
        .iter()
        .find_map(|prefix| text.strip_prefix(prefix))?;
    let unhashed = after.trim_start_matches('#');
    unhashed
        .starts_with('"')
        .then(|| after.len() - unhashed.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(source: &str) -> String {
        words(source)
            .into_iter()
            .map(|(_, word)| word)
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn comments_strings_and_characters_have_no_words() {
        let source = r##"
            // tokio
            /* a /* tokio */ tokio */ fn f<'a>(x: &'a str) -> char {
                let s = "tokio \" tokio"; let r = r#"tokio " tokio"#; let b = b"tokio"; let t = br"tokio";
                let c = 'x'; let q = '\''; let e = '\u{1f642}'; 'outer: loop { break 'outer } }
        "##;
        assert_eq!(
            text_of(source),
            "fn f x str char let s let r let b let t let c let q let e loop break"
        );
    }

    #[test]
    fn a_sequence_is_found_on_its_line_whatever_stands_between() {
        let source =
            "fn f() {\n    std::time::Instant /* here */ :: now();\n    Instant::elsewhere();\n}\n";
        let words = words(source);
        assert_eq!(lines_with(&words, &["Instant", "::", "now"]), [2]);
        assert_eq!(lines_with(&words, &["Instant"]), [2, 3]);
        assert_eq!(lines_with(&words, &["SystemTime"]), [] as [usize; 0]);
    }

    #[test]
    fn modules_that_are_declared_for_tests_are_known_by_their_files() {
        let source =
            "mod a;\n#[cfg(test)]\npub(crate) mod rig;\n#[cfg(test)]\nmod tests { fn f() {} }\n";
        let expected = ["/p/edge/rig", "/p/edge/rig.rs"].map(PathBuf::from);
        assert_eq!(
            modules_for_tests(Path::new("/p/edge/mod.rs"), source),
            expected
        );
        assert_eq!(modules_for_tests(Path::new("/p/edge.rs"), source), expected);
    }

    #[test]
    fn the_test_module_is_cut_off() {
        let source = "fn product() {}\n\n#[cfg(test)]\nmod tests { fn helper() {} }\n";
        assert_eq!(text_of(without_test_module(source)), "fn product");
    }
}
