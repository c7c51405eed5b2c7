//! One spelling for each JSON value, and a digest of it.
//!
//! Invariant: key order, blanks and escapes do not matter; everything else does. Numbers are compared as they are
//! spelled, except that integers lose a sign before zero: `1.0` and `1` are not always the same to a server.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// Values nested deeper than this are refused, so that hostile input cannot exhaust the stack.
pub const MAX_DEPTH: usize = 128;

/// Text that has no canonical form.
#[derive(Debug, thiserror::Error)]
pub enum CanonicalError {
    /// It is not JSON.
    #[error("not JSON: {0}")]
    Syntax(#[from] serde_json::Error),
    /// It is nested too deeply.
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

/// The canonical spelling of a JSON text: members sorted by key with the last of equal keys kept, no blanks, strings
/// with the fewest escapes.
pub fn canonical(json: &str) -> Result<String, CanonicalError> {
    let raw: &RawValue = serde_json::from_str(json)?;
    let mut out = String::with_capacity(json.len());
    write_value(raw.get(), 0, &mut out)?;
    Ok(out)
}

/// A 128-bit digest of the canonical spelling.
pub fn digest(json: &str) -> Result<u128, CanonicalError> {
    Ok(xxhash_rust::xxh3::xxh3_128(canonical(json)?.as_bytes()))
}

/// Whether two JSON texts have one canonical spelling.
pub fn equal(left: &str, right: &str) -> Result<bool, CanonicalError> {
    Ok(canonical(left)? == canonical(right)?)
}

fn write_value(json: &str, depth: usize, out: &mut String) -> Result<(), CanonicalError> {
    if depth > MAX_DEPTH {
        return Err(CanonicalError::TooDeep);
    }
    match json.as_bytes().first() {
        Some(b'{') => {
            let members: Members<'_> = serde_json::from_str(json)?;
            let sorted: BTreeMap<String, &str> = members
                .0
                .iter()
                .map(|member| (canonical_string(member.key), member.value))
                .collect();
            out.push('{');
            for (index, (key, value)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&key);
                out.push(':');
                write_value(value, depth + 1, out)?;
            }
            out.push('}');
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(json)?;
            out.push('[');
            for (index, item) in items.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_value(item.get(), depth + 1, out)?;
            }
            out.push(']');
        }
        Some(b'"') => out.push_str(&canonical_string(json)),
        _ if json == "-0" => out.push('0'),
        _ => out.push_str(json),
    }
    Ok(())
}

/// A quoted string with the fewest escapes. One that no text can hold, such as a lone surrogate, stays as spelled.
fn canonical_string(quoted: &str) -> String {
    serde_json::from_str::<String>(quoted)
        .and_then(|text| serde_json::to_string(&text))
        .unwrap_or_else(|_| quoted.to_owned())
}

/// A member of an object as it is spelled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member<'json> {
    /// The key with its quotes.
    pub(crate) key: &'json str,
    /// The value without blanks around it.
    pub(crate) value: &'json str,
}

impl Member<'_> {
    /// The key decoded; `None` when no text can hold it.
    pub(crate) fn name(&self) -> Option<String> {
        serde_json::from_str(self.key).ok()
    }
}

/// The members of an object in their order, equal keys included.
#[derive(Debug)]
pub(crate) struct Members<'json>(pub(crate) Vec<Member<'json>>);

impl<'de: 'json, 'json> serde::Deserialize<'de> for Members<'json> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Vec<Member<'de>>;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut access: A,
            ) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((key, value)) =
                    access.next_entry::<&'de RawValue, &'de RawValue>()?
                {
                    members.push(Member {
                        key: key.get(),
                        value: value.get(),
                    });
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Visitor).map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    #[test]
    fn order_blanks_and_escapes_do_not_matter() {
        let left = "{ \"b\" : [1, -0, 1e2, 1.0],\r\n \"a\": \"\\u00e9\\/\" , \"a\\u0062\": null }";
        let right = r#"{"ab":null,"a":"é/","b":[1,0,1e2,1.0]}"#;
        assert_eq!(
            canonical(left).unwrap(),
            r#"{"a":"é/","ab":null,"b":[1,0,1e2,1.0]}"#
        );
        assert!(equal(left, right).unwrap());
        assert_eq!(digest(left).unwrap(), digest(right).unwrap());
    }

    #[test]
    fn values_do_matter() {
        for (left, right) in [
            ("[1,2]", "[2,1]"),
            ("1", "1.0"),
            ("\"1\"", "1"),
            ("{}", "{\"a\":null}"),
            (
                "123456789012345678901234567890",
                "123456789012345678901234567891",
            ),
        ] {
            assert!(!equal(left, right).unwrap(), "{left} and {right}");
        }
    }

    #[test]
    fn the_last_of_equal_keys_counts() {
        assert_eq!(canonical(r#"{"a":1,"\u0061":2}"#).unwrap(), r#"{"a":2}"#);
    }

    #[test]
    fn a_lone_surrogate_stays_as_spelled() {
        let json = r#"{"\ud83d":"\ud83d"}"#;
        assert_eq!(canonical(json).unwrap(), json);
    }

    #[test]
    fn what_is_not_json_or_too_deep_is_refused() {
        assert!(matches!(canonical("{"), Err(CanonicalError::Syntax(_))));
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert!(matches!(canonical(&deep), Err(CanonicalError::TooDeep)));
    }

    proptest! {
        #[test]
        fn a_canonical_text_is_its_own_and_means_the_same(text in json_text()) {
            let once = canonical(&text).unwrap();
            prop_assert_eq!(canonical(&once).unwrap(), once.clone());
            let (before, after): (Value, Value) = (serde_json::from_str(&text).unwrap(), serde_json::from_str(&once).unwrap());
            prop_assert_eq!(before, after);
        }
    }

    fn json_text() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            Just("true".to_owned()),
            any::<i64>().prop_map(|number| number.to_string()),
            "[0-9]\\.[0-9]{1,3}",
            "\"[a-zé ]{0,5}\"",
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4)
                    .prop_map(|items| format!("[ {} ]", items.join(" ,"))),
                prop::collection::vec(("[a-d]", inner), 0..4).prop_map(|members| {
                    let members: Vec<_> = members
                        .into_iter()
                        .map(|(key, value)| format!("\"{key}\" : {value}"))
                        .collect();
                    format!("{{ {} }}", members.join(","))
                }),
            ]
        })
    }
}
