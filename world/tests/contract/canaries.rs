//! No secret is told: a value that goes into an environment, an input or a file comes out nowhere else, whatever fails
//! and however much is logged.

use std::error::Error;
use std::fmt::Debug;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use lspool_world::fs::{EditIntent, EditOptions, EditRequest, WriteIntent, WriteOptions};
use lspool_world::{
    FileVersion, FsError, OutputMode, SandboxMode, SpawnError, SpawnSpec, StdinMode, TerminalSize,
    TerminalSpec,
};
use tracing::Level;

use crate::fixture::{Fixture, SHORT};

/// What must not be seen.
const CANARY: &str = "canary-in-the-coal-mine";

/// The beginning of the canary as bytes that are printed one by one.
const CANARY_IN_NUMBERS: &str = "99, 97, 110, 97, 114, 121";

/// All that is logged in this process, at every level.
fn log() -> &'static Arc<Mutex<Vec<u8>>> {
    static LOG: OnceLock<Arc<Mutex<Vec<u8>>>> = OnceLock::new();
    LOG.get_or_init(|| {
        let log = Arc::<Mutex<Vec<u8>>>::default();
        let writer = Arc::clone(&log);
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(Level::TRACE)
            .with_writer(move || Log(Arc::clone(&writer)))
            .finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
        log
    })
}

struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn assert_clean(shown: &str) {
    assert!(!shown.contains(CANARY), "{shown}");
    assert!(!shown.contains(CANARY_IN_NUMBERS), "{shown}");
}

fn assert_debug_is_clean(value: &impl Debug) {
    assert_clean(&format!("{value:?} {value:#?}"));
}

fn assert_error_is_clean(error: &(impl Error + 'static)) {
    let mut next: Option<&dyn Error> = Some(error);
    while let Some(error) = next {
        assert_clean(&format!("{error} {error:?}"));
        next = error.source();
    }
}

/// A spec with a canary wherever a value can stand.
fn loaded(fixture: &impl Fixture, script: &str) -> SpawnSpec {
    let mut spec = fixture.script(script);
    for name in ["GITHUB_PAT", "LANG", "LSPOOL_LOG", "SSH_AUTH_SOCK"] {
        spec.launch.environment.set(name, CANARY);
    }
    let overrides = [
        ("DB_PASSWORD", Some(CANARY.into())),
        ("PLAIN", Some(CANARY.into())),
    ];
    spec.launch.overrides = overrides
        .map(|(name, value)| (name.into(), value))
        .into_iter()
        .collect();
    spec.stdin = StdinMode::Data(Bytes::from_static(CANARY.as_bytes()));
    spec.grace = SHORT;
    spec
}

fn terminal(spec: SpawnSpec) -> TerminalSpec {
    TerminalSpec {
        launch: spec.launch,
        size: TerminalSize {
            rows: 40,
            columns: 160,
        },
        grace: spec.grace,
        protects_program: false,
        cancel: spec.cancel,
    }
}

/// Every way in which a start is refused, each with its code.
fn refused_specs(fixture: &impl Fixture) -> Vec<(&'static str, SpawnSpec)> {
    type Spoil<'a> = Box<dyn Fn(&mut SpawnSpec) + 'a>;
    let garbage = fixture.put("garbage", b"\x7fELF");
    fixture.permit(&garbage, 0o755);
    let spoils: Vec<(&str, Spoil<'_>)> = vec![
        ("INVALID_PARAMS", Box::new(|spec| spec.launch.argv.clear())),
        (
            "INVALID_PARAMS",
            Box::new(|spec| {
                let value = format!("{CANARY}\0").into();
                drop(spec.launch.overrides.insert("BROKEN".into(), Some(value)));
            }),
        ),
        (
            "FS_NOT_FOUND",
            Box::new(|spec| spec.launch.cwd.push("missing")),
        ),
        (
            "FS_NOT_DIRECTORY",
            Box::new(|spec| spec.launch.cwd.clone_from(&garbage)),
        ),
        (
            "EXEC_SPAWN_FAILED",
            Box::new(|spec| spec.launch.argv = vec![garbage.clone().into()]),
        ),
        (
            "EXEC_NOT_FOUND",
            Box::new(|spec| spec.launch.argv[0] = "/missing".into()),
        ),
        (
            "EXEC_NOT_FOUND",
            Box::new(|spec| spec.launch.argv[0] = "/".into()),
        ),
        ("EXEC_CANCELLED", Box::new(|spec| spec.cancel.cancel())),
    ];
    spoils
        .into_iter()
        .map(|(code, spoil)| {
            let mut spec = loaded(fixture, "exit 0");
            spoil(&mut spec);
            (code, spec)
        })
        .collect()
}

pub(crate) async fn no_value_is_told_by_a_start_that_is_refused(fixture: &impl Fixture) {
    let log = log();
    tracing::trace!("the log is listened to");
    let subprocess = fixture.world().subprocess();
    let check = |expected: &str, refused: Option<SpawnError>| {
        let error = refused.unwrap_or_else(|| panic!("nothing was refused with {expected}"));
        assert_eq!(error.code(), expected);
        assert_error_is_clean(&error);
    };

    for (code, spec) in refused_specs(fixture) {
        assert_debug_is_clean(&spec);
        assert_debug_is_clean(&spec.launch.child_environment(subprocess.scrub_rules()));
        if subprocess.facts().terminals {
            let spec = terminal(spec.clone());
            assert_debug_is_clean(&spec);
            check(code, subprocess.spawn_terminal(spec).await.err());
        }
        check(code, subprocess.spawn(spec).await.err());
    }
    if !subprocess.facts().confinement {
        let mut confined = loaded(fixture, "exit 0");
        confined.launch.sandbox.mode = SandboxMode::ReadOnly;
        check(
            "SANDBOX_UNAVAILABLE",
            subprocess.spawn(confined).await.err(),
        );
    }
    let first = loaded(fixture, "exec sleep 1000");
    let process = fixture.start(first.clone()).await;
    check("EXEC_MARKER_IN_USE", subprocess.spawn(first).await.err());
    process.terminate().await.unwrap();
    subprocess.shutdown().await.unwrap();
    let late = loaded(fixture, "exit 0");
    check("WORLD_DISPOSED", subprocess.spawn(late).await.err());

    let log = String::from_utf8_lossy(&log.lock().unwrap()).into_owned();
    assert!(log.contains("the log is listened to"));
    assert_clean(&log);
}

pub(crate) async fn no_value_is_told_by_a_process_that_runs(fixture: &impl Fixture) {
    let log = log();
    let subprocess = fixture.world().subprocess();
    // given processes that read their input and ones that do not, that end by themselves and are ended
    for script in [
        "cat >/dev/null",
        "exit 7",
        "kill -KILL $$",
        "trap '' TERM; exec sleep 1000",
    ] {
        let process = fixture.start(loaded(fixture, script)).await;
        if !script.contains("sleep") {
            assert_debug_is_clean(&process.done().await);
        }
        assert_debug_is_clean(&process.terminate().await);
        assert_debug_is_clean(&process.usage().await);
    }
    if subprocess.facts().terminals {
        let spec = terminal(loaded(fixture, "stty -echo; exec cat >/dev/null"));
        let session = subprocess.spawn_terminal(spec).await.unwrap();
        let line = format!("{CANARY}\n");
        drop(session.write(line.as_bytes()).await);
        assert_debug_is_clean(&session.terminate().await);
        assert_error_is_clean(&session.write(line.as_bytes()).await.unwrap_err());
    }
    // And the value does reach the process.
    let mut echo = loaded(fixture, "cat");
    echo.stdout = OutputMode::Collect {
        tail_bytes: 1_000,
        spill: None,
    };
    let output = fixture.output(echo).await;
    assert_eq!(&output[..], CANARY.as_bytes());
    assert_debug_is_clean(&fixture.world());

    assert_clean(&String::from_utf8_lossy(&log.lock().unwrap()));
}

/// Every way in which a change of a file fails, each with its code. No path has a canary, every text has.
async fn failed_changes(fixture: &impl Fixture) -> Vec<(&'static str, FsError)> {
    let fs = fixture.world().fs();
    fixture.put("twice", format!("{CANARY} {CANARY}").as_bytes());
    fixture.put("binary", format!("{CANARY}\0").as_bytes());
    fixture.put("latin", &[CANARY.as_bytes(), b" caf\xe9"].concat());
    fixture.folder("folder");
    let mut failed = Vec::new();

    let stale = FileVersion::from_text("0");
    for (code, path, intent) in [
        (
            "FS_NOT_OBSERVED",
            "twice",
            Some(WriteIntent::CreateIfAbsent),
        ),
        (
            "FS_STALE_VERSION",
            "twice",
            Some(WriteIntent::ReplaceIfVersion(stale.clone())),
        ),
        ("FS_NOT_REGULAR_FILE", "folder", None),
    ] {
        let options = WriteOptions {
            intent,
            diff_basis: true,
            ..WriteOptions::default()
        };
        let target = fixture.target(path).await;
        let written = fs.write_text(&target, CANARY, &options).await;
        failed.push((code, written.unwrap_err()));
    }
    for (code, path, old_text, intent) in [
        (
            "FS_STALE_VERSION",
            "twice",
            CANARY,
            Some(EditIntent { version: stale }),
        ),
        ("FS_AMBIGUOUS_EDIT", "twice", CANARY, None),
        (
            "FS_EDIT_NOT_FOUND",
            "twice",
            "canary-in-the-coal-mine-not",
            None,
        ),
        ("FS_NOT_TEXT", "binary", CANARY, None),
        ("FS_NOT_TEXT", "latin", CANARY, None),
    ] {
        let edit = EditRequest {
            old_text: old_text.to_owned(),
            new_text: CANARY.to_owned(),
            replace_all: false,
        };
        let options = EditOptions {
            intent,
            diff_basis: true,
            ..EditOptions::default()
        };
        let target = fixture.target(path).await;
        let edited = fs.edit_text(&target, &edit, &options).await;
        failed.push((code, edited.unwrap_err()));
    }
    let binary = fixture.target("binary").await;
    failed.push(("FS_NOT_TEXT", fs.read_text(&binary).await.unwrap_err()));
    failed.push(("FS_TOO_LARGE", fs.read_bytes(&binary, 1).await.unwrap_err()));
    failed
}

pub(crate) async fn no_text_is_told_by_a_change_that_fails(fixture: &impl Fixture) {
    let log = log();
    let fs = fixture.world().fs();
    if !fs.facts().mutation {
        return;
    }

    for (code, error) in failed_changes(fixture).await {
        assert_eq!(error.code(), code, "{error}");
        assert_error_is_clean(&error);
    }
    let target = fixture.target("new/file").await;
    fs.write_text(&target, CANARY, &WriteOptions::default())
        .await
        .unwrap();
    let missing = fs.resolve(Path::new(" "), fixture.scratch()).await;
    assert_error_is_clean(&missing.unwrap_err());

    assert_clean(&String::from_utf8_lossy(&log.lock().unwrap()));
}

each_provider!([
    no_value_is_told_by_a_start_that_is_refused,
    no_value_is_told_by_a_process_that_runs,
    no_text_is_told_by_a_change_that_fails,
]);
