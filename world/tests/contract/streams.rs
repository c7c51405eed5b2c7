//! Streams of processes.

use bytes::Bytes;
use lspool_world::{OutputMode, OutputStream, ProcessHandle, Spill, StdinMode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::fixture::{Fixture, LONG, SHORT};

fn collect(tail_bytes: usize) -> OutputMode {
    OutputMode::Collect {
        tail_bytes,
        spill: None,
    }
}

fn collected(process: &dyn ProcessHandle) -> String {
    process.tail(OutputStream::Stdout).unwrap().text()
}

pub(crate) async fn piped_streams_carry_bytes_both_ways(fixture: &impl Fixture) {
    let mut spec = fixture.script("tee /dev/stderr");
    (spec.stdin, spec.stdout, spec.stderr) = (StdinMode::Pipe, OutputMode::Pipe, OutputMode::Pipe);
    let process = fixture.start(spec).await;
    let (mut stdin, mut stdout) = (
        process.take_stdin().unwrap(),
        process.take_stdout().unwrap(),
    );
    let mut stderr = process.take_stderr().unwrap();
    let sent: Vec<u8> = (0..=255).collect();

    stdin.write_all(&sent).await.unwrap();
    let mut echoed = vec![0; sent.len()];
    stdout.read_exact(&mut echoed).await.unwrap();
    drop(stdin);
    let (mut rest, mut copied) = (Vec::new(), Vec::new());
    stdout.read_to_end(&mut rest).await.unwrap();
    stderr.read_to_end(&mut copied).await.unwrap();

    assert_eq!((&echoed, &copied), (&sent, &sent));
    assert!(rest.is_empty());
    assert_eq!(process.done().await.exit_code(), Some(0));
    assert!(
        process.take_stdin().is_none()
            && process.take_stdout().is_none()
            && process.take_stderr().is_none()
    );
    assert!(
        process.tail(OutputStream::Stdout).is_none()
            && process.read_from(OutputStream::Stderr, 0).is_none()
    );
    process.terminate().await.unwrap();
}

pub(crate) async fn given_input_is_written_and_closed(fixture: &impl Fixture) {
    let mut spec = fixture.script("cat; echo end");
    spec.stdin = StdinMode::Data(Bytes::from("x".repeat(300_000)));

    let output = fixture.output(spec).await;

    assert_eq!(output.len(), 300_004);
    assert!(output.ends_with(b"xend\n"));
}

pub(crate) async fn ignored_input_is_empty(fixture: &impl Fixture) {
    assert_eq!(
        &fixture.output(fixture.script("cat; echo end")).await[..],
        b"end\n"
    );
    let process = fixture.start(fixture.script("exit 0")).await;
    assert!(process.take_stdin().is_none());
    process.terminate().await.unwrap();
}

pub(crate) async fn input_that_nobody_reads_is_no_error(fixture: &impl Fixture) {
    let mut spec = fixture.script("exit 7");
    spec.stdin = StdinMode::Data(Bytes::from(vec![b'x'; 1 << 20]));

    let process = fixture.start(spec).await;

    assert_eq!(process.done().await.exit_code(), Some(7));
    process.wait_for_exit().await.unwrap();
}

pub(crate) async fn collected_streams_are_apart(fixture: &impl Fixture) {
    let process = fixture
        .start(fixture.script("printf out; printf error >&2"))
        .await;
    process.done().await;

    assert_eq!(collected(&*process), "out");
    assert_eq!(process.tail(OutputStream::Stderr).unwrap().text(), "error");
    assert!(!process.tail(OutputStream::Stdout).unwrap().truncated);
    process.terminate().await.unwrap();
}

pub(crate) async fn each_stream_has_a_tail_of_its_own(fixture: &impl Fixture) {
    let mut spec = fixture.script("printf %0500d 1; printf %0500d 2 >&2");
    (spec.stdout, spec.stderr) = (collect(500), collect(100));
    let process = fixture.start(spec).await;
    assert_eq!(process.done().await.exit_code(), Some(0));

    let stdout = process.tail(OutputStream::Stdout).unwrap();
    let stderr = process.tail(OutputStream::Stderr).unwrap();

    assert_eq!(
        (stdout.text(), stdout.truncated),
        (format!("{:0500}", 1), false)
    );
    assert_eq!(
        (stderr.text(), stderr.truncated),
        (format!("{:0100}", 2), true)
    );
}

pub(crate) async fn a_tail_is_byte_exact(fixture: &impl Fixture) {
    for (limit, expected, truncated) in [
        (10, "0123456789", false),
        (9, "123456789", true),
        (0, "", true),
    ] {
        let mut spec = fixture.script("printf 0123; printf 456789");
        spec.stdout = collect(limit);
        let process = fixture.start(spec).await;
        process.done().await;

        let tail = process.tail(OutputStream::Stdout).unwrap();

        assert_eq!(
            (tail.text().as_str(), tail.truncated, tail.total_bytes),
            (expected, truncated, 10)
        );
        assert_eq!(tail.spill_path, None);
        process.terminate().await.unwrap();
    }
}

pub(crate) async fn pages_never_split_a_character(fixture: &impl Fixture) {
    // given a process that has written half of a character and waits
    let mut spec =
        fixture.script("printf 'a\\342'; printf go >&2; read line; printf '\\202\\254b'");
    (spec.stdin, spec.stderr) = (StdinMode::Pipe, OutputMode::Pipe);
    let process = fixture.start(spec).await;
    let mut stdin = process.take_stdin().unwrap();
    process
        .take_stderr()
        .unwrap()
        .read_exact(&mut [0; 2])
        .await
        .unwrap();

    // when it is read then, the page has whole characters alone
    let early = process.read_from(OutputStream::Stdout, 0).unwrap();
    assert!(["", "a"].contains(&early.text().as_str()));

    // and the next page goes on with the whole character
    stdin.write_all(b"\n").await.unwrap();
    process.done().await;
    let late = process
        .read_from(OutputStream::Stdout, early.next_offset)
        .unwrap();
    assert_eq!(format!("{}{}", early.text(), late.text()), "a€b");
    assert_eq!((late.next_offset, late.lossy), (5, false));
    assert_eq!(
        process
            .read_from(OutputStream::Stdout, 99)
            .unwrap()
            .next_offset,
        99
    );
    process.terminate().await.unwrap();
}

pub(crate) async fn a_flood_without_line_ends_never_blocks(fixture: &impl Fixture) {
    let mut spec = fixture.script("head -c 30000000 /dev/zero | tr '\\000' x >&2; exit 3");
    spec.stderr = collect(1000);
    let process = fixture.start(spec).await;

    assert_eq!(process.done().await.exit_code(), Some(3));

    let tail = process.tail(OutputStream::Stderr).unwrap();
    assert_eq!(
        (tail.total_bytes, tail.text()),
        (30_000_000, "x".repeat(1000))
    );
    let page = process.read_from(OutputStream::Stderr, 5).unwrap();
    assert_eq!(
        (page.from, page.lossy, page.bytes.len()),
        (29_999_000, true, 1000)
    );
    process.terminate().await.unwrap();
}

pub(crate) async fn a_spill_holds_the_whole_stream_and_goes_with_its_handle(
    fixture: &impl Fixture,
) {
    if !fixture.world().subprocess().facts().spill {
        return;
    }
    let mut spec = fixture.script("for i in 1 2 3 4 5 6 7 8 9; do printf \"line $i \"; done");
    spec.stdout = OutputMode::Collect {
        tail_bytes: 14,
        spill: Some(Spill { max_bytes: 1000 }),
    };
    let process = fixture.start(spec).await;
    process.done().await;

    let tail = process.tail(OutputStream::Stdout).unwrap();
    let target = fixture.target(tail.spill_path.unwrap()).await;
    let spilled = fixture.world().fs().read_text(&target).await.unwrap().text;

    assert_eq!(tail.bytes, "line 8 line 9 ");
    assert_eq!(
        spilled,
        "line 1 line 2 line 3 line 4 line 5 line 6 line 7 line 8 line 9 "
    );
    process.terminate().await.unwrap();
    drop(process);
    fixture.world().subprocess().shutdown().await.unwrap();
    assert_eq!(fixture.world().fs().stat(&target).await.unwrap(), None);
}

pub(crate) async fn a_spill_over_its_limit_is_discarded(fixture: &impl Fixture) {
    for script in ["printf 0123456; read line; printf 789", "printf 0123456789"] {
        let mut spec = fixture.script(script);
        spec.stdin = StdinMode::Data(Bytes::from_static(b"\n"));
        spec.stdout = OutputMode::Collect {
            tail_bytes: 5,
            spill: Some(Spill { max_bytes: 8 }),
        };
        let process = fixture.start(spec).await;
        process.done().await;

        let tail = process.tail(OutputStream::Stdout).unwrap();

        assert_eq!((tail.text().as_str(), tail.spill_path), ("56789", None));
        process.terminate().await.unwrap();
    }
}

pub(crate) async fn a_stream_held_open_by_a_descendant_does_not_delay_the_end(
    fixture: &impl Fixture,
) {
    // given a process that leaves a descendant with its standard output
    let mut spec = fixture.script("sleep 1000 & echo out");
    spec.grace = SHORT;
    let process = fixture.start(spec).await;

    // when it exits, then the facts come with all that was printed
    assert_eq!(process.done().await.exit_code(), Some(0));
    assert_eq!(collected(&*process), "out\n");
    process.terminate().await.unwrap();
}

/// Bytes that follow no rule that a stream could know: xorshift64.
fn random_bytes(count: usize) -> Bytes {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.flatten().take(count).collect()
}

pub(crate) async fn a_megabyte_of_random_bytes_passes_each_stream(fixture: &impl Fixture) {
    let sent = random_bytes(1 << 20);

    // given and collected
    let mut spec = fixture.script("tee /dev/stderr");
    spec.stdin = StdinMode::Data(sent.clone());
    (spec.stdout, spec.stderr) = (collect(1 << 20), collect(1 << 20));
    let process = fixture.start(spec).await;
    assert_eq!(process.done().await.exit_code(), Some(0));
    for which in [OutputStream::Stdout, OutputStream::Stderr] {
        let tail = process.tail(which).unwrap();
        assert!(tail.bytes == sent && !tail.truncated, "{which:?}");
    }

    // piped
    let mut spec = fixture.script("tee /dev/stderr");
    (spec.stdin, spec.stdout, spec.stderr) = (StdinMode::Pipe, OutputMode::Pipe, OutputMode::Pipe);
    let process = fixture.start(spec).await;
    let mut stdin = process.take_stdin().unwrap();
    let mut stdout = process.take_stdout().unwrap();
    let mut stderr = process.take_stderr().unwrap();
    let (mut out, mut error) = (Vec::new(), Vec::new());
    let write = async {
        stdin.write_all(&sent).await.unwrap();
        drop(stdin);
    };
    let ((), read, read_error) = tokio::join!(
        write,
        stdout.read_to_end(&mut out),
        stderr.read_to_end(&mut error)
    );
    assert_eq!((read.unwrap(), read_error.unwrap()), (1 << 20, 1 << 20));
    assert!(out == sent && error == sent);
    assert_eq!(process.done().await.exit_code(), Some(0));
}

pub(crate) async fn given_input_is_written_as_fast_as_it_is_read(fixture: &impl Fixture) {
    let mut spec = fixture.script("wc -c");
    spec.stdin = StdinMode::Data(Bytes::from(vec![b'x'; 64 << 20]));

    let counted = fixture.output(spec).await;

    assert_eq!(counted.trim_ascii(), b"67108864");
}

/// Runs a script that prints at once and ends, with a collected output and with a piped one.
async fn fast_exit(fixture: &impl Fixture, number: usize, reads_first: bool) {
    let script = format!("printf 'line {number}'; printf 'error {number}' >&2");
    let expected = (format!("line {number}"), format!("error {number}"));

    let process = fixture.start(fixture.script(&script)).await;
    if reads_first {
        let (mut read, mut offset) = (String::new(), 0);
        while read.len() < expected.0.len() {
            let page = process.read_from(OutputStream::Stdout, offset).unwrap();
            read.push_str(&page.text());
            offset = page.next_offset;
            tokio::task::yield_now().await;
        }
        assert_eq!(read, expected.0);
    }
    assert_eq!(process.done().await.exit_code(), Some(0));
    let error = process.tail(OutputStream::Stderr).unwrap().text();
    assert_eq!((collected(&*process), error), expected);

    let mut spec = fixture.script(&script);
    (spec.stdout, spec.stderr) = (OutputMode::Pipe, OutputMode::Pipe);
    let process = fixture.start(spec).await;
    if !reads_first {
        assert_eq!(process.done().await.exit_code(), Some(0));
        process.wait_for_exit().await.unwrap();
    }
    let mut output = (String::new(), String::new());
    let (mut stdout, mut stderr) = (
        process.take_stdout().unwrap(),
        process.take_stderr().unwrap(),
    );
    stdout.read_to_string(&mut output.0).await.unwrap();
    stderr.read_to_string(&mut output.1).await.unwrap();
    assert_eq!(output, expected);
    assert_eq!(process.done().await.exit_code(), Some(0));
}

pub(crate) async fn two_hundred_fast_exits_lose_no_byte_reading_first(fixture: &impl Fixture) {
    for number in 0..200 {
        fast_exit(fixture, number, true).await;
    }
}

pub(crate) async fn two_hundred_fast_exits_lose_no_byte_waiting_first(fixture: &impl Fixture) {
    for number in 0..200 {
        fast_exit(fixture, number, false).await;
    }
}

pub(crate) async fn a_flooding_descendant_does_not_delay_the_end(fixture: &impl Fixture) {
    // given a process that leaves a descendant which never ceases to write
    for stream in ["", " >&2"] {
        let mut spec = fixture.script(&format!("(exec yes{stream}) & echo out{stream}; exit 6"));
        spec.grace = SHORT;
        spec.stdout = OutputMode::Collect {
            tail_bytes: 100,
            spill: Some(Spill {
                max_bytes: 64 << 20,
            }),
        };
        spec.stderr = collect(100);
        let process = fixture.start(spec).await;

        assert_eq!(process.done().await.exit_code(), Some(6));

        process.terminate().await.unwrap();
    }
}

pub(crate) async fn what_a_descendant_prints_within_the_grace_is_collected(fixture: &impl Fixture) {
    // given a process that ends and leaves a descendant which prints once it is told to
    let mut spec = fixture.script("exec 3<&0; (read line <&3; echo \"late $line\") & echo early");
    (spec.stdin, spec.grace) = (StdinMode::Pipe, LONG);
    let process = fixture.start(spec).await;
    let mut stdin = process.take_stdin().unwrap();
    let pid = process.pid().unwrap();
    while fixture.runs(pid) {
        tokio::task::yield_now().await;
    }

    // when it prints before the grace is over
    stdin.write_all(b"word\n").await.unwrap();

    // then the end comes with the stream's, and with all of it
    assert_eq!(process.done().await.exit_code(), Some(0));
    assert_eq!(collected(&*process), "early\nlate word\n");
}

pub(crate) async fn each_mode_gives_its_own_ends_and_no_other(fixture: &impl Fixture) {
    let modes = [
        OutputMode::Ignore,
        OutputMode::Inherit,
        OutputMode::Pipe,
        collect(10),
    ];
    for stdout in &modes {
        for stderr in &modes {
            // Nothing is printed: it would be inherited by the test.
            let mut spec = fixture.script("exit 0");
            (spec.stdout, spec.stderr) = (stdout.clone(), stderr.clone());
            spec.stdin = StdinMode::Data(Bytes::from_static(b"input"));
            let process = fixture.start(spec).await;
            process.done().await;

            assert!(process.take_stdin().is_none());
            let is_pipe = |mode| matches!(mode, &OutputMode::Pipe);
            assert_eq!(process.take_stdout().is_some(), is_pipe(stdout));
            assert_eq!(process.take_stderr().is_some(), is_pipe(stderr));
            for (which, mode) in [
                (OutputStream::Stdout, stdout),
                (OutputStream::Stderr, stderr),
            ] {
                let is_collected = matches!(mode, OutputMode::Collect { .. });
                assert_eq!(process.tail(which).is_some(), is_collected);
                assert_eq!(process.read_from(which, 0).is_some(), is_collected);
            }
        }
    }
}

pub(crate) async fn an_input_is_a_device_or_a_pipe(fixture: &impl Fixture) {
    let script =
        "if [ -c /dev/stdin ]; then echo device; elif [ -p /dev/stdin ]; then echo pipe; fi";
    for (stdin, expected) in [
        (StdinMode::Ignore, "device\n"),
        (StdinMode::Data(Bytes::from_static(b"input")), "pipe\n"),
        (StdinMode::Pipe, "pipe\n"),
    ] {
        let mut spec = fixture.script(script);
        spec.stdin = stdin;
        assert_eq!(fixture.output(spec).await, expected);
    }
}

pub(crate) async fn the_tail_of_a_long_output_has_its_end_and_the_file_its_beginning(
    fixture: &impl Fixture,
) {
    if !fixture.world().subprocess().facts().spill {
        return;
    }
    let mut spec = fixture.script("i=0; while [ $i -lt 200 ]; do echo line $i; i=$((i + 1)); done");
    spec.stdout = OutputMode::Collect {
        tail_bytes: 500,
        spill: Some(Spill { max_bytes: 2000 }),
    };
    let process = fixture.start(spec).await;
    process.done().await;

    let tail = process.tail(OutputStream::Stdout).unwrap();
    let target = fixture.target(tail.spill_path.clone().unwrap()).await;
    let spilled = fixture.world().fs().read_text(&target).await.unwrap().text;
    let lines: Vec<String> = (0..200).map(|number| format!("line {number}\n")).collect();
    let whole = lines.concat();
    assert_eq!(spilled, whole);
    assert_eq!((tail.bytes.len(), tail.truncated), (500, true));
    assert!(whole.ends_with(&tail.text()));

    // and a page that begins too early says where the whole is
    let page = process.read_from(OutputStream::Stdout, 0).unwrap();
    assert_eq!((page.lossy, page.spill_path), (true, tail.spill_path));
}

pub(crate) async fn output_up_to_the_tail_is_not_spilled(fixture: &impl Fixture) {
    let mut spec = fixture.script("printf 01234; printf 56789");
    spec.stdout = OutputMode::Collect {
        tail_bytes: 10,
        spill: Some(Spill { max_bytes: 100 }),
    };
    let process = fixture.start(spec).await;
    process.done().await;

    let tail = process.tail(OutputStream::Stdout).unwrap();

    assert_eq!(
        (tail.text().as_str(), tail.truncated, tail.spill_path),
        ("0123456789", false, None)
    );
}

pub(crate) async fn a_spill_goes_with_a_handle_that_is_dropped_while_it_is_written(
    fixture: &impl Fixture,
) {
    if !fixture.world().subprocess().facts().spill {
        return;
    }
    // given a process that spills, ignores SIGTERM and never ceases to write
    let mut spec = fixture.script("trap '' TERM; while :; do echo output; done");
    spec.grace = SHORT;
    spec.stdout = OutputMode::Collect {
        tail_bytes: 10,
        spill: Some(Spill {
            max_bytes: u64::MAX,
        }),
    };
    let process = fixture.start(spec).await;
    let path = loop {
        match process.tail(OutputStream::Stdout).unwrap().spill_path {
            Some(path) => break path,
            None => tokio::task::yield_now().await,
        }
    };
    let target = fixture.target(path).await;

    // when the handle is dropped, then the file goes with it
    drop(process);
    fixture.world().subprocess().shutdown().await.unwrap();
    assert_eq!(fixture.world().fs().stat(&target).await.unwrap(), None);
}

pub(crate) async fn pages_stay_after_the_end(fixture: &impl Fixture) {
    let process = fixture.start(fixture.script("printf 'a\\342\\202'")).await;
    process.done().await;
    process.wait_for_exit().await.unwrap();

    // Reading takes nothing away, and what was never completed is given at the end.
    for _ in 0..2 {
        let page = process.read_from(OutputStream::Stdout, 0).unwrap();
        assert_eq!((page.text().as_str(), page.next_offset), ("a\u{fffd}", 3));
        let rest = process.read_from(OutputStream::Stdout, 3).unwrap();
        assert_eq!(
            (rest.text().as_str(), rest.next_offset, rest.lossy),
            ("", 3, false)
        );
    }
}

each_provider!([
    piped_streams_carry_bytes_both_ways,
    given_input_is_written_and_closed,
    ignored_input_is_empty,
    input_that_nobody_reads_is_no_error,
    collected_streams_are_apart,
    each_stream_has_a_tail_of_its_own,
    a_tail_is_byte_exact,
    pages_never_split_a_character,
    a_flood_without_line_ends_never_blocks,
    a_spill_holds_the_whole_stream_and_goes_with_its_handle,
    a_spill_over_its_limit_is_discarded,
    a_stream_held_open_by_a_descendant_does_not_delay_the_end,
    a_flooding_descendant_does_not_delay_the_end,
    what_a_descendant_prints_within_the_grace_is_collected,
    a_megabyte_of_random_bytes_passes_each_stream,
    given_input_is_written_as_fast_as_it_is_read,
    two_hundred_fast_exits_lose_no_byte_reading_first,
    two_hundred_fast_exits_lose_no_byte_waiting_first,
    each_mode_gives_its_own_ends_and_no_other,
    an_input_is_a_device_or_a_pipe,
    the_tail_of_a_long_output_has_its_end_and_the_file_its_beginning,
    output_up_to_the_tail_is_not_spilled,
    a_spill_goes_with_a_handle_that_is_dropped_while_it_is_written,
    pages_stay_after_the_end,
]);
