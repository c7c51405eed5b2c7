//! What is refused before anything runs.

use std::path::PathBuf;
use std::time::Duration;

use lspool_world::subprocess::TerminalSize;
use lspool_world::{SandboxMode, SpawnSpec, TerminalSpec};

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
    let spoils: [(&str, Spoil); 10] = [
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

pub(crate) async fn a_missing_cwd_is_refused(fixture: &impl Fixture) {
    fixture.put("file", b"");
    for cwd in ["nothing", "file"] {
        let mut spec = fixture.script("exit 0");
        spec.launch.cwd = fixture.scratch().join(cwd);

        let (code, text) = refusal(fixture, spec).await;

        assert_eq!(code, "EXEC_SPAWN_FAILED");
        assert!(text.contains(cwd), "{text}");
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

pub(crate) async fn a_terminal_is_not_built_yet(fixture: &impl Fixture) {
    if fixture.world().subprocess().facts().terminals {
        return;
    }
    let SpawnSpec {
        launch,
        grace,
        cancel,
        ..
    } = fixture.script("exit 0");
    let size = TerminalSize {
        rows: 40,
        columns: 160,
    };
    let spec = TerminalSpec {
        launch,
        size,
        grace,
        cancel,
    };

    let error = fixture
        .world()
        .subprocess()
        .spawn_terminal(spec)
        .await
        .err()
        .unwrap();

    assert_eq!(error.code(), "WORLD_UNSUPPORTED");
}

each_provider!([
    an_impossible_spec_is_refused_before_anything_runs,
    a_missing_program_is_told_from_one_that_cannot_run,
    a_missing_cwd_is_refused,
    a_confined_mode_without_a_sandbox_is_refused,
    a_cancelled_start_is_refused,
    two_live_trees_never_share_a_marker,
    a_terminal_is_not_built_yet,
]);
