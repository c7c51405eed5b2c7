//! The ends of connections and of the pool.

use lspool_pool::Face;

use crate::embedded::{INITIALIZE, Peer, SERVER, pool, server, within};

#[tokio::test]
async fn given_a_peer_that_never_reads_when_the_pool_ends_then_its_connection_ends() {
    let pool = pool();
    let mut peer = Peer::attach(&pool, Face::Harness { root: None }, 0o022, 16);
    peer.send(INITIALIZE).await;
    // The answer is under way: its first byte was written, the rest finds no room.
    let first = within(tokio::io::AsyncReadExt::read_u8(&mut peer.output)).await;
    assert_eq!(first.unwrap(), b'C');

    within(pool.shutdown()).await.unwrap();

    assert_eq!(peer.ended().await.exit_code, 70);
}

#[tokio::test]
async fn given_a_server_in_service_when_the_pool_ends_then_all_of_its_tasks_have_ended() {
    let pool = pool();
    let mut peer = Peer::attach(&pool, server(SERVER), 0o022, 64 * 1024);
    peer.send(INITIALIZE).await;
    peer.receive().await;

    // A task that is left over is a failure of the shutdown.
    within(pool.shutdown()).await.unwrap();

    assert_eq!(peer.ended().await.exit_code, 70);
    // What is asked of a pool that has ended is answered at once, its end too.
    assert!(within(pool.status()).await.is_none());
    let late = Peer::attach(&pool, server(SERVER), 0o022, 64 * 1024);
    assert_eq!(late.ended().await.exit_code, 70);
    within(pool.idle()).await;
    within(pool.shutdown()).await.unwrap();
}

#[tokio::test]
async fn given_a_pool_whose_handles_are_gone_then_its_driver_lets_its_world_go() {
    let pool = pool();
    let mut peer = Peer::attach(&pool, Face::Harness { root: None }, 0o022, 64 * 1024);
    peer.send(INITIALIZE).await;
    peer.receive().await;
    let tasks = tokio::runtime::Handle::current().metrics();
    drop(pool);

    drop(peer);

    within(async {
        while tasks.num_alive_tasks() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
