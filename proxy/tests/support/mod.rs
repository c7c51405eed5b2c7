//! A private lspool for one test: its own runtime folder and HOME, faces over pipes, and the leak oracle at its end.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(
    clippy::disallowed_methods,
    reason = "a test starts programs and looks at files"
)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// How long anything may take before the test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// How long a test rests between two looks at what other processes do.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// The oracle's variable; outside lspool's own names, so that nothing removes it.
const ORACLE: &str = "PROXY_TEST_TREE";

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A private place for one test.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    name: String,
    runtime: PathBuf,
}

impl Place {
    /// A new place, without configuration.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runtime = folder.path().join("run");
        let name = format!(
            "{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        fs::create_dir(folder.path().join("home")).unwrap();
        Self {
            folder,
            name,
            runtime,
        }
    }

    /// The same with this configuration.
    pub(crate) fn with_config(text: &str) -> Self {
        let place = Self::new();
        fs::write(place.path().join("config.toml"), text).unwrap();
        place
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The configuration file of this place, which need not be there.
    pub(crate) fn config(&self) -> PathBuf {
        self.path().join("config.toml")
    }

    pub(crate) fn runtime(&self) -> &Path {
        &self.runtime
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.runtime.join("lspool-1.sock")
    }

    /// Makes the runtime folder before lspool does.
    pub(crate) fn make_runtime(&self) {
        let mut builder = fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.runtime).unwrap();
    }

    /// Moves the runtime folder elsewhere.
    pub(crate) fn set_runtime(&mut self, runtime: PathBuf) {
        self.runtime = runtime;
    }

    /// A command of lspool in this place.
    pub(crate) fn lspool(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lspool"));
        command
            .args(arguments)
            .current_dir(self.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path().join("home"))
            .env("LSPOOL_RUNTIME_DIR", &self.runtime)
            .env("LSPOOL_LOG", "debug")
            .env(ORACLE, &self.name)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if self.config().symlink_metadata().is_ok() {
            command.env("LSPOOL_CONFIG", self.config());
        }
        command
    }

    /// The arguments of `lspool -- SERVER` for the echo server.
    pub(crate) fn echo_arguments<'a>(before: &[&'a str], after: &[&'a str]) -> Vec<&'a str> {
        let server = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/echo_server.py");
        [before, &["--", "python3", server], after].concat()
    }

    /// A face in front of the echo server.
    pub(crate) fn echo(&self, after: &[&str]) -> Face {
        Face::start(&mut self.lspool(&Self::echo_arguments(&[], after)))
    }

    /// The same after its `initialize`.
    pub(crate) fn initialized_echo(&self, after: &[&str]) -> Face {
        let mut face = self.echo(after);
        face.initialize();
        face
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = self.lspool(arguments).output().unwrap();
        (
            output.status.code().unwrap_or(-1),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    }

    /// The running daemon's status.
    pub(crate) fn status(&self) -> Value {
        let (code, stdout, stderr) = self.run(&["status", "--json"]);
        assert_eq!(code, 0, "{stderr}");
        serde_json::from_str(&stdout).unwrap()
    }

    /// The ids of the running daemon and of its guardian.
    pub(crate) fn daemon(&self) -> (i32, i32) {
        let status = self.status();
        let id = |name: &str| status["daemon"][name].as_i64().unwrap() as i32;
        (id("pid"), id("guardianPid"))
    }

    /// The processes of this test that are alive, with their command lines.
    pub(crate) fn processes(&self) -> Vec<(i32, String)> {
        let wanted = format!("{ORACLE}={}", self.name).into_bytes();
        let own = std::process::id().cast_signed();
        let entries = fs::read_dir("/proc").unwrap().flatten();
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid| *pid != own && is_alive(*pid))
            .filter(|pid| {
                fs::read(format!("/proc/{pid}/environ"))
                    .is_ok_and(|text| text.split(|byte| *byte == 0).any(|pair| pair == wanted))
            })
            .map(|pid| {
                let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                (pid, String::from_utf8_lossy(&line).replace('\0', " "))
            })
            .collect()
    }

    /// The daemons of this place.
    pub(crate) fn daemons(&self) -> Vec<i32> {
        self.processes()
            .into_iter()
            .filter(|(_, line)| line.contains(" __daemon"))
            .map(|(pid, _)| pid)
            .collect()
    }

    /// Waits until no process of this test is alive; names those that are after that time.
    pub(crate) fn wait_until_empty(&self, patience: Duration) -> Result<(), Vec<(i32, String)>> {
        let deadline = Instant::now() + patience;
        self.wait_until_empty_while(|| Instant::now() < deadline)
    }

    /// The same for so many looks, each at least [`LOOK_PAUSE`] after the one before.
    pub(crate) fn look_until_empty(&self, looks: u32) -> Result<(), Vec<(i32, String)>> {
        let mut left = looks;
        self.wait_until_empty_while(|| {
            left -= 1;
            left > 0
        })
    }

    fn wait_until_empty_while(
        &self,
        mut is_patient: impl FnMut() -> bool,
    ) -> Result<(), Vec<(i32, String)>> {
        loop {
            let left = self.processes();
            if left.is_empty() {
                return Ok(());
            }
            if !is_patient() {
                return Err(left);
            }
            std::thread::sleep(LOOK_PAUSE);
        }
    }
}

/// The leak oracle: after a stop there is no process and no socket.
impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.lspool(&["stop", "--force"]).output();
        let left = self.wait_until_empty(PATIENCE).err();
        let socket_left = self.socket().symlink_metadata().is_ok();
        for (pid, _) in left.iter().flatten() {
            let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
        }
        if !std::thread::panicking() {
            assert_eq!(left, None, "processes are left");
            assert!(!socket_left, "the socket is left");
        }
    }
}

/// Whether a process is alive, not a zombie.
pub(crate) fn is_alive(pid: i32) -> bool {
    start_time(pid).is_some()
}

/// When a process that is alive started, as the process table has it.
fn start_time(pid: i32) -> Option<String> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = line.rsplit_once(") ")?;
    // The start time is field 22 of the line, and the state, with which these begin, is field 3.
    let started = fields.split(' ').nth(19)?;
    (!fields.starts_with(['Z', 'X'])).then(|| started.to_owned())
}

/// A process that the leak oracle does not see, since it was started without an environment. It ends with this value.
pub(crate) struct Stranger {
    pid: i32,
    started: Option<String>,
}

impl Stranger {
    /// The process that has this id now.
    pub(crate) fn of(pid: i32) -> Self {
        let started = start_time(pid);
        Self { pid, started }
    }

    /// Whether it is alive, and no other process of its id.
    pub(crate) fn is_alive(&self) -> bool {
        self.started.is_some() && start_time(self.pid) == self.started
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        if self.is_alive() {
            let _ = kill(Pid::from_raw(self.pid), Signal::SIGKILL);
        }
    }
}

/// Waits for something that another process does; fails the test when it does not.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::sleep(LOOK_PAUSE);
    }
}

pub(crate) fn signal(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).unwrap();
}

/// A face whose stdin and stdout the test holds.
pub(crate) struct Face {
    pub(crate) child: Child,
    output: BufReader<Box<dyn Read + Send>>,
    input: Option<Box<dyn Write + Send>>,
    next: u64,
}

impl Face {
    /// Starts a face over pipes.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let input = Box::new(child.stdin.take().unwrap());
        let output: Box<dyn Read + Send> = Box::new(child.stdout.take().unwrap());
        Self::over(child, input, output)
    }

    /// A started face over other descriptors.
    pub(crate) fn over(
        child: Child,
        input: Box<dyn Write + Send>,
        output: Box<dyn Read + Send>,
    ) -> Self {
        Self {
            child,
            output: BufReader::new(output),
            input: Some(input),
            next: 0,
        }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    pub(crate) fn initialize(&mut self) {
        let answer = self.call(
            "initialize",
            &json!({ "processId": null, "rootUri": null, "capabilities": {} }),
        );
        assert!(answer["result"]["capabilities"].is_object(), "{answer}");
        self.notify("initialized", &json!({}));
    }

    pub(crate) fn call(&mut self, method: &str, parameters: &Value) -> Value {
        let id = self.next;
        self.next += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters }));
        loop {
            let message = self
                .receive()
                .unwrap_or_else(|| panic!("no answer to {method}"));
            if message["id"] == json!(id) && message.get("method").is_none() {
                return message;
            }
        }
    }

    pub(crate) fn notify(&mut self, method: &str, parameters: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": parameters }));
    }

    pub(crate) fn facts(&mut self) -> Value {
        self.call("test/facts", &Value::Null)["result"].clone()
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let body = message.to_string();
        let input = self.input.as_mut().unwrap();
        write!(input, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        input.flush().unwrap();
    }

    /// The next message, `None` at the end of the output.
    pub(crate) fn receive(&mut self) -> Option<Value> {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if line == "\r\n" {
                break;
            }
            let (name, value) = line
                .split_once(':')
                .unwrap_or_else(|| panic!("no header: {line:?}"));
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        self.output.read_exact(&mut body).ok()?;
        Some(serde_json::from_slice(&body).unwrap())
    }

    /// Hands the input to another thread.
    pub(crate) fn take_input(&mut self) -> Box<dyn Write + Send> {
        self.input.take().unwrap()
    }

    /// Takes it back.
    pub(crate) fn put_input(&mut self, input: Box<dyn Write + Send>) {
        self.input = Some(input);
    }

    /// Ends the input.
    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    /// Ends the session as the protocol wants; the exit code.
    pub(crate) fn shutdown(mut self) -> i32 {
        self.call("shutdown", &Value::Null);
        self.notify("exit", &Value::Null);
        self.wait().0.code().unwrap()
    }

    /// Waits for the end of the face; its status, what was left of its stdout, and its stderr.
    pub(crate) fn wait(mut self) -> (ExitStatus, Vec<u8>, String) {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > deadline {
                let _ = self.child.kill();
                panic!("the face does not end");
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut rest = Vec::new();
        let _ = self.output.read_to_end(&mut rest);
        let mut stderr = String::new();
        if let Some(mut pipe) = self.child.stderr.take() {
            let _ = pipe.read_to_string(&mut stderr);
        }
        (status, rest, stderr)
    }
}

impl Drop for Face {
    fn drop(&mut self) {
        // A test that failed half-way leaves no face behind; one that has ended is not affected.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
