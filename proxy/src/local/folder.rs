//! The runtime folder: the socket, the daemon's lock and the lock of those who start it.
//!
//! The folder is ours, mode 0700 and not a link, judged on the open descriptor; everything in it is reached through
//! that descriptor or its checked path, never through a predictable name in a folder that others can write.

use std::fs::{DirBuilder, File, TryLockError};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, lstat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};
use thiserror::Error;

use super::Places;
use crate::defaults::{ACKNOWLEDGEMENT_TIMEOUT, LOCK_PAUSE, SOCKET_PROTOCOL};

/// The longest path that a socket address holds.
const LONGEST_SOCKET_PATH: usize = 107;

/// Why there is no usable runtime folder, or why something in it could not be used.
#[derive(Debug, Error)]
pub(crate) enum FolderError {
    /// `RUNTIME_DIR_MISSING`: no variable names a place.
    #[error(
        "there is no place for lspool's socket: set LSPOOL_RUNTIME_DIR, or HOME, to a folder of yours"
    )]
    NoPlace,
    /// `RUNTIME_DIR_UNSAFE`: the folder belongs to somebody else, is open to others, or is no folder.
    #[error(
        "{path} cannot hold lspool's socket: {reason}; make it yours with `chmod 700`, or set LSPOOL_RUNTIME_DIR"
    )]
    Unsafe {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// `RUNTIME_DIR_FAILED`: the system refused.
    #[error("{what} {path} failed: {source}")]
    Io {
        /// What was being done.
        what: &'static str,
        /// The folder or the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// `RUNTIME_DIR_BUSY`: a lock was not free in time.
    #[error("{0} is held by another lspool and was not given up in time; `lspool status` shows it")]
    Busy(PathBuf),
}

/// An open, checked runtime folder.
#[derive(Debug)]
pub(crate) struct RuntimeFolder {
    descriptor: OwnedFd,
    path: PathBuf,
}

/// A lock of the folder; dropping it gives it up.
#[derive(Debug)]
pub(crate) struct FolderLock {
    file: File,
}

/// Which file a name stands for at the moment: its device and its number there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct FileIdentity {
    device: u64,
    number: u64,
}

impl RuntimeFolder {
    /// Opens the folder that the environment names, making it where lspool may.
    pub(crate) fn open(places: &Places) -> Result<Self, FolderError> {
        if let Some(path) = &places.runtime {
            return Self::open_or_make(path);
        }
        if let Some(path) = &places.xdg_runtime
            && Self::open_checked(path).is_ok()
        {
            return Self::open_or_make(&path.join("lspool"));
        }
        let state = places.state.as_deref().ok_or(FolderError::NoPlace)?;
        Self::open_or_make(&state.join("run"))
    }

    /// The socket's path, for people.
    pub(crate) fn socket_path(&self) -> PathBuf {
        self.path.join(socket_name())
    }

    /// The folder that is open, whatever its name stands for by now.
    pub(crate) fn open_path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.descriptor.as_raw_fd()))
    }

    /// Whether the folder's name still stands for this folder.
    pub(crate) fn is_in_place(&self) -> bool {
        let named = lstat(&self.path).ok().map(FileIdentity::from);
        named.is_some() && named == fstat(&self.descriptor).ok().map(FileIdentity::from)
    }

    /// What the socket's name stands for, if anything.
    pub(crate) fn socket_identity(&self) -> Option<FileIdentity> {
        self.identity(&socket_name())
    }

    /// Whether this is the lock whose file has the name of the daemon's lock.
    pub(crate) fn is_daemon_lock(&self, lock: &FolderLock) -> bool {
        let held = fstat(&lock.file).ok().map(FileIdentity::from);
        held.is_some() && held == self.identity(&daemon_lock_name())
    }

    /// The path of the daemon's lock, for people.
    pub(crate) fn daemon_lock_path(&self) -> PathBuf {
        self.path.join(daemon_lock_name())
    }

    /// Whether a daemon holds its lock. Makes nothing.
    pub(crate) fn is_daemon_locked(&self) -> Result<bool, FolderError> {
        let name = daemon_lock_name();
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = match openat(&self.descriptor, name.as_str(), flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::ENOENT) => return Ok(false),
            Err(error) => return Err(self.failed("opening", &name, error.into())),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(source)) => Err(self.failed("locking", &name, source)),
        }
    }

    /// Binds the socket, mode 0600, in place of one that a dead daemon left. Only the holder of the daemon's lock calls
    /// this.
    pub(crate) fn bind(&self) -> Result<UnixListener, FolderError> {
        self.remove_socket()?;
        UnixListener::bind(self.address())
            .map_err(|source| self.failed("binding", &socket_name(), source))
    }

    /// Connects to the daemon, `None` when there is none. Waits for at most [`ACKNOWLEDGEMENT_TIMEOUT`]: a daemon that
    /// hangs takes nobody from its full queue.
    pub(crate) fn connect(&self) -> Result<Option<UnixStream>, FolderError> {
        match connect_within(&self.address(), ACKNOWLEDGEMENT_TIMEOUT) {
            Ok(stream) => Ok(Some(stream)),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
                ) =>
            {
                Ok(None)
            }
            Err(source) => Err(self.failed("connecting to", &socket_name(), source)),
        }
    }

    /// Removes the socket; that there is none is no error.
    pub(crate) fn remove_socket(&self) -> Result<(), FolderError> {
        match unlinkat(
            &self.descriptor,
            socket_name().as_str(),
            UnlinkatFlags::NoRemoveDir,
        ) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(error) => Err(self.failed("removing", &socket_name(), error.into())),
        }
    }

    /// Takes the lock that makes a daemon the only one, `None` when another has it.
    pub(crate) fn try_daemon_lock(&self) -> Result<Option<FolderLock>, FolderError> {
        let file = self.open_lock(&daemon_lock_name())?;
        match file.try_lock() {
            Ok(()) => Ok(Some(FolderLock { file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => {
                Err(self.failed("locking", &daemon_lock_name(), source))
            }
        }
    }

    /// Waits for the daemon's lock.
    pub(crate) fn daemon_lock(&self, patience: Duration) -> Result<FolderLock, FolderError> {
        self.wait_for_lock(&daemon_lock_name(), patience)
    }

    /// Waits for the lock of those who start a daemon, so that of many faces one starts it and the others find it.
    pub(crate) fn start_lock(&self, patience: Duration) -> Result<FolderLock, FolderError> {
        self.wait_for_lock("start.lock", patience)
    }

    fn identity(&self, name: &str) -> Option<FileIdentity> {
        fstatat(&self.descriptor, name, AtFlags::AT_SYMLINK_NOFOLLOW)
            .ok()
            .map(FileIdentity::from)
    }

    fn wait_for_lock(&self, name: &str, patience: Duration) -> Result<FolderLock, FolderError> {
        let file = self.open_lock(name)?;
        let deadline = Instant::now() + patience;
        let (mut pause, longest) = LOCK_PAUSE;
        // A blocking lock cannot be interrupted, and would outlive the patience.
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(FolderLock { file }),
                Err(TryLockError::Error(source)) => {
                    return Err(self.failed("locking", name, source));
                }
                Err(TryLockError::WouldBlock) => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(FolderError::Busy(self.path.join(name)));
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(longest);
        }
    }

    fn open_lock(&self, name: &str) -> Result<File, FolderError> {
        openat(
            &self.descriptor,
            name,
            OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC,
            Mode::S_IRUSR | Mode::S_IWUSR,
        )
        .map(File::from)
        .map_err(|error| self.failed("opening", name, error.into()))
    }

    /// The address to bind or connect: the path itself, or one through the open descriptor when it is too long.
    fn address(&self) -> PathBuf {
        let path = self.socket_path();
        if path.as_os_str().as_bytes().len() <= LONGEST_SOCKET_PATH {
            return path;
        }
        self.open_path().join(socket_name())
    }

    fn open_or_make(path: &Path) -> Result<Self, FolderError> {
        let path = std::path::absolute(path).map_err(|source| FolderError::Io {
            what: "finding",
            path: path.to_owned(),
            source,
        })?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(|source| FolderError::Io {
                what: "making",
                path: path.clone(),
                source,
            })?;
        Self::open_checked(&path)
    }

    fn open_checked(path: &Path) -> Result<Self, FolderError> {
        // A slash or a dot at the end would open what a link leads to.
        let path: &Path = &path.components().collect::<PathBuf>();
        let refuse = |reason: String| FolderError::Unsafe {
            path: path.to_owned(),
            reason,
        };
        let descriptor = open(
            path,
            OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC,
            Mode::empty(),
        )
        .map_err(|error| match error {
            Errno::ELOOP | Errno::ENOTDIR => {
                refuse("it is not a folder, or a link to one".to_owned())
            }
            error => FolderError::Io {
                what: "opening",
                path: path.to_owned(),
                source: error.into(),
            },
        })?;
        let status = fstat(descriptor.as_fd()).map_err(|error| FolderError::Io {
            what: "inspecting",
            path: path.to_owned(),
            source: error.into(),
        })?;
        if SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT != SFlag::S_IFDIR {
            return Err(refuse("it is not a folder".to_owned()));
        }
        if status.st_uid != geteuid().as_raw() {
            return Err(refuse(format!("it belongs to user {}", status.st_uid)));
        }
        if status.st_mode & 0o077 != 0 {
            return Err(refuse(format!(
                "its mode is {:o} and not 700",
                status.st_mode & 0o777
            )));
        }
        Ok(Self {
            descriptor,
            path: path.to_owned(),
        })
    }

    fn failed(&self, what: &'static str, name: &str, source: io::Error) -> FolderError {
        FolderError::Io {
            what,
            path: self.path.join(name),
            source,
        }
    }
}

impl From<FileStat> for FileIdentity {
    fn from(status: FileStat) -> Self {
        Self {
            device: status.st_dev,
            number: status.st_ino,
        }
    }
}

fn connect_within(address: &Path, patience: Duration) -> io::Result<UnixStream> {
    let socket = socket(
        AddressFamily::Unix,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    let stream = UnixStream::from(socket);
    // The time for sending is the time for connecting too.
    stream.set_write_timeout(Some(patience))?;
    let address = UnixAddr::new(address)?;
    loop {
        match connect(stream.as_raw_fd(), &address) {
            Err(Errno::EINTR) => {}
            outcome => break outcome?,
        }
    }
    stream.set_write_timeout(None)?;
    Ok(stream)
}

fn socket_name() -> String {
    format!("lspool-{SOCKET_PROTOCOL}.sock")
}

fn daemon_lock_name() -> String {
    format!("lspool-{SOCKET_PROTOCOL}.lock")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn at(path: &Path) -> Places {
        Places {
            runtime: Some(path.to_owned()),
            ..Places::default()
        }
    }

    fn chmod(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_missing_folder_is_made_private() {
        let base = tempfile::tempdir().unwrap();
        let folder = RuntimeFolder::open(&at(&base.path().join("a/b"))).unwrap();
        assert_eq!(fstat(&folder.descriptor).unwrap().st_mode & 0o777, 0o700);
    }

    #[test]
    fn a_folder_that_others_can_enter_is_refused() {
        let base = tempfile::tempdir().unwrap();
        chmod(base.path(), 0o755);
        let error = RuntimeFolder::open(&at(base.path())).unwrap_err();
        assert!(matches!(error, FolderError::Unsafe { .. }), "{error}");
        assert!(error.to_string().contains("755"), "{error}");
    }

    #[test]
    fn a_link_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let link = base.path().join("link");
        chmod(base.path(), 0o700);
        symlink(base.path(), &link).unwrap();
        for spelling in ["link", "link/", "link//", "link/."] {
            let error = RuntimeFolder::open(&at(&base.path().join(spelling))).unwrap_err();
            assert!(
                matches!(error, FolderError::Unsafe { .. }),
                "{spelling}: {error}"
            );
        }
    }

    #[test]
    fn an_open_xdg_folder_is_passed_over_for_the_state_folder() {
        let base = tempfile::tempdir().unwrap();
        chmod(base.path(), 0o755);
        let places = Places {
            xdg_runtime: Some(base.path().to_owned()),
            state: Some(base.path().join("state")),
            ..Places::default()
        };
        let folder = RuntimeFolder::open(&places).unwrap();
        assert_eq!(folder.path, base.path().join("state/run"));
    }

    #[test]
    fn a_private_xdg_folder_is_used() {
        let base = tempfile::tempdir().unwrap();
        chmod(base.path(), 0o700);
        let places = Places {
            xdg_runtime: Some(base.path().to_owned()),
            ..Places::default()
        };
        assert_eq!(
            RuntimeFolder::open(&places).unwrap().path,
            base.path().join("lspool")
        );
    }

    #[test]
    fn a_path_too_long_for_an_address_is_bound_and_reached() {
        // given a folder whose socket path is longer than an address holds
        let base = tempfile::tempdir().unwrap();
        let long = base.path().join("x".repeat(120));
        let folder = RuntimeFolder::open(&at(&long)).unwrap();

        // when the socket is bound
        let listener = folder.bind().unwrap();

        // then it lies in that folder and can be reached
        assert!(folder.connect().unwrap().is_some());
        assert!(long.join(socket_name()).symlink_metadata().is_ok());
        drop(listener);
    }

    #[test]
    fn a_dead_daemons_socket_is_replaced() {
        let base = tempfile::tempdir().unwrap();
        chmod(base.path(), 0o700);
        let folder = RuntimeFolder::open(&at(base.path())).unwrap();
        drop(folder.bind().unwrap());
        assert!(folder.connect().unwrap().is_none());
        let _listener = folder.bind().unwrap();
        assert!(folder.connect().unwrap().is_some());
    }

    #[test]
    fn the_daemon_lock_is_held_once() {
        let base = tempfile::tempdir().unwrap();
        chmod(base.path(), 0o700);
        let folder = RuntimeFolder::open(&at(base.path())).unwrap();
        let held = folder.try_daemon_lock().unwrap();
        assert!(held.is_some());
        assert!(folder.try_daemon_lock().unwrap().is_none());
        assert!(matches!(
            folder.daemon_lock(Duration::from_millis(1)),
            Err(FolderError::Busy(_))
        ));
        drop(held);
        assert!(folder.daemon_lock(Duration::from_secs(5)).is_ok());
    }
}
