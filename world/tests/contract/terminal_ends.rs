//! The end of terminal sessions: the members first and the program last, whatever they do to stay.

use std::ffi::OsStr;

use lspool_world::{EndCause, ProcessOutcome};

use crate::fixture::{Fixture, LONG, SHORT};
use crate::oracle::eventually;
use crate::terminals::{Session, on_terminal};

const SIGHUP: i32 = 1;
const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

/// A process that stays until it is killed, in shell words that print `member` and its id.
const STAYS: &str = "sh -c 'trap \"\" HUP TERM; echo member $$; while :; do sleep 0.05; done'";

pub(crate) async fn the_program_ends_after_its_members(fixture: &impl Fixture) {
    // given a member that takes its time to end, and a program that would end at once
    let script = "sh -c 'trap \"echo told; while [ ! -e leave ]; do sleep 0.01; done; echo member ends; exit\" TERM; \
        echo member $$; while :; do sleep 0.01; done' & \
        trap 'echo program ends; exit 5' TERM; while :; do sleep 0.01; done";
    let mut session = Session::open(fixture, on_terminal(fixture, script)).await;
    let member = session.number("member").await;
    let terminal = session.terminal.clone();

    // when it is ended twice at a time
    let (one, other, printed) = tokio::join!(terminal.terminate(), terminal.terminate(), async {
        session.until("told\r\n").await;
        fixture.put("leave", b"");
        session.rest().await
    });

    // then the program is told only once the member is gone; a shell may tell that its own `sleep` was terminated
    let printed = String::from_utf8(printed).unwrap();
    let ends: Vec<&str> = printed
        .lines()
        .filter(|line| *line != "Terminated")
        .collect();
    assert_eq!(ends, ["member ends", "program ends"]);
    let facts = one.unwrap();
    assert_eq!(
        (facts.outcome, facts.cause),
        (Some(ProcessOutcome::Exited(5)), EndCause::Terminated)
    );
    assert_eq!(other, Ok(facts));
    assert_eq!(terminal.terminate().await, Ok(facts));
    assert!(!fixture.runs(member));
}

pub(crate) async fn what_a_program_leaves_behind_is_ended(fixture: &impl Fixture) {
    // given a program that ends and leaves members in its group, in a group and in a session of their own
    let script = "sleep 1000 & echo one $!; set -m; sleep 1000 & echo two $!; \
        setsid sh -c 'echo three $$; exec sleep 1000' & while [ ! -e leave ]; do sleep 0.01; done; exit 4";
    let mut session = Session::open(fixture, on_terminal(fixture, script)).await;
    let mut members = Vec::new();
    for name in ["one", "two", "three"] {
        members.push(session.number(name).await);
    }

    fixture.put("leave", b"");

    // then they go too, without being asked for
    assert_eq!(session.terminal.done().await.exit_code(), Some(4));
    for member in members {
        eventually("a member is ended", async || !fixture.runs(member)).await;
    }
    let facts = session.terminal.terminate().await.unwrap();
    assert_eq!(
        (facts.exit_code(), facts.cause),
        (Some(4), EndCause::Unasked)
    );
    assert!(!fixture.exists(session.terminal.pid().unwrap()));
}

pub(crate) async fn nothing_escapes_from_a_session(fixture: &impl Fixture) {
    // given members that ignore signals, leave the session, are stopped, or are a shell's disowned jobs
    for script in [
        format!("{STAYS} & wait"),
        format!("nohup {STAYS} 2>/dev/null | cat & wait"),
        format!("setsid {STAYS} & wait"),
        format!("(setsid {STAYS} &); exec sleep 1000"),
        format!("set -m; {STAYS} & fg; sleep 1000"),
        "sh -c 'echo member $$; kill -STOP $$' & wait".to_owned(),
        "set -m; (echo member $(sh -c 'echo $PPID'); exec sleep 1000) & exec sleep 1000".to_owned(),
    ] {
        let mut spec = on_terminal(fixture, &script);
        spec.grace = SHORT;
        let mut session = Session::open(fixture, spec).await;
        let member = session.number("member").await;

        session.terminal.terminate().await.unwrap();

        assert!(!fixture.runs(member), "{script}");
    }
}

pub(crate) async fn a_program_that_ignores_its_end_is_killed(fixture: &impl Fixture) {
    let script = "trap '' TERM HUP; echo ready; while :; do sleep 0.01; done";
    let session = Session::ready(fixture, script, SHORT).await;

    let facts = session.terminal.terminate().await.unwrap();

    assert_eq!(facts.outcome, Some(ProcessOutcome::Signaled(SIGKILL)));
}

pub(crate) async fn what_a_program_starts_while_it_ends_is_swept(fixture: &impl Fixture) {
    let script = format!(
        "trap '{} & wait' TERM; echo ready; while :; do sleep 0.01; done",
        STAYS.replace('\'', "'\\''")
    );
    let mut session = Session::ready(fixture, &script, SHORT).await;

    session.terminal.terminate().await.unwrap();

    let member = session.number("member").await;
    assert!(!fixture.runs(member));
}

pub(crate) async fn who_was_seen_once_is_ended_also_when_it_left(fixture: &impl Fixture) {
    // given a process with another environment and session, seen while its parent was there
    let script = "sh -c 'env -i /usr/bin/setsid sh -c \"echo member \\$\\$; exec sleep 1000\" & \
        while [ ! -e leave ]; do sleep 0.01; done'; echo left; exec sleep 1000";
    let mut session = Session::open(fixture, on_terminal(fixture, script)).await;
    let member = session.number("member").await;
    session.terminal.inspect_foreground().await.unwrap();
    fixture.put("leave", b"");
    session.until("left\r\n").await;
    assert!(fixture.runs(member));

    session.terminal.terminate().await.unwrap();

    assert!(!fixture.runs(member));
}

pub(crate) async fn an_interactive_shell_ends_at_once_with_its_jobs(fixture: &impl Fixture) {
    // given an interactive shell, which ignores SIGTERM, with jobs in groups of their own
    let subprocess = fixture.world().subprocess();
    let mut spec = on_terminal(fixture, "");
    let search = &spec.launch.environment;
    let shell = subprocess
        .resolve_executable(OsStr::new("bash"), search, fixture.scratch())
        .await
        .unwrap();
    spec.launch.argv = [shell.as_os_str(), OsStr::new("--norc"), OsStr::new("-i")]
        .map(OsStr::to_os_string)
        .to_vec();
    let mut session = Session::open(fixture, spec).await;
    session
        .type_line("stty -echo; PS1=; sleep 1000 & sleep 1000 & disown; echo $((40 + 2)) done")
        .await;
    session.until("42 done\r\n").await;
    session.type_line("echo job $!").await;
    let job = session.number("job").await;

    // when it is ended with a grace that no test waits for
    let facts = session.terminal.terminate().await.unwrap();

    assert_eq!(facts.outcome, Some(ProcessOutcome::Signaled(SIGHUP)));
    assert!(!fixture.runs(job));
}

pub(crate) async fn a_dropped_terminal_ends_its_session(fixture: &impl Fixture) {
    let script = format!("{STAYS} & exec sleep 1000");
    let mut spec = on_terminal(fixture, &script);
    spec.grace = SHORT;
    let mut session = Session::open(fixture, spec).await;
    let member = session.number("member").await;
    let program = session.terminal.pid().unwrap();

    drop(session);

    eventually("the session is gone", async || {
        !fixture.runs(member) && !fixture.exists(program)
    })
    .await;
}

pub(crate) async fn a_shutdown_ends_terminals_and_opens_no_more(fixture: &impl Fixture) {
    let one = Session::ready(fixture, "echo ready; exec sleep 1000", LONG).await;
    let other = Session::ready(fixture, "echo ready; exec cat", LONG).await;
    let subprocess = fixture.world().subprocess();

    subprocess.shutdown().await.unwrap();

    for session in [one, other] {
        let facts = session.terminal.done().await;
        assert_eq!(
            (facts.outcome, facts.cause),
            (Some(ProcessOutcome::Signaled(SIGTERM)), EndCause::Shutdown)
        );
        assert_eq!(
            session.terminal.write(b"x").await.unwrap_err().code(),
            "TERMINAL_CLOSING"
        );
        assert!(!fixture.exists(session.terminal.pid().unwrap()));
    }
    let refused = subprocess
        .spawn_terminal(on_terminal(fixture, "exit 0"))
        .await;
    assert_eq!(refused.err().unwrap().code(), "WORLD_DISPOSED");
}

pub(crate) async fn an_ended_terminal_is_no_longer_owned(fixture: &impl Fixture) {
    // given a terminal whose program has ended and left nothing, and its marker
    let spec = on_terminal(fixture, "exit 0");
    let mut again = on_terminal(fixture, "exit 0");
    again.launch.marker.clone_from(&spec.launch.marker);
    let session = Session::open(fixture, spec).await;
    session.terminal.done().await;

    // then it is given up without being asked for, which frees the marker
    let subprocess = fixture.world().subprocess();
    eventually("the marker is free", async || {
        subprocess.spawn_terminal(again.clone()).await.is_ok()
    })
    .await;
    assert_eq!(session.terminal.usage().await, None);
}

each_provider!([
    the_program_ends_after_its_members,
    what_a_program_leaves_behind_is_ended,
    nothing_escapes_from_a_session,
    a_program_that_ignores_its_end_is_killed,
    what_a_program_starts_while_it_ends_is_swept,
    who_was_seen_once_is_ended_also_when_it_left,
    an_interactive_shell_ends_at_once_with_its_jobs,
    a_dropped_terminal_ends_its_session,
    a_shutdown_ends_terminals_and_opens_no_more,
    an_ended_terminal_is_no_longer_owned,
]);
