//! The write fence: whether a sandbox policy allows lspool itself to change a file. Owns the rule that a target is judged
//! as it resolves at the time of the change, and that the target which was judged is the one that is changed.

use std::path::Path;

use crate::fs::FileKind;
use crate::{FileSystem, FsError, SandboxMode, SandboxPolicy, Target};

/// The target to change in place of `target`, if `policy` allows a change there. Reads need no fence.
///
/// * [`SandboxMode::ReadOnly`] allows nothing.
/// * [`SandboxMode::WorkspaceWrite`] resolves the target's display path anew and demands that it lies in one of the
///   writable roots, judged on resolved targets ([`FileSystem::encloses`]). A root that is not a folder now allows
///   nothing, and no other folder is writable by itself: a temporary folder is one if it is among the roots.
/// * [`SandboxMode::DangerFullAccess`] allows `target` as it is.
///
/// Change what is given back, not `target`: its path has no link in it, and a provider whose facts say that it is
/// handle-relative refuses one that was put there since. A root itself is allowed; that it is no regular file is for the
/// provider to say.
///
/// Gives `FS_SANDBOX_DENIED`, or why the path cannot be resolved now, with the codes of [`FileSystem::resolve`].
pub async fn writable_target(
    fs: &dyn FileSystem,
    target: &Target,
    policy: &SandboxPolicy,
) -> Result<Target, FsError> {
    let denied = || FsError::SandboxDenied {
        path: target.display_path().to_path_buf(),
        mode: policy.mode,
    };
    match policy.mode {
        SandboxMode::DangerFullAccess => Ok(target.clone()),
        SandboxMode::ReadOnly => Err(denied()),
        SandboxMode::WorkspaceWrite => {
            let display = target.display_path();
            let now = fs.resolve(display, display).await?;
            for root in &policy.writable_roots {
                if is_within(fs, root, &now).await {
                    return Ok(now);
                }
            }
            Err(denied())
        }
    }
}

/// Whether `target` lies in the folder `root`. What cannot be told is no.
async fn is_within(fs: &dyn FileSystem, root: &Path, target: &Target) -> bool {
    if !root.is_absolute() {
        return false;
    }
    let Ok(root) = fs.resolve(root, root).await else {
        return false;
    };
    let is_folder =
        matches!(fs.stat(&root).await, Ok(Some(metadata)) if metadata.kind == FileKind::Directory);
    is_folder && fs.encloses(&root, target).await.unwrap_or(false)
}
