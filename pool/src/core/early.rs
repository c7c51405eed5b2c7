//! What a server tells before it answers `initialize`: kept for its clients, in an account of its own.
//!
//! Invariant: what is kept holds no credit of its link, since the answer that ends the wait stands behind it there.

use crate::wire::Kind;

use super::Core;
use super::effect::Effect;
use super::event::Frame;
use super::ids::InstanceId;
use super::instance::{Instance, Phase};

/// Bytes that are kept of what one process tells before its answer, or one message.
const EARLY_BYTES: usize = 1024 * 1024;

impl Instance {
    /// Whether a notification of its process comes before anybody can be told it.
    pub(super) fn is_early(&self) -> bool {
        matches!(self.phase, Phase::Starting | Phase::Initializing)
    }

    /// Drops what is over the bound, oldest first, log lines before all else. Log lines go down to half of it, so that
    /// the search is paid once for many messages.
    fn drop_early(&mut self) {
        let before = self.parked.len();
        let mut bytes = self.early_bytes;
        self.parked.retain(|frame| {
            let drops = bytes > EARLY_BYTES / 2 && is_log(frame);
            if drops {
                bytes -= frame.message.len();
            }
            !drops
        });
        while bytes > EARLY_BYTES && self.parked.len() > 1 {
            let oldest = self.parked.pop_front();
            bytes -= oldest.map_or(0, |frame| frame.message.len());
        }
        self.early_bytes = bytes;
        let dropped = before - self.parked.len();
        self.dropped_early += dropped as u64;
        tracing::warn!(instance = %self.id, dropped, "a server told more than is kept before it answers initialize");
    }
}

impl Core {
    /// Keeps a notification that came before the `initialize` answer.
    pub(super) fn keep_early(
        &mut self,
        target: InstanceId,
        mut frame: Frame,
        out: &mut Vec<Effect>,
    ) {
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        out.push(Effect::Release {
            link: instance.link(),
            credit: std::mem::take(&mut frame.credit),
        });
        instance.early_bytes += frame.message.len();
        instance.parked.push_back(frame);
        if instance.early_bytes > EARLY_BYTES {
            instance.drop_early();
        }
    }
}

fn is_log(frame: &Frame) -> bool {
    frame.message.kind() == Kind::Notification
        && frame.message.method().is_some_and(|method| {
            matches!(
                &*method,
                "window/logMessage" | "telemetry/event" | "$/logTrace"
            )
        })
}
