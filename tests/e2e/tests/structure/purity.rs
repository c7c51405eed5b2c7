//! Parts that only compute: the core and the wire of the pool, and the whole of `normalize/`.

use std::path::PathBuf;

use super::{assert_none, occurrences, product_files_of, rust_files_of};

/// What a part that is driven by events and a given time may not name.
const OF_THE_SHELL: [&[&str]; 16] = [
    &["tokio"],
    &["async"],
    &["await"],
    &["Instant", "::", "now"],
    &["SystemTime"],
    &["mpsc"],
    &["oneshot"],
    &["broadcast"],
    &["sync_channel"],
    &["crossbeam"],
    &["Mutex"],
    &["RwLock"],
    &["thread"],
    &["std", "::", "fs"],
    &["std", "::", "net"],
    &["std", "::", "process"],
];

/// How a provider of the local machine is named.
const LOCAL_PROVIDER: [&[&str]; 5] = [
    &["LocalFileSystem"],
    &["LocalSubprocess"],
    &["local", "::"],
    &["World", "::", "local"],
    &["WorldId", "::", "local"],
];

/// What only the place that composes the local world names, and the folder for what lspool keeps on its own machine;
/// `local` alone is also that folder's name.
const COMPOSITION: [&[&str]; 4] = [
    &["LocalFileSystem"],
    &["LocalSubprocess"],
    &["World", "::", "local"],
    &["lspool_world", "::", "local"],
];

#[test]
fn the_core_has_no_task_no_clock_no_channel_and_no_lock() {
    let files = rust_files_of("pool/src/core");
    assert_none(
        &occurrences(&files, &OF_THE_SHELL),
        "the core of the pool decides, and does nothing else",
    );
}

#[test]
fn the_wire_is_read_and_written_without_io() {
    // The codec trait of tokio-util is implemented on the framer, for other programs; its own crate's name is enough.
    let files = rust_files_of("pool/src/wire");
    assert_none(
        &occurrences(&files, &OF_THE_SHELL),
        "framing is computed from bytes that somebody else read",
    );
}

#[test]
fn normalize_has_no_io_no_task_and_no_clock() {
    let files = rust_files_of("normalize/src");
    assert_none(&occurrences(&files, &OF_THE_SHELL), "normalize is pure");
}

#[test]
fn pool_and_normalize_name_no_provider() {
    let mut files = product_files_of("pool/src");
    files.extend(product_files_of("normalize/src"));
    assert_none(
        &occurrences(&files, &LOCAL_PROVIDER),
        "a provider is named only where a world is composed",
    );
}

#[test]
fn the_faces_compose_the_local_world_in_one_place() {
    let own_machine = xtask::paths::repository().join("proxy/src/local");
    let composing: Vec<PathBuf> = product_files_of("proxy/src")
        .into_iter()
        .filter(|(file, _)| !file.starts_with(&own_machine))
        .filter(|file| !occurrences(std::slice::from_ref(file), &COMPOSITION).is_empty())
        .map(|(file, _)| file)
        .collect();
    assert!(
        composing.len() <= 1,
        "the local provider is named in {composing:?}"
    );
}
