//! `file:` URIs, byte for byte. Owns the one way in which this crate writes them and the tolerant way in which it reads
//! them. A name that is not UTF-8 survives: its bytes are percent-encoded.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use super::FsError;

/// The URI of an absolute path: `file://`, then the path with every byte escaped that RFC 3986 does not allow there.
///
/// Gives `FS_IO_ERROR` for a relative path, one with `..`, and one with a NUL byte.
pub fn file_uri_from_path(absolute: &Path) -> Result<String, FsError> {
    let refuse = |reason| FsError::Unnameable {
        name: absolute.to_string_lossy().into_owned(),
        reason,
    };
    if !absolute.is_absolute() {
        return Err(refuse("it is not absolute"));
    }
    let mut uri = String::from("file://");
    let mut is_root = true;
    for component in absolute.components() {
        match component {
            Component::Normal(name) => {
                is_root = false;
                uri.push('/');
                push_escaped(&mut uri, name.as_bytes());
            }
            Component::ParentDir => {
                return Err(refuse("a URI cannot keep '..' apart from its parent"));
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    if is_root {
        uri.push('/');
    }
    if absolute.as_os_str().as_bytes().contains(&0) {
        return Err(refuse("it contains a NUL byte"));
    }
    Ok(uri)
}

/// The path that a `file:` URI names. Escapes are decoded to bytes; characters that should have been escaped are taken
/// as they are. An empty host and `localhost` (in any case) are this world.
///
/// Gives `FS_IO_ERROR` for any other scheme or host, a relative path, a query, a fragment, a broken escape or a NUL byte.
pub fn path_from_file_uri(uri: &str) -> Result<PathBuf, FsError> {
    let refuse = |reason| FsError::Unnameable {
        name: uri.to_owned(),
        reason,
    };
    let rest = match uri.split_once(':') {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("file") => rest,
        _ => return Err(refuse("its scheme is not 'file'")),
    };
    let path = match rest.strip_prefix("//") {
        Some(after) => {
            let path_start = after.find('/').ok_or_else(|| refuse("it has no path"))?;
            let (host, path) = after.split_at(path_start);
            if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
                return Err(refuse("its host is another machine"));
            }
            path
        }
        None => rest,
    };
    if !path.starts_with('/') {
        return Err(refuse("its path is not absolute"));
    }
    if path.contains(['?', '#']) {
        return Err(refuse("it has a query or a fragment"));
    }
    let bytes = unescape(path).ok_or_else(|| refuse("it has a broken percent escape"))?;
    if bytes.contains(&0) {
        return Err(refuse("it contains a NUL byte"));
    }
    Ok(PathBuf::from(OsString::from_vec(bytes)))
}

/// Appends one path segment. The bytes kept are `pchar` of RFC 3986 without `%`.
fn push_escaped(uri: &mut String, segment: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in segment {
        if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push('%');
            uri.push(char::from(HEX[usize::from(byte >> 4)]));
            uri.push(char::from(HEX[usize::from(byte & 0x0f)]));
        }
    }
}

/// Decodes percent escapes; `None` where a `%` is not followed by two hexadecimal digits.
fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let high = char::from(bytes.next()?).to_digit(16)?;
            let low = char::from(bytes.next()?).to_digit(16)?;
            decoded.push((high << 4 | low) as u8);
        } else {
            decoded.push(byte);
        }
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_segment_survives_the_round_trip(segments in proptest::collection::vec("[^/\0]{1,20}", 0..5)) {
            let path = PathBuf::from(format!("/{}", segments.join("/")));
            prop_assume!(!path.components().any(|part| part == Component::ParentDir));
            let plain: PathBuf = path.components().collect();

            let uri = file_uri_from_path(&path).unwrap();

            prop_assert!(uri.is_ascii());
            prop_assert_eq!(path_from_file_uri(&uri).unwrap(), plain);
        }

        #[test]
        fn any_bytes_survive_the_round_trip(name in proptest::collection::vec(1u8..=255, 1..255)) {
            let name: Vec<u8> = name.into_iter().filter(|byte| *byte != b'/').collect();
            prop_assume!(!name.is_empty() && name != b".." && name != b".");
            let path = Path::new("/d").join(OsString::from_vec(name));

            let uri = file_uri_from_path(&path).unwrap();

            prop_assert_eq!(path_from_file_uri(&uri).unwrap(), path);
        }

        #[test]
        fn any_text_is_answered_without_a_panic(text in ".*") {
            let path = path_from_file_uri(&format!("file://{text}"));
            prop_assert!(path.is_err() || path.unwrap().is_absolute());
        }

        #[test]
        fn every_escaping_of_a_path_names_the_same_path(path in "(/[a-zA-Z0-9._é ~-]{1,8}){1,4}", upper in any::<bool>()) {
            let escaped: String = path.bytes().map(|byte| match (byte, upper) {
                (b'/', _) => "/".to_owned(),
                (_, true) => format!("%{byte:02X}"),
                (_, false) => format!("%{byte:02x}"),
            }).collect();
            prop_assert_eq!(path_from_file_uri(&format!("file://{escaped}")).unwrap(), PathBuf::from(&path));
            prop_assert_eq!(path_from_file_uri(&format!("FILE://LocalHost{path}")).unwrap(), PathBuf::from(&path));
        }
    }
}
