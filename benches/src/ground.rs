//! What the benches of a world stand on: a world, a scratch folder, and specs that ask for the same as their peers.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use lspool_world::local::{ControlGroups, InheritedOutput, LocalOptions};
use lspool_world::{
    Environment, FileSystem, LaunchSpec, OutputMode, SandboxPolicy, ScrubRules, SpawnSpec,
    StdinMode, Subprocess, Target, TreeMarker, World,
};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// How long a process may take to end when it is told to; no bench waits for it.
pub(crate) const GRACE: Duration = Duration::from_secs(10);

/// The one variable that processes of a bench get, the peer's too.
pub(crate) const SEARCH_PATH: (&str, &str) = ("PATH", "/usr/local/bin:/usr/bin:/bin");

/// The folder that processes of a bench start in, the peer's too.
pub(crate) const FOLDER: &str = "/";

/// Worlds of this machine with a scratch folder.
pub(crate) struct Ground {
    world: World,
    grouped: Option<Grouped>,
    scratch: TempDir,
}

/// A world that holds its trees together by control groups.
struct Grouped {
    world: World,
    groups: Arc<ControlGroups>,
}

impl Ground {
    /// The local world, without control groups and, where this machine lets it make some, with them too.
    pub(crate) fn new() -> Result<Self> {
        let world = |control_groups| {
            World::local(LocalOptions {
                scrub_rules: ScrubRules::builtin(),
                inherited_output: InheritedOutput::Log,
                control_groups,
            })
        };
        let scratch = tempfile::tempdir().context("no scratch folder can be made")?;
        let groups = ControlGroups::make(&format!("bench-{}", std::process::id())).map(Arc::new);
        Ok(Self {
            world: world(None),
            grouped: groups.map(|groups| Grouped {
                world: world(Some(Arc::clone(&groups))),
                groups,
            }),
            scratch,
        })
    }

    /// The files of the world.
    pub(crate) fn fs(&self) -> Arc<dyn FileSystem> {
        Arc::clone(self.world.fs())
    }

    /// The processes of the world.
    pub(crate) fn subprocess(&self) -> Arc<dyn Subprocess> {
        Arc::clone(self.world.subprocess())
    }

    /// The processes of the world with control groups, where there can be any.
    pub(crate) fn grouped_subprocess(&self) -> Option<Arc<dyn Subprocess>> {
        let grouped = self.grouped.as_ref()?;
        Some(Arc::clone(grouped.world.subprocess()))
    }

    /// Makes files of this text in a folder below the scratch folder and gives their paths.
    pub(crate) fn files(&self, folder: &str, count: usize, text: &str) -> Result<Vec<PathBuf>> {
        let folder = self.scratch.path().join(folder);
        std::fs::create_dir_all(&folder)?;
        (0..count)
            .map(|number| {
                let path = folder.join(format!("file-{number}.txt"));
                std::fs::write(&path, text)?;
                Ok(path)
            })
            .collect()
    }

    /// The target of an absolute path.
    pub(crate) async fn target(&self, path: &Path) -> Result<Target> {
        Ok(self.world.fs().resolve(path, self.scratch.path()).await?)
    }

    /// The targets of absolute paths.
    pub(crate) async fn targets(&self, paths: &[PathBuf]) -> Result<Vec<Target>> {
        let mut targets = Vec::with_capacity(paths.len());
        for path in paths {
            targets.push(self.target(path).await?);
        }
        Ok(targets)
    }

    /// Ends the worlds and removes the folder.
    pub(crate) async fn close(self) -> Result<()> {
        self.world.subprocess().shutdown().await?;
        if let Some(Grouped { world, groups }) = self.grouped {
            world.subprocess().shutdown().await?;
            tokio::task::spawn_blocking(move || groups.end(GRACE)).await??;
        }
        self.scratch
            .close()
            .context("the scratch folder cannot be removed")
    }
}

/// What a command is started with: marked, as every tree of the product is.
pub(crate) fn launch(argv: &[&str]) -> LaunchSpec {
    LaunchSpec {
        argv: argv.iter().map(OsString::from).collect(),
        cwd: FOLDER.into(),
        environment: Environment::from_pairs([SEARCH_PATH]),
        overrides: BTreeMap::new(),
        scrub: true,
        marker: Some(TreeMarker::unique("LSPOOL_BENCH", "bench")),
        umask: None,
        sandbox: SandboxPolicy::unconfined(),
    }
}

/// A command with no input, no errors, and its output as given.
pub(crate) fn spec(argv: &[&str], stdout: OutputMode) -> SpawnSpec {
    SpawnSpec {
        launch: launch(argv),
        stdin: StdinMode::Ignore,
        stdout,
        stderr: OutputMode::Ignore,
        grace: GRACE,
        cancel: CancellationToken::new(),
    }
}

/// The same command as the peer starts it, its output nowhere.
pub(crate) fn peer_command(argv: &[&str]) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(argv[0]);
    let (name, value) = SEARCH_PATH;
    command
        .args(&argv[1..])
        .current_dir(FOLDER)
        .env_clear()
        .env(name, value)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .kill_on_drop(true);
    command
}
