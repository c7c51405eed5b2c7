//! Whether a file says of itself that a program wrote it.

/// Lines at the beginning of a file in which the marker may stand (details, "Normalize and queries").
const MARKER_LINES: usize = 20;

/// Whether one of the first 20 lines holds `@generated`, or `Code generated` and after it `DO NOT EDIT`.
pub(super) fn has_generated_marker(text: &str) -> bool {
    text.split(['\n', '\r']).take(MARKER_LINES * 2).filter(|line| !line.is_empty()).take(MARKER_LINES).any(is_marker)
}

fn is_marker(line: &str) -> bool {
    let after = line.split_once("Code generated").map(|(_, after)| after);
    line.contains("@generated") || after.is_some_and(|after| after.contains("DO NOT EDIT"))
}
