//! Random messages that are valid JSON and hard to read right, for the tests of everything that parses.
//!
//! A generator is a pure function of its seed, so that a failure is found again.

/// A source of random messages.
pub(crate) struct Generator {
    state: u64,
}

/// A message that was made.
pub(crate) struct Message {
    pub(crate) body: Vec<u8>,
}

const STRINGS: &[&str] = &[
    "\"\"",
    "\"x\"",
    r#""\"id\":7""#,
    r#"",\"id\":7}""#,
    r#"",\"id\": 7 } ""#,
    r#""\\""#,
    r#""\\\"""#,
    r#""{\"id\":1,\"method\":\"no\"}""#,
    "\"raw é 😀\"",
    r#""\u00e9""#,
    r#""\ud800 alone""#,
    r#""\ud83d\ude00""#,
    r#""result""#,
    r#""}}""#,
    r#""]}""#,
    "\"Content-Length: 5\"",
    r#""\u0000\b\f\n\r\t\/""#,
];

const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "1",
    "-7",
    "1e2",
    "1E+2",
    "1.0",
    "0.5e-3",
    "123456789012345678901234567890",
    "9007199254740993",
];

const IDS: &[&str] = &[
    "0",
    "1",
    "\"1\"",
    "1.0",
    "1e2",
    "-5",
    "123456789012345678901234567890",
    r#""\u0031""#,
    r#""a\"b""#,
    "\"é\"",
    r#""\u00e9""#,
    "\"\"",
    r#""\\""#,
    "null",
];

const METHODS: &[&str] = &[
    "\"textDocument/hover\"",
    "\"$/progress\"",
    r#""textDocument\/hover""#,
    r#""textDocument/\u0068over""#,
    "\"vendor/é\"",
    "\"\"",
];

const ENVELOPE_KEYS: &[&str] = &[
    "\"id\"",
    "\"method\"",
    "\"params\"",
    "\"error\"",
    "\"x\"",
    r#""\"id""#,
];

/// Names of members that the edge reads.
const CONTENT_KEYS: &[&str] = &[
    "\"textDocument\"",
    "\"uri\"",
    "\"version\"",
    "\"text\"",
    "\"contentChanges\"",
    "\"range\"",
    "\"id\"",
    "\"token\"",
    "\"workDoneToken\"",
    "\"value\"",
    "\"kind\"",
    "\"percentage\"",
    "\"settings\"",
    "\"capabilities\"",
    "\"experimental\"",
    "\"lspool\"",
    "\"workspaceFolders\"",
    "\"processId\"",
    "\"registrations\"",
    "\"unregisterations\"",
    "\"items\"",
    "\"diagnostics\"",
    "\"method\"",
];

const VENDOR_KEYS: &[&str] = &[
    "\"jsonrpc\"",
    "\"traceparent\"",
    "\"_vs_id\"",
    r#""x\"id""#,
    r#""\u0070ayload""#,
    "\"ID\"",
    "\"id \"",
    "\"Params\"",
    r#""\\id""#,
];

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number of the `SplitMix64` generator.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn blanks(&mut self) -> &'static str {
        if self.chance(2) {
            ""
        } else {
            self.pick(&[" ", "\r\n", "\n\t", "  ", "\r", " \r\n "])
        }
    }

    /// A JSON value nested at most `depth` deep.
    pub(crate) fn value(&mut self, depth: usize) -> String {
        match self.below(if depth == 0 { 3 } else { 5 }) {
            0 => self.pick(STRINGS).to_owned(),
            1 => self.pick(NUMBERS).to_owned(),
            2 => self.pick(&["null", "true", "false"]).to_owned(),
            3 => {
                let items = (0..self.below(4))
                    .map(|_| self.value(depth - 1))
                    .collect::<Vec<_>>();
                self.joined('[', &items, ']')
            }
            _ => {
                let members = (0..self.below(4))
                    .map(|_| {
                        let key = self.key();
                        let value = self.value(depth - 1);
                        self.member(key, &value)
                    })
                    .collect::<Vec<_>>();
                self.joined('{', &members, '}')
            }
        }
    }

    fn key(&mut self) -> &'static str {
        let keys = if self.chance(2) {
            ENVELOPE_KEYS
        } else {
            CONTENT_KEYS
        };
        self.pick(keys)
    }

    /// A message of one method, whose params have the protocol's member names with any values.
    pub(crate) fn message_of(&mut self, method: &str, is_request: bool) -> Vec<u8> {
        let id = if is_request { "\"id\":3," } else { "" };
        let count = self.below(6);
        let members = (0..count)
            .map(|_| {
                let key = self.pick(CONTENT_KEYS);
                let value = self.value(3);
                self.member(key, &value)
            })
            .collect::<Vec<_>>();
        let params = self.joined('{', &members, '}');
        format!("{{{id}\"method\":\"{method}\",\"params\":{params}}}").into_bytes()
    }

    fn member(&mut self, key: &str, value: &str) -> String {
        format!("{key}{}:{}{value}", self.blanks(), self.blanks())
    }

    fn joined(&mut self, open: char, parts: &[String], close: char) -> String {
        let mut text = format!("{open}{}", self.blanks());
        for (index, part) in parts.iter().enumerate() {
            if index > 0 {
                text.push_str(self.blanks());
                text.push(',');
                text.push_str(self.blanks());
            }
            text.push_str(part);
        }
        format!("{text}{}{close}", self.blanks())
    }

    /// A message: mostly of a legal kind, its members in any order, with vendor members among them.
    pub(crate) fn message(&mut self) -> Message {
        let mut members = Vec::new();
        let shape = self.below(16);
        if !matches!(shape, 0..4) {
            let key = if self.chance(12) {
                r#""\u0069d""#
            } else {
                "\"id\""
            };
            let id = if self.chance(30) {
                self.value(1)
            } else {
                self.pick(IDS).to_owned()
            };
            members.push(self.member(key, &id));
        }
        if shape < 9 || self.chance(20) {
            let method = if self.chance(30) {
                self.value(1)
            } else {
                self.pick(METHODS).to_owned()
            };
            members.push(self.member("\"method\"", &method));
        }
        let payload: &[&str] = match shape {
            0..8 => &["\"params\""],
            8 => &[],
            9..12 => &["\"result\""],
            12..14 => &["\"error\""],
            14 => &["\"result\"", "\"error\""],
            _ => &["\"params\"", "\"result\""],
        };
        for key in payload {
            let value = self.value(3);
            members.push(self.member(key, &value));
        }
        for _ in 0..self.below(3) {
            let key = self.pick(VENDOR_KEYS);
            let value = self.value(2);
            members.push(self.member(key, &value));
        }
        if self.chance(25) && !members.is_empty() {
            let again = members[self.below(members.len())].clone();
            members.push(again);
        }
        self.order(&mut members);
        let text = self.joined('{', &members, '}');
        Message {
            body: format!("{}{text}{}", self.blanks(), self.blanks()).into_bytes(),
        }
    }

    /// Half the time as written, with the id first or last; otherwise shuffled.
    fn order(&mut self, members: &mut [String]) {
        match self.below(4) {
            0 => {}
            1 if !members.is_empty() => members.rotate_left(1),
            _ => {
                for index in (1..members.len()).rev() {
                    members.swap(index, self.below(index + 1));
                }
            }
        }
    }

    /// The message with one byte changed, put in or taken out, mostly no longer JSON.
    pub(crate) fn damaged(&mut self) -> Vec<u8> {
        let mut body = self.message().body;
        let at = self.below(body.len());
        let byte = self.pick(b"\"\\{}[],: \x00\xff\xe9a0e-");
        match self.below(4) {
            0 => body[at] = byte,
            1 => body.insert(at, byte),
            2 => drop(body.remove(at)),
            _ => body.truncate(at),
        }
        body
    }
}
