//! What a feed knows of the files below its folder: the folders that it looks into and the names of the files that it
//! reports. Pure: it asks the system nothing. Owns the rule that a folder has one place and at most one watch, and that
//! moving a folder moves all that is below it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::instance::WatchNumber;

/// A known folder, whatever its name is now. An id is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FolderId(u64);

/// The watched folder itself.
pub(super) const ROOT: FolderId = FolderId(0);

/// Where a folder stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It is the watched folder itself.
    Root,
    /// It has this name in this folder.
    Below(FolderId, OsString),
}

#[derive(Debug)]
struct Folder {
    place: Place,
    folders: BTreeMap<OsString, FolderId>,
    files: BTreeSet<OsString>,
    watch: Option<WatchNumber>,
}

impl Folder {
    fn at(place: Place) -> Self {
        Self {
            place,
            folders: BTreeMap::new(),
            files: BTreeSet::new(),
            watch: None,
        }
    }
}

/// What was below a folder that is not known any more.
#[derive(Debug, Default)]
pub(super) struct Removed {
    /// The folders, the removed one among them.
    pub(super) folders: Vec<FolderId>,
    /// Their watches.
    pub(super) watches: Vec<WatchNumber>,
    /// The absolute paths of the files.
    pub(super) files: Vec<PathBuf>,
}

/// All known folders and files.
#[derive(Debug)]
pub(super) struct Tree {
    path: PathBuf,
    folders: HashMap<FolderId, Folder>,
    watches: HashMap<WatchNumber, FolderId>,
    next: u64,
}

impl Tree {
    /// A tree of the watched folder alone.
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            folders: HashMap::from([(ROOT, Folder::at(Place::Root))]),
            watches: HashMap::new(),
            next: 1,
        }
    }

    /// The absolute path of the watched folder.
    pub(super) fn root(&self) -> &Path {
        &self.path
    }

    /// Whether the folder is known still.
    pub(super) fn contains(&self, folder: FolderId) -> bool {
        self.folders.contains_key(&folder)
    }

    /// The folder at a place.
    pub(super) fn at(&self, place: &Place) -> Option<FolderId> {
        match place {
            Place::Root => self.contains(ROOT).then_some(ROOT),
            Place::Below(parent, name) => self.folders.get(parent)?.folders.get(name).copied(),
        }
    }

    /// Where a folder stands.
    pub(super) fn place(&self, folder: FolderId) -> Option<&Place> {
        self.folders.get(&folder).map(|folder| &folder.place)
    }

    /// The path of a folder, relative to the watched one.
    pub(super) fn relative(&self, folder: FolderId) -> PathBuf {
        let mut names = Vec::new();
        let mut at = folder;
        while let Some(Place::Below(parent, name)) = self.place(at) {
            names.push(name);
            at = *parent;
        }
        names.into_iter().rev().collect()
    }

    /// The path of an entry of a folder, relative to the watched one.
    pub(super) fn relative_entry(&self, folder: FolderId, name: &OsStr) -> PathBuf {
        let mut path = self.relative(folder);
        path.push(name);
        path
    }

    /// The absolute path of an entry of a folder.
    pub(super) fn entry(&self, folder: FolderId, name: &OsStr) -> PathBuf {
        self.path.join(self.relative_entry(folder, name))
    }

    /// The absolute path of a place.
    pub(super) fn absolute(&self, place: &Place) -> PathBuf {
        match place {
            Place::Root => self.path.clone(),
            Place::Below(parent, name) => self.entry(*parent, name),
        }
    }

    /// Whether the folder is `above` or lies below it.
    pub(super) fn is_within(&self, folder: FolderId, above: FolderId) -> bool {
        let mut at = folder;
        while at != above {
            match self.place(at) {
                Some(Place::Below(parent, _)) => at = *parent,
                Some(Place::Root) | None => return false,
            }
        }
        true
    }

    /// The folder that has this watch.
    pub(super) fn watched_by(&self, watch: WatchNumber) -> Option<FolderId> {
        self.watches.get(&watch).copied()
    }

    /// The watch of a folder.
    pub(super) fn watch(&self, folder: FolderId) -> Option<WatchNumber> {
        self.folders.get(&folder)?.watch
    }

    /// Gives a folder a watch, or says that it has none.
    pub(super) fn set_watch(&mut self, folder: FolderId, watch: Option<WatchNumber>) {
        let Some(known) = self.folders.get_mut(&folder) else {
            return;
        };
        if let Some(before) = std::mem::replace(&mut known.watch, watch) {
            self.watches.remove(&before);
        }
        if let Some(watch) = watch {
            self.watches.insert(watch, folder);
        }
    }

    /// Makes a folder known at a place where none is.
    pub(super) fn add(&mut self, place: Place) -> FolderId {
        let id = FolderId(self.next);
        self.next += 1;
        self.hang(id, &place);
        self.folders.insert(id, Folder::at(place));
        id
    }

    /// Moves a folder to a place where none is and that is not below itself.
    pub(super) fn rehome(&mut self, folder: FolderId, place: Place) {
        self.unhang(folder);
        self.hang(folder, &place);
        if let Some(known) = self.folders.get_mut(&folder) {
            known.place = place;
        }
    }

    fn hang(&mut self, folder: FolderId, place: &Place) {
        if let Place::Below(parent, name) = place
            && let Some(parent) = self.folders.get_mut(parent)
        {
            parent.folders.insert(name.clone(), folder);
        }
    }

    fn unhang(&mut self, folder: FolderId) {
        if let Some(Place::Below(parent, name)) = self.place(folder).cloned()
            && let Some(parent) = self.folders.get_mut(&parent)
        {
            parent.folders.remove(&name);
        }
    }

    /// Forgets a folder and all below it.
    pub(super) fn remove(&mut self, folder: FolderId) -> Removed {
        let files = self.files_below(folder);
        let files = files.iter().map(|(folder, name)| self.entry(*folder, name));
        let mut removed = Removed {
            files: files.collect(),
            ..Removed::default()
        };
        self.unhang(folder);
        let mut left = vec![folder];
        while let Some(id) = left.pop() {
            let Some(known) = self.folders.remove(&id) else {
                continue;
            };
            left.extend(known.folders.into_values());
            if let Some(watch) = known.watch {
                self.watches.remove(&watch);
                removed.watches.push(watch);
            }
            removed.folders.push(id);
        }
        removed
    }

    /// The files of a folder and of all below it, each with its folder.
    pub(super) fn files_below(&self, folder: FolderId) -> Vec<(FolderId, OsString)> {
        let mut files = Vec::new();
        let mut left = vec![folder];
        while let Some(id) = left.pop() {
            let Some(known) = self.folders.get(&id) else {
                continue;
            };
            files.extend(known.files.iter().map(|name| (id, name.clone())));
            left.extend(known.folders.values());
        }
        files
    }

    /// The names of the folders in a folder.
    pub(super) fn folder_names(&self, folder: FolderId) -> Vec<OsString> {
        let known = self.folders.get(&folder);
        known.map_or_else(Vec::new, |known| known.folders.keys().cloned().collect())
    }

    /// The names of the files in a folder.
    pub(super) fn file_names(&self, folder: FolderId) -> BTreeSet<OsString> {
        let known = self.folders.get(&folder);
        known.map_or_else(BTreeSet::new, |known| known.files.clone())
    }

    /// Whether a file is known.
    pub(super) fn has_file(&self, folder: FolderId, name: &OsStr) -> bool {
        let known = self.folders.get(&folder);
        known.is_some_and(|known| known.files.contains(name))
    }

    /// Makes a file known. Says whether it was not.
    pub(super) fn add_file(&mut self, folder: FolderId, name: &OsStr) -> bool {
        let known = self.folders.get_mut(&folder);
        known.is_some_and(|known| known.files.insert(name.to_os_string()))
    }

    /// Forgets a file. Says whether it was known.
    pub(super) fn remove_file(&mut self, folder: FolderId, name: &OsStr) -> bool {
        let known = self.folders.get_mut(&folder);
        known.is_some_and(|known| known.files.remove(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(parent: FolderId, name: &str) -> Place {
        Place::Below(parent, name.into())
    }

    /// `/r` with `a/b/f`, both folders watched.
    fn tree() -> (Tree, FolderId, FolderId) {
        let mut tree = Tree::new("/r".into());
        let outer = tree.add(below(ROOT, "a"));
        let inner = tree.add(below(outer, "b"));
        tree.set_watch(outer, Some(1));
        tree.set_watch(inner, Some(2));
        assert!(tree.add_file(inner, OsStr::new("f")));
        (tree, outer, inner)
    }

    #[test]
    fn what_is_below_a_folder_moves_with_it() {
        let (mut tree, outer, inner) = tree();

        tree.rehome(outer, below(ROOT, "c"));

        assert_eq!(tree.entry(inner, OsStr::new("f")), Path::new("/r/c/b/f"));
        assert_eq!(tree.at(&below(ROOT, "a")), None);
        assert_eq!(tree.at(&below(ROOT, "c")), Some(outer));
        assert_eq!(tree.watched_by(2), Some(inner));
        assert!(tree.is_within(inner, outer) && tree.is_within(inner, ROOT));
        assert!(!tree.is_within(outer, inner));
    }

    #[test]
    fn a_folder_that_goes_takes_its_files_and_watches_along() {
        let (mut tree, outer, inner) = tree();

        let removed = tree.remove(outer);

        assert_eq!(removed.files, [PathBuf::from("/r/a/b/f")]);
        assert_eq!(removed.watches, [1, 2]);
        assert_eq!(removed.folders, [outer, inner]);
        assert!(!tree.contains(inner) && tree.folder_names(ROOT).is_empty());
        assert_eq!(tree.watched_by(2), None);
        assert!(!tree.add_file(inner, OsStr::new("g")));
    }

    #[test]
    fn a_watch_belongs_to_one_folder() {
        let (mut tree, outer, _) = tree();

        tree.set_watch(outer, Some(7));

        assert_eq!(tree.watched_by(1), None);
        assert_eq!(tree.watched_by(7), Some(outer));
        assert_eq!(tree.watch(outer), Some(7));
    }
}
