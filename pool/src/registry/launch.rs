//! What tells two launches of a server apart (sharing, "Identity of an instance").
//!
//! Invariant: a value of a variable is digested and never kept, so nothing here can print one.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use lspool_world::{Environment, ExecutableError, World};
use thiserror::Error;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Names of the variables that distinguish launches; `*` stands for any text.
const IDENTITY_VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "LANG",
    "LC_*",
    "TMPDIR",
    "XDG_*_HOME",
    "LD_LIBRARY_PATH",
    "*_proxy",
    "*_PROXY",
    "VIRTUAL_ENV",
    "CONDA_*",
    "PYTHON*",
    "NODE_*",
    "NVM_*",
    "GO*",
    "CARGO_*",
    "RUST*",
    "JAVA_HOME",
    "JDK_*",
    "CC",
    "CXX",
    "C*FLAGS",
    "CPATH",
    "LIBRARY_PATH",
    "PKG_CONFIG_*",
    "NIX_*",
];

/// What a launch is made of.
#[derive(Clone, Copy, Debug)]
pub struct LaunchInput<'a> {
    /// The command line; the program as a name, a path, or a path relative to `cwd`.
    pub argv: &'a [OsString],
    /// The working directory, absolute.
    pub cwd: &'a Path,
    /// The whole environment, before the scrub.
    pub environment: &'a Environment,
    /// Whether the environment is scrubbed at the spawn.
    pub scrub: bool,
    /// Digest of the canonical `initializationOptions`, `0` for none.
    pub options_digest: u128,
    /// Further names of variables that distinguish launches of this server; `*` stands for any text.
    pub identity_env: &'a [String],
}

/// A launch that can be started, and what it is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchFacts {
    /// The program, absolute.
    pub executable: PathBuf,
    /// The digest of each part, by the part's name: `executable`, `arguments`, `initializationOptions`, `scrub`
    /// where it took anything away, and
    /// `variable NAME` for each variable that is set.
    pub parts: BTreeMap<String, u128>,
    /// The digest of all parts.
    pub digest: u128,
}

/// Why a command cannot be started.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LaunchError {
    /// There is no such program; a face exits with 127.
    #[error("`{command}` was not found; install it, or put its folder on PATH")]
    NotFound {
        /// The program as it was named.
        command: String,
    },
    /// There is a file that cannot be executed; a face exits with 126.
    #[error("`{command}` cannot be started: {} is not executable", path.display())]
    NotExecutable {
        /// The program as it was named.
        command: String,
        /// The file.
        path: PathBuf,
    },
}

impl LaunchError {
    /// The exit code of a face that was asked for this command, as a shell has it.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::NotFound { .. } => 127,
            Self::NotExecutable { .. } => 126,
        }
    }
}

impl LaunchFacts {
    /// The facts of a launch. The program is looked for in the environment that the child will have.
    ///
    /// # Errors
    /// [`LaunchError`], naming the program.
    pub async fn resolve(world: &World, input: LaunchInput<'_>) -> Result<Self, LaunchError> {
        let named = input
            .argv
            .first()
            .map(OsString::as_os_str)
            .unwrap_or_default();
        let command = named.to_string_lossy().into_owned();
        let subprocess = world.subprocess();
        let environment = if input.scrub {
            input.environment.scrubbed(subprocess.scrub_rules())
        } else {
            input.environment.clone()
        };
        let refuse = |error: ExecutableError| match error {
            ExecutableError::NotExecutable { path } => LaunchError::NotExecutable {
                command: command.clone(),
                path,
            },
            _ => LaunchError::NotFound {
                command: command.clone(),
            },
        };
        // A relative path is meant from the client's folder; the seam takes names and absolute paths only.
        let is_relative_path = named.as_bytes().contains(&b'/') && !Path::new(named).is_absolute();
        let program = if is_relative_path {
            input.cwd.join(named).into_os_string()
        } else {
            named.to_owned()
        };
        let executable = subprocess
            .resolve_executable(&program, &environment, input.cwd)
            .await
            .map_err(refuse)?;
        let identity = subprocess
            .executable_identity(&executable)
            .await
            .map_err(refuse)?;

        let mut parts = BTreeMap::new();
        parts.insert(
            "executable".to_owned(),
            xxh3_128(identity.as_str().as_bytes()),
        );
        parts.insert("arguments".to_owned(), arguments_digest(input.argv));
        parts.insert("initializationOptions".to_owned(), input.options_digest);
        if input.scrub && takes_anything(input.environment, &environment) {
            parts.insert("scrub".to_owned(), 1);
        }
        for (name, value) in environment
            .iter()
            .filter(|(name, _)| distinguishes(name, input.identity_env))
        {
            parts.insert(
                format!("variable {}", name.to_string_lossy()),
                xxh3_128(value.as_bytes()),
            );
        }
        let digest = digest_of(&parts);
        Ok(Self {
            executable,
            parts,
            digest,
        })
    }

    /// The name of the first part in which two launches differ, set in one of them only included; never a value.
    pub fn first_difference<'a>(&'a self, other: &'a Self) -> Option<&'a str> {
        let names = self.parts.keys().chain(other.parts.keys());
        names
            .filter(|name| self.parts.get(*name) != other.parts.get(*name))
            .min()
            .map(String::as_str)
    }
}

/// Whether the scrub makes a difference to the server. lspool's own variables are none of a server's business, so their
/// absence does not count.
fn takes_anything(whole: &Environment, scrubbed: &Environment) -> bool {
    whole
        .iter()
        .any(|(name, _)| scrubbed.get(name).is_none() && !name.as_bytes().starts_with(b"LSPOOL_"))
}

/// The program counts by its name (one file may be several programs), not by the folder that it was named with.
fn arguments_digest(argv: &[OsString]) -> u128 {
    let mut hasher = Xxh3::new();
    for (index, argument) in argv.iter().enumerate() {
        let text = if index == 0 {
            Path::new(argument).file_name().unwrap_or(argument)
        } else {
            argument
        };
        // The length keeps ["a", "b"] apart from ["ab"].
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    hasher.digest128()
}

fn digest_of(parts: &BTreeMap<String, u128>) -> u128 {
    let mut hasher = Xxh3::new();
    for (name, digest) in parts {
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
        hasher.update(&digest.to_le_bytes());
    }
    hasher.digest128()
}

fn distinguishes(name: &OsStr, more: &[String]) -> bool {
    let more = more.iter().map(String::as_str);
    IDENTITY_VARIABLES
        .iter()
        .copied()
        .chain(more)
        .any(|pattern| matches_name(pattern, name.as_bytes()))
}

/// Whether a name matches a pattern with at most one `*`.
fn matches_name(pattern: &str, name: &[u8]) -> bool {
    match pattern.split_once('*') {
        None => pattern.as_bytes() == name,
        Some((start, end)) => {
            name.len() >= start.len() + end.len()
                && name.starts_with(start.as_bytes())
                && name.ends_with(end.as_bytes())
        }
    }
}
