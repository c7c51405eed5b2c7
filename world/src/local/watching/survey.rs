//! Looking at folders: watching them, listing them and noting the difference to what was known. Owns the rules that a
//! folder is watched before it is listed, so that nothing falls between, that links to folders are not followed, and
//! that a folder which cannot be watched makes the feed degraded.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use rustix::fs::inotify::WatchFlags;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat, fstat, lstat, open, stat, statat};
use rustix::io::Errno;

use super::barrier::is_private;
use super::instance::WatchNumber;
use super::tree::{FolderId, Place, ROOT};
use super::watcher::Watcher;

/// How many bytes of entries one read of a folder takes in.
const LISTING_CHUNK_BYTES: usize = 32 * 1024;

/// Why a folder is not watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blindness {
    /// The system refused; a change of the folder's permissions is a reason to look again.
    Refused,
    /// Watches or descriptors ran out; there may be some again at any time.
    Exhausted,
    /// The same folder is mounted at another place below the watched one, and the system has one watch for both.
    Alias,
}

impl Blindness {
    fn of(error: Errno) -> Self {
        match error {
            Errno::NOSPC | Errno::NOMEM | Errno::MFILE | Errno::NFILE => Self::Exhausted,
            _ => Self::Refused,
        }
    }
}

/// What a folder holds of what is looked at.
#[derive(Debug, Default)]
struct Listing {
    folders: BTreeSet<OsString>,
    files: BTreeSet<OsString>,
}

/// A folder that was looked at.
struct Entered {
    id: FolderId,
    handle: OwnedFd,
    /// Whether what is known of it and of all below it may be wrong.
    is_uncertain: bool,
}

impl Watcher {
    /// Brings what is known of a place, and of all below it, in line with what stands there. A folder that was watched
    /// all the time, at this place, is listed again only when the survey is `deep`.
    pub(super) fn survey(&mut self, place: Place, deep: bool) {
        let mut left = vec![(place, deep)];
        while let Some((place, deep)) = left.pop() {
            if self.has_ended || self.is_abandoned.load(Ordering::Relaxed) {
                return;
            }
            if let Place::Below(parent, _) = &place
                && !self.tree.contains(*parent)
            {
                continue;
            }
            let Some(entered) = self.enter(place, deep, &mut left) else {
                continue;
            };
            let names = self.list(entered.id, &entered.handle);
            left.extend(names.into_iter().map(|name| {
                let place = Place::Below(entered.id, name);
                (place, entered.is_uncertain)
            }));
        }
    }

    /// Watches what stands at a place. Gives it when it is to be listed.
    fn enter(
        &mut self,
        place: Place,
        deep: bool,
        left: &mut Vec<(Place, bool)>,
    ) -> Option<Entered> {
        let known = self.tree.at(&place);
        let handle = match open_folder(&self.tree.absolute(&place)) {
            Ok(handle) => handle,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                self.is_restless = true;
                match (&place, known) {
                    (Place::Root, _) => self.end(),
                    (_, Some(known)) => self.forget(known),
                    (_, None) => {}
                }
                return None;
            }
            Err(error) => {
                let id = known.unwrap_or_else(|| self.tree.add(place));
                self.blind.insert(id, Blindness::of(error));
                return None;
            }
        };
        if place == Place::Root && !self.is_watched_folder(&handle) {
            self.end();
            return None;
        }
        let watch = match self.instance.watch(handle.as_fd(), watched(&place)) {
            Ok(watch) => watch,
            Err(error) => {
                // A folder that has a watch keeps it: this one is another.
                let id = self.unwatched_at(place, known);
                self.blind.insert(id, Blindness::of(error));
                // What it holds now is known at least.
                let is_uncertain = true;
                return Some(Entered {
                    id,
                    handle,
                    is_uncertain,
                });
            }
        };
        let holder = self.tree.watched_by(watch);
        let id = match holder {
            Some(holder) if known == Some(holder) => {
                return deep.then_some(Entered {
                    id: holder,
                    handle,
                    is_uncertain: true,
                });
            }
            Some(holder) if self.stands(holder, &handle) => {
                let id = self.unwatched_at(place, known);
                self.blind.insert(id, Blindness::Alias);
                return None;
            }
            Some(holder) => self.take_over(holder, place, known, left)?,
            None => {
                let id = self.unwatched_at(place, known);
                self.tree.set_watch(id, Some(watch));
                id
            }
        };
        self.is_restless = true;
        if self.blind.remove(&id).is_some() {
            // What happened in it while it was not watched is not known.
            self.has_lost = true;
        }
        Some(Entered {
            id,
            handle,
            is_uncertain: deep || holder.is_some(),
        })
    }

    fn is_watched_folder(&self, handle: &OwnedFd) -> bool {
        fstat(handle).is_ok_and(|opened| (opened.st_dev, opened.st_ino) == self.identity)
    }

    /// The folder at a place, where a known one that is watched gives way: another stands there now.
    fn unwatched_at(&mut self, place: Place, known: Option<FolderId>) -> FolderId {
        match known {
            Some(known) if self.tree.watch(known).is_none() => known,
            Some(known) => {
                self.forget(known);
                self.tree.add(place)
            }
            None => self.tree.add(place),
        }
    }

    /// A known folder was found at another place, to which it has moved.
    fn take_over(
        &mut self,
        holder: FolderId,
        place: Place,
        known: Option<FolderId>,
        left: &mut Vec<(Place, bool)>,
    ) -> Option<FolderId> {
        if holder == ROOT {
            self.end();
            return None;
        }
        if let Place::Below(parent, _) = &place
            && self.tree.is_within(*parent, holder)
        {
            // It cannot be below itself: what is known of the way there is out of date, and is looked at anew.
            let stale = self.tree.place(holder).cloned();
            self.forget(holder);
            left.extend(stale.map(|place| (place, true)));
            return None;
        }
        if let Some(known) = known {
            self.forget(known);
        }
        self.rehome(holder, place);
        Some(holder)
    }

    /// Whether a known folder is still where it was, and is the opened one.
    fn stands(&self, folder: FolderId, handle: &OwnedFd) -> bool {
        let Some(place) = self.tree.place(folder) else {
            return false;
        };
        match (lstat(self.tree.absolute(place)), fstat(handle)) {
            (Ok(there), Ok(opened)) => is_same(&there, &opened),
            _ => false,
        }
    }

    /// Moves a folder and reports the files below it under their new names.
    fn rehome(&mut self, folder: FolderId, place: Place) {
        let files = self.tree.files_below(folder).into_iter();
        let files: Vec<_> = files
            .map(|(folder, name)| (self.tree.entry(folder, &name), folder, name))
            .collect();
        self.tree.rehome(folder, place);
        for (before, folder, name) in files {
            if self
                .filter
                .matches(&self.tree.relative_entry(folder, &name))
            {
                self.pending
                    .renamed(&before, &self.tree.entry(folder, &name));
            } else {
                self.tree.remove_file(folder, &name);
                self.pending.deleted(&before);
            }
        }
    }

    /// Forgets a folder and reports the files below it as deleted.
    pub(super) fn forget(&mut self, folder: FolderId) {
        let removed = self.tree.remove(folder);
        for watch in removed.watches {
            self.instance.unwatch(watch);
        }
        for folder in removed.folders {
            self.blind.remove(&folder);
        }
        for file in removed.files {
            self.pending.deleted(&file);
        }
    }

    /// Lists a folder, reports which files came and went, and gives the names of the folders to look at: those that are
    /// known and gone first, so that they are looked at last and one that has moved is met at its new place before.
    fn list(&mut self, id: FolderId, handle: &OwnedFd) -> Vec<OsString> {
        let listing = match self.read_entries(id, handle) {
            Ok(listing) => listing,
            Err(error) => {
                self.blind.insert(id, Blindness::of(error));
                return Vec::new();
            }
        };
        let known = self.tree.file_names(id);
        for name in known.difference(&listing.files) {
            self.file_is_gone(id, name);
        }
        for name in listing.files.difference(&known) {
            self.file_is_there(id, name);
        }
        let mut names = self.tree.folder_names(id);
        names.retain(|name| !listing.folders.contains(name));
        names.extend(listing.folders);
        names
    }

    fn read_entries(&self, id: FolderId, handle: &OwnedFd) -> Result<Listing, Errno> {
        let mut chunk = vec![MaybeUninit::uninit(); LISTING_CHUNK_BYTES];
        let mut entries = RawDir::new(handle, &mut chunk);
        let folder = self.tree.relative(id);
        let mut listing = Listing::default();
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == OsStr::new(".") || name == OsStr::new("..") {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => match statat(handle, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(found) => FileType::from_raw_mode(found.st_mode),
                    Err(_) => continue,
                },
                kind => kind,
            };
            if kind == FileType::Directory {
                if self.looks_into(name) {
                    listing.folders.insert(name.to_os_string());
                }
            } else if self.filter.matches(&folder.join(name))
                && is_file(kind, || statat(handle, name, AtFlags::empty()))
            {
                listing.files.insert(name.to_os_string());
            }
        }
        Ok(listing)
    }

    /// Whether a folder of this name is looked into.
    pub(super) fn looks_into(&self, name: &OsStr) -> bool {
        self.filter.enters(name) && !is_private(name)
    }

    /// Whether a file stands at an entry of a known folder.
    pub(super) fn is_file_at(&self, folder: FolderId, name: &OsStr) -> bool {
        let path = self.tree.entry(folder, name);
        lstat(&path).is_ok_and(|found| {
            let kind = FileType::from_raw_mode(found.st_mode);
            is_file(kind, || stat(&path))
        })
    }

    /// Notes a file that stands there, and reports it: as changed when it was known.
    pub(super) fn file_is_there(&mut self, folder: FolderId, name: &OsStr) {
        let path = self.tree.entry(folder, name);
        if self.tree.add_file(folder, name) {
            self.pending.created(&path);
        } else {
            self.pending.changed(&path);
        }
    }

    /// Forgets a file, and reports it as deleted when it was known.
    pub(super) fn file_is_gone(&mut self, folder: FolderId, name: &OsStr) {
        if self.tree.remove_file(folder, name) {
            self.pending.deleted(&self.tree.entry(folder, name));
        }
    }

    /// Looks again at folders for which there was no watch, until there is none again.
    pub(super) fn look_again(&mut self) {
        let exhausted = self.blind.iter();
        let exhausted: Vec<FolderId> = exhausted
            .filter(|(_, why)| **why == Blindness::Exhausted)
            .map(|(folder, _)| *folder)
            .collect();
        for folder in exhausted {
            let Some(place) = self.tree.place(folder).cloned() else {
                continue;
            };
            if self.is_exhausted(&place) {
                return;
            }
            self.survey(place, true);
        }
    }

    fn is_exhausted(&self, place: &Place) -> bool {
        let watch = || -> Result<WatchNumber, Errno> {
            let handle = open_folder(&self.tree.absolute(place))?;
            self.instance.watch(handle.as_fd(), watched(place))
        };
        watch().is_err_and(|error| Blindness::of(error) == Blindness::Exhausted)
    }
}

/// Which events of the folder at a place are needed.
fn watched(place: &Place) -> WatchFlags {
    let entries = WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO
        | WatchFlags::MODIFY
        | WatchFlags::CLOSE_WRITE
        | WatchFlags::ATTRIB
        // A file that has no name any more is not heard of under its old one.
        | WatchFlags::EXCL_UNLINK
        // Another mount of a folder that is watched takes nothing from its watch.
        | WatchFlags::MASK_ADD;
    match place {
        Place::Root => entries | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF,
        Place::Below(..) => entries,
    }
}

/// Opens a folder that is no link.
pub(super) fn open_folder(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    open(path, flags, Mode::empty())
}

/// Whether an entry of this kind is a file, or a link to one, which is asked only then.
fn is_file(kind: FileType, followed: impl FnOnce() -> Result<Stat, Errno>) -> bool {
    match kind {
        FileType::RegularFile => true,
        FileType::Symlink => followed()
            .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile),
        _ => false,
    }
}

fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}
