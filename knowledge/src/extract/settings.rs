//! Knobs of extraction.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// `[knowledge.extract]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExtractSettings {
    /// How many pages and PDFs are read at once, each in a process of its own.
    pub processes_max: usize,
    /// How long one of them may take.
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
    /// How much memory one of them may take, in bytes. Linux holds it to that; elsewhere only the time is limited.
    pub memory_bytes_max: u64,
    /// Longest text that is kept of one item, in bytes of Markdown; what is longer is refused.
    pub markdown_bytes_max: usize,
    /// How many nodes of a page are read; what comes after them is left out.
    pub nodes_max: usize,
    /// How deep the elements of a page may be nested; a page is read up to where it gets deeper.
    pub depth_max: usize,
    /// How many attributes an element of a page may have; a page with one that has more is refused.
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

/// Below this a process cannot even start.
const MEMORY_BYTES_MIN: u64 = 128 * 1024 * 1024;

/// Parsing an element takes time with the square of its attributes: above this, seconds.
const ATTRIBUTES_MOST: usize = 20_000;

/// Deeper trees than this could overflow the stack that extraction runs on.
const DEPTH_MOST: usize = 2000;

impl ExtractSettings {
    /// What is wrong with these values, as pairs of field and rule.
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
    fn every_knob_has_its_bounds() {
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
