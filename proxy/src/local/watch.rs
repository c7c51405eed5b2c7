//! Noticing that something was taken out of a folder, without looking at it from time to time.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::unistd::read;
use tokio::io::unix::AsyncFd;

use crate::system;

/// Bytes of events that are read at once; what they say is not used, so a rest only makes one more wake.
const EVENT_BYTES: usize = 4096;

/// A watch on one folder.
#[derive(Debug)]
pub(crate) struct FolderWatch {
    events: AsyncFd<OwnedFd>,
}

impl FolderWatch {
    /// Starts to watch the folder for what is deleted, moved away or replaced in it, and for its own end or move. Must
    /// be called inside a runtime.
    pub(crate) fn start(folder: &Path) -> io::Result<Self> {
        let watch = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        watch.add_watch(
            folder,
            AddWatchFlags::IN_DELETE
                | AddWatchFlags::IN_MOVE
                | AddWatchFlags::IN_DELETE_SELF
                | AddWatchFlags::IN_MOVE_SELF
                | AddWatchFlags::IN_ONLYDIR,
        )?;
        Ok(Self {
            events: system::readiness(watch.into())?,
        })
    }

    /// Resolves when something was taken away since the last time, or when that cannot be known any more.
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn changed(&self) -> io::Result<()> {
        let mut events = [0_u8; EVENT_BYTES];
        loop {
            let mut ready = self.events.readable().await?;
            let outcome = ready.try_io(|descriptor| match read(descriptor, &mut events) {
                Err(Errno::EINTR) => Ok(0),
                outcome => Ok(outcome?),
            });
            match outcome {
                Ok(Ok(0)) | Err(_) => {}
                Ok(outcome) => return outcome.map(|_| ()),
            }
        }
    }
}
