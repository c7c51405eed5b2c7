//! Writing files.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result};
use lspool_world::fs::WriteOptions;

use super::files::TEXT_BYTES;
use crate::Scale;
use crate::ground::Ground;
use crate::report::{Comparison, Unit};
use crate::sampling::{Contender, in_turns};

/// Writing a text of 10 KiB over a file, beside the system calls that this takes at least.
pub(super) async fn write_text(
    ground: &Ground,
    scale: &Scale,
    id: &'static str,
    durable: bool,
) -> Result<Comparison> {
    let text: Arc<str> = "0123456789abcde\n".repeat(TEXT_BYTES / 16).into();
    let paths = ground.files(id, 2, &text)?;
    let [ours, peers]: [PathBuf; 2] = paths.try_into().ok().context("two files were made")?;
    let target = ground.target(&ours).await?;
    let fs = ground.fs();
    let new_text = Arc::clone(&text);
    let ours = Contender::new("lspool", move || {
        let (fs, target, text) = (Arc::clone(&fs), target.clone(), Arc::clone(&new_text));
        async move {
            let options = WriteOptions {
                durable,
                ..WriteOptions::default()
            };
            let begun = Instant::now();
            fs.write_text(&target, &text, &options).await?;
            Ok(begun.elapsed())
        }
    });
    let peer = Contender::new("write, fsync and rename in spawn_blocking", move || {
        let (path, text) = (peers.clone(), Arc::clone(&text));
        async move {
            let begun = Instant::now();
            tokio::task::spawn_blocking(move || plain_write(&path, &text, durable)).await??;
            Ok(begun.elapsed())
        }
    });
    let samples = in_turns(scale.calls, vec![ours, peer]).await?;
    let folder = if durable {
        ", its folder synced too"
    } else {
        ""
    };
    let what = format!("writing a text of 10 KiB over a file{folder}");
    Ok(Comparison::new(id, &what, Unit::Call, samples))
}

/// What an atomic write needs, and nothing more.
fn plain_write(path: &Path, text: &str, durable: bool) -> Result<()> {
    let beside = path.with_extension("new");
    let mut file = File::create(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    if durable {
        let folder = path.parent().context("a file has a folder")?;
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}
