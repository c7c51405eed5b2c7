//! What lspool keeps on its own machine whatever the world: the runtime folder with socket and locks, the log, the
//! configuration file, and starting lspool's own binary.
//!
//! This is the only folder of the crate that touches files or starts a process; language servers, the files of a
//! project and everything that a client names go through the world instead. Folders and files are private to the user
//! (0700 and 0600) and checked by descriptor.

pub(crate) mod binary;
pub(crate) mod config_file;
pub(crate) mod folder;
pub(crate) mod log;
pub(crate) mod processes;
pub(crate) mod watch;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The variables of the environment that say where lspool's own files lie, read once.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Places {
    /// `LSPOOL_RUNTIME_DIR`.
    pub(crate) runtime: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`.
    pub(crate) xdg_runtime: Option<PathBuf>,
    /// `XDG_STATE_HOME`, else below HOME.
    pub(crate) state: Option<PathBuf>,
    /// `XDG_DATA_HOME`, else below HOME.
    pub(crate) data: Option<PathBuf>,
    /// `LSPOOL_CONFIG`, else `config.toml` in `XDG_CONFIG_HOME`, else below HOME.
    pub(crate) config: Option<PathBuf>,
    /// Whether somebody named that very file, so that it has to be there.
    pub(crate) config_is_named: bool,
}

/// The variables that may name a place relative to the working directory of the face.
pub(crate) const NAMED_PLACES: [&str; 2] = ["LSPOOL_RUNTIME_DIR", "LSPOOL_CONFIG"];

impl Places {
    /// Reads the places from this process's environment.
    pub(crate) fn from_environment() -> Self {
        Self::from_lookup(|name| std::env::var_os(name))
    }

    /// Reads the places from any environment. A value that is empty or relative counts as absent, as the XDG
    /// specification wants it; those of [`NAMED_PLACES`] are taken against the working directory.
    pub(crate) fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Self {
        let absolute = |name: &str| {
            lookup(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let home = absolute("HOME");
        let below_home = |tail: &str| home.as_deref().map(|home: &Path| home.join(tail));
        let config_home = absolute("XDG_CONFIG_HOME").or_else(|| below_home(".config"));
        let named = |name: &str| lookup(name).as_deref().and_then(named_place);
        let named_config = named("LSPOOL_CONFIG");
        Self {
            runtime: named("LSPOOL_RUNTIME_DIR"),
            xdg_runtime: absolute("XDG_RUNTIME_DIR"),
            state: absolute("XDG_STATE_HOME")
                .or_else(|| below_home(".local/state"))
                .map(|state| state.join("lspool")),
            data: absolute("XDG_DATA_HOME")
                .or_else(|| below_home(".local/share"))
                .map(|data| data.join("lspool")),
            config_is_named: named_config.is_some(),
            config: named_config
                .or_else(|| config_home.map(|folder| folder.join("lspool/config.toml"))),
        }
    }

    /// The folder of the programs that lspool installed itself, if there is a place for it.
    pub(crate) fn installs(&self) -> Option<PathBuf> {
        self.data.as_deref().map(|data| data.join("bin"))
    }

    /// The folder of the log files, if there is a place for it.
    pub(crate) fn log_folder(&self) -> Option<PathBuf> {
        self.state.as_deref().map(|state| state.join("log"))
    }
}

/// The absolute path that the value of one of [`NAMED_PLACES`] stands for in this process; an empty value is none.
pub(crate) fn named_place(value: &OsStr) -> Option<PathBuf> {
    if value.is_empty() {
        return None;
    }
    // In a working directory that was removed nothing relative can be found; using it says so.
    Some(std::path::absolute(value).unwrap_or_else(|_| value.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(pairs: &[(&str, &str)]) -> Places {
        Places::from_lookup(|wanted| {
            pairs
                .iter()
                .find(|(name, _)| *name == wanted)
                .map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn explicit_variables_win_over_home() {
        let found = places(&[
            ("HOME", "/h"),
            ("XDG_STATE_HOME", "/s"),
            ("LSPOOL_CONFIG", "/c.toml"),
            ("LSPOOL_RUNTIME_DIR", "/r"),
        ]);
        assert_eq!(found.runtime.as_deref(), Some(Path::new("/r")));
        assert_eq!(found.state.as_deref(), Some(Path::new("/s/lspool")));
        assert_eq!(found.config.as_deref(), Some(Path::new("/c.toml")));
    }

    #[test]
    fn relative_xdg_values_are_ignored() {
        let found = places(&[
            ("HOME", "/h"),
            ("XDG_STATE_HOME", "s"),
            ("XDG_RUNTIME_DIR", "r"),
        ]);
        assert_eq!(found.xdg_runtime, None);
        assert_eq!(
            found.state.as_deref(),
            Some(Path::new("/h/.local/state/lspool"))
        );
        assert_eq!(
            found.config.as_deref(),
            Some(Path::new("/h/.config/lspool/config.toml"))
        );
    }

    #[test]
    fn what_somebody_names_is_taken_against_the_working_directory() {
        let here = std::env::current_dir().unwrap();
        let found = places(&[("LSPOOL_RUNTIME_DIR", "r"), ("LSPOOL_CONFIG", "c.toml")]);
        assert_eq!(found.runtime, Some(here.join("r")));
        assert_eq!(found.config, Some(here.join("c.toml")));
        assert!(found.config_is_named);
        assert!(!places(&[("HOME", "/h"), ("LSPOOL_CONFIG", "")]).config_is_named);
    }

    #[test]
    fn without_home_there_is_no_place() {
        assert_eq!(places(&[]), Places::default());
    }
}
