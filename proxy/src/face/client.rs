//! A small client of the custom methods, for the command line: one request at a time over a `connect` session.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use lspool_normalize::RpcError;
use serde_json::{Value, json};
use thiserror::Error;

use super::attach::read_reply;
use super::{AttachError, Attachment, How, alone};
use crate::defaults::{ACKNOWLEDGEMENT_TIMEOUT, ANSWER_RESERVE};
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
    is_hung: bool,
}

impl MethodClient {
    /// Opens a session and initialises it; a daemon that takes longer than this for either is hung.
    pub(crate) fn open(face: HelloFace, how: How, patience: Duration) -> Result<Self, CallError> {
        let mut attachment = match Attachment::open(face, how, patience) {
            Ok(attachment) => attachment,
            // A person waits who can do something about it, and has waited for long enough.
            Err(error @ AttachError::Hung { .. }) => return Err(error.into()),
            Err(error) => return Err(alone::instead_of(how, error).into()),
        };
        tell_notices(&mut attachment)?;
        let output = attachment.output.try_clone().map_err(CallError::Lost)?;
        let mut client = Self {
            attachment,
            output: BufReader::new(output),
            next: 0,
            is_hung: false,
        };
        let bound = match how {
            How::Shared | How::SharedIfRunning => Some(patience + ANSWER_RESERVE),
            How::InProcess { .. } => None,
        };
        client.call(
            "initialize",
            &json!({ "processId": std::process::id(), "rootUri": null, "capabilities": {} }),
            bound,
        )?;
        client.notify("initialized", &json!({}))?;
        Ok(client)
    }

    /// Calls a method and waits for its answer, without a bound for as long as it takes; with one, a daemon that is
    /// silent for longer is hung, and the session has to be closed.
    pub(crate) fn call(
        &mut self,
        method: &str,
        parameters: &Value,
        bound: Option<Duration>,
    ) -> Result<Value, CallError> {
        let deadline = bound.map(|bound| Instant::now() + bound);
        let answer = self.call_until(method, parameters, deadline);
        match (answer, bound) {
            (Err(CallError::Lost(error)), Some(after))
                if error.kind() == io::ErrorKind::WouldBlock =>
            {
                self.is_hung = true;
                Err(CallError::Attach(AttachError::Hung {
                    pid: self.attachment.daemon_pid.cast_signed(),
                    after,
                }))
            }
            (answer, _) => answer,
        }
    }

    fn call_until(
        &mut self,
        method: &str,
        parameters: &Value,
        deadline: Option<Instant>,
    ) -> Result<Value, CallError> {
        let id = self.next;
        self.next += 1;
        self.wait_until(deadline).map_err(CallError::Lost)?;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters }))?;
        loop {
            self.wait_until(deadline).map_err(CallError::Lost)?;
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

    /// Bounds what is read and written next.
    fn wait_until(&self, deadline: Option<Instant>) -> io::Result<()> {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.output.get_ref().set_read_timeout(left)?;
        self.attachment.input.set_write_timeout(left)
    }

    /// Ends the session properly and waits for what runs inside this process.
    pub(crate) fn close(mut self) {
        if self.is_hung {
            // It sees the end of the socket when it goes on.
            return;
        }
        // A daemon that is gone by now has nothing left to end.
        let bound = Some(ACKNOWLEDGEMENT_TIMEOUT);
        if self.call("shutdown", &Value::Null, bound).is_ok() {
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
