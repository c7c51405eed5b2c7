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

pub(crate) async fn another_encoding_is_told_by_its_name(fixture: &impl Fixture) {
    let wide = |text: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    };
    // A long text that is plain at first: what is guessed from stands where the text fails.
    let mut late = b"// plain\n".repeat(20_000);
    late.extend_from_slice(b"\x82\xb1\x82\xf1\x82\xc9\x82\xbf\x82\xcd");
    let utf32 = |text: &str| -> Vec<u8> {
        text.chars()
            .flat_map(|one| u32::from(one).to_le_bytes())
            .collect()
    };
    let cases: [(Vec<u8>, &str); 8] = [
        (wide("\u{feff}fn main\n", u16::to_le_bytes), "UTF-16LE"),
        (wide("\u{feff}fn main\n", u16::to_be_bytes), "UTF-16BE"),
        (wide("größer\n", u16::to_le_bytes), "UTF-16LE"),
        (wide("größer\n", u16::to_be_bytes), "UTF-16BE"),
        (utf32("\u{feff}fn\n"), "UTF-32LE"),
        (b"caf\xe9 na\xefve".to_vec(), "windows-1252"),
        (late, "Shift_JIS"),
        (b"\x7fELF\x02\x01\x01\0\0\0\0\0".to_vec(), "binary"),
    ];
    for (bytes, expected) in cases {
        fixture.put("file", &bytes);
        let target = fixture.target("file").await;

        for error in [
            fixture.world().fs().read_text(&target).await.unwrap_err(),
            streamed(fixture, &target).await.unwrap_err(),
        ] {
            assert_eq!(error.code(), "FS_NOT_TEXT");
            let shown = error.to_string();
            assert!(
                shown.contains(expected) && shown.contains("read its bytes"),
                "{shown}"
            );
            let FsError::NotText { guess, .. } = error else {
                panic!("{error:?}");
            };
            assert_eq!(guess, Some(expected));
        }
    }
}

pub(crate) async fn a_part_is_read_without_what_is_before_it(fixture: &impl Fixture) {
    let fs = fixture.world().fs();
    let content: Vec<u8> = (0..=255u8).cycle().take(200_000).collect();
    fixture.put("file", &content);
    let target = fixture.target("file").await;
    let version = fs.stat(&target).await.unwrap().unwrap().version;
    if !fs.facts().ranged_reads {
        let refused = fs.read_range(&target, 0, 1).await.unwrap_err();
        assert_eq!(refused.code(), "WORLD_UNSUPPORTED");
        return;
    }
    for (offset, max_bytes) in [
        (0, 10),
        (0, u64::MAX),
        (5, 0),
        (100_000, 70_000),
        (199_999, 10),
        (200_000, 10),
        (u64::MAX, 10),
        (u64::MAX, u64::MAX),
    ] {
        let range = fs.read_range(&target, offset, max_bytes).await.unwrap();

        let from = usize::try_from(offset.min(200_000)).unwrap();
        let until = usize::try_from(offset.saturating_add(max_bytes).min(200_000)).unwrap();
        assert!(range.bytes == content[from..until], "{offset} {max_bytes}");
        assert_eq!((range.file_bytes, &range.version), (200_000, &version));
    }

    fixture.folder("folder");
    fixture.fifo("fifo");
    for (path, code) in [
        ("folder", "FS_NOT_REGULAR_FILE"),
        ("fifo", "FS_NOT_REGULAR_FILE"),
        ("nothing", "FS_NOT_FOUND"),
    ] {
        let refused = fs.read_range(&fixture.target(path).await, 0, 1).await;
        assert_eq!(refused.unwrap_err().code(), code, "{path}");
    }
}

pub(crate) async fn a_stream_has_the_text_of_the_file_that_was_opened(fixture: &impl Fixture) {
    // given a stream of a long text, of which one piece was read
    let fs = fixture.world().fs();
    let text = "old line\n".repeat(50_000);
    fixture.put("file", text.as_bytes());
    let target = fixture.target("file").await;
    let mut stream = fs.stream_text(&target).await.unwrap();
    let mut read = stream.next().await.unwrap().unwrap();

    // when the file is replaced
    fixture
        .output(fixture.script("printf new > other && mv other file"))
        .await;

    // then the rest is that of the same text, under its version
    while let Some(piece) = stream.next().await.unwrap() {
        read.push_str(&piece);
    }
    assert!(read == text);
    assert_ne!(
        stream.version(),
        &fs.stat(&target).await.unwrap().unwrap().version
    );
}

each_provider!([
    another_encoding_is_told_by_its_name,
    a_part_is_read_without_what_is_before_it,
    a_stream_has_the_text_of_the_file_that_was_opened,
    text_is_read_whole_and_in_pieces,
    a_byte_order_mark_is_reported,
    what_is_not_text_is_refused,
    what_is_no_regular_file_is_refused_without_waiting,
    bytes_have_an_inclusive_cap,
    a_character_split_over_reads_is_whole,
]);
