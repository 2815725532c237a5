//! The generator against the barest floor: a few hundred requests, so that the harness is not broken on the day it is
//! needed.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

const LANES: usize = 4;
const REQUEST: &[u8] = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}";

/// Kills the floor however the test ends.
struct Floor(Child);

impl Drop for Floor {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn bench(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache-bench"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

#[test]
fn every_name_is_listed() {
    let listed = bench(&["--list"]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    for name in ["events_forwarded", "batch_notes", "batch_pages", "search_1k", "search_100k", "search_1m", "sse_1000"]
    {
        assert!(listed.lines().any(|line| line == name), "{name} is not in {listed}");
    }
}

/// Runs a floor that measures by itself.
fn measured(arguments: &[&str], input: &[u8]) -> Result<Value, Box<dyn Error>> {
    let mut floor = bench(arguments).spawn()?;
    floor.stdin.take().ok_or("no standard input")?.write_all(input)?;
    let output = floor.wait_with_output()?;
    assert!(output.status.success());
    Ok(serde_json::from_slice(&output.stdout)?)
}

#[test]
fn the_floors_of_the_knowledge_api_count_what_they_do() {
    let items = json!([["many boats on the lake"], ["a short text", "and another"], ["the end"]]).to_string();
    let embedded = measured(&["floor", "embed", "--connections", "2"], items.as_bytes()).unwrap();
    assert_eq!(embedded["statuses"]["0"]["count"], 3);
    let queries = json!(["boats", "lakes"]).to_string();
    let asked = measured(&["floor", "query", "--seconds", "0.05"], queries.as_bytes()).unwrap();
    assert!(asked["statuses"]["0"]["p50_us"].as_f64().unwrap() > 0.0);
    let scanned = measured(&["floor", "scan", "--seconds", "0.05", "--rows", "1000"], b"").unwrap();
    assert!(scanned["statuses"]["0"]["p50_us"].as_f64().unwrap() > 0.0);
}

#[test]
fn pages_are_served_and_fetched() {
    const PAGES: usize = 20;
    let folder = tempfile::tempdir().unwrap();
    for page in 0..PAGES {
        std::fs::write(folder.path().join(page.to_string()), format!("<p>page {page}")).unwrap();
    }
    let mut server = Floor(bench(&["pages", folder.path().to_str().unwrap()]).spawn().unwrap());
    let mut address = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let addresses: Vec<String> = (0..PAGES).map(|page| format!("http://{}/{page}?r=1", address.trim())).collect();
    let fetched = measured(&["floor", "fetch", "--connections", "4"], json!(addresses).to_string().as_bytes()).unwrap();
    assert_eq!(fetched["statuses"]["200"]["count"], PAGES);
    assert_eq!(fetched["failures"], 0);
}

#[test]
fn streams_are_heard_to_their_end_and_joined_again() {
    let folder = tempfile::tempdir().unwrap();
    let messages: Vec<_> = (0..50).map(|number| [number.to_string(), format!("{{\"n\":{number}}}")]).collect();
    std::fs::write(folder.path().join("messages.json"), json!(messages).to_string()).unwrap();
    let mut floor = Floor(bench(&["floor", "stream", "--folder", folder.path().to_str().unwrap()]).spawn().unwrap());
    let mut address = String::new();
    BufReader::new(floor.0.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let listen = ["listen", address.trim(), "--streams", "20", "--seconds", "0.3"];
    let heard = measured(&listen, b"GET /v1/batch-add/a HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!(heard["failures"], 0, "{heard}");
    let whole = heard["lanes_done"].as_array().unwrap().iter().map(|done| done.as_u64().unwrap()).sum::<u64>();
    assert!(whole > 0, "{heard}");
    // Whatever is whole was counted, and of the twenty that were cut off at the end no more than there is.
    let counted = heard["answers_total"].as_u64().unwrap();
    assert!((whole * 50..=(whole + 20) * 50).contains(&counted), "{heard}");
}

#[test]
fn every_request_of_a_plan_is_answered_and_counted() {
    const EACH: usize = 100;
    let mut floor = Floor(bench(&["floor", "bare"]).spawn().unwrap());
    let mut address = String::new();
    BufReader::new(floor.0.stdout.take().unwrap()).read_line(&mut address).unwrap();

    // The form that `plan.rs` describes. The first lane is the shortest, so its end ends the run.
    let pace = json!({"seconds": 60.0, "warm_up_seconds": 0.0, "cycle": false, "rate": null, "again_after": null});
    let mut plan = format!("{}\n", json!({"pace": pace, "lanes": LANES})).into_bytes();
    for lane in 0..LANES {
        let count = if lane == 0 { EACH } else { 1000 * EACH };
        plan.extend(u32::try_from(count).unwrap().to_le_bytes());
        for _ in 0..count {
            plan.extend(u32::try_from(REQUEST.len()).unwrap().to_le_bytes());
            plan.extend(REQUEST);
        }
    }
    let mut load = bench(&["load", address.trim()]).spawn().unwrap();
    load.stdin.take().unwrap().write_all(&plan).unwrap();
    let output = load.wait_with_output().unwrap();
    assert!(output.status.success());

    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    let done: Vec<u64> = outcome["lanes_done"].as_array().unwrap().iter().map(|done| done.as_u64().unwrap()).collect();
    assert_eq!(done[0], EACH as u64);
    assert!(done.iter().all(|&done| done > 0), "{done:?}");
    assert_eq!(outcome["answers_total"], done.iter().sum::<u64>());
    assert_eq!(outcome["statuses"]["200"]["count"], outcome["answers_total"]);
    assert_eq!(outcome["statuses"]["200"]["sample"], r#"{"error":"authorization_pending","interval":5}"#);
    assert_eq!(outcome["failures"], 0);
}
