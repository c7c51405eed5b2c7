//! The contract of an execution world, stated once. Each suite is a file of functions over a [`fixture::Fixture`], which
//! ends with the list of its tests; each provider runs them all. What only one provider promises stands in a file of its
//! own.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, and the line says where"
)]

/// Runs the tests of a suite against every provider: each gets a fresh fixture, and closing it proves that nothing is
/// left. A provider is one line.
///
/// A suite about process trees says so, and runs a second time where control groups hold the trees of this machine.
macro_rules! each_provider {
    ($tests:tt, of_trees) => {
        each_provider!($tests);
        #[cfg(test)]
        mod on_local_in_control_groups {
            provider_tests!(crate::grouped::GroupedFixture, $tests);
        }
    };
    ($tests:tt) => {
        #[cfg(test)]
        mod on_local {
            provider_tests!(crate::fixture::LocalFixture, $tests);
        }
    };
}

/// The tests of a suite on one provider.
macro_rules! provider_tests {
    ($fixture:ty, [$($test:ident),* $(,)?]) => {
        use crate::fixture::Fixture;
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            let fixture = <$fixture>::open().await;
            super::$test(&fixture).await;
            fixture.close().await;
        })*
    };
}

mod canaries;
mod cancellation;
mod catalogue;
mod edits;
mod environment;
mod executables;
mod files;
mod fixture;
mod gates;
mod grouped;
mod hostile;
mod local;
mod local_files;
mod names;
mod namespaces;
mod oracle;
mod poll;
mod refusals;
mod shutdowns;
mod starts;
mod streams;
mod terminal_ends;
mod terminal_foreground;
mod terminals;
mod text;
mod trees;
mod uris;
mod watch;
mod watch_limits;
mod watch_model;
mod writes;
