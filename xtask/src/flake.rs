//! `cargo xtask flake CRATE N`: runs the tests of one crate again and again on a crowded machine, and says which failed.
//!
//! A test that fails once in twenty runs has a defect, or shows one. Invariant: a failed run never ends the task before
//! all runs are over, and a run that could not be judged counts as failed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::ExitStatus;

use anyhow::{Context as _, Result, bail};

use crate::ci::{cargo, test_runner};
use crate::paths;
use crate::run::{complain, say, works};

/// Test threads for each core, so that tests are often held up at every point.
const THREADS_FOR_EACH_CORE: usize = 4;

/// The runner's profile that writes the report of a run.
const PROFILE: &str = "flake";

/// What is run, and how often.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    /// The crate whose tests are run.
    package: String,
    /// How many runs there are.
    runs: NonZeroUsize,
    /// Further arguments of the test runner.
    filter: Vec<String>,
}

/// A run that did not pass.
#[derive(Debug, PartialEq, Eq)]
struct FailedRun {
    /// Which run it was, counted from 1.
    number: usize,
    /// The tests that failed, or why nothing is known of them.
    failures: Result<Vec<String>, String>,
}

impl Plan {
    /// Reads `CRATE N [-- ARGUMENTS]`.
    ///
    /// # Errors
    /// What is wrong with the words, for a person.
    pub fn parse(words: &[&str]) -> Result<Self, String> {
        let (package, runs, filter) = match words {
            [package, runs] => (package, runs, &[][..]),
            [package, runs, "--", filter @ ..] => (package, runs, filter),
            _ => return Err("flake takes a crate and a number of runs".to_owned()),
        };
        Ok(Self {
            package: (*package).to_owned(),
            runs: runs
                .parse()
                .map_err(|_| format!("`{runs}` is not a number of runs"))?,
            filter: filter.iter().map(|word| (*word).to_owned()).collect(),
        })
    }

    /// Builds once, does all runs, and says what failed.
    ///
    /// # Errors
    /// When the build failed, the runner is missing, or a run failed.
    pub fn run(&self) -> Result<()> {
        if !works("cargo", &["nextest", "--version"]) {
            bail!("cargo-nextest is not installed, and only its report says which tests failed");
        }
        cargo(&["nextest", "run", "--no-run", "--package", &self.package])?;
        // The programs that end-to-end tests start.
        cargo(&["build", "--workspace", "--bins"])?;
        let mut failed = Vec::new();
        for number in 1..=self.runs.get() {
            say(&format!("== run {number} of {}", self.runs));
            failed.extend(self.run_once(number)?);
        }
        let said = summary(self.runs.get(), &failed);
        if failed.is_empty() {
            say(&said);
            return Ok(());
        }
        bail!("{said}");
    }

    /// One run of all tests; what failed in it.
    fn run_once(&self, number: usize) -> Result<Option<FailedRun>> {
        // The runner's own folder, which lies in the repository wherever Cargo builds.
        let report = paths::repository()
            .join("target/nextest")
            .join(PROFILE)
            .join("junit.xml");
        // The report of an earlier run says nothing about this one.
        if report.exists() {
            std::fs::remove_file(&report)
                .with_context(|| format!("cannot remove {}", report.display()))?;
        }
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let threads = (cores * THREADS_FOR_EACH_CORE).to_string();
        let status = test_runner()
            .args(["--profile", PROFILE, "--test-threads", &threads])
            .args(["--package", &self.package])
            .args(&self.filter)
            .status()
            .context("cannot start cargo")?;
        if status.success() {
            return Ok(None);
        }
        let failures = failures_of(status, &report);
        if let Err(reason) = &failures {
            complain(reason);
        }
        Ok(Some(FailedRun { number, failures }))
    }
}

/// The tests that failed in a run that did not pass.
fn failures_of(status: ExitStatus, report: &Path) -> Result<Vec<String>, String> {
    let unknown = |reason: &str| format!("the test runner ended with {status} and {reason}");
    let text = std::fs::read_to_string(report).map_err(|_| unknown("wrote no report"))?;
    let failed = failed_tests(&text);
    if failed.is_empty() {
        return Err(unknown("names no failed test"));
    }
    Ok(failed)
}

/// The tests that a `JUnit` report calls failed, by binary and name.
///
/// A report escapes `<` in names and in what tests print, so a tag is always a tag.
fn failed_tests(report: &str) -> Vec<String> {
    let cases = report.split("<testcase ").skip(1);
    cases
        .filter_map(|case| {
            let (attributes, rest) = case.split_once('>')?;
            let is_empty = attributes.ends_with('/');
            let body = rest.split("</testcase>").next()?;
            let failed = !is_empty && (body.contains("<failure") || body.contains("<error"));
            let named = |name| attribute(attributes, name);
            failed.then(|| format!("{} {}", named("classname"), named("name")))
        })
        .collect()
}

/// The value of one attribute of a tag; empty when it is missing.
fn attribute(tag: &str, name: &str) -> String {
    let value = tag
        .split_once(&format!(" {name}=\""))
        .or_else(|| {
            tag.strip_prefix(&format!("{name}=\""))
                .map(|rest| ("", rest))
        })
        .and_then(|(_, rest)| rest.split('"').next())
        .unwrap_or_default();
    [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&amp;", "&"),
    ]
    .into_iter()
    .fold(value.to_owned(), |text, (escaped, plain)| {
        text.replace(escaped, plain)
    })
}

/// What a person reads at the end: how many runs failed, and each failed test with the runs in which it did.
fn summary(runs: usize, failed: &[FailedRun]) -> String {
    let mut text = format!("{} of {runs} runs failed", failed.len());
    let mut numbers: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for run in failed {
        let named = match &run.failures {
            Ok(tests) => tests.iter().map(String::as_str).collect(),
            Err(reason) => vec![reason.as_str()],
        };
        for what in named {
            numbers
                .entry(what)
                .or_default()
                .push(run.number.to_string());
        }
    }
    for (what, numbers) in numbers {
        let word = if numbers.len() == 1 { "run" } else { "runs" };
        // Writing into a String cannot fail.
        let _ = write!(text, "\n  {what}: {word} {}", numbers.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_a_number_and_a_filter_make_a_plan() {
        let plan = |filter: &[&str]| Plan {
            package: "some-crate".to_owned(),
            runs: NonZeroUsize::new(20).unwrap(),
            filter: filter.iter().map(|word| (*word).to_owned()).collect(),
        };
        assert_eq!(Plan::parse(&["some-crate", "20"]), Ok(plan(&[])));
        assert_eq!(
            Plan::parse(&["some-crate", "20", "--", "-E", "not test(x)"]),
            Ok(plan(&["-E", "not test(x)"]))
        );
    }

    #[test]
    fn anything_else_is_refused() {
        for words in [
            &[][..],
            &["some-crate"],
            &["some-crate", "0"],
            &["some-crate", "-1"],
            &["some-crate", "many"],
            &["some-crate", "2", "filter"],
        ] {
            assert!(Plan::parse(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn a_report_names_the_tests_that_failed_and_no_other() {
        let report = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="4" failures="2" errors="1">
    <testsuite name="lspool::stop" tests="4" disabled="0" errors="1" failures="1">
        <testcase name="passes" classname="lspool::stop" time="0.009">
        </testcase>
        <testcase name="is_short" classname="lspool::stop" time="0.009"/>
        <testcase name="fails&lt;u8&gt;" classname="lspool::stop" time="0.009">
            <failure type="test failure">&lt;testcase name=&quot;printed&quot;&gt;</failure>
            <system-out>&lt;failure</system-out>
        </testcase>
        <testcase name="prints" classname="lspool::stop">
            <system-out>&lt;failure</system-out>
        </testcase>
        <testcase name="does_not_start" classname="lspool::stop">
            <error type="execution failure"/>
        </testcase>
    </testsuite>
</testsuites>"#;
        assert_eq!(
            failed_tests(report),
            ["lspool::stop fails<u8>", "lspool::stop does_not_start"]
        );
        assert_eq!(failed_tests(""), [""; 0]);
    }

    #[test]
    fn a_run_that_failed_without_a_report_is_not_taken_for_one_that_passed() {
        use std::os::unix::process::ExitStatusExt as _;
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("junit.xml");
        let status = ExitStatus::from_raw(101 << 8);
        assert!(failures_of(status, &report).unwrap_err().contains("101"));
        std::fs::write(&report, "<testsuites></testsuites>").unwrap();
        assert!(failures_of(status, &report).unwrap_err().contains("101"));
    }

    #[test]
    fn the_summary_counts_runs_and_names_each_test_once() {
        let failed = |number, tests: &[&str]| FailedRun {
            number,
            failures: Ok(tests.iter().map(|test| (*test).to_owned()).collect()),
        };
        let unknown = FailedRun {
            number: 9,
            failures: Err("nobody knows".to_owned()),
        };
        assert_eq!(summary(3, &[]), "0 of 3 runs failed");
        assert_eq!(
            summary(9, &[failed(2, &["a", "b"]), failed(7, &["a"]), unknown]),
            "3 of 9 runs failed\n  a: runs 2, 7\n  b: run 2\n  nobody knows: run 9"
        );
    }
}
