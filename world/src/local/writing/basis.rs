//! The texts before and after a change, as the basis of a diff. Owns their limit and the rule that a basis is optional:
//! what cannot be had is absent and never fails the change.

use std::io::Read;
use std::path::Path;

use super::caller::Caller;
use crate::FsError;
use crate::fs::{DIFF_BASIS_MAX_BYTES, decode_whole, with_line_feeds};
use crate::local::opening::{OpenFile, Place};

/// How much is read between two looks for the caller.
const SLICE_BYTES: usize = 64 * 1024;

/// The text as a basis; `None` for one of [`DIFF_BASIS_MAX_BYTES`] or more.
pub(in crate::local) fn of_text(text: &str) -> Option<String> {
    let unmarked = text.strip_prefix('\u{feff}').unwrap_or(text);
    is_small(text.len() as u64).then(|| with_line_feeds(unmarked))
}

/// The text of the file at a place; `None` where there is none, or none that is small enough.
///
/// Gives `FS_ABORTED` when nobody waits for it any more.
pub(super) fn of_file(
    place: &Place,
    caller: &Caller,
    display: &Path,
) -> Result<Option<String>, FsError> {
    match place.open_regular(display) {
        Ok(open) => of_open_file(open, caller, display),
        Err(_) => Ok(None),
    }
}

/// The bound is that of the opened file; one that grows or shrinks while it is read has no text.
fn of_open_file(
    mut open: OpenFile,
    caller: &Caller,
    display: &Path,
) -> Result<Option<String>, FsError> {
    if !is_small(open.size) {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    loop {
        caller.require(display)?;
        let mut slice = (&mut open.file).take(SLICE_BYTES as u64);
        match slice.read_to_end(&mut bytes) {
            Ok(0) => break,
            Ok(_) if bytes.len() as u64 <= open.size => {}
            Ok(_) | Err(_) => return Ok(None),
        }
    }
    if bytes.len() as u64 != open.size {
        return Ok(None);
    }
    Ok(decode_whole(bytes)
        .ok()
        .map(|(text, _)| with_line_feeds(&text)))
}

fn is_small(bytes: u64) -> bool {
    bytes < DIFF_BASIS_MAX_BYTES
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::path::PathBuf;

    use super::super::caller::caller;
    use super::*;

    fn opened(content: &[u8]) -> (tempfile::TempDir, PathBuf, OpenFile) {
        let scratch = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(scratch.path()).unwrap().join("file");
        fs::write(&path, content).unwrap();
        let open = Place::open(&path).unwrap().open_regular(&path).unwrap();
        (scratch, path, open)
    }

    fn basis(open: OpenFile) -> Option<String> {
        let (_presence, caller) = caller();
        of_open_file(open, &caller, Path::new("/shown")).unwrap()
    }

    #[test]
    fn a_small_text_has_line_feeds_alone() {
        let (_scratch, _, open) = opened("\u{feff}a\r\nb\rc\n".as_bytes());

        assert_eq!(basis(open).as_deref(), Some("a\nb\rc\n"));
    }

    #[test]
    fn what_is_no_text_has_no_basis() {
        for content in [&b"a\0b"[..], b"a\xffb"] {
            assert_eq!(basis(opened(content).2), None);
        }
    }

    #[test]
    fn a_file_that_changes_its_size_after_it_was_opened_has_no_basis() {
        for size in [0, 3, 200_000] {
            let (_scratch, path, open) = opened(&vec![b'a'; 100_000]);

            OpenOptions::new()
                .write(true)
                .open(&path)
                .unwrap()
                .set_len(size)
                .unwrap();

            assert_eq!(basis(open), None, "{size}");
        }
    }

    #[test]
    fn a_file_at_the_limit_has_no_basis_and_one_below_it_has() {
        let limit = usize::try_from(DIFF_BASIS_MAX_BYTES).unwrap();
        for (size, has_basis) in [(limit, false), (limit - 1, true)] {
            let (_scratch, _, open) = opened(&vec![b'a'; size]);
            assert_eq!(basis(open).is_some(), has_basis, "{size}");
        }
    }

    #[test]
    fn what_cannot_be_opened_has_no_basis() {
        let scratch = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(scratch.path()).unwrap();
        let (_presence, caller) = caller();
        for path in [root.join("nothing"), root.clone()] {
            let place = Place::open(&path).unwrap();
            assert_eq!(of_file(&place, &caller, &path).unwrap(), None);
        }
    }

    #[test]
    fn a_caller_that_has_gone_ends_the_reading() {
        let (_scratch, _, open) = opened(b"text");
        let (presence, caller) = caller();
        drop(presence);

        let ended = of_open_file(open, &caller, Path::new("/shown")).unwrap_err();

        assert_eq!(ended.code(), "FS_ABORTED");
    }
}
