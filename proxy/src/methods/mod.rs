//! The custom methods of a connection: one `LspService` each, called without its transport.
//!
//! Handlers take the parameters as JSON and decode them themselves, so that an error names the field. A dropped answer
//! is a cancelled request. Methods below `lspool/` that are not in the table do not exist; everything else is not ours.

mod face;
mod parameters;

use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};

use lspool_normalize::error::METHOD_NOT_FOUND;
use lspool_normalize::{QueryRequest, QueryResult, RpcError};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tower_lsp::jsonrpc::{Id, Request};
use tower_lsp::{ClientSocket, LspService};
use tower_service::Service as _;

use face::Face;

/// An answer on its way.
pub(crate) type Answer<T> = Pin<Box<dyn Future<Output = Result<T, RpcError>> + Send>>;

/// What the methods need of the rest of lspool.
pub(crate) trait Backend: Send + Sync + 'static {
    /// Asks the pool.
    fn query(&self, request: QueryRequest) -> Answer<Arc<QueryResult>>;
    /// What is running and attached.
    fn status(&self) -> Answer<Value>;
    /// Ends the daemon, or one instance.
    fn stop(&self, request: StopRequest) -> Answer<Value>;
}

/// The parameters of `lspool/stop`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct StopRequest {
    /// The instance to end; absent for the daemon.
    pub(crate) instance: Option<String>,
    /// End the daemon although editors are attached.
    pub(crate) force: bool,
}

/// The names of all custom methods that are served.
pub(crate) const METHODS: [&str; 5] = [
    "lspool/query",
    "lspool/queryBatch",
    "lspool/status",
    "lspool/stop",
    "lspool/environment",
];

/// The names that are announced: those that are served and built.
pub(crate) const ANNOUNCED: [&str; 4] = [
    "lspool/query",
    "lspool/queryBatch",
    "lspool/status",
    "lspool/stop",
];

/// The custom methods of one connection.
pub(crate) struct ConnectionMethods<B: Backend> {
    service: Arc<Mutex<LspService<Face<B>>>>,
    next: AtomicI64,
    // The service sends nothing of its own; its socket is kept because dropping it ends the service.
    _socket: ClientSocket,
}

impl<B: Backend> ConnectionMethods<B> {
    /// Makes the methods of one connection.
    pub(crate) async fn new(backend: B) -> Self {
        let (mut service, socket) = LspService::build(|_| Face::new(backend))
            .custom_method("lspool/query", Face::query)
            .custom_method("lspool/queryBatch", Face::query_batch)
            .custom_method("lspool/status", Face::status)
            .custom_method("lspool/stop", Face::stop)
            .custom_method("lspool/environment", Face::environment)
            .finish();
        // The service refuses every method before it was initialised; the connection's own `initialize` is the pool's.
        let initialize = Request::build("initialize")
            .id(0)
            .params(json!({ "capabilities": {} }))
            .finish();
        let initialized = service.call(initialize).await;
        debug_assert!(matches!(initialized, Ok(Some(response)) if response.is_ok()));
        Self {
            service: Arc::new(Mutex::new(service)),
            next: AtomicI64::new(1),
            _socket: socket,
        }
    }

    /// Calls one method. Dropping the future cancels it.
    pub(crate) fn call(
        &self,
        method: String,
        parameters: Option<&RawValue>,
    ) -> Answer<Box<RawValue>> {
        if !METHODS.contains(&method.as_str()) {
            let message = format!(
                "there is no method {method}; there are {}",
                METHODS.join(", ")
            );
            return failed(RpcError {
                code: METHOD_NOT_FOUND,
                message,
                data: None,
            });
        }
        // Absent parameters are `null`, so that the handler and not the service words the error.
        let parameters = match parameters.map(|raw| serde_json::from_str(raw.get())) {
            None => Value::Null,
            Some(Ok(value)) => value,
            Some(Err(error)) => {
                let message = format!("the parameters of {method} cannot be read: {error}");
                return failed(RpcError::invalid_params("params", message));
            }
        };
        let id = Id::Number(self.next.fetch_add(1, Ordering::Relaxed));
        let request = Request::build(method)
            .id(id.clone())
            .params(parameters)
            .finish();
        let call = lock(&self.service).call(request);
        let guard = CancelOnDrop {
            service: Arc::clone(&self.service),
            id,
        };
        Box::pin(async move {
            let response = call.await;
            drop(guard);
            let Ok(Some(response)) = response else {
                return Err(internal("the method gave no answer"));
            };
            match response.into_parts().1 {
                Ok(result) => serde_json::value::to_raw_value(&result)
                    .map_err(|error| internal(&error.to_string())),
                Err(error) => Err(face::from_service(error)),
            }
        })
    }
}

fn failed<T: Send + 'static>(error: RpcError) -> Answer<T> {
    Box::pin(std::future::ready(Err(error)))
}

fn internal(message: &str) -> RpcError {
    RpcError {
        code: -32603,
        message: message.to_owned(),
        data: None,
    }
}

fn lock<B: Backend>(
    service: &Mutex<LspService<Face<B>>>,
) -> std::sync::MutexGuard<'_, LspService<Face<B>>> {
    // A handler runs in its future, not under the lock, so a poisoned lock guards a whole service.
    service.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the service forget a request whose answer nobody waits for any more; for an answered one it does nothing.
struct CancelOnDrop<B: Backend> {
    service: Arc<Mutex<LspService<Face<B>>>>,
    id: Id,
}

impl<B: Backend> Drop for CancelOnDrop<B> {
    fn drop(&mut self) {
        let cancel = Request::build("$/cancelRequest")
            .params(json!({ "id": self.id }))
            .finish();
        let mut cancelling = lock(&self.service).call(cancel);
        // The handler of a cancel does not wait, so one poll runs it to its end.
        let _ = cancelling
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
    }
}

#[cfg(test)]
mod tests;
