//! A failure of the pool's own making, as each kind of asker is told it.

use lspool_normalize::{CommonCode, LspCode, RpcError};

/// Why requests are failed by the pool itself. Whether the same request may succeed later is a property of its code.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failure<'a> {
    code: &'static str,
    retryable: bool,
    /// One sentence for people.
    pub(super) text: &'a str,
}

impl<'a> Failure<'a> {
    /// A failure of a server.
    pub(super) fn lsp(code: LspCode, text: &'a str) -> Self {
        Self {
            code: code.as_str(),
            retryable: code.retryable(),
            text,
        }
    }

    /// A failure that has nothing to do with servers.
    pub(super) fn common(code: CommonCode, text: &'a str) -> Self {
        Self {
            code: code.as_str(),
            retryable: code.retryable(),
            text,
        }
    }

    /// The end of a server, of a connection or of the pool.
    pub(super) fn disposed(text: &'a str) -> Self {
        Self::lsp(LspCode::Disposed, text)
    }

    /// The stable code.
    pub(super) fn code(self) -> &'static str {
        self.code
    }

    /// The error that a query gets.
    pub(super) fn to_rpc(self) -> RpcError {
        RpcError::failed(self.code, self.retryable, self.text, None)
    }

    /// The `data` member of the error that a client's request gets.
    pub(super) fn data(self) -> String {
        format!(
            r#"{{"code":"{}","retryable":{}}}"#,
            self.code, self.retryable
        )
    }
}
