//! The frozen source of the floors, and their results.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::{Request, StatusCode};
use floors::disk::{Disk, RECORD_BYTES};
use sha2::{Digest, Sha256};
use tower::ServiceExt as _;

/// The files that determine the cost of a floor.
const FILES: [(&str, &str, &str); 4] = [
    ("Cargo.toml", include_str!("../Cargo.toml"), "1e986e1efbf4957f91f7f01b31c2c6cdadbdb7bbcc3e96c12785ed47d03c755d"),
    ("src/lib.rs", include_str!("../src/lib.rs"), "25da434092e9e9a272ec9a15f75e8b7f33948b68f09cee32597f0845b388d993"),
    ("src/disk.rs", include_str!("../src/disk.rs"), "10eb93c9a18019bf16eaaabe6588bbff8fe0fc7a89f5398e1e1eec104f7ea431"),
    (
        "src/postgres.rs",
        include_str!("../src/postgres.rs"),
        "19bc6bcd0f391b99f3d27e9c5a408c88262118e362764ecaff73dfaac7471983",
    ),
];

/// To change a floor: measure the old and the new version in turn in one run, record both figures and the reason in
/// `benches/results.md`, and update the digest above. Earlier figures are not comparable afterwards.
#[test]
fn the_source_of_the_floors_is_frozen() {
    for (name, text, recorded) in FILES {
        let digest = Bytes::copy_from_slice(&Sha256::digest(text));
        assert_eq!(
            format!("{digest:x}"),
            recorded,
            "{name} has changed; the comment of this test says how to change a floor"
        );
    }
}

#[test]
fn the_floors_depend_on_nothing_of_the_server() {
    let (_, manifest, _) = FILES[0];
    let dependencies = manifest.split("[dependencies]").nth(1).unwrap().split("[lints]").next().unwrap();
    let names: Vec<&str> =
        dependencies.lines().filter_map(|line| line.split_once(".workspace")).map(|(n, _)| n).collect();
    assert_eq!(names, ["axum", "serde_json", "sha2", "tokio", "tempfile", "tower"]);
}

async fn ask(router: Router, body: &'static str) -> (StatusCode, String) {
    let request = Request::post("/api/v1/events").body(Body::from(body)).unwrap();
    let answer = router.oneshot(request).await.unwrap();
    let status = answer.status();
    (status, String::from_utf8(to_bytes(answer.into_body(), 1024).await.unwrap().to_vec()).unwrap())
}

#[tokio::test]
async fn both_servers_accept_an_event_and_only_the_hash_floor_reads_it() {
    let accepted = r#"{"receipt_id":"019b76da-a800-7a67-8a14-94a3f41b0634"}"#.to_owned();
    assert_eq!(ask(floors::bare(), r#"{"a":1}"#).await, (StatusCode::ACCEPTED, accepted.clone()));
    assert_eq!(ask(floors::hash(), r#"{"a":1}"#).await, (StatusCode::ACCEPTED, accepted.clone()));
    assert_eq!(ask(floors::bare(), "{").await, (StatusCode::ACCEPTED, accepted));
    assert_eq!(ask(floors::hash(), "{").await.0, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn every_record_of_the_disk_floor_is_counted_for_its_sender() {
    const SENDERS: usize = 3;
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::prepare(folder.path()).unwrap();
    let measured = disk.measure(SENDERS, Duration::from_millis(50)).await.unwrap();
    assert_eq!(measured.by_sender.len(), SENDERS);
    assert_eq!(measured.by_sender.iter().sum::<usize>(), measured.latencies.len());
    assert!(measured.by_sender.iter().all(|&count| count > 0), "{measured:?}");

    // Only the first record of the first sender consists of zeros, like the unwritten file.
    let file = std::fs::read(folder.path().join("floor")).unwrap();
    let written = file.chunks(RECORD_BYTES).filter(|record| record.iter().any(|&byte| byte != 0)).count();
    assert_eq!(written, measured.latencies.len() - 1);
}
