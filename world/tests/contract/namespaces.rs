//! What can be shown only in namespaces of a test's own: process ids that are handed out again, and a process table that
//! cannot be read. Each test runs itself a second time there, where it can say which id comes next, so that a stranger
//! gets the id of a process that ended.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use lspool_world::local::{ProcessEntry, ProcessIdentity};
use lspool_world::{OutputMode, OutputStream, ProcessHandle, StdinMode};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};

use crate::fixture::{Fixture, LocalFixture};
use crate::grouped::GroupedFixture;
use crate::oracle::eventually;

/// Says that this is the second run.
const INSIDE: &str = "WORLD_CONTRACT_OWN_IDS";

/// How often a stranger is started until it gets the wanted id: another one may be started in between.
const TRIES: usize = 1_000;

/// A process of this test's own, of no tree, which leads its own group. Any signal but SIGCONT would end or stop it.
struct Stranger(Child);

impl Stranger {
    /// One that has the id of a process that ended, and that started at another time.
    fn in_place_of(old: ProcessIdentity) -> Self {
        for _ in 0..TRIES {
            fs::write("/proc/sys/kernel/ns_last_pid", (old.pid - 1).to_string()).unwrap();
            let mut command = Command::new("/bin/sleep");
            let child = command.arg("1000").process_group(0).spawn().unwrap();
            let mut stranger = Self(child);
            let entry = ProcessEntry::read(stranger.0.id()).unwrap();
            if entry.identity.pid == old.pid && entry.identity.start != old.start {
                return stranger;
            }
            stranger.end();
        }
        panic!("no stranger got the id {}", old.pid);
    }

    /// Whether it runs, and is not stopped.
    fn is_untouched(&mut self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let state = status
            .lines()
            .find_map(|line| line.strip_prefix("State:\t"));
        self.0.try_wait().unwrap().is_none() && !state.unwrap().starts_with(['T', 't', 'Z', 'X'])
    }

    fn end(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

type Output = Lines<BufReader<lspool_world::subprocess::OutputPipe>>;

async fn started(fixture: &impl Fixture, script: &str) -> (Box<dyn ProcessHandle>, Output) {
    let mut spec = fixture.script(script);
    (spec.stdin, spec.stdout) = (StdinMode::Pipe, OutputMode::Pipe);
    let process = fixture.start(spec).await;
    let output = BufReader::new(process.take_stdout().unwrap()).lines();
    (process, output)
}

/// The id of a former member is a stranger's while the tree is ended.
async fn a_member_that_was_replaced_is_not_signalled(fixture: &impl Fixture) {
    let script =
        "exec 3<&0; setsid sh -c 'echo $$; read line <&3' & wait $!; echo reaped; exec sleep 1000";
    let (process, mut output) = started(fixture, script).await;
    let member: u32 = output.next_line().await.unwrap().unwrap().parse().unwrap();
    // given a member that was seen as one
    let member = ProcessEntry::read(member).unwrap().identity;
    assert!(process.usage().await.unwrap().processes >= 2);

    // when it ends and its id goes to a stranger
    let mut stdin = process.take_stdin().unwrap();
    stdin.write_all(b"\n").await.unwrap();
    assert_eq!(output.next_line().await.unwrap().unwrap(), "reaped");
    let mut stranger = Stranger::in_place_of(member);

    // then neither looks nor the end reach the stranger
    assert_eq!(process.usage().await.unwrap().processes, 1);
    process.terminate().await.unwrap();
    assert!(stranger.is_untouched());
    stranger.end();
}

/// The id of a tree's root is a stranger's after the tree's end, and that of its group too.
async fn a_root_that_was_replaced_is_not_signalled(fixture: &impl Fixture) {
    let (process, mut output) = started(fixture, "echo ready; exec sleep 1000").await;
    assert_eq!(output.next_line().await.unwrap().unwrap(), "ready");
    let root = ProcessEntry::read(process.pid().unwrap()).unwrap().identity;
    let facts = process.terminate().await.unwrap();

    let mut stranger = Stranger::in_place_of(root);

    assert_eq!(process.terminate().await.unwrap(), facts);
    process.wait_for_exit().await.unwrap();
    assert_eq!(process.usage().await, None);
    drop(process);
    fixture.world().subprocess().shutdown().await.unwrap();
    assert!(stranger.is_untouched());
    stranger.end();
}

/// The leader of a tree has exited; its id is not handed out while a member is left.
async fn the_id_of_an_ended_root_is_kept(fixture: &impl Fixture) {
    let script = "setsid sleep 1000 >/dev/null 2>&1 & exit 0";
    let (process, _output) = started(fixture, script).await;
    process.done().await;
    let root = process.pid().unwrap();

    for _ in 0..10 {
        fs::write("/proc/sys/kernel/ns_last_pid", (root - 1).to_string()).unwrap();
        let mut stranger = Stranger(Command::new("/bin/sleep").arg("1000").spawn().unwrap());
        assert_ne!(stranger.0.id(), root);
        stranger.end();
    }

    process.terminate().await.unwrap();
    eventually("the reaping of the root", async || !fixture.exists(root)).await;
}

async fn all(fixture: impl Fixture) {
    the_id_of_an_ended_root_is_kept(&fixture).await;
    a_member_that_was_replaced_is_not_signalled(&fixture).await;
    a_root_that_was_replaced_is_not_signalled(&fixture).await;
    fixture.close().await;
}

/// Whether this process has the right to make a namespace of process ids (capabilities(7): `CAP_SYS_ADMIN`), at once or in
/// a namespace of users that it may make.
fn may_make_namespaces() -> bool {
    const SYS_ADMIN: u32 = 21;
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = u64::from_str_radix(effective.unwrap().trim(), 16).unwrap();
    effective & (1 << SYS_ADMIN) != 0
}

/// Runs a test of this file a second time, after `setup`, in namespaces of its own, and holds that it passes there. Where no
/// namespace can be made, that is because this process has no right to make one.
async fn run_inside(test: &str, setup: &str) {
    let fixture = LocalFixture::open().await;
    let unshare = |more: &[&'static str], script: &str| {
        let mut argv = vec!["/usr/bin/unshare", "--pid", "--fork", "--mount-proc"];
        argv.extend(more);
        argv.extend(["/bin/sh", "-c", script]);
        fixture.command(&argv.into_iter().map(OsStr::new).collect::<Vec<_>>())
    };
    // The rights of this user, or those of a namespace of users.
    let mut rights = None;
    for more in [&[][..], &["--user", "--map-root-user"][..]] {
        let probe = unshare(more, "echo 100 >/proc/sys/kernel/ns_last_pid");
        let process = fixture.start(probe).await;
        if process.done().await.exit_code() == Some(0) {
            rights = Some(more);
            break;
        }
    }
    assert!(
        rights.is_some() || !may_make_namespaces(),
        "no namespace could be made by a process that has the right to make one"
    );
    if let Some(more) = rights {
        let own = std::env::current_exe().unwrap();
        // The shell stays as the first process of the namespace, whose signals have rules of their own.
        let script = format!(
            "{setup}'{}' --exact namespaces::{test} --nocapture; code=$?; exit $code",
            own.display()
        );
        let mut spec = unshare(more, &script);
        let entry = (INSIDE.into(), Some("1".into()));
        spec.launch.overrides.extend([entry]);
        let process = fixture.start(spec).await;
        let code = process.done().await.exit_code();

        let text = |which| process.tail(which).unwrap().text();
        let (output, errors) = (text(OutputStream::Stdout), text(OutputStream::Stderr));
        assert_eq!(code, Some(0), "{output}{errors}");
        assert!(output.contains("1 passed"), "{output}");
    }
    fixture.close().await;
}

fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_was_handed_out_again_is_never_signalled() {
    if is_inside() {
        all(LocalFixture::open().await).await;
        all(GroupedFixture::open().await).await;
    } else {
        run_inside("an_id_that_was_handed_out_again_is_never_signalled", "").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_cannot_be_read_proves_nothing() {
    if !is_inside() {
        let setup = "mount -t tmpfs none /proc || exit 99; ";
        return run_inside("a_table_that_cannot_be_read_proves_nothing", setup).await;
    }
    // given a machine without a process table, and a tree that started somebody
    let fixture = LocalFixture::open().await;
    let (process, mut output) = started(&fixture, "sleep 1000 & echo ready; wait").await;
    assert_eq!(output.next_line().await.unwrap().unwrap(), "ready");

    // when it is ended, then that is not called proved, and what can be reached is killed all the same
    let error = process.terminate().await.unwrap_err();
    assert_eq!(error.code(), "EXEC_UNPROVED");
    assert_eq!(process.done().await.signal(), Some(9));
    assert_eq!(output.next_line().await.unwrap(), None);
    let again = process.terminate().await.unwrap_err();
    assert_eq!(again.code(), "EXEC_UNPROVED");
    assert_eq!(process.usage().await, None);
}
