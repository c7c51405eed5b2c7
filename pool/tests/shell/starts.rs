//! What a server begins with.

use crate::embedded::{INITIALIZE, Peer, SERVER, pool, server, within};

#[tokio::test]
async fn given_a_clients_file_mode_mask_then_its_server_makes_files_under_it() {
    let pool = pool();
    let mut peer = Peer::attach(&pool, server(SERVER), 0o027, 64 * 1024);

    peer.send(INITIALIZE).await;

    let answer = peer.receive().await;
    assert!(answer.contains(r#""name":"0027""#), "{answer}");
    within(pool.shutdown()).await.unwrap();
    peer.ended().await;
}
