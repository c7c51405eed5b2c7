//! What will hold a tree together, made before its start and given to its owner afterwards.

use super::super::LocalOptions;
use super::super::launch::{self, ChildCommand};
use super::group::TreeGroup;
use crate::LaunchSpec;

/// The bonds of a tree that is about to be started.
#[derive(Debug)]
pub(in crate::local) struct Bonds {
    /// The environment entry `NAME=VALUE` by which its members are found.
    pub(super) marker: Option<Vec<u8>>,
    /// The control group that the child joins, where the face wants groups and one can be made.
    pub(super) group: Option<TreeGroup>,
}

impl Bonds {
    /// Makes the bonds and has the command take them on. Called for every start, after everything else that the command
    /// is told to do in the child. Blocks.
    pub(in crate::local) fn prepare(
        command: &mut ChildCommand,
        launch: &LaunchSpec,
        options: &LocalOptions,
    ) -> Self {
        let groups = options.control_groups.as_deref();
        Self {
            marker: launch::marker_entry(launch),
            group: groups.and_then(|groups| TreeGroup::make(groups, command)),
        }
    }
}
