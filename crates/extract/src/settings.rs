//! Settings of extraction.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// `[knowledge.extract]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct ExtractSettings {
    pub processes_max: usize,
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
    pub memory_bytes_max: u64,
    pub markdown_bytes_max: usize,
    pub nodes_max: usize,
    pub depth_max: usize,
    pub attributes_max: usize,
}

impl Default for ExtractSettings {
    fn default() -> Self {
        Self {
            processes_max: 2,
            timeout: Duration::from_secs(20),
            memory_bytes_max: 1024 * 1024 * 1024,
            markdown_bytes_max: 4 * 1024 * 1024,
            nodes_max: 500_000,
            depth_max: 512,
            attributes_max: 1000,
        }
    }
}

/// A process cannot start with less.
const MEMORY_BYTES_MIN: u64 = 128 * 1024 * 1024;

/// Parsing an element is quadratic in its attributes; above this number it takes seconds.
const ATTRIBUTES_MOST: usize = 20_000;

/// Deeper trees can overflow the stack of the worker.
const DEPTH_MOST: usize = 2000;

impl ExtractSettings {
    /// Invalid values, as pairs of field and rule.
    pub fn problems(&self) -> Vec<(&'static str, &'static str)> {
        let rules = [
            (self.processes_max == 0, "processes_max", "must be at least 1"),
            (self.timeout.is_zero(), "timeout", "must be longer than 0s"),
            (self.memory_bytes_max < MEMORY_BYTES_MIN, "memory_bytes_max", "must be at least 134217728 (128 MiB)"),
            (self.markdown_bytes_max == 0, "markdown_bytes_max", "must be at least 1"),
            (self.nodes_max == 0, "nodes_max", "must be at least 1"),
            (!(1..=DEPTH_MOST).contains(&self.depth_max), "depth_max", "must be 1 to 2000"),
            (!(1..=ATTRIBUTES_MOST).contains(&self.attributes_max), "attributes_max", "must be 1 to 20000"),
        ];
        rules.into_iter().filter(|(broken, _, _)| *broken).map(|(_, field, rule)| (field, rule)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_its_bounds() {
        assert_eq!(ExtractSettings::default().problems(), []);
        let wrong = ExtractSettings {
            processes_max: 0,
            timeout: Duration::ZERO,
            memory_bytes_max: 1,
            markdown_bytes_max: 0,
            nodes_max: 0,
            depth_max: 2001,
            attributes_max: 20_001,
        };
        assert_eq!(wrong.problems().len(), 7);
    }
}
