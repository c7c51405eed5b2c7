//! The foreground of a terminal: which group it is, whether it waits for input, and signals to it. Owns the fence of
//! these signals: a group is signalled only right after a process of this terminal's session was seen in it, so that a
//! stale id never reaches a stranger.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use super::super::trees::table::ProcessIdentity;
#[cfg(target_os = "linux")]
use super::super::trees::table::{ProcessEntry, ProcessTable};
use super::device::Device;
#[cfg(target_os = "linux")]
use super::waiting;
use crate::TerminalError;
use crate::subprocess::{Foreground, TerminalSignal};

/// Whose terminal it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    /// The id of the program that leads the session; it is not reaped while the session is looked at, so it stays its own.
    pub(super) program: u32,
    /// Whether SIGKILL to the program's own group is refused.
    pub(super) is_protected: bool,
}

/// Why the foreground was not signalled.
#[derive(Debug)]
pub(super) enum SignalError {
    /// Nothing runs in the foreground, or what does is not of this session.
    NoGroup,
    /// It is the protected program.
    Forbidden,
    /// A live group could not be signalled.
    Broken(String),
}

impl From<SignalError> for TerminalError {
    fn from(error: SignalError) -> Self {
        let reason = match error {
            SignalError::Forbidden => return Self::Forbidden,
            SignalError::NoGroup => "no process of the session is in the foreground".to_owned(),
            SignalError::Broken(reason) => reason,
        };
        Self::Failed { reason }
    }
}

/// What is in the foreground now, of those who were just seen. Blocks: it reads the process table.
#[cfg(target_os = "linux")]
pub(super) fn inspect(
    device: &Device,
    owner: Owner,
    seen: &[ProcessIdentity],
) -> Option<Foreground> {
    let group = device.foreground_group()?;
    let members: Vec<ProcessEntry> = seen
        .iter()
        .filter_map(|identity| {
            ProcessEntry::read(identity.pid).filter(|entry| entry.identity == *identity)
        })
        .filter(|entry| is_member(entry, group, owner) && entry.is_live)
        .collect();
    if members.is_empty() {
        return None;
    }
    let waits = waiting::is_proved(device.slave(), &members);
    Some(Foreground {
        group,
        waits_for_input: waits && device.foreground_group() == Some(group),
    })
}

/// What is in the foreground now; whether it waits cannot be proved here.
#[cfg(not(target_os = "linux"))]
pub(super) fn inspect(device: &Device, _: Owner, _: &[ProcessIdentity]) -> Option<Foreground> {
    device.foreground_group().map(|group| Foreground {
        group,
        waits_for_input: false,
    })
}

/// Signals the foreground group and gives its id. Blocks: it reads the process table.
pub(super) fn signal(
    device: &Device,
    owner: Owner,
    signal: TerminalSignal,
) -> Result<u32, SignalError> {
    send(device, owner, signal, kill_process_group)
}

/// Signals the foreground group by the given call.
pub(super) fn send(
    device: &Device,
    owner: Owner,
    signal: TerminalSignal,
    kill: impl FnOnce(Pid, Signal) -> Result<(), Errno>,
) -> Result<u32, SignalError> {
    let group = device.foreground_group().ok_or(SignalError::NoGroup)?;
    if signal == TerminalSignal::Kill && owner.is_protected && group == owner.program {
        return Err(SignalError::Forbidden);
    }
    let target = Pid::from_raw(group.cast_signed()).ok_or(SignalError::NoGroup)?;
    if !belongs(group, owner) {
        return Err(SignalError::NoGroup);
    }
    match kill(target, number(signal)) {
        Ok(()) => Ok(group),
        Err(Errno::SRCH) => Err(SignalError::NoGroup),
        Err(error) => Err(SignalError::Broken(format!(
            "the foreground group {group} could not be signalled: {error}"
        ))),
    }
}

/// Whether a process of the session is in the group at this moment. The group's leader is asked first: with one read, the
/// moment is as near to the signal as it can be.
#[cfg(target_os = "linux")]
fn belongs(group: u32, owner: Owner) -> bool {
    let is_led = ProcessEntry::read(group).is_some_and(|entry| is_member(&entry, group, owner));
    is_led
        || ProcessTable::read().is_ok_and(|table| {
            let mut entries = table.entries().iter();
            entries.any(|entry| {
                is_member(entry, group, owner)
                    && ProcessEntry::read(entry.identity.pid)
                        .is_some_and(|now| now.identity == entry.identity)
            })
        })
}

/// The kernel gave this group a moment ago; there is no table to ask.
#[cfg(not(target_os = "linux"))]
fn belongs(_: u32, _: Owner) -> bool {
    true
}

#[cfg(target_os = "linux")]
fn is_member(entry: &ProcessEntry, group: u32, owner: Owner) -> bool {
    entry.group == group && entry.session == owner.program
}

fn number(signal: TerminalSignal) -> Signal {
    match signal {
        TerminalSignal::Interrupt => Signal::INT,
        TerminalSignal::Terminate => Signal::TERM,
        TerminalSignal::Kill => Signal::KILL,
        TerminalSignal::Stop => Signal::TSTP,
        TerminalSignal::HangUp => Signal::HUP,
    }
}
