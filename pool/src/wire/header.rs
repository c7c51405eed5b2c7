//! One line of a header block, judged alone.
//!
//! Tolerant as LSP peers need it: names in any case, an optional blank after the colon, LF alone as a line
//! end (LSP 3.17 "Header Part", and what real servers print between messages).

/// The longest text that [`length_at_line_end`] recognises:
/// `Content-Length`, blank, colon, blank, 13 digits, CR, LF.
pub(super) const LONGEST_TAIL: usize = NAME.len() + 3 + LONGEST_LENGTH + 2;

const NAME: &[u8] = b"content-length";

/// A length of more digits (ten terabytes and more) is no length: its body would never end.
const LONGEST_LENGTH: usize = 13;

/// What a line is, seen alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// The line that ends a block.
    Blank,
    /// `Content-Length` with a length that a body can have.
    Length(u64),
    /// Another `Name: value`; `certain` when a server's log line could not look like it by chance.
    Other { certain: bool },
    /// Not a header.
    Junk,
}

/// Judges one line, given with its line end.
pub(super) fn classify(line: &[u8]) -> Line {
    let (text, carriage_return) = without_line_end(line);
    if text.is_empty() {
        return Line::Blank;
    }
    let Some(colon) = memchr::memchr(b':', text) else {
        return Line::Junk;
    };
    let name = text[..colon].trim_ascii_end();
    if name.eq_ignore_ascii_case(NAME) {
        return digits(text[colon + 1..].trim_ascii()).map_or(Line::Junk, Line::Length);
    }
    if name.is_empty() || !name.iter().all(|&byte| is_name_byte(byte)) {
        return Line::Junk;
    }
    Line::Other {
        certain: carriage_return || name.eq_ignore_ascii_case(b"content-type"),
    }
}

/// Finds `Content-Length: N` at the end of a line that begins with something else, as when a program
/// printed without a newline, or announced a body shorter than it wrote. Gives the offset and the length.
///
/// Only the exact spelling with CR LF counts, so that a log line about a header is not taken for one.
pub(super) fn length_at_line_end(line: &[u8]) -> Option<(usize, u64)> {
    let text = line.strip_suffix(b"\r\n")?;
    let digits_at = text.len()
        - text
            .iter()
            .rev()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
    let before = &text[..digits_at];
    let before = before
        .strip_suffix(b" ")
        .unwrap_or(before)
        .strip_suffix(b":")?;
    let name_at = before.len().checked_sub(NAME.len())?;
    if !before[name_at..].eq_ignore_ascii_case(NAME) {
        return None;
    }
    Some((name_at, digits(&text[digits_at..])?))
}

fn without_line_end(line: &[u8]) -> (&[u8], bool) {
    let text = line.strip_suffix(b"\n").unwrap_or(line);
    text.strip_suffix(b"\r")
        .map_or((text, false), |text| (text, true))
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > LONGEST_LENGTH || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_plain_digits_under_a_name_in_any_case() {
        for line in [
            "Content-Length: 12\r\n",
            "content-length:12\n",
            "CONTENT-LENGTH:   12 \r\n",
            "Content-Length : 12\r\n",
            "Content-Length: 0012\r\n",
        ] {
            assert_eq!(classify(line.as_bytes()), Line::Length(12), "{line}");
        }
        for line in [
            "Content-Length: +12\n",
            "Content-Length: -1\n",
            "Content-Length: 0x10\n",
            "Content-Length:\n",
            "Content-Length: 1 2\n",
            "Content-Length: 9000000000000000000\n",
        ] {
            assert_eq!(classify(line.as_bytes()), Line::Junk, "{line}");
        }
    }

    #[test]
    fn other_lines_are_told_apart() {
        assert_eq!(classify(b"\r\n"), Line::Blank);
        assert_eq!(classify(b"\n"), Line::Blank);
        assert_eq!(
            classify(b"Content-Type: application/vscode-jsonrpc; charset=utf8\n"),
            Line::Other { certain: true }
        );
        assert_eq!(classify(b"X-Vendor: 1\r\n"), Line::Other { certain: true });
        assert_eq!(
            classify(b"INFO: starting\n"),
            Line::Other { certain: false }
        );
        assert_eq!(classify(b"{\"a\": 1}\n"), Line::Junk);
        assert_eq!(classify(b"Listening on: 80\n"), Line::Junk);
    }

    #[test]
    fn a_length_behind_other_text_counts_in_its_exact_spelling_only() {
        assert_eq!(length_at_line_end(b"}}Content-Length: 5\r\n"), Some((2, 5)));
        assert_eq!(length_at_line_end(b"content-length:5\r\n"), Some((0, 5)));
        assert_eq!(length_at_line_end(b"}}Content-Length: 5\n"), None);
        assert_eq!(
            length_at_line_end(b"sent Content-Length: 5 bytes\r\n"),
            None
        );
        assert_eq!(length_at_line_end(b"Length: 5\r\n"), None);
        assert_eq!(length_at_line_end(b"5\r\n"), None);
    }
}
