//! The handle of a terminal of this machine. Owns the order of input: one call writes at a time, in the order in which
//! the calls came.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio_util::sync::DropGuard;

use super::super::trees::control::Control;
use super::super::trees::view::TreeView;
use super::condition::Standing;
use super::device::{Device, Holder};
use super::foreground::{self, Owner, SignalError};
use super::output::Output;
use crate::subprocess::{Foreground, OutputPipe, TerminalSignal};
use crate::{
    EndCause, ExitFacts, TerminalError, TerminalHandle, TerminalSize, TerminateError, Transport,
    TreeUsage,
};

/// A terminal session. Its supervisor ends it when the guard is dropped with it.
pub(super) struct LocalTerminal {
    owner: Owner,
    holder: Arc<Holder>,
    output: Mutex<Option<Output>>,
    standing: Arc<Standing>,
    control: Arc<Control>,
    view: TreeView,
    /// Held by the call that writes. It is fair, so calls write in the order in which they began to wait.
    turn: tokio::sync::Mutex<()>,
    _release: DropGuard,
}

impl LocalTerminal {
    /// A handle of a supervised session.
    pub(super) fn new(
        owner: Owner,
        holder: Arc<Holder>,
        output: Output,
        standing: Arc<Standing>,
        control: Arc<Control>,
        view: TreeView,
        release: DropGuard,
    ) -> Self {
        Self {
            owner,
            holder,
            output: Mutex::new(Some(output)),
            standing,
            control,
            view,
            turn: tokio::sync::Mutex::default(),
            _release: release,
        }
    }

    fn device(&self) -> Result<Arc<Device>, TerminalError> {
        self.holder.device().ok_or(TerminalError::Exited)
    }

    /// Breaks the terminal.
    fn fail(&self, reason: String) -> TerminalError {
        self.standing.fail(reason.clone());
        TerminalError::Failed { reason }
    }

    /// Runs work on the blocking pool. It is counted until its end, also when the caller is gone, and does not begin any
    /// more once calls are refused. What has begun is answered with its own result: a signal that ends the program was
    /// sent all the same.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Device, Owner) -> Result<T, SignalError> + Send + 'static,
    ) -> Result<T, TerminalError> {
        self.standing.check()?;
        let device = self.device()?;
        let (owner, effect) = (self.owner, self.standing.effect());
        let standing = Arc::clone(&self.standing);
        let counted = move || {
            let _effect = effect;
            standing.check()?;
            work(&device, owner).map_err(|error| {
                if let SignalError::Broken(reason) = &error {
                    standing.fail(reason.clone());
                }
                error.into()
            })
        };
        match tokio::task::spawn_blocking(counted).await {
            Ok(result) => result,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(TerminalError::Closing),
        }
    }
}

#[async_trait]
impl TerminalHandle for LocalTerminal {
    fn pid(&self) -> Option<u32> {
        Some(self.owner.program)
    }

    fn take_output(&self) -> Option<OutputPipe> {
        let output = self
            .output
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        output.map(|output| Box::new(output) as _)
    }

    async fn write(&self, bytes: &[u8]) -> Result<(), TerminalError> {
        let write = async {
            let _turn = self.turn.lock().await;
            let written = self.device()?.write_all(bytes).await;
            written.map_err(|error| self.fail(format!("input could not be written: {error}")))
        };
        self.standing.answer(write).await
    }

    async fn resize(&self, size: TerminalSize) -> Result<(), TerminalError> {
        if !size.is_possible() {
            return Err(TerminalError::InvalidSize {
                rows: size.rows,
                columns: size.columns,
            });
        }
        let resize = async {
            let resized = self.device()?.resize(size);
            resized.map_err(|error| self.fail(format!("the size could not be set: {error}")))
        };
        self.standing.answer(resize).await
    }

    async fn inspect_foreground(&self) -> Option<Foreground> {
        self.standing.check().ok()?;
        let seen = self.view.look().await.unwrap_or_default();
        self.run(move |device, owner| Ok(foreground::inspect(device, owner, &seen)))
            .await
            .ok()
            .flatten()
    }

    async fn signal_foreground(&self, signal: TerminalSignal) -> Result<u32, TerminalError> {
        self.run(move |device, owner| foreground::signal(device, owner, signal))
            .await
    }

    async fn usage(&self) -> Option<TreeUsage> {
        self.view.usage().await
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
        self.standing.close();
        self.control.end(EndCause::Terminated).await
    }
}
