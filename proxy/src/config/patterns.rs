//! The value of a key that takes patterns of variables' names. Owns what a pattern may be; what it matches is the
//! scrub's.

use toml::de::DeValue;

/// The patterns of a value: a list of names, in which `*` stands for any text. What is wrong with it otherwise, for
/// people.
pub(super) fn read(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let wrong =
        || "it is a list of names of variables, in which `*` stands for any text".to_owned();
    let patterns = value.as_array().ok_or_else(wrong)?;
    patterns
        .iter()
        .map(|pattern| {
            let pattern = pattern.get_ref().as_str().ok_or_else(wrong)?;
            if pattern.is_empty() || pattern.contains(['=', '\0']) {
                return Err(format!("{pattern:?} can be no variable's name"));
            }
            Ok(pattern.to_owned())
        })
        .collect()
}
