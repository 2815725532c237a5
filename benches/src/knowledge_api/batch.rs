//! Batches, from the request to the last message of the stream.

use std::fs;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use domain::memory::{normalised, note_title};
use extract::{ExtractSettings, extract};
use knowledge::backfill::text_of;
use knowledge::chunk::{ChunkSettings, chunks};
use serde_json::{Value, json};

use super::key_holder::KeyHolder;
use super::pages::{self, HOSTS};
use super::words::Words;
use crate::floor::Floor;
use crate::options::{Options, Result};
use crate::outcome::{Answers, Outcome};
use crate::process::{Server, measure_with, myself, say};
use crate::product::{Product, Upstream, make_folder};
use crate::report::{Contestant, Finding, Goal, Report, Sample, Section};
use crate::{client, measurement};

/// Rounds take as long as embedding; more rounds would not add information.
const ROUNDS_MAX: u32 = 3;
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// Number of fetches of each page by the floor.
const FETCHES: usize = 10;
/// The chunks of each item of a batch.
type Chunks = Vec<Vec<String>>;

/// `batch-add` of notes with one chunk each: the work is embedding.
pub fn notes(name: &'static str, options: &Options, report: &mut Report) -> Result<()> {
    const NOTE_CHARS: usize = 800;
    const GOALS: &[Goal] = &[Goal::Rate(Floor::Embed, 0.95)];
    let count = if options.quick { 40 } else { 400 };
    let product = Product::start(options, Upstream::Embedded)?;
    let holder = KeyHolder::new(&product, "adds@example.com")?;
    warm(&product, &holder)?;
    let mut trial = BatchRounds::new(&[Floor::Embed]);
    for round in 0..options.rounds.min(ROUNDS_MAX) {
        let words = Words::new(options.seed + u64::from(round));
        let notes: Vec<String> = (0..count).map(|_| words.text(NOTE_CHARS)).collect();
        let chunks = notes
            .iter()
            .map(|note| {
                let content = normalised(note);
                chunks_of(note_title(&content).as_deref(), &content)
            })
            .collect::<Result<Chunks>>()?;
        trial.embed(0, &chunks)?;
        let contents: Vec<Value> = notes.iter().map(|note| json!({ "content": note })).collect();
        trial.add(&product, &holder, &json!({ "contents": contents }), count)?;
    }
    trial.publish(name, &format!("{count} notes of {NOTE_CHARS} characters"), GOALS, report);
    Ok(())
}

/// `batch-add` of pages of a local web server: fetching, extracting, splitting, embedding, storing.
pub fn pages(name: &'static str, options: &Options, report: &mut Report) -> Result<()> {
    const GOALS: &[Goal] = &[Goal::Rate(Floor::Fetch, 0.7), Goal::Rate(Floor::Embed, 0.7)];
    let wanted = if options.quick { 16 } else { 220 };
    let folder = make_folder(options)?;
    let site = folder.path().join("site");
    fs::create_dir(&site)?;
    let (all, origin) = pages::gather(wanted, &site, options.seed)?;
    let site = site.to_str().ok_or("the folder's name is no text")?;
    let server = Server::start(&mut myself(&["pages", site])?, &folder.path().join("pages.log"), TIME_LIMIT)?;
    let address: SocketAddr = server.ready.parse()?;
    let port = address.port();
    let more = format!(
        "\n[knowledge.fetch]\nallow_private = [\"127.0.0.0/8\"]\nports = [{port}]\nrobots = \"ignore\"\nhost_interval = \"0s\"\n"
    );
    let product = Product::start_with(options, Upstream::Embedded, &more)?;
    let holder = KeyHolder::new(&product, "adds@example.com")?;
    warm(&product, &holder)?;
    let address_of = |number: usize, round: u32| {
        let host = number % usize::from(HOSTS) + 1;
        format!("http://127.0.0.{host}:{port}/{number}?round={round}")
    };
    // Pages without text are errors for the product and no work for the floor.
    let mut chunks = Vec::new();
    let mut numbers = Vec::new();
    for (number, page) in all.iter().enumerate() {
        let read = extract("text/html", None, page, Some(&address_of(number, 0)), &ExtractSettings::default());
        let Ok(extracted) = read else { continue };
        chunks.push(chunks_of(extracted.title.as_deref(), &extracted.markdown)?);
        numbers.push(number);
    }
    let mut trial = BatchRounds::new(&[Floor::Fetch, Floor::Embed]);
    for round in 0..options.rounds.min(ROUNDS_MAX) {
        let urls: Vec<String> = numbers.iter().map(|number| address_of(*number, round)).collect();
        trial.fetch(0, &urls)?;
        trial.embed(1, &chunks)?;
        trial.add(&product, &holder, &json!({ "urls": urls }), urls.len())?;
    }
    let bytes: usize = numbers.iter().map(|number| all[*number].len()).sum();
    let what = format!("{} pages ({origin}), {} KB on average", numbers.len(), bytes / numbers.len().max(1) / 1000);
    trial.publish(name, &what, GOALS, report);
    Ok(())
}

/// Loads the model with a first batch.
fn warm(product: &Product, holder: &KeyHolder) -> Result<()> {
    let contents: Vec<Value> =
        (0..8).map(|number| json!({ "content": format!("a note to warm up, number {number}") })).collect();
    client::hear(product.address, &holder.post("/v1/batch-add", &json!({ "contents": contents }))).map(drop)
}

/// The chunks that the product embeds for a text.
fn chunks_of(title: Option<&str>, content: &str) -> Result<Vec<String>> {
    let chunks = chunks(content, &ChunkSettings::default())?;
    Ok(chunks.iter().map(|chunk| text_of(title.unwrap_or_default(), chunk)).collect())
}

/// State of the rounds of a batch.
struct BatchRounds {
    floors: Vec<Contestant>,
    ours: Contestant,
    chunks: usize,
    items: usize,
}

impl BatchRounds {
    fn new(floors: &[Floor]) -> Self {
        let floors = floors.iter().map(|floor| Contestant::new(floor.name())).collect();
        Self { floors, ours: Contestant::new("attache"), chunks: 0, items: 0 }
    }

    /// F4 with as many threads as the product uses.
    fn embed(&mut self, place: usize, chunks: &Chunks) -> Result<()> {
        (self.items, self.chunks) = (chunks.len(), chunks.iter().map(Vec::len).sum());
        let threads = thread::available_parallelism()?.to_string();
        let arguments = ["floor", Floor::Embed.command(), "--connections", &threads];
        let outcome = measure_with(&arguments, &serde_json::to_vec(chunks)?)?;
        self.keep(place, &outcome, Floor::Embed.status())
    }

    /// The client of the fetcher, with as many concurrent fetches as a batch has items in progress.
    fn fetch(&mut self, place: usize, urls: &[String]) -> Result<()> {
        let at_once = HOSTS.to_string();
        let arguments = ["floor", Floor::Fetch.command(), "--connections", &at_once];
        // Fetching each page once is too short to measure its cost.
        let again: Vec<&String> = (0..FETCHES).flat_map(|_| urls).collect();
        let outcome = measure_with(&arguments, &serde_json::to_vec(&again)?)?;
        self.keep(place, &outcome, Floor::Fetch.status())
    }

    fn keep(&mut self, place: usize, outcome: &Outcome, status: u16) -> Result<()> {
        let sample = measurement::sample(outcome, status, outcome.own_cpu_seconds, outcome.own_peak_bytes)?;
        self.floors[place].samples.push(Sample { p50_us: f64::NAN, p99_us: f64::NAN, generator: f64::NAN, ..sample });
        Ok(())
    }

    /// The product: every item must be stored.
    fn add(&mut self, product: &Product, holder: &KeyHolder, body: &Value, count: usize) -> Result<()> {
        let request = holder.post("/v1/batch-add", body);
        let usage_before = product.server.usage()?;
        let begin = Instant::now();
        let messages = client::hear(product.address, &request)?;
        let seconds = begin.elapsed().as_secs_f64();
        let cost = product.server.usage()?.since(usage_before);
        let of = |kind: &str| {
            let mark = format!(r#""type":"{kind}""#);
            messages.iter().filter(move |(_, data)| data.contains(&mark))
        };
        let kept = of("success").count();
        if kept < count {
            let error = of("error").next().map_or_else(|| "no message".to_owned(), |(_, data)| data.clone());
            say(&format!("  SURPRISES: {kept} of {count} were kept; {error}"));
        }
        let outcome = Outcome::of(200, Answers::of(vec![0; kept], String::new()), seconds, cost);
        let sample = measurement::sample(&outcome, 200, cost.cpu_seconds, cost.peak_bytes)?;
        say(&format!("  {:.1} items/s", sample.rate));
        self.ours.samples.push(Sample { p50_us: f64::NAN, p99_us: f64::NAN, generator: f64::NAN, ..sample });
        Ok(())
    }

    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn publish(self, name: &'static str, what: &str, goals: &[Goal], report: &mut Report) {
        let each = self.chunks as f64 / self.items.max(1) as f64;
        let rate = self.ours.median(|sample| sample.rate);
        let text = format!("{rate:.1} items/s, {:.1} chunks/s", rate * each);
        report.find(name, Finding::of(format!("{what}, {} chunks", self.chunks), text));
        report.section(&Section { name, goals: goals.to_vec(), floors: self.floors, product: Some(self.ours) });
    }
}
