//! What a server is answered when no client can be asked: the protocol's own way to say "not done".

/// The neutral result of a server's request, `None` where only an error is honest.
pub(super) fn neutral_answer(method: &str) -> Option<&'static str> {
    match method {
        "workspace/applyEdit" => {
            Some(r#"{"applied":false,"failureReason":"no editor is attached"}"#)
        }
        "window/showDocument" => Some(r#"{"success":false}"#),
        "window/showMessageRequest"
        | "window/workDoneProgress/create"
        | "client/registerCapability"
        | "client/unregisterCapability"
        | "workspace/workspaceFolders" => Some("null"),
        _ => None,
    }
}
