//! Adding, searching and streaming: the cost of the knowledge API's paths beside their floors.
//!
//! A batch is one request with a long answer and a search is compared with a sum of floors, so these are no scenarios: each
//! trial measures as its path needs it, product and floors in turn. A new one is a function and a line here.

mod batch;
pub mod pages;
mod search;
mod stream;
mod words;

use crate::product::Product;
use crate::report::Report;
use crate::{Options, Result, plan};

/// A measurement of one path of the knowledge API.
#[derive(Debug, Clone, Copy)]
pub struct Trial {
    /// Name on the command line and in reports.
    pub name: &'static str,
    /// Whether it runs only when the command line names it, because it takes long.
    pub named_only: bool,
    /// Measures the path, and adds the findings to the report under the trial's name.
    pub run: fn(&'static str, &Options, &mut Report) -> Result<()>,
}

/// All trials, in the order of the report.
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

/// An account's API key, with which the trial sends its requests.
#[derive(Debug)]
struct Holder {
    credential: String,
}

impl Holder {
    /// Creates an account with an API key.
    fn new(product: &Product, email: &str) -> Result<Self> {
        Ok(Self { credential: format!("Authorization: Bearer {}", product.api_key(email)?) })
    }

    fn post(&self, target: &str, body: &serde_json::Value) -> bytes::Bytes {
        let headers = [self.credential.as_str(), "Content-Type: application/json"];
        plan::request("POST", target, &headers, body.to_string().as_bytes())
    }

    fn get(&self, target: &str) -> bytes::Bytes {
        plan::request("GET", target, &[&self.credential], b"")
    }
}
