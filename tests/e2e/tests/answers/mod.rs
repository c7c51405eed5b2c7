//! Real servers on projects with known answers, through every face: the command line, the custom method and an
//! editor's own requests; as the first question to a cold daemon and when everything is warm.
//!
//! A server or a code base that is missing fails a test with the command that installs it; nothing is skipped.

mod as_an_editor;
mod by_command_line;
mod by_custom_method;
mod judge;
mod stage;

/// One test for each of the named projects, all with the same body.
macro_rules! for_projects {
    ($body:path: $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                let name = stringify!($name);
                $body(xtask::projects::Project::from_name(name).expect("a project has this name"));
            }
        )*
    };
}
use for_projects;

/// One test for each project, all with the same body.
macro_rules! for_every_project {
    ($body:path) => {
        super::super::for_projects!($body: c python rust typescript lua flask);
    };
}
use for_every_project;
