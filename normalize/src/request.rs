//! The parameters of `lspool/query` and `lspool/queryBatch`, read strictly.
//!
//! Invariant (`protocol.md`, "Conventions" and "Errors"): an unknown field is an error that names it, `null` is the same
//! as absent, and of several faults shape comes before values and values before limits. Nothing is given a default
//! here: what the request leaves open stays open until the face makes a spec of it.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::RpcError;
use crate::operation::Operation;
use crate::position::{Encoding, Position, whole};

/// The longest duration that the protocol knows, in milliseconds.
pub const MAX_DURATION_MS: u32 = 2_147_483_647;

/// The caps that a request is held against; the face owns the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryCaps {
    /// Highest `maxLocations`.
    pub max_locations: u32,
    /// Highest `contextLines`.
    pub context_lines: u32,
    /// Most queries in one batch.
    pub batch: u32,
}

/// Which text is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum View {
    /// The file as it is on disk.
    Disk,
    /// The text that an attached editor holds, the disk if none does.
    Editor,
}

/// Whether the query waits for the server to be ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Wait {
    /// Within the budget.
    Ready,
    /// Not at all.
    None,
}

/// What is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryTarget {
    /// A position, and the identifier that is expected there.
    Position {
        /// Zero-based, in the unit of `columns`.
        position: Position,
        /// The expected identifier.
        token: Option<String>,
    },
    /// A symbol by name.
    Symbol {
        /// The name, a whole word.
        name: String,
        /// Zero-based line on or near which it stands.
        line: Option<u32>,
        /// One-based number among the occurrences considered.
        occurrence: Option<u32>,
    },
}

/// A query as it was asked. Serialises to the parameters that it was read from, absent fields left out.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryRequest {
    /// What is asked.
    pub operation: Operation,
    /// Path or URI.
    pub file: String,
    /// Path or URI of the root that the file must be inside.
    pub workspace_root: Option<String>,
    /// What is asked about.
    pub target: QueryTarget,
    /// Which text.
    pub view: Option<View>,
    /// Whether to wait.
    pub wait: Option<Wait>,
    /// Budget in milliseconds, the boot included; at least 1.
    pub timeout_ms: Option<u32>,
    /// Most places in the answer; at least 1.
    pub max_locations: Option<u32>,
    /// Where to go on in a cut answer.
    pub cursor: Option<String>,
    /// Lines before and after each place.
    pub context_lines: Option<u32>,
    /// The unit of columns in request and answer.
    pub columns: Option<Encoding>,
    /// Token for the query's own progress: a string or a whole number.
    pub work_done_token: Option<Value>,
}

/// A request that cannot be taken as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Wrong shape or value. Code `INVALID_PARAMS`.
    #[error("`{field}` {problem}")]
    Invalid {
        /// The field, such as `position.line`.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Above a cap. Code `LIMIT_EXCEEDED`.
    #[error("`{field}` is above its cap of {cap}")]
    Limit {
        /// The field.
        field: &'static str,
        /// Its cap.
        cap: u32,
    },
}

impl RequestError {
    /// The error that is answered.
    pub fn to_rpc(&self) -> RpcError {
        match self {
            Self::Invalid { field, .. } => RpcError::invalid_params(field, self.to_string()),
            Self::Limit { field, cap } => RpcError::limit_exceeded(field, u64::from(*cap)),
        }
    }

    fn invalid(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Invalid {
            field: field.into(),
            problem: problem.into(),
        }
    }
}

/// The fields of a query.
const FIELDS: [&str; 14] = [
    "operation",
    "file",
    "workspaceRoot",
    "position",
    "token",
    "symbol",
    "view",
    "wait",
    "timeoutMs",
    "maxLocations",
    "cursor",
    "contextLines",
    "columns",
    "workDoneToken",
];

impl QueryRequest {
    /// Reads the parameters of `lspool/query`.
    pub fn decode(params: &Value, caps: &QueryCaps) -> Result<Self, RequestError> {
        let object = Object::new(params, "")?;
        object.only(&FIELDS)?;
        let shape = Shape::read(&object)?;
        let request = shape.with_values()?;
        request.check_caps(caps)?;
        Ok(request)
    }

    /// Whether every number is within its cap.
    fn check_caps(&self, caps: &QueryCaps) -> Result<(), RequestError> {
        let numbers = [
            ("maxLocations", self.max_locations, caps.max_locations),
            ("contextLines", self.context_lines, caps.context_lines),
        ];
        match numbers
            .into_iter()
            .find(|(_, given, cap)| given.is_some_and(|given| given > *cap))
        {
            Some((field, _, cap)) => Err(RequestError::Limit { field, cap }),
            None => Ok(()),
        }
    }
}

/// Reads the parameters of `lspool/queryBatch`: each query by itself, so that a faulty one does not end the others.
pub fn decode_batch(
    params: &Value,
    caps: &QueryCaps,
) -> Result<Vec<Result<QueryRequest, RequestError>>, RequestError> {
    let object = Object::new(params, "")?;
    object.only(&["queries", "workDoneToken", "partialResultToken"])?;
    object.progress_token("workDoneToken")?;
    object.progress_token("partialResultToken")?;
    let queries = match object.member("queries") {
        Some(Value::Array(queries)) => queries,
        Some(_) => return Err(RequestError::invalid("queries", "must be an array")),
        None => return Err(RequestError::invalid("queries", "is required")),
    };
    if queries.len() > caps.batch as usize {
        return Err(RequestError::Limit {
            field: "queries",
            cap: caps.batch,
        });
    }
    Ok(queries
        .iter()
        .map(|query| QueryRequest::decode(query, caps))
        .collect())
}

/// A request whose fields have the right types.
struct Shape {
    operation: String,
    file: String,
    workspace_root: Option<String>,
    target: QueryTarget,
    view: Option<String>,
    wait: Option<String>,
    timeout_ms: Option<u64>,
    max_locations: Option<u64>,
    cursor: Option<String>,
    context_lines: Option<u64>,
    columns: Option<String>,
    work_done_token: Option<Value>,
}

impl Shape {
    fn read(object: &Object<'_>) -> Result<Self, RequestError> {
        Ok(Self {
            operation: object.required_string("operation")?,
            file: object.required_string("file")?,
            workspace_root: object.string("workspaceRoot")?,
            target: target(object)?,
            view: object.string("view")?,
            wait: object.string("wait")?,
            timeout_ms: object.number("timeoutMs")?,
            max_locations: object.number("maxLocations")?,
            cursor: object.string("cursor")?,
            context_lines: object.number("contextLines")?,
            columns: object.string("columns")?,
            work_done_token: object.progress_token("workDoneToken")?,
        })
    }

    fn with_values(self) -> Result<QueryRequest, RequestError> {
        let operation = Operation::from_name(&self.operation)
            .ok_or_else(|| one_of("operation", &Operation::ALL.map(Operation::name)))?;
        not_empty("file", Some(&self.file))?;
        not_empty("workspaceRoot", self.workspace_root.as_deref())?;
        check_target(&self.target)?;
        let view = named(
            "view",
            self.view,
            &[("disk", View::Disk), ("editor", View::Editor)],
        )?;
        let wait = named(
            "wait",
            self.wait,
            &[("ready", Wait::Ready), ("none", Wait::None)],
        )?;
        let columns = named(
            "columns",
            self.columns,
            &[Encoding::Utf8, Encoding::Utf16, Encoding::Codepoint]
                .map(|unit| (unit.columns_name(), unit)),
        )?;
        if self
            .timeout_ms
            .is_some_and(|given| !(1..=u64::from(MAX_DURATION_MS)).contains(&given))
        {
            return Err(RequestError::invalid(
                "timeoutMs",
                format!("must be from 1 to {MAX_DURATION_MS} milliseconds"),
            ));
        }
        if self.max_locations == Some(0) {
            return Err(RequestError::invalid("maxLocations", "must be at least 1"));
        }
        Ok(QueryRequest {
            operation,
            file: self.file,
            workspace_root: self.workspace_root,
            target: self.target,
            view,
            wait,
            timeout_ms: self.timeout_ms.map(clamp),
            max_locations: self.max_locations.map(clamp),
            cursor: self.cursor,
            context_lines: self.context_lines.map(clamp),
            columns,
            work_done_token: self.work_done_token,
        })
    }
}

/// Narrows a number that a cap far below the width's end refuses anyway.
fn clamp(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn target(object: &Object<'_>) -> Result<QueryTarget, RequestError> {
    let token = object.string("token")?;
    match (object.object("position")?, object.object("symbol")?) {
        (Some(_), Some(_)) => Err(RequestError::invalid(
            "symbol",
            "stands instead of `position`; both together are not allowed",
        )),
        (None, None) => Err(RequestError::invalid(
            "position",
            "is required unless `symbol` is given",
        )),
        (Some(position), None) => {
            position.only(&["line", "character"])?;
            Ok(QueryTarget::Position {
                position: Position::new(
                    position.required_index("line")?,
                    position.required_index("character")?,
                ),
                token,
            })
        }
        (None, Some(_)) if token.is_some() => Err(RequestError::invalid(
            "token",
            "goes with `position`; a `symbol` has its `name`",
        )),
        (None, Some(symbol)) => {
            symbol.only(&["name", "line", "occurrence"])?;
            Ok(QueryTarget::Symbol {
                name: symbol.required_string("name")?,
                line: symbol.index("line")?,
                occurrence: symbol.index("occurrence")?,
            })
        }
    }
}

fn check_target(target: &QueryTarget) -> Result<(), RequestError> {
    match target {
        QueryTarget::Position { token, .. } => not_empty("token", token.as_deref()),
        QueryTarget::Symbol {
            name, occurrence, ..
        } => {
            not_empty("symbol.name", Some(name))?;
            if name.contains(['\n', '\r']) {
                return Err(RequestError::invalid("symbol.name", "must be on one line"));
            }
            if *occurrence == Some(0) {
                return Err(RequestError::invalid("symbol.occurrence", "counts from 1"));
            }
            Ok(())
        }
    }
}

fn not_empty(field: &str, text: Option<&str>) -> Result<(), RequestError> {
    if text.is_some_and(|text| text.trim().is_empty()) {
        return Err(RequestError::invalid(field, "must not be blank"));
    }
    Ok(())
}

fn named<T: Copy>(
    field: &str,
    given: Option<String>,
    names: &[(&str, T)],
) -> Result<Option<T>, RequestError> {
    let Some(given) = given else { return Ok(None) };
    let known = names.iter().find(|(name, _)| *name == given);
    match known {
        Some((_, value)) => Ok(Some(*value)),
        None => Err(one_of(
            field,
            &names.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        )),
    }
}

fn one_of(field: &str, names: &[&str]) -> RequestError {
    RequestError::invalid(field, format!("must be one of {}", names.join(", ")))
}

/// An object of the request and where it stands.
struct Object<'value> {
    members: &'value Map<String, Value>,
    prefix: String,
}

impl<'value> Object<'value> {
    /// The object at a path; the empty path is the parameters themselves.
    fn new(value: &'value Value, path: &str) -> Result<Self, RequestError> {
        let Value::Object(members) = value else {
            let field = if path.is_empty() { "params" } else { path };
            return Err(RequestError::invalid(field, "must be an object"));
        };
        let prefix = if path.is_empty() {
            String::new()
        } else {
            format!("{path}.")
        };
        Ok(Self { members, prefix })
    }

    fn path(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Refuses every member that is not among the known ones.
    fn only(&self, known: &[&str]) -> Result<(), RequestError> {
        match self
            .members
            .keys()
            .find(|name| !known.contains(&name.as_str()))
        {
            Some(name) => Err(RequestError::invalid(
                self.path(name),
                format!("is not a field here; there are {}", known.join(", ")),
            )),
            None => Ok(()),
        }
    }

    /// A member, `null` counting as absent.
    fn member(&self, name: &str) -> Option<&'value Value> {
        self.members.get(name).filter(|value| !value.is_null())
    }

    fn required<T>(&self, name: &str, value: Option<T>) -> Result<T, RequestError> {
        value.ok_or_else(|| RequestError::invalid(self.path(name), "is required"))
    }

    fn string(&self, name: &str) -> Result<Option<String>, RequestError> {
        match self.member(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(RequestError::invalid(self.path(name), "must be a string")),
        }
    }

    fn required_string(&self, name: &str) -> Result<String, RequestError> {
        let value = self.string(name)?;
        self.required(name, value)
    }

    fn object(&self, name: &str) -> Result<Option<Object<'value>>, RequestError> {
        self.member(name)
            .map(|value| Object::new(value, &self.path(name)))
            .transpose()
    }

    /// A whole number from 0. `1.0` is one: Lua and other clients that know floats alone write it so.
    fn number(&self, name: &str) -> Result<Option<u64>, RequestError> {
        let Some(value) = self.member(name) else {
            return Ok(None);
        };
        let number = match value {
            Value::Number(number) => number.as_u64().or_else(|| whole(number).map(u64::from)),
            _ => None,
        };
        match number {
            Some(number) => Ok(Some(number)),
            None => Err(RequestError::invalid(
                self.path(name),
                "must be a whole number from 0",
            )),
        }
    }

    /// A line or a column.
    fn index(&self, name: &str) -> Result<Option<u32>, RequestError> {
        let number = self.number(name)?.map(u32::try_from).transpose();
        number.map_err(|_| RequestError::invalid(self.path(name), "is too large"))
    }

    fn required_index(&self, name: &str) -> Result<u32, RequestError> {
        let value = self.index(name)?;
        self.required(name, value)
    }

    fn progress_token(&self, name: &str) -> Result<Option<Value>, RequestError> {
        match self.member(name) {
            None => Ok(None),
            Some(token @ Value::String(_)) => Ok(Some(token.clone())),
            Some(token @ Value::Number(number)) if number.is_i64() => Ok(Some(token.clone())),
            Some(_) => Err(RequestError::invalid(
                self.path(name),
                "must be a string or a whole number",
            )),
        }
    }
}

impl Serialize for QueryRequest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Symbol<'request> {
            name: &'request str,
            #[serde(skip_serializing_if = "Option::is_none")]
            line: Option<u32>,
            #[serde(skip_serializing_if = "Option::is_none")]
            occurrence: Option<u32>,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Params<'request> {
            operation: Operation,
            file: &'request str,
            #[serde(skip_serializing_if = "Option::is_none")]
            workspace_root: Option<&'request str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            position: Option<Position>,
            #[serde(skip_serializing_if = "Option::is_none")]
            token: Option<&'request str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            symbol: Option<Symbol<'request>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            view: Option<View>,
            #[serde(skip_serializing_if = "Option::is_none")]
            wait: Option<Wait>,
            #[serde(skip_serializing_if = "Option::is_none")]
            timeout_ms: Option<u32>,
            #[serde(skip_serializing_if = "Option::is_none")]
            max_locations: Option<u32>,
            #[serde(skip_serializing_if = "Option::is_none")]
            cursor: Option<&'request str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            context_lines: Option<u32>,
            #[serde(skip_serializing_if = "Option::is_none")]
            columns: Option<&'static str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            work_done_token: Option<&'request Value>,
        }
        let (position, token, symbol) = match &self.target {
            QueryTarget::Position { position, token } => (Some(*position), token.as_deref(), None),
            QueryTarget::Symbol {
                name,
                line,
                occurrence,
            } => {
                let (line, occurrence) = (*line, *occurrence);
                (
                    None,
                    None,
                    Some(Symbol {
                        name,
                        line,
                        occurrence,
                    }),
                )
            }
        };
        Params {
            operation: self.operation,
            file: &self.file,
            workspace_root: self.workspace_root.as_deref(),
            position,
            token,
            symbol,
            view: self.view,
            wait: self.wait,
            timeout_ms: self.timeout_ms,
            max_locations: self.max_locations,
            cursor: self.cursor.as_deref(),
            context_lines: self.context_lines,
            columns: self.columns.map(Encoding::columns_name),
            work_done_token: self.work_done_token.as_ref(),
        }
        .serialize(serializer)
    }
}
