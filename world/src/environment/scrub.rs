//! The one table of what a scrub takes out of an environment. Owns the rule that names decide and values are never
//! looked at.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The managed namespace: always removed, in any case; no exception reaches it.
const MANAGED_PREFIX: &str = "LSPOOL_";

/// Names that hold a credential, or the way to one, without saying so.
const EXACT: &[&str] = &[
    "AMQP_URL",
    "AUTH",
    "AWS_ACCESS_KEY_ID",
    "CI_JOB_JWT",
    "CREDS",
    "DATABASE_URI",
    "DATABASE_URL",
    "DSN",
    "GPG_AGENT_INFO",
    "JDBC_URL",
    "JWT",
    "KRB5CCNAME",
    "MONGODB_URI",
    "MONGODB_URL",
    "MONGO_URI",
    "MONGO_URL",
    "MYSQL_URL",
    "PASS",
    "PAT",
    "POSTGRES_URL",
    "REDIS_URL",
    "SSH_AGENT_PID",
    "SSH_AUTH_SOCK",
    "VSCODE_GIT_IPC_HANDLE",
    "WEBHOOK_URL",
];

/// Patterns over the whole name; `*` stands for any text, `_` and letters for themselves, in any case.
const PATTERNS: &[&str] = &[
    "AUTH_*",
    "*_AUTH",
    "*_AUTH_*",
    "*_CONNECTION_STRING",
    "*_CREDS",
    "*_DATABASE_URI",
    "*_DATABASE_URL",
    "*_DSN",
    "*_JWT",
    "*_PASS",
    "*_PAT",
    "*_PWD",
    "*_REDIS_URL",
    "*_WEBHOOK_URL",
];

/// Parts that make a name one of a credential wherever they stand.
const PARTS: &[&str] = &[
    "ASKPASS",
    "AUTHORIZATION",
    "BEARER",
    "COOKIE",
    "CREDENTIAL",
    "KEY",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "SECRET",
    "TOKEN",
];

/// Words in which such a part means something else. They are taken out of a name before the parts are looked for, so
/// that `KEYBOARD_LAYOUT` stays and `KEYBOARD_API_KEY` goes. Longer words stand before their beginnings.
const INNOCENT_WORDS: &[&str] = &[
    "DONKEY",
    "HOCKEY",
    "KEYBOARD",
    "KEYCODE",
    "KEYMAP",
    "KEYNOTE",
    "KEYTIMEOUT",
    "KEYWORD",
    "MONKEY",
    "SECRETARY",
    "TOKENIZATION",
    "TOKENIZERS",
    "TOKENIZER",
    "TURKEY",
    "WHISKEY",
];

/// The rules of a scrub: built in, and extended by a user's patterns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrubRules {
    removed: Vec<String>,
    kept: Vec<String>,
}

impl ScrubRules {
    /// The built-in table alone.
    pub fn builtin() -> Self {
        Self {
            removed: Vec::new(),
            kept: Vec::new(),
        }
    }

    /// The rules that also remove names that match `pattern` (`*` stands for any text; case does not matter).
    #[must_use]
    pub fn also_remove(mut self, pattern: &str) -> Self {
        self.removed.push(pattern.to_ascii_uppercase());
        self
    }

    /// The rules that keep names that match `pattern` whatever removes them, except for the managed namespace.
    #[must_use]
    pub fn also_keep(mut self, pattern: &str) -> Self {
        self.kept.push(pattern.to_ascii_uppercase());
        self
    }

    /// Whether the rules remove a variable of this name.
    pub fn removes(&self, name: &OsStr) -> bool {
        let name: Vec<u8> = name.as_bytes().to_ascii_uppercase();
        if name.starts_with(MANAGED_PREFIX.as_bytes()) {
            return true;
        }
        let is_kept = self
            .kept
            .iter()
            .any(|pattern| matches(pattern.as_bytes(), &name));
        !is_kept
            && (is_credential(&name)
                || self
                    .removed
                    .iter()
                    .any(|pattern| matches(pattern.as_bytes(), &name)))
    }
}

impl Default for ScrubRules {
    fn default() -> Self {
        Self::builtin()
    }
}

/// Whether the built-in table removes `name`, which is in upper case.
fn is_credential(name: &[u8]) -> bool {
    if EXACT.iter().any(|exact| exact.as_bytes() == name) {
        return true;
    }
    if PATTERNS
        .iter()
        .any(|pattern| matches(pattern.as_bytes(), name))
    {
        return true;
    }
    let mut rest = name.to_vec();
    for word in INNOCENT_WORDS {
        blank_out(&mut rest, word.as_bytes());
    }
    PARTS
        .iter()
        .any(|part| find(&rest, part.as_bytes()).is_some())
}

/// Overwrites every occurrence of `word`, so that what stood around it does not grow together.
fn blank_out(name: &mut [u8], word: &[u8]) {
    while let Some(start) = find(name, word) {
        name[start..start + word.len()].fill(b' ');
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

/// Whether `pattern` describes the whole of `name`.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let mut parts = pattern.split(|byte| *byte == b'*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts.filter(|part| !part.is_empty()) {
        match find(rest, part) {
            Some(start) => rest = &rest[start + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn removed(name: &str) -> bool {
        ScrubRules::builtin().removes(OsStr::new(name))
    }

    #[test]
    fn names_of_credentials_go() {
        for name in [
            "SSH_AUTH_SOCK",
            "DATABASE_URL",
            "STAGING_DATABASE_URL",
            "GITHUB_PAT",
            "SIGNING_PASSPHRASE",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_ACCESS_KEY_ID",
            "AWS_SESSION_TOKEN",
            "AWS_SECURITY_TOKEN",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "OPENAI_API_KEY",
            "apiKey",
            "npm_config__authToken",
            "DB_PASSWORD",
            "MYSQL_PWD",
            "DB_PASS",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "SENTRY_DSN",
            "KEYBOARD_API_KEY",
            "MONKEY_TOKEN",
            "NPM_AUTH",
            "BASIC_AUTH_USER",
            "AUTH_HEADER",
            "DOCKER_AUTH_CONFIG",
            "PASSWD",
            "SESSION_COOKIE",
            "CREDENTIALS",
            "GIT_ASKPASS",
            "SLACK_WEBHOOK_URL",
            "SQLALCHEMY_DATABASE_URI",
            "GNOME_KEYRING_CONTROL",
        ] {
            assert!(removed(name), "{name} was kept");
        }
    }

    #[test]
    fn names_that_only_look_like_it_stay() {
        for name in [
            "PATH",
            "HOME",
            "PWD",
            "OLDPWD",
            "KEYBOARD_LAYOUT",
            "MONKEY",
            "TOKENIZERS_PARALLELISM",
            "GIT_AUTHOR_NAME",
            "COMPASS",
            "AWS_REGION",
            "AWS_PROFILE",
            "AWS_CONFIG_FILE",
            "AUTHOR",
            "KEYTIMEOUT",
            "DISPLAY",
            "XAUTHORITY",
            "DBUS_SESSION_BUS_ADDRESS",
            "XDG_SESSION_ID",
            "PYTHONPATH",
            "LANG",
            "CARGO_HOME",
            "NODE_PATH",
            "keyboardLayout",
            "BYPASS",
            "LSPOOLISH",
        ] {
            assert!(!removed(name), "{name} was removed");
        }
    }

    #[test]
    fn the_managed_namespace_goes_in_any_case_and_no_exception_reaches_it() {
        let rules = ScrubRules::builtin().also_keep("*");

        assert!(rules.removes(OsStr::new("LSPOOL_TREE")));
        assert!(rules.removes(OsStr::new("lspool_log")));
        assert!(!rules.removes(OsStr::new("API_KEY")));
    }

    #[test]
    fn a_user_extends_both_sides() {
        let rules = ScrubRules::builtin()
            .also_remove("corp_*_id")
            .also_keep("PUBLIC_KEY");

        assert!(rules.removes(OsStr::new("CORP_BADGE_ID")));
        assert!(!rules.removes(OsStr::new("CORP_BADGE")));
        assert!(!rules.removes(OsStr::new("PUBLIC_KEY")));
        assert!(rules.removes(OsStr::new("PUBLIC_KEY_2")));
    }

    proptest! {
        #[test]
        fn no_surrounding_saves_a_credential(before in "[A-Z]{0,6}_", part in proptest::sample::select(PARTS), after in "(_[A-Z]{0,6})?") {
            let name = format!("{before}{part}{after}");
            prop_assert!(removed(&name));
        }

        #[test]
        fn a_pattern_of_stars_is_judged_like_its_parts(a in "[AB]{0,3}", b in "[AB]{0,3}", name in "[AB]{0,8}") {
            let pattern = format!("{a}*{b}");
            let expected = name.len() >= a.len() + b.len() && name.starts_with(&a) && name.ends_with(&b);
            prop_assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected);
        }
    }
}
