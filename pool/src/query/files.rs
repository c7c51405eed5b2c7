//! The files that an answer names: their identity, their spelling and their texts.
//!
//! Invariant: a place is told under one spelling however the server spelled it. The queried file has the caller's, a
//! file inside the root has the root's, all others the server's own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lspool_normalize::{LineIndex, Place, RpcError, UriKey, WireUri};
use lspool_world::{FileKind, Target, World};

use super::FinishInput;
use super::path::fs_error;
use super::text::{TextLimit, read_bounded};

/// What is known of one file that an answer names.
struct Known {
    /// The spelling under which it is told.
    uri: WireUri,
    site: Site,
}

/// Where a file lies.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// `None` for a virtual document and for what cannot be resolved.
    target: Option<Target>,
    /// Below the root, parts parted by `/`; `None` outside of it.
    pub(super) relative: Option<String>,
    is_queried: bool,
}

/// All files of one answer.
pub(super) struct Files<'a> {
    world: &'a World,
    input: &'a FinishInput,
    root: Target,
    by_server_key: BTreeMap<UriKey, Known>,
    sites: BTreeMap<UriKey, Site>,
}

/// The text of a file, as far as an answer about it can be checked.
pub(super) enum Content {
    /// There is a text.
    Text {
        /// The text that the server answered about.
        text: Arc<str>,
        /// The fs version of exactly that text; `None` while an editor holds another one than the disk.
        version: Option<String>,
    },
    /// The file is gone.
    Gone,
    /// The file cannot be read: virtual, too large, not text, not permitted.
    Unreadable,
}

impl<'a> Files<'a> {
    pub(super) async fn new(world: &'a World, input: &'a FinishInput) -> Result<Self, RpcError> {
        let root = resolve(world, &input.prepared.root_path)
            .await
            .map_err(|error| fs_error(&error))?;
        Ok(Self {
            world,
            input,
            root,
            by_server_key: BTreeMap::new(),
            sites: BTreeMap::new(),
        })
    }

    /// The root under the spelling that places inside it have.
    pub(super) fn root_key(&self) -> UriKey {
        UriKey::new(&self.input.prepared.root_uri)
    }

    /// Gives every place the spelling under which its file is told, so that two spellings of one file become one.
    pub(super) async fn respell(&mut self, places: &mut [Place]) {
        for place in places {
            let key = place.uri.key();
            if !self.by_server_key.contains_key(&key) {
                let known = self.learn(&place.uri, &key).await;
                self.sites.insert(known.uri.key(), known.site.clone());
                self.by_server_key.insert(key.clone(), known);
            }
            if let Some(known) = self.by_server_key.get(&key) {
                place.uri = known.uri.clone();
            }
        }
    }

    /// Where the file lies that is told under a spelling with that key.
    pub(super) fn site(&self, key: &UriKey) -> Option<&Site> {
        self.sites.get(key)
    }

    async fn learn(&self, uri: &WireUri, key: &UriKey) -> Known {
        let prepared = &self.input.prepared;
        let fs = self.world.fs();
        let path = fs
            .path_from_uri(uri.as_str())
            .ok()
            .or_else(|| file_path(key));
        let target = match path {
            Some(path) => resolve(self.world, &path).await.ok(),
            None => None,
        };
        let Some(target) = target else {
            return Known {
                uri: uri.clone(),
                site: Site {
                    target: None,
                    relative: None,
                    is_queried: false,
                },
            };
        };
        let is_queried = *target.key() == prepared.file_key;
        let relative = self.relative(&target);
        let inside = relative
            .as_ref()
            .map(|relative| prepared.root_path.join(relative));
        let uri = if is_queried {
            WireUri::new(prepared.asked_uri.clone())
        } else if key.is_within(&self.root_key()) {
            uri.clone()
        } else {
            // A link led the server to another spelling of a file inside the root.
            inside
                .and_then(|path| fs.spelled_uri(&path).ok())
                .map_or_else(|| uri.clone(), WireUri::new)
        };
        let relative = relative.map(|relative| relative.to_string_lossy().into_owned());
        Known {
            uri,
            site: Site {
                target: Some(target),
                relative,
                is_queried,
            },
        }
    }

    fn relative(&self, target: &Target) -> Option<PathBuf> {
        let fs = self.world.fs();
        if !fs.contains(&self.root, target) {
            return None;
        }
        let path = fs.process_path(target);
        path.strip_prefix(fs.process_path(&self.root))
            .ok()
            .map(Path::to_path_buf)
    }

    /// The text of a file: the one that the server holds open, else the one on disk.
    pub(super) async fn content(&self, key: &UriKey) -> Content {
        let prepared = &self.input.prepared;
        let site = self.sites.get(key);
        if site.is_some_and(|site| site.is_queried) {
            let from_disk = prepared.editor_text.is_none();
            return Content::Text {
                text: Arc::clone(&prepared.text),
                version: from_disk.then(|| prepared.file_version.clone()),
            };
        }
        let on_disk = match site.and_then(|site| site.target.as_ref()) {
            Some(target) => self.read(target).await,
            None => Content::Unreadable,
        };
        let held = self
            .input
            .open_texts
            .iter()
            .find(|(open, _)| self.names(open, key))
            .map(|(_, text)| text);
        match (held, on_disk) {
            (None, on_disk) => on_disk,
            (Some(held), Content::Text { text, version }) if *held == text => {
                Content::Text { text, version }
            }
            (Some(held), _) => Content::Text {
                text: Arc::clone(held),
                version: None,
            },
        }
    }

    /// Whether a document that the server holds open is the file told under `key`.
    fn names(&self, open: &UriKey, key: &UriKey) -> bool {
        open == key
            || self
                .by_server_key
                .get(open)
                .is_some_and(|known| known.uri.key() == *key)
    }

    async fn read(&self, target: &Target) -> Content {
        match self.world.fs().stat(target).await {
            Ok(Some(metadata)) if metadata.kind == FileKind::File => {}
            Ok(None) => return Content::Gone,
            Ok(Some(_)) | Err(_) => return Content::Unreadable,
        }
        match read_bounded(
            self.world,
            target,
            self.input.prepared.definition.max_document_bytes,
        )
        .await
        {
            Ok(file) => Content::Text {
                text: Arc::from(file.text),
                version: Some(file.version),
            },
            Err(TextLimit::Fs(error)) if error.code() == "FS_NOT_FOUND" => Content::Gone,
            Err(_) => Content::Unreadable,
        }
    }
}

async fn resolve(world: &World, path: &Path) -> Result<Target, lspool_world::FsError> {
    world.fs().resolve(path, Path::new("/")).await
}

/// The path of a file URI that is not quite legal, such as one with an unescaped `#`.
fn file_path(key: &UriKey) -> Option<PathBuf> {
    let text = std::str::from_utf8(key.file_path()?).ok()?;
    Some(PathBuf::from(text))
}

/// The lines around a zero-based line, itself included; none for `around` 0.
pub(super) fn context_lines(index: &LineIndex<'_>, line: u32, around: u32) -> Vec<(u32, String)> {
    if around == 0 {
        return Vec::new();
    }
    let last = line.saturating_add(around).min(index.line_count() - 1);
    (line.saturating_sub(around)..=last)
        .filter_map(|number| index.line(number).map(|text| (number, text.to_owned())))
        .collect()
}
