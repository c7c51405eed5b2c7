//! Reading of JSON that others wrote, with the path of the field that is wrong.
//!
//! Invariant: a path is written as a person would index it, such as `result[2].range.start.line`.

use serde_json::Value;

use crate::answer::Malformed;
use crate::position::{Position, Range, whole};

/// A value and the way to it.
#[derive(Clone, Copy)]
pub(crate) struct Field<'value, 'way> {
    pub(crate) value: &'value Value,
    way: Way<'way>,
}

/// The steps from the top to a value; they live on the stack, so that nothing is allocated unless something is wrong.
#[derive(Clone, Copy)]
pub(crate) enum Way<'way> {
    Top(&'static str),
    Member(&'way Way<'way>, &'static str),
    Item(&'way Way<'way>, usize),
}

impl std::fmt::Display for Way<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Top(name) => formatter.write_str(name),
            Self::Member(parent, name) => write!(formatter, "{parent}.{name}"),
            Self::Item(parent, index) => write!(formatter, "{parent}[{index}]"),
        }
    }
}

impl<'value, 'way> Field<'value, 'way> {
    /// The outermost value.
    pub(crate) fn top(name: &'static str, value: &'value Value) -> Self {
        Self {
            value,
            way: Way::Top(name),
        }
    }

    /// The member of that name unless it is absent or `null`.
    pub(crate) fn optional<'inner>(
        &'inner self,
        name: &'static str,
    ) -> Option<Field<'value, 'inner>>
    where
        'way: 'inner,
    {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        Some(Field {
            value,
            way: Way::Member(&self.way, name),
        })
    }

    /// The member of that name, `null` counting as absent.
    pub(crate) fn required<'inner>(
        &'inner self,
        name: &'static str,
        expected: &'static str,
    ) -> Result<Field<'value, 'inner>, Malformed>
    where
        'way: 'inner,
    {
        self.optional(name).ok_or_else(|| Malformed {
            field: Way::Member(&self.way, name).to_string(),
            expected,
            found: kind(self.value.get(name)),
        })
    }

    /// The item at an index of an array.
    pub(crate) fn item<'inner>(
        &'inner self,
        index: usize,
        value: &'value Value,
    ) -> Field<'value, 'inner>
    where
        'way: 'inner,
    {
        Field {
            value,
            way: Way::Item(&self.way, index),
        }
    }

    /// The error that something else was expected here.
    pub(crate) fn malformed(&self, expected: &'static str) -> Malformed {
        Malformed {
            field: self.way.to_string(),
            expected,
            found: kind(Some(self.value)),
        }
    }

    /// A string.
    pub(crate) fn string(&self) -> Result<&'value str, Malformed> {
        self.value
            .as_str()
            .ok_or_else(|| self.malformed("a string"))
    }

    /// A whole number of the protocol's width, however it is spelled.
    pub(crate) fn whole_number(&self) -> Result<u32, Malformed> {
        match self.value {
            Value::Number(number) => whole(number),
            _ => None,
        }
        .ok_or_else(|| self.malformed("a whole number from 0 to 4294967295"))
    }

    /// A position.
    pub(crate) fn position(&self) -> Result<Position, Malformed> {
        Ok(Position {
            line: self.required("line", "a whole number")?.whole_number()?,
            character: self
                .required("character", "a whole number")?
                .whole_number()?,
        })
    }

    /// A range.
    pub(crate) fn range(&self) -> Result<Range, Malformed> {
        Ok(Range {
            start: self.required("start", "a position")?.position()?,
            end: self.required("end", "a position")?.position()?,
        })
    }
}

/// Reads JSON, with U+FFFD for halves of surrogate pairs: servers written for UTF-16 cut texts inside a pair and escape
/// the half that is left, which no other reader takes.
pub(crate) fn parse(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text).or_else(|error| match without_lone_surrogates(text) {
        Some(repaired) => serde_json::from_str(&repaired),
        None => Err(error),
    })
}

/// The text with each escaped half of a pair that stands alone made `\ufffd`; `None` when there is none.
fn without_lone_surrogates(text: &str) -> Option<String> {
    let mut repaired = String::with_capacity(text.len());
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = text[at..].find('\\') {
        let start = at + found;
        let rest = &text[start..];
        let is_high = |unit: u16| (0xd800..0xdc00).contains(&unit);
        let is_low = |unit: u16| (0xdc00..0xe000).contains(&unit);
        at = start
            + match escaped_unit(rest) {
                // Any other escape is a backslash and one character, which may be a backslash itself.
                None => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
                Some(high) if is_high(high) && escaped_unit(&rest[6..]).is_some_and(is_low) => 12,
                Some(half) if is_high(half) || is_low(half) => {
                    repaired.push_str(&text[copied..start]);
                    repaired.push_str("\\ufffd");
                    copied = start + 6;
                    6
                }
                Some(_) => 6,
            };
    }
    if copied == 0 {
        return None;
    }
    repaired.push_str(&text[copied..]);
    Some(repaired)
}

/// The code unit of the `\uXXXX` that the text begins with.
fn escaped_unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let are_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    are_digits
        .then(|| u16::from_str_radix(digits, 16).ok())
        .flatten()
}

/// What stands there, in a word or, for a number, as it is.
fn kind(value: Option<&Value>) -> String {
    match value {
        None => "nothing".to_owned(),
        Some(Value::Null) => "null".to_owned(),
        Some(Value::Bool(_)) => "a boolean".to_owned(),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::String(_)) => "a string".to_owned(),
        Some(Value::Array(_)) => "an array".to_owned(),
        Some(Value::Object(_)) => "an object".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn half_a_pair_is_replaced_and_a_whole_one_stays() {
        let read = |text: &str| parse(text).unwrap().as_str().unwrap().to_owned();
        assert_eq!(read(r#""a\ud83d""#), "a\u{fffd}");
        assert_eq!(read(r#""\ude42b\ud83d\u0041""#), "\u{fffd}b\u{fffd}A");
        assert_eq!(read(r#""\ud83d\ud83d\ude42""#), "\u{fffd}🙂");
        assert_eq!(read(r#""\ud83d\ude42 \\ud83d\n""#), "🙂 \\ud83d\n");
        assert!(parse(r#""\ud83d"#).is_err());
        assert!(parse(r#""\u+123""#).is_err());
    }

    proptest! {
        #[test]
        fn any_units_are_read_as_the_standard_library_reads_them(units in prop::collection::vec(prop_oneof![0xd7fe_u16..0xe002, 0x40_u16..0x60], 0..12)) {
            let escaped: Vec<String> = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            let read = parse(&format!("\"{}\"", escaped.concat())).unwrap();
            let expected = String::from_utf16_lossy(&units);
            prop_assert_eq!(read.as_str(), Some(expected.as_str()));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[\\\\ud83\"é ]{0,24}") {
            if let Ok(value) = parse(&text) {
                prop_assert!(!value.is_object());
            }
        }
    }
}
