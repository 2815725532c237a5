//! F3r as a process.

use std::path::Path;
use std::time::Duration;

use floors::disk::{Disk, Measured};

use crate::options::Result;
use crate::outcome::{Answers, Outcome};

/// Appends from `senders` concurrent tasks, each waiting until its record is durable, and prints the outcome.
pub async fn measure(folder: &Path, senders: usize, length: Duration) -> Result<()> {
    let disk = Disk::prepare(folder)?;
    let usage_before = crate::usage::usage(std::process::id())?;
    let Measured { latencies, by_sender, took } = disk.measure(senders, length).await?;
    let usage = crate::usage::usage(std::process::id())?.since(usage_before);
    let outcome = Outcome::of(0, Answers::of(latencies, String::new()), took.as_secs_f64(), usage);
    Outcome { lanes_done: by_sender, ..outcome }.print()
}
