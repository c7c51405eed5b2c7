//! The user's configuration: `[[server]]` (the registry's), `[idle]`, `[limits]`, `[containment]` and
//! `[environment]`.
//!
//! A file is validated whole and in force whole: with one fault in it the defaults stand, and whoever attaches is told
//! file, line and key. It is read once, when a pool starts; whoever attaches after a change is told how to put that in
//! force.

mod patterns;

use std::path::PathBuf;

use lspool_pool::registry::{ConfigError, Registry, nearest};
use lspool_world::ScrubRules;
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
    /// What holds process trees together.
    pub(crate) containment: Containment,
    /// Which variables a child that is not given everything gets not: the built-in table with the file's additions.
    pub(crate) scrub_rules: ScrubRules,
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
    /// How long a server that has been given more than it reads may read nothing before requests for it are refused.
    pub(crate) stall_ms: u64,
}

/// What a configuration file can say of how process trees are held together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Containment {
    /// Whether control groups are used where they can be made.
    pub(crate) control_groups: bool,
}

/// What the sections of a file set.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Values {
    numbers: Numbers,
    containment: Containment,
    scrub_rules: ScrubRules,
}

/// One key that a file may have, below its section.
struct Key {
    section: &'static str,
    name: &'static str,
    rule: Rule,
}

/// What the value of a key may be, and where it goes.
enum Rule {
    /// An integer from 1 to this.
    Number(u64, fn(&mut Numbers, u64)),
    /// `true` or `false`.
    Switch(fn(&mut Containment, bool)),
    /// A list of patterns of variables' names, each of which extends the rules.
    Patterns(fn(ScrubRules, &str) -> ScrubRules),
}

const KEYS: [Key; 10] = [
    Key {
        section: "idle",
        name: "daemon_ms",
        rule: Rule::Number(MAX_DURATION_MS, |numbers, value| {
            numbers.idle_daemon_ms = value;
        }),
    },
    Key {
        section: "idle",
        name: "instance_ms",
        rule: Rule::Number(MAX_DURATION_MS, |numbers, value| {
            numbers.idle_instance_ms = value;
        }),
    },
    Key {
        section: "limits",
        name: "connections",
        rule: Rule::Number(100_000, |numbers, value| numbers.connections = value),
    },
    Key {
        section: "limits",
        name: "body_bytes",
        rule: Rule::Number(4 << 30, |numbers, value| numbers.body_bytes = value),
    },
    Key {
        section: "limits",
        name: "outbox_bytes",
        rule: Rule::Number(4 << 30, |numbers, value| numbers.outbox_bytes = value),
    },
    Key {
        section: "limits",
        name: "queries",
        rule: Rule::Number(100_000, |numbers, value| numbers.queries = value),
    },
    Key {
        section: "limits",
        name: "stall_ms",
        rule: Rule::Number(defaults::CORE_LIMITS.hung_ms, |numbers, value| {
            numbers.stall_ms = value;
        }),
    },
    Key {
        section: "containment",
        name: "control_groups",
        rule: Rule::Switch(|containment, value| containment.control_groups = value),
    },
    Key {
        section: "environment",
        name: "remove",
        rule: Rule::Patterns(ScrubRules::also_remove),
    },
    Key {
        section: "environment",
        name: "keep",
        rule: Rule::Patterns(ScrubRules::also_keep),
    },
];

/// The sections of [`KEYS`].
const SECTIONS: [&str; 4] = ["idle", "limits", "containment", "environment"];

impl Default for Containment {
    fn default() -> Self {
        Self {
            control_groups: defaults::CONTROL_GROUPS,
        }
    }
}

impl Default for Numbers {
    fn default() -> Self {
        Self {
            idle_daemon_ms: defaults::IDLE_DAEMON.as_millis() as u64,
            idle_instance_ms: defaults::IDLE_INSTANCE.as_millis() as u64,
            connections: defaults::MAX_CONNECTIONS as u64,
            body_bytes: defaults::MAX_BODY_BYTES,
            outbox_bytes: defaults::OUTBOX_BYTES,
            queries: defaults::MAX_QUERIES as u64,
            stall_ms: defaults::CORE_LIMITS.stall_ms,
        }
    }
}

impl Settings {
    /// The settings by this file; without one, or with one that is refused, the defaults.
    pub(crate) fn load(places: &Places) -> Self {
        let defaults = Self {
            registry: Registry::builtin(),
            numbers: Numbers::default(),
            containment: Containment::default(),
            scrub_rules: ScrubRules::builtin(),
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
                Ok((registry, values)) => Self {
                    registry,
                    numbers: values.numbers,
                    containment: values.containment,
                    scrub_rules: values.scrub_rules,
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

fn parse(text: &str, origin: &str) -> Result<(Registry, Values), ConfigError> {
    let registry = Registry::builtin().with_user_beside(text, origin, &SECTIONS)?;
    let source = Source { text, origin };
    let table = DeTable::parse(text).map_err(|error| {
        source.invalid(
            error.span().map_or(0, |span| span.start),
            "",
            error.message(),
        )
    })?;
    let mut values = Values::default();
    for section in SECTIONS {
        if let Some((key, value)) = table
            .get_ref()
            .iter()
            .find(|(key, _)| key.get_ref() == section)
        {
            let DeValue::Table(keys) = value.get_ref() else {
                return Err(source.invalid(key.span().start, section, "it is a table"));
            };
            for (key, value) in keys {
                source.apply(&mut values, section, key, value.get_ref())?;
            }
        }
    }
    Ok((registry, values))
}

struct Source<'a> {
    text: &'a str,
    origin: &'a str,
}

impl Source<'_> {
    fn apply(
        &self,
        values: &mut Values,
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
        match known.rule {
            Rule::Number(maximum, set) => {
                let number = value
                    .as_integer()
                    .and_then(|integer| {
                        u64::from_str_radix(&integer.as_str().replace('_', ""), integer.radix())
                            .ok()
                    })
                    .filter(|number| (1..=maximum).contains(number))
                    .ok_or_else(|| at(&format!("it is an integer from 1 to {maximum}")))?;
                set(&mut values.numbers, number);
            }
            Rule::Switch(set) => {
                let switch = value
                    .as_bool()
                    .ok_or_else(|| at("it is `true` or `false`"))?;
                set(&mut values.containment, switch);
            }
            Rule::Patterns(extend) => {
                for pattern in patterns::read(value).map_err(|problem| at(&problem))? {
                    values.scrub_rules = extend(values.scrub_rules.clone(), &pattern);
                }
            }
        }
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
        let (_, values) = parse(
            "[idle]\ndaemon_ms = 1_500\n[limits]\nbody_bytes = 0x100\n",
            "c.toml",
        )
        .unwrap();
        assert_eq!(
            values.numbers,
            Numbers {
                idle_daemon_ms: 1_500,
                body_bytes: 256,
                ..Numbers::default()
            }
        );
        assert_eq!(values.containment, Containment::default());
    }

    #[test]
    fn a_switch_is_set_by_true_and_false_and_nothing_else() {
        for value in [true, false] {
            let text = format!("[containment]\ncontrol_groups = {value}\n");
            let (_, values) = parse(&text, "c.toml").unwrap();
            assert_eq!(values.containment.control_groups, value);
        }
        refused(
            "[containment]\ncontrol_groups = 1\n",
            &expect!["c.toml:2: `containment.control_groups`: it is `true` or `false`"],
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
    fn patterns_extend_both_sides_of_the_scrub() {
        let (_, values) = parse(
            "[environment]\nremove = [\"CORP_*\", \"badge\"]\nkeep = [\"PUBLIC_KEY\"]\n",
            "c.toml",
        )
        .unwrap();
        let removes = |name: &str| values.scrub_rules.removes(name.as_ref());
        assert!(removes("CORP_ID") && removes("BADGE") && removes("API_KEY"));
        assert!(!removes("PUBLIC_KEY") && !removes("LANG"));
    }

    #[test]
    fn what_is_no_list_of_names_is_refused() {
        let expected = expect![
            "c.toml:2: `environment.keep`: it is a list of names of variables, in which `*` stands for any text"
        ];
        for value in ["\"LANG\"", "1", "[1]", "{}"] {
            refused(&format!("[environment]\nkeep = {value}\n"), &expected);
        }
        refused(
            "[environment]\nkeep = [\"\"]\n",
            &expect!["c.toml:2: `environment.keep`: \"\" can be no variable's name"],
        );
        refused(
            "[environment]\nremove = [\"A=B\"]\n",
            &expect!["c.toml:2: `environment.remove`: \"A=B\" can be no variable's name"],
        );
    }

    #[test]
    fn a_section_that_is_no_table_is_refused() {
        refused("idle = 3\n", &expect!["c.toml:1: `idle`: it is a table"]);
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
