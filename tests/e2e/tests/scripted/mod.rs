//! The scripted server behind a real daemon: what sharing, order, cancels, faults and ends must look like from outside.
//!
//! Each test has a daemon of its own and ends with the proof that nothing is left of it.

#![expect(
    clippy::unwrap_used,
    reason = "a helper that cannot go on fails its test, and the kit's errors print what came instead"
)]

mod agent_and_editor;
mod bad_input;
mod cancel;
mod faithfulness;
mod ground;
mod life;
mod order;
mod sharing;
