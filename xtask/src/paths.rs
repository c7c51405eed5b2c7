//! Where things lie in the repository and in its build folder.

use std::path::{Path, PathBuf};

/// The repository's root.
///
/// It is known from where this crate was built, so that tasks and tests work from any working directory.
pub fn repository() -> PathBuf {
    let this_crate = Path::new(env!("CARGO_MANIFEST_DIR"));
    this_crate.parent().unwrap_or(this_crate).to_owned()
}

/// The build folder: `CARGO_TARGET_DIR` where it is set, else `target/` of the repository.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => repository().join(folder),
        None => repository().join("target"),
    }
}

/// The folder of everything that was fetched or generated, apart from what Cargo builds.
pub fn cache() -> PathBuf {
    target().join("cache")
}

/// The folder of the small projects that the tests and the demonstration ask about.
pub fn fixture_projects() -> PathBuf {
    repository().join("tests/fixtures/projects")
}

/// The development build of the `lspool` binary.
///
/// The file need not exist: `cargo build --workspace` makes it.
pub fn lspool_binary() -> PathBuf {
    target().join("debug/lspool")
}
