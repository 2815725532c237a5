//! `attache otlp`: spans of the SDK of OpenTelemetry, consent, a server that is away, and requests that no SDK sends.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::event_send::{computer, log};
use crate::hook::{folder, sent, status, whole_chains};
use crate::hook_consent::{on_disk, watched};
use blackbox::client::{Client, Credential};
use blackbox::process::{Home, Process};
use blackbox::{eventually, flow, raw};
use harness::python::{self, Packages};

/// Events of the spans of `otlp/export.py`, and of their lane `llm`.
const EVENTS: u64 = 11;
const LLM_EVENTS: usize = 5;

struct Receiver {
    process: Process,
    url: String,
}

impl Receiver {
    async fn start(home: &Home, options: &[&str]) -> Self {
        Self::start_at(home, "127.0.0.1:0", options).await
    }

    async fn start_at(home: &Home, address: &str, options: &[&str]) -> Self {
        let mut process = home.start(&[&["otlp", "--listen", address], options].concat());
        let line = process.ready_line().await;
        let url = line.strip_prefix("attache otlp receives spans at ").and_then(|rest| rest.split(' ').next()).unwrap();
        Self { url: url.to_owned(), process }
    }

    fn address(&self) -> SocketAddr {
        self.url.strip_prefix("http://").unwrap().parse().unwrap()
    }

    /// Sends a request with this body; returns status, `Retry-After` and body.
    async fn post(&self, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> (u16, Option<String>, String) {
        let request = Client::new().request(Method::POST, &format!("{}{path}", self.url), &Credential::None);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let response = request.body(body).send().await.unwrap();
        let after = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
        (response.status().as_u16(), after, String::from_utf8_lossy(&response.bytes().await.unwrap()).into_owned())
    }

    async fn json(&self, body: &Value) -> (u16, Option<String>, String) {
        self.post("/v1/traces", &[("content-type", "application/json")], body.to_string().into_bytes()).await
    }

    /// Ends it by a signal; returns its last line.
    async fn stop(mut self, signal: &str) -> String {
        self.process.signal(signal);
        let status = self.process.exit().await;
        assert!(status.success(), "{status} {}", self.process.stderr.text());
        self.process.stdout.text().lines().last().unwrap().to_owned()
    }
}

/// Exports the spans of `otlp/export.py`; `None` if its packages are missing.
fn export(receiver: &Receiver, setup: &Value) -> Option<()> {
    let mut whole = json!({
        "endpoint": format!("{}/v1/traces", receiver.url), "encoding": "protobuf", "gzip": false, "service": "codex", "times": 1,
    });
    whole.as_object_mut().unwrap().extend(setup.as_object().unwrap().clone());
    let mut program = Command::new(python::with(Packages::Otlp)?);
    let done = program.args(["-c", include_str!("otlp/export.py"), &whole.to_string()]).output().unwrap();
    let results: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"));
    assert!(results.as_array().unwrap().iter().all(|result| result == "SUCCESS"), "{done:?}");
    Some(())
}

/// An export with one call of a model.
fn call(id: u64) -> Value {
    json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [{
        "traceId": "5b8efff798038103d269b633813fc60c", "spanId": format!("{id:016x}"), "endTimeUnixNano": "1767225600000000000",
        "attributes": [{ "key": "gen_ai.request.model", "value": { "stringValue": "gpt-5" } }],
    }] }] }] })
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut writer = GzEncoder::new(Vec::new(), Compression::best());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_of_the_sdk_arrive_once_in_every_encoding() {
    let home = Home::new();
    let (server, machine) = computer(&home).await;
    let receiver = Receiver::start(&home, &["--agent", "cursor"]).await;
    for (encoding, gzip) in [("protobuf", false), ("protobuf", true), ("json", false), ("json", true)] {
        let setup = json!({ "encoding": encoding, "gzip": gzip, "times": 2 });
        let Some(()) = export(&receiver, &setup) else { return };
    }
    sent(&home).await;
    // The spans have the same ids in each of the eight exports.
    assert_eq!(whole_chains(&server, &machine).await, BTreeMap::from([("codex".to_owned(), EVENTS)]));
    let mut types = BTreeMap::<String, usize>::new();
    for event in log(&server, &machine).await {
        *types.entry(flow::text(&event, "event_type")).or_default() += 1;
    }
    let expected =
        [("llm.completed", 4), ("llm.failed", 1), ("memory.recalled", 1), ("memory.stored", 1), ("skill.invoked", 4)];
    assert_eq!(types, expected.map(|(name, count)| (name.to_owned(), count)).into());
    let settled = status(&home, "codex").unwrap();
    assert_eq!((&settled["held"], &settled["failed"], &settled["error"]), (&json!(0), &json!(0), &Value::Null));
    let said = receiver.stop("TERM").await;
    assert!(
        said.contains("received 104 spans in 8 exports: 88 spooled, 0 withheld") && said.contains("16 ignored"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_wait_for_a_server_that_is_away() {
    let (home, _) = flow::at_fixed_address();
    let (mut server, machine) = computer(&home).await;
    server.process.kill();
    let receiver = Receiver::start(&home, &["--agent", "gemini-cli"]).await;
    let Some(()) = export(&receiver, &json!({ "service": "shop", "times": 2 })) else { return };
    let waiting = eventually("the failure is reported", async || {
        status(&home, "gemini-cli").filter(|status| status["error"].is_string())
    });
    let waiting = waiting.await;
    assert_eq!((&waiting["spooled"], &waiting["sent"]), (&json!(2 * EVENTS), &json!(0)));
    // The sender sends what the receiver spooled after its end too.
    receiver.stop("INT").await;
    let server = home.serve().await;
    sent(&home).await;
    assert_eq!(whole_chains(&server, &machine).await, BTreeMap::from([("gemini-cli".to_owned(), EVENTS)]));
}

/// Waits until the sender has written a level of the server for hooks and receivers.
async fn level_is_known(home: &Home, level: &str) {
    eventually("the level is known", async || {
        let value: Value = serde_json::from_slice(&fs::read(folder(home).join("consent.json")).ok()?).ok()?;
        (value["lanes"]["llm"]["level"] == level && value["lanes"]["skill"]["level"] == level).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_off_no_span_is_sent_or_spooled() {
    let home = Home::new();
    let (server, machine, wire) = watched(&home).await;
    home.run(&["consent", "set", "off"]).said();
    let receiver = Receiver::start(&home, &[]).await;
    level_is_known(&home, "off").await;
    let Some(()) = export(&receiver, &json!({})) else { return };
    assert!(!folder(&home).join("codex.spool").exists() && !folder(&home).join("codex.sending").exists());
    assert!(!on_disk(&home).contains("canary") && !on_disk(&home).contains("otlp:"));
    let said = receiver.stop("TERM").await;
    assert!(said.contains(&format!("{EVENTS} withheld")), "{said}");
    wire.contains_none(&["canary", "/api/v1/events", "otlp:", "get_weather"]);
    assert!(log(&server, &machine).await.iter().all(|event| event["agent_id"] != "codex"));
}

#[tokio::test(flavor = "multi_thread")]
async fn with_metadata_only_no_content_of_a_span_is_sent_or_spooled() {
    let home = Home::new();
    let (server, machine, wire) = watched(&home).await;
    let receiver = Receiver::start(&home, &[]).await;
    let Some(()) = export(&receiver, &json!({})) else { return };
    assert!(!on_disk(&home).contains("canary"));
    sent(&home).await;
    wire.contains_none(&["canary", "conv-1", "/srv/models"]);
    for metadata in ["otlp:execute_tool", "get_weather", "gpt-5-2026-08-07", "rate_limit_exceeded"] {
        assert!(wire.text().contains(metadata), "{metadata}");
    }
    assert_eq!(log(&server, &machine).await.len() as u64, EVENTS);
    receiver.stop("TERM").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_full_content_of_spans_is_sent_without_its_secrets() {
    let home = Home::new();
    let (server, machine, wire) = watched(&home).await;
    home.run(&["consent", "set", "full"]).said();
    let receiver = Receiver::start(&home, &[]).await;
    level_is_known(&home, "full").await;
    // Of one lane the level is lowered after it was read, and before the events are sent.
    let lock = fs::File::options().append(true).create(true).open(folder(&home).join("sender.lock")).unwrap();
    let sender = fs::read_to_string(folder(&home).join("sender.lock")).unwrap();
    Command::new("kill").args(["-9", &sender]).status().unwrap();
    lock.lock().unwrap();
    let secret = format!("ghp_{}", "x1Y2".repeat(9));
    let Some(()) = export(&receiver, &json!({ "text": format!("canary {secret}") })) else { return };
    assert!(on_disk(&home).contains("canary"));
    home.run(&["consent", "set", "metadata-only", "--lane", "llm"]).said();
    drop(lock);
    let Some(()) = export(&receiver, &json!({})) else { return };
    sent(&home).await;
    wire.contains_none(&[&secret, "question", "answer", "instructions", "url.full"]);
    for content in ["canary [redacted:github-token] town", "canary [redacted:github-token] to remember"] {
        assert!(wire.text().contains(content), "{content}");
    }
    let events = log(&server, &machine).await;
    assert_eq!(events.len() as u64, EVENTS);
    assert_eq!(events.iter().filter(|event| event["lane"] == "llm").count(), LLM_EVENTS);
    receiver.stop("TERM").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_no_sdk_sends_are_refused_with_the_reason() {
    let home = Home::new();
    flow::keep_profile(&home, "http://127.0.0.1:9", None, None);
    let receiver = Receiver::start(&home, &[]).await;
    let mut stalled = begun(&receiver).await;
    let (json_type, protobuf) = (("content-type", "application/json"), ("content-type", "application/x-protobuf"));
    let gzipped = ("content-encoding", "gzip");
    let large = vec![b' '; (8 << 20) + 1];
    let cases = [
        (413, "larger than 8 MiB", vec![json_type], large.clone()),
        (413, "larger than 8 MiB", vec![json_type, gzipped], gzip(&large)),
        (415, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", vec![], b"{}".to_vec()),
        (415, "text/plain", vec![("content-type", "text/plain")], b"{}".to_vec()),
        (415, "OTEL_EXPORTER_OTLP_COMPRESSION", vec![json_type, ("content-encoding", "br")], b"{}".to_vec()),
        (400, "ExportTraceServiceRequest in JSON", vec![json_type], b"{".to_vec()),
        (400, "ExportTraceServiceRequest in JSON", vec![json_type], br#"{"resourceSpans":7}"#.to_vec()),
        (400, "ExportTraceServiceRequest in Protocol Buffers", vec![protobuf], b"\x0a\xff".to_vec()),
        (400, "is no gzip", vec![json_type, gzipped], b"{}".to_vec()),
        (400, "is no gzip", vec![protobuf, gzipped], gzip(b"\x0a\x00")[..12].to_vec()),
        (403, "pages of browsers", vec![json_type, ("origin", "https://example.com")], b"{}".to_vec()),
    ];
    for (status, reason, headers, body) in cases {
        let (found, after, said) = receiver.post("/v1/traces", &headers, body).await;
        assert_eq!((found, after), (status, None), "{said}");
        assert!(said.contains(reason), "{said}");
    }
    for path in ["/v1/logs", "/v1/metrics", "/"] {
        let (found, _, said) = receiver.post(path, &[protobuf], Vec::new()).await;
        assert!(found == 404 && said.contains("traces only"), "{found} {said}");
    }
    let (found, _) = raw::send([127, 0, 0, 1], receiver.address(), &raw::get("/v1/traces")).await;
    assert_eq!(found, 405);
    // An export without spans is accepted.
    assert_eq!(receiver.json(&json!({})).await, (200, None, "{}".to_owned()));
    assert_eq!(receiver.post("/v1/traces", &[protobuf], Vec::new()).await, (200, None, String::new()));
    let (found, _, said) = receiver.json(&call(1)).await;
    assert!(found == 200 && said.contains(r#""rejectedSpans":"1""#) && said.contains("--agent"), "{said}");
    assert!(!folder(&home).join("codex.spool").exists());
    let (status, said) = raw::response(&mut stalled).await;
    assert!(status == 408 && said.contains("did not arrive"), "{status} {said}");
    let said = receiver.stop("INT").await;
    assert!(said.contains("received 1 spans in 3 exports: 0 spooled") && said.ends_with("1 rejected"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_spool_and_a_folder_that_cannot_be_written_are_reported_to_the_program() {
    let home = Home::new();
    let (server, machine) = computer(&home).await;
    let receiver = Receiver::start(&home, &["--agent", "opencode"]).await;
    fs::remove_dir_all(folder(&home)).unwrap();
    // A file in place of the folder: the tests may run as a user who may write everywhere.
    fs::write(folder(&home), "").unwrap();
    let (found, after, said) = receiver.json(&call(1)).await;
    assert_eq!((found, after.as_deref()), (503, Some("5")), "{said}");
    fs::remove_file(folder(&home)).unwrap();

    fs::create_dir(folder(&home)).unwrap();
    let lock = fs::File::create(folder(&home).join("sender.lock")).unwrap();
    lock.lock().unwrap();
    fs::File::create(folder(&home).join("opencode.spool")).unwrap().set_len(64 << 20).unwrap();
    let (found, _, said) = receiver.json(&call(1)).await;
    assert!(found == 200 && said.contains("the spool of the agent is full"), "{found} {said}");
    fs::write(folder(&home).join("opencode.spool"), "").unwrap();
    drop(lock);
    assert_eq!(receiver.json(&call(2)).await, (200, None, "{}".to_owned()));
    sent(&home).await;
    assert_eq!(status(&home, "opencode").unwrap()["refused"], 1);
    assert_eq!(log(&server, &machine).await.len(), 1);
    receiver.stop("TERM").await;
}

/// Sends an export with one byte of a body of two bytes, once the receiver has asked for the body: it has a place then.
async fn begun(receiver: &Receiver) -> TcpStream {
    let mut stream = raw::connect([127, 0, 0, 1], receiver.address()).await;
    let head = "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n";
    stream.write_all(format!("{head}Expect: 100-continue\r\n\r\n").as_bytes()).await.unwrap();
    let mut asked = [0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
    stream.read_exact(&mut asked).await.unwrap();
    assert!(asked.starts_with(b"HTTP/1.1 100"), "{}", String::from_utf8_lossy(&asked));
    stream.write_all(b"{").await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_beside_too_many_others_is_asked_to_come_later() {
    let home = Home::new();
    flow::keep_profile(&home, "http://127.0.0.1:9", None, None);
    let receiver = Receiver::start(&home, &["--agent", "codex"]).await;
    let mut waiting = Vec::new();
    for _ in 0..16 {
        waiting.push(begun(&receiver).await);
    }
    let (found, after, said) = receiver.json(&json!({})).await;
    assert!(found == 429 && after.as_deref() == Some("5") && said.contains("has to wait"), "{found} {after:?} {said}");
    for stream in &mut waiting {
        stream.write_all(b"}").await.unwrap();
        assert_eq!(raw::response(stream).await.0, 200);
    }
    assert_eq!(receiver.json(&json!({})).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_is_local_and_needs_a_profile() {
    let home = Home::new();
    home.run(&["otlp"]).refused(4, &["no profile \"default\"", "attache login"]);
    flow::keep_profile(&home, "http://127.0.0.1:9", None, None);
    home.run(&["otlp", "--listen", "0.0.0.0:0"]).refused(2, &["can be reached from other computers", "--allow-remote"]);
    home.run(&["otlp", "--agent", "shop"]).refused(2, &["claude-code, codex"]);
    let receiver = Receiver::start(&home, &[]).await;
    let taken = receiver.url.strip_prefix("http://").unwrap();
    home.run(&["otlp", "--listen", taken]).refused(1, &["cannot listen on", "--listen"]);
    let remote = Receiver::start_at(&home, "0.0.0.0:0", &["--allow-remote", "--agent", "codex"]).await;
    let port = remote.address().port();
    // The address of an interface that is not the loopback, if there is one: connecting a datagram socket sends nothing.
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let outside = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr());
    let address = outside.map_or(Ipv4Addr::LOCALHOST, |address| match address.ip() {
        IpAddr::V4(address) => address,
        IpAddr::V6(_) => Ipv4Addr::LOCALHOST,
    });
    let reached = Receiver { url: format!("http://{address}:{port}"), process: remote.process };
    assert_eq!(reached.json(&json!({})).await, (200, None, "{}".to_owned()));
    reached.stop("INT").await;
    receiver.stop("TERM").await;
}
