//! What must hold for any bytes of a peer.
//!
//! This file is compiled twice: into the fuzz targets, and into a test of lspool-pool that runs the committed
//! corpus on a stable compiler. `super::pool` is lspool-pool in both.

use std::ops::Range;

use bytes::Bytes;

use super::pool::edge::{ClientEdge, Decoded, ServerEdge, TextId, TokenSpan};
use super::pool::wire::{
    FULL_SCAN_LIMIT, FrameItem, Framer, FramerLimits, Message, Outgoing, Peek, RawId,
};

/// The first byte says how the rest is cut into reads: the items are the same as of one read, and every
/// body has the length of its head.
pub fn framer(data: &[u8]) {
    let Some((&size, stream)) = data.split_first() else {
        return;
    };
    let whole = items(&[stream]);
    let reads: Vec<&[u8]> = stream.chunks(usize::from(size) + 1).collect();
    assert_eq!(items(&reads), whole);

    let mut announced = None;
    for item in whole.0 {
        match (announced.take(), item) {
            (Some(length), FrameItem::Body(body)) => assert_eq!(body.len(), length),
            (None, FrameItem::Head { length }) => announced = Some(length),
            (None, FrameItem::Skipped { .. } | FrameItem::TooLarge { .. }) => {}
            (announced, item) => panic!("{item:?} after the head {announced:?}"),
        }
    }
}

/// All items of a stream and the code of the error that ended it. The bounds are narrow, so that they are met.
fn items(reads: &[&[u8]]) -> (Vec<FrameItem>, Option<&'static str>) {
    let mut framer = Framer::new(FramerLimits {
        max_header: 100,
        max_body: 50,
        max_preamble: Some(1_000),
    });
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

/// A body that is accepted is JSON, reads the same from its ends as whole, and goes on under another id with
/// every other byte as it was.
pub fn envelope(data: &[u8]) {
    let body = Bytes::copy_from_slice(data);
    let _ = Peek::new(data);
    let _ = Message::split_batch(&body);
    let parsed = Message::parse(body.clone());
    let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(data).is_ok();
    let Ok(message) = parsed else {
        return;
    };
    // serde decodes no lone surrogate in a key, so the raw value is the judge where it refuses.
    assert!(is_json || serde_json::from_slice::<&serde_json::value::RawValue>(data).is_ok());

    // Blanks carry the body over the limit from which the ends are trusted.
    let mut padded = data.to_vec();
    padded.resize(data.len() + FULL_SCAN_LIMIT + 1, b' ');
    let from_ends =
        Message::parse(Bytes::from(padded)).expect("blanks behind a message change nothing");
    let facts = |it: &Message| {
        (
            it.kind(),
            it.id().cloned(),
            it.id_span(),
            it.method().map(String::from),
        )
    };
    assert_eq!(facts(&from_ends), facts(&message));

    let id = RawId::number(77);
    let sent = Outgoing::with_id(&message, &id).to_vec();
    let Some(span) = message.id_span() else {
        assert_eq!(sent, data);
        return;
    };
    assert_eq!(
        sent,
        [&data[..span.start], b"77", &data[span.end..]].concat()
    );
    let read = Message::parse(Bytes::from(sent)).expect("another id leaves a message a message");
    assert_eq!((read.kind(), read.id()), (message.kind(), Some(&id)));
}

/// Each line is a message of a client and of a server: decoding never fails, spans hold what they say, and
/// a text has the id of its content.
pub fn edge(data: &[u8]) {
    let mut client = ClientEdge::new();
    let mut server = ServerEdge::new(0);
    for line in data.split(|&byte| byte == b'\n') {
        let Ok(message) = Message::parse(Bytes::copy_from_slice(line)) else {
            continue;
        };
        check(&message, &client.decode(&message));
        check(&message, &server.decode(&message));
    }
}

fn check(message: &Message, decoded: &Decoded) {
    let slice = |span: &Range<usize>| {
        std::str::from_utf8(&message.bytes()[span.clone()]).expect("spans cut no character")
    };
    let token = |token: &TokenSpan| assert_eq!(slice(&token.span), token.token.raw());
    let version = |number: Option<i64>, span: Option<&Range<usize>>| {
        let written = span.and_then(|span| RawId::parse(slice(span)));
        if let Some(number) = number {
            assert_eq!(written, RawId::parse(&number.to_string()));
        }
    };
    match decoded {
        Decoded::Request {
            work_done,
            partial_result,
            ..
        } => {
            work_done.iter().for_each(token);
            partial_result.iter().for_each(token);
        }
        Decoded::Cancel { id, span } => assert_eq!(slice(span), id.raw()),
        Decoded::CancelProgress { token: it }
        | Decoded::CreateProgress { token: it }
        | Decoded::Progress { token: it, .. } => token(it),
        Decoded::Open {
            text,
            version: number,
            version_span,
            ..
        } => {
            assert_eq!(text.id, TextId::of(&text.content));
            version(*number, version_span.as_ref());
        }
        Decoded::Change {
            before,
            text,
            version: number,
            version_span,
            ..
        } => {
            assert_eq!(before.is_some(), text.is_some());
            if let Some(text) = text {
                assert_eq!(text.id, TextId::of(&text.content));
            }
            version(*number, version_span.as_ref());
        }
        Decoded::Diagnostics {
            version: number,
            version_span,
            ..
        } => version(*number, version_span.as_ref()),
        Decoded::Initialize(facts) => {
            let params = serde_json::from_str::<&serde_json::value::RawValue>(&facts.params);
            assert!(params.is_ok(), "{}", facts.params);
            assert!(facts.process_id.is_none() || facts.process_id_span.is_some());
        }
        _ => {}
    }
}
