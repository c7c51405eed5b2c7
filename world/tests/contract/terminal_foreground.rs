//! The foreground of a terminal: which group it is, whether it is proved that it waits for input, and signals to it.

use lspool_world::subprocess::{Foreground, TerminalSignal};
use lspool_world::{ProcessOutcome, TerminalHandle};

use crate::fixture::{Fixture, LONG, SHORT};
use crate::oracle::eventually;
use crate::terminals::{Session, on_terminal};

const SIGKILL: i32 = 9;

/// How often something is looked at that must not be so.
const LOOKS: usize = 25;

/// Waits until it is proved that the foreground waits for input, and gives its group.
async fn waiting_group(terminal: &dyn TerminalHandle) -> u32 {
    let mut group = None;
    eventually("the foreground waits for input", async || {
        let foreground = terminal.inspect_foreground().await;
        group = foreground
            .filter(|foreground| foreground.waits_for_input)
            .map(|foreground| foreground.group);
        group.is_some()
    })
    .await;
    group.unwrap()
}

/// Whether this provider proves that a program waits.
fn proves(fixture: &impl Fixture) -> bool {
    fixture.world().subprocess().facts().stdin_wait_proof
}

pub(crate) async fn a_program_that_waits_for_its_terminal_is_told(fixture: &impl Fixture) {
    if !proves(fixture) {
        return;
    }
    for script in [
        "echo ready; read -r line",
        "echo ready; exec cat",
        "echo ready; cat; :",
        "stty raw -echo opost; echo ready; exec cat",
        "exec 5</dev/tty 0</dev/null; echo ready; read -r line <&5",
        "exec 0</dev/null; echo ready; read -r line </dev/tty",
        // An interactive shell with an editor for its line waits by other calls than a plain one.
        "echo ready; exec bash --norc -i",
        // One member of the group waits, another one does not.
        "echo ready; cat | sleep 1000",
    ] {
        let session = Session::ready(fixture, script, LONG).await;

        let group = waiting_group(&*session.terminal).await;

        assert_eq!(Some(group), session.terminal.pid(), "{script}");
        session.terminal.terminate().await.unwrap();
    }
}

pub(crate) async fn a_program_that_waits_for_something_else_is_not_taken_for_waiting(
    fixture: &impl Fixture,
) {
    fixture.fifo("fifo");
    fixture.put("file", b"text\n");
    for script in [
        "echo ready; exec sleep 1000",
        "echo ready; while :; do :; done",
        "exec 3<>fifo; echo ready; read -r line <&3",
        "exec 3<>fifo 0<&3; echo ready; exec cat",
        "echo ready; sleep 1000 | cat",
        "cat <file; echo ready; while :; do cat file >/dev/null; done",
        // The reader is in the background, in a group of its own.
        "set -m; sh -c 'read -r line' & echo ready; while :; do sleep 0.01; done",
        // A reader that is stopped waits for nothing but to go on.
        "sh -c 'kill -STOP $$; read -r line' & echo ready; wait",
    ] {
        let session = Session::ready(fixture, script, LONG).await;
        for _ in 0..LOOKS {
            let foreground = session.terminal.inspect_foreground().await;
            let waits = foreground.is_some_and(|foreground| foreground.waits_for_input);
            assert!(!waits, "{script}");
        }
        session.terminal.terminate().await.unwrap();
    }
}

pub(crate) async fn input_that_is_not_taken_yet_proves_that_nobody_waits(fixture: &impl Fixture) {
    if !proves(fixture) {
        return;
    }
    // given a program that takes one line at a time and is busy in between for as long as a file is missing
    let script = "stty -echo; echo ready; while read -r line; do echo \"got $line\"; \
        while [ ! -e \"go-$line\" ]; do :; done; done";
    let mut session = Session::ready(fixture, script, LONG).await;

    for round in 0..20 {
        waiting_group(&*session.terminal).await;
        session.type_line(&round.to_string()).await;

        // then it does not wait from the moment on at which the line was written
        for _ in 0..3 {
            let foreground = session.terminal.inspect_foreground().await.unwrap();
            assert!(!foreground.waits_for_input, "round {round}");
        }
        session.until(&format!("got {round}\r\n")).await;
        fixture.put(&format!("go-{round}"), b"");
    }
    session.terminal.terminate().await.unwrap();
}

pub(crate) async fn a_job_of_a_shell_is_the_foreground_while_it_runs(fixture: &impl Fixture) {
    let script = "set -m; sh -c 'echo job $$; read -r line'; stty -echo; echo shell; read -r line";
    let mut session = Session::open(fixture, on_terminal(fixture, script)).await;
    let shell = session.terminal.pid().unwrap();

    let job = session.number("job").await;
    assert_ne!(job, shell);
    let foreground = session.terminal.inspect_foreground().await.unwrap();
    assert_eq!(foreground.group, job);
    session.type_line("").await;
    session.until("shell\r\n").await;

    let foreground = session.terminal.inspect_foreground().await.unwrap();
    assert_eq!(foreground.group, shell);
    if proves(fixture) {
        let waits = Foreground {
            group: waiting_group(&*session.terminal).await,
            waits_for_input: true,
        };
        assert_eq!((waits.group, waits.waits_for_input), (shell, true));
    }
    session.terminal.terminate().await.unwrap();
}

pub(crate) async fn each_signal_reaches_the_foreground_alone(fixture: &impl Fixture) {
    for (signal, name) in [
        (TerminalSignal::Interrupt, "INT"),
        (TerminalSignal::Terminate, "TERM"),
        (TerminalSignal::HangUp, "HUP"),
        (TerminalSignal::Stop, "TSTP"),
    ] {
        // given a shell and a job, each of which tells of the signal; the job has no child that could be stopped instead
        let script = format!(
            "set -m; trap 'echo shell had it' {name}; \
            sh -c 'trap \"echo caught; exit 3\" {name}; echo job $$; while :; do read -r line; done'; \
            echo \"status $?\"; echo end; while :; do sleep 0.01; done"
        );
        let mut spec = on_terminal(fixture, &script);
        spec.grace = SHORT;
        let mut session = Session::open(fixture, spec).await;
        let job = session.number("job").await;
        // A shell that gets a signal right before it begins to read acts on it only once it has read.
        eventually("the job reads", async || {
            let foreground = session.terminal.inspect_foreground().await;
            foreground.is_some_and(|foreground| {
                foreground.group == job && (foreground.waits_for_input || !proves(fixture))
            })
        })
        .await;

        let signalled = session.terminal.signal_foreground(signal).await.unwrap();

        assert_eq!(signalled, job, "{name}");
        session.until("caught\r\n").await;
        let printed = session.until("end\r\n").await;
        assert_eq!(printed, "status 3\r\n", "{name}");
        session.terminal.terminate().await.unwrap();
    }
}

pub(crate) async fn a_stopped_job_gives_its_terminal_back(fixture: &impl Fixture) {
    let script = "set -m; sh -c 'echo job $$; exec sleep 1000'; echo back; read -r line";
    let mut session = Session::open(fixture, on_terminal(fixture, script)).await;
    let job = session.number("job").await;
    eventually("the job is in the foreground", async || {
        let foreground = session.terminal.inspect_foreground().await;
        foreground.is_some_and(|foreground| foreground.group == job)
    })
    .await;

    session
        .terminal
        .signal_foreground(TerminalSignal::Stop)
        .await
        .unwrap();

    session.until("back\r\n").await;
    assert!(fixture.runs(job));
    session.terminal.terminate().await.unwrap();
    assert!(!fixture.runs(job));
}

pub(crate) async fn a_protected_program_is_not_killed_but_its_job_is(fixture: &impl Fixture) {
    let script = "set -m; sh -c 'echo job $$; exec sleep 1000'; echo shell; read -r line";
    let mut spec = on_terminal(fixture, script);
    spec.protects_program = true;
    let mut session = Session::open(fixture, spec).await;
    let job = session.number("job").await;
    let kill = async || {
        session
            .terminal
            .signal_foreground(TerminalSignal::Kill)
            .await
    };

    assert_eq!(kill().await.unwrap(), job);
    session.until("shell\r\n").await;
    let refused = session
        .terminal
        .signal_foreground(TerminalSignal::Kill)
        .await
        .unwrap_err();

    assert_eq!(refused.code(), "SIGNAL_FORBIDDEN");
    assert!(fixture.runs(session.terminal.pid().unwrap()));
    session.type_line("").await;
    assert_eq!(session.terminal.done().await.exit_code(), Some(0));
}

pub(crate) async fn a_program_that_is_not_protected_can_be_killed(fixture: &impl Fixture) {
    let session = Session::ready(fixture, "echo ready; exec sleep 1000", LONG).await;

    let group = session
        .terminal
        .signal_foreground(TerminalSignal::Kill)
        .await
        .unwrap();

    assert_eq!(Some(group), session.terminal.pid());
    let facts = session.terminal.done().await;
    assert_eq!(facts.outcome, Some(ProcessOutcome::Signaled(SIGKILL)));
}

each_provider!([
    a_program_that_waits_for_its_terminal_is_told,
    a_program_that_waits_for_something_else_is_not_taken_for_waiting,
    input_that_is_not_taken_yet_proves_that_nobody_waits,
    a_job_of_a_shell_is_the_foreground_while_it_runs,
    each_signal_reaches_the_foreground_alone,
    a_stopped_job_gives_its_terminal_back,
    a_protected_program_is_not_killed_but_its_job_is,
    a_program_that_is_not_protected_can_be_killed,
]);
