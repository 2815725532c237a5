//! The floor of PostgreSQL as a process.

use std::time::Duration;

use floors::disk::Measured;
use floors::postgres::Postgres;

use crate::options::Result;
use crate::outcome::{Answers, Outcome};

/// Appends from `senders` concurrent tasks to a table of the database at `url`, `postgres://user@address/name`, and prints the outcome.
pub async fn measure(url: &str, senders: usize, length: Duration) -> Result<()> {
    let parts = || {
        let (user, rest) = url.strip_prefix("postgres://")?.split_once('@')?;
        let (address, database) = rest.split_once('/')?;
        Some((user, address, database))
    };
    let (user, address, database) = parts().ok_or_else(|| format!("not postgres://user@address/name: {url}"))?;
    let postgres = Postgres::prepare(address.parse()?, user, database)?;
    let usage_before = crate::usage::usage(std::process::id())?;
    let Measured { latencies, by_sender, took } = postgres.measure(senders, length).await?;
    let usage = crate::usage::usage(std::process::id())?.since(usage_before);
    let outcome = Outcome::of(0, Answers::of(latencies, String::new()), took.as_secs_f64(), usage);
    Outcome { lanes_done: by_sender, ..outcome }.print()
}
