//! What a message costs more when lspool stands between an editor and its server.
//!
//! The server is the scripted one, which answers a request with its own params. It is asked directly, through the shared
//! daemon, and through an lspool that has no daemon.

mod link;

use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, bail, ensure};
use lspool_testkit::scenario_format::{Action, Body};
use lspool_testkit::{Harness, Launch, ScenarioBuilder, binary};

use self::link::Link;
use crate::Scale;
use crate::report::{Comparison, Unit};
use crate::sampling::{Contender, Samples, in_turns};

/// The names of all benches, in the order in which they run.
pub const BENCHES: [&str; 3] = ["echo_200", "echo_10k", "echo_bulk"];

/// The method that the server answers with the params.
const METHOD: &str = "bench/echo";

/// The length of a request about a place in a file.
const SMALL_BYTES: usize = 200;

/// The length of a list of some places.
const MEDIUM_BYTES: usize = 10 * 1024;

/// Runs the benches of the proxy, all or only the named one, and hands each comparison out as it is made. The binaries
/// are those of this program's own profile.
///
/// # Errors
/// The first sample that failed, or a daemon that does not stop.
///
/// # Panics
/// When something is left behind: a process, a socket or a temporary file.
pub async fn run(scale: &Scale, only: Option<&str>, show: impl FnMut(Comparison)) -> Result<()> {
    let harness = Harness::new()?;
    let measured = measure(&harness, scale, only, show).await;
    let stopped = stop(&harness);
    harness.finish();
    measured.and(stopped)
}

async fn measure(
    harness: &Harness,
    scale: &Scale,
    only: Option<&str>,
    mut show: impl FnMut(Comparison),
) -> Result<()> {
    let scenario = ScenarioBuilder::new().on(METHOD, [Action::Reply(Body::Params)]);
    // Without its journal, which is written for every message.
    let words: Vec<_> = harness
        .scripted_server("server", &scenario)?
        .argv()
        .into_iter()
        .take_while(|word| word != "--journal")
        .collect();
    let lspool = || Ok::<Launch, anyhow::Error>(harness.launch(binary("lspool")?));
    let mut direct = harness.launch("");
    direct.argv.clone_from(&words);
    let mut links = Vec::new();
    for (name, launch) in [
        ("lspool with its daemon", lspool()?.arg("--").args(&words)),
        (
            "lspool --no-daemon",
            lspool()?.args(["--no-daemon", "--"]).args(&words),
        ),
        ("the server alone", direct),
    ] {
        let link = Link::open(&launch).with_context(|| name.to_owned())?;
        links.push((name, Arc::new(Mutex::new(link))));
    }
    for id in BENCHES {
        if only.is_none_or(|only| only == id) {
            show(run_one(id, &links, scale).await.context(id)?);
        }
    }
    for (name, link) in links {
        let mut link = link.lock().unwrap_or_else(PoisonError::into_inner);
        link.close().context(name)?;
    }
    Ok(())
}

async fn run_one(
    id: &'static str,
    links: &[(&str, Arc<Mutex<Link>>)],
    scale: &Scale,
) -> Result<Comparison> {
    let (bytes, count, unit) = match id {
        "echo_200" => (SMALL_BYTES, scale.requests, Unit::Call),
        "echo_10k" => (MEDIUM_BYTES, scale.requests, Unit::Call),
        "echo_bulk" => {
            let there_and_back = 2 * scale.bulk_bytes as u64;
            let unit = Unit::Bytes(there_and_back);
            (scale.bulk_bytes, scale.bulk_requests, unit)
        }
        other => bail!("{other} is no bench of the proxy"),
    };
    let samples = ask_in_turns(links, bytes, count).await?;
    let what = format!("a request of {bytes} bytes and its answer of as many");
    Ok(Comparison::new(id, &what, unit, samples))
}

/// Samples of one request with params of about this length through each link.
async fn ask_in_turns(
    links: &[(&str, Arc<Mutex<Link>>)],
    bytes: usize,
    count: usize,
) -> Result<Vec<Samples>> {
    let params: Arc<str> = places(bytes).into();
    let contenders = links.iter().map(|(name, link)| {
        let (link, params) = (Arc::clone(link), Arc::clone(&params));
        Contender::blocking(name, move || {
            let mut link = link.lock().unwrap_or_else(PoisonError::into_inner);
            link.ask(METHOD, &params)
        })
    });
    in_turns(count, contenders.collect()).await
}

/// JSON of about this length that looks as most long answers do: a list of places.
fn places(bytes: usize) -> String {
    const PLACE: &str = r#"{"uri":"file:///project/source/some_module.c","range":{"start":{"line":1234,"character":8},"end":{"line":1234,"character":21}}}"#;
    let count = (bytes / (PLACE.len() + 1)).max(1);
    format!(r#"{{"places":[{}]}}"#, vec![PLACE; count].join(","))
}

/// Ends the daemon, which is there unless nothing was ever asked through it.
fn stop(harness: &Harness) -> Result<()> {
    let launch = harness.launch(binary("lspool")?).args(["stop", "--force"]);
    let status = link::command(&launch)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()?;
    ensure!(status.success(), "the daemon does not stop: {status}");
    Ok(())
}
