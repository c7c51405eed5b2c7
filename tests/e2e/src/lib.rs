//! What the end-to-end suites share: the answer keys, the sources as tokens, and the comparison of places.
//!
//! The suites themselves are one test program, `tests/main.rs`; they run the built binary.

pub mod answer_key;
pub mod places;
pub mod source;
