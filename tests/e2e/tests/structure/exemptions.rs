//! Where the rules of the lints are lifted: each place is known here, so that a new one is a decision.

use super::{assert_none, occurrences, product_files_of};

/// The crates in which reading a file or starting a process is their own work and not a world's.
const OUTSIDE_THE_WORLDS: [&str; 5] = [
    "world",
    "tests/kit",
    "tests/e2e",
    "tests/fixtures/scripted-server",
    "xtask",
];

#[test]
fn only_tools_and_the_world_have_their_own_lint_configuration() {
    let root = xtask::paths::repository();
    let mut found: Vec<String> = lspool_e2e::source::files_below(&root)
        .expect("the repository is listed")
        .into_iter()
        .filter(|file| file.file_name().is_some_and(|name| name == "clippy.toml"))
        .filter_map(|file| {
            Some(
                file.parent()?
                    .strip_prefix(&root)
                    .ok()?
                    .display()
                    .to_string(),
            )
        })
        .filter(|folder| !folder.is_empty())
        .collect();
    found.sort();
    let mut expected = OUTSIDE_THE_WORLDS.map(str::to_owned);
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn pool_and_normalize_never_lift_the_ban_on_files_and_processes() {
    let mut files = product_files_of("pool/src");
    files.extend(product_files_of("normalize/src"));
    let lifted = occurrences(&files, &[&["clippy", "::", "disallowed_methods"]]);
    assert_none(&lifted, "files and processes are reached through the world");
}
