//! A failure of the pool's own making, as each kind of asker is told it.

use lspool_normalize::RpcError;

/// Why requests are failed by the pool itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failure<'a> {
    /// The stable code.
    pub(super) code: &'a str,
    /// Whether the same request may succeed later.
    pub(super) retryable: bool,
    /// One sentence for people.
    pub(super) text: &'a str,
}

impl<'a> Failure<'a> {
    /// A failure that the same request would meet again.
    pub(super) const fn lasting(code: &'a str, text: &'a str) -> Self {
        Self {
            code,
            retryable: false,
            text,
        }
    }

    /// The end of a server or of the pool.
    pub(super) const fn disposed(text: &'a str) -> Self {
        Self::lasting("LSP_DISPOSED", text)
    }

    /// The error that a query gets.
    pub(super) fn to_rpc(self) -> RpcError {
        RpcError::failed(self.code.to_owned(), self.retryable, self.text, None)
    }

    /// The `data` member of the error that a client's request gets.
    pub(super) fn data(self) -> String {
        format!(
            r#"{{"code":"{}","retryable":{}}}"#,
            self.code, self.retryable
        )
    }
}
