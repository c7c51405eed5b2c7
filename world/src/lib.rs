//! The execution world: where files are read and processes run.
//!
//! A world is a pair of seams, [`FileSystem`] and [`Subprocess`], that stand for one machine. A file and a process that
//! were handed out together belong to the same world, which [`World::new`] checks once, at composition. Nothing in this
//! crate knows what a language server is, and nothing above it knows which provider stands behind a seam.
//!
//! The crate keeps three invariants: an error is one of a closed set of codes, a stop that returns means that the whole
//! process tree is gone, and what a provider cannot do is said by its facts and by `WORLD_UNSUPPORTED`.

pub mod environment;
pub mod fs;
pub mod local;
pub mod sandbox;
pub mod subprocess;

mod composition;
mod identity;

pub use composition::{World, WorldError};
pub use environment::{Environment, ScrubRules, TreeMarker};
pub use fs::{
    DirEntry, FileKind, FileSystem, FileSystemFacts, FileVersion, FsError, Metadata, Target,
    TargetKey, TextFile, TextStream,
};
pub use identity::WorldId;
pub use sandbox::{Sandbox, SandboxMode, SandboxPolicy};
pub use subprocess::{
    Containment, EndCause, ExecutableError, ExecutableIdentity, ExitFacts, LaunchSpec, OutputMode,
    OutputPage, OutputStream, ProcessHandle, ProcessOutcome, SpawnError, SpawnSpec, Spill,
    StdinMode, Subprocess, SubprocessFacts, Tail, TailBuffer, TerminalError, TerminalHandle,
    TerminalSize, TerminalSpec, TerminateError, Transport, TreeUsage,
};
