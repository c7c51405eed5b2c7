//! The barrier of a change feed: what it costs to know that nothing before it is missing.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use lspool_world::fs::{ChangeFeed, WatchFilter};
use tokio::sync::Mutex;

use super::files::plain_sweep;
use crate::Scale;
use crate::ground::Ground;
use crate::report::{Comparison, Unit};
use crate::sampling::{Contender, in_turns};

/// How many files of a small folder change before a barrier, and how many lie in one folder of a large tree.
const SOME: usize = 100;

/// What happens between two barriers, and in how large a tree.
#[derive(Clone, Copy)]
pub(super) enum Case {
    /// Nothing, in a folder of 100 files.
    Idle,
    /// 100 files are written.
    Changes,
    /// Nothing, in a tree of many files.
    LargeTree,
}

/// One `sync` of a feed, beside the only way to know as much without one: to look at every file.
pub(super) async fn sync(
    ground: &Ground,
    scale: &Scale,
    id: &'static str,
    case: Case,
) -> Result<Comparison> {
    let folders = match case {
        Case::Idle | Case::Changes => 1,
        Case::LargeTree => scale.files.div_ceil(SOME),
    };
    let mut paths: Vec<PathBuf> = Vec::new();
    for number in 0..folders {
        paths.extend(ground.files(&format!("{id}/folder-{number}"), SOME, "text\n")?);
    }
    let count = paths.len();
    let root = paths[0]
        .ancestors()
        .nth(2)
        .context("a file lies in a folder of the tree")?;
    let root = ground.target(root).await?;
    let filter = WatchFilter::new(["**/*.txt"])?;
    let feed = Arc::new(Mutex::new(ground.fs().watch(&root, &filter).await?));
    let written = Arc::new(match case {
        Case::Changes => paths.clone(),
        Case::Idle | Case::LargeTree => Vec::new(),
    });
    let ours = Contender::new("lspool, sync of a feed", move || {
        synced(Arc::clone(&feed), Arc::clone(&written))
    });
    let name = format!("stat of its {count} files, one blocking thread");
    let peer = Contender::blocking(&name, move || plain_sweep(&paths));
    let samples = in_turns(scale.calls, vec![ours, peer]).await?;
    let what = match case {
        Case::Idle => "watch.sync, nothing to report".to_owned(),
        Case::Changes => format!("watch.sync after {SOME} files were written"),
        Case::LargeTree => format!("watch.sync, nothing to report of {count} files"),
    };
    Ok(Comparison::new(id, &what, Unit::Call, samples))
}

/// Writes the files, and then measures one barrier, which must report them all.
async fn synced(
    feed: Arc<Mutex<Box<dyn ChangeFeed>>>,
    written: Arc<Vec<PathBuf>>,
) -> Result<std::time::Duration> {
    for path in written.iter() {
        std::fs::write(path, "other text\n")?;
    }
    let mut feed = feed.lock().await;
    let begun = Instant::now();
    let batch = feed.sync().await?;
    let taken = begun.elapsed();
    let changed: std::collections::BTreeSet<_> =
        batch.changes.iter().map(|change| &change.path).collect();
    ensure!(
        !batch.lost && changed.len() == written.len(),
        "{} of {} changes were reported",
        changed.len(),
        written.len()
    );
    Ok(taken)
}
