//! Build, test and demonstration tasks of the repository.
//!
//! The binary dispatches to the tasks; the library part is also used by the end-to-end suite, so that the tasks
//! and the tests agree on where tools and code bases lie. Invariant: everything that is fetched or generated lies
//! below [`paths::cache`], and nothing of the person's own configuration is read or changed.

pub mod bench;
pub mod ci;
pub mod corpora;
pub mod demo;
pub mod flake;
pub mod paths;
pub mod projects;
pub mod run;
pub mod sanitize;
pub mod setup;
pub mod tools;
