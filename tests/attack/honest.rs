//! Honest clients: computers that record events and read the guide.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use blackbox::TIME_LIMIT;
use harness::event::{Chain, Machine};

/// Honest clients, each with its own source address.
const CLIENTS: u8 = 4;

/// Between two requests of a client.
const PAUSE: Duration = Duration::from_millis(10);

/// One honest client.
pub struct Honest {
    client: reqwest::Client,
    url: String,
    machine: Machine,
    chain: Chain,
}

/// Results of one round.
pub struct Seen {
    wrong: Vec<String>,
    /// Latencies of the responses, shortest first.
    took: Vec<Duration>,
}

impl Seen {
    /// The share of requests that were answered as they should be.
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
    pub fn share(&self) -> f64 {
        1.0 - self.wrong.len() as f64 / self.took.len() as f64
    }

    pub fn percentile_99(&self) -> Duration {
        self.took[self.took.len() * 99 / 100]
    }
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let wrong = self.wrong.iter().take(3).collect::<Vec<_>>();
        write!(
            f,
            "{} of {} wrong, such as {wrong:?}; half within {:?}, 99 of 100 within {:?}",
            self.wrong.len(),
            self.took.len(),
            self.took[self.took.len() / 2],
            self.percentile_99(),
        )
    }
}

/// The honest clients of a server.
pub async fn clients(url: &str) -> Vec<Honest> {
    // Fails when another client of this process did it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut honest = Vec::new();
    for nth in 0..CLIENTS {
        let client =
            reqwest::Client::builder().no_proxy().timeout(TIME_LIMIT).local_address(IpAddr::from([127, 0, 1, nth + 1]));
        let client = client.build().unwrap();
        let machine = registered(&client, url, nth).await;
        honest.push(Honest { client, url: url.to_owned(), chain: Chain::new(&machine), machine });
    }
    honest
}

/// Registers a computer for the client.
pub async fn registered(client: &reqwest::Client, url: &str, nth: u8) -> Machine {
    let user_cuid = format!("attacheattacheattachea{nth:02}");
    let uuid = format!("019b76da-a800-7a67-8a14-94a3f41b06{nth:02}");
    let body = json!({ "user_cuid": user_cuid, "machine_uuid": uuid });
    let made = client.post(format!("{url}/api/v1/machines")).json(&body).send().await.unwrap();
    let made: serde_json::Value = made.error_for_status().unwrap().json().await.unwrap();
    Machine { user_cuid, uuid, secret: made["machine_secret"].as_str().unwrap().to_owned() }
}

/// Sends this number of requests with each client.
pub async fn round(honest: &mut Vec<Honest>, requests: usize) -> Seen {
    let mut asking = JoinSet::new();
    for mut one in honest.drain(..) {
        asking.spawn(async move {
            let mut seen = Vec::new();
            for nth in 0..requests {
                tokio::time::sleep(PAUSE).await;
                let begun = Instant::now();
                let wrong = one.send(nth).await;
                seen.push((wrong, begun.elapsed()));
            }
            (one, seen)
        });
    }
    let (mut wrong, mut took) = (Vec::new(), Vec::new());
    for (one, seen) in asking.join_all().await {
        honest.push(one);
        for (fault, time) in seen {
            wrong.extend(fault);
            took.push(time);
        }
    }
    took.sort_unstable();
    Seen { wrong, took }
}

impl Honest {
    /// Sends one request; returns the fault of its response.
    async fn send(&mut self, nth: usize) -> Option<String> {
        let Self { client, url, machine, chain } = self;
        let (request, status) = if nth.is_multiple_of(2) {
            let request = client.post(format!("{url}/api/v1/events")).bearer_auth(&machine.secret);
            (request.json(&chain.next()), 202)
        } else {
            (client.get(format!("{url}/llms.txt")), 200)
        };
        let response = match request.send().await {
            Ok(response) if response.status() == status => {
                return response.bytes().await.err().map(|error| error.to_string());
            }
            Ok(response) => response,
            Err(error) => return Some(error.to_string()),
        };
        let status = response.status();
        Some(format!("{status}: {}", response.text().await.unwrap_or_default()))
    }
}
