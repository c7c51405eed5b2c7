//! All live trees of one provider. Owns the rule that no two of them carry the same marker, and the closing of the door.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::control::Control;
use crate::{SpawnError, TreeMarker};

/// The trees that are not proved gone.
#[derive(Debug, Default)]
pub(in crate::local) struct Registry(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    is_closed: bool,
    next: u64,
    live: HashMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    marker: Option<TreeMarker>,
    /// Absent while the process is being started.
    control: Option<Arc<Control>>,
}

/// A place in the registry, given back when it is dropped.
#[derive(Debug)]
pub(in crate::local) struct Place {
    registry: Arc<Registry>,
    number: u64,
}

impl Registry {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a tree that is about to be started.
    pub(in crate::local) fn admit(
        self: &Arc<Self>,
        marker: Option<&TreeMarker>,
    ) -> Result<Place, SpawnError> {
        let mut entries = self.entries();
        if entries.is_closed {
            return Err(SpawnError::Disposed);
        }
        if let Some(marker) = marker
            && entries
                .live
                .values()
                .any(|entry| entry.marker.as_ref() == Some(marker))
        {
            let marker = format!(
                "{}={}",
                marker.name.to_string_lossy(),
                marker.value.to_string_lossy()
            );
            return Err(SpawnError::MarkerInUse { marker });
        }
        entries.next += 1;
        let number = entries.next;
        entries.live.insert(
            number,
            Entry {
                marker: marker.cloned(),
                control: None,
            },
        );
        Ok(Place {
            registry: Arc::clone(self),
            number,
        })
    }

    /// Admits nobody from now on.
    pub(in crate::local) fn close(&self) {
        self.entries().is_closed = true;
    }

    /// The controls of all live trees.
    pub(in crate::local) fn controls(&self) -> Vec<Arc<Control>> {
        self.entries()
            .live
            .values()
            .filter_map(|entry| entry.control.clone())
            .collect()
    }

    /// Whether something is being started and nothing runs.
    pub(in crate::local) fn only_starts(&self) -> bool {
        let entries = self.entries();
        !entries.live.is_empty() && entries.live.values().all(|entry| entry.control.is_none())
    }

    /// Whether there is no live tree, also none that is being started.
    pub(in crate::local) fn is_empty(&self) -> bool {
        self.entries().live.is_empty()
    }
}

impl Place {
    /// Says how the started tree is ended.
    pub(in crate::local) fn started(&self, control: Arc<Control>) {
        if let Some(entry) = self.registry.entries().live.get_mut(&self.number) {
            entry.control = Some(control);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.registry.entries().live.remove(&self.number);
    }
}
