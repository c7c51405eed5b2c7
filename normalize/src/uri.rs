//! URIs as they travel and as they are compared.
//!
//! Invariant: these are two types. A [`WireUri`] is the text that was sent and is only ever echoed; a [`UriKey`] is only
//! ever compared and never written to anybody. Every accepted spelling of one file has the same key.

use std::borrow::Cow;

use percent_encoding::percent_decode;
use serde::{Deserialize, Serialize};

/// A URI exactly as its sender spelled it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WireUri(String);

impl WireUri {
    /// Keeps a spelling.
    pub fn new(spelling: impl Into<String>) -> Self {
        Self(spelling.into())
    }

    /// The spelling.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What the spelling is compared by.
    pub fn key(&self) -> UriKey {
        UriKey::new(&self.0)
    }
}

impl std::fmt::Display for WireUri {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl From<String> for WireUri {
    fn from(spelling: String) -> Self {
        Self(spelling)
    }
}

impl From<&str> for WireUri {
    fn from(spelling: &str) -> Self {
        Self(spelling.to_owned())
    }
}

/// What two spellings of one URI have in common.
///
/// Percent escapes are decoded. For `file:` also: the scheme's case, an empty or `localhost` authority, one, three or
/// more slashes, a drive letter's case and `|` for its colon, backslashes behind a drive, dot segments, empty segments and a
/// trailing slash. A bare absolute path is taken for a file, since some servers send one. In a `file:` URI a raw `?`
/// or `#` belongs to the path: servers that write paths unescaped are common, queries on files are not. Links are not
/// resolved: that takes a file system.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UriKey {
    scheme: String,
    authority: Vec<u8>,
    path: Vec<u8>,
}

impl UriKey {
    /// The key of a spelling. Any text has one; it need not be a legal URI.
    pub fn new(spelling: &str) -> Self {
        match split_scheme(spelling) {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("file") => Self::file(rest),
            Some((scheme, rest)) => Self {
                scheme: scheme.to_ascii_lowercase(),
                authority: Vec::new(),
                path: decode(rest).into_owned(),
            },
            None if spelling.starts_with('/') || has_drive(spelling.as_bytes()) => {
                Self::of_path(spelling.as_bytes())
            }
            None => Self {
                scheme: String::new(),
                authority: Vec::new(),
                path: decode(spelling).into_owned(),
            },
        }
    }

    /// The key of an absolute file path, given as the bytes that the file system uses.
    pub fn of_path(path: &[u8]) -> Self {
        Self {
            scheme: "file".to_owned(),
            authority: Vec::new(),
            path: normal_path(path),
        }
    }

    /// The key of what follows `file:`.
    fn file(rest: &str) -> Self {
        let (authority, path) = match rest.strip_prefix("//") {
            None => ("", rest),
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        };
        // `file://C:/x` puts the drive where the host belongs.
        if has_drive(&decode(authority)) {
            let mut whole = decode(authority).into_owned();
            whole.extend_from_slice(&decode(path));
            return Self::of_path(&whole);
        }
        let authority = decode(authority).to_ascii_lowercase();
        Self {
            scheme: "file".to_owned(),
            authority: if authority == b"localhost" {
                Vec::new()
            } else {
                authority
            },
            path: normal_path(&decode(path)),
        }
    }

    /// The lower-case scheme; empty for a text that has none.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The decoded path of a file on this host, absolute, without a trailing slash; `None` for another scheme or host.
    pub fn file_path(&self) -> Option<&[u8]> {
        (self.scheme == "file" && self.authority.is_empty()).then_some(self.path.as_slice())
    }

    /// The decoded path below a root, without a leading slash; empty for the root itself, `None` for what is not inside.
    pub fn relative_to(&self, root: &Self) -> Option<&[u8]> {
        if self.scheme != root.scheme || self.authority != root.authority {
            return None;
        }
        let rest = self.path.strip_prefix(root.path.as_slice())?;
        if rest.is_empty() || root.path.ends_with(b"/") {
            return Some(rest);
        }
        rest.strip_prefix(b"/")
    }

    /// Whether this is the root or lies below it.
    pub fn is_within(&self, root: &Self) -> bool {
        self.relative_to(root).is_some()
    }
}

/// Splits `scheme:rest`. A single letter is a drive and no scheme.
fn split_scheme(spelling: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = spelling.split_once(':')?;
    let mut bytes = scheme.bytes();
    let legal = bytes
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    (legal && scheme.len() > 1).then_some((scheme, rest))
}

/// Decodes percent escapes; what is no escape stays as it is.
fn decode(text: &str) -> Cow<'_, [u8]> {
    percent_decode(text.as_bytes()).into()
}

/// Whether a path begins with a drive letter, `c:` or `c|`, and then ends or goes on with a separator.
fn has_drive(path: &[u8]) -> bool {
    matches!(path, [letter, b':' | b'|'] | [letter, b':' | b'|', b'/' | b'\\', ..] if letter.is_ascii_alphabetic())
}

/// An absolute path with one spelling: `/` between segments, no dot or empty segment, no trailing slash, a drive
/// letter in lower case.
fn normal_path(path: &[u8]) -> Vec<u8> {
    if let Some(normal) = drive_path(path) {
        return normal;
    }
    let normal = joined(&resolved(path.split(|&byte| byte == b'/'), 0));
    // Dot segments may have hidden a drive, as in `/x/../C:/a`.
    drive_path(&normal).unwrap_or(normal)
}

/// The normal form of a path that begins with a drive, in which a backslash separates too; `None` for any other path.
fn drive_path(path: &[u8]) -> Option<Vec<u8>> {
    let slashes = path.iter().take_while(|&&byte| byte == b'/').count();
    let from_drive = &path[slashes..];
    if !has_drive(from_drive) {
        return None;
    }
    let drive = [from_drive[0].to_ascii_lowercase(), b':'];
    let below = from_drive[2..].split(|&byte| byte == b'/' || byte == b'\\');
    // The drive is its own parent.
    let segments = resolved(std::iter::once(drive.as_slice()).chain(below), 1);
    Some(joined(&segments))
}

/// The segments without empty ones and dots; a double dot takes back the one before it, but never the first `fixed`.
fn resolved<'path>(segments: impl Iterator<Item = &'path [u8]>, fixed: usize) -> Vec<&'path [u8]> {
    let mut kept = Vec::new();
    for segment in segments {
        match segment {
            b"" | b"." => {}
            b".." => kept.truncate(fixed.max(kept.len().saturating_sub(1))),
            _ => kept.push(segment),
        }
    }
    kept
}

fn joined(segments: &[&[u8]]) -> Vec<u8> {
    let mut path = Vec::new();
    for segment in segments {
        path.push(b'/');
        path.extend_from_slice(segment);
    }
    if path.is_empty() {
        path.push(b'/');
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
    use proptest::prelude::*;

    fn same(left: &str, right: &str) -> bool {
        UriKey::new(left) == UriKey::new(right)
    }

    #[test]
    fn spellings_of_one_file_have_one_key() {
        let cases = [
            ("file:///c%3A/a%20b.rs", "file:///C:/a b.rs"),
            ("file:///C|/a", "file:///c:/a"),
            ("file://C:/a", "file:///c:/a"),
            ("file:///C:\\a\\b", "file:///c:/a/b"),
            ("C:\\a\\b", "file:///c:/a/b"),
            ("file:/a/b", "file:///a/b"),
            ("file://localhost/a/b", "file:///a/b"),
            ("FILE:///a/b", "file:///a/b"),
            ("file:////a/b", "file:///a/b"),
            ("file:////C:\\a", "file:///c:/a"),
            ("file:///x/../C:/a", "file:///c:/a"),
            ("file:///c:/../../a", "file:///c:/a"),
            ("file:///a/./b/../c", "file:///a/c"),
            ("file:///a/%2e%2e/c", "file:///c"),
            ("file:///../a", "file:///a"),
            ("file:///a//b/", "file:///a/b"),
            ("file:///", "file:///."),
            ("/a/b", "file:///a/b"),
            ("file:///app/[id]/page.tsx", "file:///app/%5Bid%5D/page.tsx"),
            ("file:///a/c#/x?.cs", "file:///a/c%23/x%3f.cs"),
            ("file:///%C3%A9", "file:///é"),
            ("untitled:Untitled-1", "untitled:Untitled%2D1"),
            ("JDT://contents/rt.jar", "jdt://contents/rt.jar"),
        ];
        for (left, right) in cases {
            assert!(same(left, right), "{left} and {right}");
        }
    }

    #[test]
    fn different_files_have_different_keys() {
        let cases = [
            ("file:///a/B", "file:///a/b"),
            ("file://server/a", "file:///a"),
            ("file:///a%2520b", "file:///a%20b"),
            ("file:///a/b", "untitled:/a/b"),
            ("file:///d:/a", "file:///c:/a"),
            ("file:///ab", "file:///a/b"),
            ("file:///C:x/a", "file:///c:x/a"),
        ];
        for (left, right) in cases {
            assert!(!same(left, right), "{left} and {right}");
        }
    }

    #[test]
    fn a_broken_escape_stays_as_it_is() {
        assert_eq!(
            UriKey::new("file:///100%").file_path(),
            Some(b"/100%".as_slice())
        );
        assert_eq!(
            UriKey::new("file:///%zz").file_path(),
            Some(b"/%zz".as_slice())
        );
        assert_eq!(
            UriKey::new("file:///%ff").file_path(),
            Some(b"/\xff".as_slice())
        );
    }

    #[test]
    fn only_files_of_this_host_have_a_path() {
        assert_eq!(UriKey::new("file://server/share/a").file_path(), None);
        assert_eq!(UriKey::new("deno:/https/x").file_path(), None);
        assert_eq!(UriKey::new("file:///").file_path(), Some(b"/".as_slice()));
    }

    #[test]
    fn containment_ends_at_a_segment() {
        let root = UriKey::new("file:///home/me/project/");
        let inside = UriKey::new("file:///home/me/project/src/%5Bid%5D.ts");
        assert_eq!(inside.relative_to(&root), Some(b"src/[id].ts".as_slice()));
        assert_eq!(root.relative_to(&root), Some(b"".as_slice()));
        assert!(!UriKey::new("file:///home/me/project2/a").is_within(&root));
        assert!(!UriKey::new("file:///home/me/project/../a").is_within(&root));
        assert!(UriKey::new("file:///etc/hosts").is_within(&UriKey::new("file:///")));
        assert!(!UriKey::new("jdt:/home/me/project/a").is_within(&root));
    }

    #[test]
    fn the_wire_keeps_its_spelling() {
        let uri: WireUri = serde_json::from_str("\"FILE:/c%3A/a b|\"").unwrap();
        assert_eq!(uri.as_str(), "FILE:/c%3A/a b|");
        assert_eq!(serde_json::to_string(&uri).unwrap(), "\"FILE:/c%3A/a b|\"");
    }

    proptest! {
        #[test]
        fn escaping_does_not_change_the_key(path in "/[ -~é🙂]{1,30}") {
            let escaped: String = path
                .split('/')
                .map(|segment| percent_encode(segment.as_bytes(), NON_ALPHANUMERIC).to_string())
                .collect::<Vec<_>>()
                .join("/");
            prop_assert_eq!(UriKey::new(&format!("file://{escaped}")), UriKey::of_path(path.as_bytes()));
        }

        #[test]
        fn a_key_of_a_keys_path_is_the_key(spelling in "(file:(//)?)?/?[aC:|/\\\\.%20]{0,12}") {
            let key = UriKey::new(&spelling);
            if let Some(path) = key.file_path() {
                prop_assert_eq!(&UriKey::of_path(path), &key);
                prop_assert!(key.is_within(&UriKey::new("file:///")));
            }
        }

        #[test]
        fn any_text_has_a_key(spelling in "\\PC{0,40}") {
            let key = UriKey::new(&spelling);
            prop_assert!(key.is_within(&key));
        }
    }
}
