//! Editing a file. Owns the order of the checks: what a caller expects of the file is looked at before its text is, and
//! the text that is edited is that of the version which is replaced.

use super::opening::{OpenFile, Place, present};
use super::reading::decode_all;
use super::writing::{Change, basis_of_text};
use crate::FsError;
use crate::fs::{
    BYTE_ORDER_MARK, EditFault, EditOptions, EditOutcome, EditRequest, TextDecoder, apply,
};

/// Replaces a text in a file. Nobody else in this process changes the same key meanwhile.
pub(super) fn edit(
    change: &Change<'_>,
    request: &EditRequest,
    options: &EditOptions,
) -> Result<EditOutcome, FsError> {
    change.caller.require(change.display)?;
    let (place, open) = open(change, options)?;
    let (text, had_bom) = decode_all(&open, TextDecoder::for_change(), change.display)?;
    change.caller.require(change.display)?;
    let edited = apply(&text, request).map_err(|fault| refusal(change, fault))?;
    let mut content = Vec::with_capacity(BYTE_ORDER_MARK.len() + edited.text.len());
    if had_bom {
        content.extend_from_slice(BYTE_ORDER_MARK);
    }
    content.extend_from_slice(edited.text.as_bytes());
    let version = change.replace(&place, &content, &open.stat)?;
    let basis = |text| options.diff_basis.then(|| basis_of_text(text)).flatten();
    let (before, after) = basis(&text).zip(basis(&edited.text)).unzip();
    Ok(EditOutcome {
        version,
        replacements: edited.replacements,
        before,
        after,
    })
}

/// Opens the file and checks that it is the one that the caller expects.
fn open(change: &Change<'_>, options: &EditOptions) -> Result<(Place, OpenFile), FsError> {
    let stale = || FsError::StaleVersion {
        path: change.display.to_path_buf(),
    };
    let place = present(Place::open(change.resolved))
        .map_err(|errno| change.failure(errno))?
        .ok_or_else(stale)?;
    let open = match place.open_regular(change.display) {
        Err(FsError::NotFound { .. }) => return Err(stale()),
        opened => opened?,
    };
    match &options.intent {
        Some(intent) if intent.version != open.version => Err(stale()),
        _ => Ok((place, open)),
    }
}

fn refusal(change: &Change<'_>, fault: EditFault) -> FsError {
    let path = change.display.to_path_buf();
    match fault {
        EditFault::NotFound => FsError::EditNotFound { path },
        EditFault::Ambiguous { matches, lines } => FsError::AmbiguousEdit {
            path,
            matches,
            lines,
        },
    }
}
