use super::Bench;
use crate::query::{Reread, reread};

#[tokio::test]
async fn a_file_is_read_again_only_when_its_version_changed() {
    let bench = Bench::new();
    let path = bench.write("work/a.rs", "one");
    let Reread::Changed { text, version } = reread(&bench.world, &path, "none yet", 100).await
    else {
        panic!("another version is a change");
    };
    assert_eq!(text, "one");
    assert_eq!(
        reread(&bench.world, &path, &version, 100).await,
        Reread::Unchanged
    );

    bench.write("work/a.rs", "three");

    let changed = reread(&bench.world, &path, &version, 100).await;
    assert!(matches!(changed, Reread::Changed { text, .. } if text == "three"));
}

#[tokio::test]
async fn a_file_that_is_gone_no_text_or_too_large_is_gone() {
    let bench = Bench::new();
    let path = bench.write("work/a.rs", "12345");
    assert!(matches!(
        reread(&bench.world, &path, "", 5).await,
        Reread::Changed { .. }
    ));
    assert_eq!(reread(&bench.world, &path, "", 4).await, Reread::Gone);
    assert_eq!(
        reread(&bench.world, &bench.path("work"), "", 5).await,
        Reread::Gone
    );
    assert_eq!(
        reread(&bench.world, &bench.path("work/none.rs"), "", 5).await,
        Reread::Gone
    );
    std::fs::write(&path, b"a\0b").unwrap();
    assert_eq!(reread(&bench.world, &path, "", 5).await, Reread::Gone);
}
