//! The handle of a process of this machine.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio_util::sync::DropGuard;

use super::super::trees::control::Control;
use super::super::trees::view::TreeView;
use super::collected::Collected;
use crate::subprocess::{InputPipe, OutputPipe};
use crate::{
    EndCause, ExitFacts, OutputPage, OutputStream, ProcessHandle, Tail, TerminateError, Transport,
    TreeUsage,
};

/// A pipe that is given away once.
pub(super) type Once<T> = Mutex<Option<T>>;

/// A running process tree. Its supervisor ends the tree when the guard is dropped with it.
pub(super) struct LocalProcess {
    pub(super) pid: u32,
    pub(super) stdin: Once<InputPipe>,
    pub(super) stdout: Once<OutputPipe>,
    pub(super) stderr: Once<OutputPipe>,
    pub(super) collected_stdout: Option<Arc<Collected>>,
    pub(super) collected_stderr: Option<Arc<Collected>>,
    pub(super) control: Arc<Control>,
    pub(super) view: TreeView,
    pub(super) _release: DropGuard,
}

impl LocalProcess {
    fn collected(&self, which: OutputStream) -> Option<&Arc<Collected>> {
        match which {
            OutputStream::Stdout => self.collected_stdout.as_ref(),
            OutputStream::Stderr => self.collected_stderr.as_ref(),
        }
    }
}

impl Drop for LocalProcess {
    fn drop(&mut self) {
        let streams = [&self.collected_stdout, &self.collected_stderr];
        for stream in streams.into_iter().flatten() {
            stream.abandon();
        }
    }
}

fn take<T>(pipe: &Once<T>) -> Option<T> {
    pipe.lock().unwrap_or_else(PoisonError::into_inner).take()
}

#[async_trait]
impl ProcessHandle for LocalProcess {
    fn pid(&self) -> Option<u32> {
        Some(self.pid)
    }

    fn take_stdin(&self) -> Option<InputPipe> {
        take(&self.stdin)
    }

    fn take_stdout(&self) -> Option<OutputPipe> {
        take(&self.stdout)
    }

    fn take_stderr(&self) -> Option<OutputPipe> {
        take(&self.stderr)
    }

    fn tail(&self, which: OutputStream) -> Option<Tail> {
        self.collected(which).map(|collected| collected.tail())
    }

    fn read_from(&self, which: OutputStream, offset: u64) -> Option<OutputPage> {
        self.collected(which)
            .map(|collected| collected.read_from(offset))
    }

    async fn done(&self) -> ExitFacts {
        let unknown = ExitFacts {
            outcome: None,
            transport: Transport::Unknown,
            cause: EndCause::Shutdown,
        };
        self.control.exited().await.unwrap_or(unknown)
    }

    async fn terminate(&self) -> Result<ExitFacts, TerminateError> {
        self.control.end(EndCause::Terminated).await
    }

    async fn usage(&self) -> Option<TreeUsage> {
        self.view.usage().await
    }

    async fn wait_for_exit(&self) -> Result<(), TerminateError> {
        self.control.gone().await
    }
}
