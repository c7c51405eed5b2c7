//! The handlers behind the service.

use std::sync::Arc;

use lspool_normalize::error::CommonCode;
use lspool_normalize::request::decode_batch;
use lspool_normalize::{QueryCaps, QueryRequest, QueryResult, RpcError};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tower_lsp::LanguageServer;
use tower_lsp::jsonrpc::{Error, ErrorCode, Result};
use tower_lsp::ls_types::{InitializeParams, InitializeResult};

use super::{Backend, internal, parameters};
use crate::defaults::{MAX_BATCH, MAX_CONTEXT_LINES, MAX_LOCATIONS};

/// The caps that every query is held against.
const CAPS: QueryCaps = QueryCaps {
    max_locations: MAX_LOCATIONS,
    context_lines: MAX_CONTEXT_LINES,
    batch: MAX_BATCH,
};

/// The methods of one connection, typed.
pub(super) struct Face<B> {
    backend: B,
}

impl<B: Backend> Face<B> {
    pub(super) fn new(backend: B) -> Self {
        Self { backend }
    }

    /// `lspool/query`.
    pub(super) async fn query(&self, parameters: Value) -> Result<Value> {
        let request =
            QueryRequest::decode(&parameters, &CAPS).map_err(|error| to_service(error.to_rpc()))?;
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
            match query {
                Err(error) => items[index] = item(Err(error.to_rpc())),
                Ok(request) => {
                    let answer = self.backend.query(request);
                    running.spawn(async move { (index, item(answer.await)) });
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
