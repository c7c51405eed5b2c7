//! Places in a project, and the comparison of an answer with what is right.
//!
//! Invariant: a comparison is exact. A place too many is as wrong as one that is missing, and a place that occurs
//! twice in an answer is wrong too.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

/// A range in a file of the project.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file, relative to the project's root; a file outside is absolute.
    pub file: String,
    /// Line and column, zero-based, UTF-16.
    pub start: [u32; 2],
    /// Line and column of the first position after it.
    pub end: [u32; 2],
}

impl Place {
    /// The place of a `Location`, a `LocationLink` (its target's name), or a location of `lspool/query`.
    ///
    /// Gives nothing for anything else. `root` is the project's root with its links resolved.
    pub fn from_json(location: &Value, root: &Path) -> Option<Self> {
        let uri = location
            .get("uri")
            .or_else(|| location.get("targetUri"))?
            .as_str()?;
        let range = location
            .get("range")
            .or_else(|| location.get("targetSelectionRange"))?;
        let path = path_of_file_uri(uri)?;
        let file = Path::new(&path)
            .strip_prefix(root)
            .map_or(path.clone(), |inside| inside.display().to_string());
        let position = |name: &str| {
            let of = range.get(name)?;
            Some([as_u32(of.get("line")?)?, as_u32(of.get("character")?)?])
        };
        Some(Self {
            file,
            start: position("start")?,
            end: position("end")?,
        })
    }
}

/// The places of an answer to a request of LSP: one, a list, or none.
///
/// Gives nothing when something in it is not a place.
pub fn places_of_result(result: &Value, root: &Path) -> Option<Vec<Place>> {
    match result {
        Value::Null => Some(Vec::new()),
        Value::Array(items) => items
            .iter()
            .map(|item| Place::from_json(item, root))
            .collect(),
        one => Place::from_json(one, root).map(|place| vec![place]),
    }
}

/// What is wrong with an answer: nothing, or a text for people that names each place.
pub fn difference(expected: &[&Place], found: &[Place]) -> Option<String> {
    let mut counts: BTreeMap<&Place, i64> = BTreeMap::new();
    for place in expected {
        *counts.entry(place).or_default() -= 1;
    }
    for place in found {
        *counts.entry(place).or_default() += 1;
    }
    let lines: Vec<String> = counts
        .into_iter()
        .filter(|(_, surplus)| *surplus != 0)
        .map(|(place, surplus)| {
            let what = if surplus < 0 { "missing" } else { "too many" };
            format!(
                "{what}: {}:{}:{} (zero-based)",
                place.file, place.start[0], place.start[1]
            )
        })
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// The path of a `file:` URI of this machine, its escapes decoded.
pub fn path_of_file_uri(uri: &str) -> Option<String> {
    let path = uri.strip_prefix("file://")?;
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// A unit in which a column is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Bytes of UTF-8.
    Utf8,
    /// Code units of UTF-16.
    Utf16,
    /// Characters.
    Utf32,
}

impl Column {
    /// The unit of a `positionEncoding`.
    pub fn from_encoding(name: &str) -> Option<Self> {
        match name {
            "utf-8" => Some(Self::Utf8),
            "utf-16" => Some(Self::Utf16),
            "utf-32" => Some(Self::Utf32),
            _ => None,
        }
    }

    /// How many units a character has.
    fn width(self, character: char) -> usize {
        match self {
            Self::Utf8 => character.len_utf8(),
            Self::Utf16 => character.len_utf16(),
            Self::Utf32 => 1,
        }
    }
}

/// A zero-based column of a zero-based line of a text, counted in another unit.
///
/// Gives nothing when the text has no such place, or it lies inside a character.
pub fn column_in(text: &str, line: u32, column: u32, from: Column, to: Column) -> Option<u32> {
    let line = text.split('\n').nth(usize::try_from(line).ok()?)?;
    let wanted = usize::try_from(column).ok()?;
    let (mut passed, mut converted) = (0, 0);
    for character in line.chars() {
        if passed >= wanted {
            break;
        }
        passed += from.width(character);
        converted += to.width(character);
    }
    (passed == wanted).then(|| u32::try_from(converted).ok())?
}

/// A number of a position.
fn as_u32(number: &Value) -> Option<u32> {
    number
        .as_u64()
        .and_then(|number| u32::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn place(file: &str, line: u32) -> Place {
        Place {
            file: file.to_owned(),
            start: [line, 1],
            end: [line, 4],
        }
    }

    #[test]
    fn a_link_and_a_location_of_one_name_are_the_same_place() {
        let range =
            json!({ "start": { "line": 2, "character": 1 }, "end": { "line": 2, "character": 4 } });
        let whole =
            json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 9, "character": 0 } });
        let link = json!({ "targetUri": "file:///r/a%20b.c", "targetRange": whole, "targetSelectionRange": range });
        let location = json!({ "uri": "file:///r/a b.c", "range": range });
        let expected = Some(place("a b.c", 2));
        assert_eq!(Place::from_json(&link, Path::new("/r")), expected);
        assert_eq!(Place::from_json(&location, Path::new("/r")), expected);
    }

    #[test]
    fn a_place_that_occurs_twice_or_not_at_all_is_a_difference() {
        let (first, second) = (place("a.c", 1), place("b.c", 2));
        assert_eq!(
            difference(&[&first, &second], &[second.clone(), first.clone()]),
            None
        );
        let twice = difference(&[&first], &[first.clone(), first.clone()]);
        assert_eq!(twice.as_deref(), Some("too many: a.c:1:1 (zero-based)"));
        let absent = difference(&[&first, &second], std::slice::from_ref(&first));
        assert_eq!(absent.as_deref(), Some("missing: b.c:2:1 (zero-based)"));
    }

    #[test]
    fn a_column_behind_wide_characters_is_counted_in_each_unit() {
        let text = "\nx = \"🙂é\"; y\n";
        assert_eq!(
            column_in(text, 1, 11, Column::Utf16, Column::Utf8),
            Some(14)
        );
        assert_eq!(
            column_in(text, 1, 14, Column::Utf8, Column::Utf32),
            Some(10)
        );
        assert_eq!(column_in(text, 1, 6, Column::Utf16, Column::Utf8), None);
        assert_eq!(column_in(text, 1, 99, Column::Utf16, Column::Utf8), None);
    }

    #[test]
    fn only_a_file_of_this_machine_has_a_path() {
        let expected = "/projects/größe #1/a%b.c";
        let escaped = "file:///projects/gr%C3%B6%c3%9fe%20%231/a%25b.c";
        assert_eq!(path_of_file_uri(escaped).as_deref(), Some(expected));
        assert_eq!(path_of_file_uri("https://example.org/a"), None);
        assert_eq!(path_of_file_uri("file:///cut%4"), None);
    }
}
