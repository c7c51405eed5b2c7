//! A small client of the custom methods, for the command line: one request at a time over a `connect` session.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use lspool_normalize::RpcError;
use serde_json::{Value, json};
use thiserror::Error;

use super::attach::read_reply;
use super::{AttachError, Attachment, How, alone};
use crate::hello::{HelloFace, Reply};
use crate::standard_streams::complain;

/// Why a method gave no result.
#[derive(Debug, Error)]
pub(crate) enum CallError {
    /// There is no session; the variants of [`AttachError`] say why.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// `DAEMON_LOST`: the session ended before the answer.
    #[error("the lspool daemon is lost; ask again to start a new one")]
    Lost(#[source] io::Error),
    /// The method answered an error, with its own code.
    #[error(transparent)]
    Method(#[from] RpcError),
}

/// A session whose methods can be called.
pub(crate) struct MethodClient {
    attachment: Attachment,
    output: BufReader<UnixStream>,
    next: u64,
}

impl MethodClient {
    /// Opens a session and initialises it.
    pub(crate) fn open(face: HelloFace, how: How) -> Result<Self, CallError> {
        let mut attachment =
            Attachment::open(face, how).map_err(|error| alone::instead_of(how, error))?;
        tell_notices(&mut attachment)?;
        let output = attachment.output.try_clone().map_err(CallError::Lost)?;
        let mut client = Self {
            attachment,
            output: BufReader::new(output),
            next: 0,
        };
        client.call(
            "initialize",
            &json!({ "processId": std::process::id(), "rootUri": null, "capabilities": {} }),
        )?;
        client.notify("initialized", &json!({}))?;
        Ok(client)
    }

    /// Calls a method and waits for its answer.
    pub(crate) fn call(&mut self, method: &str, parameters: &Value) -> Result<Value, CallError> {
        let id = self.next;
        self.next += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters }))?;
        loop {
            let mut message = self.receive().map_err(CallError::Lost)?;
            // What is not the answer is a notification to an editor that this is not.
            if message.get("method").is_some() || message["id"] != json!(id) {
                continue;
            }
            if let Some(error) = message.get_mut("error").map(Value::take) {
                let error =
                    serde_json::from_value(error).map_err(|error| CallError::Lost(error.into()))?;
                return Err(CallError::Method(error));
            }
            return Ok(message["result"].take());
        }
    }

    /// Ends the session properly and waits for what runs inside this process.
    pub(crate) fn close(mut self) {
        // A daemon that is gone by now has nothing left to end.
        if self.call("shutdown", &Value::Null).is_ok() {
            let _ = self.notify("exit", &Value::Null);
        }
        self.attachment.finish();
    }

    /// The daemon's process id and version.
    pub(crate) fn daemon(&self) -> (u32, &str) {
        (self.attachment.daemon_pid, &self.attachment.daemon_version)
    }

    fn notify(&mut self, method: &str, parameters: &Value) -> Result<(), CallError> {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": parameters }))
    }

    fn send(&mut self, message: &Value) -> Result<(), CallError> {
        let body = message.to_string();
        write!(
            self.attachment.input,
            "Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .map_err(CallError::Lost)
    }

    fn receive(&mut self) -> io::Result<Value> {
        let mut length = None;
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            match line.trim_end().split_once(':') {
                // What the daemon writes is canonical, so one spelling is enough.
                Some(("Content-Length", digits)) => length = digits.trim().parse().ok(),
                Some(_) => {}
                None => break,
            }
        }
        let length: usize = length.ok_or(io::ErrorKind::InvalidData)?;
        let mut body = Vec::new();
        self.output
            .by_ref()
            .take(length as u64)
            .read_to_end(&mut body)?;
        if body.len() < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        serde_json::from_slice(&body).map_err(io::Error::from)
    }
}

/// Says the daemon's lines on stderr, in a thread that ends with the session.
fn tell_notices(attachment: &mut Attachment) -> Result<(), CallError> {
    let control = attachment
        .control
        .get_ref()
        .try_clone()
        .map_err(CallError::Lost)?;
    // The acknowledgement and what came with it may be in the buffer already.
    let empty = BufReader::new(control);
    let mut control = std::mem::replace(&mut attachment.control, empty);
    std::thread::spawn(move || {
        while let Ok(Some(reply)) = read_reply(&mut control) {
            if let Reply::Notice { text } = reply {
                complain(&text);
            }
        }
    });
    Ok(())
}
