//! Where the lines of a text begin, and conversion between byte offsets and positions of any unit.
//!
//! Invariant: lines end at `\n`, `\r\n` and a lone `\r`, as the protocol says; every offset given out is a character
//! boundary and never lies between the two bytes of `\r\n`.

use crate::position::{Encoding, Position, PositionError, Range, saturate};

/// The lines of one text. Building it reads the text once; look-ups read one line.
#[derive(Debug, Clone)]
pub struct LineIndex<'text> {
    text: &'text str,
    /// Byte offsets of the first character of each line; never empty.
    starts: Vec<usize>,
}

impl<'text> LineIndex<'text> {
    /// Indexes a text.
    pub fn new(text: &'text str) -> Self {
        let bytes = text.as_bytes();
        let mut starts = vec![0];
        for (offset, &byte) in bytes.iter().enumerate() {
            let ends_line = match byte {
                b'\n' => true,
                b'\r' => bytes.get(offset + 1) != Some(&b'\n'),
                _ => false,
            };
            if ends_line {
                starts.push(offset + 1);
            }
        }
        Self { text, starts }
    }

    /// The text that was indexed.
    pub fn text(&self) -> &'text str {
        self.text
    }

    /// How many lines there are: one more than line ends, so an empty text has one.
    pub fn line_count(&self) -> u32 {
        saturate(self.starts.len())
    }

    /// The text of a zero-based line without its end; `None` past the last line.
    pub fn line(&self, line: u32) -> Option<&'text str> {
        let start = *self.starts.get(line as usize)?;
        let end = self
            .starts
            .get(line as usize + 1)
            .copied()
            .unwrap_or(self.text.len());
        Some(without_line_end(&self.text[start..end]))
    }

    /// The byte offset at which a zero-based line starts; `None` past the last line.
    pub fn line_start(&self, line: u32) -> Option<usize> {
        self.starts.get(line as usize).copied()
    }

    /// The byte offset of a position. A column inside a character, such as the middle of a surrogate pair, moves to the
    /// character's start.
    pub fn offset(&self, position: Position, encoding: Encoding) -> Result<usize, PositionError> {
        let (Some(start), Some(line)) = (self.line_start(position.line), self.line(position.line))
        else {
            return Err(PositionError::Line {
                line: position.line,
                line_count: self.line_count(),
            });
        };
        match column_to_byte(line, position.character, encoding) {
            Some(byte) => Ok(start + byte),
            None => Err(PositionError::Character {
                line: position.line,
                character: position.character,
                length: encoding.length(line),
            }),
        }
    }

    /// The byte offset of a position, a column past its line's end meaning that end and a line past the text's end
    /// meaning the text's end: the rule of document synchronisation.
    pub fn offset_clamped(&self, position: Position, encoding: Encoding) -> usize {
        let (Some(start), Some(line)) = (self.line_start(position.line), self.line(position.line))
        else {
            return self.text.len();
        };
        start + column_to_byte(line, position.character, encoding).unwrap_or(line.len())
    }

    /// The position of a byte offset. An offset inside a character means the character's start, one inside a line end
    /// the end of its line, one past the text the text's end.
    pub fn position(&self, offset: usize, encoding: Encoding) -> Position {
        let offset = self.text.floor_char_boundary(offset);
        let line = self.starts.partition_point(|&start| start <= offset) - 1;
        let start = self.starts[line];
        let content = self.line(saturate(line)).unwrap_or_default();
        let column = (offset - start).min(content.len());
        Position::new(saturate(line), encoding.length(&content[..column]))
    }

    /// The same position with its column counted in another unit.
    pub fn convert(
        &self,
        position: Position,
        from: Encoding,
        to: Encoding,
    ) -> Result<Position, PositionError> {
        let offset = self.offset(position, from)?;
        Ok(self.position(offset, to))
    }

    /// The same range with its columns counted in another unit.
    pub fn convert_range(
        &self,
        range: Range,
        from: Encoding,
        to: Encoding,
    ) -> Result<Range, PositionError> {
        Ok(Range::new(
            self.convert(range.start, from, to)?,
            self.convert(range.end, from, to)?,
        ))
    }

    /// The same range in another unit, out-of-range ends clamped as in [`Self::offset_clamped`]: for the answers of
    /// servers that mark a line's end with a huge column.
    pub fn convert_range_clamped(&self, range: Range, from: Encoding, to: Encoding) -> Range {
        Range::new(
            self.position(self.offset_clamped(range.start, from), to),
            self.position(self.offset_clamped(range.end, from), to),
        )
    }
}

/// The line without its trailing `\n`, `\r\n` or `\r`.
fn without_line_end(line: &str) -> &str {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line)
}

/// The byte at a column of one line; the start of the character for a column inside one; `None` past the line's end.
pub(crate) fn column_to_byte(line: &str, column: u32, encoding: Encoding) -> Option<usize> {
    let column = column as usize;
    let mut units = 0;
    for (byte, character) in line.char_indices() {
        let next = units + encoding.units(character);
        if column < next {
            return Some(byte);
        }
        units = next;
    }
    (column == units).then_some(line.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_line_end_of_the_protocol_ends_a_line() {
        let index = LineIndex::new("a\nb\r\nc\rd\r\r\n");
        let lines: Vec<_> = (0..index.line_count())
            .map(|line| index.line(line).unwrap())
            .collect();
        assert_eq!(lines, ["a", "b", "c", "d", "", ""]);
        assert_eq!(index.line(6), None);
    }

    #[test]
    fn other_separators_of_unicode_end_no_line() {
        assert_eq!(LineIndex::new("a\u{2028}b\u{85}c\u{0b}d").line_count(), 1);
    }

    #[test]
    fn a_column_counts_in_the_unit_asked_for() {
        // Given a line with a character of 4 bytes and one of 2 before the name.
        let index = LineIndex::new("x\n🙂é name");
        let at_name = "x\n🙂é ".len();
        // Then each unit finds the name at its own column.
        for (encoding, column) in [
            (Encoding::Utf8, 7),
            (Encoding::Utf16, 4),
            (Encoding::Codepoint, 3),
        ] {
            let position = Position::new(1, column);
            assert_eq!(index.offset(position, encoding), Ok(at_name));
            assert_eq!(index.position(at_name, encoding), position);
        }
    }

    #[test]
    fn the_middle_of_a_surrogate_pair_is_its_start() {
        let index = LineIndex::new("a🙂b");
        assert_eq!(index.offset(Position::new(0, 2), Encoding::Utf16), Ok(1));
        assert_eq!(index.offset(Position::new(0, 3), Encoding::Utf16), Ok(5));
        assert_eq!(index.offset(Position::new(0, 4), Encoding::Utf8), Ok(1));
    }

    #[test]
    fn a_position_past_the_end_names_the_bound() {
        let index = LineIndex::new("añ🙂\r\nb");
        assert_eq!(
            index.offset(Position::new(0, 5), Encoding::Utf16),
            Err(PositionError::Character {
                line: 0,
                character: 5,
                length: 4
            })
        );
        assert_eq!(
            index.offset(Position::new(2, 0), Encoding::Utf16),
            Err(PositionError::Line {
                line: 2,
                line_count: 2
            })
        );
        assert_eq!(index.offset(Position::new(0, 4), Encoding::Utf16), Ok(7));
        assert_eq!(
            index.offset_clamped(Position::new(0, u32::MAX), Encoding::Utf16),
            7
        );
        assert_eq!(
            index.offset_clamped(Position::new(9, 0), Encoding::Utf16),
            10
        );
    }

    #[test]
    fn an_offset_inside_a_line_end_is_the_end_of_its_line() {
        let index = LineIndex::new("ab\r\nc");
        assert_eq!(index.position(3, Encoding::Utf16), Position::new(0, 2));
        assert_eq!(index.position(4, Encoding::Utf16), Position::new(1, 0));
        assert_eq!(index.position(99, Encoding::Utf16), Position::new(1, 1));
    }

    fn encodings() -> impl Strategy<Value = Encoding> {
        prop_oneof![
            Just(Encoding::Utf8),
            Just(Encoding::Utf16),
            Just(Encoding::Codepoint)
        ]
    }

    proptest! {
        #[test]
        fn an_offset_survives_the_way_there_and_back(text in "[a-z🙂é漢\r\n]{0,40}", at in 0_usize..160, encoding in encodings()) {
            let index = LineIndex::new(&text);
            let position = index.position(at, encoding);
            let offset = index.offset(position, encoding).unwrap();
            prop_assert!(text.is_char_boundary(offset));
            prop_assert_eq!(index.position(offset, encoding), position);
        }

        #[test]
        fn lines_and_their_ends_make_up_the_text(text in "[ab🙂\r\n]{0,40}") {
            let index = LineIndex::new(&text);
            for line in 0..index.line_count() {
                let content = index.line(line).unwrap();
                let no_end_inside = !content.contains(['\r', '\n']);
                prop_assert!(no_end_inside);
                let start = index.line_start(line).unwrap();
                prop_assert!(text[start..].starts_with(content));
            }
        }

        #[test]
        fn units_agree_with_the_standard_library(text in "[a🙂é漢]{0,20}") {
            prop_assert_eq!(Encoding::Utf16.length(&text) as usize, text.encode_utf16().count());
        }

        #[test]
        fn any_position_is_an_offset_or_an_error_and_never_a_panic(text in "\\PC{0,30}", line in 0_u32..4, character in 0_u32..60, encoding in encodings()) {
            let index = LineIndex::new(&text);
            if let Ok(offset) = index.offset(Position::new(line, character), encoding) {
                prop_assert!(text.is_char_boundary(offset));
                prop_assert_eq!(offset, index.offset_clamped(Position::new(line, character), encoding));
            }
        }
    }
}
