//! A client that asks one question at a time on the thread that calls it: a reader of its own would add a hand-over
//! between threads to every measured time.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use lspool_testkit::{Launch, Profile, framing, initialize_params};
use serde_json::value::RawValue;

const BUFFER_BYTES: usize = 64 * 1024;

/// A server, or lspool in front of one, in its session. Dropping it kills the process.
pub(super) struct Link {
    child: Child,
    /// `None` once closed.
    input: Option<ChildStdin>,
    output: ChildStdout,
    decoder: framing::Decoder,
    buffer: Vec<u8>,
    next_id: u64,
}

/// The members of an answer.
#[derive(serde::Deserialize)]
struct Answer<'a> {
    id: Option<u64>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

/// The command of a launch, its standard error nowhere.
pub(super) fn command(launch: &Launch) -> Command {
    let mut command = Command::new(&launch.argv[0]);
    command
        .args(&launch.argv[1..])
        .current_dir(&launch.cwd)
        .env_clear()
        .envs(launch.environment.iter().map(|(name, value)| (name, value)))
        .stderr(Stdio::null());
    command
}

impl Link {
    /// Starts the program and its session.
    pub(super) fn open(launch: &Launch) -> Result<Self> {
        let mut child = command(launch)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("it cannot be started")?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("it has no pipes");
        };
        let mut link = Self {
            child,
            input: Some(input),
            output,
            decoder: framing::Decoder::new(),
            buffer: vec![0; BUFFER_BYTES],
            next_id: 0,
        };
        let root: &Path = &launch.cwd;
        let params = initialize_params(&Profile::bare(), root).to_string();
        link.request("initialize", Some(&params))?;
        link.send(r#"{"jsonrpc":"2.0","method":"initialized","params":{}}"#)?;
        Ok(link)
    }

    /// Asks with these params and gives the time until the whole answer had come. It must be the params again.
    pub(super) fn ask(&mut self, method: &str, params: &str) -> Result<Duration> {
        let (taken, body) = self.request(method, Some(params))?;
        let answer: Answer<'_> = serde_json::from_slice(&body)?;
        let result = answer.result.context("the answer is an error")?;
        ensure!(
            result.get() == params,
            "the answer is not what was asked with"
        );
        Ok(taken)
    }

    /// Ends the session and waits for the process.
    pub(super) fn close(&mut self) -> Result<()> {
        self.request("shutdown", None)?;
        self.send(r#"{"jsonrpc":"2.0","method":"exit"}"#)?;
        self.input = None;
        let status = self.child.wait()?;
        ensure!(status.success(), "it ended otherwise: {status}");
        Ok(())
    }

    /// Sends a request and gives the time until its answer with the answer's body. Other messages are passed over.
    fn request(&mut self, method: &str, params: Option<&str>) -> Result<(Duration, Vec<u8>)> {
        let id = self.next_id;
        self.next_id += 1;
        let params = params.map(|params| format!(r#","params":{params}"#));
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"{}}}"#,
            params.unwrap_or_default()
        );
        let begun = Instant::now();
        self.send(&body)?;
        loop {
            let body = self.receive()?;
            let taken = begun.elapsed();
            // Read only now, so that what the client does with an answer is not in the time.
            if serde_json::from_slice::<Answer<'_>>(&body).is_ok_and(|answer| answer.id == Some(id))
            {
                return Ok((taken, body));
            }
        }
    }

    fn send(&mut self, body: &str) -> Result<()> {
        let input = self.input.as_mut().context("the input is closed")?;
        input.write_all(&framing::encode(body.as_bytes()))?;
        Ok(())
    }

    fn receive(&mut self) -> Result<Vec<u8>> {
        loop {
            if let Some(frame) = self.decoder.next_frame()? {
                return Ok(frame.body);
            }
            let length = self.output.read(&mut self.buffer)?;
            ensure!(length > 0, "the output ended");
            self.decoder.push(&self.buffer[..length]);
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Both fail only for a process that was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
