//! Few file descriptors, and more connections than that.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::foe;
use blackbox::process::Home;

/// A server that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server with this limit of descriptors; returns its first line, which names its addresses.
fn serve_within(descriptors: u32, home: &Home) -> (Server, String) {
    let plain = home.command(&["serve"]);
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("ulimit -n {descriptors} && exec \"$0\" serve")).arg(plain.get_program());
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(home.dir.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = Server(command.spawn().unwrap());
    let mut ready = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    (server, ready)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_connections_than_descriptors_silence_neither_operators_nor_databases() {
    // Fails when another client of this process did it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let home = Home::new().set("http.connections_per_address_max", "0").set("http.head_deadline", "10m");
    let (_server, ready) = serve_within(256, &home);
    let addresses = ready.trim().strip_prefix("attache is ready at http://").unwrap();
    let (public, operator) = addresses.trim_end_matches(')').split_once(" (operator: ").unwrap();
    let public: SocketAddr = public.parse().unwrap();
    let attack = tokio::spawn(foe::half_sent_heads(public));
    // Until the attack holds all connections: then honest clients get no response. Each request opens a new connection: the server would
    // still answer on a connection from before the attack.
    let honest = reqwest::Client::builder().timeout(Duration::from_millis(500)).pool_max_idle_per_host(0);
    let honest = honest.build().unwrap();
    let time_limit = tokio::time::Instant::now() + Duration::from_mins(1);
    while honest.get(format!("http://{public}/llms.txt")).send().await.is_ok() {
        assert!(tokio::time::Instant::now() < time_limit, "the attack does not take all places");
    }
    for path in ["/readyz", "/metrics", "/actors", "/readyz"] {
        let response = reqwest::get(format!("{operator}{path}")).await.unwrap();
        assert_eq!(response.status(), 200, "{path}: {}", response.text().await.unwrap());
    }
    assert!(!attack.is_finished());
    attack.abort();
}
