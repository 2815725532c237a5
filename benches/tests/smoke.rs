//! Runs every part of the harness with a few requests.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

const LANES: usize = 4;
const REQUEST: &[u8] = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}";

/// Kills the floor at the end of the test.
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
    // The variable is empty in `make test` while no peers are installed. Only the tests read it.
    let listed = bench(&["--list"]).env("ATTACHE_BENCH_PEERS", "").output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    for name in [
        "events_forwarded",
        "event_connections",
        "events_held_75k",
        "machines_registered",
        "audit_proof",
        "peer_events",
        "events_postgres",
        "batch_notes",
        "batch_pages",
        "search_1k",
        "search_100k",
        "search_1m",
        "sse_1000",
        "one_connection",
        "request_memory",
    ] {
        assert!(listed.lines().any(|line| line == name), "{name} is not in {listed}");
    }
}

/// Runs a floor that measures itself.
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
    // Complete messages are counted, and of the twenty truncated streams at most their messages.
    let counted = heard["answers_total"].as_u64().unwrap();
    assert!((whole * 50..=(whole + 20) * 50).contains(&counted), "{heard}");
}

#[test]
fn every_request_of_a_plan_is_answered_and_counted() {
    const EACH: usize = 100;
    let mut floor = Floor(bench(&["floor", "bare"]).spawn().unwrap());
    let mut address = String::new();
    BufReader::new(floor.0.stdout.take().unwrap()).read_line(&mut address).unwrap();

    // The first lane is the shortest, so its end ends the run.
    let pace = json!({"seconds": 60.0, "warm_up_seconds": 0.0, "cycle": false, "rate": null, "again_after": null, "holding": "receipt"});
    let plan = plan(&pace, [EACH, 1000 * EACH, 1000 * EACH, 1000 * EACH]);
    let mut load = bench(&["load", address.trim()]).spawn().unwrap();
    load.stdin.take().unwrap().write_all(&plan).unwrap();
    let output = load.wait_with_output().unwrap();
    assert!(output.status.success());

    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    let done: Vec<u64> = outcome["lanes_done"].as_array().unwrap().iter().map(|done| done.as_u64().unwrap()).collect();
    assert_eq!(done[0], EACH as u64);
    assert!(done.iter().all(|&done| done > 0), "{done:?}");
    assert_eq!(outcome["answers_total"], done.iter().sum::<u64>());
    assert_eq!(outcome["statuses"]["202"]["count"], outcome["answers_total"]);
    assert_eq!(outcome["totals"]["202"], outcome["answers_total"]);
    assert_eq!(outcome["holding"], outcome["answers_total"]);
    assert_eq!(outcome["statuses"]["202"]["sample"], r#"{"receipt_id":"019b76da-a800-7a67-8a14-94a3f41b0634"}"#);
    assert_eq!(outcome["failures"], 0);
}

/// A plan in the format of `plan.rs`, with the same requests on every lane.
fn plan(pace: &Value, counts: [usize; LANES]) -> Vec<u8> {
    let mut plan = format!("{}\n", json!({"pace": pace, "lanes": LANES})).into_bytes();
    for count in counts {
        plan.extend(u32::try_from(count).unwrap().to_le_bytes());
        for _ in 0..count {
            plan.extend(u32::try_from(REQUEST.len()).unwrap().to_le_bytes());
            plan.extend(REQUEST);
        }
    }
    plan
}

/// A single-threaded server that pauses before its first response.
fn stalling(pause: Duration) -> std::net::SocketAddr {
    use std::io::Read;
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut streams: Vec<_> = (0..LANES).map(|_| listener.accept().unwrap().0).collect();
        for stream in &streams {
            stream.set_nonblocking(true).unwrap();
        }
        let mut paused = false;
        let mut buffer = [0; 1024];
        loop {
            for stream in &mut streams {
                // Requests are small, and each waits for the previous response.
                if let Ok(1..) = stream.read(&mut buffer) {
                    if !paused {
                        std::thread::sleep(pause);
                        paused = true;
                    }
                    stream.write_all(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n").ok();
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    address
}

#[test]
fn an_open_loop_charges_a_stall_to_every_request_that_was_due_meanwhile() {
    const EACH: usize = 50;
    /// All requests are due within a second.
    const RATE: f64 = 200.0;
    const PAUSE: Duration = Duration::from_millis(900);
    let pace = json!({
        "seconds": 60.0, "warm_up_seconds": 0.0, "cycle": false, "rate": RATE, "again_after": null, "open": true,
    });
    let mut load = bench(&["load", &stalling(PAUSE).to_string()]).spawn().unwrap();
    load.stdin.take().unwrap().write_all(&plan(&pace, [EACH; LANES])).unwrap();
    let outcome: Value = serde_json::from_slice(&load.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(outcome["failures"], 0, "{outcome}");
    // Half of the requests were due at least 400 ms before the end of the stall. Only one per connection was sent
    // before, so counting from the time of sending would yield a median of a millisecond.
    let median = outcome["statuses"]["202"]["p50_us"].as_f64().unwrap();
    assert!(median > 300_000.0, "{outcome}");
}

/// The server's program next to the harness.
fn server() -> Option<PathBuf> {
    let server = Path::new(env!("CARGO_BIN_EXE_attache-bench")).with_file_name("attache");
    if server.is_file() {
        return Some(server);
    }
    let required = std::env::var("ATTACHE_TEST_REQUIRE_ALL").is_ok_and(|value| value == "1");
    assert!(!required, "no server at {}, and ATTACHE_TEST_REQUIRE_ALL=1 asks for every component", server.display());
    eprintln!("SKIPPED: no server at {}: this test has shown nothing", server.display());
    None
}

/// Runs parts of the harness with minimal sizes; returns the report.
fn measure(server: &Path, more: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("results.md");
    let least = ["--quick", "--seconds", "0.5", "--rounds", "1", "--requests-max", "1000", "--connections", "4"];
    let output = bench(&least)
        .args(["--report", report.to_str().unwrap(), "--server", server.to_str().unwrap()])
        .args(["--data", folder.path().to_str().unwrap()])
        .args(more)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read_to_string(report).unwrap()
}

#[test]
fn events_are_measured_on_a_filled_log_until_they_settle_and_found_after_a_kill() {
    let Some(server) = server() else { return };
    let report = measure(&server, &["--log", "500", "--state", "log 500, 640 chains", "events_forwarded"]);
    assert!(report.contains("\n## events_forwarded\n"), "{report}");
    assert!(report.contains("| log 500, 640 chains, growing ids, mixed |"), "{report}");
    let found = report.lines().find(|line| line.contains("acknowledged before kill −9")).unwrap();
    assert!(found.ends_with("| all | met |"), "{report}");
}

#[test]
fn proofs_and_writes_are_measured() {
    let Some(server) = server() else { return };
    let names = ["audit_proof", "machines_registered", "device_codes", "events_held_75k"];
    let report = measure(&server, &[&["--log", "500"], &names[..]].concat());
    for name in names {
        assert!(report.contains(&format!("\n## {name}\n")), "{name}: {report}");
    }
}

#[test]
fn a_lone_sender_memory_and_starts_are_measured() {
    let Some(server) = server() else { return };
    let names = ["one_connection", "request_memory", "start"];
    let report = measure(&server, &[&["--log", "500"], &names[..]].concat());
    for name in names {
        assert!(report.contains(&format!("\n## {name}\n")), "{name}: {report}");
    }
    assert!(report.contains(" commits | p50 ≤ 2 commits | "), "{report}");
}

#[tokio::test]
async fn events_are_measured_on_postgresql_with_one_to_three_nodes() {
    let Some(server) = server() else { return };
    let Some(database) = harness::postgres::database().await else { return };
    let packages = peers();
    let peer = packages.iter().flat_map(|folder| ["--peers-folder", folder.as_str()]);
    let options: Vec<_> = ["--postgres", &database.url, "events_postgres"].into_iter().chain(peer).collect();
    let report = measure(&server, &options);
    assert!(report.contains("\n## events_postgres\n"), "{report}");
    for name in ["PostgreSQL, one COPY per group", "attache, 1 node", "attache, 2 nodes", "attache, 3 nodes"] {
        assert!(report.lines().any(|line| line.starts_with(&format!("| {name} | "))), "{name}: {report}");
    }
}

fn peers() -> Option<String> {
    std::env::var("ATTACHE_BENCH_PEERS").ok().filter(|folder| !folder.is_empty())
}

/// The packages of the peers are large and one package must be compiled, so `make test` skips this test without them.
#[test]
fn peers_are_measured_in_turn_with_the_server_and_make_the_lines_of_the_readme() {
    let Some(server) = server() else { return };
    let Some(packages) = peers() else {
        eprintln!("SKIPPED: ATTACHE_BENCH_PEERS is not set (`make peers` installs them): this test has shown nothing");
        return;
    };
    let report = measure(&server, &["--peers", "--peers-folder", &packages]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results.md");
    std::fs::write(&file, &report).unwrap();
    let readme = bench(&["readme", "--report", file.to_str().unwrap()]).output().unwrap();
    let readme = String::from_utf8(readme.stdout).unwrap();
    assert_eq!(readme.lines().count(), 2 + 5, "{readme}{report}");
}
