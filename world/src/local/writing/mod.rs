//! Writing a file as a whole. Owns the order of a change: look, check the intent, stage beside the place, publish in one
//! step. A reader sees the file before or after it, and a change that does not get that far leaves nothing.
//!
//! The file is a new one afterwards: other hard links keep the old text, and access lists and extended attributes stay
//! with it. Other processes are not held off (see [`locks`]): one that writes between the last look at the version and
//! the step after it is overwritten.

mod basis;
mod caller;
mod locks;
mod parents;
mod publication;
mod staging;
mod sweeping;

use std::path::Path;

use rustix::fs::Stat;
use rustix::io::Errno;

use self::parents::MadeFolders;
use self::publication::{Publication, publish, syncable};
use self::staging::{Staged, StagingFolder};
use super::inspection::version;
use super::opening::{Place, failure, present, require_regular};
use crate::fs::{WriteIntent, WriteOperation, WriteOptions, WriteOutcome};
use crate::{FileVersion, FsError};

pub(super) use basis::of_text as basis_of_text;
pub(super) use caller::{Caller, caller};
pub(super) use locks::KeyLocks;
pub(super) use sweeping::SweptFolders;

/// How often a folder is looked for again that another change made and took away.
const FOLDER_ATTEMPTS: usize = 16;

/// A change that is being made, under the lock of its key.
#[derive(Debug)]
pub(super) struct Change<'a> {
    /// The key.
    pub(super) resolved: &'a Path,
    /// The path for messages.
    pub(super) display: &'a Path,
    /// Who waits for it.
    pub(super) caller: &'a Caller,
    /// Whether the folders are synced.
    pub(super) durable: bool,
    /// The folders in which nothing is left of killed writers.
    pub(super) swept: &'a SweptFolders,
}

/// Writes a whole text. Nobody else in this process changes the same key meanwhile.
pub(super) fn write(
    change: &Change<'_>,
    text: &str,
    options: &WriteOptions,
) -> Result<WriteOutcome, FsError> {
    for _ in 0..FOLDER_ATTEMPTS {
        if let Some(outcome) = change.write_once(text, options)? {
            return Ok(outcome);
        }
    }
    Err(FsError::NotFound {
        path: change.display.to_path_buf(),
        reason: "the folder above it is taken away again and again",
    })
}

impl Change<'_> {
    /// `None` when the folder went away between the look and the staging.
    fn write_once(
        &self,
        text: &str,
        options: &WriteOptions,
    ) -> Result<Option<WriteOutcome>, FsError> {
        self.caller.require(self.display)?;
        let place = present(Place::open(self.resolved)).map_err(|errno| self.failure(errno))?;
        let found = match &place {
            Some(place) => place.stat().map_err(|errno| self.failure(errno))?,
            None => None,
        };
        self.check_intent(found.as_ref(), options.intent.as_ref())?;
        let after = options.diff_basis.then(|| basis::of_text(text)).flatten();
        let before = match (&place, &after) {
            (Some(place), Some(_)) => basis::of_file(place, self.caller, self.display)?,
            _ => None,
        };
        let (place, made) = match place {
            Some(place) => (place, MadeFolders::default()),
            None => match parents::make(self.resolved) {
                Ok(made) => made,
                Err(Errno::NOENT) => return Ok(None),
                Err(errno) => return Err(self.failure(errno)),
            },
        };
        let folder = match self.staging_folder(&place) {
            Ok(folder) => folder,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(self.failure(errno)),
        };
        let staged = Staged::write(
            folder,
            text.as_bytes(),
            found.as_ref(),
            self.caller,
            self.display,
        )?;
        let publication = match &options.intent {
            Some(WriteIntent::CreateIfAbsent) => Publication::IfAbsent,
            Some(WriteIntent::ReplaceIfVersion(version)) => Publication::OverVersion(version),
            None => Publication::OverAny,
        };
        let version = self.publish(staged, &place, made, publication)?;
        Ok(Some(WriteOutcome {
            operation: match found {
                Some(_) => WriteOperation::Updated,
                None => WriteOperation::Created,
            },
            version,
            before,
            after,
        }))
    }

    /// Puts a new content in the place of the file that was found there as `found`, if it is still that one.
    pub(super) fn replace(
        &self,
        place: &Place,
        content: &[u8],
        found: &Stat,
    ) -> Result<FileVersion, FsError> {
        let folder = self
            .staging_folder(place)
            .map_err(|errno| self.failure(errno))?;
        let staged = Staged::write(folder, content, Some(found), self.caller, self.display)?;
        let expected = version(found);
        let made = MadeFolders::default();
        self.publish(staged, place, made, Publication::OverVersion(&expected))
    }

    fn staging_folder<'p>(&self, place: &'p Place) -> Result<StagingFolder<'p>, Errno> {
        self.swept.sweep(place);
        StagingFolder::make(place)
    }

    /// What is synced is opened before the step: a folder that cannot be read fails the change while it still can.
    fn publish(
        &self,
        staged: Staged<'_>,
        place: &Place,
        made: MadeFolders,
        publication: Publication<'_>,
    ) -> Result<FileVersion, FsError> {
        let mut synced = Vec::new();
        if self.durable {
            let own = syncable(place.folder());
            for folder in made.parents().map(syncable).chain([own]) {
                synced.push(folder.map_err(|errno| self.failure(errno))?);
            }
        }
        let published = publish(
            staged,
            place,
            publication,
            &synced,
            self.caller,
            self.display,
        );
        if published.is_ok() {
            made.keep();
        }
        published
    }

    fn check_intent(
        &self,
        found: Option<&Stat>,
        intent: Option<&WriteIntent>,
    ) -> Result<(), FsError> {
        let path = || self.display.to_path_buf();
        if let Some(found) = found {
            require_regular(found, self.display)?;
        }
        match (intent, found) {
            (Some(WriteIntent::CreateIfAbsent), Some(_)) => {
                Err(FsError::NotObserved { path: path() })
            }
            (Some(WriteIntent::ReplaceIfVersion(expected)), found)
                if found.map(version).as_ref() != Some(expected) =>
            {
                Err(FsError::StaleVersion { path: path() })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn failure(&self, errno: Errno) -> FsError {
        failure(self.display, errno)
    }
}
