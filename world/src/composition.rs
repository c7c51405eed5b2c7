//! Composition of the seams into one world. Owns the rule that seams of different worlds are refused before anything
//! uses them.

use std::sync::Arc;

use crate::local::{LocalFileSystem, LocalOptions, LocalSubprocess};
use crate::{FileSystem, Sandbox, Subprocess, WorldId};

/// One execution world: its files, its processes and, where there is one, its sandbox.
///
/// Cloning gives another handle of the same world.
#[derive(Clone, Debug)]
pub struct World {
    id: WorldId,
    fs: Arc<dyn FileSystem>,
    subprocess: Arc<dyn Subprocess>,
    sandbox: Option<Arc<dyn Sandbox>>,
}

/// Why a world could not be composed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorldError {
    /// Two seams belong to different worlds: `WORLD_MISMATCH`.
    #[error(
        "the {seam} belongs to world {found}, the files to world {expected}; compose seams of one world"
    )]
    Mismatch {
        /// The seam that differs from the file system.
        seam: &'static str,
        /// The world of the file system.
        expected: WorldId,
        /// The world of the other seam.
        found: WorldId,
    },
}

impl WorldError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Mismatch { .. } => "WORLD_MISMATCH",
        }
    }
}

impl World {
    /// Composes a world from its seams.
    ///
    /// Gives `WORLD_MISMATCH` when the seams do not all carry the same identity.
    pub fn new(
        fs: Arc<dyn FileSystem>,
        subprocess: Arc<dyn Subprocess>,
        sandbox: Option<Arc<dyn Sandbox>>,
    ) -> Result<Self, WorldError> {
        let id = fs.world_id().clone();
        let others = [
            ("subprocess", Some(subprocess.world_id())),
            (
                "sandbox",
                sandbox.as_ref().map(|sandbox| sandbox.world_id()),
            ),
        ];
        for (seam, found) in others {
            if let Some(found) = found
                && *found != id
            {
                return Err(WorldError::Mismatch {
                    seam,
                    expected: id,
                    found: found.clone(),
                });
            }
        }
        Ok(Self {
            id,
            fs,
            subprocess,
            sandbox,
        })
    }

    /// The world of this machine, without a sandbox.
    pub fn local(options: LocalOptions) -> Self {
        Self {
            id: WorldId::local(),
            fs: Arc::new(LocalFileSystem::new()),
            subprocess: Arc::new(LocalSubprocess::new(options)),
            sandbox: None,
        }
    }

    /// The identity that all seams share.
    pub fn id(&self) -> &WorldId {
        &self.id
    }

    /// The files.
    pub fn fs(&self) -> &Arc<dyn FileSystem> {
        &self.fs
    }

    /// The processes.
    pub fn subprocess(&self) -> &Arc<dyn Subprocess> {
        &self.subprocess
    }

    /// The sandbox, where the world has one.
    pub fn sandbox(&self) -> Option<&Arc<dyn Sandbox>> {
        self.sandbox.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::Path;

    use super::*;
    use crate::ScrubRules;
    use crate::local::InheritedOutput;
    use crate::sandbox::{ConfinedCommand, SandboxError, SandboxFacts, SandboxMode, SandboxPolicy};

    /// A sandbox of a given world that confines nothing.
    #[derive(Debug)]
    struct SandboxOf(WorldId);

    impl SandboxOf {
        fn unavailable(mode: SandboxMode) -> SandboxError {
            SandboxError::Unavailable {
                mode,
                reason: "it is for composition alone".to_owned(),
            }
        }
    }

    #[async_trait::async_trait]
    impl Sandbox for SandboxOf {
        fn world_id(&self) -> &WorldId {
            &self.0
        }

        async fn facts(&self, mode: SandboxMode) -> Result<SandboxFacts, SandboxError> {
            Err(Self::unavailable(mode))
        }

        async fn confine(
            &self,
            _: &[OsString],
            _: &Path,
            policy: &SandboxPolicy,
        ) -> Result<ConfinedCommand, SandboxError> {
            Err(Self::unavailable(policy.mode))
        }
    }

    fn compose(sandbox: WorldId) -> Result<World, WorldError> {
        let options = LocalOptions {
            scrub_rules: ScrubRules::builtin(),
            inherited_output: InheritedOutput::Log,
            control_groups: None,
        };
        let sandbox: Arc<dyn Sandbox> = Arc::new(SandboxOf(sandbox));
        World::new(
            Arc::new(LocalFileSystem::new()),
            Arc::new(LocalSubprocess::new(options)),
            Some(sandbox),
        )
    }

    #[test]
    fn seams_of_different_worlds_are_refused() {
        let error = compose(WorldId::named("ssh:elsewhere")).unwrap_err();

        assert_eq!(error.code(), "WORLD_MISMATCH");
        let text = error.to_string();
        assert!(
            text.contains("sandbox") && text.contains("ssh:elsewhere") && text.contains("local"),
            "{text}"
        );
    }

    #[test]
    fn seams_of_one_world_are_composed() {
        let world = compose(WorldId::local()).unwrap();

        assert_eq!(world.clone().id(), world.sandbox().unwrap().world_id());
    }
}
