//! Operating-system strings in JSON: what is UTF-8 is a string, what is not is `{"hex": "…"}`, and both come back byte
//! for byte.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path, an argument or a variable as the operating system has it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct OsText(pub(crate) OsString);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Wire {
    Text(String),
    Bytes { hex: String },
}

impl OsText {
    /// The string for people.
    pub(crate) fn to_lossy(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }

    /// The string as a path.
    pub(crate) fn into_path(self) -> PathBuf {
        PathBuf::from(self.0)
    }
}

impl From<&OsStr> for OsText {
    fn from(text: &OsStr) -> Self {
        Self(text.to_owned())
    }
}

impl From<OsString> for OsText {
    fn from(text: OsString) -> Self {
        Self(text)
    }
}

impl From<&Path> for OsText {
    fn from(path: &Path) -> Self {
        Self(path.as_os_str().to_owned())
    }
}

impl Serialize for OsText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => Wire::Text(text.to_owned()),
            None => Wire::Bytes {
                hex: to_hex(self.0.as_bytes()),
            },
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for OsText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Wire::deserialize(deserializer)? {
            Wire::Text(text) => Ok(Self(text.into())),
            Wire::Bytes { hex } => from_hex(&hex)
                .map(|bytes| Self(OsString::from_vec(bytes)))
                .ok_or_else(|| {
                    D::Error::custom("`hex` is not an even number of hexadecimal digits")
                }),
        }
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = text
        .chars()
        .map(|digit| digit.to_digit(16))
        .collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| {
        pairs
            .iter()
            .map(|[high, low]| (high * 16 + low) as u8)
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_byte_string_survives(bytes in proptest::collection::vec(1_u8..=255, 0..64)) {
            let text = OsText(OsString::from_vec(bytes));
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(serde_json::from_str::<OsText>(&json).unwrap(), text);
        }

        #[test]
        fn arbitrary_hex_never_panics(hex in "\\PC*") {
            let json = serde_json::json!({ "hex": hex }).to_string();
            let decoded = serde_json::from_str::<OsText>(&json);
            let valid = hex.chars().all(|digit| digit.is_ascii_hexdigit()) && hex.len().is_multiple_of(2);
            prop_assert_eq!(decoded.is_ok(), valid);
        }
    }

    #[test]
    fn utf8_is_readable_in_the_message() {
        assert_eq!(
            serde_json::to_string(&OsText("é b".into())).unwrap(),
            "\"é b\""
        );
    }
}
