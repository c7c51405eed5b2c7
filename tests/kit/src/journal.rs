//! Owns the reading of a scripted server's journal, and what tests assert on it.
//!
//! Invariant: every view is in the order of the file; nothing is sorted or merged.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use lspool_scripted_server::journal::{Ending, Entry, Event, Message};
use lspool_scripted_server::members::Kind;

use crate::error::{KitError, deadline};

const POLL_INTERVAL: std::time::Duration = std::time::Duration::from_millis(2);

/// The journal of the scripted servers that share one file.
#[derive(Clone, Debug)]
pub struct Journal {
    path: PathBuf,
    read: Arc<Mutex<Read>>,
}

/// What has been read of the file: it only grows, so nothing is read twice.
#[derive(Debug, Default)]
struct Read {
    offset: u64,
    entries: Vec<Entry>,
}

impl Read {
    fn read_on(&mut self, path: &Path) {
        let Ok(mut file) = File::open(path) else {
            return;
        };
        let mut text = Vec::new();
        let grown = file
            .seek(SeekFrom::Start(self.offset))
            .and_then(|_| file.read_to_end(&mut text));
        grown.unwrap_or_else(|error| panic!("journal {}: {error}", path.display()));
        let whole = text
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |end| end + 1);
        self.offset += whole as u64;
        for line in text[..whole]
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let entry = serde_json::from_slice(line).unwrap_or_else(|error| {
                panic!("journal line {}: {error}", String::from_utf8_lossy(line))
            });
            self.entries.push(entry);
        }
    }
}

impl Journal {
    /// The journal in this file, which need not exist yet.
    pub fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            read: Arc::default(),
        }
    }

    /// All whole entries so far.
    ///
    /// # Panics
    ///
    /// When the file holds something else.
    pub fn entries(&self) -> Vec<Entry> {
        self.with_entries(<[Entry]>::to_vec)
    }

    fn with_entries<T>(&self, view: impl FnOnce(&[Entry]) -> T) -> T {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.read_on(&self.path);
        view(&read.entries)
    }

    /// Waits until `find` finds something in the entries.
    pub fn wait_for<T>(
        &self,
        what: &str,
        find: impl Fn(&[Entry]) -> Option<T>,
    ) -> Result<T, KitError> {
        let end = Instant::now() + deadline();
        loop {
            if let Some(found) = self.with_entries(&find) {
                return Ok(found);
            }
            if Instant::now() >= end {
                let what = format!("{what} in the journal");
                return Err(KitError::Timeout {
                    what,
                    waited: deadline(),
                    account: self.text(),
                });
            }
            std::thread::park_timeout(POLL_INTERVAL);
        }
    }

    /// Waits until so many messages with this method have been received.
    pub fn wait_for_received(&self, method: &str, count: usize) -> Result<Vec<Message>, KitError> {
        self.wait_for(&format!("{count} times {method}"), |entries| {
            let messages: Vec<Message> = received(entries)
                .filter(|message| message.method.as_deref() == Some(method))
                .cloned()
                .collect();
            (messages.len() >= count).then_some(messages)
        })
    }

    /// Waits until the server with this ordinal has said how it ends.
    pub fn wait_for_ending(&self, server: u32) -> Result<Ending, KitError> {
        self.wait_for("how it ended", |entries| {
            entries.iter().find_map(|entry| match &entry.event {
                Event::Ended { how } if entry.server == server => Some(how.clone()),
                _ => None,
            })
        })
    }

    /// How many servers were started.
    pub fn servers_started(&self) -> usize {
        self.entries()
            .iter()
            .filter(|entry| matches!(entry.event, Event::Started { .. }))
            .count()
    }

    /// The process ids of the servers in the order of their start, when the scenario journals them.
    pub fn pids(&self) -> Vec<i32> {
        let entries = self.entries();
        entries
            .iter()
            .filter_map(|entry| match entry.event {
                Event::Started { pid } => pid,
                _ => None,
            })
            .collect()
    }

    /// All received messages.
    pub fn received(&self) -> Vec<Message> {
        received(&self.entries()).cloned().collect()
    }

    /// The methods of all received requests and notifications.
    pub fn methods(&self) -> Vec<String> {
        self.received()
            .into_iter()
            .filter(|message| message.kind != Kind::Response)
            .filter_map(|message| message.method)
            .collect()
    }

    /// All received messages about documents, as `didOpen URI VERSION HASH` lines (`didClose URI` without
    /// the rest). With one document the hashes show which text the server had after each message.
    pub fn document_events(&self) -> Vec<String> {
        self.received()
            .into_iter()
            .filter_map(|message| {
                let event = message
                    .method
                    .as_deref()?
                    .strip_prefix("textDocument/did")?
                    .to_owned();
                Some(match message.document {
                    Some(document) => {
                        format!(
                            "did{event} {} {} {}",
                            document.uri, document.version, document.hash
                        )
                    }
                    None => format!("did{event}"),
                })
            })
            .collect()
    }

    /// How the clients broke the protocol.
    pub fn violations(&self) -> Vec<String> {
        self.entries()
            .into_iter()
            .filter_map(|entry| match entry.event {
                Event::Violation { what } => Some(format!("server {}: {what}", entry.server)),
                _ => None,
            })
            .collect()
    }

    /// Fails the test when the protocol was broken.
    ///
    /// # Panics
    ///
    /// When it was.
    pub fn assert_no_violations(&self) {
        let violations = self.violations();
        assert!(
            violations.is_empty(),
            "the protocol was broken:\n  {}",
            violations.join("\n  ")
        );
    }

    /// Fails the test when the received methods are not these, in this order.
    ///
    /// # Panics
    ///
    /// When they are not.
    pub fn assert_methods(&self, expected: &[&str]) {
        assert_eq!(self.methods(), expected, "methods received, in order");
    }

    /// A stable text of the journal: no times and no process ids, one entry a line. Equal runs give
    /// equal text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for entry in self.entries() {
            // Writing into a String cannot fail.
            let _ = writeln!(text, "{} {}", entry.server, line_of(&entry.event));
        }
        text
    }
}

fn received(entries: &[Entry]) -> impl Iterator<Item = &Message> {
    entries.iter().filter_map(|entry| match &entry.event {
        Event::Received(message) => Some(message),
        _ => None,
    })
}

fn line_of(event: &Event) -> String {
    match event {
        Event::Started { .. } => "started".to_owned(),
        Event::Received(message) => format!("<- {}", message_line(message)),
        Event::Sent(message) => format!("-> {}", message_line(message)),
        Event::Violation { what } => format!("violation: {what}"),
        Event::Signal { name } => format!("signal {name}"),
        Event::EndOfInput => "end of input".to_owned(),
        Event::ReadingStopped => "reading stopped".to_owned(),
        Event::ReadingResumed => "reading resumed".to_owned(),
        Event::Ended { how } => format!("ended: {how:?}"),
    }
}

fn message_line(message: &Message) -> String {
    let kind = match message.kind {
        Kind::Request => "request",
        Kind::Notification => "notification",
        Kind::Response => "answer",
        Kind::Malformed => "malformed",
    };
    let code = message.error_code.map(|code| code.to_string());
    let params = message.params.as_deref().or(message.params_hash.as_deref());
    let parts = [
        message.id.as_deref(),
        message.method.as_deref(),
        code.as_deref(),
        params,
    ];
    let parts: Vec<&str> = [Some(kind)].into_iter().chain(parts).flatten().collect();
    parts.join(" ")
}
