//! Bulk output of a process, through a pipe and into a tail.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lspool_world::{OutputMode, OutputStream, Subprocess};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::Scale;
use crate::ground::{self, Ground};
use crate::machine;
use crate::report::{Comparison, Unit};
use crate::sampling::{Contender, in_turns};

/// The buffer of every reader, lspool's own too.
pub(super) const BUFFER_BYTES: usize = 64 * 1024;

/// How much of a collected stream is kept.
const TAIL_BYTES: usize = 1024 * 1024;

/// How much longer than through the peer a transfer may take.
const TARGET: f64 = 1.2;

/// How many times as long as the short stream the long one is, whose peaks of memory are shown.
const GROWTH: u64 = 16;

/// The whole output of a process through a piped standard output.
pub(super) async fn pipe(ground: &Ground, scale: &Scale) -> Result<Comparison> {
    let bytes = scale.pipe_bytes;
    let subprocess = ground.subprocess();
    let ours = Contender::new("lspool, piped", move || {
        piped(Arc::clone(&subprocess), bytes)
    });
    let samples = in_turns(scale.transfers, vec![ours, peer(bytes)]).await?;
    Ok(Comparison::new(
        "pipe",
        &format!("{bytes} bytes through a piped standard output, read by 64 KiB"),
        Unit::Bytes(bytes),
        samples,
    )
    .target(TARGET))
}

/// The whole output of a process collected into a tail, beside reading it and keeping nothing; with the peak memory of a
/// short and of a long stream, which does not grow with the stream.
pub(super) async fn tail_collection(ground: &Ground, scale: &Scale) -> Result<Comparison> {
    let bytes = scale.pipe_bytes;
    // First the short stream: memory that is free but not given back would hide what is taken.
    let peaks = [
        peak_while_collecting(ground, bytes / GROWTH).await?,
        peak_while_collecting(ground, bytes).await?,
    ];
    let subprocess = ground.subprocess();
    let ours = Contender::new("lspool, collected into a tail of 1 MiB", move || {
        collected(Arc::clone(&subprocess), bytes)
    });
    let samples = in_turns(scale.transfers, vec![ours, peer(bytes)]).await?;
    let what = format!("{bytes} bytes of output collected into a tail");
    let comparison = Comparison::new("tail_collection", &what, Unit::Bytes(bytes), samples);
    Ok(peaks.into_iter().fold(comparison, Comparison::note))
}

/// The peak memory while so many bytes are collected, beyond what this process held before.
async fn peak_while_collecting(ground: &Ground, bytes: u64) -> Result<String> {
    let before = machine::reset_peak_memory()?;
    collected(ground.subprocess(), bytes).await?;
    let taken = machine::peak_memory()?.saturating_sub(before);
    Ok(format!(
        "peak memory while {bytes} bytes are collected: {} KiB more than before",
        taken / 1024
    ))
}

/// A command that writes so many bytes.
fn flood(bytes: u64) -> [String; 4] {
    ["/usr/bin/head", "-c", &bytes.to_string(), "/dev/zero"].map(str::to_owned)
}

async fn piped(subprocess: Arc<dyn Subprocess>, bytes: u64) -> Result<Duration> {
    let flood = flood(bytes);
    let begun = Instant::now();
    let process = subprocess
        .spawn(ground::spec(
            &flood.each_ref().map(String::as_str),
            OutputMode::Pipe,
        ))
        .await?;
    let stdout = process.take_stdout().context("the output is not piped")?;
    let read = drain(stdout).await?;
    let exit = process.done().await;
    let taken = begun.elapsed();
    process.wait_for_exit().await?;
    ensure!(
        read == bytes && exit.exit_code() == Some(0),
        "{read} bytes of {bytes} came, then {exit:?}"
    );
    Ok(taken)
}

async fn collected(subprocess: Arc<dyn Subprocess>, bytes: u64) -> Result<Duration> {
    let flood = flood(bytes);
    let mode = OutputMode::Collect {
        tail_bytes: TAIL_BYTES,
        spill: None,
    };
    let begun = Instant::now();
    let process = subprocess
        .spawn(ground::spec(&flood.each_ref().map(String::as_str), mode))
        .await?;
    process.done().await;
    let taken = begun.elapsed();
    process.wait_for_exit().await?;
    let tail = process
        .tail(OutputStream::Stdout)
        .context("the output is not collected")?;
    ensure!(
        tail.total_bytes == bytes,
        "{} bytes of {bytes} came",
        tail.total_bytes
    );
    Ok(taken)
}

fn peer(bytes: u64) -> Contender {
    Contender::new("tokio::process, read and dropped", move || async move {
        let flood = flood(bytes);
        let begun = Instant::now();
        let mut child = ground::peer_command(&flood.each_ref().map(String::as_str))
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().context("the output is not piped")?;
        let read = drain(stdout).await?;
        let status = child.wait().await?;
        let taken = begun.elapsed();
        ensure!(
            read == bytes && status.success(),
            "{read} bytes of {bytes} came, then {status}"
        );
        Ok(taken)
    })
}

/// Reads to the end and gives the number of bytes.
pub(super) async fn drain(mut output: impl AsyncRead + Unpin) -> Result<u64> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut total = 0;
    loop {
        let length = output.read(&mut buffer).await?;
        if length == 0 {
            return Ok(total);
        }
        total += length as u64;
    }
}
