//! The proof that a program waits for input from its terminal. Owns the rule that it is a proof: a thread is asleep in a
//! system call that waits to read this very terminal, before and after everything else was looked at, and there is no
//! input that it has not taken yet. What cannot be read, is malformed or belongs to another architecture proves nothing.
//!
//! The kernel tells the call of a sleeping thread in `/proc/PID/task/TID/syscall` (`proc_pid_syscall(5)`); which
//! descriptors a `select` or `poll` waits for stands in the memory of the process, those of an `epoll` in its fdinfo
//! (`proc_pid_fdinfo(5)`).
//!
//! A descriptor of `/dev/tty` counts as this terminal: children get none from lspool, so a process of the session opened
//! it, and then it is the session's. The limit is one that was handed in from elsewhere through a socket.

mod descriptors;
mod system_call;

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::system_call::{Architecture, Wait};
use super::super::trees::table::ProcessEntry;

/// Whether this machine's system calls are known.
pub(super) const IS_POSSIBLE: bool = Architecture::OWN.is_some();

/// The device number of `/dev/tty`, which stands for the controlling terminal of whoever opens it (tty(4)).
const CONTROLLING_TERMINAL: (u32, u32) = (5, 0);

/// How many bytes of a descriptor set or list are read at most: no program waits for more descriptors than that.
const MAX_LIST_BYTES: usize = 512 * 1024;

/// Whether one of these processes, all of one foreground group, waits for input. Blocks: it reads `/proc`.
pub(super) fn is_proved(slave: &OwnedFd, members: &[ProcessEntry]) -> bool {
    let Some(architecture) = Architecture::OWN else {
        return false;
    };
    let Some(terminal) = TerminalFile::of(slave) else {
        return false;
    };
    // Asked first: what was typed until now has then been taken, so a thread that sleeps afterwards waits for more.
    if !has_no_input(slave) {
        return false;
    }
    members.iter().any(|entry| {
        let process = PathBuf::from(format!("/proc/{}", entry.identity.pid));
        is_native(&process, architecture)
            && threads(&process).iter().any(|thread| {
                let thread = Thread {
                    path: thread,
                    terminal: &terminal,
                };
                thread.waits(architecture)
            })
    })
}

/// Whether no input is ready to be read. The kernel passes on what is under way before it answers.
fn has_no_input(slave: &OwnedFd) -> bool {
    let mut watched = [PollFd::new(slave, PollFlags::IN)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut watched, Some(&at_once)) == Ok(0)
}

/// Whether a process runs a program of this machine's own architecture: the numbers of system calls, and the shape of
/// what they are given, differ in others.
fn is_native(process: &Path, architecture: Architecture) -> bool {
    let mut head = [0; system_call::ELF_HEAD_BYTES];
    let read = File::open(process.join("exe")).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && architecture.runs(&head)
}

/// The folders of a process's threads.
fn threads(process: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(process.join("task")) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect()
}

/// The file that is the terminal.
#[derive(Debug, PartialEq, Eq)]
struct TerminalFile {
    filesystem: u64,
    inode: u64,
    device: u64,
}

impl TerminalFile {
    fn of(slave: &OwnedFd) -> Option<Self> {
        let status = rustix::fs::fstat(slave).ok()?;
        Some(Self {
            filesystem: status.st_dev,
            inode: status.st_ino,
            device: status.st_rdev,
        })
    }
}

fn is_controlling_terminal(device: u64) -> bool {
    (rustix::fs::major(device), rustix::fs::minor(device)) == CONTROLLING_TERMINAL
}

/// A thread of a foreground process.
struct Thread<'a> {
    path: &'a Path,
    terminal: &'a TerminalFile,
}

impl Thread<'_> {
    /// Whether it sleeps in a call that waits to read the terminal. The call is read again at the end: the same call with
    /// the same arguments in a thread that sleeps is what the descriptors in between were looked at for.
    fn waits(&self, architecture: Architecture) -> bool {
        let Some(call) = self.sleeping_call() else {
            return false;
        };
        let Some(wait) = system_call::parse(&call, architecture) else {
            return false;
        };
        self.waits_for_terminal(wait) && self.sleeping_call().is_some_and(|now| now == call)
    }

    /// The call in which the thread sleeps; `None` when it runs or is stopped.
    fn sleeping_call(&self) -> Option<Vec<u8>> {
        let stat = fs::read(self.path.join("stat")).ok()?;
        if !system_call::sleeps(&stat) {
            return None;
        }
        fs::read(self.path.join("syscall")).ok()
    }

    fn waits_for_terminal(&self, wait: Wait) -> bool {
        match wait {
            Wait::Read { descriptor } => self.is_terminal(descriptor),
            Wait::Select { count, address } => {
                let length = descriptors::set_bytes(count);
                self.memory(address, length).is_some_and(|set| {
                    descriptors::in_set(&set, count).any(|number| self.is_terminal(number))
                })
            }
            Wait::Poll { count, address } => {
                let length = (count as usize).saturating_mul(descriptors::POLL_ENTRY_BYTES);
                self.memory(address, length).is_some_and(|list| {
                    descriptors::in_poll_list(&list).any(|number| self.is_terminal(number))
                })
            }
            Wait::Epoll { descriptor } => {
                let path = self.path.join(format!("fdinfo/{descriptor}"));
                fs::read(path).is_ok_and(|information| {
                    descriptors::in_epoll(&information).any(|watched| {
                        self.is_terminal(watched.descriptor)
                            && self.inode(watched.descriptor) == Some(watched.inode)
                    })
                })
            }
        }
    }

    /// A part of the memory; `None` when it cannot be read whole or is longer than any list of descriptors.
    fn memory(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        if length > MAX_LIST_BYTES || i64::try_from(address).is_err() {
            return None;
        }
        let memory = File::open(self.path.join("mem")).ok()?;
        let mut bytes = vec![0; length];
        memory.read_exact_at(&mut bytes, address).ok()?;
        Some(bytes)
    }

    /// Whether a descriptor of the thread is this terminal.
    fn is_terminal(&self, descriptor: u32) -> bool {
        let Some(file) = self.file(descriptor) else {
            return false;
        };
        let opened = TerminalFile {
            filesystem: file.dev(),
            inode: file.ino(),
            device: file.rdev(),
        };
        file.file_type().is_char_device()
            && (opened == *self.terminal || is_controlling_terminal(opened.device))
    }

    fn inode(&self, descriptor: u32) -> Option<u64> {
        Some(self.file(descriptor)?.ino())
    }

    fn file(&self, descriptor: u32) -> Option<fs::Metadata> {
        fs::metadata(self.path.join(format!("fd/{descriptor}"))).ok()
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    use rustix::event::epoll;

    use super::super::device::Pair;
    use crate::TerminalSize;

    fn pair() -> Pair {
        Pair::allocate(TerminalSize {
            rows: 40,
            columns: 160,
        })
        .unwrap()
    }

    /// The thread of this process with the given name.
    fn thread_named(name: &str) -> Option<PathBuf> {
        threads(Path::new("/proc/self")).into_iter().find(|path| {
            fs::read(path.join("comm")).is_ok_and(|comm| comm.trim_ascii() == name.as_bytes())
        })
    }

    /// Lets a thread that is not the first one of its process wait, and tells, once it sleeps in its call, whether it is
    /// seen to wait for its own terminal and for another one.
    fn seen_waiting(name: &str, wait: impl FnOnce(&OwnedFd) + Send + 'static) -> (bool, bool) {
        let (own, other) = (pair(), pair());
        let slave = own.slave.try_clone().unwrap();
        let waiting = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || wait(&slave))
            .unwrap();
        let judge = |pair: &Pair| {
            let terminal = TerminalFile::of(&pair.slave).unwrap();
            let path = thread_named(name).unwrap();
            let thread = Thread {
                path: &path,
                terminal: &terminal,
            };
            thread.waits(Architecture::OWN.unwrap())
        };
        let is_asleep = || {
            let stat = fs::read(thread_named(name)?.join("stat")).ok()?;
            let call = fs::read(thread_named(name)?.join("syscall")).ok()?;
            let is_wait = system_call::parse(&call, Architecture::OWN?).is_some();
            (system_call::sleeps(&stat) && is_wait).then_some(())
        };
        while is_asleep().is_none() {
            thread::yield_now();
        }
        let seen = (judge(&own), judge(&other));
        rustix::io::write(&own.master, b"\n").unwrap();
        waiting.join().unwrap();
        seen
    }

    #[test]
    fn a_thread_that_reads_the_terminal_waits() {
        let read = |slave: &OwnedFd| assert_eq!(rustix::io::read(slave, &mut [0; 8]), Ok(1));

        assert_eq!(seen_waiting("reads", read), (true, false));
    }

    #[test]
    fn a_thread_that_polls_the_terminal_waits() {
        let polls = |flags| {
            move |slave: &OwnedFd| {
                let nothing = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC);
                let nothing = nothing.unwrap();
                let mut list = [
                    PollFd::new(&nothing, PollFlags::IN),
                    PollFd::new(slave, flags),
                ];
                assert_eq!(poll(&mut list, None), Ok(1));
            }
        };

        assert_eq!(seen_waiting("polls", polls(PollFlags::IN)), (true, false));
        let both = PollFlags::RDNORM | PollFlags::PRI;
        assert_eq!(seen_waiting("polls-both", polls(both)), (true, false));
    }

    #[test]
    fn a_thread_that_watches_the_terminal_by_epoll_waits() {
        let watch = |slave: &OwnedFd| {
            let watcher = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
            let data = epoll::EventData::new_u64(7);
            epoll::add(&watcher, slave, data, epoll::EventFlags::IN).unwrap();
            let mut events = [epoll::Event {
                flags: epoll::EventFlags::empty(),
                data,
            }];
            assert_eq!(epoll::wait(&watcher, &mut events[..], None), Ok(1));
        };

        assert_eq!(seen_waiting("epolls", watch), (true, false));
    }

    #[test]
    fn input_that_nobody_took_is_seen() {
        let pair = pair();
        assert!(has_no_input(&pair.slave));

        rustix::io::write(&pair.master, b"half a line").unwrap();
        assert!(has_no_input(&pair.slave), "a line can still be changed");
        rustix::io::write(&pair.master, b"\n").unwrap();

        assert!(!has_no_input(&pair.slave));
    }

    #[test]
    fn a_process_that_is_not_there_waits_for_nothing() {
        let pair = pair();
        let terminal = TerminalFile::of(&pair.slave).unwrap();
        let thread = Thread {
            path: Path::new("/proc/self/task/0"),
            terminal: &terminal,
        };

        assert!(!thread.waits(Architecture::OWN.unwrap()));
        assert!(!thread.is_terminal(0));
        assert_eq!(thread.memory(0, 8), None);
        assert!(!is_native(thread.path, Architecture::OWN.unwrap()));
    }
}
