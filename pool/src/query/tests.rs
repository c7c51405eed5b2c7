//! The jobs of the query pipeline against the local world, over files in temporary folders.

#![expect(
    clippy::disallowed_methods,
    reason = "a test lays out its files on this machine"
)]

mod choosing;
mod finishing;
mod preparing;
mod rereading;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lspool_normalize::{Operation, Position, QueryRequest, QueryTarget, RpcError};
use lspool_world::local::{InheritedOutput, LocalOptions};
use lspool_world::{Environment, ScrubRules, World};
use tempfile::TempDir;

use super::{Prepared, QueryContext, prepare};
use crate::registry::Registry;

/// A world, a home, a folder on PATH and a folder for projects, all in one temporary folder.
struct Bench {
    world: World,
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        let options = LocalOptions {
            scrub_rules: ScrubRules::builtin(),
            inherited_output: InheritedOutput::Log,
            control_groups: None,
        };
        let bench = Self {
            world: World::local(options),
            folder: TempDir::new().unwrap(),
        };
        for folder in ["home", "bin", "work"] {
            std::fs::create_dir(bench.path(folder)).unwrap();
        }
        bench
    }

    /// An absolute path below the temporary folder, with no link in it.
    fn path(&self, relative: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(relative)
    }

    fn write(&self, relative: &str, text: &str) -> PathBuf {
        let path = self.path(relative);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A file that counts as a program.
    fn program(&self, relative: &str) -> PathBuf {
        let path = self.write(relative, "#!/bin/sh\n");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn link(&self, target: &Path, relative: &str) -> PathBuf {
        let path = self.path(relative);
        std::os::unix::fs::symlink(target, &path).unwrap();
        path
    }

    fn context(&self) -> QueryContext {
        QueryContext {
            cwd: self.path("work"),
            environment: Environment::from_pairs([
                ("HOME", self.path("home").into_os_string()),
                ("PATH", self.path("bin").into_os_string()),
                ("SECRET_TOKEN", "x".into()),
            ]),
            umask: 0o022,
            roots: Vec::new(),
            installs: Vec::new(),
            named_files: Arc::new(BTreeMap::new()),
            editor_texts: Arc::new(BTreeMap::new()),
        }
    }
}

/// A definition request about the first character of a file.
fn ask(file: impl AsRef<Path>) -> QueryRequest {
    QueryRequest {
        operation: Operation::GoToDefinition,
        file: file.as_ref().to_str().unwrap().to_owned(),
        workspace_root: None,
        target: QueryTarget::Position {
            position: Position::new(0, 0),
            token: None,
        },
        view: None,
        wait: None,
        timeout_ms: None,
        max_locations: None,
        cursor: None,
        context_lines: None,
        columns: None,
        work_done_token: None,
    }
}

/// A Rust project in `work/p` and a `rust-analyzer` on PATH.
fn rust_bench() -> Bench {
    let bench = Bench::new();
    bench.program("bin/rust-analyzer");
    bench.write("work/p/Cargo.toml", "[package]\nname = \"p\"\n");
    bench.write("work/p/src/main.rs", "fn main() {}\n");
    bench
}

async fn run(
    bench: &Bench,
    context: &QueryContext,
    request: &QueryRequest,
) -> Result<Prepared, RpcError> {
    prepare(&bench.world, &Registry::builtin(), context, request, &[]).await
}

fn code(result: Result<Prepared, RpcError>) -> String {
    result.unwrap_err().stable_code().unwrap().to_owned()
}
