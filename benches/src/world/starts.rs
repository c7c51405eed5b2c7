//! From the start of a process to its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use lspool_world::{OutputMode, Subprocess};

use crate::Scale;
use crate::ground::{self, Ground};
use crate::report::{Comparison, Unit};
use crate::sampling::{Contender, in_turns};

const TRUE: &[&str] = &["/bin/true"];

/// How much more than the peer a start may cost, up to the exit of the process.
const TARGET: f64 = 1.3;

/// What of an end is waited for in the measured time.
#[derive(Clone, Copy)]
enum End {
    /// The exit of the process.
    Exit,
    /// The proof that nothing of its tree is left.
    Proof,
}

/// `/bin/true` from its start to its exit, and to the proof that its tree is gone.
pub(super) async fn spawn_to_exit(ground: &Ground, scale: &Scale) -> Result<Comparison> {
    let mut contenders = vec![
        ours("lspool, to the exit", ground.subprocess(), End::Exit),
        ours(
            "lspool, to the proved end of the tree",
            ground.subprocess(),
            End::Proof,
        ),
    ];
    if let Some(grouped) = ground.grouped_subprocess() {
        contenders.push(ours(
            "lspool with a control group, to the exit",
            Arc::clone(&grouped),
            End::Exit,
        ));
        contenders.push(ours(
            "lspool with a control group, to the end",
            grouped,
            End::Proof,
        ));
    }
    contenders.push(Contender::new("tokio::process, to the exit", peer));
    let samples = in_turns(scale.starts, contenders).await?;
    let comparison = Comparison::new(
        "spawn_to_exit",
        "start of /bin/true to its end",
        Unit::Call,
        samples,
    )
    .target(TARGET);
    Ok(if ground.grouped_subprocess().is_some() {
        comparison
    } else {
        comparison.note("no control group can be made here".to_owned())
    })
}

fn ours(name: &str, subprocess: Arc<dyn Subprocess>, end: End) -> Contender {
    Contender::new(name, move || {
        let subprocess = Arc::clone(&subprocess);
        async move {
            let begun = Instant::now();
            let process = subprocess
                .spawn(ground::spec(TRUE, OutputMode::Ignore))
                .await?;
            let exit = process.done().await;
            let to_exit = begun.elapsed();
            // Waited for in any case, so that no contender pays for the end of another's process.
            process.wait_for_exit().await?;
            ensure!(exit.exit_code() == Some(0), "it ended otherwise: {exit:?}");
            Ok(match end {
                End::Exit => to_exit,
                End::Proof => begun.elapsed(),
            })
        }
    })
}

async fn peer() -> Result<Duration> {
    let begun = Instant::now();
    let status = ground::peer_command(TRUE).spawn()?.wait().await?;
    let taken = begun.elapsed();
    ensure!(status.success(), "it ended otherwise: {status}");
    Ok(taken)
}
