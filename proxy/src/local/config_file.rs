//! Reading the user's configuration file.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::libc;

use crate::defaults::MAX_CONFIG_BYTES;

/// The text of the file, `None` where there is none. Only a regular file is read: nothing else ends for certain.
#[expect(
    clippy::disallowed_methods,
    reason = "the configuration lies on lspool's own machine whatever the world"
)]
pub(crate) fn read(path: &Path) -> io::Result<Option<String>> {
    // A FIFO without a writer must not hold up the opening.
    let opened = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    file.take(MAX_CONFIG_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_CONFIG_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is larger than {MAX_CONFIG_BYTES} bytes"),
        ));
    }
    Ok(Some(text))
}

/// A configuration file as it was when it was read, by time and size.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    path: PathBuf,
    facts: Option<(SystemTime, u64)>,
}

impl Seen {
    /// Looks at the file, which need not exist. Taken before the file is read, so that no later change is missed.
    pub(crate) fn now(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            facts: facts(path),
        }
    }

    /// Whether the file was changed, made or removed since. Blocks.
    pub(crate) fn has_changed(&self) -> bool {
        facts(&self.path) != self.facts
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the configuration lies on lspool's own machine whatever the world"
)]
fn facts(path: &Path) -> Option<(SystemTime, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
