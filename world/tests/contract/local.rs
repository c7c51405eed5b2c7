//! What only the local provider promises, and what needs this machine to be seen.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use lspool_world::local::{InheritedOutput, LocalFileSystem, LocalOptions, LocalSubprocess};
use lspool_world::{FileSystem, OutputMode, OutputStream, ScrubRules, Subprocess, World, WorldId};
use proptest::prelude::*;

use crate::fixture::{Fixture, LONG, LocalFixture};

fn options() -> LocalOptions {
    LocalOptions {
        scrub_rules: ScrubRules::builtin(),
        inherited_output: InheritedOutput::OwnStderr,
        control_groups: None,
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
}

#[test]
fn a_world_has_the_identity_of_its_seams() {
    let world = World::new(
        Arc::new(LocalFileSystem::new()),
        Arc::new(LocalSubprocess::new(options())),
        None,
    )
    .unwrap();

    assert_eq!(world.id(), &WorldId::local());
    assert_eq!(world.id().to_string(), "local");
}

#[test]
fn a_child_begins_with_default_signals_and_leads_its_group() {
    // given a parent thread that blocks a signal (SIGPIPE is ignored in every Rust program)
    let mut blocked = nix::sys::signal::SigSet::empty();
    blocked.add(nix::sys::signal::Signal::SIGUSR1);
    blocked.thread_block().unwrap();

    // when a child shows its own status
    let (status, group, pid) = runtime().block_on(async {
        let fixture = LocalFixture::open().await;
        let status = fixture
            .output(fixture.script("exec cat /proc/self/status"))
            .await;
        let process = fixture
            .start(fixture.script("cut -d' ' -f5 /proc/$$/stat"))
            .await;
        process.done().await;
        let group = process.tail(OutputStream::Stdout).unwrap().text();
        let pid = process.pid().unwrap();
        drop(process);
        fixture.close().await;
        (String::from_utf8(status.to_vec()).unwrap(), group, pid)
    });

    // then it blocks and ignores nothing of that
    let mask = |name: &str| {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    let sigpipe = 1 << (nix::libc::SIGPIPE - 1);
    assert_eq!(mask("SigBlk:"), 0);
    assert_eq!(mask("SigIgn:") & sigpipe, 0);
    assert_eq!(group.trim(), pid.to_string());
}

#[test]
fn a_runtime_that_goes_down_takes_its_trees_along() {
    // given a live tree with a member in its own session
    let runtime = runtime();
    let (process, pids, fixture) = runtime.block_on(async {
        let fixture = LocalFixture::open().await;
        let script =
            "trap '' TERM; setsid sleep 1000 & echo $!; echo $$; while :; do sleep 0.05; done";
        let (process, lines) = fixture.started(script, LONG, 2).await;
        (
            process,
            lines
                .iter()
                .map(|line| line.parse().unwrap())
                .collect::<Vec<u32>>(),
            fixture,
        )
    });

    // when the runtime is dropped with the supervisor in it
    drop(runtime);

    // then nobody of it runs, and the handle says that nothing was observed
    assert!(pids.iter().all(|pid| !fixture.runs(*pid)));
    let facts = self::runtime().block_on(process.done());
    assert_eq!(facts.outcome, None);
}

/// The variable by which the test below finds itself in a mount namespace of its own.
const MOUNTED: &str = "WORLD_CONTRACT_MOUNTED";

#[test]
fn a_folder_has_one_identity_also_through_a_bind_mount() {
    // given a folder that is mounted at a second place, where only this test's own process sees it
    if let Some(root) = std::env::var_os(MOUNTED) {
        runtime().block_on(judge_by_identity(Path::new(&root)));
        return;
    }
    runtime().block_on(async {
        let fixture = LocalFixture::open().await;
        for folder in ["real/sub", "mounted"] {
            fixture.folder(folder);
        }
        let own_namespace = ["unshare", "-Urm", "sh", "-c"].map(OsStr::new);
        let try_it = fixture.command(&[&[OsStr::new("/usr/bin/env")], &own_namespace[..], &[OsStr::new("exec true")]].concat());
        if fixture.start(try_it).await.done().await.exit_code() == Some(0) {
            let script = "mount --bind real mounted && exec \"$0\" --exact local::a_folder_has_one_identity_also_through_a_bind_mount";
            let test = std::env::current_exe().unwrap();
            let mut spec = fixture.command(&[&[OsStr::new("/usr/bin/env")], &own_namespace[..], &[OsStr::new(script), test.as_os_str()]].concat());
            spec.launch.environment.set(MOUNTED, fixture.scratch());
            let shown = fixture.output(spec).await;
            assert!(String::from_utf8_lossy(&shown).contains("1 passed"));
        } else {
            eprintln!("this machine lets nobody have a mount namespace of its own");
        }
        fixture.close().await;
    });
}

/// Judges targets below `root`, where `mounted` is the folder `real`.
async fn judge_by_identity(root: &Path) {
    let files = LocalFileSystem::new();
    let encloses = async |folder: &str, path: &str| {
        let folder = files.resolve(Path::new(folder), root).await.unwrap();
        let target = files.resolve(Path::new(path), root).await.unwrap();
        assert_ne!(folder, target);
        files.encloses(&folder, &target).await.unwrap()
    };
    for (folder, path, is_below) in [
        ("real", "mounted", true),
        ("real", "mounted/new", true),
        ("mounted", "real/sub/new/deep", true),
        ("real/sub", "mounted/sub/new", true),
        ("real/sub", "mounted/new", false),
        ("missing", "mounted/new", false),
    ] {
        assert_eq!(encloses(folder, path).await, is_below, "{path} in {folder}");
    }
}

/// What the log was given, shared with the subscriber that writes it.
#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn inherited_output_is_logged_in_bounded_lines_with_the_process_named() {
    // given a log, and a runtime whose tasks all run on this thread, which writes to it
    let captured = Captured::default();
    let writer = captured.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _log = tracing::subscriber::set_default(subscriber);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();

    // when a process prints a line, and then more than a line's bound without an end
    let pid = runtime.block_on(async {
        let fixture = LocalFixture::open().await;
        let options = LocalOptions {
            inherited_output: InheritedOutput::Log,
            ..options()
        };
        let logging = LocalSubprocess::new(options);
        let mut spec = fixture.script("echo first line; head -c 20000 /dev/zero | tr '\\000' x");
        (spec.stdout, spec.stderr) = (OutputMode::Inherit, OutputMode::Inherit);
        let process = logging.spawn(spec).await.unwrap();
        assert_eq!(process.done().await.exit_code(), Some(0));
        assert!(process.take_stdout().is_none() && process.tail(OutputStream::Stdout).is_none());
        let pid = process.pid().unwrap();
        process.terminate().await.unwrap();
        logging.shutdown().await.unwrap();
        fixture.close().await;
        pid
    });

    // then each line stands in the log with the process, and the flood in parts
    let log = String::from_utf8(captured.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| line.contains(&format!("pid={pid}")))
        .collect();
    assert!(
        lines[0].contains("first line") && lines[0].contains("/bin/sh"),
        "{}",
        lines[0]
    );
    assert_eq!(lines.len(), 4);
    assert!(lines.iter().all(|line| line.len() < 9_000));
    assert_eq!(log.matches('x').count(), 20_000);
}

/// A folder with real folders, files, links to both, a link that dangles and one out of its own folder.
fn playground() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(folder.path()).unwrap();
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::write(root.join("a/file"), b"").unwrap();
    symlink("a/b", root.join("in")).unwrap();
    symlink("..", root.join("a/b/up")).unwrap();
    symlink("a/none/x", root.join("dangling")).unwrap();
    symlink(root.join("a"), root.join("absolute")).unwrap();
    (folder, root)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn resolution_agrees_with_the_system_and_with_the_future(
        steps in proptest::collection::vec(
            proptest::sample::select(vec!["a", "b", "in", "up", "dangling", "absolute", "file", "new", "x", "..", "."]), 1..7)
    ) {
        let (_folder, root) = playground();
        let path = root.join(steps.join("/"));
        let fs_seam = LocalFileSystem::new();
        let runtime = runtime();
        let resolve = || runtime.block_on(fs_seam.resolve(&path, Path::new("/")));
        let system = fs::canonicalize(&path);

        match resolve() {
            Ok(target) => {
                let resolved = fs_seam.process_path(&target);
                if let Ok(system) = &system {
                    prop_assert_eq!(&resolved, system);
                }
                // What it would create is what it names afterwards.
                if !resolved.exists() && fs::create_dir_all(&resolved).is_ok() {
                    let after = resolve().unwrap();
                    prop_assert_eq!(after.key(), target.key());
                }
            }
            Err(error) => {
                prop_assert!(system.is_err(), "{} was refused with {}", path.display(), error.code());
                prop_assert!(error.code().starts_with("FS_"));
            }
        }
    }
}
