//! What environment a child gets, and what mask for the files that it makes.

use std::collections::BTreeMap;
use std::ffi::OsString;

use lspool_world::{Environment, SpawnSpec, TreeMarker};

use crate::fixture::Fixture;

const SECRETS: [&str; 6] = [
    "SSH_AUTH_SOCK",
    "DATABASE_URL",
    "GITHUB_PAT",
    "KEYRING_PASSPHRASE",
    "AWS_SECRET_ACCESS_KEY",
    "X_API_KEY",
];
const INNOCENT: [&str; 4] = [
    "KEYBOARD_LAYOUT",
    "MONKEY",
    "TOKENIZERS_PARALLELISM",
    "LANG",
];

/// A spec that prints its environment, whose base has secrets, innocent names and the managed namespace.
fn printing(fixture: &impl Fixture, scrub: bool) -> SpawnSpec {
    let mut spec = fixture.script("exec env -0");
    for name in SECRETS
        .into_iter()
        .chain(INNOCENT)
        .chain(["LSPOOL_LOG", "lspool_other"])
    {
        spec.launch.environment.set(name, format!("base {name}"));
    }
    spec.launch.scrub = scrub;
    spec
}

async fn printed(fixture: &impl Fixture, spec: SpawnSpec) -> BTreeMap<String, String> {
    let output = fixture.output(spec).await;
    let text = String::from_utf8(output.to_vec()).unwrap();
    let entries = text
        .split_terminator('\0')
        .map(|entry| entry.split_once('=').unwrap());
    entries
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

pub(crate) async fn a_scrubbed_child_gets_no_credential(fixture: &impl Fixture) {
    let spec = printing(fixture, true);
    let shown = format!("{spec:?}");

    let environment = printed(fixture, spec).await;

    for name in SECRETS.into_iter().chain(["LSPOOL_LOG", "lspool_other"]) {
        assert!(!environment.contains_key(name), "{name} reached the child");
    }
    for name in INNOCENT {
        assert_eq!(environment.get(name), Some(&format!("base {name}")));
    }
    // And what is logged about the spec has no value.
    assert!(
        shown.contains("GITHUB_PAT") && !shown.contains("base "),
        "{shown}"
    );
}

pub(crate) async fn a_full_child_gets_everything(fixture: &impl Fixture) {
    let environment = printed(fixture, printing(fixture, false)).await;

    for name in SECRETS.into_iter().chain(INNOCENT).chain(["LSPOOL_LOG"]) {
        assert_eq!(environment.get(name), Some(&format!("base {name}")));
    }
}

pub(crate) async fn explicit_entries_win_and_tombstones_remove(fixture: &impl Fixture) {
    let mut spec = printing(fixture, true);
    spec.launch.overrides = BTreeMap::from([
        ("GITHUB_PAT".into(), Some("explicit secret".into())),
        ("LSPOOL_LOG".into(), Some("explicit".into())),
        ("MONKEY".into(), None),
        ("NOT_THERE".into(), None),
        ("NEW".into(), Some(OsString::new())),
    ]);
    let shown = format!("{spec:?}");

    let environment = printed(fixture, spec).await;

    assert_eq!(environment["GITHUB_PAT"], "explicit secret");
    assert_eq!(environment["LSPOOL_LOG"], "explicit");
    assert_eq!(environment["NEW"], "");
    assert!(!environment.contains_key("MONKEY") && !environment.contains_key("NOT_THERE"));
    assert!(!shown.contains("explicit"), "{shown}");
}

pub(crate) async fn the_marker_is_always_there(fixture: &impl Fixture) {
    for scrub in [true, false] {
        let mut spec = printing(fixture, scrub);
        spec.launch
            .environment
            .set("LSPOOL_TREE", "inherited from an outer tree");
        spec.launch.overrides.insert("LSPOOL_TREE".into(), None);
        let marker = TreeMarker::unique("LSPOOL_TREE", "suite");
        spec.launch.marker = Some(marker.clone());

        let environment = printed(fixture, spec).await;

        assert_eq!(environment["LSPOOL_TREE"], marker.value.to_str().unwrap());
    }
    // What no process can be given never gets that far.
    assert!(Environment::from_pairs([("", "x"), ("A=B", "x"), ("A", "x\0")]).is_empty());
}

pub(crate) async fn the_mask_is_the_one_asked_for(fixture: &impl Fixture) {
    for mask in [0o022, 0o077, 0o007] {
        let mut spec = fixture.script("umask");
        spec.launch.umask = Some(mask);

        let output = fixture.output(spec).await;

        let text = String::from_utf8(output.to_vec()).unwrap();
        assert_eq!(u32::from_str_radix(text.trim(), 8), Ok(mask));
    }
}

each_provider!([
    a_scrubbed_child_gets_no_credential,
    a_full_child_gets_everything,
    explicit_entries_win_and_tombstones_remove,
    the_marker_is_always_there,
    the_mask_is_the_one_asked_for,
]);
