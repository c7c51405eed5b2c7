//! The escapes of JSON strings, decoded without loss.
//!
//! Invariant: two string tokens decode to equal bytes exactly when they spell the same sequence of UTF-16
//! units, lone surrogates included, which `serde_json` refuses and real peers send.

use std::borrow::Cow;

/// Decodes the inside of a JSON string token (without its quotes) to WTF-8: UTF-8 in which a lone
/// surrogate escape keeps its own three bytes.
///
/// The token must be valid JSON; of an invalid escape the backslash is dropped.
pub(crate) fn decode(inner: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(backslash) = memchr::memchr(b'\\', rest) {
        decoded.extend_from_slice(&rest[..backslash]);
        rest = &rest[backslash + 1..];
        let Some((&escape, after)) = rest.split_first() else {
            return decoded;
        };
        rest = after;
        match escape {
            b'b' => decoded.push(0x08),
            b'f' => decoded.push(0x0c),
            b'n' => decoded.push(b'\n'),
            b'r' => decoded.push(b'\r'),
            b't' => decoded.push(b'\t'),
            b'u' => rest = decode_unit(rest, &mut decoded),
            other => decoded.push(other),
        }
    }
    decoded.extend_from_slice(rest);
    decoded
}

/// Decodes what follows `\u`, joining a surrogate pair of two escapes, and returns what is left.
fn decode_unit<'a>(rest: &'a [u8], decoded: &mut Vec<u8>) -> &'a [u8] {
    let Some((unit, after)) = hex_unit(rest) else {
        return rest;
    };
    if (0xd800..0xdc00).contains(&unit)
        && let Some(second) = after.strip_prefix(b"\\u")
        && let Some((low, after_pair)) = hex_unit(second)
        && (0xdc00..0xe000).contains(&low)
    {
        push_code_point(0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00), decoded);
        return after_pair;
    }
    push_code_point(unit, decoded);
    after
}

fn hex_unit(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, rest) = bytes.split_at_checked(4)?;
    let mut unit = 0;
    for &digit in digits {
        unit = unit * 16 + char::from(digit).to_digit(16)?;
    }
    Some((unit, rest))
}

fn push_code_point(code_point: u32, decoded: &mut Vec<u8>) {
    if let Some(character) = char::from_u32(code_point) {
        decoded.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    } else {
        // A lone surrogate, in the three-byte pattern that UTF-8 leaves unused.
        decoded.push(0xe0 | (code_point >> 12) as u8);
        decoded.push(0x80 | (code_point >> 6 & 0x3f) as u8);
        decoded.push(0x80 | (code_point & 0x3f) as u8);
    }
}

/// The text of a JSON string token with its quotes, `None` when `token` is no string.
///
/// Borrowed where the token has no escape. A lone surrogate escape becomes U+FFFD, as in the
/// editors and servers that hold text as UTF-8.
pub fn unescape(token: &str) -> Option<Cow<'_, str>> {
    let inner = token.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    Some(Cow::Owned(replace_surrogates(decode(inner.as_bytes()))))
}

fn replace_surrogates(decoded: Vec<u8>) -> String {
    String::from_utf8(decoded).unwrap_or_else(|error| {
        let mut text = String::with_capacity(error.as_bytes().len());
        let mut rest = error.as_bytes();
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    return text;
                }
                Err(broken) => {
                    let (valid, surrogate) = rest.split_at(broken.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = surrogate.get(3..).unwrap_or_default();
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decodes_every_escape() {
        assert_eq!(
            unescape(r#""\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00é""#).as_deref(),
            Some("\"\\/\u{8}\u{c}\n\r\té😀é")
        );
    }

    #[test]
    fn lone_surrogates_stay_apart_in_bytes_and_become_replacement_characters_in_text() {
        assert_ne!(decode(br"\ud800"), decode(br"\ud801"));
        assert_eq!(
            unescape(r#""a\ud800b\udc00c\ud800""#).as_deref(),
            Some("a\u{fffd}b\u{fffd}c\u{fffd}")
        );
    }

    #[test]
    fn something_else_than_a_string_has_no_text() {
        assert_eq!(unescape("12"), None);
        assert_eq!(unescape("\""), None);
    }

    proptest! {
        #[test]
        fn agrees_with_serde_on_every_text(text in any::<String>()) {
            let token = serde_json::to_string(&text).unwrap();
            let unescaped = unescape(&token).unwrap();
            prop_assert_eq!(unescaped.as_ref(), text.as_str());
        }

        #[test]
        fn never_panics(token in any::<String>(), bytes in any::<Vec<u8>>()) {
            let _ = unescape(&token);
            let _ = decode(&bytes);
        }
    }
}
