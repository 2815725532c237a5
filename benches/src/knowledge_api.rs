//! Adding, searching and telling: what the paths of the knowledge API cost beside their floors.
//!
//! A batch is one request with a long answer and a search is compared with a sum of floors, so these are no scenarios: each
//! trial measures as its path needs it, product and floors in turn. A new one is a function and a line here.

mod batch;
mod key_holder;
pub mod pages;
mod search;
mod stream;
mod words;

use crate::options::{Options, Result};
use crate::report::Report;

/// A trial.
#[derive(Debug, Clone, Copy)]
pub struct Trial {
    /// The name on the command line and in reports.
    pub name: &'static str,
    /// Whether it runs only when it is named, because it takes long.
    pub named_only: bool,
    /// Measures, and writes down what it found under its name.
    pub run: fn(&'static str, &Options, &mut Report) -> Result<()>,
}

/// All of them, in the order of the report.
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
    Trial { name: "sse_1000", named_only: false, run: stream::told },
];
