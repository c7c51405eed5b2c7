//! The door: the daemon's socket in its folder, which is put back when somebody takes it away.
//!
//! Invariant: a socket is bound only while this daemon holds the lock that has the lock's name in the folder that has
//! the folder's name. Once that cannot be, the door is shut: the next daemon may serve whoever comes.

use std::io;

use thiserror::Error;
use tokio::net::{UnixListener, UnixStream};

use super::listen;
use crate::defaults::{ACCEPT_PAUSE, LOCK_SLICE};
use crate::local::folder::{FileIdentity, FolderError, FolderLock, RuntimeFolder};
use crate::local::watch::FolderWatch;

/// Why nobody can come in any more.
#[derive(Debug, Error)]
pub(super) enum Shut {
    /// The socket cannot be bound, or another daemon has the lock by now; the variants of [`FolderError`] say why.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The runtime refused the bound socket.
    #[error("the socket cannot be listened on: {0}")]
    Listen(#[from] io::Error),
    /// The folder is not at its place any more.
    #[error("the runtime folder was removed or replaced")]
    FolderGone,
}

/// An open door.
#[derive(Debug)]
pub(super) struct Door<'a> {
    folder: &'a RuntimeFolder,
    lock: FolderLock,
    listener: UnixListener,
    socket: Option<FileIdentity>,
    watch: Option<FolderWatch>,
}

impl<'a> Door<'a> {
    /// Binds the socket and listens, under the daemon's lock. Must be called inside a runtime.
    pub(super) fn open(folder: &'a RuntimeFolder, lock: FolderLock) -> Result<Self, Shut> {
        // Before the socket is there, so that nobody can take it away unnoticed.
        let watch = FolderWatch::start(&folder.open_path())
            .inspect_err(|error| tracing::warn!(%error, "a removed socket will not be noticed"))
            .ok();
        let listener = listen(folder.bind()?)?;
        Ok(Self {
            folder,
            lock,
            listener,
            socket: folder.socket_identity(),
            watch,
        })
    }

    /// The next one who comes in; meanwhile the socket is put back whenever it was taken away.
    pub(super) async fn next(&mut self) -> Result<UnixStream, Shut> {
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((control, _)) => return Ok(control),
                    Err(error) => {
                        tracing::error!(%error, "a connection could not be accepted");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                is_watched = changed(self.watch.as_ref()) => {
                    if let Err(error) = is_watched {
                        tracing::warn!(%error, "a removed socket will not be noticed");
                        self.watch = None;
                    }
                    self.restore()?;
                }
            }
        }
    }

    /// Takes the socket away, unless it is another daemon's, and then gives up the lock.
    pub(super) fn close(self) {
        let is_own = self.socket.is_some() && self.folder.socket_identity() == self.socket;
        if is_own && let Err(error) = self.folder.remove_socket() {
            tracing::error!(%error, "the socket stays");
        }
        drop(self.listener);
        drop(self.lock);
    }

    /// Puts back what is missing of lock and socket.
    fn restore(&mut self) -> Result<(), Shut> {
        if !self.folder.is_in_place() {
            return Err(Shut::FolderGone);
        }
        if !self.folder.is_daemon_lock(&self.lock) {
            self.lock = self.folder.daemon_lock(LOCK_SLICE)?;
            tracing::warn!("the lock's file was taken away; locked a new one");
        }
        if self.socket.is_none() || self.folder.socket_identity() != self.socket {
            // Whoever waits at the old socket sees its end and comes again.
            self.listener = listen(self.folder.bind()?)?;
            self.socket = self.folder.socket_identity();
            tracing::warn!("the socket was taken away; bound it again");
        }
        Ok(())
    }
}

async fn changed(watch: Option<&FolderWatch>) -> io::Result<()> {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}
