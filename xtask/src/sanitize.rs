//! `cargo xtask sanitize`: runs tests under tools that see what a test cannot: memory that is used wrongly or leaked,
//! data races, and undefined behaviour.
//!
//! The world and the proxy have the only `unsafe` code of the product, beside that of their dependencies. The sanitizers
//! watch it where it meets the kernel; Miri, which knows no kernel to speak of, runs the parsers, whose input comes from
//! others. Invariant: it builds below the build folder in a folder for each tool, so that no other build is thrown away.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::paths;
use crate::run::{captured, command, complain, say, shown, works};

/// What a person must do when the compiler is not there.
const TOOLCHAIN_ADVICE: &str = "sanitizers and Miri need a nightly compiler; install it by\n  \
    rustup toolchain install nightly --component miri --component rust-src";

/// A tool that watches a program as it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    /// Finds uses of memory that is not there, and leaks.
    Address,
    /// Finds data races.
    Thread,
    /// Finds undefined behaviour.
    Miri,
}

/// Tests that a tool runs: a package, what of it, and how they are filtered.
struct Tests {
    package: &'static str,
    words: &'static [&'static str],
}

/// The seams and what is behind them, and the parts of the proxy, all of which meet the kernel.
const WITH_THE_KERNEL: [Tests; 2] = [
    Tests {
        package: "lspool-world",
        words: &["--lib", "--test", "contract"],
    },
    Tests {
        package: "lspool",
        words: &["--bins"],
    },
];

/// What parses, without the kernel: an interpreter is slow, so that each is a part of its crate.
const PURE: [Tests; 3] = [
    Tests {
        package: "lspool-normalize",
        words: &["--lib", "--"],
    },
    Tests {
        package: "lspool-pool",
        words: &["--lib", "--", "wire::"],
    },
    Tests {
        package: "lspool-world",
        words: &["--lib", "--", "environment::", "fs::decode", "subprocess::"],
    },
];

/// Parts of the names of pure tests that an interpreter would spend an hour on: those with very long or deep texts, and
/// properties of texts that are made by a regular expression, whose tables alone take minutes.
const TOO_LONG_FOR_MIRI: [&str; 5] = ["long", "deep", "chunking", "decoding_agree", "any_"];

/// Runs the named tools, or all of them, each to its end.
///
/// # Errors
/// A tool that is not known or not there, with what to do; or the tools that found something.
pub fn run(words: &[&str]) -> Result<()> {
    let tools = if words.is_empty() {
        vec![Tool::Address, Tool::Thread, Tool::Miri]
    } else {
        let named = words.iter().map(|word| Tool::named(word));
        named.collect::<Result<_>>()?
    };
    if !works("cargo", &["+nightly", "--version"]) {
        bail!("{TOOLCHAIN_ADVICE}");
    }
    let host = host()?;
    let mut failed = Vec::new();
    for tool in tools {
        say(&format!("\n== {}", tool.name()));
        if let Err(failure) = tool.run(&host) {
            complain(&format!("sanitize: {failure:#}"));
            failed.push(tool.name());
        }
    }
    if !failed.is_empty() {
        bail!("not clean, see above: {}", failed.join(", "));
    }
    say("\nsanitize: nothing was found");
    Ok(())
}

/// The target that the nightly compiler builds for by itself.
fn host() -> Result<String> {
    let version = captured(command("rustc").args(["+nightly", "-vV"]))?;
    version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .context("the nightly compiler does not name its host")
}

impl Tool {
    fn named(word: &str) -> Result<Self> {
        match word {
            "address" => Ok(Self::Address),
            "thread" => Ok(Self::Thread),
            "miri" => Ok(Self::Miri),
            other => bail!("`{other}` is none of address, thread and miri"),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Thread => "thread",
            Self::Miri => "miri",
        }
    }

    /// Says what is missing for this tool; nothing where it can run.
    fn ready(self) -> Result<()> {
        let missing = match self {
            Self::Address => return Ok(()),
            Self::Thread => {
                let library = captured(command("rustc").args(["+nightly", "--print", "sysroot"]))?;
                let source = std::path::Path::new(library.trim()).join("lib/rustlib/src/rust");
                (!source.is_dir()).then_some("rust-src")
            }
            Self::Miri => (!works("cargo", &["+nightly", "miri", "--version"])).then_some("miri"),
        };
        match missing {
            None => Ok(()),
            Some(component) => {
                bail!("{component} is missing; {TOOLCHAIN_ADVICE}")
            }
        }
    }

    fn run(self, host: &str) -> Result<()> {
        self.ready()?;
        let tests: &[Tests] = match self {
            Self::Address | Self::Thread => &WITH_THE_KERNEL,
            Self::Miri => &PURE,
        };
        for tests in tests {
            shown(&mut self.command(tests, host))?;
        }
        Ok(())
    }

    /// The command that runs these tests under the tool.
    fn command(self, tests: &Tests, host: &str) -> Command {
        let folder = paths::target().join("sanitize").join(self.name());
        let mut command = command("cargo");
        command
            .current_dir(paths::repository())
            .arg("+nightly")
            .args(match self {
                Self::Address | Self::Thread => &["test"][..],
                Self::Miri => &["miri", "test"],
            })
            .args(["--package", tests.package, "--target-dir"])
            .arg(folder);
        match self {
            Self::Address => command
                .args(["--target", host])
                .env("RUSTFLAGS", "-Zsanitizer=address")
                .env(
                    "ASAN_OPTIONS",
                    "detect_leaks=1:detect_stack_use_after_return=1",
                ),
            // The standard library is built anew, or its own locks would not be seen and each look like a race.
            Self::Thread => command
                .args(["-Zbuild-std", "--target", host])
                .env("RUSTFLAGS", "-Zsanitizer=thread")
                .env("TSAN_OPTIONS", "halt_on_error=1"),
            // Tests of parsers look at files of the repository; and a few cases of a property show its code paths.
            Self::Miri => command
                .env("MIRIFLAGS", "-Zmiri-disable-isolation")
                .env("PROPTEST_CASES", "4"),
        };
        command
            .args(tests.words)
            .env("TESTKIT_DEADLINE_MS", "120000");
        if self == Self::Miri {
            command.args(TOO_LONG_FOR_MIRI.iter().flat_map(|part| ["--skip", part]));
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a tool's command for the world, with the build folder left out.
    fn words(tool: Tool) -> Vec<String> {
        let tests = &WITH_THE_KERNEL[0];
        let command = tool.command(tests, "a-host");
        let folder = paths::target();
        command
            .get_args()
            .map(|word| word.to_string_lossy().into_owned())
            .filter(|word| !word.starts_with(&*folder.to_string_lossy()))
            .collect()
    }

    #[test]
    fn a_sanitizer_runs_the_unit_tests_and_the_contract_of_the_world() {
        let words = words(Tool::Address);

        assert_eq!(
            words,
            [
                "+nightly",
                "test",
                "--package",
                "lspool-world",
                "--target-dir",
                "--target",
                "a-host",
                "--lib",
                "--test",
                "contract"
            ]
        );
    }

    #[test]
    fn each_tool_has_its_own_build_folder() {
        let folders = [Tool::Address, Tool::Thread, Tool::Miri].map(|tool| {
            let command = tool.command(&PURE[0], "a-host");
            let mut arguments = command
                .get_args()
                .skip_while(|word| *word != "--target-dir");
            arguments
                .nth(1)
                .expect("there is a build folder")
                .to_owned()
        });

        let distinct: std::collections::BTreeSet<_> = folders.iter().collect();
        assert_eq!(distinct.len(), 3);
    }

    #[test]
    fn an_unknown_tool_is_refused_by_name() {
        let failure = run(&["memory"]).expect_err("there is no such tool");

        assert_eq!(
            failure.to_string(),
            "`memory` is none of address, thread and miri"
        );
    }
}
