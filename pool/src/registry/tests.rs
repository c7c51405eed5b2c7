//! The registry through its public functions: the built-in table, a person's file over it, selection.

use std::fmt::Write as _;
use std::path::Path;

use expect_test::expect;
use proptest::prelude::*;

use super::{ConfigError, EnvironmentRule, Registry};

fn selected(registry: &Registry, path: &str) -> Vec<(String, String)> {
    registry
        .definitions_for(Path::new(path), None)
        .into_iter()
        .map(|found| (found.definition.id.clone(), found.language_id))
        .collect()
}

fn ids(registry: &Registry) -> Vec<&str> {
    registry
        .definitions()
        .iter()
        .map(|definition| definition.id.as_str())
        .collect()
}

fn refusal(text: &str) -> ConfigError {
    Registry::builtin()
        .with_user(text, "config.toml")
        .unwrap_err()
}

#[test]
fn the_builtin_table_decodes_and_is_complete() {
    let registry = Registry::builtin();

    assert_eq!(
        ids(&registry),
        [
            "clangd",
            "rust-analyzer",
            "gopls",
            "pyright",
            "basedpyright",
            "typescript-language-server",
            "ruff"
        ]
    );
    for definition in registry.definitions() {
        assert_eq!(
            definition.max_document_bytes, 4_000_000,
            "{}",
            definition.id
        );
        assert_eq!(definition.startup_ms, 60_000, "{}", definition.id);
        assert!(
            !definition.install.is_empty(),
            "{} says how it is had",
            definition.id
        );
        assert!(!definition.root_markers.is_empty(), "{}", definition.id);
        assert_eq!(
            definition.readiness.has_signal(),
            definition.navigation,
            "{}",
            definition.id
        );
        assert_eq!(
            definition.environment,
            EnvironmentRule::Scrub,
            "{}",
            definition.id
        );
    }
}

#[test]
fn readiness_rules_know_the_signals_of_their_servers() {
    let registry = Registry::builtin();
    let rule = |id: &str| &registry.definition(id).unwrap().readiness;

    assert!(rule("clangd").is_indexing_progress("backgroundIndexProgress", "indexing"));
    assert!(!rule("clangd").is_indexing_progress("other", "indexing"));
    assert!(rule("rust-analyzer").server_status);
    assert!(rule("gopls").is_indexing_progress("8717", "Setting up workspace"));
    assert!(
        rule("typescript-language-server")
            .is_indexing_progress("x", "Initializing JS/TS language features…")
    );
    assert!(rule("pyright").is_ready_message("Found 12 source files"));
    assert!(rule("pyright").is_ready_message("Found 1 source file"));
    assert!(!rule("pyright").is_ready_message("Searching for source files"));
}

#[test]
fn a_file_is_served_by_the_servers_of_its_language() {
    let registry = Registry::builtin();

    assert_eq!(
        selected(&registry, "/p/a.h"),
        [("clangd".into(), "c".into())]
    );
    assert_eq!(
        selected(&registry, "/p/a.C"),
        [("clangd".into(), "cpp".into())]
    );
    assert_eq!(
        selected(&registry, "/p/A.RS"),
        [("rust-analyzer".into(), "rust".into())]
    );
    assert_eq!(
        selected(&registry, "/p/go.mod"),
        [("gopls".into(), "go.mod".into())]
    );
    assert_eq!(
        selected(&registry, "/p/a.tsx"),
        [(
            "typescript-language-server".into(),
            "typescriptreact".into()
        )]
    );
    assert_eq!(selected(&registry, "/p/notes.txt"), []);
    let python: Vec<String> = selected(&registry, "/p/a.py")
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    assert_eq!(python, ["pyright", "basedpyright", "ruff"]);
}

#[test]
fn a_first_line_counts_last() {
    let registry = Registry::builtin();

    let script = registry.definitions_for(Path::new("/p/run"), Some("#!/usr/bin/env python3"));
    assert_eq!(script[0].language_id, "python");
    let named = registry.definitions_for(Path::new("/p/run.rs"), Some("#!/usr/bin/env python3"));
    assert_eq!(named[0].language_id, "rust");
}

#[test]
fn a_longer_pattern_takes_a_file_from_an_ending() {
    let registry = Registry::builtin()
        .with_user(
            r#"
            [[server]]
            id = "page-server"
            commands = [["page-server"]]
            languages = [{ id = "page", patterns = ["*.page.ts"] }]
            "#,
            "config.toml",
        )
        .unwrap();

    assert_eq!(
        selected(&registry, "/p/home.page.ts"),
        [("page-server".into(), "page".into())]
    );
    assert_eq!(
        selected(&registry, "/p/home.ts"),
        [("typescript-language-server".into(), "typescript".into())]
    );
}

#[test]
fn a_persons_file_changes_one_key_and_leaves_the_others() {
    let registry = Registry::builtin()
        .with_user(
            r#"
            [[server]]
            id = "clangd"
            commands = [["/opt/llvm/bin/clangd", "--log=error"]]
            environment = "full"
            readiness = { start_grace_ms = 9 }
            settings = { clangd = { path = "x", count = 0x10, ratio = 0.5, list = [1, true] } }
            "#,
            "config.toml",
        )
        .unwrap();

    let clangd = registry.definition("clangd").unwrap();
    assert_eq!(clangd.commands, [["/opt/llvm/bin/clangd", "--log=error"]]);
    assert_eq!(clangd.environment, EnvironmentRule::Full);
    assert_eq!(clangd.readiness.start_grace_ms, 9);
    assert!(
        clangd
            .readiness
            .is_indexing_progress("backgroundIndexProgress", ""),
        "the rest of the rule stays"
    );
    assert_eq!(
        clangd.languages,
        Registry::builtin().definition("clangd").unwrap().languages
    );
    assert_eq!(
        clangd.setting(Some("clangd.count")),
        Some(serde_json::json!(16))
    );
    assert_eq!(
        clangd.setting(Some("clangd.list")),
        Some(serde_json::json!([1, true]))
    );
    assert_eq!(clangd.setting(Some("clangd.absent")), None);
    assert_eq!(
        ids(&registry),
        ids(&Registry::builtin()),
        "the order is kept"
    );
}

#[test]
fn a_new_server_is_preferred_and_a_disabled_one_is_gone() {
    let registry = Registry::builtin()
        .with_user(
            r#"
            [[server]]
            id = "ty"
            commands = [["ty", "server"]]
            languages = [{ id = "python", extensions = ["py"] }]
            roots = "one"
            [[server]]
            id = "basedpyright"
            enabled = false
            "#,
            "config.toml",
        )
        .unwrap();

    let python: Vec<String> = selected(&registry, "/p/a.py")
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    assert_eq!(python, ["ty", "pyright", "ruff"]);
    let ty = registry.definition("ty").unwrap();
    assert_eq!(
        (ty.readiness.settle_ms, ty.readiness.settle_max_ms),
        (1_000, 10_000),
        "the defaults hold"
    );
    assert!(!ty.readiness.has_signal());
}

#[test]
fn a_server_is_recognised_by_its_program() {
    let registry = Registry::builtin();
    let id = |program: &str| {
        registry
            .definition_of_program(Path::new(program))
            .map(|definition| definition.id.clone())
    };

    assert_eq!(id("/usr/lib/llvm-19/bin/clangd"), Some("clangd".into()));
    assert_eq!(id("clangd-19"), Some("clangd".into()));
    assert_eq!(id("/opt/clangd-23.1"), Some("clangd".into()));
    assert_eq!(id("pyright-langserver"), Some("pyright".into()));
    assert_eq!(id("some-server"), None);
    assert_eq!(id("some-server-3"), None);
    assert_eq!(id(""), None);
}

#[test]
fn a_refusal_names_file_line_key_and_the_nearest_name() {
    let mut report = String::new();
    for text in [
        "[[server]]\nid = \"clangd\"\ncomands = [[\"x\"]]\n",
        "[[server]]\nid = \"clangd\"\ncommands = [[]]\n",
        "[[server]]\nid = \"clangd\"\ncommands = []\n",
        "[[server]]\nid = \"clangd\"\ncommands = [[\"\"]]\n",
        "[[server]]\nid = \"clangd\"\ncommands = \"clangd\"\n",
        "[[server]]\nid = \"clangd\"\ncommands = [[\"bin/clangd\"]]\n",
        "[[server]]\nid = \"new\"\ncommands = [[\"x\"]]\n",
        "[[server]]\nid = \"new\"\nlanguages = [{ id = \"x\" }]\n",
        "[[server]]\ncommands = [[\"x\"]]\n",
        "\n\n[[servers]]\nid = \"clangd\"\n",
        "[[server]]\nid = \"clangd\"\nstartup_ms = 0\n",
        "[[server]]\nid = \"clangd\"\nstartup_ms = -1\n",
        "[[server]]\nid = \"clangd\"\nstartup_ms = 1.5\n",
        "[[server]]\nid = \"clangd\"\nroots = \"several\"\n",
        "[[server]]\nid = \"clangd\"\nroots = \"many\"\n",
        "[[server]]\nid = \"clangd\"\ncaches = [\"target\"]\n",
        "[[server]]\nid = \"clangd\"\ngenerated = [\"[a\"]\n",
        "[[server]]\nid = \"clangd\"\nreadiness = { log_patterns = [\"(\"] }\n",
        "[[server]]\nid = \"clangd\"\nreadiness = { progress_tokens = [{ }] }\n",
        "[[server]]\nid = \"clangd\"\nlanguages = [{ id = \"c\", extensions = [\".c\"] }]\n",
        "[[server]]\nid = \"clangd\"\nsettings = 3\n",
        "[defaults]\nstartup_ms = 3\n",
        "[[server]\nid = 3",
        "[[server]]\nid = \"clangd\"\n\n[[server]]\nid = \"clangd\"\n",
    ] {
        let error = refusal(text);
        writeln!(report, "{} {error}", error.code()).unwrap();
    }
    expect![[r#"
        CONFIG_INVALID config.toml:3: `server.clangd.comands`: unknown key; did you mean `commands`?
        CONFIG_INVALID config.toml:3: `server.clangd.commands[0]`: an empty command line starts nothing
        CONFIG_INVALID config.toml:3: `server.clangd.commands`: an empty list starts nothing; name at least one command line
        CONFIG_INVALID config.toml:3: `server.clangd.commands[0][0]`: must not be empty
        CONFIG_INVALID config.toml:3: `server.clangd.commands`: expected a list of command lines, each a list of strings, found string
        CONFIG_INVALID config.toml:3: `server.clangd.commands`: `bin/clangd` must be a bare name, looked for on PATH, or an absolute path
        CONFIG_INVALID config.toml:1: `server.new`: a new server needs `languages`
        CONFIG_INVALID config.toml:1: `server.new`: a new server needs `commands`, a list of command lines
        CONFIG_INVALID config.toml:1: `server[0]`: a server needs an `id`
        CONFIG_INVALID config.toml:3: `servers`: unknown key; did you mean `server`?
        CONFIG_INVALID config.toml:3: `server.clangd.startup_ms`: must lie in 1 to 2147483647
        CONFIG_INVALID config.toml:3: `server.clangd.startup_ms`: must lie in 1 to 2147483647
        CONFIG_INVALID config.toml:3: `server.clangd.startup_ms`: expected a whole number, found float
        CONFIG_INVALID config.toml:3: `server.clangd.roots`: expected "one"
        CONFIG_INVALID config.toml:3: `server.clangd.roots`: one server for many roots is not built yet; leave the key out, and each root has a server of its own
        CONFIG_INVALID config.toml:3: `server.clangd.caches`: unknown key
        CONFIG_INVALID config.toml:3: `server.clangd.generated`: bad pattern `[a`: unclosed character class; missing ']'
        CONFIG_INVALID config.toml:3: `server.clangd.readiness.log_patterns`: bad regular expression `(`: error: unclosed group
        CONFIG_INVALID config.toml:3: `server.clangd.readiness.progress_tokens[0]`: needs exactly one of `token`, `token_prefix`, `title_prefix` and `title_pattern`
        CONFIG_INVALID config.toml:3: `server.clangd.languages[0].extensions`: write `c` without the dot
        CONFIG_INVALID config.toml:3: `server.clangd.settings`: expected a table, found integer
        CONFIG_INVALID config.toml:1: `defaults`: unknown key
        CONFIG_INVALID config.toml:1: unclosed array table, expected `]`
        CONFIG_CONFLICT config.toml:5: server `clangd` is defined twice, first on line 2; keep one of the two
    "#]].assert_eq(&report);
}

#[test]
fn keys_of_other_readers_are_left_to_them() {
    let text = "[faces]\nexec = true\n[[server]]\nid = \"clangd\"\nstartup_ms = 5\n";

    let registry = Registry::builtin()
        .with_user_beside(text, "config.toml", &["faces"])
        .unwrap();

    assert_eq!(registry.definition("clangd").unwrap().startup_ms, 5);
    assert_eq!(refusal(text).code(), "CONFIG_INVALID");
}

proptest! {
    #[test]
    fn any_text_is_decoded_or_refused_with_a_line_that_exists(text in "\\PC{0,40}(\n\\PC{0,40}){0,4}") {
        if let Err(ConfigError::Invalid { line, .. }) = Registry::builtin().with_user(&text, "config.toml") {
            prop_assert!(line >= 1 && line <= text.split('\n').count());
        }
    }

    #[test]
    fn any_value_for_a_known_key_is_applied_or_refused_at_its_line(
        key in prop::sample::select(vec![
            "commands", "languages", "root_markers", "yields_to", "roots", "readiness", "settings", "startup_ms",
            "max_document_bytes", "navigation", "identity_env", "environment", "install", "generated",
            "initialization_options", "enabled",
        ]),
        value in prop::sample::select(vec![
            "1", "-1", "1.5", "true", "\"\"", "\"one\"", "[]", "[[]]", "[\"a\"]", "[[\"a\"]]", "{}", "[{}]",
            "{ a = 1 }", "1979-05-27", "[1]", "99999999999999999999", "nan",
        ]),
    ) {
        let text = format!("[[server]]\nid = \"clangd\"\n{key} = {value}\n");
        match Registry::builtin().with_user(&text, "config.toml") {
            Ok(registry) => prop_assert!(registry.definitions().iter().all(|known| !known.commands.is_empty())),
            Err(ConfigError::Invalid { line, .. }) => prop_assert_eq!(line, 3),
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}
