//! The end-to-end suites, in one program so that they link once.

mod answers;
mod scripted;
mod structure;
