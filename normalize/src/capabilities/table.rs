//! The table of capability keys that the pool sets towards a server.
//!
//! Invariant: a row is here only with what undoes it: a lowering of answers in this folder, an answer that the pool
//! gives itself, or a conversion of positions. Until a key is here, clients that differ in it do not share.

/// Why a key may be set although the client did not set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// Richer answers are turned back by `lower` for a client that lacks the key.
    Lowered,
    /// The pool answers the server's requests, or keeps its notifications, itself.
    Answered,
    /// Set whatever the client says, since the pool works in this value alone.
    Forced,
}

/// A key of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// `LocationLink` from definition.
    DefinitionLinks,
    /// `LocationLink` from declaration.
    DeclarationLinks,
    /// `LocationLink` from type definition.
    TypeDefinitionLinks,
    /// `LocationLink` from implementation.
    ImplementationLinks,
    /// The formats of hover contents.
    HoverFormats,
    /// `DocumentSymbol` trees.
    HierarchicalSymbols,
    /// Progress that the server begins.
    WorkDoneProgress,
    /// `workspace/configuration`.
    Configuration,
    /// `workspace/workspaceFolders` and changes of folders.
    WorkspaceFolders,
    /// Registration for changes of files.
    WatchedFiles,
    /// Patterns relative to a base in such a registration.
    RelativePatterns,
    /// `workspace/applyEdit`.
    ApplyEdit,
    /// rust-analyzer's `experimental/serverStatus`.
    ServerStatus,
    /// The unit of columns.
    PositionEncodings,
    /// clangd's older key for the same.
    OffsetEncoding,
}

/// One key: where it is, what it is set to, and why that is allowed.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The key.
    pub key: Key,
    /// The members from `capabilities` down to it.
    pub path: &'static [&'static str],
    /// The JSON that is put there.
    pub value: &'static str,
    /// Why.
    pub treatment: Treatment,
}

const fn row(
    key: Key,
    path: &'static [&'static str],
    value: &'static str,
    treatment: Treatment,
) -> Row {
    Row {
        key,
        path,
        value,
        treatment,
    }
}

/// The whole table.
pub const ROWS: &[Row] = &[
    row(
        Key::DefinitionLinks,
        &["textDocument", "definition", "linkSupport"],
        "true",
        Treatment::Lowered,
    ),
    row(
        Key::DeclarationLinks,
        &["textDocument", "declaration", "linkSupport"],
        "true",
        Treatment::Lowered,
    ),
    row(
        Key::TypeDefinitionLinks,
        &["textDocument", "typeDefinition", "linkSupport"],
        "true",
        Treatment::Lowered,
    ),
    row(
        Key::ImplementationLinks,
        &["textDocument", "implementation", "linkSupport"],
        "true",
        Treatment::Lowered,
    ),
    row(
        Key::HoverFormats,
        &["textDocument", "hover", "contentFormat"],
        r#"["markdown","plaintext"]"#,
        Treatment::Lowered,
    ),
    row(
        Key::HierarchicalSymbols,
        &[
            "textDocument",
            "documentSymbol",
            "hierarchicalDocumentSymbolSupport",
        ],
        "true",
        Treatment::Lowered,
    ),
    row(
        Key::WorkDoneProgress,
        &["window", "workDoneProgress"],
        "true",
        Treatment::Answered,
    ),
    row(
        Key::Configuration,
        &["workspace", "configuration"],
        "true",
        Treatment::Answered,
    ),
    row(
        Key::WorkspaceFolders,
        &["workspace", "workspaceFolders"],
        "true",
        Treatment::Answered,
    ),
    row(
        Key::WatchedFiles,
        &["workspace", "didChangeWatchedFiles", "dynamicRegistration"],
        "true",
        Treatment::Answered,
    ),
    row(
        Key::RelativePatterns,
        &[
            "workspace",
            "didChangeWatchedFiles",
            "relativePatternSupport",
        ],
        "true",
        Treatment::Answered,
    ),
    row(
        Key::ApplyEdit,
        &["workspace", "applyEdit"],
        "true",
        Treatment::Answered,
    ),
    row(
        Key::ServerStatus,
        &["experimental", "serverStatusNotification"],
        "true",
        Treatment::Answered,
    ),
    row(
        Key::PositionEncodings,
        &["general", "positionEncodings"],
        r#"["utf-16"]"#,
        Treatment::Forced,
    ),
    row(
        Key::OffsetEncoding,
        &["offsetEncoding"],
        r#"["utf-16"]"#,
        Treatment::Forced,
    ),
];

/// The member of `experimental` by which a client tells lspool that it knows the custom methods. No server sees it.
pub const LSPOOL_MEMBER: &str = "lspool";
