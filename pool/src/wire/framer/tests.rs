use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use tokio_util::codec::Decoder;

use super::{FIRST_RESERVATION, FrameError, FrameItem, Framer, FramerLimits, TOO_LARGE_HEAD};

fn limits(max_header: usize, max_body: usize, max_preamble: Option<usize>) -> FramerLimits {
    FramerLimits {
        max_header,
        max_body,
        max_preamble,
    }
}

/// Everything that a framer says about a stream cut into these reads, and how it ended.
fn items(limits: FramerLimits, reads: &[&[u8]]) -> (Vec<FrameItem>, Option<&'static str>) {
    let mut framer = Framer::new(limits);
    let mut items = Vec::new();
    for read in reads {
        framer.push(read);
        loop {
            match framer.next() {
                Ok(Some(item)) => items.push(item),
                Ok(None) => break,
                Err(error) => return (items, Some(error.code())),
            }
        }
    }
    match framer.finish() {
        Ok(item) => {
            items.extend(item);
            (items, None)
        }
        Err(error) => (items, Some(error.code())),
    }
}

fn read(stream: &str) -> Vec<FrameItem> {
    let (items, error) = items(FramerLimits::default(), &[stream.as_bytes()]);
    assert_eq!(error, None, "{stream}");
    items
}

fn frame(body: &'static str) -> [FrameItem; 2] {
    [
        FrameItem::Head { length: body.len() },
        FrameItem::Body(Bytes::from_static(body.as_bytes())),
    ]
}

fn skipped(sample: &str) -> FrameItem {
    FrameItem::Skipped {
        total: sample.len(),
        sample: sample.as_bytes().to_vec(),
    }
}

#[test]
fn a_head_comes_before_its_body_has_arrived() {
    let mut framer = Framer::new(FramerLimits::default());
    framer.push(b"Content-Length: 4\r\n\r\nab");
    assert_eq!(framer.next().unwrap(), Some(FrameItem::Head { length: 4 }));
    assert_eq!(framer.next().unwrap(), None);
    framer.push(b"cdContent-");
    assert_eq!(
        framer.next().unwrap(),
        Some(FrameItem::Body(Bytes::from_static(b"abcd")))
    );
    assert_eq!(framer.next().unwrap(), None);
}

#[test]
fn headers_are_read_as_real_peers_write_them() {
    for header in [
        "Content-Length: 2\r\n\r\n",
        "content-length:2\r\n\r\n",
        "CONTENT-LENGTH:  2\n\n",
        "Content-Length: 2\r\nContent-Type: application/vscode-jsonrpc; charset=utf8\r\n\r\n",
        "Content-Type: x\nContent-Length: 2\n\n",
        "X-Vendor: 1\r\nContent-Length: 2\r\nanother: y\r\n\r\n",
        "Content-Length: 2\nX-Vendor: 1\n\n",
        "Content-Length: 2\r\nContent-Length: 2\r\n\r\n",
        "\r\n\nContent-Length: 2\r\n\r\n",
    ] {
        assert_eq!(read(&format!("{header}{{}}")), frame("{}"), "{header:?}");
    }
}

#[test]
fn junk_is_skipped_up_to_the_next_header() {
    for junk in [
        "Starting server\n",
        "INFO: up\nContent-Length is what we send\n\n",
        "no newline",
        "Content-Length: many\r\n\r\n{}\n",
        "Content-Length: -2\r\n\r\n",
        "Content-Length: 99999999999999999999\r\n\r\n",
        "Content-Length: 7\r\nbroken off\r\n",
        "X-Vendor: 1\r\n\r\n",
        "\u{1b}[31mé\u{1b}[0m\r\n",
    ] {
        let stream =
            format!("{junk}Content-Length: 2\r\n\r\n{{}}{junk}Content-Length: 2\r\n\r\n{{}}");
        let [head, body] = frame("{}");
        let expected = [
            skipped(junk),
            head.clone(),
            body.clone(),
            skipped(junk),
            head,
            body,
        ];
        assert_eq!(read(&stream), expected, "{junk:?}");
    }
}

#[test]
fn a_body_announced_too_short_costs_its_rest_and_no_more() {
    let stream = "Content-Length: 2\r\n\r\n{}}}Content-Length: 3\r\n\r\n[1]";
    let expected = [&frame("{}")[..], &[skipped("}}")], &frame("[1]")].concat();
    assert_eq!(read(stream), expected);
}

#[test]
fn of_two_lengths_the_one_that_a_body_follows_counts() {
    let stream = "Content-Length: 70\r\nContent-Length: 2\r\n\r\n{}";
    let expected = [&[skipped("Content-Length: 70\r\n")][..], &frame("{}")].concat();
    assert_eq!(read(stream), expected);
}

#[test]
fn an_empty_body_is_a_body() {
    assert_eq!(read("Content-Length: 0\r\n\r\n"), frame(""));
}

#[test]
fn a_body_over_the_cap_is_read_to_its_end_and_the_link_lives_on() {
    let body = "x".repeat(2 * TOO_LARGE_HEAD);
    let stream = format!(
        "Content-Length: {}\r\n\r\n{body}Content-Length: 2\r\n\r\n{{}}",
        body.len()
    );
    let head = Bytes::from(body[..TOO_LARGE_HEAD].to_owned());
    let too_large = FrameItem::TooLarge {
        length: body.len() as u64,
        head,
    };
    let expected = [&[too_large][..], &frame("{}")].concat();
    assert_eq!(
        items(limits(64, 1000, None), &[stream.as_bytes()]),
        (expected.clone(), None)
    );
    let reads: Vec<&[u8]> = stream.as_bytes().chunks(1000).collect();
    assert_eq!(items(limits(64, 1000, None), &reads), (expected, None));
}

#[test]
fn skipping_takes_bounded_memory() {
    let mut framer = Framer::new(limits(1024, 1000, None));
    framer.push(b"Content-Length: 50000000\r\n\r\n");
    let piece = vec![b'x'; 100_000];
    for _ in 0..499 {
        framer.push(&piece);
        assert_eq!(framer.next().unwrap(), None);
    }
    assert!(
        framer.buffer().capacity() < 1_000_000,
        "{}",
        framer.buffer().capacity()
    );
    framer.push(&piece);
    assert!(matches!(
        framer.next().unwrap(),
        Some(FrameItem::TooLarge {
            length: 50_000_000,
            ..
        })
    ));
    for _ in 0..500 {
        framer.push(&piece);
        assert_eq!(framer.next().unwrap(), None);
    }
    assert!(
        framer.buffer().capacity() < 1_000_000,
        "{}",
        framer.buffer().capacity()
    );
    let finished = framer.finish().unwrap();
    assert!(
        matches!(
            finished,
            Some(FrameItem::Skipped {
                total: 50_000_000,
                ..
            })
        ),
        "{finished:?}"
    );
}

#[test]
fn an_announced_length_allocates_no_more_than_the_first_reservation() {
    let mut framer = Framer::new(FramerLimits::default());
    framer.push(b"Content-Length: 250000000\r\n\r\n");
    assert_eq!(
        framer.next().unwrap(),
        Some(FrameItem::Head {
            length: 250_000_000
        })
    );
    assert_eq!(framer.next().unwrap(), None);
    let room = framer.buffer().capacity();
    assert!(
        (FIRST_RESERVATION..2 * FIRST_RESERVATION).contains(&room),
        "{room}"
    );
}

#[test]
fn a_long_body_is_handed_out_without_a_copy() {
    let body = vec![b'x'; 100_000];
    let mut framer = Framer::new(FramerLimits::default());
    framer.push(b"Content-Length: 100000\r\n\r\n");
    assert!(matches!(
        framer.next().unwrap(),
        Some(FrameItem::Head { .. })
    ));
    assert_eq!(framer.next().unwrap(), None);
    framer.push(&body);
    let place = framer.buffer().as_ptr();
    let Some(FrameItem::Body(read)) = framer.next().unwrap() else {
        panic!("the body is whole")
    };
    assert_eq!(read, body);
    assert_eq!(read.as_ptr(), place);
}

#[test]
fn too_long_a_preamble_is_an_error_that_quotes_its_beginning() {
    let mut framer = Framer::new(limits(64, 64, Some(100)));
    framer.push("usage: server [options]\n".repeat(5).as_bytes());
    let error = framer.next().unwrap_err();
    assert_eq!(error.code(), "FRAME_PREAMBLE");
    assert!(
        error.to_string().contains("usage: server [options]"),
        "{error}"
    );
    assert!(matches!(error, FrameError::Preamble { total: 120, .. }));
}

#[test]
fn after_the_first_header_junk_is_never_an_error() {
    let stream = format!("Content-Length: 2\r\n\r\n{{}}{}", "junk\n".repeat(100));
    let (found, error) = items(limits(64, 64, Some(100)), &[stream.as_bytes()]);
    assert_eq!(error, None);
    assert!(
        matches!(found.last(), Some(FrameItem::Skipped { total: 500, .. })),
        "{found:?}"
    );
}

#[test]
fn the_end_of_the_input_says_what_was_cut() {
    assert_eq!(
        items(FramerLimits::default(), &[b"Content-Length: 5\r\n\r\nab"]).1,
        Some("FRAME_TRUNCATED")
    );
    assert_eq!(
        items(limits(64, 1, None), &[b"Content-Length: 5\r\n\r\nab"]).1,
        Some("FRAME_TRUNCATED")
    );
    assert_eq!(
        read("error: no such option"),
        [skipped("error: no such option")]
    );
    assert_eq!(
        read("Content-Length: 5\r\n"),
        [skipped("Content-Length: 5\r\n")]
    );
    assert_eq!(read("\n"), []);
}

#[test]
fn a_header_block_over_the_cap_is_junk() {
    let long = format!("X-Long: {}\r\n", "x".repeat(80));
    let stream = format!("Content-Length: 2\r\n{long}\r\nContent-Length: 2\r\n\r\n{{}}");
    let expected = [
        &[skipped(&format!("Content-Length: 2\r\n{long}\r\n"))][..],
        &frame("{}"),
    ]
    .concat();
    assert_eq!(
        items(limits(64, 64, None), &[stream.as_bytes()]),
        (expected, None)
    );
}

#[test]
fn the_decoder_gives_the_same_items() {
    let stream = b"hi\nContent-Length: 2\r\n\r\n{}Content-Length: 3\r\n\r\n[1]";
    let mut framer = Framer::new(FramerLimits::default());
    let mut source = BytesMut::new();
    let mut found = Vec::new();
    for piece in stream.chunks(7) {
        source.extend_from_slice(piece);
        while let Some(item) = framer.decode(&mut source).unwrap() {
            found.push(item);
        }
    }
    while let Some(item) = framer.decode_eof(&mut source).unwrap() {
        found.push(item);
    }
    assert_eq!(
        found,
        [&[skipped("hi\n")][..], &frame("{}"), &frame("[1]")].concat()
    );
}

/// Pieces of which streams that are nearly frames are made.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let text = |text: &'static str| Just(text.as_bytes().to_vec());
    prop_oneof![
        4 => text("Content-Length: 3\r\n"),
        2 => text("Content-Length: 3\r\n\r\nabc"),
        2 => text("\r\n"),
        2 => text("abc"),
        1 => text("\n"),
        1 => text("content-length:12\n"),
        1 => text("Content-Length: 12 \r\n\r\n"),
        1 => text("Content-Length: x\r\n"),
        1 => text("Content-Type: y\r\n"),
        1 => text("INFO: z\n"),
        1 => text("Content-Len"),
        1 => text("\r"),
        1 => prop::collection::vec(any::<u8>(), 0..120),
        1 => Just(vec![b'j'; 300]),
    ]
}

/// The stream cut where the sizes say, the rest in one piece.
fn cut<'a>(stream: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let mut reads = Vec::new();
    let mut rest = stream;
    for &size in sizes {
        let (read, after) = rest.split_at(size.min(rest.len()));
        reads.push(read);
        rest = after;
    }
    reads.push(rest);
    reads
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_way_of_cutting_changes_the_items(
        pieces in prop::collection::vec(piece(), 0..12),
        sizes in prop::collection::vec(0_usize..40, 0..40),
        preamble in prop::option::of(0_usize..500),
    ) {
        let stream = pieces.concat();
        let limits = limits(64, 10, preamble);
        let whole = items(limits, &[&stream]);
        prop_assert_eq!(&items(limits, &cut(&stream, &sizes)), &whole);
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        prop_assert_eq!(&items(limits, &bytes), &whole);
    }

    #[test]
    fn frames_come_through_junk_whole_and_in_order(
        parts in prop::collection::vec(("([a-z é]{0,20}\n){0,3}", prop::collection::vec(any::<u8>(), 0..200)), 0..6),
        sizes in prop::collection::vec(0_usize..60, 0..30),
    ) {
        let mut stream = Vec::new();
        for (junk, body) in &parts {
            stream.extend_from_slice(junk.as_bytes());
            stream.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
            stream.extend_from_slice(body);
        }
        let (found, error) = items(FramerLimits::default(), &cut(&stream, &sizes));
        prop_assert_eq!(error, None);
        let bodies: Vec<Bytes> = found.iter().filter_map(|item| match item {
            FrameItem::Body(body) => Some(body.clone()),
            _ => None,
        }).collect();
        let expected: Vec<Bytes> = parts.iter().map(|(_, body)| Bytes::from(body.clone())).collect();
        prop_assert_eq!(bodies, expected);
        let junk: usize = found.iter().map(|item| if let FrameItem::Skipped { total, .. } = item { *total } else { 0 }).sum();
        let sent: usize = parts.iter().map(|(junk, _)| if junk.trim().is_empty() { 0 } else { junk.len() }).sum();
        prop_assert_eq!(junk, sent);
    }
}
