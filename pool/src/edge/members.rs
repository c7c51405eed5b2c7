//! Members of JSON objects, read in place.
//!
//! Invariant: a value is the sender's own text, so that its place in the message is known and what is not
//! asked for is neither decoded nor copied. Of a key that stands twice the last value counts, as for the
//! peers' own parsers.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::wire::unescape;

/// The values of the named members, each absent where the object has no such member; `None` when the
/// text is no object.
pub(super) fn members<'a, const COUNT: usize>(
    json: &'a str,
    names: [&str; COUNT],
) -> Option<[Option<&'a str>; COUNT]> {
    let mut found = [None; COUNT];
    each_member(json, |key, value| {
        if let Some(key) = unescape(key)
            && let Some(index) = names.iter().position(|&name| name == key)
        {
            found[index] = Some(value);
        }
    })?;
    Some(found)
}

/// The value of one member.
pub(super) fn member<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let [value] = members(json, [name])?;
    value
}

/// Calls `visit` with the key token and the value of each member; `None` when the text is no object.
pub(super) fn each_member<'a>(json: &'a str, visit: impl FnMut(&'a str, &'a str)) -> Option<()> {
    serde_json::Deserializer::from_str(json)
        .deserialize_map(ObjectVisitor {
            visit,
            lifetime: PhantomData,
        })
        .ok()
}

/// The items of an array; `None` when the text is none.
pub(super) fn items(json: &str) -> Option<Vec<&str>> {
    serde_json::Deserializer::from_str(json)
        .deserialize_seq(ArrayVisitor)
        .ok()
}

/// The decoded text of a string.
pub(super) fn string(json: &str) -> Option<Cow<'_, str>> {
    unescape(json)
}

/// The value of an integer in any spelling that is exactly one (`1`, `1.0`, `1e0`).
pub(super) fn integer(json: &str) -> Option<i64> {
    json.parse().ok().or_else(|| {
        let value: f64 = serde_json::from_str(json).ok()?;
        // Beyond 2^53 a float no longer tells one integer from the next.
        (value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0).then_some(value as i64)
    })
}

/// Whether the text is an array without items.
pub(super) fn is_empty_array(json: &str) -> bool {
    json.strip_prefix('[')
        .is_some_and(|rest| rest.trim_start().starts_with(']'))
}

/// Where `part` stands in `whole`, of which it is a slice.
pub(super) fn span_in(whole: &[u8], part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
}

/// An object from which a member was taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Without {
    /// The object, every byte as it was but for the member and one comma.
    pub(super) json: String,
    /// Whether no member is left.
    pub(super) is_empty: bool,
}

/// The object without the members of this name; `None` when it has none.
pub(super) fn without(json: &str, name: &str) -> Option<Without> {
    let mut spans = Vec::new();
    each_member(json, |key, value| {
        let named = unescape(key).is_some_and(|key| key == name);
        let whole = json.as_bytes();
        spans.push((named, span_in(whole, key).start..span_in(whole, value).end));
    })?;
    if !spans.iter().any(|(named, _)| *named) {
        return None;
    }
    let mut kept = String::with_capacity(json.len());
    let mut written = 0;
    let mut is_empty = true;
    for (index, (named, span)) in spans.iter().enumerate() {
        if !named {
            is_empty = false;
            continue;
        }
        // The comma before goes with the member; where nothing is left before, the comma behind.
        let cut = match (is_empty, index.checked_sub(1), spans.get(index + 1)) {
            (false, Some(previous), _) => spans[previous].1.end..span.end,
            (_, _, Some((_, next))) => span.start..next.start,
            _ => span.clone(),
        };
        kept.push_str(&json[written..cut.start]);
        written = cut.end;
    }
    kept.push_str(&json[written..]);
    Some(Without {
        json: kept,
        is_empty,
    })
}

/// The object with the value of a member replaced, or the member added at its end.
pub(super) fn with(json: &str, name: &str, value: &str) -> Option<String> {
    if let Some(old) = member(json, name) {
        let span = span_in(json.as_bytes(), old);
        return Some(format!(
            "{}{value}{}",
            &json[..span.start],
            &json[span.end..]
        ));
    }
    let close = json.rfind('}')?;
    let comma = if json[..close].trim_end().ends_with('{') {
        ""
    } else {
        ","
    };
    Some(format!(
        "{}{comma}\"{name}\":{value}{}",
        &json[..close],
        &json[close..]
    ))
}

struct ObjectVisitor<'a, F> {
    visit: F,
    lifetime: PhantomData<&'a ()>,
}

impl<'de, F: FnMut(&'de str, &'de str)> Visitor<'de> for ObjectVisitor<'de, F> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<&'de RawValue>()? {
            (self.visit)(key.get(), map.next_value::<&'de RawValue>()?.get());
        }
        Ok(())
    }
}

struct ArrayVisitor;

impl<'de> Visitor<'de> for ArrayVisitor {
    type Value = Vec<&'de str>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Vec<&'de str>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element::<&'de RawValue>()? {
            items.push(item.get());
        }
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_of_equal_keys_counts_and_escaped_keys_are_keys() {
        assert_eq!(
            members(r#"{"a":1,"b":[],"\u0061":2}"#, ["a", "b", "c"]),
            Some([Some("2"), Some("[]"), None])
        );
        assert_eq!(members("[1]", ["a"]), None);
        assert_eq!(
            items(r#"[1, "a", {"b":[]}]"#),
            Some(vec!["1", "\"a\"", r#"{"b":[]}"#])
        );
        assert_eq!(items("{}"), None);
    }

    #[test]
    fn integers_are_read_in_every_spelling_of_one() {
        for (json, value) in [
            ("1", Some(1)),
            ("-3", Some(-3)),
            ("1.0", Some(1)),
            ("1e2", Some(100)),
            ("-0", Some(0)),
            ("1.5", None),
            ("\"1\"", None),
            ("null", None),
            ("1e300", None),
        ] {
            assert_eq!(integer(json), value, "{json}");
        }
    }

    #[test]
    fn a_member_leaves_with_its_comma_and_nothing_else() {
        let json = |text: &str| without(text, "x").map(|it| (it.json, it.is_empty));
        let some = |text: &str, is_empty| Some((text.to_owned(), is_empty));
        assert_eq!(json(r#"{"a":1}"#), None);
        assert_eq!(json(r#"{ "x" : 1 }"#), some("{  }", true));
        assert_eq!(json(r#"{ "x":1, "a":2 }"#), some(r#"{ "a":2 }"#, false));
        assert_eq!(
            json(r#"{"a":2 , "x":{"x":1} }"#),
            some(r#"{"a":2 }"#, false)
        );
        assert_eq!(
            json(r#"{"a":1,"x":0,"b":2}"#),
            some(r#"{"a":1,"b":2}"#, false)
        );
        assert_eq!(
            json(r#"{"x":0,"x":1,"a":1,"x":2,"\u0078":3,"b":4}"#),
            some(r#"{"a":1,"b":4}"#, false)
        );
    }

    #[test]
    fn a_member_is_replaced_in_place_or_added_at_the_end() {
        assert_eq!(
            with(r#"{"a": 1 ,"b":2}"#, "a", "[]").as_deref(),
            Some(r#"{"a": [] ,"b":2}"#)
        );
        assert_eq!(with("{ }", "a", "0").as_deref(), Some(r#"{ "a":0}"#));
        assert_eq!(
            with(r#"{"b":"}"} "#, "a", "0").as_deref(),
            Some(r#"{"b":"}","a":0} "#)
        );
        assert_eq!(with("[]", "a", "0"), None);
    }

    proptest! {
        #[test]
        fn taking_a_member_out_leaves_the_others(pairs in prop::collection::vec(("[xab]", 0_u32..9), 0..6)) {
            let body = pairs.iter().map(|(key, value)| format!(" \"{key}\" : {value}")).collect::<Vec<_>>().join(" ,");
            let json = format!("{{{body} }}");
            let others = |text: &str| {
                let mut others = Vec::new();
                each_member(text, |key, value| others.push((key.to_owned(), value.to_owned()))).unwrap();
                others
            };
            let mut expected = others(&json);
            expected.retain(|(key, _)| key != "\"x\"");
            if let Some(taken) = without(&json, "x") {
                prop_assert_eq!(others(&taken.json), expected.clone());
                prop_assert_eq!(taken.is_empty, expected.is_empty());
            } else {
                prop_assert_eq!(others(&json), expected);
            }
        }
    }
}
