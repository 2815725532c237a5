//! Many streams of one batch.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use super::key_holder::KeyHolder;
use super::words::Words;
use crate::floor::{Floor, stream};
use crate::options::{Options, Result};
use crate::process::{Server, measure_with, myself, say};
use crate::product::{Product, Upstream, make_folder};
use crate::report::{Contestant, Finding, Goal, Report, Sample, Section};
use crate::{client, measurement};

const TIME_LIMIT: Duration = Duration::from_secs(20);

/// Streams of an ended batch: a thousand clients join from the start, and join again at the end.
pub fn many_streams(name: &'static str, options: &Options, report: &mut Report) -> Result<()> {
    const GOALS: &[Goal] = &[Goal::Rate(Floor::Stream, 1.0)];
    const NOTE_CHARS: usize = 40;
    let (streams, items) = if options.quick { (100, 40) } else { (1_000, 600) };
    let product = Product::start(options, Upstream::Embedded)?;
    let holder = KeyHolder::new(&product, "hears@example.com")?;
    let words = Words::new(options.seed);
    let contents: Vec<Value> = (0..items).map(|_| json!({ "content": words.text(NOTE_CHARS) })).collect();
    let messages = client::hear(product.address, &holder.post("/v1/batch-add", &json!({ "contents": contents })))?;
    let batch = messages.first().and_then(|(id, _)| id.rsplit_once(':')).ok_or("no message with an id")?.0.to_owned();

    let folder = make_folder(options)?;
    fs::write(folder.path().join(stream::FILE), serde_json::to_vec(&messages)?)?;
    let arguments = ["floor", Floor::Stream.command(), "--folder", folder.path().to_str().ok_or("no text")?];
    let floor = Server::start(&mut myself(&arguments)?, &folder.path().join("log"), TIME_LIMIT)?;

    let join = holder.get(&format!("/v1/batch-add/{batch}"));
    let measure = |server: &Server, address: &str| -> Result<Sample> {
        let (streams, seconds) = (streams.to_string(), options.seconds.to_string());
        let usage_before = server.usage()?;
        let outcome = measure_with(&["listen", address, "--streams", &streams, "--seconds", &seconds], &join)?;
        let cost = server.usage()?.since(usage_before);
        measurement::sample(&outcome, 200, cost.cpu_seconds, cost.peak_bytes)
    };
    let (mut bare, mut ours) = (Contestant::new(Floor::Stream.name()), Contestant::new("attache"));
    for round in 0..options.rounds {
        bare.samples.push(measure(&floor, &floor.ready)?);
        let sample = measure(&product.server, &product.address.to_string())?;
        say(&format!("  round {}: {:.0} messages/s", round + 1, sample.rate));
        ours.samples.push(sample);
    }
    let what =
        format!("{streams} streams at once, {} messages each; latencies are those of whole streams", messages.len());
    report.find(name, Finding::of(what, format!("{:.0} messages/s", ours.median(|sample| sample.rate))));
    report.section(&Section { name, goals: GOALS.to_vec(), floors: vec![bare], product: Some(ours) });
    Ok(())
}
