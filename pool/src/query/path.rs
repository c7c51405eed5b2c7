//! The file and the root that a request names, in any form that a path can have.

use std::path::{Path, PathBuf};

use lspool_normalize::{LspCode, RpcError};
use lspool_world::{Environment, FsError, World};

/// What a text in a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// A path: absolute, or relative to something that the request says elsewhere.
    Path(PathBuf),
    /// An absolute path, given as a `file:` URI.
    Uri(PathBuf),
    /// A document that is no file (`jdt:`, `deno:`).
    Virtual,
}

/// Reads a path or URI: a `file:` URI with any legal escaping, `~` and `~/…` for the home of `environment`, else a
/// path as it stands.
pub(super) fn named(
    world: &World,
    environment: &Environment,
    text: &str,
) -> Result<Named, FsError> {
    if let Some(scheme) = scheme(text) {
        if scheme.eq_ignore_ascii_case("file") {
            return world.fs().path_from_uri(text).map(Named::Uri);
        }
        return Ok(Named::Virtual);
    }
    let home = || environment.get("HOME").map(Path::new);
    let path = match text.strip_prefix('~') {
        Some("") => home().map(Path::to_path_buf),
        Some(rest) => rest
            .strip_prefix('/')
            .and_then(|rest| home().map(|home| home.join(rest.trim_start_matches('/')))),
        None => None,
    };
    Ok(Named::Path(path.unwrap_or_else(|| PathBuf::from(text))))
}

/// The scheme of a URI: at least two characters, so that a drive is none, and no dot, so that `a.rs:3` is a path.
fn scheme(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once(':')?;
    let legal = scheme.len() > 1
        && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "+-".contains(letter));
    (legal && !rest.is_empty()).then_some(scheme)
}

/// The error of a query about what an fs operation on one of its files gave.
pub(super) fn fs_error(error: &FsError) -> RpcError {
    RpcError::failed(error.code(), false, error.to_string(), None)
}

/// `LSP_WORKSPACE_REQUIRED`: a root is needed and none can be told.
pub(super) fn workspace_required(message: impl Into<String>) -> RpcError {
    RpcError::lsp(LspCode::WorkspaceRequired, message, None)
}

#[cfg(test)]
mod tests {
    use lspool_world::local::{InheritedOutput, LocalOptions};
    use lspool_world::{Environment, ScrubRules, World};
    use proptest::prelude::*;

    use super::{Named, named, scheme};

    fn world() -> World {
        World::local(LocalOptions {
            scrub_rules: ScrubRules::builtin(),
            inherited_output: InheritedOutput::Log,
            control_groups: None,
        })
    }

    #[test]
    fn a_path_with_a_colon_is_no_uri() {
        assert_eq!(scheme("src/a:b.rs"), None);
        assert_eq!(scheme("a.rs:3"), None);
        assert_eq!(scheme("c:/x"), None);
        assert_eq!(scheme("/a:b"), None);
        assert_eq!(scheme("jdt://contents/rt.jar"), Some("jdt"));
        assert_eq!(scheme("untitled:Untitled-1"), Some("untitled"));
        assert_eq!(scheme("FILE:/a"), Some("FILE"));
        assert_eq!(scheme("file:///a"), Some("file"));
    }

    proptest! {
        #[test]
        fn a_path_names_itself_and_its_uri_names_it_too(path in "(/[a-zé~:%#? ]{1,8}){1,4}") {
            let (world, environment) = (world(), Environment::default());
            let as_path = named(&world, &environment, &path).unwrap();
            prop_assert_eq!(as_path, Named::Path(path.clone().into()));
            let uri = world.fs().spelled_uri(path.as_ref()).unwrap();
            prop_assert_eq!(named(&world, &environment, &uri).unwrap(), Named::Uri(path.into()));
        }

        #[test]
        fn any_text_names_something_or_is_refused_as_a_uri(text in "\\PC{1,20}") {
            match named(&world(), &Environment::default(), &text) {
                Ok(Named::Uri(path)) => prop_assert!(path.is_absolute()),
                Ok(Named::Path(path)) => prop_assert_eq!(path.as_os_str(), text.as_str()),
                Ok(Named::Virtual) => prop_assert!(text.contains(':')),
                Err(error) => {
                    prop_assert_eq!(error.code(), "FS_IO_ERROR");
                    prop_assert!(text.to_lowercase().starts_with("file:"));
                }
            }
        }
    }
}
