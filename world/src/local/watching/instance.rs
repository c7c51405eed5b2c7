//! One inotify instance: the kernel's queue of events and the watches that fill it (inotify(7)). Owns the rule that a
//! watch belongs to an open folder and not to a path, and that a read takes in a bounded number of bytes.

use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

/// How many bytes of events one read takes in.
const CHUNK_BYTES: usize = 64 * 1024;

/// The size of the shortest event in bytes.
const EVENT_MIN_BYTES: u64 = 16;

/// The number of a watch in its instance. The kernel gives the same folder the same number for as long as it is watched.
pub(super) type WatchNumber = i32;

/// What happened in a watched folder.
#[derive(Debug)]
pub(super) struct Event {
    /// The watch of the folder.
    pub(super) watch: WatchNumber,
    /// What happened.
    pub(super) what: ReadFlags,
    /// The same in both halves of a rename.
    pub(super) cookie: u32,
    /// To which entry; none for the folder itself.
    pub(super) name: Option<OsString>,
}

/// An inotify instance.
#[derive(Debug)]
pub(super) struct Instance {
    descriptor: Arc<OwnedFd>,
    chunk: Box<[MaybeUninit<u8>]>,
}

impl Instance {
    /// A new instance without watches.
    pub(super) fn open() -> io::Result<Self> {
        let descriptor = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Self {
            descriptor: Arc::new(descriptor),
            chunk: vec![MaybeUninit::uninit(); CHUNK_BYTES].into_boxed_slice(),
        })
    }

    /// The descriptor, which is readable when there are events.
    pub(super) fn descriptor(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.descriptor)
    }

    /// Watches an open folder.
    ///
    /// Gives `ENOSPC` when the user has no watch left (`fs.inotify.max_user_watches`).
    pub(super) fn watch(
        &self,
        folder: BorrowedFd<'_>,
        what: WatchFlags,
    ) -> Result<WatchNumber, Errno> {
        // By its descriptor the folder cannot be swapped between the watch and what is then listed.
        let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
        inotify::add_watch(self.descriptor.as_fd(), path, what | WatchFlags::ONLYDIR)
    }

    /// Ends a watch. One that ended by itself is none any more.
    pub(super) fn unwatch(&self, watch: WatchNumber) {
        let _ended_by_itself = inotify::remove_watch(self.descriptor.as_fd(), watch);
    }

    /// The next events, in order; none when the queue is empty.
    pub(super) fn read(&mut self) -> io::Result<Vec<Event>> {
        let mut reader = Reader::new(self.descriptor.as_fd(), &mut self.chunk);
        let mut events = Vec::new();
        loop {
            match reader.next() {
                Ok(event) => events.push(Event {
                    watch: event.wd(),
                    what: event.events(),
                    cookie: event.cookie(),
                    name: event
                        .file_name()
                        .map(|name| OsStr::from_bytes(name.to_bytes()).to_os_string()),
                }),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Ok(events),
                Err(error) => return Err(error.into()),
            }
            if reader.is_buffer_empty() {
                return Ok(events);
            }
        }
    }

    /// How many events are queued now, or more.
    pub(super) fn queued_at_most(&self) -> io::Result<u64> {
        let bytes = rustix::io::ioctl_fionread(self.descriptor.as_fd())?;
        Ok(bytes / EVENT_MIN_BYTES)
    }
}
