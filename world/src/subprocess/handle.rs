//! The handle of a running process tree.

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{ExitFacts, OutputPage, OutputStream, Tail, TerminateError, TreeUsage};

/// The writing end of a process's standard input. Dropping it closes the input.
pub type InputPipe = Box<dyn AsyncWrite + Send + Unpin>;

/// The reading end of an output stream.
pub type OutputPipe = Box<dyn AsyncRead + Send + Unpin>;

/// A running process and all that it started. Dropping the handle ends the tree as [`ProcessHandle::terminate`] does.
#[async_trait]
pub trait ProcessHandle: Send + Sync {
    /// The process id in its world, where it is known (yet).
    fn pid(&self) -> Option<u32>;

    /// The writing end of the standard input, of [`super::StdinMode::Pipe`]; the first call gets it.
    fn take_stdin(&self) -> Option<InputPipe>;

    /// The reading end of the standard output, of [`super::OutputMode::Pipe`]; the first call gets it.
    fn take_stdout(&self) -> Option<OutputPipe>;

    /// The reading end of the standard error, of [`super::OutputMode::Pipe`]; the first call gets it.
    fn take_stderr(&self) -> Option<OutputPipe>;

    /// The end of a collected stream as it is now; `None` for one that is not collected. Valid after the exit too.
    fn tail(&self, which: OutputStream) -> Option<Tail>;

    /// What a collected stream has from `offset` on, in bytes of the whole stream; `None` for one that is not collected.
    fn read_from(&self, which: OutputStream, offset: u64) -> Option<OutputPage>;

    /// What the tree uses now; `None` where that cannot be told, and after its end.
    async fn usage(&self) -> Option<TreeUsage>;

    /// Waits for the exit of the process itself and for its collected output, the latter for at most the spec's grace.
    /// A descendant that holds a stream open delays nothing beyond that.
    async fn done(&self) -> ExitFacts;

    /// Ends the whole tree: SIGTERM, the spec's grace, SIGKILL; answers when nothing of it is left. Concurrent calls join
    /// the first; a failed one can be repeated; of an ended tree the facts are given again.
    ///
    /// Gives `EXEC_SURVIVORS` or `EXEC_UNPROVED`.
    async fn terminate(&self) -> Result<ExitFacts, TerminateError>;

    /// Waits until the whole tree is gone, without ending it.
    ///
    /// Gives `EXEC_UNPROVED` when that can no longer be observed.
    async fn wait_for_exit(&self) -> Result<(), TerminateError>;
}
