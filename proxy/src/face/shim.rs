//! The shim: what an editor starts as its language server, and what a harness starts as `lspool connect`.
//!
//! It relays bytes, says the daemon's lines on stderr, and ends with the session's exit code; when the daemon is lost it
//! says so in one line and ends with 70.

use std::ffi::OsString;

use super::attach::read_reply;
use super::{AttachError, Attachment, How, alone, relay};
use crate::defaults::{ACKNOWLEDGEMENT_TIMEOUT, LAST_BYTES_TIMEOUT};
use crate::hello::{HelloFace, Reply};
use crate::standard_streams::complain;

/// The exit code of a face whose daemon is lost or cannot be had.
pub(crate) const DAEMON_LOST: i32 = 70;

/// The face of `lspool -- SERVER ARGS…`.
///
/// A relative command with a separator means a file below this process's working directory, and is made absolute here,
/// since nobody else knows that directory.
pub(crate) fn server_face(mut argv: Vec<OsString>) -> HelloFace {
    if let Some(command) = argv.first_mut() {
        let path = std::path::Path::new(command);
        let is_file = path.components().count() > 1 || command.to_string_lossy().contains('/');
        if is_file && let Ok(absolute) = std::path::absolute(path) {
            *command = absolute.into_os_string();
        }
    }
    HelloFace::Server {
        argv: argv.into_iter().map(Into::into).collect(),
    }
}

/// Runs a session over this process's stdin and stdout; answers the exit code.
pub(crate) fn run(face: HelloFace, how: How) -> Result<i32, AttachError> {
    let mut attachment = Attachment::open(face, how, ACKNOWLEDGEMENT_TIMEOUT)
        .map_err(|error| alone::instead_of(how, error))?;
    let (Ok(input), Ok(output)) = (attachment.input.try_clone(), attachment.output.try_clone())
    else {
        return Err(AttachError::Lost);
    };
    relay::start_input(input);
    let written = relay::start_output(output);
    let code = loop {
        match read_reply(&mut attachment.control) {
            Ok(Some(Reply::Notice { text })) => complain(&text),
            Ok(Some(Reply::Exit { code })) => {
                // The daemon has closed its side, so this ends as soon as the editor has taken what is left.
                let _ = written.recv();
                if code == DAEMON_LOST {
                    complain(
                        "lspool: the daemon has ended; start the language server again to attach to a new one",
                    );
                }
                break code;
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => {
                let _ = written.recv_timeout(LAST_BYTES_TIMEOUT);
                complain(
                    "lspool: the daemon is lost; start the language server again to attach to a new one",
                );
                break DAEMON_LOST;
            }
        }
    };
    attachment.finish();
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hello::OsText;

    fn command(text: &str) -> OsString {
        let HelloFace::Server { argv } = server_face(vec![text.into(), "./kept".into()]) else {
            panic!("another face");
        };
        assert_eq!(argv[1], OsText("./kept".into()));
        argv[0].0.clone()
    }

    #[test]
    fn only_a_relative_command_with_a_separator_is_made_absolute() {
        let cwd = std::env::current_dir().unwrap();
        assert_eq!(command("clangd"), "clangd");
        assert_eq!(command("/usr/bin/clangd"), "/usr/bin/clangd");
        assert_eq!(command("bin/clangd"), cwd.join("bin/clangd"));
        assert_eq!(command("./clangd"), cwd.join("clangd"));
    }
}
