//! The ends of connections and of the pool.

use lspool_pool::Face;

use crate::embedded::{INITIALIZE, Peer, pool, within};

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
