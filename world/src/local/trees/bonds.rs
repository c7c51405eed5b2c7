//! What will hold a tree together, made before its start and given to its owner afterwards.

use std::process::Command;

use super::super::{LocalOptions, launch};
use crate::LaunchSpec;

/// The bonds of a tree that is about to be started.
#[derive(Debug)]
pub(in crate::local) struct Bonds {
    /// The environment entry `NAME=VALUE` by which its members are found.
    pub(super) marker: Option<Vec<u8>>,
}

impl Bonds {
    /// Makes the bonds and has the command take them on. Called for every start, after everything else that the command
    /// is told to do in the child. Blocks.
    pub(in crate::local) fn prepare(
        _: &mut Command,
        launch: &LaunchSpec,
        _: &LocalOptions,
    ) -> Self {
        Self {
            marker: launch::marker_entry(launch),
        }
    }
}
