//! The hello: what a face tells the daemon when it attaches, and what comes back on the same socket.
//!
//! One message goes to the daemon: a length (four bytes, big-endian) and a JSON object, with the two descriptors of the
//! session attached to its first byte. Everything after it goes the other way, one JSON object a line: first the
//! acknowledgement or a refusal, then lines for the person's stderr, last the exit code. The end of this socket is the
//! end of the client for the daemon, and the loss of the daemon for the face.

pub(crate) mod descriptors;
mod text;

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub(crate) use text::OsText;

use crate::defaults::MAX_HELLO_BYTES;

/// The message that opens an attachment.
#[derive(Clone, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Hello {
    /// The version of this protocol that the face speaks.
    pub(crate) protocol: u32,
    /// What the face is.
    pub(crate) face: HelloFace,
    /// The working directory of the face, absolute.
    pub(crate) cwd: OsText,
    /// The whole environment of the face, in its order. It is the base for what the connection starts; the daemon's own
    /// never is.
    pub(crate) environment: Vec<(OsText, OsText)>,
    /// The face's file mode creation mask.
    pub(crate) umask: u32,
    /// The face's process id, as it sees it itself.
    pub(crate) pid: u32,
}

impl fmt::Debug for Hello {
    /// Without the environment's names and values: it can hold credentials.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Hello")
            .field("protocol", &self.protocol)
            .field("face", &self.face)
            .field("cwd", &self.cwd)
            .field("variables", &self.environment.len())
            .field("umask", &self.umask)
            .field("pid", &self.pid)
            .finish()
    }
}

/// What a face wants of the daemon.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum HelloFace {
    /// `lspool -- SERVER ARGS…`: one fixed server.
    Server {
        /// The server's command and arguments, the command absolute or without a separator.
        argv: Vec<OsText>,
    },
    /// `lspool connect`: the custom methods, without a fixed server.
    Harness {
        /// The root that was given on the command line, absolute.
        root: Option<OsText>,
        /// The world that was given on the command line.
        world: Option<String>,
    },
    /// `lspool stop`: end the daemon. No descriptors come with it.
    Stop {
        /// End it although editors are attached.
        force: bool,
    },
}

/// One line from the daemon to a face.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Reply {
    /// The attachment stands; the session may begin.
    Accepted {
        /// The daemon's process id.
        pid: u32,
        /// The daemon's version.
        version: String,
    },
    /// There is no attachment.
    Refused {
        /// A stable code.
        code: RefusalCode,
        /// What happened and what to do, for a person.
        message: String,
    },
    /// A line for the person's stderr.
    Notice {
        /// The line, without its end.
        text: String,
    },
    /// The session is over.
    Exit {
        /// The code that the face exits with.
        code: i32,
    },
}

/// Why an attachment was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum RefusalCode {
    /// The hello is not one that this daemon reads.
    HelloInvalid,
    /// The face speaks another version of the socket's protocol.
    ProtocolMismatch,
    /// The peer is another user's process.
    PeerRefused,
    /// The passed descriptors cannot carry a session.
    StreamRefused,
    /// Too many connections.
    LimitExceeded,
    /// The face wants a world that this daemon has not.
    WorldUnsupported,
    /// Editors are attached and `--force` was not given.
    EditorsAttached,
}

/// Why a hello could not be read or written.
#[derive(Debug, Error)]
pub(crate) enum HelloError {
    /// `HELLO_INVALID`: longer than the cap.
    #[error("the hello has {0} bytes; at most {MAX_HELLO_BYTES} are read")]
    TooLong(usize),
    /// `HELLO_INVALID`: not the JSON of a hello.
    #[error("the hello cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// The socket failed or ended.
    #[error("the socket failed: {0}")]
    Io(#[from] std::io::Error),
}

impl Hello {
    /// The message as it goes over the socket, its length included.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, HelloError> {
        let body = serde_json::to_vec(self)?;
        if body.len() > MAX_HELLO_BYTES {
            return Err(HelloError::TooLong(body.len()));
        }
        let mut message = (body.len() as u32).to_be_bytes().to_vec();
        message.extend_from_slice(&body);
        Ok(message)
    }

    /// Reads the body of a hello.
    pub(crate) fn decode(body: &[u8]) -> Result<Self, HelloError> {
        Ok(serde_json::from_slice(body)?)
    }
}

impl Reply {
    /// The line as it goes over the socket, its end included.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self)
            .expect("a reply holds only strings and integers, which serialise");
        line.push(b'\n');
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defaults::SOCKET_PROTOCOL;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;

    fn hello() -> Hello {
        Hello {
            protocol: SOCKET_PROTOCOL,
            face: HelloFace::Server {
                argv: vec![
                    OsText("clangd".into()),
                    OsText(OsString::from_vec(vec![b'-', 0xff])),
                ],
            },
            cwd: OsText("/home/é".into()),
            environment: vec![(
                OsText("A".into()),
                OsText(OsString::from_vec(vec![0xfe, b'=', b'\n'])),
            )],
            umask: 0o022,
            pid: 7,
        }
    }

    #[test]
    fn a_hello_survives_with_bytes_that_are_not_utf8() {
        let message = hello().encode().unwrap();
        let length = u32::from_be_bytes(message[..4].try_into().unwrap()) as usize;
        assert_eq!(length, message.len() - 4);
        assert_eq!(Hello::decode(&message[4..]).unwrap(), hello());
    }

    #[test]
    fn what_is_shown_of_a_hello_holds_nothing_of_its_environment() {
        let mut secret = hello();
        secret.environment = vec![(OsText("NAME".into()), OsText("credential".into()))];

        let shown = format!("{secret:?}");

        assert!(shown.contains("variables: 1"), "{shown}");
        assert!(!shown.contains("NAME") && !shown.contains("credential"));
    }

    #[test]
    fn a_hello_over_the_cap_is_not_sent() {
        let mut large = hello();
        large.environment = vec![(
            OsText("A".into()),
            OsText("x".repeat(MAX_HELLO_BYTES).into()),
        )];
        assert!(matches!(large.encode(), Err(HelloError::TooLong(_))));
    }

    #[test]
    fn a_reply_is_one_line_whatever_its_text() {
        let line = Reply::Notice {
            text: "a\nb\u{2028}".into(),
        }
        .encode();
        assert_eq!(
            line.iter().position(|byte| *byte == b'\n'),
            Some(line.len() - 1)
        );
        assert_eq!(
            serde_json::from_slice::<Reply>(&line).unwrap(),
            Reply::Notice {
                text: "a\nb\u{2028}".into()
            }
        );
    }
}
