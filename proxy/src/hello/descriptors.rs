//! Sending and receiving the hello with its descriptors in one message.
//!
//! Descriptors are received close-on-exec and owned from the first moment. Of too many one more than a session needs is
//! kept, so that the hello can be refused, and the rest is closed at once.

use std::io::{self, IoSlice, IoSliceMut, Write as _};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, UnixAddr, recvmsg, sendmsg};
use tokio::io::Interest;

use super::HelloError;
use crate::defaults::MAX_HELLO_BYTES;
use crate::system::adopt_received;

/// The most descriptors that are kept of one hello: one more than a session needs.
const DESCRIPTORS: usize = 3;

/// The body of a received hello and the descriptors that came with it.
pub(crate) struct ReceivedHello {
    /// The JSON text, not yet decoded.
    pub(crate) body: Vec<u8>,
    /// The descriptors, in the order in which they were sent.
    pub(crate) descriptors: Vec<OwnedFd>,
}

/// Writes a whole message with the descriptors attached to its first byte.
pub(crate) fn send(
    socket: &mut UnixStream,
    message: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let raw: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let control: &[ControlMessage<'_>] = if raw.is_empty() { &[] } else { &rights };
    let sent = loop {
        match sendmsg::<UnixAddr>(
            socket.as_raw_fd(),
            &[IoSlice::new(message)],
            control,
            MsgFlags::MSG_NOSIGNAL,
            None,
        ) {
            Err(nix::errno::Errno::EINTR) => {}
            outcome => break outcome?,
        }
    };
    socket.write_all(&message[sent..])
}

/// Reads a whole hello. Dropping the future loses what was read, so a connection calls it once.
pub(crate) async fn receive(socket: &tokio::net::UnixStream) -> Result<ReceivedHello, HelloError> {
    let mut descriptors = Vec::new();
    let mut head = [0_u8; 4];
    read_exact(socket, &mut head, &mut descriptors).await?;
    let length = u32::from_be_bytes(head) as usize;
    if length > MAX_HELLO_BYTES {
        return Err(HelloError::TooLong(length));
    }
    // Grown as bytes arrive, so that a length alone allocates nothing.
    let mut body = Vec::new();
    let mut chunk = vec![0_u8; length.min(64 * 1024)];
    while body.len() < length {
        let wanted = chunk.len().min(length - body.len());
        read_exact(socket, &mut chunk[..wanted], &mut descriptors).await?;
        body.extend_from_slice(&chunk[..wanted]);
    }
    Ok(ReceivedHello { body, descriptors })
}

async fn read_exact(
    socket: &tokio::net::UnixStream,
    mut target: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<()> {
    while !target.is_empty() {
        let (count, mut received) = socket
            .async_io(Interest::READABLE, || {
                receive_some(socket.as_raw_fd(), target)
            })
            .await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        descriptors.append(&mut received);
        descriptors.truncate(DESCRIPTORS);
        target = &mut target[count..];
    }
    Ok(())
}

fn receive_some(socket: RawFd, target: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    // Room for as many as the kernel ever attaches, so that a surplus is received and closed rather than lost.
    let mut space = nix::cmsg_space!([RawFd; 253]);
    let mut slices = [IoSliceMut::new(target)];
    let message = recvmsg::<UnixAddr>(
        socket,
        &mut slices,
        Some(&mut space),
        MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT,
    )?;
    let mut received = Vec::new();
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(raw) = control {
            received.extend(raw.into_iter().map(adopt_received));
        }
    }
    Ok((message.bytes, received))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::fd::AsFd as _;

    #[tokio::test]
    async fn a_large_hello_arrives_whole_with_its_descriptors() {
        // given a body that does not fit the socket's buffer and a pipe to pass
        let (mut near, far) = UnixStream::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        let body = vec![b'x'; 1_000_000];
        let mut message = (body.len() as u32).to_be_bytes().to_vec();
        message.extend_from_slice(&body);
        far.set_nonblocking(true).unwrap();
        let far = tokio::net::UnixStream::from_std(far).unwrap();

        // when it is sent and received
        let sender = std::thread::spawn(move || {
            send(&mut near, &message, &[writer.as_fd()]).unwrap();
            drop(writer);
            near
        });
        let received = receive(&far).await.unwrap();
        let _near = sender.join().unwrap();

        // then both the bytes and a working descriptor are there
        assert_eq!(received.body, body);
        let [descriptor] = <[OwnedFd; 1]>::try_from(received.descriptors).unwrap();
        let mut pipe = io::PipeWriter::from(descriptor);
        pipe.write_all(b"through").unwrap();
        drop(pipe);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
    }

    #[tokio::test]
    async fn a_length_over_the_cap_is_refused_before_the_body() {
        let (mut near, far) = UnixStream::pair().unwrap();
        far.set_nonblocking(true).unwrap();
        let far = tokio::net::UnixStream::from_std(far).unwrap();
        near.write_all(&u32::MAX.to_be_bytes()).unwrap();
        assert!(matches!(receive(&far).await, Err(HelloError::TooLong(_))));
    }

    #[tokio::test]
    async fn surplus_descriptors_are_closed() {
        // given a message with four descriptors of one pipe's writing end
        let (mut near, far) = UnixStream::pair().unwrap();
        far.set_nonblocking(true).unwrap();
        let far = tokio::net::UnixStream::from_std(far).unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        let message = [&1_u32.to_be_bytes()[..], b"x"].concat();
        send(&mut near, &message, &[writer.as_fd(); 4]).unwrap();
        drop(writer);

        // when it is received and the kept ones, too many for a session, are dropped
        let received = receive(&far).await.unwrap();
        assert_eq!(received.descriptors.len(), 3);
        drop(received);

        // then no writing end is left
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
}
