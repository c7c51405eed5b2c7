//! Every asynchronous operation, dropped at every await point: what was not done leaves no trace, and what it was done to
//! goes on as if it had not been asked.

use std::cell::Cell;
use std::ffi::OsStr;
use std::path::Path;

use lspool_world::fs::{
    ChangeBatch, EditOptions, EditRequest, GuardedFiles, PolicyChain, WatchFilter, WriteOptions,
    writable_target,
};
use lspool_world::subprocess::{TerminalHandle, TerminalSignal};
use lspool_world::{
    EndCause, ProcessHandle, SandboxMode, SandboxPolicy, SpawnSpec, TerminalSize, TerminalSpec,
};

use crate::fixture::{Fixture, LONG, SHORT};
use crate::oracle::eventually;
use crate::poll::{PollN, each_drop};

/// Drops `operation` at each await point. It only looks, so there is nothing to find afterwards but that it still works.
async fn drop_everywhere<T, E: std::fmt::Debug>(mut operation: impl AsyncFnMut() -> Result<T, E>) {
    each_drop(async |at: PollN| match at.drive(operation()).await {
        Some(result) => {
            result.unwrap();
            true
        }
        None => false,
    })
    .await;
    operation().await.unwrap();
}

pub(crate) async fn a_look_at_files_can_be_dropped(fixture: &impl Fixture) {
    let fs = fixture.world().fs();
    fixture.put("folder/file", "text ".repeat(50_000).as_bytes());
    fixture.link("folder", "alias");
    let folder = fixture.target("folder").await;
    let file = fixture.target("alias/file").await;
    let policy = SandboxPolicy {
        mode: SandboxMode::WorkspaceWrite,
        network: false,
        writable_roots: vec![fixture.scratch().to_path_buf()],
    };

    drop_everywhere(async || fs.resolve(Path::new("alias/new"), fixture.scratch()).await).await;
    drop_everywhere(async || fs.encloses(&file, &folder).await).await;
    drop_everywhere(async || fs.stat(&file).await).await;
    drop_everywhere(async || fs.lstat(Path::new("alias"), fixture.scratch()).await).await;
    drop_everywhere(async || fs.read_text(&file).await).await;
    drop_everywhere(async || fs.stream_text(&file).await).await;
    drop_everywhere(async || fs.read_bytes(&file, 1_000_000).await).await;
    drop_everywhere(async || fs.list_dir(&folder).await).await;
    drop_everywhere(async || writable_target(&**fs, &file, &policy).await).await;
    if fs.facts().ranged_reads {
        drop_everywhere(async || fs.read_range(&file, 100_000, 50_000).await).await;
    }
}

pub(crate) async fn a_stream_of_text_can_be_dropped(fixture: &impl Fixture) {
    let fs = fixture.world().fs();
    fixture.put("file", "text ".repeat(50_000).as_bytes());
    let file = fixture.target("file").await;

    drop_everywhere(async || {
        let mut stream = fs.stream_text(&file).await?;
        while stream.next().await?.is_some() {}
        Ok::<_, lspool_world::FsError>(())
    })
    .await;
}

/// Waits until nothing but `file` stands in its folder, and gives its text. A change that was dropped may still be on
/// its way.
async fn settled_text(fixture: &impl Fixture, file: &str) -> String {
    let fs = fixture.world().fs();
    let target = fixture.target(file).await;
    let folder = fixture.target(Path::new(file).parent().unwrap()).await;
    let name = Path::new(file).file_name().unwrap();
    // Changes of one file are made one after the other, so this one comes when the dropped one is over.
    let nothing = EditRequest {
        old_text: "no such text".to_owned(),
        new_text: String::new(),
        replace_all: false,
    };
    let refused = fs
        .edit_text(&target, &nothing, &EditOptions::default())
        .await
        .unwrap_err();
    assert_eq!(refused.code(), "FS_EDIT_NOT_FOUND");
    eventually("nothing but the file is left", async || {
        let entries = fs.list_dir(&folder).await.unwrap();
        entries.iter().all(|entry| entry.name == name)
    })
    .await;
    fs.read_text(&target).await.unwrap().text
}

pub(crate) async fn a_dropped_write_leaves_the_old_text_or_the_new(fixture: &impl Fixture) {
    let fs = fixture.world().fs();
    if !fs.facts().mutation {
        return;
    }
    let (chain, unconfined) = (PolicyChain::default(), SandboxPolicy::unconfined());
    let guarded = GuardedFiles {
        fs: &**fs,
        chain: &chain,
        actor: "a",
        sandbox: &unconfined,
    };
    let (old, new) = ("old ".repeat(100_000), "new ".repeat(100_000));
    for durable in [false, true] {
        each_drop(async |at| {
            fixture.put("folder/file", old.as_bytes());
            let target = fixture.target("folder/file").await;
            let options = WriteOptions {
                durable,
                ..WriteOptions::default()
            };

            let written = at.drive(guarded.write_text(&target, &new, &options)).await;

            let text = settled_text(fixture, "folder/file").await;
            match &written {
                Some(outcome) => {
                    outcome.as_ref().unwrap();
                    assert!(text == new);
                }
                None => assert!(text == old || text == new),
            }
            written.is_some()
        })
        .await;
    }
}

pub(crate) async fn a_dropped_edit_leaves_the_old_text_or_the_new(fixture: &impl Fixture) {
    let fs = fixture.world().fs();
    if !fs.facts().mutation {
        return;
    }
    let edit = EditRequest {
        old_text: "old".to_owned(),
        new_text: "new".to_owned(),
        replace_all: true,
    };
    let (old, new) = ("old ".repeat(50_000), "new ".repeat(50_000));
    each_drop(async |at| {
        fixture.put("folder/file", old.as_bytes());
        let target = fixture.target("folder/file").await;

        let edited = at
            .drive(fs.edit_text(&target, &edit, &EditOptions::default()))
            .await;

        let text = settled_text(fixture, "folder/file").await;
        match &edited {
            Some(outcome) => {
                outcome.as_ref().unwrap();
                assert!(text == new);
            }
            None => assert!(text == old || text == new),
        }
        edited.is_some()
    })
    .await;
}

pub(crate) async fn a_dropped_watch_leaves_nothing(fixture: &impl Fixture) {
    let fs = fixture.world().fs();
    if !fs.facts().watch {
        return;
    }
    fixture.folder("folder/deeper");
    let folder = fixture.target("folder").await;
    let filter = WatchFilter::new(["**"]).unwrap();

    drop_everywhere(async || fs.watch(&folder, &filter).await).await;
}

fn tells_of(batch: &ChangeBatch, path: &Path) -> bool {
    batch.lost || batch.changes.iter().any(|change| change.path == path)
}

pub(crate) async fn a_dropped_wait_for_changes_loses_none(fixture: &impl Fixture) {
    let fs = fixture.world().fs();
    if !fs.facts().watch {
        return;
    }
    fixture.folder("folder");
    let folder = fixture.target("folder").await;
    let filter = WatchFilter::new(["**"]).unwrap();
    let mut feed = fs.watch(&folder, &filter).await.unwrap();
    let number = Cell::new(0);
    for is_barrier in [false, true] {
        each_drop(async |at| {
            number.set(number.get() + 1);
            let path = fixture.put(&format!("folder/{}", number.get()), b"");

            let told = if is_barrier {
                at.drive(feed.sync()).await.map(|batch| batch.unwrap())
            } else {
                at.drive(feed.next())
                    .await
                    .map(|batch| batch.unwrap().unwrap())
            };

            let rest = feed.sync().await.unwrap();
            assert!(
                told.as_ref().is_some_and(|batch| tells_of(batch, &path)) || tells_of(&rest, &path),
                "{told:?}, then {rest:?}"
            );
            told.is_some()
        })
        .await;
    }
}

pub(crate) async fn a_look_up_of_programs_can_be_dropped(fixture: &impl Fixture) {
    let subprocess = fixture.world().subprocess();
    let environment = fixture.script("").launch.environment;

    drop_everywhere(async || {
        subprocess
            .resolve_executable(OsStr::new("sh"), &environment, fixture.scratch())
            .await
    })
    .await;
    drop_everywhere(async || subprocess.executable_identity(Path::new("/bin/sh")).await).await;
}

/// Waits until no process of this fixture runs.
async fn nothing_runs(fixture: &impl Fixture) {
    eventually("no process is left", async || {
        fixture.left_running().is_empty()
    })
    .await;
}

pub(crate) async fn a_dropped_start_leaves_nothing(fixture: &impl Fixture) {
    let subprocess = fixture.world().subprocess();
    each_drop(async |at| {
        let mut spec = fixture.script("setsid sleep 1000 & exec sleep 1000");
        spec.grace = SHORT;

        let started = at.drive(subprocess.spawn(spec)).await;

        let is_started = started.is_some();
        // The handle of a start that came to its end goes at the same place as one that nobody took.
        drop(started);
        nothing_runs(fixture).await;
        is_started
    })
    .await;
}

pub(crate) async fn a_start_that_is_cancelled_at_any_step_leaves_nothing(fixture: &impl Fixture) {
    let subprocess = fixture.world().subprocess();
    each_drop(async |at| {
        let mut spec = fixture.script("setsid sleep 1000 & exec sleep 1000");
        spec.grace = SHORT;
        let cancel = spec.cancel.clone();
        let mut start = subprocess.spawn(spec);

        // when the cancellation comes where a drop would, and the start goes on
        let in_time = at.drive(start.as_mut()).await;
        cancel.cancel();
        let is_started = in_time.is_some();
        let started = match in_time {
            Some(started) => started,
            None => start.await,
        };

        // then it is refused, or what was started ends for that reason
        match started {
            Ok(process) => assert_eq!(process.done().await.cause, EndCause::Cancelled),
            Err(refused) => assert_eq!(refused.code(), "EXEC_CANCELLED"),
        }
        nothing_runs(fixture).await;
        is_started
    })
    .await;
}

/// Drops `operation` on a fresh process at each await point; afterwards the process has ended, and can be ended again.
async fn on_a_process(
    fixture: &impl Fixture,
    script: &str,
    operation: impl AsyncFn(&dyn ProcessHandle),
) {
    each_drop(async |at: PollN| {
        let mut spec = fixture.script(script);
        spec.grace = SHORT;
        let process = fixture.start(spec).await;

        let is_done = at.drive(operation(&*process)).await.is_some();

        let facts = process.terminate().await.unwrap();
        assert!(!fixture.exists(process.pid().unwrap()));
        assert_eq!(process.done().await, facts);
        process.wait_for_exit().await.unwrap();
        is_done
    })
    .await;
}

pub(crate) async fn waits_for_a_process_can_be_dropped(fixture: &impl Fixture) {
    let script = "sleep 0.01 & exit 3";
    on_a_process(fixture, script, async |process| {
        process.done().await;
    })
    .await;
    on_a_process(fixture, script, async |process| {
        process.wait_for_exit().await.unwrap();
    })
    .await;
    on_a_process(fixture, script, async |process| {
        process.usage().await;
    })
    .await;
}

pub(crate) async fn a_dropped_termination_can_be_repeated(fixture: &impl Fixture) {
    for script in [
        "exec sleep 1000",
        "trap '' TERM; setsid sleep 1000 & while :; do sleep 0.05; done",
    ] {
        on_a_process(fixture, script, async |process| {
            process.terminate().await.unwrap();
        })
        .await;
    }
}

pub(crate) async fn a_dropped_shutdown_can_be_repeated<F: Fixture>(_: &F) {
    each_drop(async |at| {
        let ending = F::open().await;
        let mut spec = ending.script("trap '' TERM; echo; while :; do sleep 0.05; done");
        spec.grace = SHORT;
        let process = ending.start(spec).await;

        let ended = at.drive(ending.world().subprocess().shutdown()).await;

        let is_ended = ended.map(Result::unwrap).is_some();
        drop(process);
        ending.close().await;
        is_ended
    })
    .await;
}

fn terminal(fixture: &impl Fixture, script: &str) -> TerminalSpec {
    let SpawnSpec { launch, cancel, .. } = fixture.script(script);
    TerminalSpec {
        launch,
        size: TerminalSize {
            rows: 40,
            columns: 160,
        },
        grace: SHORT,
        protects_program: false,
        cancel,
    }
}

pub(crate) async fn a_dropped_allocation_of_a_terminal_leaves_nothing(fixture: &impl Fixture) {
    let subprocess = fixture.world().subprocess();
    if !subprocess.facts().terminals {
        return;
    }
    each_drop(async |at| {
        let spec = terminal(fixture, "sleep 1000 & exec sleep 1000");

        let opened = at.drive(subprocess.spawn_terminal(spec)).await;

        let is_opened = opened.is_some();
        drop(opened);
        nothing_runs(fixture).await;
        is_opened
    })
    .await;
}

/// Drops `operation` on a fresh terminal at each await point; afterwards the terminal can be ended.
async fn on_a_terminal(fixture: &impl Fixture, operation: impl AsyncFn(&dyn TerminalHandle)) {
    let subprocess = fixture.world().subprocess();
    if !subprocess.facts().terminals {
        return;
    }
    each_drop(async |at: PollN| {
        let spec = terminal(fixture, "exec cat");
        let session = subprocess.spawn_terminal(spec).await.unwrap();

        let is_done = at.drive(operation(&*session)).await.is_some();

        let facts = session.terminate().await.unwrap();
        assert_eq!(session.done().await, facts);
        nothing_runs(fixture).await;
        is_done
    })
    .await;
}

pub(crate) async fn calls_of_a_terminal_can_be_dropped(fixture: &impl Fixture) {
    on_a_terminal(fixture, async |session| {
        session.write(b"text\n").await.unwrap();
    })
    .await;
    on_a_terminal(fixture, async |session| {
        let size = TerminalSize {
            rows: 10,
            columns: 20,
        };
        session.resize(size).await.unwrap();
    })
    .await;
    on_a_terminal(fixture, async |session| {
        session.inspect_foreground().await;
    })
    .await;
    on_a_terminal(fixture, async |session| {
        session.usage().await;
    })
    .await;
}

pub(crate) async fn a_dropped_signal_to_a_terminal_is_sent_or_not(fixture: &impl Fixture) {
    on_a_terminal(fixture, async |session| {
        // The program may not have become the foreground yet, which is an answer too.
        drop(session.signal_foreground(TerminalSignal::Interrupt).await);
    })
    .await;
    on_a_terminal(fixture, async |session| {
        drop(session.write(b"\x04").await);
        session.done().await;
    })
    .await;
}

pub(crate) async fn a_dropped_end_of_a_terminal_can_be_repeated(fixture: &impl Fixture) {
    on_a_terminal(fixture, async |session| {
        session.terminate().await.unwrap();
    })
    .await;
}

pub(crate) async fn a_dropped_read_of_output_loses_nothing(fixture: &impl Fixture) {
    use tokio::io::AsyncReadExt;
    let text = "0123456789".repeat(20_000);
    fixture.put("text", text.as_bytes());
    let mut spec = fixture.script("sleep 0.05; exec cat text");
    (spec.stdout, spec.grace) = (lspool_world::OutputMode::Pipe, LONG);
    let process = fixture.start(spec).await;
    let mut output = process.take_stdout().unwrap();
    let mut read = Vec::new();

    // Each attempt goes on where the one before was dropped, to the end of the output.
    each_drop(async |at| {
        let mut piece = [0; 100];
        match at.drive(output.read(&mut piece)).await {
            Some(length) => read.extend_from_slice(&piece[..length.unwrap()]),
            None => return false,
        }
        output.read_to_end(&mut read).await.unwrap();
        true
    })
    .await;

    assert!(read == text.as_bytes());
    process.wait_for_exit().await.unwrap();
}

each_provider!([
    a_look_at_files_can_be_dropped,
    a_stream_of_text_can_be_dropped,
    a_dropped_write_leaves_the_old_text_or_the_new,
    a_dropped_edit_leaves_the_old_text_or_the_new,
    a_dropped_watch_leaves_nothing,
    a_dropped_wait_for_changes_loses_none,
    a_look_up_of_programs_can_be_dropped,
    a_dropped_start_leaves_nothing,
    a_start_that_is_cancelled_at_any_step_leaves_nothing,
    waits_for_a_process_can_be_dropped,
    a_dropped_termination_can_be_repeated,
    a_dropped_shutdown_can_be_repeated,
    a_dropped_allocation_of_a_terminal_leaves_nothing,
    calls_of_a_terminal_can_be_dropped,
    a_dropped_signal_to_a_terminal_is_sent_or_not,
    a_dropped_end_of_a_terminal_can_be_repeated,
    a_dropped_read_of_output_loses_nothing,
]);
