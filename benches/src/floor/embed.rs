//! F4: the sentence model without the product, on the same texts.

use std::io::stdin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use minilm::{Model, Scratch, TokenizedText};

use crate::options::Result;
use crate::outcome::{Answers, Outcome, nanoseconds};
use crate::usage::usage;

/// Tokens per computation of a thread, as in the product.
const BATCH_TOKENS_MAX: usize = 256;

/// Embeds items of several texts on `threads` threads, and prints the outcome with items as responses.
pub fn together(threads: usize) -> Result<()> {
    let items: Vec<Vec<String>> = serde_json::from_reader(stdin().lock())?;
    let texts: Vec<&String> = items.iter().flatten().collect();
    let model = Model::bundled()?;
    let next = AtomicUsize::new(0);
    let usage_before = usage(std::process::id())?;
    let begin = Instant::now();
    let work = || {
        let mut scratch = Scratch::default();
        let (mut batch, mut tokens): (Vec<TokenizedText>, usize) = (Vec::new(), 0);
        loop {
            let text = texts.get(next.fetch_add(1, Ordering::Relaxed));
            if let Some(text) = text {
                let cut = model.tokens(text);
                tokens += cut.len();
                batch.push(cut);
            }
            if text.is_none() || tokens >= BATCH_TOKENS_MAX {
                std::hint::black_box(model.embed(&batch, &mut scratch));
                (tokens, batch) = (0, Vec::new());
            }
            if text.is_none() {
                break;
            }
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread of the floor panicked"))
    })?;
    let seconds = begin.elapsed().as_secs_f64();
    let cost = usage(std::process::id())?.since(usage_before);
    Outcome::of(0, Answers::of(vec![0; items.len()], String::new()), seconds, cost).print()
}

/// Embeds one text after the other repeatedly, and prints the outcome with the latencies of single texts.
pub fn one_by_one(length: Duration) -> Result<()> {
    let texts: Vec<String> = serde_json::from_reader(stdin().lock())?;
    let model = Model::bundled()?;
    let mut scratch = Scratch::default();
    let mut latencies = Vec::new();
    let usage_before = usage(std::process::id())?;
    let begin = Instant::now();
    for text in texts.iter().cycle() {
        let start = Instant::now();
        std::hint::black_box(model.embed(&[model.tokens(text)], &mut scratch));
        latencies.push(nanoseconds(start.elapsed()));
        if begin.elapsed() > length {
            break;
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let cost = usage(std::process::id())?.since(usage_before);
    Outcome::of(0, Answers::of(latencies, String::new()), seconds, cost).print()
}
