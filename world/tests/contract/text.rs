//! Reading text and bytes.

use lspool_world::fs::NUL_SAMPLE_BYTES;
use lspool_world::{FsError, Target, TextStream};

use crate::fixture::Fixture;

/// All pieces of a stream, or the first error, whether it came from opening or from reading.
async fn streamed(fixture: &impl Fixture, target: &Target) -> Result<(String, bool), FsError> {
    let mut stream: Box<dyn TextStream> = fixture.world().fs().stream_text(target).await?;
    let mut text = String::new();
    while let Some(piece) = stream.next().await? {
        assert!(!piece.is_empty());
        text.push_str(&piece);
    }
    assert_eq!(stream.next().await?, None);
    Ok((text, stream.had_bom()))
}

pub(crate) async fn text_is_read_whole_and_in_pieces(fixture: &impl Fixture) {
    let long = "one line\r\nanother\n".repeat(20_000);
    for (name, text) in [
        ("empty", ""),
        ("short", "fn main() {}\r\n"),
        ("long", long.as_str()),
    ] {
        fixture.put(name, text.as_bytes());
        let target = fixture.target(name).await;

        let whole = fixture.world().fs().read_text(&target).await.unwrap();

        assert_eq!(whole.text, text);
        assert!(!whole.had_bom);
        assert_eq!(
            streamed(fixture, &target).await.unwrap(),
            (text.to_owned(), false)
        );
        assert_eq!(
            fixture
                .world()
                .fs()
                .stream_text(&target)
                .await
                .unwrap()
                .version(),
            &whole.version
        );
    }
}

pub(crate) async fn a_byte_order_mark_is_reported(fixture: &impl Fixture) {
    for (bytes, text) in [("\u{feff}text", "text"), ("\u{feff}", "")] {
        fixture.put("file", bytes.as_bytes());
        let target = fixture.target("file").await;

        let whole = fixture.world().fs().read_text(&target).await.unwrap();

        assert_eq!((whole.text.as_str(), whole.had_bom), (text, true));
        let (pieces, had_bom) = streamed(fixture, &target).await.unwrap();
        assert_eq!(pieces, text);
        assert!(had_bom || text.is_empty());
    }
}

pub(crate) async fn what_is_not_text_is_refused(fixture: &impl Fixture) {
    let mut late_nul = vec![b'a'; NUL_SAMPLE_BYTES];
    late_nul.push(0);
    let mut sampled_nul = vec![b'a'; NUL_SAMPLE_BYTES - 1];
    sampled_nul.push(0);
    let mut far_invalid = vec![b'a'; 200_000];
    far_invalid.push(0xff);
    let cases: [(&str, &[u8], bool); 6] = [
        ("nul", b"a\0b", false),
        ("sampled-nul", &sampled_nul, false),
        ("late-nul", &late_nul, true),
        ("invalid", b"a\xffb", false),
        ("far-invalid", &far_invalid, false),
        ("unfinished", b"a\xe2\x82", false),
    ];
    for (name, bytes, is_text) in cases {
        fixture.put(name, bytes);
        let target = fixture.target(name).await;
        let expected = if is_text { None } else { Some("FS_NOT_TEXT") };

        let whole = fixture.world().fs().read_text(&target).await;

        assert_eq!(whole.err().map(|error| error.code()), expected, "{name}");
        assert_eq!(
            streamed(fixture, &target)
                .await
                .err()
                .map(|error| error.code()),
            expected,
            "{name}"
        );
        assert_eq!(
            &fixture
                .world()
                .fs()
                .read_bytes(&target, 1_000_000)
                .await
                .unwrap()[..],
            bytes
        );
    }
}

pub(crate) async fn what_is_no_regular_file_is_refused_without_waiting(fixture: &impl Fixture) {
    fixture.folder("folder");
    fixture.fifo("fifo");
    let fs = fixture.world().fs();
    for (path, code) in [
        ("folder", "FS_NOT_REGULAR_FILE"),
        ("fifo", "FS_NOT_REGULAR_FILE"),
        ("nothing", "FS_NOT_FOUND"),
    ] {
        let target = fixture.target(path).await;
        assert_eq!(
            fs.read_text(&target).await.unwrap_err().code(),
            code,
            "{path}"
        );
        assert_eq!(
            fs.stream_text(&target).await.err().unwrap().code(),
            code,
            "{path}"
        );
        assert_eq!(
            fs.read_bytes(&target, 10).await.unwrap_err().code(),
            code,
            "{path}"
        );
    }
}

pub(crate) async fn bytes_have_an_inclusive_cap(fixture: &impl Fixture) {
    fixture.put("file", b"12345");
    let target = fixture.target("file").await;
    let fs = fixture.world().fs();

    assert_eq!(&fs.read_bytes(&target, 5).await.unwrap()[..], b"12345");
    assert_eq!(
        &fs.read_bytes(&target, u64::MAX).await.unwrap()[..],
        b"12345"
    );
    let error = fs.read_bytes(&target, 4).await.unwrap_err();
    assert_eq!(error.code(), "FS_TOO_LARGE");
    assert!(matches!(
        error,
        FsError::TooLarge {
            limit: 4,
            at_least: 5,
            ..
        }
    ));
}

pub(crate) async fn a_character_split_over_reads_is_whole(fixture: &impl Fixture) {
    // given characters of every length at every distance from any chunk boundary that is a power of two
    for shift in 0..4 {
        let text = format!("{}{}", "a".repeat(shift), "é€😀x".repeat(30_000));
        fixture.put("file", text.as_bytes());

        assert_eq!(
            streamed(fixture, &fixture.target("file").await)
                .await
                .unwrap()
                .0,
            text
        );
    }
}

each_provider!([
    text_is_read_whole_and_in_pieces,
    a_byte_order_mark_is_reported,
    what_is_not_text_is_refused,
    what_is_no_regular_file_is_refused_without_waiting,
    bytes_have_an_inclusive_cap,
    a_character_split_over_reads_is_whole,
]);
