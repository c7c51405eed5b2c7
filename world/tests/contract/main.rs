//! The contract of an execution world, stated once. Each suite is a file of functions over a [`fixture::Fixture`], which
//! ends with the list of its tests; each provider runs them all. What only one provider promises stands in a file of its
//! own.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, and the line says where"
)]

/// Runs the tests of a suite against every provider: each gets a fresh fixture, and closing it proves that nothing is
/// left. A provider is one line.
macro_rules! each_provider {
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
mod local;
mod local_files;
mod names;
mod oracle;
mod poll;
mod refusals;
mod shutdowns;
mod starts;
mod streams;
mod text;
mod trees;
mod uris;
mod watch;
mod watch_limits;
mod watch_model;
mod writes;
