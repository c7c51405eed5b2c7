//! A project laid out for one test, with the environment and the programs that it needs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use lspool_e2e::answer_key::{AnswerKey, Question};
use lspool_testkit::{Client, Harness, Launch, binary, file_uri};
use xtask::projects::Project;

/// How long one command may take: a question to a cold daemon has a minute for the boot and one for the answer.
const COMMAND_LIMIT: Duration = Duration::from_secs(150);

/// How often a command that runs is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A cold daemon in a private world, beside a fresh copy of a project.
pub(super) struct Stage {
    harness: Harness,
    /// The project's root, its links resolved.
    pub(super) root: PathBuf,
    /// What is asked about the project.
    pub(super) key: AnswerKey,
    project: Project,
}

/// How a command ended and what it wrote.
pub(super) struct Finished {
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Stage {
    /// Lays out a project whose answers are known.
    pub(super) fn of(project: Project) -> Self {
        let tool = project.tool();
        assert!(
            tool.is_installed(),
            "{} is missing: run `cargo xtask setup`",
            tool.name()
        );
        let key = AnswerKey::load(project).expect("the answer key is read");
        let harness = Harness::new().expect("a private world");
        let folder = harness.work_folder().join(project.name());
        project.lay_out(&folder).expect("the project is laid out");
        let root = folder.canonicalize().expect("the project has a path");
        Self {
            harness,
            root,
            key,
            project,
        }
    }

    /// An lspool command in the project's root.
    pub(super) fn lspool<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Launch {
        let program = binary("lspool").expect("lspool is built");
        let launch = self
            .harness
            .launch(program)
            .args(arguments)
            .env("PATH", xtask::tools::search_path())
            .current_dir(&self.root);
        if self.project.tool().leaves_temporary_files() {
            launch.env("TMPDIR", self.harness.home())
        } else {
            launch
        }
    }

    /// Starts a client that talks to lspool in the place of the project's server, as an editor does.
    pub(super) fn editor(&self) -> Client {
        let arguments = self.key.server.command.iter().skip(1).map(String::as_str);
        let line = ["--", self.project.tool().name()]
            .into_iter()
            .chain(arguments);
        Client::start(&self.lspool(line)).expect("lspool starts")
    }

    /// Starts a client without a server of its own, as an agent harness does.
    pub(super) fn agent(&self) -> Client {
        Client::start(&self.lspool(["connect"])).expect("lspool starts")
    }

    /// Runs an lspool command to its end.
    pub(super) fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Finished {
        run_to_end(&self.lspool(arguments), self.harness.path())
    }

    /// The URI of a file of the project.
    pub(super) fn uri(&self, file: &str) -> String {
        file_uri(&self.root.join(file))
    }

    /// The text of a file of the project.
    pub(super) fn text(&self, file: &str) -> String {
        let path = self.root.join(file);
        std::fs::read_to_string(&path)
            .unwrap_or_else(|failure| panic!("{}: {failure}", path.display()))
    }

    /// The name of a question for messages.
    pub(super) fn name_of(&self, question: &Question) -> String {
        format!("{} {}", self.project.name(), question.id)
    }

    /// Ends the daemon and proves that nothing is left.
    pub(super) fn finish(self) {
        let stopped = self.run(["stop", "--force"]);
        assert_eq!(stopped.code, Some(0), "lspool stop: {}", stopped.stderr);
        self.harness.finish();
    }
}

/// Runs a program with its output in files, so that a daemon that it starts and leaves holds no pipe of the test's.
fn run_to_end(launch: &Launch, folder: &Path) -> Finished {
    let (stdout, stderr) = (folder.join("command.stdout"), folder.join("command.stderr"));
    let create = |path: &Path| std::fs::File::create(path).expect("an output file");
    let mut child = std::process::Command::new(&launch.argv[0])
        .args(&launch.argv[1..])
        .current_dir(&launch.cwd)
        .env_clear()
        .envs(launch.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(create(&stdout))
        .stderr(create(&stderr))
        .spawn()
        .expect("the program starts");
    let end = Instant::now() + COMMAND_LIMIT;
    let status = loop {
        if let Some(status) = child.try_wait().expect("the program is awaited") {
            break Some(status);
        }
        if Instant::now() >= end {
            child.kill().expect("the program is killed");
            child.wait().expect("the program is awaited");
            break None;
        }
        std::thread::park_timeout(POLL_INTERVAL);
    };
    let read = |path: &Path| {
        String::from_utf8_lossy(&std::fs::read(path).expect("an output file")).into_owned()
    };
    let stderr = match status {
        Some(_) => read(&stderr),
        None => format!(
            "no end after {COMMAND_LIMIT:?}: {:?}\n{}",
            launch.argv,
            read(&stderr)
        ),
    };
    Finished {
        code: status.and_then(|status| status.code()),
        stdout: read(&stdout),
        stderr,
    }
}
