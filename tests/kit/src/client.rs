//! Owns the blocking client: a child process on the other end of two pipes, what was sent to it and what
//! came back.
//!
//! Invariants: sending never blocks on a peer that does not read (a queue takes up to 256 MiB); every
//! message that came is kept, in order, with its exact bytes; a client that is dropped kills its child.

mod conversation;
mod documents;
mod launch;
mod message;
mod outbox;
mod process;
mod stderr;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub use launch::Launch;
pub use message::{Answer, ClientReply, Exit, Received};

use crate::error::KitError;
use crate::profile::{Profile, initialize_params};
use conversation::{Conversation, lock};
use outbox::Outbox;
use process::Process;
use stderr::Stderr;

type Handler = Arc<dyn Fn(&Received) -> ClientReply + Send + Sync>;

/// A language client for tests.
pub struct Client {
    conversation: Arc<Conversation>,
    outbox: Arc<Outbox>,
    handlers: Arc<Mutex<BTreeMap<String, Handler>>>,
    stderr: Arc<Stderr>,
    process: Process,
    next_id: AtomicU64,
}

/// A request that was sent. Its answer is the answer that came in the same place among all answers with
/// this id as the request has among all requests with it.
pub struct Pending {
    conversation: Arc<Conversation>,
    stderr: Arc<Stderr>,
    /// The raw JSON of its id.
    pub id: String,
    /// Its method.
    pub method: String,
    place: usize,
}

impl Pending {
    /// Waits for the answer.
    pub fn wait(&self) -> Result<Answer, KitError> {
        let what = format!("the answer to {} {}", self.method, self.id);
        let received = self
            .conversation
            .wait_answer(&what, &self.id, self.place, &self.stderr)?;
        Ok(Answer::of(received))
    }

    /// Waits for the answer and decodes its result.
    pub fn result<T: DeserializeOwned>(&self) -> Result<T, KitError> {
        self.wait()?.result()
    }

    /// The answer, if it has come.
    pub fn answer(&self) -> Option<Answer> {
        self.conversation
            .answer(&self.id, self.place)
            .map(Answer::of)
    }
}

impl Client {
    /// Starts a program and talks to it. Requests of the server are answered as a modest editor would
    /// (see [`Client::on_request`]).
    pub fn start(launch: &Launch) -> Result<Self, KitError> {
        let (process, pipes) = Process::start(launch)?;
        let conversation = Arc::new(Conversation::default());
        let outbox = Outbox::start(pipes.stdin);
        let handlers = Arc::new(Mutex::new(BTreeMap::new()));
        let stderr = Stderr::collect(pipes.stderr);
        conversation.read_from(pipes.stdout, {
            let handlers = Arc::clone(&handlers);
            let outbox = Arc::clone(&outbox);
            move |request| answer_server(&handlers, &outbox, request)
        });
        Ok(Self {
            conversation,
            outbox,
            handlers,
            stderr,
            process,
            next_id: AtomicU64::new(0),
        })
    }

    /// Sends `initialize` as the editor of `profile` would for the folder `root`, waits for its result,
    /// and sends `initialized`.
    pub fn initialize(&self, profile: &Profile, root: &Path) -> Result<Answer, KitError> {
        self.initialize_with(initialize_params(profile, root))
    }

    /// Like [`Client::initialize`], with these params.
    pub fn initialize_with(&self, params: impl Serialize) -> Result<Answer, KitError> {
        let answer = self.request("initialize", params)?.wait()?;
        answer.result_raw()?;
        self.notify("initialized", json!({}))?;
        Ok(answer)
    }

    /// Sends a request under the next free number, counted from 0.
    pub fn request(&self, method: &str, params: impl Serialize) -> Result<Pending, KitError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed).to_string();
        self.request_raw(&id, method, Some(&to_json(&params)?))
    }

    /// Sends a request, waits for its answer and decodes its result.
    pub fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Serialize,
    ) -> Result<T, KitError> {
        self.request(method, params)?.result()
    }

    /// Sends a request with an id and params of any raw JSON.
    pub fn request_raw(
        &self,
        id: &str,
        method: &str,
        params: Option<&str>,
    ) -> Result<Pending, KitError> {
        let params = params
            .map(|params| format!(r#","params":{params}"#))
            .unwrap_or_default();
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":{}{params}}}"#,
            json!(method)
        );
        self.request_body(id, method, body.as_bytes())
    }

    /// Sends a whole body that is a request; `id` is the raw JSON of the id that its answer will have.
    pub fn request_body(&self, id: &str, method: &str, body: &[u8]) -> Result<Pending, KitError> {
        let place = self.conversation.note_request(id);
        self.send_body(body)?;
        Ok(Pending {
            conversation: Arc::clone(&self.conversation),
            stderr: Arc::clone(&self.stderr),
            id: id.to_owned(),
            method: method.to_owned(),
            place,
        })
    }

    /// Sends a notification.
    pub fn notify(&self, method: &str, params: impl Serialize) -> Result<(), KitError> {
        self.notify_raw(method, Some(&to_json(&params)?))
    }

    /// Sends a notification with params of any raw JSON.
    pub fn notify_raw(&self, method: &str, params: Option<&str>) -> Result<(), KitError> {
        let params = params
            .map(|params| format!(r#","params":{params}"#))
            .unwrap_or_default();
        self.send_body(
            format!(r#"{{"jsonrpc":"2.0","method":{}{params}}}"#, json!(method)).as_bytes(),
        )
    }

    /// Sends `$/cancelRequest` for a request.
    pub fn cancel(&self, pending: &Pending) -> Result<(), KitError> {
        self.notify_raw(
            "$/cancelRequest",
            Some(&format!(r#"{{"id":{}}}"#, pending.id)),
        )
    }

    /// Sends a body of any bytes, framed.
    pub fn send_body(&self, body: &[u8]) -> Result<(), KitError> {
        self.send_bytes(&lspool_scripted_server::framing::encode(body))
    }

    /// Sends any bytes, without framing.
    pub fn send_bytes(&self, bytes: &[u8]) -> Result<(), KitError> {
        self.outbox.push(bytes.to_vec())
    }

    /// How many bytes wait because the peer does not read.
    pub fn unsent_bytes(&self) -> usize {
        self.outbox.waiting_bytes()
    }

    /// Waits until all that was sent has gone into the pipe.
    pub fn wait_sent(&self) -> Result<(), KitError> {
        self.outbox.wait_empty()
    }

    /// Closes the peer's input once all that was sent is in the pipe.
    pub fn close_input(&self) {
        self.outbox.close();
    }

    /// Answers requests of the server with this method by `handler`, instead of the default:
    /// `workspace/configuration` with one `null` an item, registrations and progress with `null`,
    /// `workspace/applyEdit` with `applied: false`, `window/showDocument` with `success: false`, refreshes,
    /// folders and dialogs with `null`, all else with -32601.
    pub fn on_request(
        &self,
        method: &str,
        handler: impl Fn(&Received) -> ClientReply + Send + Sync + 'static,
    ) {
        lock(&self.handlers).insert(method.to_owned(), Arc::new(handler));
    }

    /// Reads nothing more until [`Client::resume_reading`]. The read under way may still take up to 64 KiB.
    pub fn stop_reading(&self) {
        self.conversation.set_paused(true);
    }

    /// Reads on.
    pub fn resume_reading(&self) {
        self.conversation.set_paused(false);
    }

    /// All messages that have come, in order.
    pub fn received(&self) -> Vec<Received> {
        self.conversation.received()
    }

    /// How many messages have come: a mark for [`Client::wait_for_after`].
    pub fn mark(&self) -> usize {
        self.conversation.count()
    }

    /// Waits for the first message, among all that came and will come, that `accept` takes.
    pub fn wait_for(
        &self,
        what: &str,
        accept: impl Fn(&Received) -> bool,
    ) -> Result<Received, KitError> {
        self.wait_for_after(0, what, accept)
    }

    /// Like [`Client::wait_for`], without the first `mark` messages.
    pub fn wait_for_after(
        &self,
        mark: usize,
        what: &str,
        accept: impl Fn(&Received) -> bool,
    ) -> Result<Received, KitError> {
        self.conversation
            .wait_message(what, mark, accept, &self.stderr)
    }

    /// Waits for the first notification or request of the server with this method.
    pub fn wait_for_method(&self, method: &str) -> Result<Received, KitError> {
        self.wait_for(method, |message| message.method.as_deref() == Some(method))
    }

    /// Waits until the peer's output has ended and says whether it ended between two messages.
    pub fn wait_end_of_output(&self) -> Result<bool, KitError> {
        self.conversation.wait_end(&self.stderr)
    }

    /// All answers with this raw id.
    pub fn answers_to(&self, id: &str) -> Vec<Answer> {
        self.conversation
            .answers_to(id)
            .into_iter()
            .map(Answer::of)
            .collect()
    }

    /// The raw ids whose number of answers is not their number of requests, with both numbers
    /// (requests, then answers). Empty when each request has exactly one answer.
    pub fn unbalanced(&self) -> BTreeMap<String, (usize, usize)> {
        self.conversation.unbalanced()
    }

    /// Waits until the peer's stderr has ended and gives what it wrote: its last MiB, lossily decoded. The end of the
    /// peer itself is no proof that all of it has been read.
    pub fn whole_stderr(&self) -> Result<String, KitError> {
        self.stderr.wait_end()?;
        Ok(self.stderr.tail())
    }

    /// What the peer has written to stderr so far: its last MiB, lossily decoded.
    pub fn stderr(&self) -> String {
        self.stderr.tail()
    }

    /// How many bytes the peer has written to stderr.
    pub fn stderr_bytes(&self) -> u64 {
        self.stderr.total()
    }

    /// Waits until what the peer wrote to stderr holds `text`.
    pub fn wait_for_stderr(&self, text: &str) -> Result<(), KitError> {
        self.stderr.wait_for(text)
    }

    /// The peer's process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Kills the peer by SIGKILL and reaps it.
    pub fn kill(&self) -> Result<Exit, KitError> {
        self.process.signal(nix::sys::signal::Signal::SIGKILL);
        self.wait_exit()
    }

    /// Sends the peer SIGTERM.
    pub fn terminate(&self) {
        self.process.signal(nix::sys::signal::Signal::SIGTERM);
    }

    /// Waits until the peer has ended.
    pub fn wait_exit(&self) -> Result<Exit, KitError> {
        self.process.wait(&self.stderr)
    }

    /// How the peer ended, if it has.
    pub fn exit(&self) -> Option<Exit> {
        self.process.exit()
    }

    /// Sends `shutdown`, waits for its answer, sends `exit` and waits until the peer has ended.
    pub fn shut_down(&self) -> Result<Exit, KitError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed).to_string();
        self.request_raw(&id, "shutdown", None)?
            .wait()?
            .result_raw()?;
        self.notify_raw("exit", None)?;
        self.close_input();
        self.wait_exit()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // A paused reader would otherwise wait for ever for leave to see the end of the stream.
        self.conversation.set_paused(false);
        self.outbox.close();
        self.process.end();
    }
}

fn to_json(value: &impl Serialize) -> Result<String, KitError> {
    serde_json::to_string(value).map_err(|error| KitError::Decode {
        what: "params".to_owned(),
        reason: error.to_string(),
        text: String::new(),
    })
}

/// Answers a request of the server by the test's handler or by default.
fn answer_server(handlers: &Mutex<BTreeMap<String, Handler>>, outbox: &Outbox, request: &Received) {
    let (Some(method), Some(id)) = (&request.method, &request.id) else {
        return;
    };
    let handler = lock(handlers).get(method).cloned();
    let reply = handler.map_or_else(
        || default_reply(method, request),
        |handler| handler(request),
    );
    let body = match reply {
        ClientReply::Result(result) => {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
        }
        ClientReply::Error { code, message } => {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{}}}}}"#,
                json!(message)
            )
        }
        ClientReply::Body(body) => body,
        ClientReply::Silence => return,
    };
    // A closed or full way out is seen by the test where it sends.
    let _ = outbox.push(lspool_scripted_server::framing::encode(body.as_bytes()));
}

fn default_reply(method: &str, request: &Received) -> ClientReply {
    match method {
        "workspace/configuration" => {
            let params: Value = request.params().unwrap_or_default();
            let items = params["items"].as_array().map_or(0, Vec::len);
            ClientReply::Result(json!(vec![Value::Null; items]).to_string())
        }
        "workspace/applyEdit" => ClientReply::Result(r#"{"applied":false}"#.to_owned()),
        "window/showDocument" => ClientReply::Result(r#"{"success":false}"#.to_owned()),
        "client/registerCapability"
        | "client/unregisterCapability"
        | "window/workDoneProgress/create"
        | "window/showMessageRequest"
        | "workspace/workspaceFolders" => ClientReply::Result("null".to_owned()),
        refresh if refresh.starts_with("workspace/") && refresh.ends_with("/refresh") => {
            ClientReply::Result("null".to_owned())
        }
        unknown => ClientReply::Error {
            code: -32601,
            message: format!("{unknown} is not supported"),
        },
    }
}
