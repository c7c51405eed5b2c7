//! Environments of processes. Owns the order in which a child's environment is made (base, scrub, explicit entries,
//! tree marker) and the rule that no value is ever printed.

mod scrub;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};

pub use scrub::ScrubRules;

/// The variables of a process, ordered by name. Its debug output has names alone.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// An environment of the given pairs; a later pair wins. Pairs that no process can be given (an empty name, `=` in
    /// the name, a NUL byte) are left out.
    pub fn from_pairs<N: Into<OsString>, V: Into<OsString>>(
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let pairs = pairs
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()));
        Self(
            pairs
                .filter(|(name, value)| is_name(name) && is_value(value))
                .collect(),
        )
    }

    /// The environment of this very process.
    pub fn of_this_process() -> Self {
        Self::from_pairs(std::env::vars_os())
    }

    /// The value of a variable.
    pub fn get(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.0.get(name.as_ref()).map(OsString::as_os_str)
    }

    /// Sets a variable.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        let (name, value) = (name.into(), value.into());
        if is_name(&name) && is_value(&value) {
            self.0.insert(name, value);
        }
    }

    /// Removes a variable.
    pub fn remove(&mut self, name: impl AsRef<OsStr>) {
        self.0.remove(name.as_ref());
    }

    /// All variables in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// The number of variables.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no variable.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// This environment without what the rules remove.
    #[must_use]
    pub fn scrubbed(&self, rules: &ScrubRules) -> Self {
        Self(
            self.0
                .iter()
                .filter(|(name, _)| !rules.removes(name))
                .map(|(n, v)| (n.clone(), v.clone()))
                .collect(),
        )
    }

    /// This environment with explicit entries applied: a value sets, `None` (a tombstone) removes.
    #[must_use]
    pub fn overridden(&self, overrides: &BTreeMap<OsString, Option<OsString>>) -> Self {
        let mut environment = self.clone();
        for (name, value) in overrides {
            match value {
                Some(value) => environment.set(name, value),
                None => environment.remove(name),
            }
        }
        environment
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Environment")?;
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

/// Whether the system can hold a variable of this name.
pub(crate) fn is_name(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    !bytes.is_empty() && !bytes.contains(&b'=') && !bytes.contains(&0)
}

/// Whether the system can hold this value.
pub(crate) fn is_value(value: &OsStr) -> bool {
    !value.as_bytes().contains(&0)
}

/// The variable that marks every process of one tree, so that a process that left its group and its parents is still
/// known. No two live trees have the same marker: all that carries it ends with the tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TreeMarker {
    /// The variable's name.
    pub name: OsString,
    /// The variable's value.
    pub value: OsString,
}

impl TreeMarker {
    /// A marker whose value is `OWNER.N`, with an N that this process uses once. `owner` names whoever owns the trees (a
    /// daemon's own unique id), so that they can all be found after its death.
    pub fn unique(name: impl Into<OsString>, owner: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self {
            name: name.into(),
            value: OsString::from(format!("{owner}.{number}")),
        }
    }
}
