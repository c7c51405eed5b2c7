//! Every bench runs and finds something. How fast anything is, no test says: the machine may be busy.

use lspool_benches::report::Comparison;
use lspool_benches::{Scale, proxy, world};

/// Fails unless the benches of these names ran, each with samples and finite ratios.
fn assert_all_ran(comparisons: &[Comparison], names: &[&str]) {
    let ran: Vec<&str> = comparisons.iter().map(|comparison| comparison.id).collect();
    assert_eq!(ran, names);
    for comparison in comparisons {
        assert!(
            comparison.entries.len() > 1,
            "{} has no peer",
            comparison.id
        );
        for entry in &comparison.entries {
            let shown = format!("{}: {entry:?}", comparison.id);
            assert!(entry.samples.count() > 0, "{shown}");
            assert!(entry.ratio.is_finite() && entry.ratio > 0.0, "{shown}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_bench_of_the_world_runs_and_compares() {
    let mut found = Vec::new();

    world::run(&Scale::QUICK, None, |comparison| found.push(comparison))
        .await
        .unwrap();

    assert_all_ran(&found, &world::BENCHES);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_bench_of_the_proxy_runs_and_compares() {
    let mut found = Vec::new();

    proxy::run(&Scale::QUICK, None, |comparison| found.push(comparison))
        .await
        .unwrap();

    assert_all_ran(&found, &proxy::BENCHES);
}
