//! Which servers serve a file, and in which language.
//!
//! The language is told first, by the strongest sign: the whole file name, the longest pattern, the
//! ending, the first line of a script. Servers of that language follow in the registry's order, so that an
//! ending claimed for another language (`.h`, `.m`, `.html.erb`) never brings a server that would answer
//! about the wrong one.

use std::path::Path;
use std::sync::Arc;

use super::{Definition, Language, Registry};

/// A server that serves a file.
#[derive(Clone, Debug)]
pub struct ServerMatch {
    /// The server's definition.
    pub definition: Arc<Definition>,
    /// The identifier that its `didOpen` has for the file.
    pub language_id: String,
}

/// How strongly a language claims a file; a greater value wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    Interpreter,
    ExtensionFolded,
    Extension,
    Pattern(usize),
    FileName,
}

impl Registry {
    /// The servers for a file, best first, those without navigation included.
    ///
    /// `first_line` is the first line of its text where that is known; it is consulted only when the name says nothing.
    pub fn definitions_for(&self, path: &Path, first_line: Option<&str>) -> Vec<ServerMatch> {
        let claims: Vec<(Claim, &Arc<Definition>, &Language)> = self
            .definitions()
            .iter()
            .flat_map(|definition| {
                definition
                    .languages
                    .iter()
                    .map(move |language| (definition, language))
            })
            .filter_map(|(definition, language)| {
                claim(language, path, first_line).map(|claim| (claim, definition, language))
            })
            .collect();
        let Some(strongest) = claims.iter().map(|(claim, ..)| *claim).max() else {
            return Vec::new();
        };
        let languages: Vec<&str> = claims
            .iter()
            .filter(|(claim, ..)| *claim == strongest)
            .map(|(_, _, language)| language.id.as_str())
            .collect();
        let mut matches: Vec<ServerMatch> = Vec::new();
        for (_, definition, language) in &claims {
            let repeated = matches
                .iter()
                .any(|found| Arc::ptr_eq(&found.definition, definition));
            if languages.contains(&language.id.as_str()) && !repeated {
                matches.push(ServerMatch {
                    definition: Arc::clone(definition),
                    language_id: language.id.clone(),
                });
            }
        }
        matches
    }

    /// The definition whose server a program is, by its file name, so that the server which an editor names
    /// (`/usr/bin/clangd-19`) has the same rules as one that a query starts. A version that no definition names
    /// (`clangd-23`) counts as the program without it.
    pub fn definition_of_program(&self, program: &Path) -> Option<Arc<Definition>> {
        let name = program.file_name()?.to_string_lossy();
        let named = |name: &str| {
            let starts =
                |line: &Vec<String>| line.first().is_some_and(|first| file_name(first) == name);
            self.definitions()
                .iter()
                .find(|definition| definition.commands.iter().any(starts))
                .cloned()
        };
        named(&name).or_else(|| {
            let bare = name
                .trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
            named(bare.strip_suffix('-')?)
        })
    }

    /// The identifiers of all languages, sorted.
    pub fn languages(&self) -> Vec<&str> {
        let mut ids: Vec<&str> = self
            .definitions()
            .iter()
            .flat_map(|definition| {
                definition
                    .languages
                    .iter()
                    .map(|language| language.id.as_str())
            })
            .collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

fn file_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

fn claim(language: &Language, path: &Path, first_line: Option<&str>) -> Option<Claim> {
    let name = path.file_name()?.to_string_lossy();
    if language.file_names.iter().any(|known| *known == name) {
        return Some(Claim::FileName);
    }
    let whole = path.to_string_lossy();
    let longest = language
        .patterns
        .iter()
        .filter(|pattern| pattern.matches(&whole))
        .map(|p| p.text().len())
        .max();
    if let Some(length) = longest {
        return Some(Claim::Pattern(length));
    }
    if let Some(extension) = path
        .extension()
        .map(|extension| extension.to_string_lossy())
    {
        if language.extensions.iter().any(|known| *known == extension) {
            return Some(Claim::Extension);
        }
        if language
            .extensions
            .iter()
            .any(|known| known.eq_ignore_ascii_case(&extension))
        {
            return Some(Claim::ExtensionFolded);
        }
    }
    let program = first_line.and_then(interpreter)?;
    language
        .interpreters
        .iter()
        .any(|known| known == program)
        .then_some(Claim::Interpreter)
}

/// The program on a script's first line, without folder and version: `python` of
/// `#!/usr/bin/env -S python3.12 -u`.
fn interpreter(first_line: &str) -> Option<&str> {
    let command = first_line.strip_prefix("#!")?.trim();
    let mut words = command.split_whitespace();
    let mut program = file_name(words.next()?);
    if program == "env" {
        // `env` takes options and assignments before the program.
        program = file_name(words.find(|word| !word.starts_with('-') && !word.contains('='))?);
    }
    let bare =
        program.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
    Some(if bare.is_empty() {
        program
    } else {
        bare.trim_end_matches('-')
    })
}

#[cfg(test)]
mod tests {
    use super::interpreter;

    #[test]
    fn the_interpreter_is_named_without_folder_version_and_options() {
        assert_eq!(interpreter("#!/usr/bin/python3.12 -u"), Some("python"));
        assert_eq!(
            interpreter("#!/usr/bin/env -S PYTHONPATH=. python3"),
            Some("python")
        );
        assert_eq!(interpreter("#! /usr/local/bin/node"), Some("node"));
        assert_eq!(interpreter("#!/usr/bin/env"), None);
        assert_eq!(interpreter("import os"), None);
    }
}
