//! Looking executables up.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use lspool_world::{Environment, ExecutableError};

use crate::fixture::Fixture;

fn search_path(value: &str) -> Environment {
    Environment::from_pairs([("PATH", value)])
}

fn program(fixture: &impl Fixture, path: &str) -> PathBuf {
    let path = fixture.put(path, b"#!/bin/sh\nexit 0\n");
    fixture.permit(&path, 0o755);
    path
}

async fn resolve(
    fixture: &impl Fixture,
    command: &str,
    environment: &Environment,
) -> Result<PathBuf, ExecutableError> {
    fixture
        .world()
        .subprocess()
        .resolve_executable(OsStr::new(command), environment, fixture.scratch())
        .await
}

pub(crate) async fn a_bare_name_is_found_on_the_given_path(fixture: &impl Fixture) {
    let first = program(fixture, "one/tool");
    program(fixture, "two/tool");
    let folders = format!("{0}/none:{0}/one:{0}/two", fixture.scratch().display());

    assert_eq!(
        resolve(fixture, "tool", &search_path(&folders))
            .await
            .unwrap(),
        first
    );
    assert_eq!(
        resolve(fixture, "tool", &search_path(""))
            .await
            .unwrap_err()
            .reason(),
        "missing"
    );
    // The PATH of this process is never looked at.
    assert_eq!(
        resolve(fixture, "sh", &Environment::default())
            .await
            .unwrap_err()
            .reason(),
        "missing"
    );
}

pub(crate) async fn candidates_that_cannot_run_are_skipped_and_told_apart(fixture: &impl Fixture) {
    fixture.folder("dir/tool");
    let plain = fixture.put("plain/tool", b"not a program");
    fixture.permit(&plain, 0o644);
    let real = program(fixture, "real/tool");
    let scratch = fixture.scratch().display();

    let all = search_path(&format!("{scratch}/dir:{scratch}/plain:{scratch}/real"));
    assert_eq!(resolve(fixture, "tool", &all).await.unwrap(), real);

    let error = resolve(fixture, "tool", &search_path(&format!("{scratch}/plain")))
        .await
        .unwrap_err();
    assert_eq!(
        (error.code(), error.reason()),
        ("EXEC_NOT_FOUND", "notExecutable")
    );
    let error = resolve(fixture, "tool", &search_path(&format!("{scratch}/none")))
        .await
        .unwrap_err();
    assert_eq!(
        (error.code(), error.reason()),
        ("EXEC_NOT_FOUND", "missing")
    );
}

pub(crate) async fn relative_path_entries_are_below_the_cwd(fixture: &impl Fixture) {
    let below = program(fixture, "bin/tool");
    let here = program(fixture, "other");

    assert_eq!(
        resolve(fixture, "tool", &search_path("bin")).await.unwrap(),
        below
    );
    assert_eq!(
        resolve(fixture, "other", &search_path("/nowhere::bin"))
            .await
            .unwrap(),
        here
    );
}

pub(crate) async fn an_absolute_command_is_given_back(fixture: &impl Fixture) {
    program(fixture, "real/tool");
    fixture.link("real", "alias");
    let spelled = fixture.scratch().join("alias/tool");
    let environment = Environment::default();

    let found = resolve(fixture, spelled.to_str().unwrap(), &environment)
        .await
        .unwrap();

    assert_eq!(found, spelled);
    let folder = resolve(fixture, fixture.scratch().to_str().unwrap(), &environment)
        .await
        .unwrap_err();
    assert_eq!(folder.reason(), "notExecutable");
    assert_eq!(
        resolve(fixture, "/nowhere/tool", &environment)
            .await
            .unwrap_err()
            .reason(),
        "missing"
    );
}

pub(crate) async fn a_relative_command_with_a_separator_is_refused(fixture: &impl Fixture) {
    program(fixture, "bin/tool");
    for command in ["bin/tool", "./bin/tool", "", "tool\0"] {
        let error = resolve(fixture, command, &search_path("."))
            .await
            .unwrap_err();
        assert_eq!(error.reason(), "invalid", "{command:?}");
    }
}

pub(crate) async fn an_identity_follows_the_file_and_not_its_name(fixture: &impl Fixture) {
    let tool = program(fixture, "real/tool");
    let other = program(fixture, "real/other");
    let alias = fixture.link("real/tool", "alias");
    let subprocess = fixture.world().subprocess();
    let identity = subprocess.executable_identity(&tool).await.unwrap();

    assert_eq!(
        subprocess.executable_identity(&alias).await.unwrap(),
        identity
    );
    assert_ne!(
        subprocess.executable_identity(&other).await.unwrap(),
        identity
    );

    fixture
        .output(fixture.script("mv real/other real/tool"))
        .await;
    assert_ne!(
        subprocess.executable_identity(&tool).await.unwrap(),
        identity
    );
    assert_eq!(
        subprocess
            .executable_identity(Path::new("/nowhere"))
            .await
            .unwrap_err()
            .reason(),
        "missing"
    );
}

each_provider!([
    a_bare_name_is_found_on_the_given_path,
    candidates_that_cannot_run_are_skipped_and_told_apart,
    relative_path_entries_are_below_the_cwd,
    an_absolute_command_is_given_back,
    a_relative_command_with_a_separator_is_refused,
    an_identity_follows_the_file_and_not_its_name,
]);
