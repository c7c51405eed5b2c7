//! What the local world costs beside what a program without it would call.

mod files;
mod starts;
mod streams;
mod terminals;
mod watching;
mod writes;

use anyhow::{Context as _, Result, bail};

use self::watching::Case;
use crate::Scale;
use crate::ground::Ground;
use crate::report::Comparison;

/// The names of all benches, in the order in which they run.
pub const BENCHES: [&str; 12] = [
    "tail_collection",
    "pipe",
    "spawn_to_exit",
    "terminal_transfer",
    "terminal_spawn_to_exit",
    "stat_sweep",
    "read_text",
    "write_text",
    "write_text_durable",
    "watch_sync_idle",
    "watch_sync_changes",
    "watch_sync_large_tree",
];

/// Runs the benches of the world, all or only the named one, and hands each comparison out as it is made.
///
/// # Errors
/// The first sample that failed.
pub async fn run(
    scale: &Scale,
    only: Option<&str>,
    mut show: impl FnMut(Comparison),
) -> Result<()> {
    let ground = Ground::new()?;
    for id in BENCHES {
        if only.is_none_or(|only| only == id) {
            show(run_one(id, &ground, scale).await.context(id)?);
        }
    }
    ground.close().await
}

async fn run_one(id: &'static str, on: &Ground, scale: &Scale) -> Result<Comparison> {
    match id {
        "tail_collection" => streams::tail_collection(on, scale).await,
        "pipe" => streams::pipe(on, scale).await,
        "spawn_to_exit" => starts::spawn_to_exit(on, scale).await,
        "terminal_transfer" => terminals::transfer(on, scale).await,
        "terminal_spawn_to_exit" => terminals::spawn_to_exit(on, scale).await,
        "stat_sweep" => files::stat_sweep(on, scale).await,
        "read_text" => files::read_text(on, scale).await,
        "write_text" => writes::write_text(on, scale, id, false).await,
        "write_text_durable" => writes::write_text(on, scale, id, true).await,
        "watch_sync_idle" => watching::sync(on, scale, id, Case::Idle).await,
        "watch_sync_changes" => watching::sync(on, scale, id, Case::Changes).await,
        "watch_sync_large_tree" => watching::sync(on, scale, id, Case::LargeTree).await,
        other => bail!("{other} is no bench of the world"),
    }
}
