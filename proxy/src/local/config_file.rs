//! Reading the user's configuration file.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use crate::defaults::MAX_CONFIG_BYTES;

/// The text of the file, `None` where there is none.
#[expect(
    clippy::disallowed_methods,
    reason = "the configuration lies on lspool's own machine whatever the world"
)]
pub(crate) fn read(path: &Path) -> io::Result<Option<String>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
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
