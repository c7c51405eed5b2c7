//! Programs on a terminal.

use std::io::Read as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lspool_world::{Subprocess, TerminalSize, TerminalSpec};
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use tokio_util::sync::CancellationToken;

use super::streams::{BUFFER_BYTES, drain};
use crate::Scale;
use crate::ground::{self, Ground};
use crate::report::{Comparison, Unit};
use crate::sampling::{Contender, in_turns};

const TRUE: &str = "exec /bin/true";

const ROWS: u16 = 24;
const COLUMNS: u16 = 80;

/// A program that ends at once, from its start on a terminal to its exit.
pub(super) async fn spawn_to_exit(ground: &Ground, scale: &Scale) -> Result<Comparison> {
    let samples = in_turns(scale.starts, contenders(ground, TRUE.to_owned(), 0)).await?;
    Ok(Comparison::new(
        "terminal_spawn_to_exit",
        "start of a shell that becomes /bin/true on a terminal, to its exit",
        Unit::Call,
        samples,
    ))
}

/// Bulk output through a terminal in raw mode, where every byte comes as it was written.
pub(super) async fn transfer(ground: &Ground, scale: &Scale) -> Result<Comparison> {
    let bytes = scale.terminal_bytes;
    let script = format!("stty raw -echo && exec head -c {bytes} /dev/zero");
    let samples = in_turns(scale.transfers, contenders(ground, script, bytes)).await?;
    Ok(Comparison::new(
        "terminal_transfer",
        &format!("{bytes} bytes through a terminal in raw mode"),
        Unit::Bytes(bytes),
        samples,
    ))
}

/// Both run the script and read its output, which must have so many bytes.
fn contenders(ground: &Ground, script: String, bytes: u64) -> Vec<Contender> {
    let subprocess = ground.subprocess();
    let peers_script = script.clone();
    vec![
        Contender::new("lspool", move || {
            ours(Arc::clone(&subprocess), script.clone(), bytes)
        }),
        Contender::blocking("portable-pty, a blocking reader", move || {
            peer(&peers_script, bytes)
        }),
    ]
}

async fn ours(subprocess: Arc<dyn Subprocess>, script: String, bytes: u64) -> Result<Duration> {
    let spec = TerminalSpec {
        launch: ground::launch(&["/bin/sh", "-c", &script]),
        size: TerminalSize {
            rows: ROWS,
            columns: COLUMNS,
        },
        protects_program: false,
        grace: ground::GRACE,
        cancel: CancellationToken::new(),
    };
    let begun = Instant::now();
    let terminal = subprocess.spawn_terminal(spec).await?;
    let output = terminal.take_output().context("the output was taken")?;
    let read = drain(output).await?;
    let exit = terminal.done().await;
    let taken = begun.elapsed();
    terminal.terminate().await?;
    ensure!(
        read == bytes && exit.exit_code() == Some(0),
        "{read} bytes of {bytes} came, then {exit:?}"
    );
    Ok(taken)
}

fn peer(script: &str, bytes: u64) -> Result<Duration> {
    let (name, value) = ground::SEARCH_PATH;
    let mut command = CommandBuilder::new("/bin/sh");
    command.args(["-c", script]);
    command.cwd(ground::FOLDER);
    command.env_clear();
    command.env(name, value);
    let begun = Instant::now();
    let pair = native_pty_system().openpty(PtySize {
        rows: ROWS,
        cols: COLUMNS,
        ..PtySize::default()
    })?;
    let mut child = pair.slave.spawn_command(command)?;
    drop(pair.slave);
    let mut reader = pair.master.try_clone_reader()?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut read = 0;
    // On Linux a terminal that nobody has open any more answers with an error, not with the end.
    while let Ok(length) = reader.read(&mut buffer)
        && length > 0
    {
        read += length as u64;
    }
    let status = child.wait()?;
    let taken = begun.elapsed();
    ensure!(
        read == bytes && status.success(),
        "{read} bytes of {bytes} came, then {status}"
    );
    Ok(taken)
}
