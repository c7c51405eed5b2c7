//! The user's configuration: `[[server]]` (the registry's), `[idle]` and `[limits]`.
//!
//! A file is validated whole and in force whole: with one fault in it the defaults stand, and whoever attaches is told
//! file, line and key. It is read once, when a pool starts; whoever attaches after a change is told how to put that in
//! force.

use std::path::PathBuf;

use lspool_pool::registry::{ConfigError, Registry, nearest};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::defaults::{self, MAX_DURATION_MS};
use crate::local::{Places, config_file};

/// What is in force: the defaults, changed by a configuration file.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// All server definitions.
    pub(crate) registry: Registry,
    /// The numbers.
    pub(crate) numbers: Numbers,
    /// Folders with servers that lspool installed.
    pub(crate) installs: Vec<PathBuf>,
    /// Why the file is not in force, for people.
    complaint: Option<String>,
    /// The file as it was when it was read.
    seen: Option<config_file::Seen>,
}

/// The numbers that a configuration file can set. Durations are milliseconds, sizes bytes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Numbers {
    /// How long the daemon stays after its last connection and instance.
    pub(crate) idle_daemon_ms: u64,
    /// How long an instance stays after its last client.
    pub(crate) idle_instance_ms: u64,
    /// Connections of the daemon at once.
    pub(crate) connections: u64,
    /// The largest body of one message.
    pub(crate) body_bytes: u64,
    /// From which an outbox counts as full.
    pub(crate) outbox_bytes: u64,
    /// Queries of one connection that wait or run.
    pub(crate) queries: u64,
}

/// One key that a file may have, below its section.
struct Key {
    section: &'static str,
    name: &'static str,
    maximum: u64,
    set: fn(&mut Numbers, u64),
}

const KEYS: [Key; 6] = [
    Key {
        section: "idle",
        name: "daemon_ms",
        maximum: MAX_DURATION_MS,
        set: |numbers, value| numbers.idle_daemon_ms = value,
    },
    Key {
        section: "idle",
        name: "instance_ms",
        maximum: MAX_DURATION_MS,
        set: |numbers, value| numbers.idle_instance_ms = value,
    },
    Key {
        section: "limits",
        name: "connections",
        maximum: 100_000,
        set: |numbers, value| numbers.connections = value,
    },
    Key {
        section: "limits",
        name: "body_bytes",
        maximum: 4 << 30,
        set: |numbers, value| numbers.body_bytes = value,
    },
    Key {
        section: "limits",
        name: "outbox_bytes",
        maximum: 4 << 30,
        set: |numbers, value| numbers.outbox_bytes = value,
    },
    Key {
        section: "limits",
        name: "queries",
        maximum: 100_000,
        set: |numbers, value| numbers.queries = value,
    },
];

/// The sections of [`KEYS`].
const SECTIONS: [&str; 2] = ["idle", "limits"];

impl Default for Numbers {
    fn default() -> Self {
        Self {
            idle_daemon_ms: defaults::IDLE_DAEMON.as_millis() as u64,
            idle_instance_ms: defaults::IDLE_INSTANCE.as_millis() as u64,
            connections: defaults::MAX_CONNECTIONS as u64,
            body_bytes: defaults::MAX_BODY_BYTES,
            outbox_bytes: defaults::OUTBOX_BYTES,
            queries: defaults::MAX_QUERIES as u64,
        }
    }
}

impl Settings {
    /// The settings by this file; without one, or with one that is refused, the defaults.
    pub(crate) fn load(places: &Places) -> Self {
        let defaults = Self {
            registry: Registry::builtin(),
            numbers: Numbers::default(),
            installs: places.installs().into_iter().collect(),
            complaint: None,
            seen: places.config.as_deref().map(config_file::Seen::now),
        };
        let Some(path) = places.config.as_deref() else {
            return defaults;
        };
        match config_file::read(path) {
            Ok(None) if places.config_is_named => Self {
                complaint: Some(format!(
                    "CONFIG_INVALID: {}, which LSPOOL_CONFIG names, is not there; the defaults are in force",
                    path.display()
                )),
                ..defaults
            },
            Ok(None) => defaults,
            Ok(Some(text)) => match parse(&text, &path.display().to_string()) {
                Ok((registry, numbers)) => Self {
                    registry,
                    numbers,
                    ..defaults
                },
                Err(error) => Self {
                    complaint: Some(format!(
                        "{}: {error}; the file is not in force",
                        error.code()
                    )),
                    ..defaults
                },
            },
            Err(error) => Self {
                complaint: Some(format!(
                    "CONFIG_INVALID: {} cannot be read: {error}; it is not in force",
                    path.display()
                )),
                ..defaults
            },
        }
    }
}

impl Settings {
    /// What a person should know of the configuration file: that it is not in force, or has changed. Blocks.
    pub(crate) fn remark(&self) -> Option<String> {
        let changed = self.seen.as_ref().filter(|seen| seen.has_changed());
        let changed = changed.map(|seen| {
            format!(
                "{} has changed since lspool read it; `lspool stop` lets the next start read it again",
                seen.path().display()
            )
        });
        let remarks: Vec<String> = self.complaint.clone().into_iter().chain(changed).collect();
        (!remarks.is_empty()).then(|| remarks.join(". "))
    }
}

fn parse(text: &str, origin: &str) -> Result<(Registry, Numbers), ConfigError> {
    let registry = Registry::builtin().with_user_beside(text, origin, &SECTIONS)?;
    let source = Source { text, origin };
    let table = DeTable::parse(text).map_err(|error| {
        source.invalid(
            error.span().map_or(0, |span| span.start),
            "",
            error.message(),
        )
    })?;
    let mut numbers = Numbers::default();
    for section in SECTIONS {
        if let Some((key, value)) = table
            .get_ref()
            .iter()
            .find(|(key, _)| key.get_ref() == section)
        {
            let DeValue::Table(keys) = value.get_ref() else {
                return Err(source.invalid(key.span().start, section, "it is a table of numbers"));
            };
            for (key, value) in keys {
                source.apply(&mut numbers, section, key, value.get_ref())?;
            }
        }
    }
    Ok((registry, numbers))
}

struct Source<'a> {
    text: &'a str,
    origin: &'a str,
}

impl Source<'_> {
    fn apply(
        &self,
        numbers: &mut Numbers,
        section: &str,
        key: &Spanned<impl AsRef<str>>,
        value: &DeValue<'_>,
    ) -> Result<(), ConfigError> {
        let name = key.get_ref().as_ref();
        let at =
            |problem: &str| self.invalid(key.span().start, &format!("{section}.{name}"), problem);
        let Some(known) = KEYS
            .iter()
            .find(|known| known.section == section && known.name == name)
        else {
            let names = KEYS.iter().filter(|known| known.section == section);
            let names = names.map(|known| known.name);
            return Err(at(&match nearest(name, names) {
                Some(meant) => format!("there is no such key; the nearest is `{meant}`"),
                None => "there is no such key".to_owned(),
            }));
        };
        let number = value
            .as_integer()
            .and_then(|integer| {
                u64::from_str_radix(&integer.as_str().replace('_', ""), integer.radix()).ok()
            })
            .filter(|number| (1..=known.maximum).contains(number))
            .ok_or_else(|| at(&format!("it is an integer from 1 to {}", known.maximum)))?;
        (known.set)(numbers, number);
        Ok(())
    }

    fn invalid(&self, offset: usize, key: &str, problem: &str) -> ConfigError {
        ConfigError::Invalid {
            origin: self.origin.to_owned(),
            line: self.text[..self.text.floor_char_boundary(offset)]
                .matches('\n')
                .count()
                + 1,
            key: key.to_owned(),
            problem: problem.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn refused(text: &str, expected: &Expect) {
        expected.assert_eq(&parse(text, "c.toml").unwrap_err().to_string());
    }

    #[test]
    fn what_a_file_sets_is_in_force_and_the_rest_is_default() {
        let (_, numbers) = parse(
            "[idle]\ndaemon_ms = 1_500\n[limits]\nbody_bytes = 0x100\n",
            "c.toml",
        )
        .unwrap();
        assert_eq!(
            numbers,
            Numbers {
                idle_daemon_ms: 1_500,
                body_bytes: 256,
                ..Numbers::default()
            }
        );
    }

    #[test]
    fn an_unknown_key_names_file_line_and_the_nearest() {
        refused(
            "[idle]\n\ndeamon_ms = 1\n",
            &expect![
                "c.toml:3: `idle.deamon_ms`: there is no such key; the nearest is `daemon_ms`"
            ],
        );
    }

    #[test]
    fn a_value_that_is_not_a_positive_integer_is_refused() {
        let expected =
            expect!["c.toml:2: `limits.body_bytes`: it is an integer from 1 to 4294967296"];
        for value in ["0", "-1", "1.5", "\"1\"", "9999999999"] {
            refused(&format!("[limits]\nbody_bytes = {value}\n"), &expected);
        }
    }

    #[test]
    fn a_section_that_is_no_table_is_refused() {
        refused(
            "idle = 3\n",
            &expect!["c.toml:1: `idle`: it is a table of numbers"],
        );
    }

    #[test]
    fn a_refused_file_leaves_the_defaults_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        #[expect(clippy::disallowed_methods, reason = "a test makes its file")]
        std::fs::write(&path, "[idle]\ndaemon_ms = 5\nother = 1\n").unwrap();
        let settings = Settings::load(&Places {
            config: Some(path),
            ..Places::default()
        });
        assert_eq!(settings.numbers, Numbers::default());
        assert!(settings.remark().unwrap().starts_with("CONFIG_INVALID: "));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test makes its file")]
    fn a_file_that_was_made_changed_or_removed_since_is_remarked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        let load = || {
            Settings::load(&Places {
                config: Some(path.clone()),
                ..Places::default()
            })
        };
        let is_changed = |settings: &Settings| {
            settings
                .remark()
                .is_some_and(|remark| remark.contains("has changed"))
        };

        let before = load();
        assert_eq!(before.remark(), None);
        std::fs::write(&path, "[idle]\ndaemon_ms = 5\n").unwrap();
        assert!(is_changed(&before), "made");

        let made = load();
        assert_eq!(made.remark(), None);
        std::fs::write(&path, "[idle]\ndaemon_ms = 50\n").unwrap();
        assert!(is_changed(&made), "changed");

        let changed = load();
        std::fs::remove_file(&path).unwrap();
        assert!(is_changed(&changed), "removed");
        assert_eq!(changed.numbers.idle_daemon_ms, 50, "what was read stays");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*") {
            let _ = parse(&text, "c.toml");
        }
    }
}
