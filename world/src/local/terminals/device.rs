//! The device of a terminal. Owns both of its ends: the master, through which lspool reads and writes, and the slave,
//! which programs see.
//!
//! The slave stays open here until the session is gone. Without that, a program that closes its three streams and opens
//! its terminal again later would look like the end of all output in between; and through it the kernel tells whether
//! there is input that no program has taken.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::pty::OpenptFlags;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, OutputModes, Winsize, tcgetattr, tcgetpgrp, tcsetattr,
    tcsetwinsize,
};
use tokio::io::unix::AsyncFd;

use crate::TerminalSize;

/// Both ends of a device that is not yet registered with the runtime.
pub(super) struct Pair {
    pub(super) master: OwnedFd,
    pub(super) slave: OwnedFd,
}

impl Pair {
    /// Allocates a device of the given size in the state that an interactive program expects: whole lines with echo,
    /// signals from keys, UTF-8. No process gets a descriptor of it by accident, and it does not become the controlling
    /// terminal of this process.
    pub(super) fn allocate(size: TerminalSize) -> io::Result<Self> {
        let master = open_master()?;
        rustix::pty::grantpt(&master)?;
        rustix::pty::unlockpt(&master)?;
        rustix::io::ioctl_fionbio(&master, true)?;
        let slave = open_slave(&master)?;
        set_line(&slave)?;
        tcsetwinsize(&slave, window(size))?;
        Ok(Self { master, slave })
    }
}

#[cfg(target_os = "linux")]
fn open_master() -> io::Result<OwnedFd> {
    Ok(rustix::pty::openpt(
        OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC,
    )?)
}

/// Elsewhere the flag is set a moment later: the call that opens does not take it.
#[cfg(not(target_os = "linux"))]
fn open_master() -> io::Result<OwnedFd> {
    let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    rustix::io::fcntl_setfd(&master, rustix::io::FdFlags::CLOEXEC)?;
    Ok(master)
}

/// Opens the slave of a master: by the master itself where the kernel can, since a path can lead to another mount.
fn open_slave(master: &OwnedFd) -> io::Result<OwnedFd> {
    #[cfg(target_os = "linux")]
    {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        if let Ok(slave) = rustix::pty::ioctl_tiocgptpeer(master, flags) {
            return Ok(slave);
        }
    }
    let name = rustix::pty::ptsname(master, Vec::new())?;
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
    Ok(rustix::fs::open(name, flags, rustix::fs::Mode::empty())?)
}

/// Sets what differs between systems for a new device, so that a program finds the same everywhere.
fn set_line(slave: &OwnedFd) -> io::Result<()> {
    let mut line = tcgetattr(slave)?;
    line.input_modes |= InputModes::BRKINT | InputModes::ICRNL | InputModes::IXON;
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    {
        line.input_modes |= InputModes::IUTF8;
    }
    line.output_modes |= OutputModes::OPOST | OutputModes::ONLCR;
    line.local_modes |= LocalModes::ISIG
        | LocalModes::ICANON
        | LocalModes::IEXTEN
        | LocalModes::ECHO
        | LocalModes::ECHOE
        | LocalModes::ECHOK
        | LocalModes::ECHOCTL
        | LocalModes::ECHOKE;
    Ok(tcsetattr(slave, OptionalActions::Now, &line)?)
}

fn window(size: TerminalSize) -> Winsize {
    Winsize {
        ws_row: size.rows,
        ws_col: size.columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

/// A device that is registered with the runtime.
#[derive(Debug)]
pub(super) struct Device {
    master: AsyncFd<OwnedFd>,
    slave: OwnedFd,
}

impl Device {
    /// Registers a device.
    #[expect(
        deprecated,
        reason = "its successor is unsafe, for types whose descriptor can change; an owned descriptor cannot"
    )]
    pub(super) fn new(pair: Pair) -> io::Result<Self> {
        Ok(Self {
            master: AsyncFd::new(pair.master)?,
            slave: pair.slave,
        })
    }

    /// The master, to be read.
    pub(super) fn master(&self) -> &AsyncFd<OwnedFd> {
        &self.master
    }

    /// The slave, to be looked at, never to be read or written.
    pub(super) fn slave(&self) -> &OwnedFd {
        &self.slave
    }

    /// Writes all of the bytes as input. A future that is dropped may have written a part.
    pub(super) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let mut ready = self.master.writable().await?;
            let write = |master: &AsyncFd<OwnedFd>| Ok(rustix::io::write(master, bytes)?);
            match ready.try_io(write) {
                Ok(Ok(0)) => ready.clear_ready(),
                Ok(Ok(length)) => bytes = &bytes[length..],
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Err(error),
                Err(_would_block) => {}
            }
        }
        Ok(())
    }

    /// Changes the size; the kernel tells the foreground when it differs.
    pub(super) fn resize(&self, size: TerminalSize) -> io::Result<()> {
        Ok(tcsetwinsize(&self.master, window(size))?)
    }

    /// The id of the foreground group; `None` where there is none.
    pub(super) fn foreground_group(&self) -> Option<u32> {
        let group = tcgetpgrp(&self.master).ok()?;
        u32::try_from(group.as_raw_pid()).ok()
    }
}

/// Holds a device for the handle until the session is gone.
#[derive(Debug)]
pub(super) struct Holder(Mutex<Option<Arc<Device>>>);

impl Holder {
    /// Holds a device.
    pub(super) fn new(device: Arc<Device>) -> Self {
        Self(Mutex::new(Some(device)))
    }

    /// The device; `None` once the session is gone.
    pub(super) fn device(&self) -> Option<Arc<Device>> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Lets the device go. It is closed once the output that is still in it was read or given up.
    pub(super) fn release(&self) {
        let device = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(device);
    }
}
