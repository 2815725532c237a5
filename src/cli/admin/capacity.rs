//! `attache admin capacity`: rows, bytes and database servers for a number of computers (`docs/scale.md` has the measurements).

use clap::Args;
use commands::output;
use serde_json::json;

use crate::admin::words::grouped;

/// Bytes of the log on PostgreSQL for each event without its body: rows, indexes and tiles.
const OVERHEAD_BYTES: u64 = 450;
/// Bytes of the main database for each computer: its row, consent, attachment, usage of a month.
const COMPUTER_BYTES: u64 = 3_000;
/// Microseconds of PostgreSQL's CPU for each event, in groups of 24: append, signature, lookup of the computer.
const EVENT_CPU_MICROS: u64 = 65;
/// Events a second at which the write-ahead log ends a server.
const SERVER_EVENTS_PER_SECOND: u64 = 100_000;
/// Size at which a table of PostgreSQL ends, in bytes.
const TABLE_BYTES_MAX: u64 = 32 << 40;

/// Options of `attache admin capacity`.
#[derive(Debug, Args)]
pub struct CapacityOptions {
    /// Number of computers
    #[arg(long, value_name = "NUMBER")]
    computers: u64,
    /// Events of one computer and day
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    events_per_day: u64,
    /// Size of an event in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 700)]
    event_bytes: u64,
    /// Events of the busiest second, as a multiple of the mean
    #[arg(long, value_name = "FACTOR", default_value_t = 4)]
    peak: u64,
    /// Days to compute
    #[arg(long, value_name = "DAYS", default_value_t = 365)]
    days: u64,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Needs of a load.
#[derive(Debug, PartialEq, Eq)]
struct Capacity {
    events: u64,
    events_per_second: u64,
    events_per_second_peak: u64,
    log_bytes: u64,
    main_bytes: u64,
    cores: u64,
    servers: u64,
}

impl Capacity {
    fn of(options: &CapacityOptions) -> Self {
        let a_day = options.computers.saturating_mul(options.events_per_day);
        let events = a_day.saturating_mul(options.days);
        let events_per_second_peak = a_day.div_ceil(86_400).saturating_mul(options.peak);
        let log_bytes = events.saturating_mul(options.event_bytes.saturating_add(OVERHEAD_BYTES));
        let by_writes = events_per_second_peak.div_ceil(SERVER_EVENTS_PER_SECOND);
        let by_bytes = log_bytes.div_ceil(TABLE_BYTES_MAX);
        Self {
            events,
            events_per_second: a_day.div_ceil(86_400),
            events_per_second_peak,
            log_bytes,
            main_bytes: options.computers.saturating_mul(COMPUTER_BYTES),
            cores: events_per_second_peak.saturating_mul(EVENT_CPU_MICROS).div_ceil(1_000_000),
            servers: by_writes.max(by_bytes).max(1),
        }
    }
}

/// Prints the needs of a load.
pub fn capacity(options: &CapacityOptions) {
    let Capacity { events, events_per_second, events_per_second_peak, log_bytes, main_bytes, cores, servers } =
        Capacity::of(options);
    let value = json!({
        "days": options.days,
        "events": events,
        "events_per_second": events_per_second,
        "events_per_second_peak": events_per_second_peak,
        "log_bytes": log_bytes,
        "main_database_bytes": main_bytes,
        "postgresql_cores": cores,
        "log_servers": servers,
    });
    output::show(options.json, &value, || {
        let rows = [
            ("events", format!("{} in {} days", grouped(events), options.days)),
            ("events a second", format!("{}, at most {}", grouped(events_per_second), grouped(events_per_second_peak))),
            ("log", format!("{} GB", grouped(log_bytes.div_ceil(1_000_000_000)))),
            ("main database", format!("{} GB without memories", grouped(main_bytes.div_ceil(1_000_000_000)))),
            ("PostgreSQL", format!("{} cores at the peak, in groups of 24 events", grouped(cores))),
            ("servers of the log", grouped(servers)),
        ];
        let rows = rows.map(|(name, value)| vec![name.to_owned(), value]);
        output::table(&["", "needs"], rows)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_limited_by_writes_or_by_bytes() {
        let options = |computers, events_per_day, days| CapacityOptions {
            computers,
            events_per_day,
            event_bytes: 700,
            peak: 4,
            days,
            json: false,
        };
        let large = Capacity::of(&options(10_000_000, 100, 30));
        assert_eq!((large.events_per_second, large.log_bytes / 1_000_000_000_000), (11_575, 34));
        assert_eq!((large.servers, large.cores), (1, 4));
        assert_eq!(Capacity::of(&options(10_000_000, 100, 365)).servers, 12, "by bytes");
        assert_eq!(Capacity::of(&options(10_000_000, 10_000, 1)).servers, 47, "by writes");
        let small = Capacity::of(&options(1, 1, 1));
        assert_eq!((small.servers, small.events_per_second, small.events), (1, 1, 1));
    }
}
