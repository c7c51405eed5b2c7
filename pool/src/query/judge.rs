//! How complete an answer is, from what the wait for the server ended with and from the answer itself.

use lspool_normalize::{Completeness, Operation, Readiness, Reason};

/// A judgement: completeness and, exactly when that is `partial`, its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// How complete the answer is.
    pub completeness: Completeness,
    /// What is missing.
    pub reason: Option<Reason>,
}

/// What is known about an answer when it is judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence {
    pub(super) operation: Operation,
    pub(super) readiness: Readiness,
    /// Whether the server said that it indexes while it answered.
    pub(super) indexing: bool,
    pub(super) truncated: bool,
    pub(super) is_empty: bool,
}

/// Judges an answer.
///
/// A hover that is there was found, whatever the index still lacks: without a readiness signal it counts as complete.
/// References and implementations are sets, of which a part says nothing about the rest; a definition may be the
/// declaration for as long as the index lacks the other file; and an empty answer proves nothing without a signal.
pub(super) fn judge(evidence: Evidence) -> Judged {
    let (completeness, reason) = Completeness::judge(
        evidence.readiness,
        None,
        evidence.indexing,
        evidence.truncated,
    );
    let needs_no_index = evidence.operation == Operation::Hover;
    if completeness == Completeness::Unknown && needs_no_index && !evidence.is_empty {
        return Judged {
            completeness: Completeness::Complete,
            reason: None,
        };
    }
    Judged {
        completeness,
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(
        operation: Operation,
        readiness: Readiness,
        is_empty: bool,
    ) -> (Completeness, Option<Reason>) {
        let judged = judge(Evidence {
            operation,
            readiness,
            indexing: false,
            truncated: false,
            is_empty,
        });
        (judged.completeness, judged.reason)
    }

    #[test]
    fn an_empty_answer_is_complete_with_a_signal_only() {
        for operation in Operation::ALL {
            assert_eq!(
                judged(operation, Readiness::Signal, true),
                (Completeness::Complete, None)
            );
            assert_eq!(
                judged(operation, Readiness::Settled, true),
                (Completeness::Unknown, None)
            );
            assert_eq!(
                judged(operation, Readiness::NotWaited, true),
                (Completeness::Unknown, None)
            );
            assert_eq!(
                judged(operation, Readiness::Timeout, true),
                (Completeness::Partial, Some(Reason::Timeout))
            );
        }
    }

    #[test]
    fn without_a_signal_what_was_found_is_complete_where_no_index_is_needed() {
        assert_eq!(
            judged(Operation::GoToDefinition, Readiness::Settled, false).0,
            Completeness::Unknown
        );
        assert_eq!(
            judged(Operation::Hover, Readiness::NotWaited, false).0,
            Completeness::Complete
        );
        assert_eq!(
            judged(Operation::FindReferences, Readiness::Settled, false).0,
            Completeness::Unknown
        );
        assert_eq!(
            judged(Operation::GoToImplementation, Readiness::Settled, false).0,
            Completeness::Unknown
        );
    }

    #[test]
    fn an_answer_from_an_unready_server_is_partial_whatever_it_holds() {
        for operation in Operation::ALL {
            let evidence = Evidence {
                operation,
                readiness: Readiness::Timeout,
                indexing: true,
                truncated: false,
                is_empty: false,
            };
            assert_eq!(
                judge(evidence),
                Judged {
                    completeness: Completeness::Partial,
                    reason: Some(Reason::Indexing)
                }
            );
        }
    }
}
