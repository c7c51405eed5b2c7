//! One normalised query, from the question to its answer, as a machine of stages.
//!
//! ```text
//! Preparing ─▶ Booting ─▶ Freshening ─▶ AwaitingReadiness ─▶ Queued ─▶ Asking ─▶ Finishing ─▶ done
//!                                                              ▲         │
//!                                                              └ Pausing ┘   (−32801, −32802, an unasked −32800)
//! ```
mod ask;
mod boot;
mod documents;
mod end;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use lspool_normalize::request::View;
use lspool_normalize::{LspCode, QueryRequest, Readiness, RpcError, UriKey};

use crate::core::client::{Client, ClientFace};
use crate::core::effect::{Effect, Job};
use crate::core::ids::{ClientId, InstanceId, JobId, QueryTicket, Tick, Timer};
use crate::core::{Core, JobOwner};
use crate::edge::TextId;
use crate::query::{EditorText, NamedFile, Prepared, RunningRoot};

/// LSP: the content was changed while the request ran.
const CONTENT_MODIFIED: i64 = -32801;
/// LSP: the server cancelled the request.
const SERVER_CANCELLED: i64 = -32802;
/// The first and the longest pause before a repeated question, in milliseconds.
const RETRY_PAUSE_MS: (u64, u64) = (50, 1_000);

/// Where a query stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::core) enum Stage {
    Preparing(JobId),
    Booting,
    Freshening(JobId),
    AwaitingReadiness,
    Queued,
    Asking(u64),
    /// References are there; their declaration is asked for.
    AskingDeclaration(u64),
    Pausing,
    Finishing(JobId),
}

/// One normalised query.
#[derive(Debug)]
pub(in crate::core) struct Query {
    pub(in crate::core) client: ClientId,
    request: Arc<QueryRequest>,
    pub(in crate::core) stage: Stage,
    prepared: Option<Arc<Prepared>>,
    pub(in crate::core) instance: Option<InstanceId>,
    deadline: Option<Tick>,
    /// When the wait for readiness began and, once it ended, what it gave.
    waiting_since: Option<Tick>,
    readiness: Option<Readiness>,
    waited_ms: u64,
    indexing: bool,
    retries: u32,
    /// Whether the server's text of the document was changed while the question was in flight.
    tainted: bool,
    /// Whether it was asked again because its server died.
    survived_crash: bool,
    /// The answer to `textDocument/references`, while the declaration is asked for.
    references: Option<String>,
}

impl Query {
    fn is_asking(&self, number: u64) -> bool {
        matches!(self.stage, Stage::Asking(at) | Stage::AskingDeclaration(at) if at == number)
    }

    /// Whether its question about that document is in flight.
    fn asks_about(&self, uri: &str) -> bool {
        let asking = matches!(self.stage, Stage::Asking(_) | Stage::AskingDeclaration(_));
        asking
            && self
                .prepared
                .as_ref()
                .is_some_and(|prepared| prepared.file_uri == uri)
    }
}

impl Core {
    pub(in crate::core) fn query_asked(
        &mut self,
        ticket: QueryTicket,
        client: ClientId,
        request: Arc<QueryRequest>,
        out: &mut Vec<Effect>,
    ) {
        let limits = &self.config.limits;
        let cap = limits.queries_per_client;
        let running = self
            .queries
            .values()
            .filter(|query| query.client == client)
            .count();
        let attached = self
            .clients
            .get(&client)
            .is_some_and(|client| !client.is_closing());
        if self.shutting_down || !attached {
            let error = RpcError::lsp(LspCode::Disposed, "lspool is ending", None);
            return out.push(Effect::QueryDone {
                ticket,
                result: Err(Box::new(error)),
            });
        }
        if running >= cap {
            let error = RpcError::failed(
                "LIMIT_EXCEEDED",
                // A limit of a count, unlike one of a value, passes.
                true,
                format!("{cap} queries of this connection wait already, which is the limit"),
                Some(serde_json::json!({ "field": "queries", "cap": cap })),
            );
            return out.push(Effect::QueryDone {
                ticket,
                result: Err(Box::new(error)),
            });
        }
        let deadline = request
            .timeout_ms
            .map(|budget| self.now.after(u64::from(budget)));
        if let Some(at) = deadline {
            out.push(Effect::SetTimer {
                timer: Timer::QueryDeadline(ticket),
                at,
            });
        }
        let work = self.preparation(client, &request);
        let job = self.job(JobOwner::Prepare(ticket), work, out);
        let query = Query {
            client,
            request,
            stage: Stage::Preparing(job),
            prepared: None,
            instance: None,
            deadline,
            waiting_since: None,
            readiness: None,
            waited_ms: 0,
            indexing: false,
            retries: 0,
            tainted: false,
            survived_crash: false,
            references: None,
        };
        self.queries.insert(ticket, query);
    }

    /// The job that finds what a query is about.
    fn preparation(&self, client: ClientId, request: &Arc<QueryRequest>) -> Job {
        let editor_texts = match request.view {
            Some(View::Editor) => self.editor_texts(),
            _ => BTreeMap::new(),
        };
        Job::Prepare {
            client,
            roots: self.roots_of(client),
            named_files: Arc::new(self.named_files()),
            editor_texts: Arc::new(editor_texts),
            request: request.clone(),
            running: self.running_roots(),
        }
    }

    /// The texts that clients hold open; of several for one document, that of whoever was active last.
    fn editor_texts(&self) -> BTreeMap<UriKey, EditorText> {
        let mut clients: Vec<&Client> = self.clients.values().collect();
        clients.sort_by_key(|client| client.activity);
        let documents = clients.into_iter().flat_map(|client| &client.documents);
        let texts = documents.map(|(uri, document)| {
            let text = EditorText {
                text: document.text.content.clone(),
                version: document.version.unwrap_or_default().to_string(),
            };
            (UriKey::new(uri), text)
        });
        texts.collect()
    }

    /// Whether a query about an editor's text was prepared on another one than the editor has now.
    fn is_outdated(&self, query: &Query) -> bool {
        let Some(prepared) = query.prepared.as_ref() else {
            return false;
        };
        if query.request.view != Some(View::Editor) {
            return false;
        }
        let before = prepared.editor_text.as_ref().map(|_| prepared.text_id);
        before != self.editor_text_of(&UriKey::new(&prepared.asked_uri))
    }

    /// The text that whoever was active last holds of a document.
    fn editor_text_of(&self, key: &UriKey) -> Option<TextId> {
        let holders = self.clients.values().filter_map(|client| {
            let mut documents = client.documents.iter();
            let (_, document) = documents.rfind(|(uri, _)| UriKey::new(uri) == *key)?;
            Some((client.activity, document.text.id))
        });
        holders
            .max_by_key(|(activity, _)| *activity)
            .map(|(_, text)| text)
    }

    /// The files outside of their roots that answers of living instances have named.
    fn named_files(&self) -> BTreeMap<UriKey, NamedFile> {
        let named = self.instances.values().flat_map(|instance| {
            let owner = instance
                .definition
                .as_ref()
                .zip(instance.root_path.as_ref());
            instance.named_files.iter().filter_map(move |file| {
                let (definition, root_path) = owner?;
                let by = NamedFile {
                    server: definition.id.clone(),
                    root_path: root_path.clone(),
                };
                Some((file.clone(), by))
            })
        });
        named.collect()
    }

    /// The roots that a connection named, in order.
    fn roots_of(&self, client: ClientId) -> Vec<PathBuf> {
        let Some(client) = self.clients.get(&client) else {
            return Vec::new();
        };
        let own = match &client.face {
            ClientFace::Harness { root: Some(root) } => vec![root.clone()],
            _ => client
                .launch
                .as_ref()
                .and_then(|outcome| outcome.root_path.clone())
                .into_iter()
                .collect(),
        };
        let named = client.facts.iter().flat_map(|facts| facts.folders.iter());
        let named = named.filter_map(|folder| UriKey::new(folder).file_path().map(path_from_bytes));
        let mut roots: Vec<PathBuf> = own;
        for root in named {
            if !roots.contains(&root) {
                roots.push(root);
            }
        }
        roots
    }

    fn running_roots(&self) -> Vec<RunningRoot> {
        self.instances
            .values()
            .filter(|instance| instance.admits())
            .filter_map(|instance| {
                Some(RunningRoot {
                    server: instance.definition.as_ref()?.id.clone(),
                    root_key: instance.root_key.clone()?,
                    root_path: instance.root_path.clone()?,
                    root_uri: instance.folders_as_sent.first()?.clone(),
                })
            })
            .collect()
    }

    /// Moves a query on from where it waits for its instance.
    fn advance_query(&mut self, ticket: QueryTicket, out: &mut Vec<Effect>) {
        let Some(query) = self.queries.get(&ticket) else {
            return;
        };
        let Some(target) = query.instance else { return };
        match query.stage {
            Stage::Booting => self.query_booted(ticket, target, out),
            Stage::AwaitingReadiness => self.query_step(ticket, out),
            Stage::Queued => self.ask_if_free(ticket, target, out),
            _ => {}
        }
    }

    /// Moves on every query of an instance that may go on, oldest first.
    pub(in crate::core) fn pump_queries(&mut self, target: InstanceId, out: &mut Vec<Effect>) {
        let tickets: Vec<QueryTicket> = match self.instances.get(&target) {
            Some(instance) if !instance.queries.is_empty() => {
                instance.queries.iter().copied().collect()
            }
            _ => return,
        };
        for ticket in tickets {
            self.advance_query(ticket, out);
        }
    }
}

/// The `message` of a JSON-RPC error object.
pub(in crate::core) fn error_text(error: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Said {
        message: String,
    }
    serde_json::from_str::<Said>(error)
        .ok()
        .map(|said| said.message)
}

fn path_from_bytes(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}
