//! The machine that a run was made on, and the memory of this process.

use std::fs;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

/// What must be known of a machine to read its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The name and release of the kernel.
    pub kernel: String,
    /// The model of the processor, where it is told.
    pub processor: String,
    /// How many threads can run at once.
    pub cores: usize,
    /// The average number of threads that wanted to run in the last minute: what else was going on.
    pub load: String,
    /// Whether this program was built with optimisations.
    pub optimised: bool,
}

impl Machine {
    /// This machine, now.
    pub fn here() -> Self {
        let said = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (system, release) = (
            said("/proc/sys/kernel/ostype"),
            said("/proc/sys/kernel/osrelease"),
        );
        let kernel = if system.is_empty() {
            std::env::consts::OS.to_owned()
        } else {
            format!("{} {}", system.trim(), release.trim())
        };
        let load = said("/proc/loadavg");
        Self {
            kernel,
            processor: processor(&said("/proc/cpuinfo")),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            load: load.split(' ').next().unwrap_or_default().to_owned(),
            optimised: !cfg!(debug_assertions),
        }
    }

    /// One line for a person.
    pub fn line(&self) -> String {
        let build = if self.optimised {
            "release build"
        } else {
            "NOT OPTIMISED: these numbers mean nothing"
        };
        format!(
            "{}, {}, {} cores, load {}, {build}",
            self.kernel, self.processor, self.cores, self.load
        )
    }

    /// The same as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "kernel": self.kernel,
            "processor": self.processor,
            "cores": self.cores,
            "load": self.load,
            "optimised": self.optimised,
        })
    }
}

fn processor(cpuinfo: &str) -> String {
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or("unknown processor", |(_, model)| model).into()
}

/// Sets the peak of this process's memory to what it holds now and gives that in bytes.
///
/// # Errors
/// Where the system does not tell (`proc(5)`, `clear_refs` and `status`).
pub fn reset_peak_memory() -> Result<u64> {
    const PEAK: &str = "5";
    fs::write("/proc/self/clear_refs", PEAK).context("the peak of memory cannot be reset")?;
    peak_memory()
}

/// The most memory that this process held since the last reset, in bytes.
///
/// # Errors
/// As [`reset_peak_memory`].
pub fn peak_memory() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status").context("memory cannot be told")?;
    let kibibytes = status
        .lines()
        .find_map(|line| {
            line.strip_prefix("VmHWM:")?
                .trim()
                .strip_suffix(" kB")?
                .parse::<u64>()
                .ok()
        })
        .context("the status of this process has no VmHWM")?;
    Ok(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_of_a_processor_is_found() {
        assert_eq!(
            processor("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n"),
            "Some CPU @ 2 GHz"
        );
        assert_eq!(processor(""), "unknown processor");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_peak_is_seen_after_the_reset() {
        let before = reset_peak_memory().unwrap();

        let block = vec![1_u8; 64 << 20];

        assert!(peak_memory().unwrap() >= before + (block.len() as u64) / 2);
    }
}
