//! A guess at the encoding of a file that is not UTF-8, for its error. Owns the rule that nothing is decoded by a guess:
//! a guess is told to people, and the file stays refused.

use chardetng::EncodingDetector;

/// How many bytes from a place on a guess looks at.
pub(crate) const GUESS_SAMPLE_BYTES: usize = 64 * 1024;

/// What a file with NUL bytes in no pattern of an encoding is called.
pub(crate) const BINARY: &str = "binary";

/// The name of the encoding that a file seems to have, as the WHATWG Encoding Standard has it (UTF-32 by its own name),
/// or [`BINARY`]. `beginning` are the first [`GUESS_SAMPLE_BYTES`] bytes of the file or all of them, `fault` some bytes
/// from the first place on that is not UTF-8.
///
/// A byte order mark decides; else a NUL byte does, by the pattern in which it recurs; else the statistics of browsers.
pub(crate) fn guess_encoding(beginning: &[u8], fault: &[u8]) -> &'static str {
    if let Some(marked) = by_byte_order_mark(beginning) {
        return marked;
    }
    if beginning.contains(&0) || fault.contains(&0) {
        return by_nul_pattern(beginning).unwrap_or(BINARY);
    }
    let mut detector = EncodingDetector::new();
    detector.feed(beginning, false);
    detector.feed(fault, false);
    detector.guess(None, false).name()
}

/// UTF-32 is asked first: its little-endian mark begins like that of UTF-16.
fn by_byte_order_mark(beginning: &[u8]) -> Option<&'static str> {
    let marks: [(&[u8], &'static str); 4] = [
        (b"\xff\xfe\0\0", "UTF-32LE"),
        (b"\0\0\xfe\xff", "UTF-32BE"),
        (b"\xff\xfe", "UTF-16LE"),
        (b"\xfe\xff", "UTF-16BE"),
    ];
    marks
        .into_iter()
        .find_map(|(mark, name)| beginning.starts_with(mark).then_some(name))
}

/// The wide encoding as which all of the beginning is text. A beginning that is shorter than a sample is the whole file,
/// which a wide encoding fills to the last unit.
fn by_nul_pattern(beginning: &[u8]) -> Option<&'static str> {
    let is_whole = beginning.len() < GUESS_SAMPLE_BYTES;
    let fits = |unit: usize| {
        beginning.len() >= unit && (!is_whole || beginning.len().is_multiple_of(unit))
    };
    let utf32 = |read: fn([u8; 4]) -> u32| {
        fits(4)
            && beginning
                .as_chunks()
                .0
                .iter()
                .all(|unit| char::from_u32(read(*unit)).is_some_and(is_text))
    };
    let utf16 = |read: fn([u8; 2]) -> u16| fits(2) && is_utf16_text(beginning, read);
    if utf32(u32::from_le_bytes) {
        return Some("UTF-32LE");
    }
    if utf32(u32::from_be_bytes) {
        return Some("UTF-32BE");
    }
    // The high byte of most letters is NUL; read the wrong way round they are text too.
    let (pairs, _) = beginning.as_chunks::<2>();
    let high_last = pairs.iter().filter(|pair| pair[1] == 0).count();
    let high_first = pairs.iter().filter(|pair| pair[0] == 0).count();
    if high_last >= high_first {
        utf16(u16::from_le_bytes).then_some("UTF-16LE")
    } else {
        utf16(u16::from_be_bytes).then_some("UTF-16BE")
    }
}

/// Whether all units are text; the last may be the first half of a character.
fn is_utf16_text(bytes: &[u8], read: fn([u8; 2]) -> u16) -> bool {
    let units = bytes.as_chunks().0;
    let decoded = char::decode_utf16(units.iter().map(|unit| read(*unit)));
    let mut characters = decoded.peekable();
    while let Some(character) = characters.next() {
        match character {
            Ok(character) if is_text(character) => {}
            Err(_) if characters.peek().is_none() => {}
            Ok(_) | Err(_) => return false,
        }
    }
    true
}

/// Whether a text has this character: no control but a tab or a line end, and none of those, or of the planes, to which
/// Unicode assigns nothing.
fn is_text(character: char) -> bool {
    let scalar = u32::from(character);
    let is_assignable = scalar & 0xfffe != 0xfffe && matches!(scalar >> 16, 0..=3 | 14);
    is_assignable && (!character.is_control() || matches!(character, '\t' | '\n' | '\r' | '\u{c}'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn utf16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    }

    fn utf32(text: &str, bytes: fn(u32) -> [u8; 4]) -> Vec<u8> {
        text.chars().flat_map(|one| bytes(u32::from(one))).collect()
    }

    #[test]
    fn a_wide_encoding_is_told_with_and_without_a_mark() {
        for mark in ["\u{feff}", ""] {
            let text = format!("{mark}let x = \"größer 😀\";\r\n");
            let cases = [
                (utf16(&text, u16::to_le_bytes), "UTF-16LE"),
                (utf16(&text, u16::to_be_bytes), "UTF-16BE"),
                (utf32(&text, u32::to_le_bytes), "UTF-32LE"),
                (utf32(&text, u32::to_be_bytes), "UTF-32BE"),
            ];
            for (bytes, expected) in cases {
                assert_eq!(guess_encoding(&bytes, &bytes), expected, "{mark:?}");
            }
        }
    }

    #[test]
    fn a_long_text_that_ends_the_sample_inside_a_character_is_told() {
        let mut bytes = utf16(&"a😀".repeat(GUESS_SAMPLE_BYTES), u16::to_le_bytes);
        bytes.truncate(GUESS_SAMPLE_BYTES);

        assert_eq!(guess_encoding(&bytes, &[]), "UTF-16LE");
    }

    #[test]
    fn nul_bytes_in_no_pattern_are_binary() {
        for bytes in [
            &b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0"[..],
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
            b"a\0b",
            b"\0",
            b"plain text and a NUL\0 later",
        ] {
            assert_eq!(guess_encoding(bytes, b""), BINARY, "{bytes:?}");
        }
    }

    #[test]
    fn a_legacy_encoding_is_guessed_from_where_it_differs_from_utf_8() {
        let beginning = b"a file that begins with plain letters\n".repeat(100);

        assert_eq!(
            guess_encoding(&beginning, b"\x82\xb1\x82\xf1\x82\xc9\x82\xbf\x82\xcd"),
            "Shift_JIS"
        );
        assert_eq!(
            guess_encoding(&beginning, b"na\xefve caf\xe9"),
            "windows-1252"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_given_a_name(beginning in proptest::collection::vec(any::<u8>(), 0..64), fault in proptest::collection::vec(any::<u8>(), 0..64)) {
            prop_assert!(!guess_encoding(&beginning, &fault).is_empty());
        }

        #[test]
        fn any_latin_text_is_told_in_every_wide_encoding(text in "[ -~à-ÿ\n]{1,40}") {
            prop_assert_eq!(guess_encoding(&utf16(&text, u16::to_le_bytes), b""), "UTF-16LE");
            prop_assert_eq!(guess_encoding(&utf16(&text, u16::to_be_bytes), b""), "UTF-16BE");
            prop_assert_eq!(guess_encoding(&utf32(&text, u32::to_le_bytes), b""), "UTF-32LE");
            prop_assert_eq!(guess_encoding(&utf32(&text, u32::to_be_bytes), b""), "UTF-32BE");
        }
    }
}
