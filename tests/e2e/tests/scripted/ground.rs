//! A private world for one test: a daemon of its own, one configuration file, and the scripted servers in it.
//!
//! Invariant: a ground is finished, which ends its daemon and proves that nothing is left.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use lspool_testkit::{
    Answer, Client, Harness, Journal, Launch, Profile, Received, ScenarioBuilder, ScriptedServer,
    binary, deadline, file_uri,
};
use serde_json::{Value, json};

/// How often something that another process does is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Leaving by itself, and soon: the idle times of a test that waits for them.
pub(super) const SHORT_IDLE: &str = "[idle]\ninstance_ms = 150\ndaemon_ms = 150\n";

/// A private world.
pub(super) struct Ground {
    harness: Harness,
    /// The project's root, its links resolved.
    pub(super) root: PathBuf,
    configuration: String,
}

/// How a command ended and what it wrote.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Ground {
    /// A world whose daemon has this configuration.
    pub(super) fn with(configuration: &str) -> Self {
        let harness = Harness::new().unwrap();
        let folder = harness.work_folder();
        std::fs::write(folder.join("toy.root"), "").unwrap();
        let root = folder.canonicalize().unwrap();
        let mut ground = Self {
            harness,
            root,
            configuration: String::new(),
        };
        ground.configure(configuration);
        ground
    }

    /// A world whose daemon has the default configuration.
    pub(super) fn new() -> Self {
        Self::with("")
    }

    /// Adds to the configuration, which a daemon reads when it starts.
    pub(super) fn configure(&mut self, text: &str) {
        self.configuration.push_str(text);
        self.harness
            .write("config/lspool/config.toml", &self.configuration)
            .unwrap();
    }

    /// A scripted server of this scenario.
    pub(super) fn server(&self, scenario: &ScenarioBuilder) -> ScriptedServer {
        self.named_server("server", scenario)
    }

    /// One of several scripted servers.
    pub(super) fn named_server(&self, name: &str, scenario: &ScenarioBuilder) -> ScriptedServer {
        self.harness.scripted_server(name, scenario).unwrap()
    }

    /// Makes a server known for files that end in `.toy`, so that queries find it; `more` are further keys of its
    /// definition.
    pub(super) fn define(&mut self, server: &ScriptedServer, more: &str) {
        self.define_command(&server.argv(), more);
    }

    /// Like [`Ground::define`], with a command line.
    pub(super) fn define_command(&mut self, command: &[OsString], more: &str) {
        let words: Vec<&str> = command.iter().map(|word| word.to_str().unwrap()).collect();
        let definition = format!(
            "[[server]]\nid = \"toy\"\ncommands = [{}]\nlanguages = [{{ id = \"toy\", extensions = [\"toy\"] }}]\n\
             root_markers = [{{ markers = [\"toy.root\"] }}]\n{more}\n",
            json!(words)
        );
        self.configure(&definition);
    }

    /// Writes a file of the project and gives its URI.
    pub(super) fn file(&self, name: &str, text: &str) -> String {
        let path = self.root.join(name);
        std::fs::write(&path, text).unwrap();
        file_uri(&path)
    }

    /// A file beside all others of the test, under a name of its own.
    pub(super) fn flag(&self, name: &str) -> PathBuf {
        self.harness.path().join(name)
    }

    /// An lspool command in the project's root.
    pub(super) fn lspool<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Launch {
        self.harness
            .launch(binary("lspool").unwrap())
            .args(arguments)
            .current_dir(&self.root)
    }

    /// The command of an editor that has this server behind lspool.
    pub(super) fn editor_command(&self, server: &ScriptedServer) -> Launch {
        self.lspool(["--"]).args(server.argv())
    }

    /// An editor before its `initialize`.
    pub(super) fn started(&self, server: &ScriptedServer) -> Client {
        Client::start(&self.editor_command(server)).unwrap()
    }

    /// An editor in its session.
    pub(super) fn editor(&self, server: &ScriptedServer) -> Client {
        self.editor_as(server, &Profile::neovim())
    }

    /// An editor of this profile in its session.
    pub(super) fn editor_as(&self, server: &ScriptedServer, profile: &Profile) -> Client {
        let editor = self.started(server);
        editor.initialize(profile, &self.root).unwrap();
        editor
    }

    /// An agent harness in its session.
    pub(super) fn agent(&self) -> Client {
        let agent = Client::start(&self.lspool(["connect"])).unwrap();
        agent.initialize(&Profile::bare(), &self.root).unwrap();
        agent
    }

    /// Runs an lspool command to its end.
    pub(super) fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Finished {
        run_to_end(&self.lspool(arguments))
    }

    /// What the running daemon says of itself.
    pub(super) fn status(&self) -> Value {
        let finished = self.run(["status", "--json"]);
        assert_eq!(finished.code, Some(0), "{finished:?}");
        serde_json::from_str(&finished.stdout).unwrap()
    }

    /// The instances of the running daemon.
    pub(super) fn instances(&self) -> Vec<Value> {
        self.status()["instances"].as_array().unwrap().clone()
    }

    /// The process id of the running daemon.
    pub(super) fn daemon(&self) -> i32 {
        process_id(&self.status()["daemon"]["pid"])
    }

    /// The live processes of this test.
    pub(super) fn processes(&self) -> Vec<i32> {
        self.harness.oracle().processes()
    }

    /// Proves that nothing is left, without telling anybody to leave.
    pub(super) fn finish_alone(self) {
        self.harness.finish();
    }

    /// Ends the daemon and proves that nothing is left.
    pub(super) fn finish(self) {
        let stopped = self.run(["stop", "--force"]);
        assert_eq!(stopped.code, Some(0), "{stopped:?}");
        self.harness.finish();
    }
}

/// The process id that a status names.
pub(super) fn process_id(value: &Value) -> i32 {
    i32::try_from(value.as_i64().unwrap()).unwrap()
}

/// Runs a program to its end.
pub(super) fn run_to_end(launch: &Launch) -> Finished {
    let child = Command::new(&launch.argv[0])
        .args(&launch.argv[1..])
        .current_dir(&launch.cwd)
        .env_clear()
        .envs(launch.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (ended, end) = mpsc::channel();
    std::thread::spawn(move || ended.send(child.wait_with_output()));
    // A daemon that keeps the pipes open would be found here.
    let output = end
        .recv_timeout(deadline())
        .unwrap_or_else(|_| panic!("{:?} does not end", launch.argv))
        .unwrap();
    Finished {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Sends SIGKILL to a process that the test started. The shell's own `kill` is everywhere.
pub(super) fn kill(pid: i32) {
    let status = Command::new("sh")
        .args(["-c", &format!("kill -KILL {pid}")])
        .status()
        .unwrap();
    assert!(status.success(), "process {pid} could not be killed");
}

/// Waits for something that another process does.
pub(super) fn eventually<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    within(deadline(), what, look)
}

/// Waits for something that must happen in this time.
pub(super) fn within<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what}: not within {limit:?}");
        std::thread::park_timeout(POLL_INTERVAL);
    }
}

/// Waits for something that must happen within so many looks, each at least [`POLL_INTERVAL`] after the one before.
pub(super) fn within_looks<T>(looks: u32, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..looks {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    panic!("{what}: not within {looks} looks");
}

/// Whether a process is there and no zombie.
pub(super) fn is_alive(pid: i32) -> bool {
    std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"))
        .ok()
        .and_then(|line| Some(!line.rsplit_once(") ")?.1.starts_with(['Z', 'X'])))
        .unwrap_or(false)
}

/// The capabilities that the first server of a journal was told. The scenario must journal long params.
pub(super) fn capabilities_told(journal: &Journal) -> Value {
    let messages = journal.wait_for_received("initialize", 1).unwrap();
    let params: Value = serde_json::from_str(messages[0].params.as_ref().unwrap()).unwrap();
    params["capabilities"].clone()
}

/// A well-behaved server that journals params of any length.
pub(super) fn well_behaved() -> ScenarioBuilder {
    ScenarioBuilder::new().with(|scenario| scenario.journal.hash_over_bytes = 1 << 20)
}

/// Whether a message publishes diagnostics for this document, with so many of them.
pub(super) fn publishes(message: &Received, uri: &str, count: usize) -> bool {
    if message.method.as_deref() != Some("textDocument/publishDiagnostics") {
        return false;
    }
    let params: Value = message.params().unwrap();
    params["uri"] == uri && params["diagnostics"].as_array().unwrap().len() == count
}

/// The `code` in an error's data.
pub(super) fn code_of(answer: &Answer) -> String {
    let error = error_of(answer);
    error["data"]["code"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// The most memory that a process has had, in bytes.
pub(super) fn high_water(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    kilobytes * 1024
}

/// The error of an answer.
pub(super) fn error_of(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.error_raw().unwrap()).unwrap()
}
