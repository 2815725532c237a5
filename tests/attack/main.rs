//! Floods of the whole server with honest clients (`docs/promises.md`, 28): a sender without a credential, or a single account, cannot
//! deny the service to others.
//!
//! Each attack comes from its own address, honest clients come from other addresses. The tests measure the responses to honest clients
//! twice on the same server, without load and then under the attack: nearly all must be correct, and not much slower.
//! `ATTACHE_SOAK=1` makes the rounds long.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod descriptors;
mod foe;
mod honest;
mod shares;

use std::net::SocketAddr;
use std::time::Duration;

use crate::honest::Seen;
use blackbox::process::Home;
use blackbox::raw;
use harness::event::Machine;

/// Minimum share of honest requests with the correct response.
const ANSWERED: f64 = 0.99;

/// Maximum latency at the 99th percentile, as a multiple of that without load.
const SLOWER: u32 = 3;

/// A latency that is always accepted, since the machine also runs the attack itself and other tests.
const QUICK: Duration = Duration::from_secs(2);

/// Number of requests of each honest client in each of the two rounds.
fn requests() -> usize {
    if std::env::var("ATTACHE_SOAK").is_ok_and(|value| value == "1") { 3000 } else { 100 }
}

/// Runs an attack on a new server and judges the responses to honest clients.
async fn withstands<A: Future<Output = ()> + Send + 'static>(attack: impl FnOnce(SocketAddr, Machine) -> A) {
    withstands_with(Home::new(), attack).await;
}

/// The same with a server of this home; returns the growth of its memory in bytes.
async fn withstands_with<A: Future<Output = ()> + Send + 'static>(
    home: Home,
    attack: impl FnOnce(SocketAddr, Machine) -> A,
) -> u64 {
    // This process is all the attackers, and each of their connections takes a descriptor here too.
    attache::server::descriptors::raise();
    let server = home.serve().await;
    let to: SocketAddr = server.url.strip_prefix("http://").unwrap().parse().unwrap();
    let mut honest = honest::clients(&server.url).await;
    let machine = honest::registered(&reqwest::Client::new(), &server.url, 99).await;
    let quiet = honest::round(&mut honest, requests()).await;
    assert!(quiet.share() >= ANSWERED, "without load: {quiet:?}");
    let before = server.process.resident_bytes();
    let attack = tokio::spawn(attack(to, machine));
    // Until the attack has reached its full effect.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let attacked = honest::round(&mut honest, requests()).await;
    let growth = server.process.resident_bytes().saturating_sub(before);
    assert!(!attack.is_finished(), "the attack ended by itself");
    attack.abort();
    eprintln!("quiet {quiet:?}\nattacked {attacked:?}, memory grew by {growth} bytes");
    judge(&quiet, &attacked);
    let health = reqwest::get(format!("{}/readyz", server.operator)).await.unwrap();
    assert_eq!(health.status(), 200, "{}", health.text().await.unwrap());
    growth
}

fn judge(quiet: &Seen, attacked: &Seen) {
    assert!(attacked.share() >= ANSWERED, "{attacked:?}");
    let most = (quiet.percentile_99() * SLOWER).max(QUICK);
    assert!(attacked.percentile_99() <= most, "{attacked:?}, and without load {quiet:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn soak_bodies_that_never_arrive() {
    withstands(|to, _| foe::half_sent_bodies(to)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn soak_large_bodies_that_stop_before_their_end() {
    withstands(|to, _| foe::nearly_whole_bodies(to)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn soak_clients_that_read_nothing() {
    withstands(|to, _| foe::slow_readers(to)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn soak_heads_that_never_end() {
    withstands(|to, _| foe::half_sent_heads(to)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn soak_long_heads_that_never_end() {
    for bytes in [30_000, 100_000] {
        let home = Home::new().set("http.bodies_bytes_max", &(16 << 20).to_string());
        let growth = withstands_with(home, move |to, _| foe::long_heads(to, bytes)).await;
        // 4,000 connections with 16 KiB each, the shared 16 MiB, and twice as much for the allocator and the connections themselves.
        assert!(growth < 256 << 20, "{bytes}: {growth}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn soak_a_flood_of_requests_from_one_address() {
    withstands(|to, _| foe::flood(to, raw::get("/api/v1/audit/checkpoint"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn soak_one_computer_that_floods_events() {
    withstands(|to, machine| {
        let body = "x".repeat(2000);
        let event = format!(
            "POST /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{body}",
            machine.secret,
            body.len()
        );
        foe::flood(to, event)
    })
    .await;
}
