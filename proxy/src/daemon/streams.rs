//! The two descriptors of a session, made ready for the event loop.
//!
//! A socket is set non-blocking; a FIFO is opened anew through `/proc/self/fd`, so that the mode of the description
//! that the editor shares is never touched. What the event loop cannot wait for (a terminal, a file, a device) is
//! refused and relayed by the face. All are close-on-exec, and a passed descriptor is closed once it was opened anew.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, SFlag, fstat};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// What the pool reads a client from.
pub(crate) type Input = Box<dyn AsyncRead + Send + Unpin>;
/// What the pool writes to a client.
pub(crate) type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// Why a descriptor cannot carry a session.
#[derive(Debug, Error)]
pub(crate) enum StreamError {
    /// `STREAM_REFUSED`: it is a terminal, a file or a device.
    #[error("the descriptor is neither a pipe nor a socket")]
    Kind,
    /// `STREAM_REFUSED`: the system refused it.
    #[error("the descriptor cannot be used: {0}")]
    Io(#[from] io::Error),
}

enum Kind {
    Fifo,
    Socket,
}

/// Makes the descriptor that the client writes to readable here, until it ends or `gone` is cancelled.
pub(crate) fn input(descriptor: OwnedFd, gone: &CancellationToken) -> Result<Input, StreamError> {
    Ok(match kind(&descriptor)? {
        Kind::Fifo => {
            let reopened = reopen(&descriptor, OFlag::O_RDONLY)?;
            Box::new(Severable::new(
                pipe::Receiver::from_owned_fd(reopened)?,
                gone,
            ))
        }
        Kind::Socket => Box::new(Severable::new(socket(descriptor)?, gone)),
    })
}

/// Makes the descriptor that the client reads writable here, until it breaks or `gone` is cancelled.
pub(crate) fn output(descriptor: OwnedFd, gone: &CancellationToken) -> Result<Output, StreamError> {
    Ok(match kind(&descriptor)? {
        Kind::Fifo => {
            let reopened = reopen(&descriptor, OFlag::O_WRONLY)?;
            Box::new(Severable::new(pipe::Sender::from_owned_fd(reopened)?, gone))
        }
        Kind::Socket => Box::new(Severable::new(socket(descriptor)?, gone)),
    })
}

fn kind(descriptor: &OwnedFd) -> Result<Kind, StreamError> {
    let status = fstat(descriptor).map_err(io::Error::from)?;
    match SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT {
        SFlag::S_IFIFO => Ok(Kind::Fifo),
        SFlag::S_IFSOCK => Ok(Kind::Socket),
        _ => Err(StreamError::Kind),
    }
}

fn reopen(descriptor: &OwnedFd, direction: OFlag) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    Ok(open(
        path.as_str(),
        direction | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC,
        Mode::empty(),
    )?)
}

fn socket(descriptor: OwnedFd) -> io::Result<UnixStream> {
    let socket = std::os::unix::net::UnixStream::from(descriptor);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}

/// A stream that ends at once when its client is known to be gone, although the pipe behind it stays open.
struct Severable<S> {
    stream: S,
    gone: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<S> Severable<S> {
    fn new(stream: S, gone: &CancellationToken) -> Self {
        Self {
            stream,
            gone: Box::pin(gone.clone().cancelled_owned()),
        }
    }

    fn is_gone(&mut self, context: &mut Context<'_>) -> bool {
        self.gone.as_mut().poll(context).is_ready()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Severable<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_gone(context) {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Severable<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_gone(context) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.is_gone(context) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_gone(context) {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_flush(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::{FcntlArg, fcntl};
    use std::os::fd::AsFd as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    fn is_nonblocking(descriptor: impl std::os::fd::AsFd) -> bool {
        let flags = fcntl(descriptor, FcntlArg::F_GETFL).unwrap();
        OFlag::from_bits_truncate(flags).contains(OFlag::O_NONBLOCK)
    }

    #[tokio::test]
    async fn a_pipe_carries_bytes_and_its_shared_description_stays_blocking() {
        // given a pipe whose reading description is shared with "the editor"
        let (reader, mut writer) = io::pipe().unwrap();
        let kept = reader.try_clone().unwrap();

        // when its reading end is passed
        let mut stream = input(reader.into(), &CancellationToken::new()).unwrap();
        io::Write::write_all(&mut writer, b"abc").unwrap();
        drop(writer);
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();

        // then the bytes and the end arrive and the editor's description has not changed
        assert_eq!(text, "abc");
        assert!(!is_nonblocking(kept.as_fd()));
    }

    #[tokio::test]
    async fn a_socket_carries_bytes_both_ways() {
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let far: OwnedFd = far.into();
        let gone = CancellationToken::new();
        let mut writer = output(far.try_clone().unwrap(), &gone).unwrap();
        let mut reader = input(far, &gone).unwrap();
        let mut near = near;
        writer.write_all(b"out").await.unwrap();
        io::Write::write_all(&mut near, b"in!").unwrap();
        let mut bytes = [0; 3];
        reader.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"in!");
        io::Read::read_exact(&mut near, &mut bytes).unwrap();
        assert_eq!(&bytes, b"out");
    }

    #[tokio::test]
    async fn a_file_is_refused() {
        let file: OwnedFd = tempfile::tempfile().unwrap().into();
        assert!(matches!(
            input(file, &CancellationToken::new()),
            Err(StreamError::Kind)
        ));
    }

    #[tokio::test]
    async fn a_lost_client_ends_a_pending_read_and_fails_a_write() {
        // given a read that waits on a pipe whose writer stays
        let (reader, writer) = io::pipe().unwrap();
        let (_kept, pipe_out) = io::pipe().unwrap();
        let gone = CancellationToken::new();
        let mut stream = input(reader.into(), &gone).unwrap();
        let mut back = output(pipe_out.into(), &gone).unwrap();
        let mut waiting = tokio_test_read(&mut stream);
        assert!(futures_poll_once(&mut waiting).await.is_none());

        // when the client is gone
        gone.cancel();

        // then the read ends and writing is a broken pipe
        assert_eq!(waiting.await.unwrap(), 0);
        assert_eq!(
            back.write(b"x").await.unwrap_err().kind(),
            io::ErrorKind::BrokenPipe
        );
        drop(writer);
    }

    type ReadOne<'a> = Pin<Box<dyn Future<Output = io::Result<usize>> + 'a>>;

    fn tokio_test_read(stream: &mut Input) -> ReadOne<'_> {
        Box::pin(async move {
            let mut byte = [0];
            stream.read(&mut byte).await
        })
    }

    async fn futures_poll_once(future: &mut ReadOne<'_>) -> Option<io::Result<usize>> {
        std::future::poll_fn(|context| {
            Poll::Ready(match future.as_mut().poll(context) {
                Poll::Ready(outcome) => Some(outcome),
                Poll::Pending => None,
            })
        })
        .await
    }
}
