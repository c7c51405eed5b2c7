//! What the local world costs beside what a program without it would call.

mod files;
mod starts;
mod streams;

use anyhow::{Context as _, Result};

use crate::Scale;
use crate::ground::Ground;
use crate::report::Comparison;

/// The names of all benches, in the order in which they run.
pub const BENCHES: [&str; 6] = [
    "tail_memory",
    "tail_collection",
    "pipe",
    "spawn_to_exit",
    "stat_sweep",
    "read_text",
];

/// Runs all benches of the world and hands each comparison out as it is made.
///
/// # Errors
/// The first sample that failed.
pub async fn run(scale: &Scale, mut show: impl FnMut(Comparison)) -> Result<()> {
    let ground = Ground::new()?;
    // First, while this process holds little: memory that is free but not given back would hide what is taken.
    show(
        streams::tail_memory(&ground, scale)
            .await
            .context("tail_memory")?,
    );
    show(
        streams::tail_collection(&ground, scale)
            .await
            .context("tail_collection")?,
    );
    show(streams::pipe(&ground, scale).await.context("pipe")?);
    show(
        starts::spawn_to_exit(&ground, scale)
            .await
            .context("spawn_to_exit")?,
    );
    show(
        files::stat_sweep(&ground, scale)
            .await
            .context("stat_sweep")?,
    );
    show(
        files::read_text(&ground, scale)
            .await
            .context("read_text")?,
    );
    ground.close().await
}
