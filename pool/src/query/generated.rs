//! Whether a file says of itself that a program wrote it.

use lspool_normalize::LineIndex;

/// Lines at the beginning of a file in which the marker may stand (details, "Normalize and queries").
const MARKER_LINES: u32 = 20;

/// Whether one of the first 20 lines holds `@generated`, or `Code generated` and after it `DO NOT EDIT`.
pub(super) fn has_generated_marker(index: &LineIndex<'_>) -> bool {
    (0..MARKER_LINES)
        .filter_map(|line| index.line(line))
        .any(is_marker)
}

fn is_marker(line: &str) -> bool {
    let after = line.split_once("Code generated").map(|(_, after)| after);
    line.contains("@generated") || after.is_some_and(|after| after.contains("DO NOT EDIT"))
}
