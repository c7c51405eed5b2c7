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
