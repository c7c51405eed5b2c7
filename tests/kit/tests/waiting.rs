//! Waits of the kit end, and say what they waited for.

mod common;

use common::Pair;
use lspool_testkit::{KitError, ScenarioBuilder};
use serde_json::json;

#[test]
fn a_wait_ends_with_an_account_of_what_came() {
    // In a process of its own, because the deadline is one for a whole process.
    let inner = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "with_a_short_deadline", "--ignored"])
        .env("TESTKIT_DEADLINE_MS", "300")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&inner.stdout);
    assert!(
        inner.status.success() && text.contains("1 passed"),
        "{text}"
    );
}

#[test]
#[ignore = "run by the other test, with a short deadline"]
fn with_a_short_deadline() {
    let pair = Pair::start(&ScenarioBuilder::new().hang("x/hang"));
    // Starting a server may take longer than the short deadline.
    let initialize = pair
        .client
        .request("initialize", json!({"capabilities": {}}))
        .unwrap();
    while pair.client.mark() == 0 {
        if let Err(failure) = initialize.wait() {
            assert!(matches!(failure, KitError::Timeout { .. }));
        }
    }
    let failure = pair
        .client
        .request("x/hang", json!({}))
        .unwrap()
        .wait()
        .unwrap_err();
    assert_eq!(failure.code(), "KIT_TIMEOUT");
    let text = failure.to_string();
    assert!(
        text.contains("x/hang") && text.contains("1 messages came"),
        "{text}"
    );
    assert!(
        text.contains("definitionProvider"),
        "the start of what came is in it: {text}"
    );
    assert_eq!(
        pair.client.wait_for_stderr("nothing").unwrap_err().code(),
        "KIT_TIMEOUT"
    );
    assert_eq!(pair.client.wait_exit().unwrap_err().code(), "KIT_TIMEOUT");
    let absent = pair
        .server
        .journal()
        .wait_for_received("x/never", 1)
        .unwrap_err();
    assert!(
        absent.to_string().contains("x/hang"),
        "the journal's text is in it: {absent}"
    );
    pair.kill();
}
