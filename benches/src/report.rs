//! What a run found: comparisons, as a table for a person and as JSON for a program.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::machine::Machine;
use crate::sampling::Samples;

/// What a sample was, and so how its time is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// One call.
    Call,
    /// So many calls; the time is shown for one.
    Calls(u32),
    /// So many bytes; the throughput is shown too.
    Bytes(u64),
}

/// One contender in a comparison.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What was measured.
    pub samples: Samples,
    /// Its median by that of the baseline; 1 for the baseline itself.
    pub ratio: f64,
}

/// One question with the samples of its contenders.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The name of the bench, for programs.
    pub id: &'static str,
    /// The question.
    pub what: String,
    /// What a sample was.
    pub unit: Unit,
    /// The contenders; the last is the baseline.
    pub entries: Vec<Entry>,
    /// What the ratio of the first contender should be at most.
    pub target: Option<f64>,
    /// What else was seen.
    pub notes: Vec<String>,
}

impl Comparison {
    /// A comparison with the last of the given contenders.
    pub fn new(id: &'static str, what: &str, unit: Unit, samples: Vec<Samples>) -> Self {
        let baseline = samples.last().map(Samples::median).unwrap_or_default();
        let entries = samples
            .into_iter()
            .map(|samples| Entry {
                ratio: samples.median().as_secs_f64() / baseline.as_secs_f64(),
                samples,
            })
            .collect();
        Self {
            id,
            what: what.to_owned(),
            unit,
            entries,
            target: None,
            notes: Vec::new(),
        }
    }

    /// With a target for the first contender.
    #[must_use]
    pub fn target(mut self, at_most: f64) -> Self {
        self.target = Some(at_most);
        self
    }

    /// With a note.
    #[must_use]
    pub fn note(mut self, note: String) -> Self {
        self.notes.push(note);
        self
    }

    fn to_json(&self) -> Value {
        let entries: Vec<Value> = self
            .entries
            .iter()
            .map(|entry| {
                let seconds = |share| {
                    self.unit
                        .of_one(entry.samples.quantile(share))
                        .as_secs_f64()
                };
                json!({
                    "name": entry.samples.name,
                    "samples": entry.samples.count(),
                    "seconds": {"p10": seconds(0.1), "median": seconds(0.5), "p99": seconds(0.99)},
                    "ratio": entry.ratio,
                })
            })
            .collect();
        json!({
            "id": self.id,
            "what": self.what,
            "bytes": self.unit.bytes(),
            "entries": entries,
            "target": self.target,
            "notes": self.notes,
        })
    }
}

impl Unit {
    /// The time of one call, or of the whole transfer.
    fn of_one(self, time: Duration) -> Duration {
        match self {
            Self::Calls(count) => time / count.max(1),
            Self::Call | Self::Bytes(_) => time,
        }
    }

    fn bytes(self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Call | Self::Calls(_) => None,
        }
    }
}

/// The table of a run.
pub fn table(machine: &Machine, command: &str, comparisons: &[Comparison]) -> String {
    let mut text = format!("{command}\n{}\n", machine.line());
    for comparison in comparisons {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "\n{}\n  {:<44}{:>12}{:>12}{:>12}{:>8}",
            comparison.what, "", "p10", "median", "p99", "ratio"
        );
        for (index, entry) in comparison.entries.iter().enumerate() {
            let shown = |share| shown_time(comparison.unit.of_one(entry.samples.quantile(share)));
            let _ = write!(
                text,
                "  {:<44}{:>12}{:>12}{:>12}{:>8.2}",
                entry.samples.name,
                shown(0.1),
                shown(0.5),
                shown(0.99),
                entry.ratio
            );
            if let Unit::Bytes(bytes) = comparison.unit {
                let _ = write!(text, "  {}", throughput(bytes, entry.samples.median()));
            }
            if let (0, Some(target)) = (index, comparison.target) {
                let verdict = if entry.ratio <= target {
                    "met"
                } else {
                    "MISSED"
                };
                let _ = write!(text, "  (at most {target}: {verdict})");
            }
            text.push('\n');
        }
        for note in &comparison.notes {
            let _ = writeln!(text, "  {note}");
        }
    }
    text
}

/// The same run as JSON.
pub fn json(machine: &Machine, command: &str, comparisons: &[Comparison]) -> Value {
    json!({
        "command": command,
        "machine": machine.to_json(),
        "comparisons": comparisons.iter().map(Comparison::to_json).collect::<Vec<_>>(),
    })
}

/// A time with three or four digits.
fn shown_time(time: Duration) -> String {
    let microseconds = time.as_secs_f64() * 1e6;
    if microseconds < 10_000.0 {
        format!("{microseconds:.1} µs")
    } else if microseconds < 10_000_000.0 {
        format!("{:.1} ms", microseconds / 1e3)
    } else {
        format!("{:.1} s", microseconds / 1e6)
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "shown with no digit after the point"
)]
fn throughput(bytes: u64, time: Duration) -> String {
    format!("{:.0} MB/s", bytes as f64 / 1e6 / time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::{Contender, in_turns};

    async fn comparison(unit: Unit) -> Comparison {
        let of = |name: &str, milliseconds| {
            Contender::new(name, move || async move {
                Ok(Duration::from_millis(milliseconds))
            })
        };
        let samples = in_turns(2, vec![of("ours", 30), of("theirs", 20)])
            .await
            .unwrap();
        Comparison::new("id", "what it costs", unit, samples)
    }

    fn machine() -> Machine {
        Machine {
            kernel: "Kernel 1".to_owned(),
            processor: "CPU".to_owned(),
            cores: 2,
            load: "0.5".to_owned(),
            optimised: true,
        }
    }

    #[tokio::test]
    async fn a_ratio_is_that_of_the_medians_to_the_last_contender() {
        let comparison = comparison(Unit::Call).await;

        let ratios: Vec<f64> = comparison.entries.iter().map(|entry| entry.ratio).collect();

        assert_eq!(ratios, [1.5, 1.0]);
    }

    #[tokio::test]
    async fn the_table_says_what_was_measured_where_and_against_which_target() {
        let comparison = comparison(Unit::Bytes(3_000_000)).await.target(1.3);

        let table = table(&machine(), "the command", &[comparison]);

        for part in [
            "the command",
            "Kernel 1, CPU, 2 cores, load 0.5, release build",
            "what it costs",
            "30.0 ms",
            "100 MB/s  (at most 1.3: MISSED)",
        ] {
            assert!(table.contains(part), "{part} is not in\n{table}");
        }
    }

    #[tokio::test]
    async fn the_time_of_many_calls_is_shown_for_one() {
        let comparison = comparison(Unit::Calls(10)).await;

        let json = json(&machine(), "the command", &[comparison]);

        let ours = &json["comparisons"][0]["entries"][0];
        assert_eq!(ours["seconds"]["median"], 0.003);
        assert_eq!(ours["ratio"], 1.5);
        assert_eq!(json["machine"]["cores"], 2);
    }
}
