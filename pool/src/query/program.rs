//! The executable of a server that lspool chose.
//!
//! Invariant: nothing from inside the root is ever started and no relative PATH entry is searched, whatever
//! links lead there: a repository must not choose what runs (details, "Faces: command line and configuration").

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use lspool_world::{Environment, Target, World};
use serde::Serialize;

use crate::registry::Definition;

/// Why no program of a definition can be started; the gravest reason that was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ProgramFault {
    /// There is none on PATH.
    Missing,
    /// There is one inside the root alone, which is not trusted to choose.
    InsideWorkspace,
    /// There is a file of that name that cannot be executed.
    NotExecutable,
    /// The project is one of another tool, which the definition yields to; no program was looked for.
    OtherProject,
}

/// The first of the definition's command lines whose program can be started, that program absolute. `environment` is the one that the
/// child gets; `installs` are folders that are searched after its PATH.
pub(super) async fn find_program(
    world: &World,
    definition: &Definition,
    environment: &Environment,
    installs: &[PathBuf],
    root: &Target,
) -> Result<Vec<OsString>, ProgramFault> {
    let mut fault = ProgramFault::Missing;
    for command in &definition.commands {
        let Some((program, arguments)) = command.split_first() else {
            continue;
        };
        match find_one(world, OsStr::new(program), environment, installs, root).await {
            Ok(executable) => {
                let mut argv = vec![executable.into_os_string()];
                argv.extend(arguments.iter().map(OsString::from));
                return Ok(argv);
            }
            Err(found) => fault = fault.max(found),
        }
    }
    Err(fault)
}

async fn find_one(
    world: &World,
    program: &OsStr,
    environment: &Environment,
    installs: &[PathBuf],
    root: &Target,
) -> Result<PathBuf, ProgramFault> {
    let path = Path::new(program);
    if path.is_absolute() {
        // Only a person's own configuration can hold an absolute command: it is used as named.
        return executable_at(world, environment, path).await;
    }
    let mut fault = ProgramFault::Missing;
    let on_path: Vec<PathBuf> = environment
        .get("PATH")
        .map(|value| std::env::split_paths(value).collect())
        .unwrap_or_default();
    for folder in on_path
        .iter()
        .chain(installs)
        .filter(|folder| folder.is_absolute())
    {
        match executable_at(world, environment, &folder.join(program)).await {
            Ok(executable) if is_inside(world, root, &executable).await => {
                fault = fault.max(ProgramFault::InsideWorkspace);
            }
            Ok(executable) => return Ok(executable),
            Err(found) => fault = fault.max(found),
        }
    }
    Err(fault)
}

async fn executable_at(
    world: &World,
    environment: &Environment,
    path: &Path,
) -> Result<PathBuf, ProgramFault> {
    world
        .subprocess()
        .resolve_executable(path.as_os_str(), environment, Path::new("/"))
        .await
        .map_err(|error| match error.reason() {
            "notExecutable" => ProgramFault::NotExecutable,
            _ => ProgramFault::Missing,
        })
}

/// Whether the executable, or the folder in which it is named, lies in the root. What cannot be told counts as inside.
async fn is_inside(world: &World, root: &Target, executable: &Path) -> bool {
    let folder = executable.parent().unwrap_or(executable);
    for path in [executable, folder] {
        match world.fs().resolve(path, Path::new("/")).await {
            Ok(target) if !world.fs().contains(root, &target) => {}
            _ => return true,
        }
    }
    false
}
