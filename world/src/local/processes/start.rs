//! Starting a piped child from a complete spec, as the leader of its own process group.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use super::super::trees::bonds::Bonds;
use super::super::trees::contained::Contained;
use super::super::{InheritedOutput, LocalOptions, launch};
use crate::{OutputMode, SpawnError, SpawnSpec, StdinMode};

/// Starts the child of a checked spec. Blocks until the new program runs.
pub(super) fn start(spec: &SpawnSpec, options: &LocalOptions) -> Result<Contained, SpawnError> {
    let refused = |source| launch::refused(&spec.launch, source);
    let inherited = options.inherited_output;
    let mut command = launch::command(&spec.launch, &options.scrub_rules)?;
    command.process_group(0);
    command.stdin(match spec.stdin {
        StdinMode::Ignore => Stdio::null(),
        StdinMode::Pipe | StdinMode::Data(_) => Stdio::piped(),
    });
    command.stdout(output(&spec.stdout, inherited).map_err(refused)?);
    command.stderr(output(&spec.stderr, inherited).map_err(refused)?);
    if spec.cancel.is_cancelled() {
        return Err(SpawnError::Cancelled);
    }
    let bonds = Bonds::prepare(&mut command, &spec.launch, options);
    let child = launch::with_empty_signal_mask(|| command.spawn()).map_err(refused)?;
    Ok(Contained::new(child, bonds))
}

fn output(mode: &OutputMode, inherited: InheritedOutput) -> io::Result<Stdio> {
    Ok(match (mode, inherited) {
        (OutputMode::Ignore, _) => Stdio::null(),
        (OutputMode::Inherit, InheritedOutput::OwnStderr) => {
            io::stderr().as_fd().try_clone_to_owned()?.into()
        }
        (OutputMode::Inherit, InheritedOutput::Log)
        | (OutputMode::Pipe | OutputMode::Collect { .. }, _) => Stdio::piped(),
    })
}
