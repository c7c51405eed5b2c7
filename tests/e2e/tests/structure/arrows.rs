//! Which crate may use which: the arrows of the design.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The crates of the product with those that they use.
const ARROWS: [(&str, &[&str]); 4] = [
    (
        "lspool",
        &["lspool-normalize", "lspool-pool", "lspool-world"],
    ),
    ("lspool-pool", &["lspool-normalize", "lspool-world"]),
    ("lspool-normalize", &[]),
    ("lspool-world", &[]),
];

/// Crates that do I/O, run tasks or read a clock; the pure crate has none of them.
const IMPURE: [&str; 8] = [
    "async-trait",
    "futures",
    "mio",
    "nix",
    "tokio",
    "tokio-util",
    "tower-lsp-server",
    "tracing",
];

/// For each crate of the workspace, its direct dependencies that are built into it (those of its tests left out).
fn built_in_dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let mut cargo = xtask::run::command(env!("CARGO"));
    cargo.args([
        "metadata",
        "--no-deps",
        "--offline",
        "--format-version",
        "1",
    ]);
    cargo.current_dir(xtask::paths::repository());
    let text = xtask::run::captured(&mut cargo).expect("cargo metadata answers");
    let metadata: Value = serde_json::from_str(&text).expect("cargo metadata is JSON");
    let packages = metadata["packages"].as_array().expect("there are packages");
    packages
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"]
                .as_array()
                .expect("a package has dependencies");
            let built_in = dependencies
                .iter()
                .filter(|dependency| dependency["kind"] != "dev");
            let names = built_in.map(name_of).collect();
            (name_of(package), names)
        })
        .collect()
}

fn name_of(item: &Value) -> String {
    item["name"]
        .as_str()
        .expect("a package has a name")
        .to_owned()
}

#[test]
fn the_product_has_the_arrows_of_the_design_and_no_others() {
    let dependencies = built_in_dependencies();
    let workspace: BTreeSet<&str> = dependencies.keys().map(String::as_str).collect();

    for (name, expected) in ARROWS {
        let used = dependencies
            .get(name)
            .unwrap_or_else(|| panic!("{name} is not in the workspace"));
        let inside: Vec<&str> = used
            .iter()
            .map(String::as_str)
            .filter(|used| workspace.contains(used))
            .collect();
        assert_eq!(inside, expected, "what {name} uses");
    }
}

#[test]
fn the_pure_crate_uses_nothing_that_waits_or_touches_the_machine() {
    let dependencies = built_in_dependencies();

    let used = dependencies
        .get("lspool-normalize")
        .expect("lspool-normalize is in the workspace");

    let impure: Vec<&str> = IMPURE
        .into_iter()
        .filter(|name| used.contains(*name))
        .collect();
    assert_eq!(impure, [] as [&str; 0]);
}
