//! How far an answer can be trusted: the envelope of every normalised result (`protocol.md`, "`lspool/query`").
//!
//! Invariant: an empty answer is only called complete when the server showed that it was ready; [`Completeness::judge`]
//! is the one place that decides it.

use serde::{Deserialize, Serialize};

/// Whether the answer is all there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Completeness {
    /// The server was ready and nothing was cut.
    Complete,
    /// Something is missing; the envelope's `reason` says why.
    Partial,
    /// The server gives no sign by which to tell.
    Unknown,
}

/// Why an answer is partial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reason {
    /// The server's index was not complete.
    Indexing,
    /// The server does not count the file to any project that it knows.
    FileNotInProject,
    /// One of several servers gave no answer.
    ServerFailed,
    /// The budget ended before the server was ready.
    Timeout,
    /// The list was cut at `maxLocations`.
    Limit,
}

/// What the query got when it waited for the server to be ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Readiness {
    /// The server said that its index is complete.
    Signal,
    /// The server was quiet for its settle time, which proves nothing.
    Settled,
    /// The budget ended first; the server was asked all the same.
    Timeout,
    /// The request said `wait: "none"`.
    NotWaited,
}

/// The server's progress as it last reported it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// What the server is doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How far it is, 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u32>,
}

/// Where the text came from that an answer was computed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TextSource {
    /// The file as it is on disk.
    Disk,
    /// The text that an attached editor holds.
    Editor,
}

/// The text that an answer was computed on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextVersion {
    /// Where it came from.
    pub source: TextSource,
    /// With source `disk` the file's fs version, usable as `expected` of a write; with source `editor` the editor's
    /// document version.
    pub version: String,
}

/// How far to trust an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    /// Ids of the servers that answered.
    pub servers: Vec<String>,
    /// Whether this is all there is.
    pub completeness: Completeness,
    /// Why it is not; present exactly when `completeness` is `partial`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// What the wait for the server ended with.
    pub readiness: Readiness,
    /// The server's progress, while it reports any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// The root that the server was asked in.
    pub workspace_uri: String,
    /// The text that was asked about.
    pub text: TextVersion,
    /// Places after deduplication and before the cap; for hover 1 or 0.
    pub total: u64,
    /// Whether the list was cut.
    pub truncated: bool,
    /// How to ask for the rest of a cut list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Places that no longer stand because their file changed.
    pub dropped: u64,
    /// Milliseconds that the query waited for the server to be ready.
    pub waited_ms: u64,
    /// Remarks for people.
    pub notes: Vec<String>,
}

impl Completeness {
    /// Judges an answer by what the wait ended with, what is known to be missing, and whether the answer is empty.
    ///
    /// `known` is a reason that the pipeline found by itself, such as a failed server or a file outside every project;
    /// the server's own unreadiness comes next, then the cut, then what readiness proves.
    pub fn judge(
        readiness: Readiness,
        known: Option<Reason>,
        indexing: bool,
        truncated: bool,
    ) -> (Self, Option<Reason>) {
        if let Some(reason) = known {
            return (Self::Partial, Some(reason));
        }
        if indexing {
            return (Self::Partial, Some(Reason::Indexing));
        }
        if readiness == Readiness::Timeout {
            return (Self::Partial, Some(Reason::Timeout));
        }
        if truncated {
            return (Self::Partial, Some(Reason::Limit));
        }
        match readiness {
            Readiness::Signal => (Self::Complete, None),
            Readiness::Settled | Readiness::NotWaited | Readiness::Timeout => (Self::Unknown, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_signal_makes_an_answer_complete() {
        let judge = |readiness| Completeness::judge(readiness, None, false, false);
        assert_eq!(judge(Readiness::Signal), (Completeness::Complete, None));
        assert_eq!(judge(Readiness::Settled), (Completeness::Unknown, None));
        assert_eq!(judge(Readiness::NotWaited), (Completeness::Unknown, None));
        assert_eq!(
            judge(Readiness::Timeout),
            (Completeness::Partial, Some(Reason::Timeout))
        );
    }

    #[test]
    fn partial_always_has_its_most_telling_reason() {
        let judged = Completeness::judge(Readiness::Signal, None, false, true);
        assert_eq!(judged, (Completeness::Partial, Some(Reason::Limit)));
        let judged = Completeness::judge(Readiness::Timeout, None, true, true);
        assert_eq!(judged, (Completeness::Partial, Some(Reason::Indexing)));
        let judged =
            Completeness::judge(Readiness::Timeout, Some(Reason::ServerFailed), true, true);
        assert_eq!(judged, (Completeness::Partial, Some(Reason::ServerFailed)));
    }

    #[test]
    fn absent_members_are_left_out_and_names_are_the_protocols() {
        let envelope = Envelope {
            servers: vec!["clangd".to_owned()],
            completeness: Completeness::Partial,
            reason: Some(Reason::FileNotInProject),
            readiness: Readiness::NotWaited,
            progress: Some(Progress {
                message: None,
                percent: Some(45),
            }),
            workspace_uri: "file:///p".to_owned(),
            text: TextVersion {
                source: TextSource::Disk,
                version: "v1".to_owned(),
            },
            total: 3,
            truncated: false,
            cursor: None,
            dropped: 0,
            waited_ms: 12,
            notes: vec![],
        };
        assert_eq!(
            serde_json::to_value(&envelope).unwrap(),
            json!({ "servers": ["clangd"], "completeness": "partial", "reason": "fileNotInProject",
                    "readiness": "notWaited", "progress": { "percent": 45 }, "workspaceUri": "file:///p",
                    "text": { "source": "disk", "version": "v1" }, "total": 3, "truncated": false,
                    "dropped": 0, "waitedMs": 12, "notes": [] })
        );
    }
}
