//! What each event means. Owns the pairing of the two halves of a rename, and the rule that what an event says of an entry
//! is checked against what stands there wherever it may be out of date.

use std::ffi::{OsStr, OsString};

use rustix::fs::inotify::ReadFlags;

use super::instance::Event;
use super::survey::Blindness;
use super::tree::{FolderId, Place, ROOT};
use super::watcher::Watcher;

/// What has left its place, and whose arrival may yet be read.
#[derive(Debug, Default)]
pub(super) struct Departures {
    files: Vec<DepartedFile>,
    /// A folder is recognized where it arrives, so its old place is enough.
    folders: Vec<Place>,
}

#[derive(Debug)]
struct DepartedFile {
    cookie: u32,
    folder: FolderId,
    name: OsString,
}

/// What the arrival of an entry is read from.
const COMING: ReadFlags = ReadFlags::CREATE.union(ReadFlags::MOVED_TO);

impl Watcher {
    /// Takes in one event.
    pub(super) fn handle(&mut self, event: Event) {
        if event.what.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.has_overflowed = true;
            return;
        }
        let barrier = self.barrier.as_ref();
        if barrier.is_some_and(|barrier| barrier.watch_number() == event.watch) {
            if event.what.contains(ReadFlags::IGNORED) {
                self.barrier = None;
            } else {
                self.reached = event.name;
            }
            return;
        }
        let Some(folder) = self.tree.watched_by(event.watch) else {
            // It ended, and these are the last events of it.
            return;
        };
        if event.what.contains(ReadFlags::IGNORED) {
            self.watch_ended(folder);
        } else if let Some(name) = event.name {
            if event.what.contains(ReadFlags::ISDIR) {
                self.folder_event(folder, name, event.what);
            } else {
                self.file_event(folder, &name, event.what, event.cookie);
            }
        } else if folder == ROOT {
            self.check_root();
            if event.what.contains(ReadFlags::ATTRIB) && self.is_blind_within(&Place::Root) {
                self.survey(Place::Root, true);
            }
        }
    }

    /// The kernel ended a watch by itself, since the folder was deleted or its file system was unmounted.
    fn watch_ended(&mut self, folder: FolderId) {
        if folder == ROOT {
            return self.end();
        }
        self.tree.set_watch(folder, None);
        if let Some(place) = self.tree.place(folder).cloned() {
            self.survey(place, true);
        }
    }

    fn folder_event(&mut self, parent: FolderId, name: OsString, what: ReadFlags) {
        if !self.looks_into(&name) {
            return;
        }
        let place = Place::Below(parent, name);
        if what.contains(ReadFlags::MOVED_FROM) {
            self.departures.folders.push(place);
        } else if what.intersects(COMING.union(ReadFlags::DELETE)) {
            // While a folder was on its way, what happened in it could not be looked at.
            self.survey(place, what.contains(ReadFlags::MOVED_TO));
        } else if self.is_blind_within(&place) {
            self.survey(place, true);
        }
    }

    /// Whether a folder at or below a place could not be read.
    fn is_blind_within(&self, place: &Place) -> bool {
        let refused = self.blind.iter();
        let mut refused = refused.filter(|(_, why)| **why == Blindness::Refused);
        self.tree
            .at(place)
            .is_some_and(|above| refused.any(|(folder, _)| self.tree.is_within(*folder, above)))
    }

    fn file_event(&mut self, folder: FolderId, name: &OsStr, what: ReadFlags, cookie: u32) {
        if what.contains(ReadFlags::MOVED_FROM) {
            if self.tree.has_file(folder, name) {
                let name = name.to_os_string();
                let departed = DepartedFile {
                    cookie,
                    folder,
                    name,
                };
                self.departures.files.push(departed);
            }
        } else if what.contains(ReadFlags::MOVED_TO) {
            match self.departed(cookie) {
                Some(departed) => self.file_moved(&departed, folder, name),
                None => self.look_at(folder, name),
            }
        } else if what.contains(ReadFlags::DELETE) {
            self.file_is_gone(folder, name);
        } else if what.contains(ReadFlags::CREATE) || !self.tree.has_file(folder, name) {
            self.look_at(folder, name);
        } else {
            self.file_is_there(folder, name);
        }
    }

    /// The file whose departure has this cookie.
    fn departed(&mut self, cookie: u32) -> Option<DepartedFile> {
        let files = &mut self.departures.files;
        let at = files
            .iter()
            .position(|departed| departed.cookie == cookie)?;
        let departed = files.remove(at);
        self.tree
            .has_file(departed.folder, &departed.name)
            .then_some(departed)
    }

    /// A known file has moved to a place below the watched folder.
    fn file_moved(&mut self, from: &DepartedFile, folder: FolderId, name: &OsStr) {
        let is_reported = self.filter.matches(&self.tree.relative_entry(folder, name));
        let before = self.tree.entry(from.folder, &from.name);
        if is_reported && !self.tree.has_file(folder, name) {
            self.tree.remove_file(from.folder, &from.name);
            self.tree.add_file(folder, name);
            self.pending
                .renamed(&before, &self.tree.entry(folder, name));
        } else {
            self.file_is_gone(from.folder, &from.name);
            if is_reported {
                self.file_is_there(folder, name);
            }
        }
        // Two files can change places in one step.
        if self.is_file_at(from.folder, &from.name) {
            self.file_is_there(from.folder, &from.name);
        }
    }

    /// Looks what stands at an entry of which something was heard.
    fn look_at(&mut self, folder: FolderId, name: &OsStr) {
        let is_reported = self.filter.matches(&self.tree.relative_entry(folder, name));
        if !is_reported {
            return;
        }
        if self.is_file_at(folder, name) {
            self.file_is_there(folder, name);
        } else {
            self.is_restless = true;
            self.file_is_gone(folder, name);
        }
    }

    /// Decides on what has left its place and did not arrive at another below the watched folder.
    pub(super) fn settle_departures(&mut self) {
        let departures = std::mem::take(&mut self.departures);
        for departed in departures.files {
            if !self.tree.has_file(departed.folder, &departed.name) {
                continue;
            }
            if self.is_file_at(departed.folder, &departed.name) {
                self.file_is_there(departed.folder, &departed.name);
            } else {
                self.file_is_gone(departed.folder, &departed.name);
            }
        }
        for place in departures.folders {
            if self.tree.at(&place).is_some() {
                self.survey(place, true);
            }
        }
    }
}
