//! Terminals: what a program finds, every byte in both directions, and what calls answer. Each script prints when it is
//! where the test wants it. What a script prints is never what is typed, since a terminal echoes.

use std::sync::Arc;
use std::time::Duration;

use lspool_world::subprocess::{OutputPipe, TerminalSignal};
use lspool_world::{
    EndCause, ProcessOutcome, SpawnError, TerminalHandle, TerminalSize, TerminalSpec,
};
use tokio::io::AsyncReadExt;

use crate::fixture::{Fixture, LONG, SHORT};
use crate::oracle::eventually;

const MEGABYTE: usize = 1_000_000;

/// A terminal with its output and what was read of it.
pub(crate) struct Session {
    pub(crate) terminal: Arc<dyn TerminalHandle>,
    output: OutputPipe,
    seen: Vec<u8>,
}

impl Session {
    /// Opens a terminal.
    pub(crate) async fn open(fixture: &impl Fixture, spec: TerminalSpec) -> Self {
        let terminal: Arc<dyn TerminalHandle> = opened(fixture, spec).await.unwrap().into();
        let output = terminal.take_output().unwrap();
        assert!(terminal.take_output().is_none(), "output was given twice");
        Self {
            terminal,
            output,
            seen: Vec::new(),
        }
    }

    /// Opens a terminal on which a script runs, and waits until it has printed `ready` with a line end.
    pub(crate) async fn ready(fixture: &impl Fixture, script: &str, grace: Duration) -> Self {
        let mut spec = on_terminal(fixture, script);
        spec.grace = grace;
        let mut session = Self::open(fixture, spec).await;
        session.until("ready\r\n").await;
        session
    }

    /// Reads until the output has `text`, and gives what came before it since the last call.
    pub(crate) async fn until(&mut self, text: &str) -> String {
        loop {
            let found = self
                .seen
                .windows(text.len())
                .position(|window| window == text.as_bytes());
            if let Some(at) = found {
                let before = String::from_utf8_lossy(&self.seen[..at]).into_owned();
                self.seen.drain(..at + text.len());
                return before;
            }
            let read = self.output.read_buf(&mut self.seen).await.unwrap();
            assert_ne!(read, 0, "no {text:?} in {:?}", self.text());
        }
    }

    /// The next number that the script prints at the end of a line, after `name` and a blank. A shell that tells its
    /// jobs prints the script's own text too, which has none.
    pub(crate) async fn number(&mut self, name: &str) -> u32 {
        loop {
            self.until(&format!("{name} ")).await;
            if let Ok(number) = self.until("\r\n").await.parse() {
                return number;
            }
        }
    }

    /// All that is left.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        self.output.read_to_end(&mut self.seen).await.unwrap();
        std::mem::take(&mut self.seen)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    /// Types a line.
    pub(crate) async fn type_line(&self, line: &str) {
        let typed = format!("{line}\r");
        self.terminal.write(typed.as_bytes()).await.unwrap();
    }
}

/// A terminal of 40 rows and 160 columns on which a shell runs a script.
pub(crate) fn on_terminal(fixture: &impl Fixture, script: &str) -> TerminalSpec {
    let process = fixture.script(script);
    TerminalSpec {
        launch: process.launch,
        size: TerminalSize {
            rows: 40,
            columns: 160,
        },
        grace: LONG,
        protects_program: false,
        cancel: process.cancel,
    }
}

async fn opened(
    fixture: &impl Fixture,
    spec: TerminalSpec,
) -> Result<Box<dyn TerminalHandle>, SpawnError> {
    fixture.world().subprocess().spawn_terminal(spec).await
}

/// Bytes that look random and are the same every time (xorshift).
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..length).map(|_| next()).collect()
}

pub(crate) async fn a_program_finds_a_terminal_of_its_own(fixture: &impl Fixture) {
    let script = "for n in 0 1 2; do [ -t $n ] && echo tty $n; done; stty size; \
        read -r _ _ _ parent group session _ < /proc/$$/stat; \
        [ $group = $$ ] && [ $session = $$ ] && echo leads; echo TERM is ${TERM-unset}; \
        stty -a | tr ' ;' '\\n\\n' | grep -E '^-?(icanon|icrnl|echo|isig|iutf8|opost|onlcr)$' | sort";
    let mut session = Session::open(fixture, on_terminal(fixture, script)).await;

    let printed = String::from_utf8(session.rest().await).unwrap();

    let expected = "tty 0\ntty 1\ntty 2\n40 160\nleads\nTERM is unset\n\
        echo\nicanon\nicrnl\nisig\niutf8\nonlcr\nopost\n";
    assert_eq!(printed.replace("\r\n", "\n"), expected);
    assert_eq!(session.terminal.done().await.exit_code(), Some(0));
}

pub(crate) async fn what_is_typed_is_read_and_echoed(fixture: &impl Fixture) {
    let script = "echo ready; read -r line; printf 'got <%s>\\n' \"$line\"; exit 7";
    let mut session = Session::ready(fixture, script, LONG).await;

    session.type_line("grüße €").await;

    let printed = String::from_utf8(session.rest().await).unwrap();
    assert_eq!(printed, "grüße €\r\ngot <grüße €>\r\n");
    let facts = session.terminal.done().await;
    assert_eq!(
        (facts.outcome, facts.cause),
        (Some(ProcessOutcome::Exited(7)), EndCause::Unasked)
    );
}

pub(crate) async fn no_byte_of_a_fast_exit_is_lost(fixture: &impl Fixture) {
    // given as much as a terminal holds without a reader, and the end of it at the very end of the program
    let text = "0123456789abcdef".repeat(190);
    let script = format!("printf %s {text}end");
    for reads_first in [true, false] {
        for round in 0..200 {
            let mut session = Session::open(fixture, on_terminal(fixture, &script)).await;
            if !reads_first {
                session.terminal.done().await;
            }

            let printed = session.rest().await;

            assert_eq!(printed.len(), text.len() + 3, "round {round}");
            assert!(printed.ends_with(b"end"));
            assert_eq!(session.terminal.done().await.exit_code(), Some(0));
        }
    }
}

pub(crate) async fn random_bytes_pass_both_ways(fixture: &impl Fixture) {
    let script = "stty raw -echo; echo ready; exec cat";
    let mut session = Session::open(fixture, on_terminal(fixture, script)).await;
    session.until("ready\n").await;
    let bytes = noise(MEGABYTE);

    let Session {
        terminal, output, ..
    } = &mut session;
    let mut read = vec![0; bytes.len()];
    let (written, received) = tokio::join!(terminal.write(&bytes), output.read_exact(&mut read));

    written.unwrap();
    received.unwrap();
    assert!(read == bytes, "bytes were changed");
    let facts = session.terminal.terminate().await.unwrap();
    assert_eq!(facts.cause, EndCause::Terminated);
    assert_eq!(session.rest().await, b"");
}

pub(crate) async fn unread_output_makes_its_writer_wait(fixture: &impl Fixture) {
    // given two programs that print the same, one of which is read to its end
    let script = |name: &str| {
        format!("stty raw; head -c {MEGABYTE} /dev/zero; echo > finished-{name}; echo end")
    };
    let mut unread = Session::open(fixture, on_terminal(fixture, &script("unread"))).await;
    let mut read = Session::open(fixture, on_terminal(fixture, &script("read"))).await;
    assert_eq!(read.rest().await.len(), MEGABYTE + 4);
    assert!(fixture.scratch().join("finished-read").exists());

    // then the other one waits in the middle, and nothing of it is lost
    assert!(!fixture.scratch().join("finished-unread").exists());
    assert_eq!(unread.rest().await.len(), MEGABYTE + 4);
    assert!(fixture.scratch().join("finished-unread").exists());
}

pub(crate) async fn output_ends_while_a_background_process_holds_the_device(
    fixture: &impl Fixture,
) {
    // given a program that leaves a process behind which ignores its end until it is told
    let script = "(trap '' HUP TERM; : > ready; while [ ! -e stop ]; do sleep 0.01; done) & \
        while [ ! -e ready ]; do sleep 0.01; done; echo member $!; while [ ! -e leave ]; do sleep 0.01; done; printf last";
    let mut session = Session::open(fixture, on_terminal(fixture, script)).await;
    let member = session.number("member").await;
    fixture.put("leave", b"");

    // when the program ends, then so does the output, with all that it printed
    let rest = session.rest().await;

    assert!(rest.ends_with(b"last"));
    assert!(fixture.runs(member), "nobody held the device");
    fixture.put("stop", b"");
    session.terminal.terminate().await.unwrap();
}

pub(crate) async fn a_program_that_opens_its_terminal_again_is_heard(fixture: &impl Fixture) {
    let script = "exec 3>closed 0<&- 1>&- 2>&-; echo closed >&3; \
        while [ ! -e open ]; do sleep 0.01; done; echo again > /dev/tty";
    let mut session = Session::open(fixture, on_terminal(fixture, script)).await;
    let closed = fixture.scratch().join("closed");
    eventually("the streams are closed", async || {
        std::fs::read(&closed).is_ok_and(|text| !text.is_empty())
    })
    .await;

    let nothing = tokio::time::timeout(SHORT, session.until("again")).await;
    assert!(nothing.is_err(), "there was output from a closed terminal");
    fixture.put("open", b"");

    assert_eq!(session.rest().await, b"again\r\n");
}

pub(crate) async fn writes_are_whole_and_in_order(fixture: &impl Fixture) {
    let mut session = Session::open(
        fixture,
        on_terminal(fixture, "stty raw -echo; echo ready; exec cat"),
    )
    .await;
    session.until("ready\n").await;
    let part = |letter: u8| vec![letter; 50_000];
    let (one, two, three) = (part(b'1'), part(b'2'), part(b'3'));

    let Session {
        terminal, output, ..
    } = &mut session;
    let mut read = vec![0; 150_000];
    let (first, second, third, received) = tokio::join!(
        terminal.write(&one),
        terminal.write(&two),
        terminal.write(&three),
        output.read_exact(&mut read)
    );

    for written in [first, second, third] {
        written.unwrap();
    }
    received.unwrap();
    assert!(read == [one, two, three].concat(), "calls were mixed");
    session.terminal.terminate().await.unwrap();
}

pub(crate) async fn a_full_input_queue_holds_up_nothing_else(fixture: &impl Fixture) {
    // given a program that reads nothing, and more input than the terminal takes
    let script = "trap 'stty size' WINCH; stty raw -echo opost; echo ready; \
        while [ ! -e read ]; do sleep 0.01; done; trap '' WINCH; exec cat";
    let mut session = Session::ready(fixture, script, LONG).await;
    let input = noise(MEGABYTE);
    let given_up = tokio::time::timeout(SHORT, session.terminal.write(&input)).await;
    assert!(given_up.is_err(), "the terminal took it all");

    // then other calls are answered
    let size = TerminalSize {
        rows: 10,
        columns: 20,
    };
    session.terminal.resize(size).await.unwrap();
    session.until("10 20\r\n").await;
    let foreground = session.terminal.inspect_foreground().await.unwrap();
    assert_eq!(Some(foreground.group), session.terminal.pid());

    // and a later write waits for its turn and goes on once the program reads
    let Session {
        terminal, output, ..
    } = &mut session;
    let ((), written) = tokio::join!(async { drop(fixture.put("read", b"")) }, async {
        let mut taken = Vec::new();
        let read = async {
            while !taken.ends_with(b"the end") {
                assert_ne!(output.read_buf(&mut taken).await.unwrap(), 0);
            }
        };
        let (written, ()) = tokio::join!(terminal.write(b"the end"), read);
        written
    });
    written.unwrap();
}

pub(crate) async fn an_end_settles_the_calls_in_flight(fixture: &impl Fixture) {
    let session = Session::ready(
        fixture,
        "stty raw -echo opost; echo ready; exec sleep 1000",
        LONG,
    )
    .await;
    let terminal = &session.terminal;
    let input = noise(MEGABYTE);

    let (first, second, ended) =
        tokio::join!(terminal.write(&input), terminal.write(&input), async {
            terminal.inspect_foreground().await.unwrap();
            terminal.terminate().await
        });

    for write in [first, second] {
        assert_eq!(write.unwrap_err().code(), "TERMINAL_CLOSING");
    }
    ended.unwrap();
    let refused = terminal.signal_foreground(TerminalSignal::Interrupt).await;
    assert_eq!(refused.unwrap_err().code(), "TERMINAL_CLOSING");
    assert_eq!(terminal.inspect_foreground().await, None);
}

pub(crate) async fn an_ended_program_is_told_from_a_closing_terminal(fixture: &impl Fixture) {
    let session = Session::open(fixture, on_terminal(fixture, "exit 0")).await;
    let terminal = &session.terminal;
    terminal.done().await;
    let size = TerminalSize {
        rows: 10,
        columns: 20,
    };

    let codes = [
        terminal.write(b"x").await.unwrap_err().code(),
        terminal.write(b"").await.unwrap_err().code(),
        terminal.resize(size).await.unwrap_err().code(),
        terminal
            .signal_foreground(TerminalSignal::Interrupt)
            .await
            .unwrap_err()
            .code(),
    ];

    assert_eq!(codes, ["TERMINAL_EXITED"; 4]);
    assert_eq!(terminal.inspect_foreground().await, None);
    let facts = terminal.terminate().await.unwrap();
    assert_eq!(
        (facts.exit_code(), facts.cause),
        (Some(0), EndCause::Unasked)
    );
    assert_eq!(
        terminal.write(b"x").await.unwrap_err().code(),
        "TERMINAL_CLOSING"
    );
}

pub(crate) async fn a_size_is_told_and_judged(fixture: &impl Fixture) {
    let script = "trap 'stty size' WINCH; echo ready; while :; do sleep 0.01; done";
    let mut session = Session::ready(fixture, script, LONG).await;

    for (rows, columns) in [(1, 1), (1_000, 1_000), (24, 80)] {
        session
            .terminal
            .resize(TerminalSize { rows, columns })
            .await
            .unwrap();
        session.until(&format!("{rows} {columns}\r\n")).await;
    }
    for (rows, columns) in [(0, 80), (24, 0), (1_001, 80), (24, 1_001)] {
        let size = TerminalSize { rows, columns };
        let refused = session.terminal.resize(size).await.unwrap_err();
        assert_eq!(refused.code(), "INVALID_PARAMS");
        let mut spec = on_terminal(fixture, "exit 0");
        spec.size = size;
        let refused = opened(fixture, spec).await.err().unwrap();
        assert_eq!(refused.code(), "INVALID_PARAMS");
    }
}

pub(crate) async fn an_impossible_terminal_is_refused_before_it_is_allocated(
    fixture: &impl Fixture,
) {
    type Spoil = fn(&mut TerminalSpec);
    let spoils: [(&str, Spoil); 6] = [
        ("INVALID_PARAMS", |spec| spec.launch.argv.clear()),
        ("INVALID_PARAMS", |spec| spec.grace = Duration::ZERO),
        ("EXEC_NOT_FOUND", |spec| {
            spec.launch.argv[0] = "/no/such/program".into();
        }),
        ("FS_NOT_FOUND", |spec| {
            spec.launch.cwd = "/no/such/folder".into();
        }),
        ("EXEC_CANCELLED", |spec| spec.cancel.cancel()),
        ("EXEC_SPAWN_FAILED", |spec| {
            spec.launch.argv.push("x".repeat(4_000_000).into());
        }),
    ];
    for (code, spoil) in spoils {
        let mut spec = on_terminal(fixture, "exit 0");
        spoil(&mut spec);

        let refused = opened(fixture, spec).await.err().unwrap();

        assert_eq!(refused.code(), code);
    }
}

pub(crate) async fn a_cancelled_allocation_leaves_nothing(fixture: &impl Fixture) {
    for delay in 0..6 {
        let spec = on_terminal(fixture, "exec sleep 1000");
        let cancel = spec.cancel.clone();
        let cancelled = async {
            for _ in 0..delay {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            cancel.cancel();
        };

        let (opened, ()) = tokio::join!(opened(fixture, spec), cancelled);

        // It may have been published before; then it lives until its handle is dropped.
        if let Err(error) = opened {
            assert_eq!(error.code(), "EXEC_CANCELLED");
        }
    }
}

pub(crate) async fn a_published_terminal_outlives_the_cancellation(fixture: &impl Fixture) {
    let spec = on_terminal(fixture, "echo ready; read -r line; echo got $line");
    let cancel = spec.cancel.clone();
    let mut session = Session::open(fixture, spec).await;
    session.until("ready").await;

    cancel.cancel();
    session.type_line("more").await;

    session.until("got more").await;
    assert_eq!(session.terminal.done().await.exit_code(), Some(0));
}

pub(crate) async fn a_dropped_allocation_leaves_nothing(fixture: &impl Fixture) {
    for polls in 0..6 {
        let opening = opened(fixture, on_terminal(fixture, "exec sleep 1000"));
        let yields = async {
            for _ in 0..polls {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            _ = opening => {}
            () = yields => {}
        }
    }
    // then closing the fixture finds nothing
}

pub(crate) async fn hundreds_of_terminals_leave_nothing(fixture: &impl Fixture) {
    // A device that stayed open would make the number of the next one higher, and the fixture counts descriptors.
    let script = "stty raw -echo; cat & tty; exit 0";
    let mut highest = 0;
    for _ in 0..300 {
        let mut session = Session::open(fixture, on_terminal(fixture, script)).await;
        let name = String::from_utf8(session.rest().await).unwrap();
        let number = name.trim().rsplit('/').next().unwrap().parse::<u32>();
        highest = highest.max(number.unwrap());
        session.terminal.terminate().await.unwrap();
    }
    assert!(highest < 250, "devices were left: the last is {highest}");
}

each_provider!([
    a_program_finds_a_terminal_of_its_own,
    what_is_typed_is_read_and_echoed,
    no_byte_of_a_fast_exit_is_lost,
    random_bytes_pass_both_ways,
    unread_output_makes_its_writer_wait,
    output_ends_while_a_background_process_holds_the_device,
    a_program_that_opens_its_terminal_again_is_heard,
    writes_are_whole_and_in_order,
    a_full_input_queue_holds_up_nothing_else,
    an_end_settles_the_calls_in_flight,
    an_ended_program_is_told_from_a_closing_terminal,
    a_size_is_told_and_judged,
    an_impossible_terminal_is_refused_before_it_is_allocated,
    a_cancelled_allocation_leaves_nothing,
    a_published_terminal_outlives_the_cancellation,
    a_dropped_allocation_leaves_nothing,
    hundreds_of_terminals_leave_nothing,
]);
