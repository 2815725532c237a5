//! The generator against the barest floor: a few hundred requests, so that the harness is not broken on the day it is
//! needed.

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
