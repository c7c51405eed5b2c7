//! Starts: what a child gets, many of them, and what becomes of one that is cancelled on the way.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;

use bytes::Bytes;
use lspool_world::{
    EndCause, OutputMode, OutputStream, ProcessHandle, SpawnError, SpawnSpec, StdinMode,
};
use tokio::task::JoinSet;

use crate::fixture::{Fixture, SHORT};

/// A shell's line that prints the numbers of its descriptors from 3 to 255.
const DESCRIPTORS: &str =
    "n=3; while [ $n -lt 256 ]; do [ -e /proc/$$/fd/$n ] && echo $n; n=$((n + 1)); done";

pub(crate) async fn arguments_arrive_as_they_were_given(fixture: &impl Fixture) {
    let arguments = [
        OsString::from("$HOME"),
        "-x".into(),
        "--".into(),
        "".into(),
        "two\nlines\n".into(),
        " blank 'quote' \"double\" \\ *".into(),
        OsString::from_vec(b"\xff\xfe\x80".to_vec()),
    ];
    let script = OsStr::new("printf '%s|' \"$@\"");
    let shell = [
        OsStr::new("/bin/sh"),
        OsStr::new("-c"),
        script,
        OsStr::new("-sh"),
    ];
    for umask in [None, Some(0o027)] {
        let mut spec = fixture.command(&shell);
        spec.launch.argv.extend(arguments.iter().cloned());
        spec.launch.umask = umask;

        let output = fixture.output(spec).await;

        let mut expected = Vec::new();
        for argument in &arguments {
            expected.extend_from_slice(argument.as_encoded_bytes());
            expected.push(b'|');
        }
        assert_eq!(output, expected);
    }
}

pub(crate) async fn the_cwd_is_the_one_that_was_given(fixture: &impl Fixture) {
    let folder = fixture.folder("some folder\nof two lines");
    let mut spec = fixture.command(&[OsStr::new("/bin/pwd"), OsStr::new("-P")]);
    spec.launch.cwd.clone_from(&folder);

    let printed = fixture.output(spec).await;

    assert_eq!(
        printed.strip_suffix(b"\n"),
        Some(folder.as_os_str().as_encoded_bytes())
    );
}

pub(crate) async fn a_mask_of_a_child_is_nobody_elses(fixture: &impl Fixture) {
    let own = fixture.output(fixture.script("umask")).await;
    let mut spec = fixture.script("umask");
    spec.launch.umask = Some(0o123);
    assert_eq!(fixture.output(spec).await, "0123\n");

    assert_eq!(fixture.output(fixture.script("umask")).await, own);
}

pub(crate) async fn a_child_has_its_three_streams_and_no_other_descriptor(fixture: &impl Fixture) {
    // given a process that opens and closes files all the time, and children that hold pipes
    let path = fixture.put("file", b"");
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let opening = std::thread::spawn(move || {
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            drop(
                (0..20)
                    .map(|_| std::fs::File::open(&path))
                    .collect::<Vec<_>>(),
            );
        }
    });
    let mut holder = fixture.script("exec cat");
    (holder.stdin, holder.stdout) = (StdinMode::Pipe, OutputMode::Pipe);
    let holder = fixture.start(holder).await;

    // when children list what they have, then it is nothing beyond their streams
    for stdin in [StdinMode::Ignore, StdinMode::Pipe] {
        for umask in [None, Some(0o027)] {
            let mut spec = fixture.script(DESCRIPTORS);
            spec.stdin = stdin.clone();
            spec.launch.umask = umask;
            assert_eq!(fixture.output(spec).await, "");
        }
    }
    drop(stop);
    opening.join().unwrap();
    holder.terminate().await.unwrap();
}

pub(crate) async fn a_hundred_starts_at_once_are_kept_apart(fixture: &impl Fixture) {
    let specs = (0..100).map(|number| {
        let mut spec = fixture.script("read line; echo \"$line of $1\"; echo \"$1\" >&2");
        spec.launch
            .argv
            .extend(["sh".into(), number.to_string().into()]);
        spec.stdin = StdinMode::Data(Bytes::from(format!("input {number}\n")));
        (number, spec)
    });
    let starts = specs.map(async |(number, spec)| (number, fixture.start(spec).await));

    let processes = futures(starts).await;

    for (number, process) in &processes {
        assert_eq!(process.done().await.exit_code(), Some(0));
        let text = |which| process.tail(which).unwrap().text();
        assert_eq!(
            text(OutputStream::Stdout),
            format!("input {number} of {number}\n")
        );
        assert_eq!(text(OutputStream::Stderr), format!("{number}\n"));
    }
}

/// Drives futures of one task together.
async fn futures<T>(each: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut pending: Vec<_> = each.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut is_ready = true;
        for (future, output) in &mut pending {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(value) => *output = Some(value),
                    std::task::Poll::Pending => is_ready = false,
                }
            }
        }
        if is_ready {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    pending
        .into_iter()
        .filter_map(|(_, output)| output)
        .collect()
}

pub(crate) async fn a_thousand_starts_leave_nothing(fixture: &impl Fixture) {
    // The oracle at the end of every test counts the descriptors.
    for _ in 0..10 {
        let starts = (0..100).map(async |number| {
            let mut spec = fixture.command(&[OsStr::new("/bin/true")]);
            if number % 2 == 0 {
                spec.stdin = StdinMode::Pipe;
                (spec.stdout, spec.stderr) = (OutputMode::Pipe, OutputMode::Ignore);
            }
            fixture.start(spec).await
        });
        for process in futures(starts).await {
            assert_eq!(process.done().await.exit_code(), Some(0));
        }
    }
}

/// What became of a start that was cancelled at some time.
async fn end_of_cancelled(started: Result<Box<dyn ProcessHandle>, SpawnError>) {
    match started {
        Ok(process) => {
            let facts = process.done().await;
            assert_eq!(facts.cause, EndCause::Cancelled);
            process.wait_for_exit().await.unwrap();
        }
        Err(error) => assert_eq!(error.code(), "EXEC_CANCELLED"),
    }
}

pub(crate) async fn a_start_that_is_cancelled_on_the_way_is_refused_or_ended(
    fixture: &impl Fixture,
) {
    for turns in 0..40 {
        let mut spec = fixture.script("exec sleep 1000");
        spec.grace = SHORT;
        let cancel = spec.cancel.clone();
        let subprocess = fixture.world().subprocess();

        let (started, ()) = tokio::join!(subprocess.spawn(spec), async {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            cancel.cancel();
        });

        end_of_cancelled(started).await;
    }
}

pub(crate) async fn a_refused_start_gives_its_marker_back(fixture: &impl Fixture) {
    let spoils: [fn(&mut SpawnSpec); 3] = [
        |spec| spec.launch.cwd = "/nowhere".into(),
        |spec| spec.launch.argv[0] = "/nowhere/program".into(),
        |spec| spec.cancel.cancel(),
    ];
    for spoil in spoils {
        let good = fixture.script("echo started");
        let mut bad = fixture.script("echo started");
        bad.launch.marker.clone_from(&good.launch.marker);
        spoil(&mut bad);
        assert!(fixture.world().subprocess().spawn(bad).await.is_err());

        assert_eq!(fixture.output(good).await, "started\n");
    }
}

pub(crate) async fn a_shutdown_races_with_starts_and_wins<F: Fixture>(_: &F) {
    for turns in 0..10 {
        let ending = F::open().await;
        let mut starts = JoinSet::new();
        for _ in 0..8 {
            let mut spec = ending.script("exec sleep 1000");
            spec.grace = SHORT;
            let subprocess = ending.world().subprocess().clone();
            starts.spawn(async move { subprocess.spawn(spec).await });
        }
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }

        ending.world().subprocess().shutdown().await.unwrap();

        // then whoever was started has been ended, and everyone else is told that the world is closed
        assert_eq!(ending.left_running(), [0; 0]);
        while let Some(started) = starts.join_next().await {
            match started.unwrap() {
                Ok(process) => assert_eq!(process.done().await.cause, EndCause::Shutdown),
                Err(error) => assert_eq!(error.code(), "WORLD_DISPOSED"),
            }
        }
        drop(starts);
        ending.close().await;
    }
}

each_provider!([
    arguments_arrive_as_they_were_given,
    the_cwd_is_the_one_that_was_given,
    a_mask_of_a_child_is_nobody_elses,
    a_child_has_its_three_streams_and_no_other_descriptor,
    a_hundred_starts_at_once_are_kept_apart,
    a_thousand_starts_leave_nothing,
    a_start_that_is_cancelled_on_the_way_is_refused_or_ended,
    a_refused_start_gives_its_marker_back,
    a_shutdown_races_with_starts_and_wins,
]);
