//! From TOML to definitions: one decoder for the built-in table and for a person's file.
//!
//! A file is decoded whole before anything of it is in force. A definition whose `id` is known changes
//! that definition key by key (a key given replaces the whole value of that key); any other `id` adds a
//! definition that begins as the `[defaults]` of the built-in table.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Map;
use toml::de::DeTable;

use super::definition::{
    Definition, EnvironmentRule, InstallHint, Language, PathPattern, Readiness, RootPick, RootRule,
    TokenRule,
};
use super::error::ConfigError;
use super::table::{Located, Reader, Source};

/// Durations are a JSON number of at most 31 bits (protocol, "Conventions").
const MAX_DURATION_MS: u64 = 2_147_483_647;
/// A document is opened whole; beyond a GiB that is never what was meant.
const MAX_DOCUMENT_BYTES: u64 = 1 << 30;

/// What one file holds.
pub(super) struct Decoded {
    /// What definitions that the file adds begin as.
    pub(super) defaults: Option<Definition>,
    /// The definitions that the file changes or adds, in its order.
    pub(super) servers: Vec<DecodedServer>,
}

/// One `[[server]]` of a file, complete.
pub(super) struct DecodedServer {
    /// The definition after the file's keys were applied.
    pub(super) definition: Definition,
    /// `enabled = false` takes the definition out of the registry.
    pub(super) enabled: bool,
}

/// Decodes `text`. `known` finds the definition that an `id` changes, `defaults` is what a new one begins
/// as, `others` are top-level keys that belong to other readers of the same file.
///
/// # Errors
/// `CONFIG_INVALID`, `CONFIG_CONFLICT`.
pub(super) fn decode<'d>(
    text: &str,
    origin: &str,
    known: impl Fn(&str) -> Option<&'d Definition>,
    defaults: Option<&'d Definition>,
    others: &[&str],
) -> Result<Decoded, ConfigError> {
    let source = Source { origin, text };
    let document = DeTable::parse(text).map_err(|error| {
        source.invalid(
            error.span().map_or(0, |span| span.start),
            "",
            error.message(),
        )
    })?;
    let mut top = Reader::new(&source, String::new(), 0, document.get_ref());
    let own_defaults = match defaults {
        // Only the built-in table, which is decoded without defaults of its own, may set them.
        None => top.table("defaults")?.map(decode_defaults).transpose()?,
        Some(_) => None,
    };
    let mut servers: Vec<DecodedServer> = Vec::new();
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    for mut reader in top.tables("server")?.unwrap_or_default() {
        let Some(id) = reader.string("id")? else {
            return Err(reader.invalid("a server needs an `id`"));
        };
        let line = source.line(id.offset);
        if let Some(first_line) = lines.insert(id.value.clone(), line) {
            return Err(ConfigError::Conflict {
                origin: origin.to_owned(),
                line,
                first_line,
                id: id.value,
            });
        }
        reader.rename(format!("server.{}", id.value));
        let base = known(&id.value).or(defaults).or(own_defaults.as_ref());
        let Some(base) = base else {
            return Err(reader.invalid("the file has no `[defaults]` for a new server to begin as"));
        };
        servers.push(decode_server(reader, id.value, base)?);
    }
    top.finish(others)?;
    Ok(Decoded {
        defaults: own_defaults,
        servers,
    })
}

fn decode_server(
    mut reader: Reader<'_, '_>,
    id: String,
    base: &Definition,
) -> Result<DecodedServer, ConfigError> {
    let enabled = reader.boolean("enabled")?.unwrap_or(true);
    let mut definition = base.clone();
    definition.id = id;
    apply(&mut reader, &mut definition)?;
    if enabled && definition.commands.is_empty() {
        return Err(reader.invalid("a new server needs `commands`, a list of command lines"));
    }
    if enabled && definition.languages.is_empty() {
        return Err(reader.invalid("a new server needs `languages`"));
    }
    reader.finish(&[])?;
    Ok(DecodedServer {
        definition,
        enabled,
    })
}

fn decode_defaults(mut reader: Reader<'_, '_>) -> Result<Definition, ConfigError> {
    let mut definition = blank();
    apply(&mut reader, &mut definition)?;
    let complete = definition.startup_ms > 0
        && definition.max_document_bytes > 0
        && definition.readiness.settle_ms > 0
        && definition.readiness.settle_max_ms > 0
        && definition.readiness.start_grace_ms > 0;
    if !complete {
        return Err(reader.invalid("every limit and duration needs a default"));
    }
    reader.finish(&[])?;
    Ok(definition)
}

/// What `[defaults]` is read onto; its zeros are refused by [`decode_defaults`] where none may stay.
fn blank() -> Definition {
    Definition {
        id: String::new(),
        commands: Vec::new(),
        languages: Vec::new(),
        root_markers: Vec::new(),
        yields_to: Vec::new(),
        readiness: Readiness {
            progress_tokens: Vec::new(),
            server_status: false,
            log_patterns: Vec::new(),
            start_grace_ms: 0,
            settle_ms: 0,
            settle_max_ms: 0,
        },
        settings: Map::new(),
        initialization_options: None,
        startup_ms: 0,
        max_document_bytes: 0,
        navigation: true,
        identity_env: Vec::new(),
        environment: EnvironmentRule::Scrub,
        install: Vec::new(),
        generated: Vec::new(),
    }
}

fn apply(reader: &mut Reader<'_, '_>, definition: &mut Definition) -> Result<(), ConfigError> {
    if let Some(commands) = reader.command_lines("commands")? {
        if commands.value.is_empty() {
            return Err(reader.invalid_value(
                &commands,
                "an empty list starts nothing; name at least one command line",
            ));
        }
        let program = |line: &Vec<String>| line.first().cloned().unwrap_or_default();
        let relative = |program: &String| program.contains('/') && !program.starts_with('/');
        if let Some(program) = commands.value.iter().map(program).find(relative) {
            let problem =
                format!("`{program}` must be a bare name, looked for on PATH, or an absolute path");
            return Err(reader.invalid_value(&commands, problem));
        }
        definition.commands = commands.value;
    }
    if let Some(languages) = reader.tables("languages")? {
        definition.languages = languages
            .into_iter()
            .map(decode_language)
            .collect::<Result<_, _>>()?;
    }
    if let Some(rules) = reader.tables("root_markers")? {
        definition.root_markers = rules
            .into_iter()
            .map(decode_root_rule)
            .collect::<Result<_, _>>()?;
    }
    if let Some(yields_to) = reader.strings("yields_to")? {
        definition.yields_to = yields_to.value;
    }
    refuse_many_roots(reader)?;
    if let Some(mut readiness) = reader.table("readiness")? {
        apply_readiness(&mut readiness, &mut definition.readiness)?;
        readiness.finish(&[])?;
    }
    if let Some(settings) = reader.json_object("settings")? {
        definition.settings = settings;
    }
    if let Some(options) = reader.json_value("initialization_options")? {
        definition.initialization_options = Some(options);
    }
    if let Some(startup_ms) = reader.positive("startup_ms", MAX_DURATION_MS)? {
        definition.startup_ms = startup_ms as u32;
    }
    if let Some(bytes) = reader.positive("max_document_bytes", MAX_DOCUMENT_BYTES)? {
        definition.max_document_bytes = bytes;
    }
    if let Some(navigation) = reader.boolean("navigation")? {
        definition.navigation = navigation;
    }
    if let Some(names) = reader.strings("identity_env")? {
        definition.identity_env = names.value;
    }
    let environments = [
        ("scrub", EnvironmentRule::Scrub),
        ("full", EnvironmentRule::Full),
    ];
    if let Some(environment) = reader.choice("environment", &environments)? {
        definition.environment = environment;
    }
    if let Some(hints) = reader.tables("install")? {
        definition.install = hints
            .into_iter()
            .map(decode_install)
            .collect::<Result<_, _>>()?;
    }
    if let Some(patterns) = reader.strings("generated")? {
        definition.generated = compile_patterns(reader, &patterns)?;
    }
    Ok(())
}

/// One process serves one root; a file that says so says nothing new.
fn refuse_many_roots(reader: &mut Reader<'_, '_>) -> Result<(), ConfigError> {
    match reader.string("roots")? {
        Some(roots) if roots.value == "many" => Err(reader.invalid_value(
            &roots,
            "one server for many roots is not built yet; leave the key out, and each root has a server of its own",
        )),
        Some(roots) if roots.value != "one" => {
            Err(reader.invalid_value(&roots, "expected \"one\""))
        }
        _ => Ok(()),
    }
}

fn decode_language(mut reader: Reader<'_, '_>) -> Result<Language, ConfigError> {
    let Some(id) = reader.string("id")? else {
        return Err(reader.invalid("a language needs its `id`, the languageId of the protocol"));
    };
    let mut language = Language {
        id: id.value,
        ..Language::default()
    };
    if let Some(extensions) = reader.strings("extensions")? {
        if let Some(dotted) = extensions
            .value
            .iter()
            .find(|extension| extension.starts_with('.'))
        {
            let problem = format!("write `{}` without the dot", dotted.trim_start_matches('.'));
            return Err(reader.invalid_value(&extensions, problem));
        }
        language.extensions = extensions.value;
    }
    if let Some(names) = reader.strings("file_names")? {
        language.file_names = names.value;
    }
    if let Some(patterns) = reader.strings("patterns")? {
        language.patterns = compile_patterns(&reader, &patterns)?;
    }
    if let Some(interpreters) = reader.strings("interpreters")? {
        language.interpreters = interpreters.value;
    }
    reader.finish(&[])?;
    Ok(language)
}

fn decode_root_rule(mut reader: Reader<'_, '_>) -> Result<RootRule, ConfigError> {
    let Some(markers) = reader.strings("markers")? else {
        return Err(reader.invalid("a rule needs its `markers`"));
    };
    if markers.value.is_empty() {
        return Err(reader.invalid_value(&markers, "must name at least one file or folder"));
    }
    if let Some(absolute) = markers.value.iter().find(|marker| marker.starts_with('/')) {
        return Err(reader.invalid_value(
            &markers,
            format!("`{absolute}` must be relative to the root"),
        ));
    }
    let picks = [
        ("nearest", RootPick::Nearest),
        ("outermost", RootPick::Outermost),
        ("cargo-workspace", RootPick::CargoWorkspace),
    ];
    let pick = reader.choice("pick", &picks)?.unwrap_or(RootPick::Nearest);
    reader.finish(&[])?;
    Ok(RootRule {
        markers: markers.value,
        pick,
    })
}

fn apply_readiness(
    reader: &mut Reader<'_, '_>,
    readiness: &mut Readiness,
) -> Result<(), ConfigError> {
    if let Some(rules) = reader.tables("progress_tokens")? {
        readiness.progress_tokens = rules
            .into_iter()
            .map(decode_token_rule)
            .collect::<Result<_, _>>()?;
    }
    if let Some(server_status) = reader.boolean("server_status")? {
        readiness.server_status = server_status;
    }
    if let Some(patterns) = reader.strings("log_patterns")? {
        readiness.log_patterns = patterns
            .value
            .iter()
            .map(|text| compile_regex(reader, &patterns, text))
            .collect::<Result<_, _>>()?;
    }
    if let Some(value) = reader.positive("start_grace_ms", MAX_DURATION_MS)? {
        readiness.start_grace_ms = value as u32;
    }
    if let Some(value) = reader.positive("settle_ms", MAX_DURATION_MS)? {
        readiness.settle_ms = value as u32;
    }
    if let Some(value) = reader.positive("settle_max_ms", MAX_DURATION_MS)? {
        readiness.settle_max_ms = value as u32;
    }
    Ok(())
}

fn decode_token_rule(mut reader: Reader<'_, '_>) -> Result<TokenRule, ConfigError> {
    let mut rules = Vec::new();
    if let Some(token) = reader.string("token")? {
        rules.push(TokenRule::Token(token.value));
    }
    if let Some(prefix) = reader.string("token_prefix")? {
        rules.push(TokenRule::TokenPrefix(prefix.value));
    }
    if let Some(prefix) = reader.string("title_prefix")? {
        rules.push(TokenRule::TitlePrefix(prefix.value));
    }
    if let Some(pattern) = reader.string("title_pattern")? {
        rules.push(TokenRule::TitlePattern(compile_regex(
            &reader,
            &pattern,
            &pattern.value,
        )?));
    }
    let (Some(rule), true) = (rules.pop(), rules.is_empty()) else {
        return Err(reader.invalid(
            "needs exactly one of `token`, `token_prefix`, `title_prefix` and `title_pattern`",
        ));
    };
    reader.finish(&[])?;
    Ok(rule)
}

fn decode_install(mut reader: Reader<'_, '_>) -> Result<InstallHint, ConfigError> {
    let (Some(manager), Some(command)) = (reader.string("manager")?, reader.string("command")?)
    else {
        return Err(reader.invalid("a hint needs `manager` and `command`"));
    };
    reader.finish(&[])?;
    Ok(InstallHint {
        manager: manager.value,
        command: command.value,
    })
}

fn compile_patterns(
    reader: &Reader<'_, '_>,
    patterns: &Located<Vec<String>>,
) -> Result<Vec<PathPattern>, ConfigError> {
    patterns
        .value
        .iter()
        .map(|text| {
            PathPattern::new(text).map_err(|problem| {
                reader.invalid_value(patterns, format!("bad pattern `{text}`: {problem}"))
            })
        })
        .collect()
}

fn compile_regex<T>(
    reader: &Reader<'_, '_>,
    found: &Located<T>,
    text: &str,
) -> Result<Regex, ConfigError> {
    Regex::new(text).map_err(|error| {
        let reason = error
            .to_string()
            .lines()
            .last()
            .unwrap_or_default()
            .trim()
            .to_owned();
        reader.invalid_value(found, format!("bad regular expression `{text}`: {reason}"))
    })
}
