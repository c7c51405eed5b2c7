//! What every start says: the program, its arguments, folder, environment and confinement. Owns the order in which an
//! environment is made, and the rule that no value of it is printed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use crate::{Environment, SandboxPolicy, ScrubRules, TreeMarker};

/// A program and what it begins with, complete: the seam adds no default.
#[derive(Clone)]
pub struct LaunchSpec {
    /// The arguments; the first is the absolute path of the executable.
    pub argv: Vec<OsString>,
    /// The absolute working directory.
    pub cwd: PathBuf,
    /// The full base environment.
    pub environment: Environment,
    /// Explicit entries, which win over the base and the scrub; `None` removes a name.
    pub overrides: BTreeMap<OsString, Option<OsString>>,
    /// Whether credential-shaped and managed names are taken out of the base.
    pub scrub: bool,
    /// The variable that marks the tree, set after everything else.
    pub marker: Option<TreeMarker>,
    /// The file mode creation mask, at most `0o777`; `None` leaves the provider's own.
    pub umask: Option<u32>,
    /// The confinement.
    pub sandbox: SandboxPolicy,
}

impl LaunchSpec {
    /// The environment that the process gets under the given rules: base, scrub, overrides, marker, in this order.
    pub fn child_environment(&self, rules: &ScrubRules) -> Environment {
        let base = if self.scrub {
            self.environment.scrubbed(rules)
        } else {
            self.environment.clone()
        };
        let mut environment = base.overridden(&self.overrides);
        if let Some(marker) = &self.marker {
            environment.set(&marker.name, &marker.value);
        }
        environment
    }
}

impl fmt::Debug for LaunchSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let overrides = Overrides(&self.overrides);
        formatter
            .debug_struct("LaunchSpec")
            .field("argv", &self.argv)
            .field("cwd", &self.cwd)
            .field("environment", &self.environment)
            .field("overrides", &overrides)
            .field("scrub", &self.scrub)
            .field("marker", &self.marker)
            .field("umask", &self.umask)
            .field("sandbox", &self.sandbox)
            .finish()
    }
}

/// Prints explicit entries without their values.
struct Overrides<'a>(&'a BTreeMap<OsString, Option<OsString>>);

impl fmt::Debug for Overrides<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut entries = formatter.debug_map();
        for (name, value) in self.0 {
            entries.entry(name, &if value.is_some() { "set" } else { "removed" });
        }
        entries.finish()
    }
}
