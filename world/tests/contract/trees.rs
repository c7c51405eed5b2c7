//! The end of process trees. Each script prints when it is where the test wants it, so nothing waits for a guessed time;
//! what is awaited without a bound here is bounded by the provider's own grace.

use std::time::Duration;

use lspool_world::{EndCause, OutputMode, ProcessOutcome, StdinMode, TerminateError, Transport};
use tokio::io::AsyncReadExt;

use crate::fixture::{Fixture, LONG, SHORT, first_lines};

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

fn pid(line: &str) -> u32 {
    line.trim().parse().unwrap()
}

pub(crate) async fn outcomes_are_told_apart(fixture: &impl Fixture) {
    for (script, outcome) in [
        ("exit 0", ProcessOutcome::Exited(0)),
        ("exit 42", ProcessOutcome::Exited(42)),
        ("kill -TERM $$", ProcessOutcome::Signaled(SIGTERM)),
        ("kill -KILL $$", ProcessOutcome::Signaled(SIGKILL)),
        ("kill -40 $$", ProcessOutcome::Signaled(40)),
    ] {
        let process = fixture.start(fixture.script(script)).await;

        let facts = process.done().await;

        assert_eq!(
            (facts.outcome, facts.transport),
            (Some(outcome), Transport::Observed),
            "{script}"
        );
        assert_eq!(facts.cause, EndCause::Unasked, "{script}");
        process.wait_for_exit().await.unwrap();
        assert!(
            !fixture.exists(process.pid().unwrap()),
            "a zombie was left by {script}"
        );
        assert_eq!(process.terminate().await.unwrap(), facts);
    }
}

pub(crate) async fn the_cause_is_told_apart_from_the_outcome(fixture: &impl Fixture) {
    let script = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done";
    let (process, _) = fixture.started(script, LONG, 1).await;

    let facts = process.terminate().await.unwrap();

    assert_eq!(
        (facts.outcome, facts.cause),
        (Some(ProcessOutcome::Exited(5)), EndCause::Terminated)
    );
    assert_eq!(process.done().await, facts);
}

pub(crate) async fn a_process_that_ignores_sigterm_is_killed(fixture: &impl Fixture) {
    let (process, _) = fixture
        .started(
            "trap '' TERM; echo ready; while :; do sleep 0.05; done",
            SHORT,
            1,
        )
        .await;

    let facts = process.terminate().await.unwrap();

    assert_eq!(facts.outcome, Some(ProcessOutcome::Signaled(SIGKILL)));
    assert!(!fixture.exists(process.pid().unwrap()));
}

pub(crate) async fn a_stopped_process_is_ended(fixture: &impl Fixture) {
    let (process, _) = fixture.started("echo ready; kill -STOP $$", LONG, 1).await;

    let facts = process.terminate().await.unwrap();

    assert_eq!(facts.outcome, Some(ProcessOutcome::Signaled(SIGTERM)));
}

pub(crate) async fn background_members_end_with_their_leader(fixture: &impl Fixture) {
    let script = "(trap '' TERM; sh -c 'echo $$; while :; do sleep 0.05; done') & sleep 1000 & echo $!; wait";
    let (process, lines) = fixture.started(script, SHORT, 2).await;

    process.terminate().await.unwrap();

    for line in lines {
        assert!(!fixture.runs(pid(&line)));
    }
}

pub(crate) async fn a_session_of_its_own_does_not_escape(fixture: &impl Fixture) {
    let script = "setsid sh -c 'echo $$; sleep 1000 & setsid sleep 1000 & wait' & wait";
    let (process, lines) = fixture.started(script, LONG, 1).await;

    process.terminate().await.unwrap();

    assert!(!fixture.runs(pid(&lines[0])));
}

pub(crate) async fn an_orphan_in_its_own_session_does_not_escape(fixture: &impl Fixture) {
    // given a process that was forked twice, so that neither group, session nor parents lead to it
    let script =
        "(setsid sh -c 'echo $$; trap \"\" TERM; while :; do sleep 0.05; done' &); exec sleep 1000";
    let (process, lines) = fixture.started(script, SHORT, 1).await;

    process.terminate().await.unwrap();

    assert!(!fixture.runs(pid(&lines[0])));
}

pub(crate) async fn survivors_of_the_leader_are_waited_for_and_ended(fixture: &impl Fixture) {
    // given a leader that exits and leaves a member of its group and one of another session
    let script = "trap '' TERM; sleep 1000 >/dev/null & echo $!; setsid sleep 1000 >/dev/null & echo $!; exit 4";
    let (process, lines) = fixture.started(script, SHORT, 2).await;
    let facts = process.done().await;
    assert_eq!(
        (facts.exit_code(), facts.cause),
        (Some(4), EndCause::Unasked)
    );

    // then the tree is not gone
    let wait = tokio::time::timeout(SHORT, process.wait_for_exit()).await;
    assert!(
        wait.is_err(),
        "the tree was called gone while members of it ran"
    );

    // and a termination ends them, which a waiter sees
    let (ended, waited) = tokio::join!(process.terminate(), process.wait_for_exit());
    assert_eq!(ended.unwrap(), facts);
    waited.unwrap();
    for line in lines {
        assert!(!fixture.runs(pid(&line)));
    }
    assert!(!fixture.exists(process.pid().unwrap()));
}

pub(crate) async fn survivors_that_end_by_themselves_are_noticed(fixture: &impl Fixture) {
    // given a leader that exits and leaves a member that reads the piped input
    let mut spec =
        fixture.script("exec 3<&0; sh -c 'echo $$; read line <&3' 2>/dev/null & exec >&2; exit 0");
    (spec.stdin, spec.stdout) = (StdinMode::Pipe, OutputMode::Pipe);
    let process = fixture.start(spec).await;
    let (stdin, survivor) = (
        process.take_stdin().unwrap(),
        first_lines(&*process, 1).await,
    );
    process.done().await;
    assert!(fixture.runs(pid(&survivor[0])));

    // when the input ends while someone waits for the tree
    let (waited, ()) = tokio::join!(process.wait_for_exit(), async { drop(stdin) });

    // then the tree is gone and the leader is reaped
    waited.unwrap();
    assert!(!fixture.runs(pid(&survivor[0])) && !fixture.exists(process.pid().unwrap()));
}

pub(crate) async fn a_maker_of_sessions_is_outrun(fixture: &impl Fixture) {
    // given a process that keeps starting processes in sessions of their own and ignores SIGTERM
    let script = "trap '' TERM; echo ready; while :; do setsid sleep 1000 & sleep 0.01; done";
    let (process, _) = fixture.started(script, SHORT, 1).await;

    // when it is ended, then the oracle of the fixture finds nothing
    process.terminate().await.unwrap();
}

pub(crate) async fn a_zombie_in_the_group_is_no_survivor(fixture: &impl Fixture) {
    // given a leader that never waits for its ended child
    let (process, lines) = fixture
        .started("sh -c 'exit 0' & echo $!; exec sleep 1000", LONG, 1)
        .await;
    while fixture.runs(pid(&lines[0])) {
        tokio::task::yield_now().await;
    }

    let facts = process.terminate().await.unwrap();

    assert_eq!(facts.outcome, Some(ProcessOutcome::Signaled(SIGTERM)));
}

pub(crate) async fn terminations_join_and_can_be_repeated(fixture: &impl Fixture) {
    let script = "trap 'echo term >&2' TERM; echo ready; while :; do sleep 0.01; done";
    let (process, _) = fixture.started(script, SHORT, 1).await;

    let (one, other) = tokio::join!(process.terminate(), process.terminate());

    assert_eq!(one, other);
    assert_eq!(process.terminate().await, one);
    let printed = process
        .tail(lspool_world::OutputStream::Stderr)
        .unwrap()
        .text();
    let signals = printed.lines().filter(|line| *line == "term").count();
    assert_eq!(signals, 1, "SIGTERM was sent more than once");
    assert!(matches!(
        process.wait_for_exit().await,
        Ok::<(), TerminateError>(())
    ));
}

pub(crate) async fn a_cancelled_spec_ends_its_tree(fixture: &impl Fixture) {
    let mut spec = fixture.script("echo $$; exec sleep 1000");
    spec.stdout = OutputMode::Pipe;
    let cancel = spec.cancel.clone();
    let process = fixture.start(spec).await;
    first_lines(&*process, 1).await;

    cancel.cancel();
    let facts = process.done().await;

    assert_eq!(
        (facts.signal(), facts.cause),
        (Some(SIGTERM), EndCause::Cancelled)
    );
    process.wait_for_exit().await.unwrap();
}

pub(crate) async fn a_dropped_handle_ends_its_tree(fixture: &impl Fixture) {
    // given a tree all of which holds the pipe that the test reads
    let mut spec = fixture
        .script("(setsid sleep 1000 &); trap '' TERM; echo ready; while :; do sleep 0.05; done");
    spec.stdout = OutputMode::Pipe;
    spec.grace = SHORT;
    let process = fixture.start(spec).await;
    let mut stdout = process.take_stdout().unwrap();
    stdout.read_exact(&mut [0; 6]).await.unwrap();

    // when the handle is dropped, then the pipe comes to its end, since nobody is left who could write
    drop(process);
    let mut rest = Vec::new();
    stdout.read_to_end(&mut rest).await.unwrap();

    assert!(rest.is_empty());
}

pub(crate) async fn a_dropped_spawn_leaves_nothing(fixture: &impl Fixture) {
    // given a wait for a start that is given up at once, or a little later
    for polls in 0..4 {
        let start = fixture
            .world()
            .subprocess()
            .spawn(fixture.script("exec sleep 1000"));
        let bounded = async {
            tokio::select! {
                biased;
                _ = start => {}
                () = yields(polls) => {}
            }
        };
        bounded.await;
    }
    // then closing the fixture finds nothing
}

async fn yields(count: usize) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

pub(crate) async fn a_shutdown_ends_all_and_closes_the_door(fixture: &impl Fixture) {
    let (one, _) = fixture
        .started("echo ready; exec sleep 1000", LONG, 1)
        .await;
    let (other, _) = fixture
        .started(
            "trap '' TERM; echo ready; while :; do sleep 0.05; done",
            SHORT,
            1,
        )
        .await;
    let subprocess = fixture.world().subprocess();

    tokio::time::timeout(Duration::from_secs(30), subprocess.shutdown())
        .await
        .unwrap()
        .unwrap();

    assert_eq!(one.done().await.cause, EndCause::Shutdown);
    assert_eq!(other.done().await.signal(), Some(SIGKILL));
    assert!(!fixture.exists(one.pid().unwrap()) && !fixture.exists(other.pid().unwrap()));
    let refused = subprocess
        .spawn(fixture.script("exit 0"))
        .await
        .err()
        .unwrap();
    assert_eq!(refused.code(), "WORLD_DISPOSED");
    subprocess.shutdown().await.unwrap();
}

pub(crate) async fn one_end_leaves_other_trees_alone(fixture: &impl Fixture) {
    let (one, _) = fixture
        .started("echo ready; exec sleep 1000", LONG, 1)
        .await;
    let (other, _) = fixture
        .started(
            "(setsid sleep 1000 &); echo ready; exec sleep 1000",
            LONG,
            1,
        )
        .await;

    one.terminate().await.unwrap();

    assert!(fixture.runs(other.pid().unwrap()));
    other.terminate().await.unwrap();
}

each_provider!(
    [
        outcomes_are_told_apart,
        the_cause_is_told_apart_from_the_outcome,
        a_process_that_ignores_sigterm_is_killed,
        a_stopped_process_is_ended,
        background_members_end_with_their_leader,
        a_session_of_its_own_does_not_escape,
        an_orphan_in_its_own_session_does_not_escape,
        survivors_of_the_leader_are_waited_for_and_ended,
        survivors_that_end_by_themselves_are_noticed,
        a_maker_of_sessions_is_outrun,
        a_zombie_in_the_group_is_no_survivor,
        terminations_join_and_can_be_repeated,
        a_cancelled_spec_ends_its_tree,
        a_dropped_handle_ends_its_tree,
        a_dropped_spawn_leaves_nothing,
        a_shutdown_ends_all_and_closes_the_door,
        one_end_leaves_other_trees_alone,
    ],
    of_trees
);
