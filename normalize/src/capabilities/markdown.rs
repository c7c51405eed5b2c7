//! Markdown as plain text, for clients that take nothing else.
//!
//! Invariant: marks go, words stay. Code keeps every character; what is not surely a mark is left as it stands, so that
//! `snake_case`, `a * b` and `Vec<T>` survive.

use crate::hover::Fence;

/// The text that a reader of the Markdown would see.
///
/// Fences, heading marks, quote marks, rules, emphasis, code marks and escapes go; a link becomes its text with the
/// address in parentheses, an image its description; lists and tables stay as they are written. Of several blank lines
/// between paragraphs one is left, at the edges none.
pub fn plain_text(markdown: &str) -> String {
    let unified = markdown.replace("\r\n", "\n").replace('\r', "\n");
    let mut fence: Option<Fence> = None;
    let mut lines: Vec<String> = Vec::new();
    for line in unified.split('\n') {
        if let Some(open) = fence {
            if open.is_closed_by(line) {
                fence = None;
            } else {
                lines.push(line.to_owned());
            }
            continue;
        }
        fence = Fence::opened_by(line);
        if fence.is_some() {
            continue;
        }
        let is_code = line.starts_with("    ") || line.starts_with('\t');
        let text = match line {
            code if is_code => code.to_owned(),
            rule if is_rule(rule) => String::new(),
            prose => inline(without_block_marks(prose)),
        };
        let repeats_blank = text.is_empty() && lines.last().is_some_and(String::is_empty);
        if !repeats_blank {
            lines.push(text);
        }
    }
    let text = lines.join("\n");
    text.trim_matches('\n').to_owned()
}

/// Whether the line is a thematic break: three or more of one of `-`, `*` and `_`, blanks between them.
fn is_rule(line: &str) -> bool {
    let mut marks = line.chars().filter(|character| !character.is_whitespace());
    let Some(first) = marks.next() else {
        return false;
    };
    matches!(first, '-' | '*' | '_')
        && line.matches(first).count() >= 3
        && marks.all(|mark| mark == first)
}

/// The line without the marks of quotes and headings, and without a hard break at its end.
fn without_block_marks(line: &str) -> &str {
    let mut rest = line.trim_end();
    rest = rest.strip_suffix('\\').unwrap_or(rest);
    while let Some(quoted) = rest.trim_start().strip_prefix('>') {
        rest = quoted.strip_prefix(' ').unwrap_or(quoted);
    }
    let unindented = rest.trim_start();
    let level = unindented.bytes().take_while(|&byte| byte == b'#').count();
    let after = &unindented[level..];
    if (1..=6).contains(&level) && (after.is_empty() || after.starts_with(' ')) {
        return after.trim().trim_end_matches('#').trim_end();
    }
    rest
}

/// The text of one line without inline marks.
fn inline(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    let mut before = None;
    while let Some(character) = rest.chars().next() {
        let taken = match character {
            '\\' => escape(rest),
            '`' => Some(code(rest)),
            '!' | '[' => link(rest),
            '<' => autolink(rest),
            '&' => entity(rest),
            '*' | '_' | '~' => emphasis(rest, before),
            _ => None,
        };
        let (text, length) = taken.unwrap_or_else(|| (character.to_string(), character.len_utf8()));
        before = rest[..length].chars().next_back();
        out.push_str(&text);
        rest = &rest[length..];
    }
    out
}

/// `\*` is `*`.
fn escape(rest: &str) -> Option<(String, usize)> {
    let escaped = rest[1..]
        .chars()
        .next()
        .filter(char::is_ascii_punctuation)?;
    Some((escaped.to_string(), 2))
}

/// A code span: its content as it stands.
fn code(rest: &str) -> (String, usize) {
    let ticks = rest.bytes().take_while(|&byte| byte == b'`').count();
    let body = &rest[ticks..];
    let mut at = 0;
    while let Some(found) = body[at..].find('`') {
        let start = at + found;
        let run = body[start..]
            .bytes()
            .take_while(|&byte| byte == b'`')
            .count();
        if run == ticks {
            let content = &body[..start];
            let padded = content
                .strip_prefix(' ')
                .and_then(|content| content.strip_suffix(' '));
            let content = padded
                .filter(|inner| !inner.trim().is_empty())
                .unwrap_or(content);
            return (content.to_owned(), ticks + start + ticks);
        }
        at = start + run;
    }
    // Ticks that nothing closes are text, all of them at once.
    ("`".repeat(ticks), ticks)
}

/// `[text](address)` or `![description](address)`.
fn link(rest: &str) -> Option<(String, usize)> {
    let is_image = rest.starts_with('!');
    let label_start = if is_image { 2 } else { 1 };
    if is_image && !rest[1..].starts_with('[') {
        return None;
    }
    let label_end = label_start + closing(&rest[label_start..], '[', ']')?;
    let after = rest[label_end + 1..].strip_prefix('(')?;
    let target_length = closing(after, '(', ')')?;
    let target = after[..target_length]
        .split_whitespace()
        .next()
        .unwrap_or_default();
    let target = target
        .strip_prefix('<')
        .and_then(|inner| inner.strip_suffix('>'))
        .unwrap_or(target);
    let label = inline(&rest[label_start..label_end]);
    let length = label_end + 1 + 1 + target_length + 1;
    let text = if is_image || target.is_empty() || label == target {
        label
    } else {
        format!("{label} ({target})")
    };
    Some((text, length))
}

/// Where the bracket that is already open closes.
fn closing(text: &str, open: char, close: char) -> Option<usize> {
    let mut depth = 0_usize;
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if character == '\\' {
            escaped = true;
        } else if character == open {
            depth += 1;
        } else if character == close {
            if depth == 0 {
                return Some(at);
            }
            depth -= 1;
        }
    }
    None
}

/// `<https://…>` is its address; any other angle bracket is text.
fn autolink(rest: &str) -> Option<(String, usize)> {
    let end = rest.find('>')?;
    let address = &rest[1..end];
    let is_address = address.contains("://") && !address.contains(char::is_whitespace);
    is_address.then(|| (address.to_owned(), end + 1))
}

/// The few entities that servers write.
fn entity(rest: &str) -> Option<(String, usize)> {
    const ENTITIES: [(&str, &str); 7] = [
        ("&nbsp;", " "),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&amp;", "&"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&apos;", "'"),
    ];
    ENTITIES
        .iter()
        .find(|(name, _)| rest.starts_with(name))
        .map(|(name, text)| ((*text).to_owned(), name.len()))
}

/// Emphasis that surely is one: a run of marks before a word with the same run closing after a word; for `_` and `~`
/// neither may be inside one.
fn emphasis(rest: &str, before: Option<char>) -> Option<(String, usize)> {
    let mark = rest.chars().next()?;
    let run = rest
        .chars()
        .take_while(|&character| character == mark)
        .count();
    let whole_run = Some((rest[..run].to_owned(), run));
    let is_word = |character: Option<char>| character.is_some_and(char::is_alphanumeric);
    let body = &rest[run..];
    let opens = body
        .chars()
        .next()
        .is_some_and(|character| !character.is_whitespace());
    let allowed = run <= 3 && (mark != '~' || run == 2) && (mark == '*' || !is_word(before));
    if !opens || !allowed {
        return whole_run;
    }
    let marks = &rest[..run];
    let mut at = 0;
    while let Some(found) = body[at..].find(marks) {
        let start = at + found;
        let length = body[start..]
            .chars()
            .take_while(|&character| character == mark)
            .count();
        let closes = body[..start]
            .chars()
            .next_back()
            .is_some_and(|character| !character.is_whitespace());
        let ends_word = mark == '*' || !is_word(body[start + length..].chars().next());
        if length == run && closes && ends_word {
            return Some((inline(&body[..start]), run + start + run));
        }
        at = start + length;
    }
    whole_run
}
