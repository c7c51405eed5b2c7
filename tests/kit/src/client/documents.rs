//! Owns the short forms of the messages about documents that nearly every test sends.

use serde_json::json;

use super::{Client, Pending};
use crate::error::KitError;

impl Client {
    /// Sends `textDocument/didOpen`.
    pub fn did_open(
        &self,
        uri: &str,
        language: &str,
        version: i64,
        text: &str,
    ) -> Result<(), KitError> {
        self.notify(
            "textDocument/didOpen",
            json!({"textDocument": {"uri": uri, "languageId": language, "version": version, "text": text}}),
        )
    }

    /// Sends `textDocument/didChange` with the whole text.
    pub fn did_change(&self, uri: &str, version: i64, text: &str) -> Result<(), KitError> {
        self.notify(
            "textDocument/didChange",
            json!({"textDocument": {"uri": uri, "version": version}, "contentChanges": [{"text": text}]}),
        )
    }

    /// Sends `textDocument/didChange` that replaces a range, from (line, character) to (line, character),
    /// both counted from 0 in the encoding that was agreed on.
    pub fn did_edit(
        &self,
        uri: &str,
        version: i64,
        from: (u32, u32),
        to: (u32, u32),
        text: &str,
    ) -> Result<(), KitError> {
        let place = |(line, character): (u32, u32)| json!({"line": line, "character": character});
        let range = json!({"start": place(from), "end": place(to)});
        self.notify(
            "textDocument/didChange",
            json!({
                "textDocument": {"uri": uri, "version": version},
                "contentChanges": [{"range": range, "text": text}],
            }),
        )
    }

    /// Sends `textDocument/didSave` without the text.
    pub fn did_save(&self, uri: &str) -> Result<(), KitError> {
        self.notify(
            "textDocument/didSave",
            json!({"textDocument": {"uri": uri}}),
        )
    }

    /// Sends `textDocument/didClose`.
    pub fn did_close(&self, uri: &str) -> Result<(), KitError> {
        self.notify(
            "textDocument/didClose",
            json!({"textDocument": {"uri": uri}}),
        )
    }

    /// Sends a request about a place in a document, counted from 0 in the encoding that was agreed on.
    /// `textDocument/references` asks for the declaration too.
    pub fn ask_at(
        &self,
        method: &str,
        uri: &str,
        line: u32,
        character: u32,
    ) -> Result<Pending, KitError> {
        let mut params = json!({
            "textDocument": {"uri": uri},
            "position": {"line": line, "character": character},
        });
        if method == "textDocument/references" {
            params["context"] = json!({"includeDeclaration": true});
        }
        self.request(method, params)
    }
}
