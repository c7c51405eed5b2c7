//! Ids and progress tokens as a peer wrote them.
//!
//! Invariant: an id is echoed by its own token and compared by what the token means, so that an answer with
//! `1.0` finds the request with `1`, and `"1"` never does (JSON-RPC 2.0 §4, LSP 3.17 "Request Message").

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use super::escape;

/// An id or a progress token: the token's text as sent, compared by its meaning.
///
/// Numbers are equal when their exact values are (`1`, `1.0`, `1e0`, integers of any length), strings
/// when their decoded texts are, and a number never equals a string. `null` is an id of its own.
#[derive(Clone)]
pub struct RawId {
    raw: Box<str>,
    meaning: Meaning,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Meaning {
    Null,
    /// A number whose value is an integer of 64 bits.
    Integer(i64),
    /// Any other number: `digits × 10^exponent`, no zero at either end of the digits.
    Number {
        negative: bool,
        digits: Box<str>,
        exponent: i64,
    },
    /// A number whose exponent does not fit 64 bits; only an equal spelling is equal.
    Unbounded(Box<str>),
    /// The decoded text (WTF-8, so that lone surrogates stay apart).
    Text(Box<[u8]>),
}

impl RawId {
    /// Reads a JSON token; `None` unless it is exactly one number, string or `null`.
    pub fn parse(token: &str) -> Option<Self> {
        let meaning = match token.as_bytes().first()? {
            b'n' if token == "null" => Meaning::Null,
            b'"' if is_string(token.as_bytes()) => Meaning::Text(
                escape::decode(&token.as_bytes()[1..token.len() - 1]).into_boxed_slice(),
            ),
            b'-' | b'0'..=b'9' => number(token)?,
            _ => return None,
        };
        Some(Self {
            raw: token.into(),
            meaning,
        })
    }

    /// The id that is written as this number.
    pub fn number(value: u64) -> Self {
        let raw = value.to_string();
        let meaning =
            i64::try_from(value).map_or_else(|_| shifted(false, &raw, 0), Meaning::Integer);
        Self {
            raw: raw.into(),
            meaning,
        }
    }

    /// The id `null`, which JSON-RPC gives to an answer whose request could not be read.
    pub fn null() -> Self {
        Self {
            raw: "null".into(),
            meaning: Meaning::Null,
        }
    }

    /// The token as it was sent, a string with its quotes and escapes.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// The value, when it is an integer from 0 to 2^63 − 1 in any spelling.
    pub fn as_u64(&self) -> Option<u64> {
        match self.meaning {
            Meaning::Integer(value) => u64::try_from(value).ok(),
            _ => None,
        }
    }

    /// Whether this is `null`.
    pub fn is_null(&self) -> bool {
        self.meaning == Meaning::Null
    }
}

fn is_string(token: &[u8]) -> bool {
    let Some(inner) = token
        .strip_prefix(b"\"")
        .and_then(|rest| rest.strip_suffix(b"\""))
    else {
        return false;
    };
    let mut bytes = inner.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'"' | 0..=0x1f => return false,
            b'\\' => match bytes.next() {
                Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {}
                Some(b'u') => {
                    if !(0..4).all(|_| bytes.next().is_some_and(u8::is_ascii_hexdigit)) {
                        return false;
                    }
                }
                _ => return false,
            },
            _ => {}
        }
    }
    true
}

/// Reads a number by the grammar of RFC 8259 §6.
fn number(token: &str) -> Option<Meaning> {
    let negative = token.starts_with('-');
    let unsigned = &token[usize::from(negative)..];
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], &unsigned[at + 1..]),
        None => (unsigned, "0"),
    };
    let (integer, fraction) = match mantissa.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (mantissa, ""),
    };
    let exponent_digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let leading_zero = integer.len() > 1 && integer.starts_with('0');
    if leading_zero
        || !is_digits(integer)
        || !is_digits(exponent_digits)
        || !(fraction.is_empty() || is_digits(fraction))
    {
        return None;
    }
    let digits = format!("{integer}{fraction}");
    if digits.bytes().all(|digit| digit == b'0') {
        return Some(Meaning::Integer(0));
    }
    let scale = exponent
        .parse::<i64>()
        .ok()
        .and_then(|value| value.checked_sub_unsigned(fraction.len() as u64));
    let Some(scale) =
        scale.filter(|value| value.checked_add_unsigned(digits.len() as u64).is_some())
    else {
        return Some(Meaning::Unbounded(token.into()));
    };
    Some(shifted(negative, &digits, scale))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The canonical form of `digits × 10^exponent`; `digits` holds at least one that is not zero.
fn shifted(negative: bool, digits: &str, exponent: i64) -> Meaning {
    let significant = digits.trim_start_matches('0').trim_end_matches('0');
    let zeros = digits.len() - digits.trim_end_matches('0').len();
    // The caller made sure that this does not saturate.
    let exponent = exponent.saturating_add_unsigned(zeros as u64);
    let integer = u32::try_from(exponent).ok().and_then(|power| {
        let magnitude = significant
            .parse::<i64>()
            .ok()?
            .checked_mul(10_i64.checked_pow(power)?)?;
        Some(if negative { -magnitude } else { magnitude })
    });
    match integer {
        Some(value) => Meaning::Integer(value),
        None => Meaning::Number {
            negative,
            digits: significant.into(),
            exponent,
        },
    }
}

impl PartialEq for RawId {
    fn eq(&self, other: &Self) -> bool {
        self.meaning == other.meaning
    }
}

impl Eq for RawId {}

impl PartialOrd for RawId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RawId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.meaning.cmp(&other.meaning)
    }
}

impl Hash for RawId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.meaning.hash(state);
    }
}

impl fmt::Debug for RawId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RawId({})", self.raw)
    }
}

impl fmt::Display for RawId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(token: &str) -> RawId {
        RawId::parse(token).unwrap_or_else(|| panic!("{token} is an id"))
    }

    #[test]
    fn one_value_in_any_spelling_is_one_id() {
        let groups: &[&[&str]] = &[
            &["1", "1.0", "1e0", "10e-1", "0.1E+1", "1.000"],
            &["0", "-0", "0.0", "0e5"],
            &["1e2", "100", "100.0"],
            &[
                "123456789012345678901234567890",
                "123456789012345678901234567890.0",
                "12345678901234567890123456789e1",
            ],
            &["-7", "-7.0"],
            &["0.5", "5e-1"],
            &["\"1\"", r#""\u0031""#],
            &["\"é\"", r#""\u00e9""#],
            &["null"],
            &[r#""\ud800""#, r#""\uD800""#],
            &[r#""\ud801""#],
            &["18446744073709551615"],
            &["18446744073709551616"],
            &["123456789012345678901234567891"],
        ];
        for (row, group) in groups.iter().enumerate() {
            for token in *group {
                for (other_row, other_group) in groups.iter().enumerate() {
                    for other in *other_group {
                        assert_eq!(
                            id(token) == id(other),
                            row == other_row,
                            "{token} against {other}"
                        );
                    }
                }
                assert_eq!(id(token).raw(), *token);
            }
        }
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for token in [
            "", "true", "{}", "[]", "01", "1.", ".5", "+1", "-", "1e", "1e+", "\"", "\"a", "nul",
            "1 ", "\"a\"b\"", r#""\x""#, "\"\n\"",
        ] {
            assert_eq!(RawId::parse(token), None, "{token}");
        }
    }

    #[test]
    fn an_exponent_beyond_64_bits_is_kept_and_found_again() {
        let token = "1e99999999999999999999999999999999999999999";
        assert_eq!(id(token), id(token));
        assert_ne!(id(token), id("1e9999999999999999999999999999999999999999"));
    }

    proptest! {
        #[test]
        fn numbers_of_the_pool_equal_their_spelling(value in any::<u64>()) {
            prop_assert_eq!(RawId::number(value), id(&value.to_string()));
            prop_assert_eq!(RawId::number(value), id(&format!("{value}.0")));
        }

        #[test]
        fn small_numbers_compare_as_their_values(left in -999_i32..999, right in -999_i32..999, zeros in 0_usize..4) {
            let spelled = format!("{right}{}e-{zeros}", if right == 0 { String::new() } else { "0".repeat(zeros) });
            prop_assert_eq!(id(&left.to_string()) == id(&spelled), left == right);
        }

        #[test]
        fn accepts_what_serde_accepts(token in r#"-?[0-9]{0,3}(\.[0-9]{0,2})?([eE][+-]?[0-9]{0,2})?|"[a\\u"0-9]{0,8}"|null"#) {
            let valid = serde_json::from_str::<&serde_json::value::RawValue>(&token).is_ok();
            prop_assert_eq!(RawId::parse(&token).is_some(), valid, "{}", token);
        }

        #[test]
        fn never_panics(token in any::<String>()) {
            let _ = RawId::parse(&token);
        }
    }
}
