//! What a person may have meant by a word that nobody knows.

/// The candidate nearest to `word`, when one is near enough to be a likely slip: a third of the longer word may be
/// inserted, left out, replaced or swapped with its neighbour.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(word, candidate), candidate))
        .filter(|(distance, candidate)| {
            let longer = candidate.chars().count().max(word.chars().count());
            *distance <= (longer / 3).max(1)
        })
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_is_understood_and_a_word_unlike_all_others_is_not() {
        let known = ["commands", "languages", "roots"];
        assert_eq!(nearest("comands", known), Some("commands"));
        assert_eq!(nearest("comamnds", known), Some("commands"));
        assert_eq!(nearest("rots", known), Some("roots"));
        assert_eq!(nearest("telemetry", known), None);
        assert_eq!(nearest("", known), None);
    }
}
