//! Streams of processes.

use bytes::Bytes;
use lspool_world::{OutputMode, OutputStream, ProcessHandle, Spill, StdinMode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::fixture::{Fixture, SHORT};

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

each_provider!([
    piped_streams_carry_bytes_both_ways,
    given_input_is_written_and_closed,
    ignored_input_is_empty,
    input_that_nobody_reads_is_no_error,
    collected_streams_are_apart,
    a_tail_is_byte_exact,
    pages_never_split_a_character,
    a_flood_without_line_ends_never_blocks,
    a_spill_holds_the_whole_stream_and_goes_with_its_handle,
    a_spill_over_its_limit_is_discarded,
    a_stream_held_open_by_a_descendant_does_not_delay_the_end,
]);
