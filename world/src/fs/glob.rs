//! The globs of a watch. Owns their syntax, which is that of the Language Server Protocol (`GlobPattern`), and the rule
//! that no wildcard crosses a separator except `**`.
//!
//! A glob becomes a regular expression, whose matching takes linear time whatever the glob. (The `globset` crate matches
//! bytes: its `?` is not one character of a name that is not ASCII, and neither is its `[é]`.) A name that is not UTF-8
//! is matched too: each byte that belongs to no character counts as one.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::iter::Peekable;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::str::Chars;

use regex::Regex;

/// The first of 256 code points that stand for bytes that belong to no character. They are the last of the private ones.
const STRAY_BYTES: u32 = 0x10_FE00;

/// A glob that can be matched.
#[derive(Clone, Debug)]
pub(super) struct Glob {
    pattern: Regex,
    named: BTreeSet<String>,
}

impl Glob {
    /// Reads a glob. An error is the reason why it cannot be used.
    pub(super) fn new(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("it is empty".to_owned());
        }
        if text.starts_with('/') {
            return Err("it is absolute, and globs begin at the watched folder".to_owned());
        }
        let mut translation = Translation::new(text);
        translation.run()?;
        let pattern = Regex::new(&translation.pattern).map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => "it is too long".to_owned(),
            other => other.to_string(),
        })?;
        Ok(Self {
            pattern,
            named: translation.named,
        })
    }

    /// Whether the glob matches a path, given by [`readable`].
    pub(super) fn matches(&self, readable: &str) -> bool {
        self.pattern.is_match(readable)
    }

    /// Whether a whole component of the glob is this name, without a wildcard. A part next to a brace counts as whole.
    pub(super) fn names(&self, component: &str) -> bool {
        self.named.contains(component)
    }
}

/// The path as a text in which each byte that belongs to no character is one code point of its own.
pub(super) fn readable(path: &Path) -> Cow<'_, str> {
    let bytes = path.as_os_str().as_bytes();
    if let Ok(text) = str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        let stray = chunk.invalid().iter();
        text.extend(stray.filter_map(|byte| char::from_u32(STRAY_BYTES + u32::from(*byte))));
    }
    Cow::Owned(text)
}

/// A glob on its way to a regular expression.
struct Translation<'glob> {
    rest: Peekable<Chars<'glob>>,
    pattern: String,
    /// For each open brace, whether a component may begin where it stands.
    open: Vec<bool>,
    /// The component so far, while it is literal.
    component: Option<String>,
    /// Whether a component may begin here.
    at_boundary: bool,
    named: BTreeSet<String>,
}

impl<'glob> Translation<'glob> {
    fn new(glob: &'glob str) -> Self {
        Self {
            rest: glob.chars().peekable(),
            pattern: "(?s)^(?:".to_owned(),
            open: Vec::new(),
            component: Some(String::new()),
            at_boundary: true,
            named: BTreeSet::new(),
        }
    }

    fn run(&mut self) -> Result<(), String> {
        while let Some(next) = self.rest.next() {
            match next {
                '*' => self.star(),
                '?' => self.wildcard("[^/]"),
                '[' => self.class()?,
                '/' => self.boundary("/", true),
                '{' => {
                    self.open.push(self.at_boundary);
                    self.boundary("(?:", self.at_boundary);
                }
                '}' if self.open.pop().is_some() => self.boundary(")", false),
                '}' => return Err("a brace is closed that was not opened".to_owned()),
                ',' => match self.open.last() {
                    Some(&at_boundary) => self.boundary("|", at_boundary),
                    None => self.literal(','),
                },
                literal => self.literal(literal),
            }
        }
        if !self.open.is_empty() {
            return Err("a brace is not closed".to_owned());
        }
        self.boundary(")$", true);
        Ok(())
    }

    /// The end of a literal run, after which a component may begin or goes on.
    fn boundary(&mut self, pattern: &str, at_boundary: bool) {
        if let Some(component) = self.component.replace(String::new())
            && !component.is_empty()
        {
            self.named.insert(component);
        }
        self.pattern.push_str(pattern);
        self.at_boundary = at_boundary;
    }

    fn wildcard(&mut self, pattern: &str) {
        self.component = None;
        self.at_boundary = false;
        self.pattern.push_str(pattern);
    }

    fn literal(&mut self, literal: char) {
        if let Some(component) = &mut self.component {
            component.push(literal);
        }
        self.at_boundary = false;
        self.pattern
            .push_str(&regex::escape(literal.encode_utf8(&mut [0; 4])));
    }

    /// One star stands for text; two that are a whole component stand for any number of folders.
    fn star(&mut self) {
        let mut stars = 1;
        while self.rest.next_if_eq(&'*').is_some() {
            stars += 1;
        }
        let ends = match self.rest.peek() {
            None | Some('/') => true,
            Some(',' | '}') => !self.open.is_empty(),
            Some(_) => false,
        };
        if stars != 2 || !self.at_boundary || !ends {
            return self.wildcard("[^/]*");
        }
        if self.rest.next_if_eq(&'/').is_some() {
            self.wildcard("(?:[^/]+/)*");
            self.boundary("", true);
        } else {
            self.wildcard(".*");
        }
    }

    /// `[a-z]` and `[!a-z]`, where a `]` that comes first stands for itself.
    fn class(&mut self) -> Result<(), String> {
        let is_negated = self.rest.next_if_eq(&'!').is_some();
        let mut pattern = String::from(if is_negated { "[^/" } else { "[[" });
        let mut is_first = true;
        loop {
            let Some(first) = self.rest.next() else {
                return Err("a character class is not closed".to_owned());
            };
            if first == ']' && !is_first {
                break;
            }
            is_first = false;
            let last = self.range_end()?.unwrap_or(first);
            if last < first {
                return Err(format!("the range {first}-{last} is empty"));
            }
            for (bound, after) in [(first, "-"), (last, "")] {
                pattern.push_str(&regex::escape(bound.encode_utf8(&mut [0; 4])));
                pattern.push_str(after);
            }
        }
        pattern.push_str(if is_negated { "]" } else { "]&&[^/]]" });
        self.wildcard(&pattern);
        Ok(())
    }

    /// The end of a range, when the character before it was its begin. A hyphen before the `]` stands for itself.
    fn range_end(&mut self) -> Result<Option<char>, String> {
        let mut ahead = self.rest.clone();
        if ahead.next() != Some('-') {
            return Ok(None);
        }
        match ahead.next() {
            None => Err("a character class is not closed".to_owned()),
            Some(']') => Ok(None),
            Some(end) => {
                self.rest = ahead;
                Ok(Some(end))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use proptest::prelude::*;

    use super::*;

    fn matches(glob: &str, path: &[u8]) -> bool {
        is_match(&Glob::new(glob).unwrap(), path)
    }

    fn is_match(glob: &Glob, path: &[u8]) -> bool {
        glob.matches(&readable(Path::new(OsStr::from_bytes(path))))
    }

    #[test]
    fn each_wildcard_stands_for_what_the_protocol_says() {
        let cases: &[(&str, &[&str], &[&str])] = &[
            ("*.rs", &["a.rs", ".rs"], &["a/b.rs", "a.rsx", "a.r"]),
            ("**/*.rs", &["a.rs", "a/b.rs", "a/b/c.rs"], &["a.rs/b"]),
            ("**", &["a", "a/b"], &[]),
            ("a/**", &["a/b", "a/b/c"], &["a", "ab", "b/a/c"]),
            ("a/**/b", &["a/b", "a/x/b", "a/x/y/b"], &["a/xb", "ab"]),
            ("a?c", &["abc", "aéc"], &["ac", "a/c", "abbc"]),
            ("[a-c]x", &["ax", "cx"], &["dx", "x", "/x"]),
            ("[!a-c]x", &["dx", "éx"], &["ax", "/x"]),
            ("[é-ü]x", &["éx", "üx"], &["ex"]),
            ("[]a-]", &["]", "a", "-"], &["b"]),
            ("[^a]", &["^", "a"], &["b"]),
            (
                "*.{ts,js{,x}}",
                &["a.ts", "a.js", "a.jsx"],
                &["a.tsx", "a."],
            ),
            ("{**/a,b/**}", &["a", "x/y/a", "b/z/w"], &["b", "ax", "a/x"]),
            ("a**b", &["ab", "axb"], &["a/b"]),
            ("a{**,c}", &["a", "ab"], &["a/b"]),
            ("a.b+(c)|d", &["a.b+(c)|d"], &["aXb+(c)|d"]),
            ("a\\b", &["a\\b"], &["ab"]),
            ("a,b", &["a,b"], &["a"]),
        ];

        for (glob, hits, misses) in cases {
            for hit in *hits {
                assert!(matches(glob, hit.as_bytes()), "{glob} and {hit}");
            }
            for miss in *misses {
                assert!(!matches(glob, miss.as_bytes()), "{glob} and {miss}");
            }
        }
    }

    #[test]
    fn a_byte_that_is_no_character_counts_as_one() {
        assert!(matches("a?c", b"a\xFFc"));
        assert!(matches("*.rs", b"\xFF\n\xFE.rs"));
        assert!(matches("[!a]", b"\xFF"));
        assert!(!matches("a?c", b"a\xFF\xFEc"));
        assert!(!matches("?", "é".as_bytes().get(..0).unwrap()));
    }

    #[test]
    fn a_glob_that_says_nothing_clear_is_refused_with_the_reason() {
        for glob in ["", "/a", "{a", "a}", "{a}}", "[a", "[", "[!", "[]", "[z-a]"] {
            let reason = Glob::new(glob).unwrap_err();
            assert!(!reason.is_empty(), "{glob}");
        }
        let long = "{a,".repeat(100_000) + &"}".repeat(100_000);
        assert!(Glob::new(&long).is_err());
    }

    #[test]
    fn only_a_whole_literal_component_is_named() {
        for glob in [
            "target",
            "a/target/**",
            "{x,target}/a",
            "**/target/*.d",
            "{target/a,b}",
        ] {
            assert!(Glob::new(glob).unwrap().names("target"), "{glob}");
        }
        for glob in [
            "**",
            "targets/a",
            "*target/a",
            "targe[t]/a",
            "target*",
            "?target",
        ] {
            assert!(!Glob::new(glob).unwrap().names("target"), "{glob}");
        }
    }

    /// Pieces that mean the same in `globset`, which is the model where names are ASCII.
    fn ascii_glob() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec![
            "a",
            "b",
            "c",
            ".",
            "*",
            "?",
            "/",
            "/**/",
            "[a-b]",
            "[!a]",
            "{a,b}",
            "{a*,?c,b/c}",
        ]);
        prop::collection::vec(piece, 1..7)
            .prop_map(|pieces| pieces.concat().replace("//", "/a/").replace("***", "*"))
            .prop_filter("is relative and has its stars alone", |glob| {
                !glob.starts_with('/') && !glob.contains("**/*/**") && !glob.ends_with('/')
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn a_glob_matches_what_the_model_matches(
            glob in ascii_glob(),
            paths in prop::collection::vec("[abc.]{1,3}(/[abc.]{1,2}){0,3}", 1..20),
        ) {
            let model = globset::GlobBuilder::new(&glob)
                .literal_separator(true)
                .build()
                .unwrap()
                .compile_matcher();
            let ours = Glob::new(&glob).unwrap();

            for path in paths {
                prop_assert_eq!(is_match(&ours, path.as_bytes()), model.is_match(&path), "{} and {}", glob, path);
            }
        }

        #[test]
        fn any_text_is_a_glob_or_an_error(glob in "[a/*?{},!\\[\\]\\-é\\\\^&|~]{0,12}", path in any::<Vec<u8>>()) {
            if let Ok(glob) = Glob::new(&glob) {
                is_match(&glob, &path);
            }
        }

        #[test]
        fn a_name_without_wildcards_matches_itself_alone(name in "[^/*?{}\\[\\]\0]{1,8}", other in "[^/*?{}\\[\\]\0]{1,8}") {
            prop_assert!(matches(&name, name.as_bytes()));
            prop_assert_eq!(matches(&name, other.as_bytes()), name == other);
        }
    }
}
