//! Inherited output that goes to the log. Owns the bound on a line: one that is longer is logged in parts, so that a
//! program that never ends its line costs no memory.

use super::pump::Pump;
use crate::OutputStream;

/// Lines longer than this many bytes are logged in parts.
const LINE_BYTES: usize = 8 * 1024;

/// Logs a stream line by line until its end.
pub(super) async fn log_lines(mut pump: Pump, program: String, pid: u32, stream: OutputStream) {
    let log = |line: &[u8]| {
        let line = String::from_utf8_lossy(line);
        tracing::info!(program, pid, ?stream, line = &*line, "output");
    };
    let mut lines = Lines::default();
    while let Some(chunk) = pump.next().await {
        lines.push(chunk, log);
    }
    lines.finish(log);
}

/// Cuts a stream into lines without their ends.
#[derive(Debug, Default)]
struct Lines {
    begun: Vec<u8>,
}

impl Lines {
    /// Takes the next bytes and gives each line that they end.
    fn push(&mut self, chunk: &[u8], mut each: impl FnMut(&[u8])) {
        let mut parts = chunk.split(|byte| *byte == b'\n');
        let last = parts.next_back().unwrap_or_default();
        for part in parts {
            self.extend(part, &mut each);
            each(self.begun.strip_suffix(b"\r").unwrap_or(&self.begun));
            self.begun.clear();
        }
        self.extend(last, &mut each);
    }

    /// Lengthens the begun line and gives the parts by which it is too long, in whole characters.
    fn extend(&mut self, bytes: &[u8], each: &mut impl FnMut(&[u8])) {
        self.begun.extend_from_slice(bytes);
        while self.begun.len() > LINE_BYTES {
            let is_inside = |at: &usize| self.begun[*at] & 0b1100_0000 == 0b1000_0000;
            let end = (LINE_BYTES - 3..=LINE_BYTES)
                .rev()
                .find(|at| !is_inside(at))
                .unwrap_or(LINE_BYTES);
            each(&self.begun[..end]);
            self.begun.drain(..end);
        }
    }

    /// Gives what follows the last end of a line.
    fn finish(self, mut each: impl FnMut(&[u8])) {
        if !self.begun.is_empty() {
            each(&self.begun);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(chunks: &[&[u8]]) -> Vec<String> {
        let mut given = Vec::new();
        let mut lines = Lines::default();
        let mut take = |line: &[u8]| given.push(String::from_utf8_lossy(line).into_owned());
        for chunk in chunks {
            lines.push(chunk, &mut take);
        }
        lines.finish(&mut take);
        given
    }

    #[test]
    fn a_line_is_whole_however_it_arrives() {
        assert_eq!(
            lines(&[b"on", b"e\r", b"\n\ntwo\nthr", b"ee"]),
            ["one", "", "two", "three"]
        );
    }

    #[test]
    fn a_line_without_end_is_given_in_parts_of_whole_characters() {
        let flood = "€".repeat(LINE_BYTES);

        let parts = lines(&[flood.as_bytes()]);

        assert!(parts.len() >= 3 && parts.iter().all(|part| part.len() <= LINE_BYTES));
        assert_eq!(parts.concat(), flood);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_but_the_ends_of_lines(text in "[ab\n]{0,40}", size in 1usize..6) {
            let chunks: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            let expected: Vec<&str> = text.lines().collect();
            prop_assert_eq!(lines(&chunks), expected);
        }
    }
}
