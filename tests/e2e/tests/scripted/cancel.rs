//! A cancel reaches the request that its sender means, and every request has exactly one answer.

use lspool_testkit::ScenarioBuilder;
use lspool_testkit::scenario_format::{Action, Body, Delay, ErrorBody};
use serde_json::json;

use super::ground::Ground;

const ROUNDS: u32 = 1_000;
const CANCELLED: i64 = -32800;
const RELEASED: i64 = -1;

#[test]
fn of_two_requests_with_one_id_the_right_one_is_cancelled() {
    // given a server that answers a slow request only when it is cancelled, or when all are released
    let ground = Ground::new();
    let server = ground.server(&ScenarioBuilder::new().hang("test/slow").on(
        "test/release",
        [Action::FailInFlight(ErrorBody {
            code: RELEASED,
            message: "released".to_owned(),
            data: None,
        })],
    ));
    let editors = [ground.editor(&server), ground.editor(&server)];
    let ids = ["0", "1", "\"1\""];

    for round in 0..ROUNDS {
        // when both ask under one id and one of them cancels
        let id = ids[round as usize % ids.len()];
        let canceller = round as usize % 2;
        let pending = [&editors[0], &editors[1]].map(|editor| {
            let params = json!({"round": round}).to_string();
            editor.request_raw(id, "test/slow", Some(&params)).unwrap()
        });
        editors[canceller].cancel(&pending[canceller]).unwrap();
        let cancelled = pending[canceller].wait().unwrap();
        assert_eq!(cancelled.error_code(), Some(CANCELLED), "round {round}");

        // then the other one's is still in flight until it is released, which its own sender asks for so that the
        // release comes after it
        editors[1 - canceller]
            .notify("test/release", json!({}))
            .unwrap();
        let other = pending[1 - canceller].wait().unwrap();
        assert_eq!(other.error_code(), Some(RELEASED), "round {round}");
    }

    // and each request had one answer
    for editor in &editors {
        assert!(editor.unbalanced().is_empty());
    }
    assert_eq!(server.journal().servers_started(), 1);
    server.journal().assert_no_violations();
    drop(editors);
    ground.finish();
}

#[test]
fn a_cancel_that_races_with_the_answer_gives_one_answer() {
    // given a server that answers at about the time at which the cancel comes
    let ground = Ground::new();
    let server = ground.server(&ScenarioBuilder::new().on(
        "test/echo",
        [
            Action::Delay(Delay::Random { random: (0, 1) }),
            Action::Reply(Body::Params),
        ],
    ));
    let editors = [ground.editor(&server), ground.editor(&server)];

    // when both ask under one id and both cancel at once
    for round in 0..ROUNDS {
        let pending = [&editors[0], &editors[1]].map(|editor| {
            let pending = editor.request_raw("0", "test/echo", Some("7")).unwrap();
            editor.cancel(&pending).unwrap();
            pending
        });

        // then each has its answer or is told of its cancel
        for pending in pending {
            let answer = pending.wait().unwrap();
            let answered = answer.result::<u32>().is_ok_and(|result| result == 7);
            assert!(
                answered || answer.error_code() == Some(CANCELLED),
                "round {round}: {:?}",
                answer.message
            );
        }
    }

    // and never both
    for editor in &editors {
        editor.shut_down().unwrap();
        assert!(editor.unbalanced().is_empty());
    }
    server.journal().assert_no_violations();
    ground.finish();
}
