//! The end of a world's processes, beside the ladder that each tree takes.

use lspool_world::EndCause;

use crate::fixture::{Fixture, LONG};

pub(crate) async fn what_has_ended_is_left_alone(fixture: &impl Fixture) {
    // given a tree that is gone and one whose leader alone has ended, with their handles
    let gone = fixture.start(fixture.script("exit 3")).await;
    gone.wait_for_exit().await.unwrap();
    let (left, _) = fixture
        .started("sleep 1000 >/dev/null 2>&1 & echo; exit 4", LONG, 1)
        .await;
    let facts = [gone.done().await, left.done().await];

    fixture.world().subprocess().shutdown().await.unwrap();

    // then what was told of them stands: nobody had asked for those ends
    assert_eq!([gone.done().await, left.done().await], facts);
    for (facts, code) in facts.iter().zip([3, 4]) {
        assert_eq!(
            (facts.exit_code(), facts.cause),
            (Some(code), EndCause::Unasked)
        );
    }
    assert_eq!(gone.terminate().await.unwrap(), facts[0]);
}

pub(crate) async fn a_failed_start_does_not_disturb_the_end(fixture: &impl Fixture) {
    let subprocess = fixture.world().subprocess();
    // given a start that was refused, and more that are refused while the world ends
    let missing = fixture.command(&[fixture.scratch().join("missing").as_os_str()]);
    assert!(subprocess.spawn(missing.clone()).await.is_err());
    let mut others = vec![missing; 8];
    for (other, number) in others.iter_mut().zip(0..) {
        other.launch.marker.as_mut().unwrap().value = format!("failed start {number}").into();
    }

    let starts = async {
        for other in others {
            assert!(subprocess.spawn(other).await.is_err());
        }
    };
    let ((), ended) = tokio::join!(starts, subprocess.shutdown());

    ended.unwrap();
}

pub(crate) async fn an_end_can_be_asked_for_again_and_by_many(fixture: &impl Fixture) {
    let subprocess = fixture.world().subprocess();
    let (process, _) = fixture
        .started("echo ready; exec sleep 1000", LONG, 1)
        .await;

    let (first, second) = tokio::join!(subprocess.shutdown(), subprocess.shutdown());

    first.unwrap();
    second.unwrap();
    assert!(!fixture.exists(process.pid().unwrap()));
    subprocess.shutdown().await.unwrap();
}

each_provider!([
    what_has_ended_is_left_alone,
    a_failed_start_does_not_disturb_the_end,
    an_end_can_be_asked_for_again_and_by_many,
]);
