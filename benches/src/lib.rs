//! What lspool costs, each number beside that of a peer that does the same in the same run.
//!
//! A number alone says more about the machine than about the program. So every bench has contenders that take turns,
//! sample by sample, and reports medians and their ratio to the last contender, the baseline: what slows the machine
//! down slows all of them down. Invariant: what is not part of the question (making files, ending what a sample started)
//! is not in the measured time.

// The baselines are what a program without lspool would call.
#![expect(
    clippy::disallowed_methods,
    reason = "a baseline starts processes and reads files past the seams, as a program without them would"
)]

pub mod machine;
pub mod proxy;
pub mod report;
pub mod sampling;
pub mod world;

mod ground;
mod scale;

pub use scale::Scale;
