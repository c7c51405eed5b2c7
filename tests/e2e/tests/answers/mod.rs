//! Real servers on projects with known answers, through every face: the command line, the custom method and an
//! editor's own requests; as the first question to a cold daemon and when everything is warm.
//!
//! A server or a code base that is missing fails a test with the command that installs it; nothing is skipped.

mod as_an_editor;
mod by_command_line;
mod by_custom_method;
mod judge;
mod stage;

/// One test for each project, all with the same body.
macro_rules! for_every_project {
    ($body:path) => {
        #[test]
        fn c() {
            $body(xtask::projects::Project::C);
        }

        #[test]
        fn python() {
            $body(xtask::projects::Project::Python);
        }

        #[test]
        fn rust() {
            $body(xtask::projects::Project::Rust);
        }

        #[test]
        fn typescript() {
            $body(xtask::projects::Project::Typescript);
        }

        #[test]
        fn lua() {
            $body(xtask::projects::Project::Corpus(
                xtask::corpora::Corpus::Lua,
            ));
        }

        #[test]
        fn flask() {
            $body(xtask::projects::Project::Corpus(
                xtask::corpora::Corpus::Flask,
            ));
        }
    };
}
use for_every_project;
