//! Trials of the knowledge API: batches, searches and streams, compared with their floors.
//!
//! A batch is one request with a long response, and a search is compared with a sum of floors, so these are not
//! scenarios: each trial measures product and floors in turn in its own way. To add one, write a function and add a
//! line here.

mod batch;
mod key_holder;
pub mod pages;
mod search;
mod stream;
mod words;

use crate::options::{Options, Result};
use crate::report::Report;

/// A trial of the knowledge API.
#[derive(Debug, Clone, Copy)]
pub struct Trial {
    /// Name on the command line and in reports.
    pub name: &'static str,
    /// Whether the trial runs only if it is named, because it takes long.
    pub named_only: bool,
    /// Runs the trial, and reports the results under its name.
    pub run: fn(&'static str, &Options, &mut Report) -> Result<()>,
}

/// All trials in the order of the report.
pub const ALL: [Trial; 6] = [
    Trial { name: "batch_notes", named_only: false, run: batch::notes },
    Trial { name: "batch_pages", named_only: false, run: batch::pages },
    Trial {
        name: "search_1k",
        named_only: false,
        run: |name, options, report| search::among(1_000, name, options, report),
    },
    Trial {
        name: "search_100k",
        named_only: false,
        run: |name, options, report| search::among(if options.quick { 10_000 } else { 100_000 }, name, options, report),
    },
    Trial {
        name: "search_1m",
        named_only: true,
        run: |name, options, report| {
            search::among(if options.quick { 20_000 } else { 1_000_000 }, name, options, report)
        },
    },
    Trial { name: "sse_1000", named_only: false, run: stream::many_streams },
];
