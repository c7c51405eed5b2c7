//! What a suite needs of a provider: a world, a scratch folder in it, and a way to put things there that is not the
//! seam under test.
//!
//! Every test ends in [`Fixture::close`], the leak oracle. On this machine it looks for processes with the fixture's
//! entry, for files beside the scratch folder, for staging folders, and, where the process runs this test alone, for
//! every other descendant, descriptor and spill file that was not there before.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use lspool_world::local::{ControlGroups, InheritedOutput, LocalOptions};
use lspool_world::{
    Environment, LaunchSpec, OutputMode, OutputStream, ProcessHandle, SandboxPolicy, ScrubRules,
    SpawnSpec, StdinMode, Target, TreeMarker, World,
};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio_util::sync::CancellationToken;

use crate::oracle::{self, OwnProcess};

/// The variable by which the leak oracle finds what a test left running.
const ORACLE: &str = "WORLD_CONTRACT_ORACLE";

/// A grace that a test never waits out.
pub(crate) const LONG: Duration = Duration::from_mins(1);

/// A grace that a test waits out.
pub(crate) const SHORT: Duration = Duration::from_millis(100);

/// A provider under test.
pub(crate) trait Fixture: Sized {
    /// A fresh world with an empty scratch folder.
    async fn open() -> Self;
    /// Shuts the world down and proves that nothing is left.
    async fn close(self);
    /// The world.
    fn world(&self) -> &World;
    /// The scratch folder, absolute and without links.
    fn scratch(&self) -> &Path;
    /// The oracle's value for this fixture.
    fn oracle(&self) -> &str;
    /// Makes a file, and the folders above it.
    fn put(&self, path: &str, bytes: &[u8]) -> PathBuf {
        self.put_at(&self.scratch().join(path), bytes)
    }
    /// Makes a file at an absolute path, and the folders above it.
    fn put_at(&self, path: &Path, bytes: &[u8]) -> PathBuf;
    /// Makes a folder, and those above it.
    fn folder(&self, path: &str) -> PathBuf;
    /// Makes a symbolic link.
    fn link(&self, target: &str, path: &str) -> PathBuf;
    /// Makes a FIFO.
    fn fifo(&self, path: &str) -> PathBuf;
    /// Removes a file, a link or a folder with all that is in it.
    fn remove(&self, path: &Path);
    /// Sets a file's permission bits.
    fn permit(&self, path: &Path, mode: u32);
    /// The processes that run and carry the oracle's entry.
    fn left_running(&self) -> Vec<u32>;
    /// Whether a process runs (a zombie does not).
    fn runs(&self, pid: u32) -> bool;
    /// Whether a process id is in use, zombies included.
    fn exists(&self, pid: u32) -> bool;

    /// Resolves a path below the scratch folder.
    async fn target(&self, path: impl AsRef<Path>) -> Target {
        self.world()
            .fs()
            .resolve(path.as_ref(), self.scratch())
            .await
            .unwrap()
    }

    /// A spec that runs a shell script, both outputs collected.
    fn script(&self, script: &str) -> SpawnSpec {
        self.command(&[OsStr::new("/bin/sh"), OsStr::new("-c"), OsStr::new(script)])
    }

    /// A spec that runs a command, both outputs collected.
    fn command(&self, argv: &[&OsStr]) -> SpawnSpec {
        let collect = OutputMode::Collect {
            tail_bytes: 1_000_000,
            spill: None,
        };
        let path = std::env::var_os("PATH").unwrap();
        SpawnSpec {
            launch: LaunchSpec {
                argv: argv
                    .iter()
                    .map(|argument| (*argument).to_os_string())
                    .collect(),
                cwd: self.scratch().to_path_buf(),
                environment: Environment::from_pairs([
                    (OsString::from("PATH"), path),
                    (OsString::from(ORACLE), OsString::from(self.oracle())),
                ]),
                overrides: BTreeMap::new(),
                scrub: true,
                marker: Some(TreeMarker::unique("LSPOOL_TREE", self.oracle())),
                umask: None,
                sandbox: SandboxPolicy::unconfined(),
            },
            stdin: StdinMode::Ignore,
            stdout: collect.clone(),
            stderr: collect,
            grace: LONG,
            cancel: CancellationToken::new(),
        }
    }

    /// Starts a process.
    async fn start(&self, spec: SpawnSpec) -> Box<dyn ProcessHandle> {
        self.world().subprocess().spawn(spec).await.unwrap()
    }

    /// Runs a process to the end of its tree and gives its collected standard output.
    async fn output(&self, spec: SpawnSpec) -> Bytes {
        let process = self.start(spec).await;
        let facts = process.done().await;
        let output = process.tail(OutputStream::Stdout).unwrap().bytes;
        assert_eq!(
            facts.exit_code(),
            Some(0),
            "{:?}",
            process.tail(OutputStream::Stderr).unwrap().text()
        );
        process.wait_for_exit().await.unwrap();
        output
    }

    /// Starts a script with a piped standard output and gives the first `lines` lines of it with the handle: a script
    /// prints when it is where the test wants it.
    async fn started(
        &self,
        script: &str,
        grace: Duration,
        lines: usize,
    ) -> (Box<dyn ProcessHandle>, Vec<String>) {
        let mut spec = self.script(script);
        spec.stdout = OutputMode::Pipe;
        spec.grace = grace;
        let process = self.start(spec).await;
        let printed = first_lines(&*process, lines).await;
        (process, printed)
    }
}

/// The first lines of a piped standard output, which is closed afterwards.
pub(crate) async fn first_lines(process: &dyn ProcessHandle, count: usize) -> Vec<String> {
    let mut lines = BufReader::new(process.take_stdout().unwrap()).lines();
    let mut printed = Vec::new();
    while printed.len() < count {
        printed.push(
            lines
                .next_line()
                .await
                .unwrap()
                .expect("the script ended before it printed enough"),
        );
    }
    printed
}

/// This machine.
pub(crate) struct LocalFixture {
    world: World,
    folder: tempfile::TempDir,
    scratch: PathBuf,
    oracle: String,
    before: Option<OwnProcess>,
}

impl LocalFixture {
    /// This machine, its trees held together by these control groups.
    pub(crate) fn held_by(control_groups: Option<Arc<ControlGroups>>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let before = OwnProcess::of_one_test();
        let folder = tempfile::tempdir().unwrap();
        let scratch = fs::canonicalize(folder.path()).unwrap().join("scratch");
        fs::create_dir(&scratch).unwrap();
        let oracle = format!(
            "{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let options = LocalOptions {
            scrub_rules: ScrubRules::builtin(),
            inherited_output: InheritedOutput::OwnStderr,
            control_groups,
        };
        Self {
            world: World::local(options),
            folder,
            scratch,
            oracle,
            before,
        }
    }
}

impl Fixture for LocalFixture {
    async fn open() -> Self {
        Self::held_by(None)
    }

    async fn close(self) {
        self.world.subprocess().shutdown().await.unwrap();
        let left = self.left_running();
        assert!(left.is_empty(), "still running: {left:?}");
        drop(self.world);
        if let Some(before) = self.before {
            before.come_back().await;
        }
        let beside = oracle::names(self.folder.path());
        assert_eq!(beside, ["scratch"], "files beside the scratch folder");
        let staged = oracle::staging_folders(&self.scratch);
        assert!(staged.is_empty(), "still staged: {staged:?}");
        self.folder.close().unwrap();
    }

    fn world(&self) -> &World {
        &self.world
    }

    fn scratch(&self) -> &Path {
        &self.scratch
    }

    fn oracle(&self) -> &str {
        &self.oracle
    }

    fn put_at(&self, path: &Path, bytes: &[u8]) -> PathBuf {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        path.to_path_buf()
    }

    fn folder(&self, path: &str) -> PathBuf {
        let path = self.scratch.join(path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn link(&self, target: &str, path: &str) -> PathBuf {
        let path = self.scratch.join(path);
        symlink(target, &path).unwrap();
        path
    }

    fn fifo(&self, path: &str) -> PathBuf {
        let path = self.scratch.join(path);
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        path
    }

    fn remove(&self, path: &Path) {
        if path.symlink_metadata().unwrap().is_dir() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }

    fn permit(&self, path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn left_running(&self) -> Vec<u32> {
        oracle::running_with_entry(&format!("{ORACLE}={}", self.oracle))
    }

    fn runs(&self, pid: u32) -> bool {
        oracle::parent_if_running(pid).is_some()
    }

    fn exists(&self, pid: u32) -> bool {
        Path::new(&format!("/proc/{pid}")).exists()
    }
}
