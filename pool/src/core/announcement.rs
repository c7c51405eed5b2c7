//! What lspool adds to an `initialize` result for a client that knows it, and to nobody else's.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

type Members<'a> = BTreeMap<&'a str, &'a RawValue>;

/// The server's result with `capabilities.experimental.lspool` set to `announcement`; the result itself where it
/// has no object of capabilities. Members keep their bytes, not their order.
pub(super) fn with_announcement(result: &str, announcement: &str) -> String {
    try_with_announcement(result, announcement).unwrap_or_else(|| result.to_owned())
}

fn try_with_announcement(result: &str, announcement: &str) -> Option<String> {
    let outer: Members<'_> = serde_json::from_str(result).ok()?;
    let capabilities: Members<'_> = serde_json::from_str(outer.get("capabilities")?.get()).ok()?;
    let experimental: Members<'_> = capabilities
        .get("experimental")
        .and_then(|value| serde_json::from_str(value.get()).ok())
        .unwrap_or_default();
    let experimental = with_member(&experimental, "lspool", announcement)?;
    let capabilities = with_member(&capabilities, "experimental", &experimental)?;
    with_member(&outer, "capabilities", &capabilities)
}

fn with_member(members: &Members<'_>, name: &str, value: &str) -> Option<String> {
    let value = RawValue::from_string(value.to_owned()).ok()?;
    let mut members = members.clone();
    members.insert(name, &value);
    serde_json::to_string(&members).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_a_result_then_the_member_is_added_and_all_others_keep_their_bytes() {
        let result = r#"{"capabilities":{"hoverProvider":true,"experimental":{"a":1e2}},"serverInfo":{"name":"x"}}"#;
        assert_eq!(
            with_announcement(result, r#"{"version":1}"#),
            r#"{"capabilities":{"experimental":{"a":1e2,"lspool":{"version":1}},"hoverProvider":true},"serverInfo":{"name":"x"}}"#
        );
        assert_eq!(with_announcement("[]", "{}"), "[]");
    }
}
