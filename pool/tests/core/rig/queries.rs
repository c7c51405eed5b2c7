//! Normalised queries and what they ended with.

use std::sync::Arc;

use lspool_normalize::{Operation, Position, QueryRequest, QueryResult, QueryTarget};
use lspool_pool::core::{ClientId, Event, QueryTicket};
use serde_json::Value;

use super::{FILE, Rig};

/// What a query's answer was made of.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) outcome: Result<Arc<QueryResult>, lspool_normalize::RpcError>,
}

impl Rig {
    pub(crate) fn query(&mut self, client: ClientId, operation: Operation) -> QueryTicket {
        self.query_with(client, operation, |_| {})
    }

    pub(crate) fn query_with(
        &mut self,
        client: ClientId,
        operation: Operation,
        change: impl FnOnce(&mut QueryRequest),
    ) -> QueryTicket {
        self.next_ticket += 1;
        let ticket = QueryTicket(self.next_ticket);
        let mut request = QueryRequest {
            operation,
            file: FILE.to_owned(),
            workspace_root: None,
            target: QueryTarget::Position {
                position: Position {
                    line: 0,
                    character: 4,
                },
                token: None,
            },
            view: None,
            wait: None,
            timeout_ms: None,
            max_locations: None,
            cursor: None,
            context_lines: None,
            columns: None,
            work_done_token: None,
        };
        change(&mut request);
        self.handle(Event::Query {
            ticket,
            client,
            request: Arc::new(request),
        });
        ticket
    }

    /// The stable code of a query's error.
    pub(crate) fn query_error(&self, ticket: QueryTicket) -> Value {
        let done = self.done.get(&ticket).expect("the query is done");
        let error = done.outcome.as_ref().expect_err("the query failed");
        serde_json::to_value(error).unwrap()
    }
}
