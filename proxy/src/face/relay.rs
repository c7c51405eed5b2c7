//! Moving the session's bytes between the face's own descriptors and its attachment, unread and unchanged.
//!
//! Each direction is one thread with one chunk of memory: what the reader does not take stays in the sender's pipe, so
//! back-pressure reaches the editor as if the server were there itself. Pipes, sockets, terminals and files all do,
//! blocking or not.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{read, write};

use crate::defaults::RELAY_CHUNK;

/// Starts moving stdin into the session. At the end of stdin the session's input ends.
///
/// The thread may wait in a read for ever; it ends with the process.
pub(crate) fn start_input(session: UnixStream) {
    std::thread::spawn(move || {
        let stdin = io::stdin();
        let _ = copy(stdin.as_fd(), session.as_fd());
        let _ = session.shutdown(Shutdown::Write);
    });
}

/// Starts moving the session's output to stdout; something can be received once all of it was written. When nobody
/// reads stdout any more the session's output is closed, as the server's own would be.
pub(crate) fn start_output(session: UnixStream) -> mpsc::Receiver<()> {
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let stdout = io::stdout();
        let _ = copy(session.as_fd(), stdout.as_fd());
        // The face holds this socket elsewhere too, so closing one descriptor would not be seen.
        let _ = session.shutdown(Shutdown::Both);
        let _ = sender.send(());
    });
    receiver
}

/// Copies until the source ends or either side fails.
fn copy(source: BorrowedFd<'_>, target: BorrowedFd<'_>) -> io::Result<()> {
    let mut chunk = vec![0_u8; RELAY_CHUNK];
    loop {
        let count = retry(source, PollFlags::POLLIN, || read(source, &mut chunk))?;
        if count == 0 {
            return Ok(());
        }
        let mut rest = &chunk[..count];
        while !rest.is_empty() {
            let written = retry(target, PollFlags::POLLOUT, || write(target, rest))?;
            rest = &rest[written..];
        }
    }
}

/// Repeats a call that was interrupted, or that a descriptor in non-blocking mode could not do yet: an editor may share
/// a description that it has set so.
fn retry(
    descriptor: BorrowedFd<'_>,
    readiness: PollFlags,
    mut call: impl FnMut() -> nix::Result<usize>,
) -> io::Result<usize> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                let _ = poll(&mut [PollFd::new(descriptor, readiness)], PollTimeout::NONE);
            }
            outcome => return Ok(outcome?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    #[test]
    fn bytes_arrive_unchanged_through_descriptors_in_non_blocking_mode() {
        // given two sockets in non-blocking mode and more bytes than their buffers hold
        let (mut near, source) = UnixStream::pair().unwrap();
        let (target, mut far) = UnixStream::pair().unwrap();
        source.set_nonblocking(true).unwrap();
        target.set_nonblocking(true).unwrap();
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at * 31 / 7) as u8).collect();

        // when they are written, relayed and read at once
        let sent = bytes.clone();
        let writer = std::thread::spawn(move || near.write_all(&sent).unwrap());
        let relay = std::thread::spawn(move || copy(source.as_fd(), target.as_fd()).unwrap());
        let mut received = Vec::new();
        far.read_to_end(&mut received).unwrap();
        writer.join().unwrap();
        relay.join().unwrap();

        // then they are the same
        assert!(received == bytes);
    }

    #[test]
    fn a_closed_target_ends_the_copy() {
        let (mut near, source) = UnixStream::pair().unwrap();
        let (target, far) = UnixStream::pair().unwrap();
        drop(far);
        near.write_all(b"x").unwrap();
        let error = copy(source.as_fd(), target.as_fd()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
