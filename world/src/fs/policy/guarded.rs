//! The file operations of a caller whom policy applies to. Owns the order of fence, gates, change and record, so that no
//! face can leave one out.

use super::{Observation, PolicyChain, writable_target};
use crate::fs::{
    EditIntent, EditOptions, EditOutcome, EditRequest, WriteIntent, WriteOptions, WriteOutcome,
};
use crate::{FileSystem, FsError, SandboxPolicy, Target, TextFile};

/// The files as one caller may use them. It is made for one call and holds nothing: a call under a wider mode that was
/// approved is made with that mode's policy, and the next is not.
///
/// A condition that the caller states itself stands, and the gates are not asked: whoever names a version has read it,
/// and whoever demands that nothing is there overwrites nothing.
#[derive(Clone, Copy, Debug)]
pub struct GuardedFiles<'a> {
    /// The files.
    pub fs: &'a dyn FileSystem,
    /// The gates and recorders that are mounted around them.
    pub chain: &'a PolicyChain,
    /// Who asks: a name of the face's making, one for each connection.
    pub actor: &'a str,
    /// The confinement that this call is under.
    pub sandbox: &'a SandboxPolicy,
}

impl GuardedFiles<'_> {
    /// As [`FileSystem::read_text`]; what was seen is recorded, also that nothing was there. A face that reads in
    /// another way tells [`PolicyChain::observed`] itself.
    pub async fn read_text(&self, target: &Target) -> Result<TextFile, FsError> {
        let read = self.fs.read_text(target).await;
        match &read {
            Ok(file) => self.saw(target, &Observation::Present(file.version.clone())),
            Err(FsError::NotFound { .. }) => self.saw(target, &Observation::Absent),
            Err(_) => {}
        }
        read
    }

    /// As [`FileSystem::write_text`], fenced, under the condition of the gates, and recorded. A call that is dropped is
    /// recorded only where the write was answered, so that the caller must read before it writes again.
    ///
    /// Gives `FS_SANDBOX_DENIED`, the refusals of the gates and the errors of [`FileSystem::write_text`].
    pub async fn write_text(
        &self,
        target: &Target,
        text: &str,
        options: &WriteOptions,
    ) -> Result<WriteOutcome, FsError> {
        let target = writable_target(self.fs, target, self.sandbox).await?;
        let options = WriteOptions {
            intent: self.write_intent(&target, options)?,
            ..options.clone()
        };
        let outcome = self.fs.write_text(&target, text, &options).await?;
        self.saw(&target, &Observation::Present(outcome.version.clone()));
        Ok(outcome)
    }

    /// As [`FileSystem::edit_text`]; otherwise as [`GuardedFiles::write_text`].
    ///
    /// Gives `FS_SANDBOX_DENIED`, the refusals of the gates and the errors of [`FileSystem::edit_text`].
    pub async fn edit_text(
        &self,
        target: &Target,
        edit: &EditRequest,
        options: &EditOptions,
    ) -> Result<EditOutcome, FsError> {
        let target = writable_target(self.fs, target, self.sandbox).await?;
        let options = EditOptions {
            intent: self.edit_intent(&target, options)?,
            ..options.clone()
        };
        let outcome = self.fs.edit_text(&target, edit, &options).await?;
        self.saw(&target, &Observation::Present(outcome.version.clone()));
        Ok(outcome)
    }

    fn write_intent(
        &self,
        target: &Target,
        options: &WriteOptions,
    ) -> Result<Option<WriteIntent>, FsError> {
        match &options.intent {
            Some(intent) => Ok(Some(intent.clone())),
            None => self.chain.write_intent(target, self.actor),
        }
    }

    fn edit_intent(
        &self,
        target: &Target,
        options: &EditOptions,
    ) -> Result<Option<EditIntent>, FsError> {
        match &options.intent {
            Some(intent) => Ok(Some(intent.clone())),
            None => self.chain.edit_intent(target, self.actor),
        }
    }

    fn saw(&self, target: &Target, observation: &Observation) {
        self.chain.observed(target, self.actor, observation);
    }
}
