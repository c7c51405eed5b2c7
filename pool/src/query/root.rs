//! The root of a file: the folder that its server is asked in.
//!
//! Invariant: neither `/` nor the home folder is ever a root, nor is anything above the home folder of a
//! file below it. A server that is let loose on either would index a person's whole machine.

use std::path::{Component, Path, PathBuf};

use lspool_world::{Environment, FsError, TargetKey, World};

use super::text::{TextLimit, read_bounded};
use crate::registry::{Definition, RootPick, RootRule};

/// Bytes up to which a `Cargo.toml` is read to learn what its workspace is.
const MAX_MANIFEST_BYTES: u64 = 1_000_000;

/// The folders that may become roots, from the file's own upwards, as the file's path spells them.
pub(super) struct Candidates {
    folders: Vec<PathBuf>,
}

impl Candidates {
    /// The candidates for the file at `file`, an absolute path without dot segments.
    pub(super) async fn above(
        world: &World,
        environment: &Environment,
        file: &Path,
    ) -> Result<Self, FsError> {
        let home = home_key(world, environment).await;
        let mut folders = Vec::new();
        for folder in file.ancestors().skip(1) {
            if is_refused(world, home.as_ref(), folder).await? {
                break;
            }
            folders.push(folder.to_path_buf());
        }
        Ok(Self { folders })
    }

    /// The folder of the file itself, unless it is refused as a root.
    pub(super) fn own_folder(&self) -> Option<&Path> {
        self.folders.first().map(PathBuf::as_path)
    }

    /// The root by the definition's markers.
    pub(super) async fn by_markers(
        &self,
        world: &World,
        definition: &Definition,
    ) -> Result<Option<PathBuf>, FsError> {
        for rule in &definition.root_markers {
            if let Some(root) = self.by_rule(world, rule).await? {
                return Ok(Some(root));
            }
        }
        Ok(None)
    }

    /// Whether a file that hands the asked one to another server stands in `root` or nearer.
    pub(super) async fn yields(
        &self,
        world: &World,
        definition: &Definition,
        root: &Path,
    ) -> Result<bool, FsError> {
        for folder in self
            .folders
            .iter()
            .filter(|folder| folder.starts_with(root))
        {
            if holds_any(world, folder, &definition.yields_to).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn by_rule(&self, world: &World, rule: &RootRule) -> Result<Option<PathBuf>, FsError> {
        let mut outermost = None;
        for (index, folder) in self.folders.iter().enumerate() {
            if !holds_any(world, folder, &rule.markers).await? {
                continue;
            }
            match rule.pick {
                RootPick::Nearest => return Ok(Some(folder.clone())),
                RootPick::Outermost => outermost = Some(folder.clone()),
                RootPick::CargoWorkspace => {
                    return self.cargo_workspace(world, index).await.map(Some);
                }
            }
        }
        Ok(outermost)
    }

    /// The workspace of the Cargo package at `folders[index]`, by Cargo's own rule: what the package names,
    /// else itself when it is one, else the nearest workspace above unless that excludes the package.
    ///
    /// The manifest is the repository's word, so a workspace that it names counts only where it is a candidate above
    /// the package; else the package stands alone.
    async fn cargo_workspace(&self, world: &World, index: usize) -> Result<PathBuf, FsError> {
        let package = &self.folders[index];
        let Some(manifest) = read_manifest(world, package).await? else {
            return Ok(package.clone());
        };
        let named = manifest
            .get("package")
            .and_then(|table| table.get("workspace"))
            .and_then(toml::Value::as_str);
        if let Some(named) = named {
            let workspace = without_dots(&package.join(named));
            let above = &self.folders[index..];
            return Ok(above
                .iter()
                .find(|folder| **folder == workspace)
                .unwrap_or(package)
                .clone());
        }
        if manifest.contains_key("workspace") {
            return Ok(package.clone());
        }
        for folder in &self.folders[index + 1..] {
            let Some(manifest) = read_manifest(world, folder).await? else {
                continue;
            };
            if let Some(workspace) = manifest.get("workspace") {
                let root = if is_excluded(workspace, folder, package) {
                    package
                } else {
                    folder
                };
                return Ok(root.clone());
            }
        }
        Ok(package.clone())
    }
}

/// Whether `folder` may not be a root: `/`, or the home folder by any spelling.
pub(super) async fn is_refused_root(
    world: &World,
    environment: &Environment,
    folder: &Path,
) -> Result<bool, FsError> {
    let home = home_key(world, environment).await;
    is_refused(world, home.as_ref(), folder).await
}

async fn is_refused(
    world: &World,
    home: Option<&TargetKey>,
    folder: &Path,
) -> Result<bool, FsError> {
    if folder.parent().is_none() {
        return Ok(true);
    }
    let target = world.fs().resolve(folder, Path::new("/")).await?;
    let is_top = world.fs().process_path(&target).parent().is_none();
    Ok(is_top || home == Some(target.key()))
}

async fn home_key(world: &World, environment: &Environment) -> Option<TargetKey> {
    let home = Path::new(environment.get("HOME")?);
    // A home that cannot be resolved refuses nothing: no file can lie in it.
    let target = world.fs().resolve(home, Path::new("/")).await.ok()?;
    Some(target.key().clone())
}

async fn holds_any(world: &World, folder: &Path, names: &[String]) -> Result<bool, FsError> {
    for name in names {
        match world.fs().lstat(Path::new(name), folder).await {
            Ok(Some(_)) => return Ok(true),
            Ok(None) => {}
            // A folder that may not be searched holds no marker that this person could mean.
            Err(error) if matches!(error.code(), "FS_PERMISSION_DENIED" | "FS_NOT_FOUND") => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// The manifest in `folder`; `None` where there is none that Cargo could read.
async fn read_manifest(world: &World, folder: &Path) -> Result<Option<toml::Table>, FsError> {
    let target = world.fs().resolve(Path::new("Cargo.toml"), folder).await?;
    if world.fs().stat(&target).await?.is_none() {
        return Ok(None);
    }
    match read_bounded(world, &target, MAX_MANIFEST_BYTES).await {
        Ok(file) => Ok(file.text.parse().ok()),
        Err(TextLimit::Fs(error)) if error.code() == "FS_IO_ERROR" => Err(error),
        Err(TextLimit::TooLarge { .. } | TextLimit::Fs(_)) => Ok(None),
    }
}

/// Cargo's rule: `exclude` takes a path out unless `members` names it, both as plain path prefixes.
fn is_excluded(workspace: &toml::Value, root: &Path, package: &Path) -> bool {
    let lists = |key: &str| {
        let items = workspace
            .get(key)
            .and_then(toml::Value::as_array)
            .into_iter()
            .flatten();
        items
            .filter_map(toml::Value::as_str)
            .any(|item| package.starts_with(without_dots(&root.join(item))))
    };
    lists("exclude") && !lists("members")
}

/// The path without `.` and `..`, which are taken as text: Cargo does so too.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}
