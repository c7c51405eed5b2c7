//! The output of a terminal. Owns its end: after the last byte that was written until the program's exit, and never
//! before. A device that other processes still hold open gives no end of file, so the end is seen otherwise: once the
//! program has ended, a read that finds nothing proves that the kernel's queue is empty, since the kernel passes on all
//! that is under way before it says so.
//!
//! The device is read only while somebody reads here, so what is not read stays in the kernel, whose queue is short, and
//! the programs that write wait.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::task::coop;
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::condition::Standing;
use super::device::Device;

/// The reading end.
pub(super) struct Output {
    /// Let go at the end of the output.
    device: Option<Arc<Device>>,
    standing: Arc<Standing>,
    exit: Pin<Box<WaitForCancellationFutureOwned>>,
}

/// What one look at the device gave.
enum Look {
    /// Bytes, which are in the buffer.
    Bytes,
    /// Nothing now.
    Nothing,
    /// No program has the device open.
    Unused,
}

impl Output {
    /// The output of a device.
    pub(super) fn new(device: Arc<Device>, standing: Arc<Standing>) -> Self {
        let exit = Box::pin(standing.exit().clone().cancelled_owned());
        Self {
            device: Some(device),
            standing,
            exit,
        }
    }

    /// Looks at the device when there is something to see.
    fn poll_look(
        device: &Device,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<Look>> {
        loop {
            let mut ready = ready!(device.master().poll_read_ready(context))?;
            match ready.try_io(|master| look(master, buffer)) {
                Ok(Ok(Look::Nothing)) | Err(_) => ready.clear_ready(),
                Ok(looked) => return Poll::Ready(looked),
            }
        }
    }

    /// Reads after the exit, when the device is no longer waited for. It shares the task's budget: a process that outlives
    /// the program can write without pause until it is ended, which must not keep the runtime from ending it.
    fn poll_rest(
        device: &Device,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<Look>> {
        let progress = ready!(coop::poll_proceed(context));
        let looked = look(device.master(), buffer);
        progress.made_progress();
        Poll::Ready(looked)
    }
}

/// One read.
fn look(master: &AsyncFd<OwnedFd>, buffer: &mut ReadBuf<'_>) -> io::Result<Look> {
    loop {
        return match rustix::io::read(master, buffer.initialize_unfilled()) {
            Ok(0) | Err(Errno::IO) => Ok(Look::Unused),
            Ok(length) => {
                buffer.advance(length);
                Ok(Look::Bytes)
            }
            Err(Errno::AGAIN) => Ok(Look::Nothing),
            Err(Errno::INTR) => continue,
            Err(error) => Err(error.into()),
        };
    }
}

impl AsyncRead for Output {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let Some(device) = &this.device else {
            return Poll::Ready(Ok(()));
        };
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if !this.standing.exit().is_cancelled() {
            match Self::poll_look(device, context, buffer) {
                Poll::Ready(Ok(Look::Bytes)) => return Poll::Ready(Ok(())),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                // Only the exit can be waited for: a device that is unused stays ready.
                Poll::Ready(Ok(Look::Nothing | Look::Unused)) | Poll::Pending => {
                    ready!(this.exit.as_mut().poll(context));
                }
            }
        }
        // The exit was seen before this look, so nothing that the program wrote can come after it.
        match ready!(Self::poll_rest(device, context, buffer)) {
            Ok(Look::Bytes) => Poll::Ready(Ok(())),
            Ok(Look::Nothing | Look::Unused) => {
                this.device = None;
                Poll::Ready(Ok(()))
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}
