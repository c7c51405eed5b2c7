//! Why a file of server definitions was refused.

use thiserror::Error;

/// A refused configuration. The file is refused whole: nothing of it is in force (details, "Faces:
/// command line and configuration").
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    /// `CONFIG_INVALID`: the text is not TOML, a key is unknown, or a value has the wrong type or form.
    #[error("{origin}:{line}: {}{problem}", key_prefix(key))]
    Invalid {
        /// The file, or another name of where the text came from.
        origin: String,
        /// One-based line of the key.
        line: usize,
        /// Dotted path of the key; empty where the text is not TOML at all.
        key: String,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// `CONFIG_CONFLICT`: two definitions of one server in one file.
    #[error(
        "{origin}:{line}: server `{id}` is defined twice, first on line {first_line}; keep one of the two"
    )]
    Conflict {
        /// The file, or another name of where the text came from.
        origin: String,
        /// One-based line of the second definition.
        line: usize,
        /// One-based line of the first definition.
        first_line: usize,
        /// The identifier that both claim.
        id: String,
    },
}

impl ConfigError {
    /// The stable code by which programs tell the errors apart.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "CONFIG_INVALID",
            Self::Conflict { .. } => "CONFIG_CONFLICT",
        }
    }
}

fn key_prefix(key: &str) -> String {
    if key.is_empty() {
        String::new()
    } else {
        format!("`{key}`: ")
    }
}

/// The candidate nearest to `word` by edit distance, when one is near enough to be a likely slip.
pub(super) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(word, candidate), candidate))
        .filter(|(distance, candidate)| {
            *distance <= (candidate.chars().count().max(word.chars().count()) / 3).max(1)
        })
        .min()
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, substitutions and swaps of neighbours that turn `left` into `right`.
fn edit_distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut rows = vec![vec![0usize; right.len() + 1]; left.len() + 1];
    for (index, row) in rows.iter_mut().enumerate() {
        row[0] = index;
    }
    for (index, cell) in rows[0].iter_mut().enumerate() {
        *cell = index;
    }
    for i in 1..=left.len() {
        for j in 1..=right.len() {
            let substitution = rows[i - 1][j - 1] + usize::from(left[i - 1] != right[j - 1]);
            let mut best = substitution.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[left.len()][right.len()]
}

#[cfg(test)]
mod tests {
    use super::{edit_distance, nearest};

    #[test]
    fn a_swap_of_neighbours_is_one_edit() {
        assert_eq!(edit_distance("comamnds", "commands"), 1);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("roots", "roots"), 0);
    }

    #[test]
    fn a_word_unlike_all_others_has_no_nearest() {
        let known = ["commands", "languages", "roots"];
        assert_eq!(nearest("comands", known), Some("commands"));
        assert_eq!(nearest("telemetry", known), None);
    }
}
