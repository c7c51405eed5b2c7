//! The methods through their own door, with a backend that the test answers for.

use std::sync::atomic::AtomicUsize;

use expect_test::{Expect, expect};
use lspool_normalize::error::LspCode;
use lspool_normalize::{Completeness, Envelope, Readiness, TextSource, TextVersion};
use tokio::sync::Semaphore;

use super::*;

/// Answers a query once the test releases it, with its file as the workspace.
#[derive(Clone, Default)]
struct Released(Arc<Gate>);

struct Gate {
    permits: Semaphore,
    waiting: AtomicUsize,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            permits: Semaphore::new(0),
            waiting: AtomicUsize::new(0),
        }
    }
}

struct Waiting(Arc<Gate>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Backend for Released {
    fn query(&self, request: QueryRequest) -> Answer<Arc<QueryResult>> {
        let gate = Arc::clone(&self.0);
        gate.waiting.fetch_add(1, Ordering::SeqCst);
        let waiting = Waiting(Arc::clone(&gate));
        Box::pin(async move {
            let _waiting = waiting;
            let permit = gate.permits.acquire().await;
            permit.expect("the test never closes it").forget();
            if request.file == "/missing" {
                return Err(RpcError::lsp(LspCode::Unavailable, "no server", None));
            }
            Ok(Arc::new(answer(&request.file)))
        })
    }

    fn status(&self) -> Answer<Value> {
        Box::pin(std::future::ready(Ok(json!({ "instances": [] }))))
    }

    fn stop(&self, request: StopRequest) -> Answer<Value> {
        Box::pin(std::future::ready(Ok(json!({ "force": request.force }))))
    }
}

fn answer(file: &str) -> QueryResult {
    QueryResult::Hover {
        hover: None,
        token: None,
        envelope: Envelope {
            servers: vec![],
            completeness: Completeness::Complete,
            reason: None,
            readiness: Readiness::Signal,
            progress: None,
            workspace_uri: file.to_owned(),
            text: TextVersion {
                source: TextSource::Disk,
                version: "1".to_owned(),
            },
            total: 0,
            truncated: false,
            cursor: None,
            dropped: 0,
            waited_ms: 0,
            notes: vec![],
        },
    }
}

async fn methods() -> (Released, ConnectionMethods<Released>) {
    let backend = Released::default();
    (backend.clone(), ConnectionMethods::new(backend).await)
}

async fn call(
    methods: &ConnectionMethods<Released>,
    method: &str,
    parameters: &Value,
) -> Result<Value, RpcError> {
    let raw = serde_json::value::to_raw_value(parameters).unwrap();
    let answer = methods.call(method.to_owned(), Some(&raw)).await?;
    Ok(serde_json::from_str(answer.get()).unwrap())
}

fn hover(file: &str) -> Value {
    json!({ "operation": "hover", "file": file, "position": { "line": 0, "character": 0 } })
}

async fn refused(method: &str, parameters: Value, expected: Expect) {
    let (_, methods) = methods().await;
    let error = call(&methods, method, &parameters).await.unwrap_err();
    expected.assert_eq(&serde_json::to_string(&error).unwrap());
}

#[tokio::test]
async fn wrong_parameters_name_the_field() {
    refused(
        "lspool/stop",
        json!({ "fource": true }),
        expect![[r#"{"code":-32602,"message":"`fource` is not a field here; there are instance, force","data":{"code":"INVALID_PARAMS","detail":{"field":"fource"}}}"#]],
    )
    .await;
    refused(
        "lspool/status",
        json!([1]),
        expect![[r#"{"code":-32602,"message":"the parameters must be an object","data":{"code":"INVALID_PARAMS","detail":{"field":"params"}}}"#]],
    )
    .await;
    let (_, methods) = methods().await;
    let mut query = hover("/a");
    query["position"]["line"] = json!("x");
    let error = call(&methods, "lspool/query", &query).await.unwrap_err();
    let field = error.data.unwrap().detail.unwrap()["field"].clone();
    assert_eq!(field, "position.line");
}

#[tokio::test]
async fn a_method_that_does_not_exist_is_not_found() {
    let (_, methods) = methods().await;
    let error = call(&methods, "lspool/nothing", &Value::Null)
        .await
        .unwrap_err();
    assert_eq!(error.code, METHOD_NOT_FOUND);
}

#[tokio::test]
async fn absent_parameters_are_none() {
    let (_, methods) = methods().await;
    let answer = methods
        .call("lspool/status".to_owned(), None)
        .await
        .unwrap();
    assert_eq!(answer.get(), r#"{"instances":[]}"#);
}

#[tokio::test]
async fn what_is_not_built_says_so() {
    let (_, methods) = methods().await;
    let error = call(&methods, "lspool/environment", &json!({}))
        .await
        .unwrap_err();
    assert_eq!(error.data.unwrap().code, "WORLD_UNSUPPORTED");
}

#[tokio::test]
async fn fifty_waiting_queries_do_not_hold_up_another_method() {
    // given fifty queries that do not answer
    let (backend, methods) = methods().await;
    let raw = serde_json::value::to_raw_value(&hover("/a")).unwrap();
    let mut waiting: Vec<_> = (0..50)
        .map(|_| methods.call("lspool/query".to_owned(), Some(&raw)))
        .collect();
    for query in &mut waiting {
        assert!(
            query
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
    }
    assert_eq!(backend.0.waiting.load(Ordering::SeqCst), 50);

    // when another method is called, it answers at once
    call(&methods, "lspool/status", &Value::Null).await.unwrap();

    // and dropping the queries cancels each of them
    drop(waiting);
    assert_eq!(backend.0.waiting.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_batch_answers_in_order_and_one_error_does_not_end_the_others() {
    // given a batch with a failing and a malformed query among good ones
    let (backend, methods) = methods().await;
    backend.0.permits.add_permits(3);
    let queries = json!({ "queries": [hover("/a"), hover("/missing"), { "operation": "hover" }, hover("/b")] });

    // when it is asked
    let items = call(&methods, "lspool/queryBatch", &queries).await.unwrap();

    // then every item has its own outcome, in the order asked
    assert_eq!(items[0]["result"]["envelope"]["workspaceUri"], "/a");
    assert_eq!(items[1]["error"]["data"]["code"], "LSP_UNAVAILABLE");
    assert_eq!(items[2]["error"]["data"]["code"], "INVALID_PARAMS");
    assert_eq!(items[3]["result"]["envelope"]["workspaceUri"], "/b");
    assert_eq!(items.as_array().unwrap().len(), 4);
}
