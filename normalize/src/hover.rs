//! Cleaning of hover text.
//!
//! Invariant: no word is taken away. Only line ends, blanks that nobody sees and blank edges change; the language of a
//! fenced block, links and HTML stay as the server wrote them.

/// The text with LF line ends, without blanks at line ends outside of fenced blocks, and without blank lines at its
/// beginning and end. A text of blanks alone becomes empty.
pub fn clean(text: &str) -> String {
    let unified = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut fence: Option<Fence> = None;
    let mut lines = Vec::new();
    for line in unified.split('\n') {
        match fence {
            Some(open) if open.is_closed_by(line) => {
                fence = None;
                lines.push(line.trim_end());
            }
            Some(_) => lines.push(line),
            None => {
                fence = Fence::opened_by(line);
                lines.push(line.trim_end());
            }
        }
    }
    let is_blank = |line: &&str| line.trim().is_empty();
    let first = lines
        .iter()
        .position(|line| !is_blank(line))
        .unwrap_or(lines.len());
    let last = lines
        .iter()
        .rposition(|line| !is_blank(line))
        .map_or(first, |last| last + 1);
    lines[first..last].join("\n")
}

/// A fenced block of a language around code, with a fence longer than any run of backticks in it.
pub fn fence(language: &str, code: &str) -> String {
    let mut longest = 0;
    let mut run = 0;
    for character in code.chars() {
        run = if character == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(3.max(longest + 1));
    let code = code.strip_suffix('\n').unwrap_or(code);
    format!("{fence}{language}\n{code}\n{fence}")
}

/// An open fenced block of Markdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fence {
    mark: u8,
    length: usize,
}

impl Fence {
    /// The block that a line opens, if it does.
    pub(crate) fn opened_by(line: &str) -> Option<Self> {
        let content = line.trim_start_matches(' ');
        if line.len() - content.len() > 3 {
            return None;
        }
        let mark = *content.as_bytes().first()?;
        if mark != b'`' && mark != b'~' {
            return None;
        }
        let length = content.bytes().take_while(|&byte| byte == mark).count();
        let info = &content[length..];
        (length >= 3 && !(mark == b'`' && info.contains('`'))).then_some(Self { mark, length })
    }

    /// Whether a line closes this block.
    pub(crate) fn is_closed_by(self, line: &str) -> bool {
        let content = line.trim();
        content.len() >= self.length && content.bytes().all(|byte| byte == self.mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn line_ends_and_blank_edges_go() {
        assert_eq!(
            clean("\r\n  \r\nfirst  \r\n\r\nsecond\t\r\n\r\n"),
            "first\n\nsecond"
        );
        assert_eq!(clean("  indented\rnext"), "  indented\nnext");
        assert_eq!(clean(" \n\t\n"), "");
    }

    #[test]
    fn a_fenced_block_keeps_its_language_and_its_blanks() {
        let text = "```rust  \nfn f() {  \n\n}\n```  \nafter  ";
        assert_eq!(clean(text), "```rust\nfn f() {  \n\n}\n```\nafter");
    }

    #[test]
    fn links_and_markup_stay() {
        let text = "[open](command:foo?%7B%7D) <b>x</b> &nbsp;";
        assert_eq!(clean(text), text);
    }

    #[test]
    fn a_fence_is_longer_than_what_it_holds() {
        assert_eq!(fence("c", "int x;\n"), "```c\nint x;\n```");
        assert_eq!(fence("", "a ```` b"), "`````\na ```` b\n`````");
    }

    proptest! {
        #[test]
        fn cleaning_twice_is_cleaning_once(text in "[a`~ \t\r\n]{0,40}") {
            let once = clean(&text);
            prop_assert_eq!(clean(&once), once.clone());
            prop_assert!(!once.contains('\r'));
        }

        #[test]
        fn no_visible_character_is_lost(text in "[a-c`~# \t\r\n]{0,40}") {
            let visible = |text: &str| text.chars().filter(|character| !character.is_whitespace()).collect::<String>();
            prop_assert_eq!(visible(&clean(&text)), visible(&text));
        }

        #[test]
        fn a_fence_closes_where_it_was_made_to(code in "[a` \n]{0,30}") {
            let fenced = fence("x", &code);
            let mut lines = fenced.lines();
            let open = Fence::opened_by(lines.next().unwrap()).unwrap();
            let lines: Vec<_> = lines.collect();
            let closing = lines.iter().position(|line| open.is_closed_by(line));
            prop_assert_eq!(closing, Some(lines.len() - 1));
        }
    }
}
