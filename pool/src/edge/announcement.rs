//! What lspool says of itself in the answer to `initialize`.
//!
//! Invariant: only `capabilities.experimental.lspool` is new; every other member is the server's own text.

use super::members::{member, members, with};

/// The result of `initialize` with `capabilities.experimental.lspool` set to the announcement, which is JSON.
/// An `experimental` that is no object gives way. A result that is no object is left as it is.
pub fn with_announcement(result: &str, announcement: &str) -> String {
    let object = |json: Option<&'_ str>| match json {
        Some(json) if members(json, []).is_some() => json.to_owned(),
        _ => "{}".to_owned(),
    };
    let capabilities = object(member(result, "capabilities"));
    let experimental = object(member(&capabilities, "experimental"));
    with(&experimental, "lspool", announcement)
        .and_then(|experimental| with(&capabilities, "experimental", &experimental))
        .and_then(|capabilities| with(result, "capabilities", &capabilities))
        .unwrap_or_else(|| result.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_announcement_joins_what_the_server_said() {
        for (result, expected) in [
            (
                r#"{"capabilities":{"hoverProvider":true} }"#,
                r#"{"capabilities":{"hoverProvider":true,"experimental":{"lspool":[1]}} }"#,
            ),
            (
                r#"{"capabilities":{"experimental":{ "a":1e2 }}}"#,
                r#"{"capabilities":{"experimental":{ "a":1e2 ,"lspool":[1]}}}"#,
            ),
            (
                r#"{"capabilities":{"experimental":null,"x":0}}"#,
                r#"{"capabilities":{"experimental":{"lspool":[1]},"x":0}}"#,
            ),
            (
                r#"{"capabilities":{"experimental":{"lspool":0}}}"#,
                r#"{"capabilities":{"experimental":{"lspool":[1]}}}"#,
            ),
            ("{}", r#"{"capabilities":{"experimental":{"lspool":[1]}}}"#),
            ("null", "null"),
        ] {
            assert_eq!(with_announcement(result, "[1]"), expected);
        }
    }
}
