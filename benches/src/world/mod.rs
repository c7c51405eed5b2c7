//! What the local world costs beside what a program without it would call.

mod files;
mod starts;
mod streams;
mod watching;
mod writes;

use anyhow::{Context as _, Result};

use self::watching::Case;
use crate::Scale;
use crate::ground::Ground;
use crate::report::Comparison;

/// The names of all benches, in the order in which they run.
pub const BENCHES: [&str; 10] = [
    "tail_collection",
    "pipe",
    "spawn_to_exit",
    "stat_sweep",
    "read_text",
    "write_text",
    "write_text_durable",
    "watch_sync_idle",
    "watch_sync_changes",
    "watch_sync_large_tree",
];

/// Runs all benches of the world and hands each comparison out as it is made.
///
/// # Errors
/// The first sample that failed.
pub async fn run(scale: &Scale, mut show: impl FnMut(Comparison)) -> Result<()> {
    let ground = Ground::new()?;
    let on = &ground;
    show(named("tail_collection", streams::tail_collection(on, scale)).await?);
    show(named("pipe", streams::pipe(on, scale)).await?);
    show(named("spawn_to_exit", starts::spawn_to_exit(on, scale)).await?);
    show(named("stat_sweep", files::stat_sweep(on, scale)).await?);
    show(named("read_text", files::read_text(on, scale)).await?);
    for (id, durable) in [("write_text", false), ("write_text_durable", true)] {
        show(named(id, writes::write_text(on, scale, id, durable)).await?);
    }
    for (id, case) in [
        ("watch_sync_idle", Case::Idle),
        ("watch_sync_changes", Case::Changes),
        ("watch_sync_large_tree", Case::LargeTree),
    ] {
        show(named(id, watching::sync(on, scale, id, case)).await?);
    }
    ground.close().await
}

/// A bench whose failure says its name.
async fn named(id: &str, bench: impl Future<Output = Result<Comparison>>) -> Result<Comparison> {
    bench.await.with_context(|| id.to_owned())
}
