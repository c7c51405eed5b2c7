//! A session that was recorded with a real process behind it, played back into a core of its own.

use std::sync::Arc;

use lspool_pool::core::{Core, Event};

use crate::embedded::{INITIALIZE, Peer, SERVER, core_config, pool, server, within};

#[tokio::test]
async fn given_a_recorded_session_when_it_is_replayed_into_a_fresh_core_then_the_effects_are_the_same()
 {
    let pool = pool();
    let mut first = Peer::attach(&pool, server(SERVER), 0o022, 64 * 1024);
    first.send(INITIALIZE).await;
    first.receive().await;
    first
        .send(r#"{"jsonrpc":"2.0","method":"initialized","params":{}}"#)
        .await;
    first
        .send(r#"{"jsonrpc":"2.0","id":7,"method":"shutdown"}"#)
        .await;
    first.receive().await;
    first.send(r#"{"jsonrpc":"2.0","method":"exit"}"#).await;
    assert_eq!(first.ended().await.exit_code, 0);

    let steps = within(pool.recording()).await;

    let spawned = |event: &Event| matches!(event, Event::Spawned { result: Ok(_), .. });
    assert!(
        steps.iter().any(|step| spawned(&step.event)),
        "a process was started"
    );
    let mut core = Core::new(Arc::new(core_config()));
    for (number, step) in steps.into_iter().enumerate() {
        let mut effects = Vec::new();
        core.handle(step.tick, step.event, &mut effects);
        let replayed: Vec<String> = effects.iter().map(|it| format!("{it:?}")).collect();
        assert_eq!(replayed, step.effects, "step {number}");
    }
    within(pool.shutdown()).await.unwrap();
}
