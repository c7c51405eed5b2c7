//! Setting the table's keys in a client's capabilities by splicing.
//!
//! Invariant: bytes between the spliced places are copied, never parsed and written anew, so number spellings, escapes,
//! key order and unknown members survive.

use std::ops::Range;

use serde_json::value::RawValue;

use super::offer::ClientOffer;
use super::table::{LSPOOL_MEMBER, ROWS, Row, Treatment};
use crate::canonical::{self, CanonicalError, Member, Members};

/// A client's capabilities as a server is told them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raised {
    /// The JSON that goes into `initialize`.
    pub json: String,
    /// Digest of its canonical spelling: equal digests may share a server.
    pub digest: u128,
    /// What the client itself announced.
    pub offer: ClientOffer,
}

/// Capabilities that cannot be read. Clients get -32602 (`INVALID_PARAMS`) naming `capabilities`.
#[derive(Debug, thiserror::Error)]
pub enum CapabilitiesError {
    /// They are JSON, but no object.
    #[error("`capabilities` must be an object")]
    NotAnObject,
    /// They are not JSON, or nested too deeply.
    #[error("`capabilities` cannot be read: {0}")]
    Unreadable(#[from] CanonicalError),
}

/// Sets the keys of the table in a client's `capabilities`, takes `experimental.lspool` out, and leaves every other
/// byte as it is. `null` counts as an empty object.
///
/// Where a key's parent is neither an object nor absent nor `null`, the client's value stays, unless a forced key lies
/// below it.
pub fn raise(capabilities: &str) -> Result<Raised, CapabilitiesError> {
    let raw: &RawValue = serde_json::from_str(capabilities).map_err(CanonicalError::from)?;
    let client = match raw.get() {
        "null" => "{}",
        object if object.starts_with('{') => object,
        _ => return Err(CapabilitiesError::NotAnObject),
    };
    let offer = ClientOffer::read(client).map_err(CanonicalError::from)?;
    let hidden = without_lspool(client).map_err(CanonicalError::from)?;
    let targets: Vec<Target<'_>> = ROWS
        .iter()
        .map(|row| Target {
            path: row.path,
            row,
        })
        .collect();
    let json = set(&hidden, &targets).map_err(CanonicalError::from)?;
    let digest = canonical::digest(&json)?;
    Ok(Raised {
        json,
        digest,
        offer,
    })
}

/// A row and what is left of its path.
#[derive(Clone, Copy)]
struct Target<'table> {
    path: &'table [&'static str],
    row: &'table Row,
}

/// The object with all targets set.
fn set(object: &str, targets: &[Target<'_>]) -> Result<String, serde_json::Error> {
    let members: Members<'_> = serde_json::from_str(object)?;
    let names: Vec<Option<String>> = members.0.iter().map(Member::name).collect();
    let mut splices: Vec<(Range<usize>, String)> = Vec::new();
    let mut missing = Vec::new();
    for (name, below) in grouped(targets) {
        // Of equal keys the last counts, as in most readers.
        match names
            .iter()
            .rposition(|found| found.as_deref() == Some(name))
        {
            Some(index) => {
                let member = &members.0[index];
                let value = set_value(member.value, &below)?;
                if value != member.value {
                    splices.push((span(object, member.value), value));
                }
            }
            None => missing.push(format!("\"{name}\":{}", set_value("null", &below)?)),
        }
    }
    if !missing.is_empty() {
        let at = members
            .0
            .last()
            .map_or(1, |member| span(object, member.value).end);
        let comma = if members.0.is_empty() { "" } else { "," };
        splices.push((at..at, format!("{comma}{}", missing.join(","))));
    }
    Ok(spliced(object, splices))
}

/// The value with the targets set in it, or in its place.
fn set_value(value: &str, targets: &[Target<'_>]) -> Result<String, serde_json::Error> {
    if let [Target { path: [], row }] = targets {
        let stands = canonical::equal(value, row.value).unwrap_or(false);
        return Ok(if stands { value } else { row.value }.to_owned());
    }
    let forced = || {
        targets
            .iter()
            .any(|target| target.row.treatment == Treatment::Forced)
    };
    match value.as_bytes().first() {
        Some(b'{') => set(value, targets),
        _ if value == "null" || forced() => set("{}", targets),
        _ => Ok(value.to_owned()),
    }
}

/// The targets by their next member, in the table's order.
fn grouped<'table>(targets: &[Target<'table>]) -> Vec<(&'static str, Vec<Target<'table>>)> {
    let mut groups: Vec<(&'static str, Vec<Target<'table>>)> = Vec::new();
    for target in targets {
        let Some((&name, path)) = target.path.split_first() else {
            continue;
        };
        let below = Target {
            path,
            row: target.row,
        };
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, group)) => group.push(below),
            None => groups.push((name, vec![below])),
        }
    }
    groups
}

/// The capabilities without `experimental.lspool`.
fn without_lspool(object: &str) -> Result<String, serde_json::Error> {
    let members: Members<'_> = serde_json::from_str(object)?;
    let is_experimental = |member: &&Member<'_>| member.name().as_deref() == Some("experimental");
    let mut splices = Vec::new();
    for member in members.0.iter().filter(is_experimental) {
        if member.value.starts_with('{') {
            let mut value = member.value.to_owned();
            while let Some(shorter) = without_member(&value, LSPOOL_MEMBER)? {
                value = shorter;
            }
            splices.push((span(object, member.value), value));
        }
    }
    Ok(spliced(object, splices))
}

/// The object without the first member of that name and the comma that goes with it; `None` when it has no such member.
fn without_member(object: &str, name: &str) -> Result<Option<String>, serde_json::Error> {
    let members: Members<'_> = serde_json::from_str(object)?;
    let Some(index) = members
        .0
        .iter()
        .position(|member| member.name().as_deref() == Some(name))
    else {
        return Ok(None);
    };
    let end_of = |member: &Member<'_>| span(object, member.value).end;
    let member = &members.0[index];
    let cut = match (index.checked_sub(1), members.0.get(index + 1)) {
        (Some(before), _) => end_of(&members.0[before])..end_of(member),
        (None, Some(after)) => span(object, member.key).start..span(object, after.key).start,
        (None, None) => span(object, member.key).start..end_of(member),
    };
    Ok(Some(spliced(object, vec![(cut, String::new())])))
}

/// Where a part lies in the text that it was borrowed from.
fn span(whole: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr() - whole.as_ptr().addr();
    start..start + part.len()
}

/// The text with each range replaced. Ranges do not overlap.
fn spliced(text: &str, mut splices: Vec<(Range<usize>, String)>) -> String {
    splices.sort_by_key(|(range, _)| (range.start, range.end));
    let mut out =
        String::with_capacity(text.len() + splices.iter().map(|(_, new)| new.len()).sum::<usize>());
    let mut at = 0;
    for (range, new) in splices {
        out.push_str(&text[at..range.start]);
        out.push_str(&new);
        at = range.end;
    }
    out.push_str(&text[at..]);
    out
}
