//! CPU time and memory of a process, from `/proc`.

use std::fs;

use crate::options::Result;

/// `/proc` counts CPU time in hundredths of a second, independent of the kernel's tick.
const TICKS_PER_SECOND: f64 = 100.0;

/// Resource usage of a process.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// User and system time, including ended children.
    pub cpu_seconds: f64,
    /// Current resident memory.
    pub resident_bytes: u64,
    /// Peak resident memory.
    pub peak_bytes: u64,
}

impl Usage {
    /// The usage since `before`; memory is not subtracted.
    pub fn since(self, before: Self) -> Self {
        Self { cpu_seconds: self.cpu_seconds - before.cpu_seconds, ..self }
    }
}

/// Reads the usage of the process with this id.
pub fn usage(process: u32) -> Result<Usage> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name, in brackets, may itself contain brackets and spaces. User and system time are the 12th and 13th fields
    // after it, the times of ended children the 14th and 15th.
    let after_name = stat.rsplit_once(')').ok_or("/proc/…/stat has no name")?.1;
    let ticks: f64 = after_name.split_whitespace().skip(11).take(4).filter_map(|field| field.parse::<f64>().ok()).sum();
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok())
            .map_or(0, |kilobytes| kilobytes * 1024)
    };
    let (resident_bytes, peak_bytes) = (bytes("VmRSS:"), bytes("VmHWM:"));
    Ok(Usage { cpu_seconds: ticks / TICKS_PER_SECOND, resident_bytes, peak_bytes })
}
