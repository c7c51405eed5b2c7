//! Process trees that do what they can to outlive their end. What cannot be held is asserted as what the provider's facts
//! say, and ended by the test itself.

use std::ffi::OsStr;
use std::time::Duration;

use lspool_world::local::ProcessEntry;
use lspool_world::subprocess::Containment;
use lspool_world::{OutputMode, OutputStream, ProcessHandle, ProcessOutcome, StdinMode};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::fixture::{Fixture, LONG, SHORT, first_lines};
use crate::oracle::eventually;

const SIGTERM: i32 = 15;

fn pid(line: &str) -> u32 {
    line.trim().parse().unwrap()
}

fn containment(fixture: &impl Fixture) -> Containment {
    fixture.world().subprocess().facts().containment
}

/// Starts a Python program with a piped standard output and gives its first lines with the handle.
async fn python(
    fixture: &impl Fixture,
    program: &str,
    grace: Duration,
    lines: usize,
) -> (Box<dyn ProcessHandle>, Vec<String>) {
    let argv = ["/usr/bin/env", "python3", "-c", program].map(OsStr::new);
    let mut spec = fixture.command(&argv);
    spec.stdout = OutputMode::Pipe;
    spec.grace = grace;
    let process = fixture.start(spec).await;
    let printed = first_lines(&*process, lines).await;
    (process, printed)
}

/// Ends a process that got away, so that it outlives no test.
async fn catch(fixture: &impl Fixture, pid: u32) {
    assert!(fixture.runs(pid), "it did not get away");
    ProcessEntry::read(pid).unwrap().identity.kill();
    eventually("the end of a process that got away", async || {
        !fixture.runs(pid)
    })
    .await;
}

pub(crate) async fn what_breaks_every_tie_is_held_by_a_control_group_alone(fixture: &impl Fixture) {
    // given a process of another session whose parents ended before anybody looked, and whose environment is empty
    let script = "(env -i \"$(command -v setsid)\" /bin/sh -c 'echo $$; exec /bin/sleep 1000' &)
        echo ready; exec sleep 1000";
    // What gets away holds the collected output too, for as long as the grace.
    let (process, lines) = fixture.started(script, SHORT, 2).await;
    let escaped = pid(lines.iter().find(|line| *line != "ready").unwrap());

    process.terminate().await.unwrap();

    match containment(fixture) {
        Containment::ControlGroup => assert!(!fixture.runs(escaped)),
        Containment::ProcessTable | Containment::Group => catch(fixture, escaped).await,
    }
}

pub(crate) async fn who_was_seen_once_is_held_for_good(fixture: &impl Fixture) {
    // given a process of another session with an empty environment, whose parent is still there
    let script = "exec 3<&0
        sh -c 'env -i \"$(command -v setsid)\" /bin/sh -c \"echo \\$\\$; exec /bin/sleep 1000\" & read line <&3'
        echo left; exec sleep 1000";
    let mut spec = fixture.script(script);
    (spec.stdin, spec.stdout) = (StdinMode::Pipe, OutputMode::Pipe);
    let process = fixture.start(spec).await;
    let mut lines = BufReader::new(process.take_stdout().unwrap()).lines();
    let seen = pid(&lines.next_line().await.unwrap().unwrap());

    // when somebody looks at the tree, and then the parent ends
    assert!(process.usage().await.unwrap().processes >= 2);
    let mut stdin = process.take_stdin().unwrap();
    stdin.write_all(b"\n").await.unwrap();
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "left");

    // then it is still ended with the tree
    process.terminate().await.unwrap();
    assert!(!fixture.runs(seen));
}

pub(crate) async fn a_storm_of_forks_is_ended(fixture: &impl Fixture) {
    // given processes each of which starts another at every SIGTERM, at most 200, every other one in its own session
    let program = "
import os, signal, sys
tokens, fill = os.pipe()
os.write(fill, b'x' * 200)
os.close(fill)
def more(*_):
    if os.read(tokens, 1) and os.fork() == 0 and os.getpid() % 2:
        os.setsid()
signal.signal(signal.SIGTERM, more)
for _ in range(4):
    if os.fork() == 0:
        break
else:
    print('ready', flush=True)
while True:
    signal.pause()
";
    let (process, _) = python(fixture, program, SHORT, 1).await;

    let facts = process.terminate().await.unwrap();

    assert!(matches!(facts.outcome, Some(ProcessOutcome::Signaled(_))));
    assert_eq!(fixture.left_running(), Vec::<u32>::new());
}

pub(crate) async fn a_grandchild_that_holds_the_output_delays_nobody(fixture: &impl Fixture) {
    // given a leader that exits while a process of another session holds its collected output
    let mut spec = fixture.script("setsid sh -c 'echo $$; exec sleep 1000' & sleep 0.2; exit 3");
    spec.grace = SHORT;
    let process = fixture.start(spec).await;

    // when its exit is waited for, then that comes while the output is still held
    let facts = tokio::time::timeout(LONG, process.done()).await.unwrap();
    assert_eq!(facts.exit_code(), Some(3));
    let holder = pid(&process.tail(OutputStream::Stdout).unwrap().text());
    assert!(fixture.runs(holder));

    // and an end does not wait for the output either
    let ended = tokio::time::timeout(LONG, process.terminate()).await;
    assert_eq!(ended.unwrap().unwrap(), facts);
    assert!(!fixture.runs(holder));
}

pub(crate) async fn who_got_away_with_the_output_delays_nobody(fixture: &impl Fixture) {
    // given a process that holds the collected output and that may not be found
    let script = "(env -i \"$(command -v setsid)\" /bin/sh -c 'echo $$; exec /bin/sleep 1000' &)
        exec sleep 1000";
    let mut spec = fixture.script(script);
    spec.grace = SHORT;
    let process = fixture.start(spec).await;
    let printed = || process.tail(OutputStream::Stdout).unwrap().text();
    eventually("the line of the grandchild", async || {
        printed().ends_with('\n')
    })
    .await;
    let escaped = pid(&printed());

    let ended = tokio::time::timeout(LONG, process.terminate()).await;

    assert_eq!(ended.unwrap().unwrap().signal(), Some(SIGTERM));
    if fixture.runs(escaped) {
        assert_ne!(containment(fixture), Containment::ControlGroup);
        catch(fixture, escaped).await;
    }
}

pub(crate) async fn stopped_members_end_by_sigterm(fixture: &impl Fixture) {
    // given members that stand still, one of another session, which print when they are continued
    let script = "member='trap \"echo continued; exit\" TERM; echo $$; kill -STOP $$; sleep 1000'
        sh -c \"$member\" & setsid sh -c \"$member\" & wait; wait";
    let mut spec = fixture.script(script);
    spec.stdout = OutputMode::Pipe;
    let process = fixture.start(spec).await;
    let mut lines = BufReader::new(process.take_stdout().unwrap()).lines();
    let mut members = Vec::new();
    for _ in 0..2 {
        members.push(pid(&lines.next_line().await.unwrap().unwrap()));
    }

    process.terminate().await.unwrap();

    for member in members {
        assert!(!fixture.runs(member));
    }
    // then each acted on SIGTERM within the grace, which no test waits out
    for _ in 0..2 {
        assert_eq!(lines.next_line().await.unwrap().unwrap(), "continued");
    }
}

pub(crate) async fn a_member_in_a_deleted_folder_is_ended(fixture: &impl Fixture) {
    fixture.folder("gone/deeper");
    let script = "cd gone/deeper
        (setsid sh -c 'trap \"\" TERM; rmdir ../deeper; rmdir ../../gone 2>/dev/null || rmdir \"$OLDPWD/gone\"
            echo $$; while :; do sleep 0.05; done' &)
        exec sleep 1000";
    let (process, lines) = fixture.started(script, SHORT, 1).await;
    assert!(!fixture.scratch().join("gone").exists());

    process.terminate().await.unwrap();

    assert!(!fixture.runs(pid(&lines[0])));
}

pub(crate) async fn a_member_that_keeps_changing_its_session_is_ended(fixture: &impl Fixture) {
    // given a process that ignores SIGTERM and goes on as a child of itself in another session, at most 200 times
    let program = "
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork():
    print('ready', flush=True)
    while True:
        signal.pause()
for _ in range(200):
    if os.fork():
        os._exit(0)
    os.setsid()
    time.sleep(0.02)
while True:
    signal.pause()
";
    let (process, _) = python(fixture, program, SHORT, 1).await;

    process.terminate().await.unwrap();

    assert_eq!(fixture.left_running(), Vec::<u32>::new());
}

pub(crate) async fn a_member_whose_environment_is_hidden_is_held_where_it_can_be_told(
    fixture: &impl Fixture,
) {
    // given a process that forbids to be inspected (PR_SET_DUMPABLE) and broke every tie but its environment
    let program = "
import ctypes, os, signal
report, done = os.pipe()
if os.fork() == 0:
    if os.fork():
        os._exit(0)
    os.setsid()
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
    os.write(done, b'x')
    print(os.getpid(), flush=True)
    while True:
        signal.pause()
os.wait()
os.read(report, 1)
print('ready', flush=True)
while True:
    signal.pause()
";
    let (process, lines) = python(fixture, program, SHORT, 2).await;
    let hidden = pid(lines.iter().find(|line| *line != "ready").unwrap());
    let is_readable = std::fs::read(format!("/proc/{hidden}/environ")).is_ok();

    process.terminate().await.unwrap();

    if is_readable || containment(fixture) == Containment::ControlGroup {
        assert!(!fixture.runs(hidden));
    } else {
        catch(fixture, hidden).await;
    }
}

pub(crate) async fn what_a_tree_uses_is_told_while_it_runs(fixture: &impl Fixture) {
    const MEMORY: u64 = 64 << 20;
    assert!(fixture.world().subprocess().facts().usage);
    // given a tree with a member that holds memory and has used its processor for a while
    let program = "
import os, signal, time
if os.fork() == 0:
    held = bytearray(64 << 20)
    for page in range(0, len(held), 4096):
        held[page] = 1
    while time.process_time() < 0.4:
        pass
    print('ready', flush=True)
while True:
    signal.pause()
";
    let (process, _) = python(fixture, program, LONG, 1).await;

    let usage = process.usage().await.unwrap();

    assert_eq!(usage.processes, 2);
    assert!(
        (MEMORY..4 * MEMORY).contains(&usage.memory_bytes),
        "{usage:?}"
    );
    assert!(usage.cpu >= Duration::from_millis(390), "{usage:?}");
    let is_whole = containment(fixture) == Containment::ControlGroup;
    assert_eq!(usage.cpu_is_whole, is_whole);
    process.terminate().await.unwrap();
    assert_eq!(process.usage().await, None);
}

pub(crate) async fn time_of_ended_orphans_is_told_where_it_can_be(fixture: &impl Fixture) {
    // given an orphan that used its processor and ended, so that nobody of the tree waited for it
    let program = "
import os, signal, time
report, done = os.pipe()
if os.fork() == 0:
    if os.fork():
        os._exit(0)
    while time.process_time() < 0.4:
        pass
    os._exit(0)
os.close(done)
os.wait()
os.read(report, 1)
print('ready', flush=True)
while True:
    signal.pause()
";
    let (process, _) = python(fixture, program, LONG, 1).await;
    eventually("the end of the orphan", async || {
        process.usage().await.unwrap().processes == 1
    })
    .await;

    let usage = process.usage().await.unwrap();

    // then a usage that calls itself whole has it
    assert_eq!(
        usage.cpu_is_whole,
        containment(fixture) == Containment::ControlGroup
    );
    if usage.cpu_is_whole {
        assert!(usage.cpu >= Duration::from_millis(390), "{usage:?}");
    }
    process.terminate().await.unwrap();
}

pub(crate) async fn a_wait_can_be_given_up_and_ends_with_the_last_member(fixture: &impl Fixture) {
    // given an exited leader, and a member of another session that ends when its input does
    let script = "exec 3<&0; setsid sh -c 'echo $$; read line <&3' & read line; exit 0";
    let mut spec = fixture.script(script);
    (spec.stdin, spec.stdout) = (StdinMode::Pipe, OutputMode::Pipe);
    let process = fixture.start(spec).await;
    let member = pid(&first_lines(&*process, 1).await[0]);
    let mut stdin = process.take_stdin().unwrap();
    let first = tokio::time::timeout(SHORT, process.wait_for_exit()).await;
    assert!(first.is_err());

    // when the input has one line for one of the two, then the tree is not gone
    stdin.write_all(b"\n").await.unwrap();
    let second = tokio::time::timeout(SHORT, process.wait_for_exit()).await;
    assert!(second.is_err());

    // when it ends for the other too, then every wait ends
    drop(stdin);
    let (one, other) = tokio::join!(process.wait_for_exit(), process.wait_for_exit());
    one.unwrap();
    other.unwrap();
    assert!(!fixture.runs(member));
    assert!(!fixture.exists(process.pid().unwrap()));
}

each_provider!(
    [
        what_breaks_every_tie_is_held_by_a_control_group_alone,
        who_was_seen_once_is_held_for_good,
        a_storm_of_forks_is_ended,
        a_grandchild_that_holds_the_output_delays_nobody,
        who_got_away_with_the_output_delays_nobody,
        stopped_members_end_by_sigterm,
        a_member_in_a_deleted_folder_is_ended,
        a_member_that_keeps_changing_its_session_is_ended,
        a_member_whose_environment_is_hidden_is_held_where_it_can_be_told,
        what_a_tree_uses_is_told_while_it_runs,
        time_of_ended_orphans_is_told_where_it_can_be,
        a_wait_can_be_given_up_and_ends_with_the_last_member,
    ],
    of_trees
);
