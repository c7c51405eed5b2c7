//! Owns the capability profiles: what clients announce in `initialize`, as data files.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::uri::file_uri;

/// What a client announces in `initialize`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The `clientInfo`.
    #[serde(default, rename = "clientInfo")]
    pub client_info: Option<Value>,
    /// The capabilities.
    pub capabilities: Value,
    /// Other members of the params, such as `trace`.
    #[serde(default)]
    pub others: serde_json::Map<String, Value>,
    /// How the client names its folder: `rootPath`, `rootUri`, `workspaceFolders`.
    pub roots: Vec<String>,
}

impl Profile {
    /// A client that announces nothing: capabilities `{}` and a `rootUri`.
    pub fn bare() -> Self {
        read(include_str!("profiles/bare.json"))
    }

    /// A client that announces nearly all that LSP 3.17 has.
    pub fn full() -> Self {
        read(include_str!("profiles/full.json"))
    }

    /// Neovim 0.11.
    pub fn neovim() -> Self {
        read(include_str!("profiles/neovim-0.11.json"))
    }

    /// eglot 1.17.
    pub fn eglot() -> Self {
        read(include_str!("profiles/eglot-1.17.json"))
    }

    /// Visual Studio Code (vscode-languageclient 9).
    pub fn vscode() -> Self {
        read(include_str!("profiles/vscode.json"))
    }

    /// All profiles, by name.
    pub fn all() -> [(&'static str, Self); 5] {
        [
            ("bare", Self::bare()),
            ("full", Self::full()),
            ("neovim", Self::neovim()),
            ("eglot", Self::eglot()),
            ("vscode", Self::vscode()),
        ]
    }

    /// Applies an RFC 7396 merge patch to the capabilities.
    #[must_use]
    pub fn patched(mut self, patch: &Value) -> Self {
        merge(&mut self.capabilities, patch);
        self
    }
}

fn read(text: &str) -> Profile {
    serde_json::from_str(text)
        .unwrap_or_else(|error| panic!("a built-in profile is broken: {error}"))
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            if let Value::Object(target) = target {
                target.remove(key);
            }
        } else {
            merge(&mut target[key.as_str()], value);
        }
    }
}

/// The params of `initialize` as the client of `profile` sends them for the folder `root`.
pub fn initialize_params(profile: &Profile, root: &Path) -> Value {
    let uri = file_uri(root);
    let mut params = json!({"processId": std::process::id(), "capabilities": profile.capabilities});
    if let Some(info) = &profile.client_info {
        params["clientInfo"] = info.clone();
    }
    for (key, value) in &profile.others {
        params[key.as_str()] = value.clone();
    }
    let name = root
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    for key in &profile.roots {
        params[key.as_str()] = match key.as_str() {
            "rootPath" => json!(root),
            "workspaceFolders" => json!([{"uri": uri, "name": name}]),
            _ => json!(uri),
        };
    }
    params
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::{Profile, initialize_params};

    #[test]
    fn every_profile_gives_params_with_its_folder() {
        for (name, profile) in Profile::all() {
            let params = initialize_params(&profile, Path::new("/a b"));
            assert_eq!(params["rootUri"], "file:///a%20b", "{name}");
            assert!(params["capabilities"].is_object(), "{name}");
        }
        assert_eq!(Profile::bare().capabilities, json!({}));
    }

    #[test]
    fn a_patch_changes_the_capabilities_alone() {
        let patched =
            Profile::full().patched(&json!({"textDocument": {"hover": null}, "new": {"a": 1}}));
        assert!(patched.capabilities["textDocument"].get("hover").is_none());
        assert!(
            patched.capabilities["textDocument"]
                .get("definition")
                .is_some()
        );
        assert_eq!(patched.capabilities["new"], json!({"a": 1}));
    }
}
