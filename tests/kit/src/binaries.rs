//! Owns the finding and building of the programs that tests start.
//!
//! Invariant: a test never runs a binary older than its sources, unless `LSPOOL_TEST_BUILD` says that the
//! binaries are built already.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use serde_json::Value;

use crate::error::KitError;

static BUILT: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());

/// The repository that the kit was built from.
pub fn repository_folder() -> PathBuf {
    let mut folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    folder.pop();
    folder.pop();
    folder
}

/// The binary `name` of the package `package` in the profile of the running test, built first (at most
/// once a process) when it is missing or older than a source file that it was made from.
/// `LSPOOL_TEST_BUILD=always` leaves that judgement to cargo, `never` builds nothing.
pub fn build_binary(package: &str, name: &str) -> Result<PathBuf, KitError> {
    let mut built = BUILT
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(path) = built.get(name) {
        return Ok(path.clone());
    }
    let wanted = std::env::var("LSPOOL_TEST_BUILD").unwrap_or_default();
    let profile = profile_folder(name)?;
    let there = profile.join(name);
    let path = match wanted.as_str() {
        "never" if there.is_file() => there,
        "never" => {
            let reason = format!(
                "{} is missing and LSPOOL_TEST_BUILD is never",
                there.display()
            );
            return Err(failure(name, reason));
        }
        "always" => build(package, name, &profile)?,
        _ if is_fresh(&there) => there,
        _ => build(package, name, &profile)?,
    };
    built.insert(name.to_owned(), path.clone());
    Ok(path)
}

/// The binary `name` of the package of the same name (see [`build_binary`]).
pub fn binary(name: &str) -> Result<PathBuf, KitError> {
    build_binary(name, name)
}

fn failure(name: &str, reason: impl Into<String>) -> KitError {
    KitError::Build {
        name: name.to_owned(),
        reason: reason.into(),
    }
}

/// The folder that cargo puts binaries of the running test's profile in.
fn profile_folder(name: &str) -> Result<PathBuf, KitError> {
    let running = std::env::current_exe().map_err(|error| failure(name, error.to_string()))?;
    let folder = running.parent().unwrap_or(Path::new("/"));
    let profile = if folder.ends_with("deps") || folder.ends_with("examples") {
        folder.parent().unwrap_or(folder)
    } else {
        folder
    };
    Ok(profile.to_owned())
}

/// Whether no source file in the binary's dependency file is newer than the binary. Asking cargo would
/// say the same, but waits for whoever holds its lock.
fn is_fresh(binary: &Path) -> bool {
    let changed = |path: &Path| {
        path.metadata()
            .and_then(|metadata| metadata.modified())
            .ok()
    };
    let Some(made) = changed(binary) else {
        return false;
    };
    let Ok(dependencies) = std::fs::read_to_string(binary.with_extension("d")) else {
        return false;
    };
    let Some((_, sources)) = dependencies.split_once(": ") else {
        return false;
    };
    let mut sources = sources.trim_end().replace("\\ ", "\0");
    sources.push(' ');
    sources
        .split_terminator(' ')
        .map(|source| PathBuf::from(source.replace('\0', " ")))
        .all(|source| changed(&source).is_some_and(|changed| changed <= made))
}

fn build(package: &str, name: &str, profile_folder: &Path) -> Result<PathBuf, KitError> {
    let profile = match profile_folder
        .file_name()
        .and_then(|folder| folder.to_str())
    {
        None | Some("debug") => "dev",
        Some(other) => other,
    };
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "build",
            "--quiet",
            "--message-format=json",
            "--profile",
            profile,
        ])
        .args(["--package", package, "--bin", name])
        .current_dir(repository_folder())
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failure(name, format!("cannot run cargo: {error}")))?;
    if !output.status.success() {
        return Err(failure(name, String::from_utf8_lossy(&output.stderr)));
    }
    let executable = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == name)
        .find_map(|message| Some(PathBuf::from(message["executable"].as_str()?)));
    executable.ok_or_else(|| failure(name, "cargo built it and named no executable"))
}
