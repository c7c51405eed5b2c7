//! Owns a test's private world: its folders, its environment, the mark on everything it starts, and the
//! proof at its end that nothing is left.
//!
//! Invariant: a harness that was not finished fails its test.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

use crate::binaries::{binary, repository_folder};
use crate::client::{Client, Launch};
use crate::error::KitError;
use crate::journal::Journal;
use crate::leak::{Leak, LeakOracle};
use crate::scenario::ScenarioBuilder;

/// The variable that marks everything that a test starts. It is no variable of the pool's own, so that no
/// scrubbing of the environment takes it away.
pub const MARK_VARIABLE: &str = "LEAK_ORACLE_MARK";

/// How long what a test ended may take to be gone.
const FINISH_LIMIT: Duration = Duration::from_secs(5);

/// Variables that tool chains need and that do not lead outside the test.
const INHERITED: [&str; 4] = ["PATH", "LANG", "LC_ALL", "LLVM_PROFILE_FILE"];

/// A test's private world: HOME, the XDG folders, a runtime folder and a temporary folder of its own, under
/// one folder that goes away with it.
pub struct Harness {
    root: TempDir,
    mark: String,
    finished: bool,
}

/// A scripted server that is ready to be started, by a client or by a pool.
#[derive(Clone, Debug)]
pub struct ScriptedServer {
    binary: PathBuf,
    scenario: PathBuf,
    journal: PathBuf,
}

impl ScriptedServer {
    /// The words that start it.
    pub fn argv(&self) -> Vec<OsString> {
        vec![
            self.binary.clone().into(),
            self.scenario.clone().into(),
            "--journal".into(),
            self.journal.clone().into(),
        ]
    }

    /// Its journal; all servers that are started from these words share it.
    pub fn journal(&self) -> Journal {
        Journal::at(&self.journal)
    }
}

fn file_error(path: &Path) -> impl FnOnce(std::io::Error) -> KitError {
    move |source| KitError::File {
        path: path.to_owned(),
        source,
    }
}

impl Harness {
    /// Makes the folders of a new private world.
    pub fn new() -> Result<Self, KitError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let folder = std::env::temp_dir();
        // Short, because a socket's path may have no more than 107 bytes.
        let root = tempfile::Builder::new()
            .prefix("lk-")
            .tempdir()
            .map_err(file_error(&folder))?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_nanos();
        let mark = format!("{}-{count}-{now}", std::process::id());
        let harness = Self {
            root,
            mark,
            finished: false,
        };
        for name in [
            "home", "config", "cache", "data", "state", "run", "tmp", "work",
        ] {
            harness.make_folder(name)?;
        }
        Ok(harness)
    }

    fn make_folder(&self, name: &str) -> Result<(), KitError> {
        use std::os::unix::fs::DirBuilderExt;
        let path = self.root.path().join(name);
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(file_error(&path))
    }

    /// The folder that holds all others. Its own files may be used for scenarios and releases.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// HOME.
    pub fn home(&self) -> PathBuf {
        self.path().join("home")
    }

    /// The folder of `XDG_CONFIG_HOME`.
    pub fn config_home(&self) -> PathBuf {
        self.path().join("config")
    }

    /// The runtime folder: `LSPOOL_RUNTIME_DIR` and `XDG_RUNTIME_DIR`.
    pub fn runtime_folder(&self) -> PathBuf {
        self.path().join("run")
    }

    /// TMPDIR, which must be empty at the end.
    pub fn temporary_folder(&self) -> PathBuf {
        self.path().join("tmp")
    }

    /// A folder for the test's projects.
    pub fn work_folder(&self) -> PathBuf {
        self.path().join("work")
    }

    /// The mark of this test, as `NAME=value`.
    pub fn mark(&self) -> String {
        format!("{MARK_VARIABLE}={}", self.mark)
    }

    /// The whole environment for what the test starts. The Rust tool chain's own folders stay visible,
    /// because its programs find themselves by them when HOME is another.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut environment: Vec<(OsString, OsString)> = INHERITED
            .iter()
            .filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)))
            .collect();
        let home = std::env::var_os("HOME").map(PathBuf::from);
        for (name, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            let set = std::env::var_os(name).map(PathBuf::from);
            let usual = home
                .as_ref()
                .map(|home| home.join(folder))
                .filter(|folder| folder.is_dir());
            if let Some(value) = set.or(usual) {
                environment.push((name.into(), value.into()));
            }
        }
        for (name, folder) in [
            ("HOME", "home"),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_CACHE_HOME", "cache"),
            ("XDG_DATA_HOME", "data"),
            ("XDG_STATE_HOME", "state"),
            ("XDG_RUNTIME_DIR", "run"),
            ("LSPOOL_RUNTIME_DIR", "run"),
            ("TMPDIR", "tmp"),
        ] {
            environment.push((name.into(), self.path().join(folder).into()));
        }
        environment.push((MARK_VARIABLE.into(), self.mark.clone().into()));
        environment
    }

    /// A launch of `program` in the work folder with this test's environment.
    pub fn launch(&self, program: impl AsRef<std::ffi::OsStr>) -> Launch {
        Launch::new(program, &self.work_folder(), self.environment())
    }

    /// Writes a file (and the folders above it) under [`Harness::path`] and returns its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf, KitError> {
        let path = self.path().join(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(file_error(folder))?;
        }
        std::fs::write(&path, content).map_err(file_error(&path))?;
        Ok(path)
    }

    /// A scripted server of this scenario, under a name of the test's choice.
    pub fn scripted_server(
        &self,
        name: &str,
        scenario: &ScenarioBuilder,
    ) -> Result<ScriptedServer, KitError> {
        Ok(ScriptedServer {
            binary: binary("lspool-scripted-server")?,
            scenario: self.write(&format!("{name}.scenario.json"), scenario.to_json())?,
            journal: self.path().join(format!("{name}.journal")),
        })
    }

    /// Starts a client that talks to this scripted server with nothing between them.
    pub fn client_of(&self, server: &ScriptedServer) -> Result<Client, KitError> {
        let mut launch = self.launch("");
        launch.argv = server.argv();
        Client::start(&launch)
    }

    /// Copies the fixture project `name` into the work folder and returns where it is.
    pub fn fixture(&self, name: &str) -> Result<PathBuf, KitError> {
        let target = self.work_folder().join(name);
        copy_folder(&fixture_folder(name), &target)?;
        Ok(target)
    }

    /// The oracle of this test.
    pub fn oracle(&self) -> LeakOracle {
        LeakOracle::new(
            &self.mark(),
            &self.runtime_folder(),
            &self.temporary_folder(),
        )
    }

    /// Ends the test.
    ///
    /// # Panics
    ///
    /// When something is left after five seconds: a process with the mark, a socket in the runtime folder
    /// or a temporary file. Left processes are killed.
    pub fn finish(mut self) {
        self.finished = true;
        let leaks = self.oracle().wait(FINISH_LIMIT);
        if !leaks.is_empty() {
            self.oracle().kill_all();
            let list: Vec<String> = leaks.iter().map(Leak::to_string).collect();
            panic!("the test left something behind:\n  {}", list.join("\n  "));
        }
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        self.oracle().kill_all();
        assert!(
            std::thread::panicking(),
            "a test ended without Harness::finish"
        );
    }
}

/// Where the fixture project `name` is in the repository.
pub fn fixture_folder(name: &str) -> PathBuf {
    repository_folder()
        .join("tests/fixtures/projects")
        .join(name)
}

/// Copies a folder with its files, folders and symbolic links.
fn copy_folder(from: &Path, to: &Path) -> Result<(), KitError> {
    std::fs::create_dir_all(to).map_err(file_error(to))?;
    for entry in std::fs::read_dir(from).map_err(file_error(from))? {
        let entry = entry.map_err(file_error(from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(file_error(&source))?;
        if kind.is_dir() {
            copy_folder(&source, &target)?;
        } else if kind.is_symlink() {
            let link = std::fs::read_link(&source).map_err(file_error(&source))?;
            std::os::unix::fs::symlink(link, &target).map_err(file_error(&target))?;
        } else {
            std::fs::copy(&source, &target).map_err(file_error(&source))?;
        }
    }
    Ok(())
}
