//! The handlers behind the service.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lspool_normalize::error::CommonCode;
use lspool_normalize::request::decode_batch;
use lspool_normalize::{QueryCaps, QueryRequest, QueryResult, RpcError};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tower_lsp::LanguageServer;
use tower_lsp::jsonrpc::{Error, ErrorCode, Result};
use tower_lsp::ls_types::{InitializeParams, InitializeResult};

use super::{Backend, internal, parameters};
use crate::defaults::{MAX_BATCH, MAX_CONTEXT_LINES, MAX_LOCATIONS, MAX_QUERIES};

/// The caps that every query is held against.
const CAPS: QueryCaps = QueryCaps {
    max_locations: MAX_LOCATIONS,
    context_lines: MAX_CONTEXT_LINES,
    batch: MAX_BATCH,
};

/// The methods of one connection, typed.
pub(super) struct Face<B> {
    backend: Arc<B>,
    queries: Arc<AtomicUsize>,
}

impl<B: Backend> Face<B> {
    pub(super) fn new(backend: B) -> Self {
        Self {
            backend: Arc::new(backend),
            queries: Arc::default(),
        }
    }

    /// `lspool/query`.
    pub(super) async fn query(&self, parameters: Value) -> Result<Value> {
        let request =
            QueryRequest::decode(&parameters, &CAPS).map_err(|error| to_service(error.to_rpc()))?;
        let _place = Place::take(&self.queries).map_err(to_service)?;
        let result = self.backend.query(request).await.map_err(to_service)?;
        to_json(&result)
    }

    /// `lspool/queryBatch`: side by side, answered in order, each item by itself.
    pub(super) async fn query_batch(&self, parameters: Value) -> Result<Value> {
        let queries =
            decode_batch(&parameters, &CAPS).map_err(|error| to_service(error.to_rpc()))?;
        let mut items = vec![Value::Null; queries.len()];
        // Dropping the set aborts what still runs, so a cancelled batch cancels its queries.
        let mut running = JoinSet::new();
        for (index, query) in queries.into_iter().enumerate() {
            let asked = query
                .map_err(|error| error.to_rpc())
                .and_then(|request| Ok((request, Place::take(&self.queries)?)));
            match asked {
                Err(error) => items[index] = item(Err(error)),
                Ok((request, place)) => {
                    let answer = self.backend.query(request);
                    running.spawn(async move {
                        let answer = answer.await;
                        drop(place);
                        (index, item(answer))
                    });
                }
            }
        }
        while let Some(ended) = running.join_next().await {
            let (index, answered) =
                ended.map_err(|error| to_service(internal(&error.to_string())))?;
            items[index] = answered;
        }
        Ok(Value::Array(items))
    }

    /// `lspool/status`.
    pub(super) async fn status(&self, parameters: Value) -> Result<Value> {
        parameters::none(&parameters).map_err(to_service)?;
        self.backend.status().await.map_err(to_service)
    }

    /// `lspool/stop`.
    pub(super) async fn stop(&self, parameters: Value) -> Result<Value> {
        let request = parameters::stop(&parameters).map_err(to_service)?;
        self.backend.stop(request).await.map_err(to_service)
    }

    /// `lspool/environment`.
    #[expect(
        clippy::unused_async,
        reason = "the service takes asynchronous handlers only"
    )]
    pub(super) async fn environment(&self, parameters: Value) -> Result<Value> {
        parameters::none(&parameters).map_err(to_service)?;
        Err(to_service(RpcError::common(
            CommonCode::WorldUnsupported,
            "lspool/environment is not built yet; lspool/status says what runs",
            None,
        )))
    }
}

impl<B: Backend> LanguageServer for Face<B> {
    async fn initialize(&self, _: InitializeParams) -> Result<InitializeResult> {
        Ok(InitializeResult::default())
    }

    async fn shutdown(&self) -> Result<()> {
        Ok(())
    }
}

/// One query's place among those that a connection may have at once.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(taken: &Arc<AtomicUsize>) -> std::result::Result<Self, RpcError> {
        let before = taken.fetch_add(1, Ordering::Relaxed);
        // Made first, so that a refusal gives the place back.
        let place = Self(Arc::clone(taken));
        if before >= MAX_QUERIES {
            return Err(RpcError::failed(
                CommonCode::LimitExceeded.as_str(),
                // A limit of a count, unlike one of a value, passes.
                true,
                format!(
                    "{MAX_QUERIES} queries of this connection wait already, which is the limit"
                ),
                Some(json!({ "field": "queries", "cap": MAX_QUERIES })),
            ));
        }
        Ok(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn item(answer: std::result::Result<Arc<QueryResult>, RpcError>) -> Value {
    match answer {
        Ok(result) => json!({ "result": *result }),
        Err(error) => json!({ "error": error }),
    }
}

fn to_json(result: &QueryResult) -> Result<Value> {
    serde_json::to_value(result).map_err(|error| to_service(internal(&error.to_string())))
}

fn to_service(error: RpcError) -> Error {
    Error {
        code: ErrorCode::from(error.code),
        message: error.message.into(),
        data: error.data.and_then(|data| serde_json::to_value(data).ok()),
    }
}

/// Back from the service's error to ours.
pub(super) fn from_service(error: Error) -> RpcError {
    RpcError {
        code: error.code.code(),
        message: error.message.into_owned(),
        data: error
            .data
            .and_then(|data| serde_json::from_value(data).ok()),
    }
}
