//! A server's standard error: read always, kept as a tail, and told line by line to the people who use the server.
//!
//! Invariant: a flood costs nobody anything. It is read as fast as it comes, an audience that does not keep up loses
//! lines, and the driver never hears of it.

use lspool_world::TailBuffer;
use lspool_world::subprocess::OutputPipe;
use tokio::io::AsyncReadExt;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::Notice;

/// Bytes of standard error that are kept.
const TAIL: usize = 1024 * 1024;
/// Bytes of standard error that an error quotes.
const QUOTED: usize = 4 * 1024;
/// Bytes that are read at once.
const CHUNK: usize = 16 * 1024;
/// The longest line that is told; a longer one is told in pieces.
const LINE: usize = 4 * 1024;

/// Where the lines of a server go: the people behind the clients that use it now.
pub(super) type Audience = Vec<mpsc::Sender<Notice>>;

/// What reads one process's standard error.
pub(super) struct Stderr {
    pub(super) pipe: OutputPipe,
    pub(super) audience: watch::Receiver<Audience>,
    /// Ends the reading when the process has ended but something else holds the pipe.
    pub(super) finished: CancellationToken,
    /// Gets the end of what was said.
    pub(super) tail: oneshot::Sender<String>,
}

impl Stderr {
    /// Reads to the end, or until nothing more is waited for.
    pub(super) async fn run(mut self) {
        let mut tail = TailBuffer::new(TAIL);
        let mut line = Vec::new();
        let mut chunk = vec![0; CHUNK];
        loop {
            let read = tokio::select! {
                biased;
                read = self.pipe.read(&mut chunk) => read,
                () = self.finished.cancelled() => break,
            };
            match read {
                Ok(0) | Err(_) => break,
                Ok(length) => {
                    tail.push(&chunk[..length]);
                    self.tell(&chunk[..length], &mut line);
                }
            }
        }
        if !line.is_empty() {
            self.send(&line);
        }
        tail.seal();
        let kept = tail.kept();
        let text = String::from_utf8_lossy(&kept[kept.len().saturating_sub(QUOTED)..]);
        // Whoever waited for the end may be gone with the pool.
        let _ = self.tail.send(text.into_owned());
    }

    fn tell(&self, bytes: &[u8], line: &mut Vec<u8>) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let mut rest = piece;
            while !rest.is_empty() {
                let (part, after) = rest.split_at(rest.len().min(LINE - line.len()));
                line.extend_from_slice(part);
                rest = after;
                if line.ends_with(b"\n") || line.len() == LINE {
                    self.send(line);
                    line.clear();
                }
            }
        }
    }

    fn send(&self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches(['\n', '\r']);
        for person in self.audience.borrow().iter() {
            // A person who does not keep up loses lines, never time of the server's.
            let _ = person.try_send(Notice(text.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn given_a_flood_without_line_ends_then_it_is_told_in_pieces_and_its_end_is_kept() {
        let (person, mut lines) = mpsc::channel(1_000);
        let (_keep, audience) = watch::channel(vec![person]);
        let (tail, text) = oneshot::channel();
        let flood = vec![b'x'; 3 * LINE + 1];
        let pipe: OutputPipe = Box::new(std::io::Cursor::new(flood));
        let finished = CancellationToken::new();
        Stderr {
            pipe,
            audience,
            finished,
            tail,
        }
        .run()
        .await;
        let mut told = Vec::new();
        while let Ok(Notice(line)) = lines.try_recv() {
            told.push(line.len());
        }
        assert_eq!(told.iter().sum::<usize>(), 3 * LINE + 1);
        assert!(told.iter().all(|length| *length <= LINE));
        assert_eq!(text.await.unwrap().len(), QUOTED);
    }

    #[tokio::test]
    async fn given_lines_then_each_person_gets_each_line_without_its_end() {
        let (person, mut lines) = mpsc::channel(10);
        let (_keep, audience) = watch::channel(vec![person]);
        let (tail, _text) = oneshot::channel();
        let pipe: OutputPipe = Box::new(std::io::Cursor::new(b"one\r\ntwo\nrest".to_vec()));
        Stderr {
            pipe,
            audience,
            finished: CancellationToken::new(),
            tail,
        }
        .run()
        .await;
        let mut told = Vec::new();
        while let Ok(Notice(line)) = lines.try_recv() {
            told.push(line);
        }
        assert_eq!(told, ["one", "two", "rest"]);
    }
}
