//! The command of a child, and its steps between fork and exec. Owns the rule that a program is executed as it is: where
//! the system cannot execute it the start fails, and no shell reads it instead, as execvp(3) lets one do.
//!
//! A command without a step is started without a fork, which is much cheaper for a process with much memory.

use std::ffi::{CString, OsStr};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

use nix::libc::{c_char, execve};

/// A command whose environment is exactly the one that it is given.
#[derive(Debug)]
pub(in crate::local) struct ChildCommand {
    command: Command,
    has_steps: bool,
}

impl ChildCommand {
    /// A command with an empty environment.
    pub(super) fn new(program: &Path) -> Self {
        let mut command = Command::new(program);
        command.env_clear();
        Self {
            command,
            has_steps: false,
        }
    }

    /// Adds a step that the child takes before it becomes the program.
    ///
    /// # Safety
    ///
    /// As for [`CommandExt::pre_exec`]: the step makes async-signal-safe calls alone, allocates nothing and takes no lock.
    #[expect(
        unsafe_code,
        reason = "what runs between fork and exec is bound by more than types"
    )]
    pub(in crate::local) unsafe fn pre_exec(
        &mut self,
        step: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
    ) -> &mut Self {
        self.has_steps = true;
        // SAFETY: the caller promises what is asked.
        unsafe {
            self.command.pre_exec(step);
        }
        self
    }

    /// Starts the child. Blocks until the new program runs.
    #[expect(
        unsafe_code,
        reason = "what runs between fork and exec is bound by more than types"
    )]
    pub(in crate::local) fn spawn(&mut self) -> io::Result<Child> {
        if self.has_steps {
            let image = Image::new(&self.command)?;
            // SAFETY: the closure runs in the forked child, as the last step. It makes one call, execve(2), which POSIX
            // names among the async-signal-safe ones, and reads errno; all that the call is given was made before the
            // fork.
            unsafe {
                self.command.pre_exec(move || Err(image.execute()));
            }
        }
        self.command.spawn()
    }
}

impl Deref for ChildCommand {
    type Target = Command;

    fn deref(&self) -> &Command {
        &self.command
    }
}

impl DerefMut for ChildCommand {
    fn deref_mut(&mut self) -> &mut Command {
        &mut self.command
    }
}

/// What execve(2) is given.
struct Image {
    program: CString,
    arguments: Strings,
    environment: Strings,
}

impl Image {
    /// The image of a command that inherits no environment.
    fn new(command: &Command) -> io::Result<Self> {
        let entry =
            |name: &OsStr, value: &OsStr| [name.as_bytes(), b"=", value.as_bytes()].concat();
        let program = command.get_program().as_bytes();
        let arguments = command
            .get_args()
            .map(|argument| argument.as_bytes().to_vec());
        let environment = command
            .get_envs()
            .filter_map(|(name, value)| Some(entry(name, value?)));
        Ok(Self {
            program: CString::new(program)?,
            arguments: Strings::new(std::iter::once(program.to_vec()).chain(arguments))?,
            environment: Strings::new(environment)?,
        })
    }

    /// Becomes the program; comes back only with the error for which that is not possible.
    #[expect(
        unsafe_code,
        reason = "no safe call executes a program without allocating"
    )]
    fn execute(&self) -> io::Error {
        // SAFETY: the program is a C string, and both lists are arrays of pointers to C strings with a null pointer at
        // their end; all of them are owned by `self` and outlive the call.
        unsafe {
            execve(
                self.program.as_ptr(),
                self.arguments.pointers.as_ptr(),
                self.environment.pointers.as_ptr(),
            );
        }
        io::Error::last_os_error()
    }
}

/// C strings, and the array of pointers to them that ends with a null pointer.
struct Strings {
    pointers: Vec<*const c_char>,
    _owned: Vec<CString>,
}

impl Strings {
    fn new(texts: impl Iterator<Item = Vec<u8>>) -> io::Result<Self> {
        let owned = texts
            .map(|text| CString::new(text).map_err(io::Error::from))
            .collect::<io::Result<Vec<CString>>>()?;
        let pointers = owned
            .iter()
            .map(|text| text.as_ptr())
            .chain([std::ptr::null()])
            .collect();
        Ok(Self {
            pointers,
            _owned: owned,
        })
    }
}

// SAFETY: the pointers lead to the heap memory of strings that the same value owns, that do not move with it and that
// nobody changes; another thread can read them as well as this one.
#[expect(unsafe_code, reason = "pointers are neither by themselves")]
unsafe impl Send for Strings {}

// SAFETY: as above.
#[expect(unsafe_code, reason = "pointers are neither by themselves")]
unsafe impl Sync for Strings {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Stdio;

    /// A command for a new executable file, with a step where it is asked for.
    #[expect(unsafe_code, reason = "as in the code under test")]
    fn command(folder: &tempfile::TempDir, text: &str, has_step: bool) -> ChildCommand {
        let path = folder.path().join("program");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = ChildCommand::new(&path);
        if has_step {
            // SAFETY: the step does nothing.
            unsafe {
                command.pre_exec(|| Ok(()));
            }
        }
        command
    }

    #[test]
    fn no_shell_runs_what_the_system_cannot() {
        let folder = tempfile::tempdir().unwrap();
        for has_step in [false, true] {
            let error = command(&folder, "exit 0\n", has_step).spawn().unwrap_err();
            assert_eq!(
                error.raw_os_error(),
                Some(nix::libc::ENOEXEC),
                "with a step: {has_step}"
            );
        }
    }

    #[test]
    fn a_step_changes_nothing_of_what_the_program_gets() {
        let folder = tempfile::tempdir().unwrap();
        let script = "#!/bin/sh\nprintf '%s|' \"$@\"; /usr/bin/env\n";
        let mut outputs = Vec::new();
        for has_step in [false, true] {
            let mut command = command(&folder, script, has_step);
            command.args(["-a", "", "b\nc"]).stdout(Stdio::piped());
            command.args([OsStr::from_bytes(b"\xff\xfe")]);
            command
                .env("ONE", "1")
                .env("TWO", OsStr::from_bytes(b"=\xff"));
            outputs.push(command.spawn().unwrap().wait_with_output().unwrap().stdout);
        }

        assert!(outputs[0].starts_with(b"-a||b\nc|\xff\xfe|"));
        assert!(outputs[0].windows(7).any(|part| part == b"TWO==\xff\n"));
        assert_eq!(outputs[0], outputs[1]);
    }
}
