//! A literal replacement in a text, without I/O and the same for every provider. Owns the rule that no byte changes
//! outside of a match: both sides are matched with LF line ends, and what is found is replaced where it stands in the
//! text as it is.

use super::EditRequest;
use super::error::MAX_REPORTED_LINES;

/// A text after a replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edited {
    /// The whole text, its line ends as they were outside of the matches.
    pub(crate) text: String,
    /// How many matches were replaced.
    pub(crate) replacements: u64,
}

/// Why nothing was replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EditFault {
    /// The text to replace does not occur, or is empty.
    NotFound,
    /// It occurs several times, and one was asked for.
    Ambiguous {
        /// How many times.
        matches: u64,
        /// The zero-based lines of the first matches, at most [`MAX_REPORTED_LINES`].
        lines: Vec<u64>,
    },
}

/// Replaces a text as `request` says.
///
/// Matches do not overlap and are taken from the beginning on. A new line gets the end of the line on which its match
/// begins, or, where that is the last one and has none, the end that most lines have; LF for a text of one line. A
/// carriage return without a line feed is a character like any other.
pub(crate) fn apply(text: &str, request: &EditRequest) -> Result<Edited, EditFault> {
    let lines = LineFeeds::of(text);
    let needle = with_line_feeds(&request.old_text);
    let replacement = with_line_feeds(&request.new_text);
    if needle.is_empty() {
        return Err(EditFault::NotFound);
    }
    let matches: Vec<usize> = lines
        .text
        .match_indices(&needle)
        .map(|(at, _)| at)
        .collect();
    match matches.len() {
        0 => return Err(EditFault::NotFound),
        1 => {}
        _ if request.replace_all => {}
        count => {
            let reported = matches.iter().take(MAX_REPORTED_LINES);
            return Err(EditFault::Ambiguous {
                matches: count as u64,
                lines: reported.map(|at| lines.line(*at) as u64).collect(),
            });
        }
    }
    let mut edited = String::with_capacity(text.len());
    let mut kept_from = 0;
    for start in &matches {
        edited.push_str(&text[kept_from..lines.original(*start)]);
        push_lines(&mut edited, &replacement, lines.end_of_line(*start));
        kept_from = lines.original(start + needle.len());
    }
    edited.push_str(&text[kept_from..]);
    Ok(Edited {
        text: edited,
        replacements: matches.len() as u64,
    })
}

/// The text with every CRLF as LF.
pub(crate) fn with_line_feeds(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// Appends a text, each of its line feeds as `end`.
fn push_lines(edited: &mut String, text: &str, end: &str) {
    let mut lines = text.split('\n');
    edited.push_str(lines.next().unwrap_or_default());
    for line in lines {
        edited.push_str(end);
        edited.push_str(line);
    }
}

/// A text with LF line ends, and the way back to the text as it is. All places are byte indexes in rising order.
struct LineFeeds {
    text: String,
    /// Where the line feeds stand.
    feeds: Vec<usize>,
    /// Where those stand that were CRLF.
    shortened: Vec<usize>,
}

impl LineFeeds {
    fn of(original: &str) -> Self {
        let text = with_line_feeds(original);
        let feeds = text.match_indices('\n').map(|(at, _)| at).collect();
        let shortened = original
            .match_indices("\r\n")
            .enumerate()
            .map(|(before, (at, _))| at - before)
            .collect();
        Self {
            text,
            feeds,
            shortened,
        }
    }

    /// The index in the original text. That of a line feed which was CRLF is that of its carriage return.
    fn original(&self, at: usize) -> usize {
        at + self.shortened.partition_point(|feed| *feed < at)
    }

    /// The zero-based line of an index.
    fn line(&self, at: usize) -> usize {
        self.feeds.partition_point(|feed| *feed < at)
    }

    /// How the line at an index ends; as most lines do if it is the last.
    fn end_of_line(&self, at: usize) -> &'static str {
        let was_longer = match self.feeds.get(self.line(at)) {
            Some(feed) => self.shortened.binary_search(feed).is_ok(),
            None => self.shortened.len() * 2 > self.feeds.len(),
        };
        if was_longer { "\r\n" } else { "\n" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(old_text: &str, new_text: &str, replace_all: bool) -> EditRequest {
        EditRequest {
            old_text: old_text.to_owned(),
            new_text: new_text.to_owned(),
            replace_all,
        }
    }

    fn edited(text: &str, old: &str, new: &str, replace_all: bool) -> String {
        apply(text, &request(old, new, replace_all)).unwrap().text
    }

    #[test]
    fn one_match_is_replaced_literally() {
        assert_eq!(
            edited("let a = b;", "a = b", "$0\\1&", false),
            "let $0\\1&;"
        );
        assert_eq!(edited("abc", "abc", "", false), "");
    }

    #[test]
    fn nothing_to_replace_is_told() {
        for (text, old) in [
            ("abc", "x"),
            ("abc", ""),
            ("", ""),
            ("", "a"),
            ("ab", "abc"),
        ] {
            for replace_all in [false, true] {
                assert_eq!(
                    apply(text, &request(old, "y", replace_all)),
                    Err(EditFault::NotFound)
                );
            }
        }
    }

    #[test]
    fn several_matches_are_told_with_their_lines_and_replaced_if_asked() {
        let text = "a\r\nb a\nc\na";

        assert_eq!(
            apply(text, &request("a", "x", false)),
            Err(EditFault::Ambiguous {
                matches: 3,
                lines: vec![0, 1, 3]
            })
        );
        assert_eq!(edited(text, "a", "x", true), "x\r\nb x\nc\nx");
    }

    #[test]
    fn matches_do_not_overlap() {
        assert_eq!(edited("aaaa", "aa", "b", true), "bb");
        assert_eq!(edited("aaa", "aa", "b", false), "ba");
    }

    #[test]
    fn the_lines_of_many_matches_are_cut() {
        let fault = apply(&"a\n".repeat(1000), &request("a", "x", false)).unwrap_err();

        let EditFault::Ambiguous { matches, lines } = fault else {
            panic!("{fault:?}");
        };
        assert_eq!((matches, lines.len()), (1000, MAX_REPORTED_LINES));
        assert_eq!(lines.last(), Some(&(MAX_REPORTED_LINES as u64 - 1)));
    }

    #[test]
    fn either_line_end_matches_the_other() {
        assert_eq!(edited("a\nb\n", "a\r\nb", "x\r\ny", false), "x\ny\n");
        assert_eq!(edited("a\r\nb\r\n", "a\nb", "x\ny", false), "x\r\ny\r\n");
    }

    #[test]
    fn a_mixed_file_keeps_its_other_lines() {
        let text = "one\r\ntwo\nthree\r\nfour\n";

        assert_eq!(
            edited(text, "two", "2\n2", false),
            "one\r\n2\n2\nthree\r\nfour\n"
        );
        assert_eq!(
            edited(text, "three", "3\n3", false),
            "one\r\ntwo\n3\r\n3\r\nfour\n"
        );
        assert_eq!(
            edited(text, "two\nthree", "2\n3", false),
            "one\r\n2\n3\r\nfour\n"
        );
        assert_eq!(edited(text, "o", "0\n", true).matches("\r\n").count(), 3);
    }

    #[test]
    fn a_last_line_without_an_end_takes_that_of_most_lines() {
        assert_eq!(
            edited("a\r\nb\r\nc\nd", "d", "x\ny", false),
            "a\r\nb\r\nc\nx\r\ny"
        );
        assert_eq!(edited("a\r\nb\nd", "d", "x\ny", false), "a\r\nb\nx\ny");
        assert_eq!(edited("d", "d", "x\r\ny", false), "x\ny");
    }

    #[test]
    fn a_lone_carriage_return_is_a_character() {
        assert_eq!(edited("a\rb\r\nc", "a\rb", "x\ry", false), "x\ry\r\nc");
        assert_eq!(edited("a\r\r\nb", "b", "c", false), "a\r\r\nc");
        assert_eq!(
            apply("a\rb", &request("a\nb", "x", false)),
            Err(EditFault::NotFound)
        );
    }

    #[test]
    fn a_match_can_begin_or_end_at_a_line_end() {
        assert_eq!(edited("a\r\nb", "\n", " ", false), "a b");
        assert_eq!(edited("a\r\nb\r\nc", "b\n", "", false), "a\r\nc");
        assert_eq!(edited("a\r\nb\nc", "\nb", "\nx", false), "a\r\nx\nc");
    }

    /// Texts of few characters, so that matches and line ends of both kinds are frequent.
    fn dense() -> impl Strategy<Value = String> {
        "(a|b|é|\r|\n|\r\n){0,24}"
    }

    proptest! {
        #[test]
        fn a_text_with_line_feeds_alone_is_edited_as_the_standard_library_does(text in "[aéb\n]{0,24}", old in "[ab\n]{1,3}", new in "[abx\n]{0,4}") {
            let count = text.matches(&old).count();

            let one = apply(&text, &request(&old, &new, false));
            let all = apply(&text, &request(&old, &new, true));

            match count {
                0 => prop_assert_eq!(&one, &Err(EditFault::NotFound)),
                1 => prop_assert_eq!(one.unwrap().text, text.replacen(&old, &new, 1)),
                _ => {
                    let told = match one {
                        Err(EditFault::Ambiguous { matches, .. }) => matches,
                        _ => 0,
                    };
                    prop_assert_eq!(told, count as u64);
                }
            }
            if count > 0 {
                prop_assert_eq!(all.unwrap().text, text.replace(&old, &new));
            }
        }

        #[test]
        fn what_is_edited_is_what_an_edit_of_the_text_with_line_feeds_is(text in dense(), old in dense(), new in "[abx\n]{0,4}", replace_all in any::<bool>()) {
            let (plain_text, plain_old) = (with_line_feeds(&text), with_line_feeds(&old));
            let edited = apply(&text, &request(&old, &new, replace_all));
            let count = if plain_old.is_empty() { 0 } else { plain_text.matches(&plain_old).count() };

            prop_assert_eq!(edited.is_ok(), count == 1 || (count > 1 && replace_all));
            // A lone carriage return that comes to stand before a line feed is a line end from then on.
            if let Ok(edited) = edited && !text.replace("\r\n", "").contains('\r') && !old.replace("\r\n", "").contains('\r') {
                prop_assert_eq!(with_line_feeds(&edited.text), plain_text.replace(&plain_old, &new));
                prop_assert_eq!(edited.replacements, count as u64);
            }
        }

        #[test]
        fn every_byte_outside_of_the_match_stays(before in dense(), after in dense(), old in "[xy]{1,3}", new in "[ab\n]{0,4}") {
            let text = format!("{before}{old}{after}");

            let edited = edited(&text, &old, &new, false);

            prop_assert!(edited.starts_with(&before));
            prop_assert!(edited.ends_with(&after));
            let middle = &edited[before.len()..edited.len() - after.len()];
            prop_assert_eq!(with_line_feeds(middle), new);
        }

        #[test]
        fn a_text_of_one_kind_of_line_end_stays_one(lines in proptest::collection::vec("[ab]{0,3}", 1..6), old in "[ab\n]{1,3}", new in "[ab\n]{0,4}") {
            let text = lines.join("\r\n");
            if let Ok(edited) = apply(&text, &request(&old, &new, true)) && lines.len() > 1 {
                prop_assert!(!edited.text.replace("\r\n", "").contains('\n'), "{:?}", edited.text);
            }
        }
    }
}
