//! What is refused before anything runs.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use lspool_world::{Environment, SandboxMode, SpawnSpec};

use crate::fixture::Fixture;

/// The code and text with which a spec is refused.
async fn refusal(fixture: &impl Fixture, spec: SpawnSpec) -> (&'static str, String) {
    let error = fixture
        .world()
        .subprocess()
        .spawn(spec)
        .await
        .err()
        .expect("the spec was accepted");
    (error.code(), error.to_string())
}

pub(crate) async fn an_impossible_spec_is_refused_before_anything_runs(fixture: &impl Fixture) {
    type Spoil = fn(&mut SpawnSpec);
    let spoils: [(&str, Spoil); 11] = [
        ("argv", |spec| spec.launch.argv.clear()),
        ("argv", |spec| spec.launch.argv[0] = "".into()),
        ("argv", |spec| spec.launch.argv[0] = "sh".into()),
        ("argv", |spec| spec.launch.argv[0] = "./sh".into()),
        ("argv", |spec| spec.launch.argv.push("a\0b".into())),
        ("cwd", |spec| spec.launch.cwd = PathBuf::from("relative")),
        ("overrides", |spec| {
            drop(spec.launch.overrides.insert("A=B".into(), None));
        }),
        ("overrides", |spec| {
            drop(spec.launch.overrides.insert("A".into(), Some("\0".into())));
        }),
        ("umask", |spec| spec.launch.umask = Some(0o1000)),
        ("grace", |spec| spec.grace = Duration::ZERO),
        ("grace", |spec| spec.grace = Duration::from_secs(2_147_484)),
    ];
    for (field, spoil) in spoils {
        let mut spec = fixture.script("exit 0");
        spoil(&mut spec);

        let (code, text) = refusal(fixture, spec).await;

        assert_eq!(code, "INVALID_PARAMS");
        assert!(text.contains(field), "{text}");
    }
}

pub(crate) async fn a_missing_program_is_told_from_one_that_cannot_run(fixture: &impl Fixture) {
    let plain = fixture.put("plain", b"text");
    fixture.permit(&plain, 0o644);
    let garbage = fixture.put("garbage", b"\x7fELF");
    fixture.permit(&garbage, 0o755);
    let cases = [
        (
            fixture.scratch().join("nothing"),
            "EXEC_NOT_FOUND",
            "was not found",
        ),
        (plain, "EXEC_NOT_FOUND", "is not an executable file"),
        (
            fixture.scratch().to_path_buf(),
            "EXEC_NOT_FOUND",
            "is not an executable file",
        ),
        (garbage, "EXEC_SPAWN_FAILED", "could not be started"),
    ];
    for (program, code, reason) in cases {
        let refused = refusal(fixture, fixture.command(&[program.as_os_str()])).await;

        assert_eq!(refused.0, code);
        assert!(
            refused.1.contains(reason) && refused.1.contains(program.to_str().unwrap()),
            "{}",
            refused.1
        );
    }
}

pub(crate) async fn a_cwd_that_is_no_folder_is_refused_with_the_code_of_its_fault(
    fixture: &impl Fixture,
) {
    fixture.put("file", b"");
    fixture.link("nowhere", "dangling");
    for (cwd, expected) in [
        ("nothing", "FS_NOT_FOUND"),
        ("dangling", "FS_NOT_FOUND"),
        ("file/below", "FS_NOT_FOUND"),
        ("file", "FS_NOT_DIRECTORY"),
    ] {
        let mut spec = fixture.script("exit 0");
        spec.launch.cwd = fixture.scratch().join(cwd);

        let (code, text) = refusal(fixture, spec).await;

        assert_eq!(code, expected, "{cwd}");
        assert!(text.contains(cwd), "{text}");
    }
}

pub(crate) async fn what_the_system_cannot_execute_is_refused_with_the_reason(
    fixture: &impl Fixture,
) {
    for (name, text, reason) in [
        (
            "text",
            "exit 0\n",
            "neither a program for this machine nor a script",
        ),
        (
            "empty",
            "",
            "neither a program for this machine nor a script",
        ),
        (
            "lost",
            "#! /nowhere/interpreter -x\n",
            "its interpreter /nowhere/interpreter was not found",
        ),
        (
            "returns",
            "#!/bin/sh\r\nexit 0\r\n",
            "its interpreter /bin/sh\\r was not found",
        ),
    ] {
        let program = fixture.put(name, text.as_bytes());
        fixture.permit(&program, 0o755);
        // A child with a mask of its own is started in another way, which must not let a shell run the text.
        for umask in [None, Some(0o123)] {
            let mut spec = fixture.command(&[program.as_os_str()]);
            spec.launch.umask = umask;

            let refused = refusal(fixture, spec).await;

            assert_eq!(refused.0, "EXEC_SPAWN_FAILED", "{name}");
            assert!(
                refused.1.contains(reason) && refused.1.contains(name),
                "{}",
                refused.1
            );
        }
    }
}

pub(crate) async fn too_many_arguments_are_refused_with_the_reason(fixture: &impl Fixture) {
    // given one argument that is longer than any system takes, and many that are together
    let one = vec![OsString::from("x".repeat(64 << 20))];
    let many = vec![OsString::from("x".repeat(100_000)); 640];
    for arguments in [one, many] {
        let mut spec = fixture.command(&[OsStr::new("/bin/true")]);
        spec.launch.argv.extend(arguments);

        let (code, text) = refusal(fixture, spec).await;

        assert_eq!(code, "EXEC_SPAWN_FAILED");
        assert!(text.contains("longer than the system allows"), "{text}");
        assert!(text.len() < 1000, "the error repeats the arguments");
    }
}

pub(crate) async fn a_program_that_went_away_since_it_was_found_is_missing(fixture: &impl Fixture) {
    let program = fixture.put("tool", b"#!/bin/sh\nexit 0\n");
    fixture.permit(&program, 0o755);
    let subprocess = fixture.world().subprocess();
    let environment = Environment::from_pairs([("PATH", fixture.scratch())]);
    let found = subprocess
        .resolve_executable(OsStr::new("tool"), &environment, fixture.scratch())
        .await
        .unwrap();

    fixture.remove(&program);

    let (code, text) = refusal(fixture, fixture.command(&[found.as_os_str()])).await;
    assert_eq!(code, "EXEC_NOT_FOUND");
    assert!(text.contains("tool"), "{text}");
}

pub(crate) async fn no_refusal_tells_a_value_of_the_environment(fixture: &impl Fixture) {
    const CANARY: &str = "canary-5b1f";
    let text = fixture.put("text", b"exit 0\n");
    fixture.permit(&text, 0o755);
    let spoils: [&dyn Fn(&mut SpawnSpec); 6] = [
        &|spec| spec.launch.argv[0] = text.clone().into(),
        &|spec| spec.launch.argv[0] = "/nowhere/program".into(),
        &|spec| spec.launch.cwd = PathBuf::from("/nowhere"),
        &|spec| spec.launch.argv.push("x".repeat(64 << 20).into()),
        &|spec| {
            drop(
                spec.launch
                    .overrides
                    .insert("A=B".into(), Some(CANARY.into())),
            );
        },
        &|spec| spec.launch.sandbox.mode = SandboxMode::ReadOnly,
    ];
    for spoil in spoils {
        let mut spec = fixture.script("exit 0");
        spec.launch.scrub = false;
        spec.launch.environment.set("BASE_TOKEN", CANARY);
        spec.launch
            .overrides
            .insert("MY_TOKEN".into(), Some(CANARY.into()));
        let printed = format!("{spec:?}");
        assert!(printed.contains("MY_TOKEN") && !printed.contains(CANARY));
        spoil(&mut spec);

        let error = fixture
            .world()
            .subprocess()
            .spawn(spec)
            .await
            .err()
            .unwrap();

        let told = format!("{error} {error:?} {:?}", std::error::Error::source(&error));
        assert!(!told.contains(CANARY), "{told}");
    }
}

pub(crate) async fn a_confined_mode_without_a_sandbox_is_refused(fixture: &impl Fixture) {
    if fixture.world().subprocess().facts().confinement {
        return;
    }
    for mode in [SandboxMode::ReadOnly, SandboxMode::WorkspaceWrite] {
        let mut spec = fixture.script("exit 0");
        spec.launch.sandbox.mode = mode;
        assert_eq!(refusal(fixture, spec).await.0, "SANDBOX_UNAVAILABLE");
    }
}

pub(crate) async fn a_cancelled_start_is_refused(fixture: &impl Fixture) {
    let spec = fixture.script("exit 0");
    spec.cancel.cancel();

    assert_eq!(refusal(fixture, spec).await.0, "EXEC_CANCELLED");
}

pub(crate) async fn two_live_trees_never_share_a_marker(fixture: &impl Fixture) {
    // given a live tree
    let (first, mut shared) = (fixture.script("exec sleep 1000"), fixture.script("exit 0"));
    shared.launch.marker.clone_from(&first.launch.marker);
    let process = fixture.start(first).await;

    // when another is started with its marker, then it is refused, since one end would be the other's too
    assert_eq!(
        refusal(fixture, shared.clone()).await.0,
        "EXEC_MARKER_IN_USE"
    );

    // and allowed once the first is gone
    process.terminate().await.unwrap();
    fixture.output(shared).await;
}

each_provider!([
    an_impossible_spec_is_refused_before_anything_runs,
    a_missing_program_is_told_from_one_that_cannot_run,
    a_cwd_that_is_no_folder_is_refused_with_the_code_of_its_fault,
    what_the_system_cannot_execute_is_refused_with_the_reason,
    too_many_arguments_are_refused_with_the_reason,
    a_program_that_went_away_since_it_was_found_is_missing,
    no_refusal_tells_a_value_of_the_environment,
    a_confined_mode_without_a_sandbox_is_refused,
    a_cancelled_start_is_refused,
    two_live_trees_never_share_a_marker,
]);
