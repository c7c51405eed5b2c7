//! Owns the making of file URIs for tests.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The `file:` URI of an absolute path: every byte but letters, digits and `-._~/` is escaped.
pub fn file_uri(path: &Path) -> String {
    let mut uri = String::from("file://");
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            // Writing into a String cannot fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::file_uri;

    #[test]
    fn odd_bytes_are_escaped() {
        assert_eq!(
            file_uri(Path::new("/a b/[id]#\u{e9}%")),
            "file:///a%20b/%5Bid%5D%23%C3%A9%25"
        );
    }
}
