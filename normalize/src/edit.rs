//! Edits of a text as the protocol describes them: applied from a client's change, and made from two texts.
//!
//! Invariant: `apply(old, change(old, new)) == new`, and a change that is made here never begins or ends inside a
//! character or between the two bytes of `\r\n`, so that it means the same in every unit and to every server.

use serde::{Deserialize, Serialize};

use crate::line_index::column_to_byte;
use crate::position::{Encoding, Position, Range, saturate};

/// One change of a document: a range and what replaces it, or the whole text where the range is absent.
///
/// Reads and writes as a `TextDocumentContentChangeEvent`; the deprecated `rangeLength` is read over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// What is replaced; the whole document when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<Range>,
    /// What stands there afterwards.
    pub text: String,
}

/// The text after the range has been replaced.
///
/// A column past its line's end means that end, a line past the last the end of the text, and ends in the wrong order
/// are exchanged: the protocol's rules for document synchronisation, which know no error.
pub fn apply(text: &str, range: &Range, replacement: &str, encoding: Encoding) -> String {
    let (first, last) = if range.start <= range.end {
        (range.start, range.end)
    } else {
        (range.end, range.start)
    };
    let mut lines = LineWalk::new(text);
    let start = lines.offset(first, encoding);
    let end = lines.offset(last, encoding).max(start);
    let mut result = String::with_capacity(text.len() - (end - start) + replacement.len());
    result.push_str(&text[..start]);
    result.push_str(replacement);
    result.push_str(&text[end..]);
    result
}

/// The text after all changes, each against the result of the one before.
pub fn apply_all(text: &str, changes: &[Change], encoding: Encoding) -> String {
    let mut current: Option<String> = None;
    for change in changes {
        let before = current.as_deref().unwrap_or(text);
        let after = match &change.range {
            Some(range) => apply(before, range, &change.text, encoding),
            None => change.text.clone(),
        };
        current = Some(after);
    }
    current.unwrap_or_else(|| text.to_owned())
}

/// The one change, in UTF-16 columns, that turns the old text into the new: common head and tail are cut away.
/// `None` when they are equal.
pub fn single_change(old: &str, new: &str) -> Option<Change> {
    if old == new {
        return None;
    }
    let head = common_head(old, new);
    let tail = common_tail(&old[head..], &new[head..]);
    let tail = tail_outside_line_end(old, new, head, tail);
    let mut lines = LineWalk::new(old);
    let start = lines.position(head);
    let end = lines.position(old.len() - tail);
    Some(Change {
        range: Some(Range::new(start, end)),
        text: new[head..new.len() - tail].to_owned(),
    })
}

/// Bytes that both texts begin with, cut back to a place where both may be split.
fn common_head(old: &str, new: &str) -> usize {
    let equal = old
        .bytes()
        .zip(new.bytes())
        .take_while(|(left, right)| left == right)
        .count();
    let head = old
        .floor_char_boundary(equal)
        .min(new.floor_char_boundary(equal));
    let splits_line_end = |text: &str| splits_line_end(text, head);
    if splits_line_end(old) || splits_line_end(new) {
        head - 1
    } else {
        head
    }
}

/// Bytes that both texts end with, cut back to a character boundary of both.
fn common_tail(old: &str, new: &str) -> usize {
    let equal = old
        .bytes()
        .rev()
        .zip(new.bytes().rev())
        .take_while(|(left, right)| left == right)
        .count();
    // Equal bytes from a boundary on are equal characters, so one text's boundary is the other's.
    old.len() - old.ceil_char_boundary(old.len() - equal)
}

/// The tail without its `\n` where either text has the `\r` that belongs to it in front.
fn tail_outside_line_end(old: &str, new: &str, head: usize, tail: usize) -> usize {
    let splits = |text: &str| {
        let at = text.len() - tail;
        at >= head && splits_line_end(text, at)
    };
    if splits(old) || splits(new) {
        tail - 1
    } else {
        tail
    }
}

/// Whether the offset lies between the two bytes of `\r\n`.
fn splits_line_end(text: &str, offset: usize) -> bool {
    offset > 0
        && text.as_bytes()[offset - 1] == b'\r'
        && text.as_bytes().get(offset) == Some(&b'\n')
}

/// Walks the lines of a text forwards, so that an edit reads no further than its end and keeps no table.
struct LineWalk<'text> {
    text: &'text str,
    line: usize,
    start: usize,
}

impl<'text> LineWalk<'text> {
    fn new(text: &'text str) -> Self {
        Self {
            text,
            line: 0,
            start: 0,
        }
    }

    /// Content length of the current line and where the next one starts, if there is one.
    fn current(&self) -> (usize, Option<usize>) {
        let rest = &self.text.as_bytes()[self.start..];
        match rest.iter().position(|&byte| byte == b'\n' || byte == b'\r') {
            None => (rest.len(), None),
            Some(at) => {
                let width = if rest[at..].starts_with(b"\r\n") {
                    2
                } else {
                    1
                };
                (at, Some(self.start + at + width))
            }
        }
    }

    /// The offset of a position that is not before the walk's line, clamped.
    fn offset(&mut self, position: Position, encoding: Encoding) -> usize {
        loop {
            let (length, next) = self.current();
            if self.line == position.line as usize {
                let content = &self.text[self.start..self.start + length];
                return self.start
                    + column_to_byte(content, position.character, encoding).unwrap_or(length);
            }
            match next {
                Some(next) => {
                    self.start = next;
                    self.line += 1;
                }
                None => return self.text.len(),
            }
        }
    }

    /// The UTF-16 position of an offset that is not before the walk's line.
    fn position(&mut self, offset: usize) -> Position {
        loop {
            let (_, next) = self.current();
            match next {
                Some(next) if next <= offset => {
                    self.start = next;
                    self.line += 1;
                }
                _ => {
                    let column = Encoding::Utf16.length(&self.text[self.start..offset]);
                    return Position::new(saturate(self.line), column);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line_index::LineIndex;
    use proptest::prelude::*;

    fn range(start: (u32, u32), end: (u32, u32)) -> Range {
        Range::new(Position::new(start.0, start.1), Position::new(end.0, end.1))
    }

    #[test]
    fn a_range_is_replaced_in_the_unit_of_the_client() {
        let text = "let 🙂 = 1;\nlet b = 2;\n";
        assert_eq!(
            apply(text, &range((0, 9), (0, 10)), "7", Encoding::Utf16),
            "let 🙂 = 7;\nlet b = 2;\n"
        );
        assert_eq!(
            apply(text, &range((0, 11), (0, 12)), "7", Encoding::Utf8),
            "let 🙂 = 7;\nlet b = 2;\n"
        );
    }

    #[test]
    fn ends_past_the_text_are_clamped() {
        assert_eq!(
            apply("ab\r\ncd", &range((0, 9), (0, 12)), "X", Encoding::Utf16),
            "abX\r\ncd"
        );
        assert_eq!(
            apply("ab\r\ncd", &range((1, 1), (7, 0)), "", Encoding::Utf16),
            "ab\r\nc"
        );
        assert_eq!(
            apply("ab", &range((0, 2), (0, 1)), "X", Encoding::Utf16),
            "aX"
        );
    }

    #[test]
    fn changes_build_on_each_other_and_an_absent_range_is_the_whole_text() {
        let changes: Vec<Change> = serde_json::from_str(
            r#"[{"text":"one"},{"range":{"start":{"line":0,"character":3.0},"end":{"line":0,"character":3}},"rangeLength":0,"text":"!"}]"#,
        )
        .unwrap();
        assert_eq!(apply_all("zero", &changes, Encoding::Utf16), "one!");
        assert_eq!(apply_all("zero", &[], Encoding::Utf16), "zero");
    }

    #[test]
    fn equal_texts_need_no_change() {
        assert_eq!(single_change("a", "a"), None);
    }

    #[test]
    fn a_change_never_splits_a_pair() {
        // Given two emoji that share the first three bytes, and a line end that changes its kind.
        let change = single_change("a🙂b", "a🙃b").unwrap();
        assert_eq!(change.range, Some(range((0, 1), (0, 3))));
        assert_eq!(change.text, "🙃");
        let change = single_change("a\rX\nb", "a\r\nb").unwrap();
        assert_eq!(change.range, Some(range((0, 1), (2, 0))));
        assert_eq!(change.text, "\r\n");
        let change = single_change("a\r\nb", "a\nb").unwrap();
        assert_eq!(change.text, "\n");
        assert_eq!(change.range, Some(range((0, 1), (1, 0))));
    }

    fn texts() -> impl Strategy<Value = String> {
        "[ab🙂🙃é\r\n]{0,24}"
    }

    proptest! {
        #[test]
        fn a_made_change_applied_gives_the_new_text(old in texts(), new in texts()) {
            match single_change(&old, &new) {
                None => prop_assert_eq!(old, new),
                Some(change) => {
                    let applied = apply_all(&old, std::slice::from_ref(&change), Encoding::Utf16);
                    prop_assert_eq!(applied, new);
                    // Both ends are positions that the old text really has, outside of every line end.
                    let index = LineIndex::new(&old);
                    let range = change.range.unwrap();
                    for end in [range.start, range.end] {
                        let offset = index.offset(end, Encoding::Utf16).unwrap();
                        prop_assert!(!splits_line_end(&old, offset));
                        prop_assert_eq!(index.position(offset, Encoding::Utf16), end);
                    }
                }
            }
        }

        #[test]
        fn walking_and_indexing_agree(text in texts(), line in 0_u32..6, character in 0_u32..12) {
            let position = Position::new(line, character);
            let walked = LineWalk::new(&text).offset(position, Encoding::Utf16);
            prop_assert_eq!(walked, LineIndex::new(&text).offset_clamped(position, Encoding::Utf16));
        }

        #[test]
        fn any_range_can_be_applied(text in texts(), a in 0_u32..6, b in 0_u32..12, c in 0_u32..6, d in 0_u32..12) {
            let applied = apply(&text, &range((a, b), (c, d)), "", Encoding::Utf16);
            prop_assert!(applied.len() <= text.len());
        }
    }
}
