//! Reading and inspecting files.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lspool_world::{FileSystem, Target};
use tokio::task::JoinSet;

use crate::Scale;
use crate::ground::Ground;
use crate::report::{Comparison, Unit};
use crate::sampling::{Contender, in_turns, timed};

/// How many calls of a concurrent sweep are under way at once.
const CONCURRENCY: usize = 16;

/// The length of a text that is read or written: a source file of some size.
pub(super) const TEXT_BYTES: usize = 10 * 1024;

/// One `stat` of each of many files, one after the other and with some under way at once.
pub(super) async fn stat_sweep(ground: &Ground, scale: &Scale) -> Result<Comparison> {
    let paths = ground.files("swept", scale.files, "")?;
    let targets = Arc::new(ground.targets(&paths).await?);
    let paths = Arc::new(paths);
    let of = |name: &str, tasks: usize| {
        let (fs, targets) = (ground.fs(), Arc::clone(&targets));
        Contender::new(name, move || {
            sweep(Arc::clone(&fs), Arc::clone(&targets), tasks)
        })
    };
    let contenders = vec![
        of("lspool, one after the other", 1),
        of("lspool, 16 at once", CONCURRENCY),
        Contender::blocking("std::fs::metadata, one blocking thread", move || {
            plain_sweep(&paths)
        }),
    ];
    let samples = in_turns(scale.sweeps, contenders).await?;
    let count = scale.files;
    Ok(Comparison::new(
        "stat_sweep",
        &format!("stat of {count} files, for each file"),
        Unit::Calls(u32::try_from(count)?),
        samples,
    ))
}

/// The time in which `tasks` tasks inspect all targets, each its share of them.
async fn sweep(
    fs: Arc<dyn FileSystem>,
    targets: Arc<Vec<Target>>,
    tasks: usize,
) -> Result<Duration> {
    let begun = Instant::now();
    let mut sweeping = JoinSet::new();
    for first in 0..tasks {
        let (fs, targets) = (Arc::clone(&fs), Arc::clone(&targets));
        sweeping.spawn(async move {
            for target in targets.iter().skip(first).step_by(tasks) {
                fs.stat(target).await?.context("a file is missing")?;
            }
            Ok(())
        });
    }
    sweeping
        .join_all()
        .await
        .into_iter()
        .collect::<Result<()>>()?;
    Ok(begun.elapsed())
}

/// The time in which this thread inspects all files.
pub(super) fn plain_sweep(paths: &[PathBuf]) -> Result<Duration> {
    timed(|| {
        for path in paths {
            std::fs::metadata(path)?;
        }
        Ok(())
    })
}

/// Reading a text of 10 KiB.
pub(super) async fn read_text(ground: &Ground, scale: &Scale) -> Result<Comparison> {
    let text = "0123456789abcde\n".repeat(TEXT_BYTES / 16);
    let path = ground.files("read", 1, &text)?.remove(0);
    let target = ground.target(&path).await?;
    let fs = ground.fs();
    let ours = Contender::new("lspool", move || {
        let (fs, target) = (Arc::clone(&fs), target.clone());
        async move {
            let begun = Instant::now();
            let read = fs.read_text(&target).await?;
            let taken = begun.elapsed();
            ensure!(read.text.len() == TEXT_BYTES, "the text is not whole");
            Ok(taken)
        }
    });
    let peer = Contender::new("std::fs::read_to_string in spawn_blocking", move || {
        let path = path.clone();
        async move {
            let begun = Instant::now();
            let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await??;
            let taken = begun.elapsed();
            ensure!(read.len() == TEXT_BYTES, "the text is not whole");
            Ok(taken)
        }
    });
    let samples = in_turns(scale.calls, vec![ours, peer]).await?;
    Ok(Comparison::new(
        "read_text",
        "reading a text of 10 KiB",
        Unit::Call,
        samples,
    ))
}
