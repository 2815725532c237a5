//! A server under traffic, and its required behaviour during a fault and afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use domain::{Clock, Rng};
use reqwest::Method;
use reqwest::header::ORIGIN;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use blackbox::client::{Client, Credential, Response};
use blackbox::eventually;
use blackbox::ledger::{Witness, compare_activity, compare_held, compare_proofs};
use blackbox::library::notes;
use blackbox::oracle::Oracle;
use blackbox::process::{Home, Server};
use blackbox::sender::{Traffic, send};
use blackbox::stream::Stream;
use harness::event::{Chain, Machine};

/// Chains that grow all the time.
const AGENTS: [&str; 4] = ["svc-cli", "claude-code", "codex", "cursor"];

/// The promise is 5 seconds; a machine that is busy with other tests gets more.
const HEALED_WITHIN: Duration = Duration::from_secs(15);

/// The kinds of requests that must work.
pub const KINDS: [&str; 4] = ["event", "registration", "sign-in", "batch"];

/// Number of rounds of a fault.
pub fn rounds() -> usize {
    if is_soak() { 20 } else { 2 }
}

/// Whether the rounds are to be long.
pub fn is_soak() -> bool {
    std::env::var("ATTACHE_SOAK").is_ok_and(|value| value == "1")
}

/// The server, and all requests that it acknowledged.
pub struct Patient {
    pub home: Home,
    pub server: Server,
    traffic: Arc<Traffic>,
    senders: JoinSet<()>,
    witness: Witness,
    rng: Rng,
    key: String,
    /// A chain of the test's own, and its event that is not acknowledged yet.
    own: Chain,
    pending: Option<Value>,
    registered: Vec<Machine>,
    addresses: BTreeSet<String>,
    asked: usize,
    kept: Vec<String>,
}

/// A home with limits so high that only the fault causes refusals.
pub fn home() -> Home {
    Home::new()
        .set("signin.codes_per_hour", "1000000")
        .set("signin.codes_per_hour_total", "1000000")
        .set("limits.sign_ins_per_minute", "0")
        .set("knowledge.batch.lease", "1s")
        .set("knowledge.base_url", "http://attache.test")
        .set("database.busy_timeout", "200ms")
        .set("database.acquire_timeout", "1s")
        .set("admin.probe_every", "100ms")
}

impl Patient {
    /// Starts the server and the traffic.
    pub async fn begin(home: Home) -> Self {
        home.run(&["migrate"]).said();
        home.run(&["admin", "account", "create", "--email", "ada@example.com"]).said();
        let key = ["admin", "api-key", "create", "--email", "ada@example.com", "--name", "all"];
        let key = home.run(&key).said().to_owned();
        let (server, client, rng) = (home.serve().await, Client::new(), Rng::system());
        let uuid = || rng.uuid_v7(Clock::system().now()).to_string();
        let machine = client.machine(&server.url, &rng.cuid2(), &uuid()).await;
        let own = Chain::new(&client.machine(&server.url, &rng.cuid2(), &uuid()).await);
        let witness = Witness::pin(&client, &server.url).await;
        let machines = vec![machine.clone(), own.machine.clone()];
        let (url, stop) = (watch::Sender::new(server.url.clone()), watch::Sender::new(false));
        let traffic = Arc::new(Traffic { oracle: Oracle::new(), client, machines, url, stop, upstream: None });
        let mut senders = JoinSet::new();
        for agent in AGENTS {
            let chains = vec![(0, Chain::of_agent(&machine, agent))];
            senders.spawn(send(Arc::clone(&traffic), chains, Rng::seeded(rng.below(u64::MAX))));
        }
        let mut patient = Self {
            home,
            server,
            traffic,
            senders,
            witness,
            rng,
            key,
            own,
            pending: None,
            registered: Vec::new(),
            addresses: BTreeSet::new(),
            asked: 0,
            kept: Vec::new(),
        };
        patient.recovers().await;
        patient
    }

    /// The readiness report of the operator's listener.
    pub async fn readiness(&self) -> (u16, Value) {
        let answer = self.traffic.client.get(&format!("{}/readyz", self.server.operator), Credential::None).await;
        (answer.status, answer.json())
    }

    /// Waits until each of `kinds` is refused. After the first refusal `/readyz` must become 503, stay there, and name `part`.
    pub async fn suffers(&mut self, kinds: &[&str], part: &str) {
        let time_limit = Instant::now() + blackbox::TIME_LIMIT;
        let mut missing: BTreeSet<&str> = kinds.iter().copied().collect();
        let mut unready = false;
        while !missing.is_empty() || !unready {
            for kind in kinds {
                if !self.works(kind).await {
                    missing.remove(kind);
                }
            }
            let (status, body) = self.readiness().await;
            if status == 503 {
                assert_eq!(body["status"], "unready", "{body}");
                let failing = body["failing"].as_array().unwrap();
                unready |= failing.iter().any(|failing| failing["part"] == part);
            }
            assert!(Instant::now() < time_limit, "not refused: {missing:?}; readiness: {body}");
        }
        for _ in 0..5 {
            let (status, body) = self.readiness().await;
            assert_eq!((status, &body["status"]), (503, &json!("unready")), "{body}");
        }
        self.is_alive();
    }

    /// Waits until every kind of request works and the server is ready, in the same process.
    pub async fn recovers(&mut self) {
        let begun = Instant::now();
        let mut missing: BTreeMap<&str, String> = KINDS.iter().map(|kind| (*kind, String::new())).collect();
        loop {
            for kind in KINDS {
                if missing.contains_key(kind) && self.works(kind).await {
                    missing.remove(kind);
                }
            }
            let (status, body) = self.readiness().await;
            if missing.is_empty() && status == 200 {
                eprintln!("everything works {:?} after the cause is gone", begun.elapsed());
                break;
            }
            let waited = begun.elapsed();
            let kinds: Vec<_> = missing.keys().collect();
            assert!(waited < HEALED_WITHIN, "after {waited:?} these are still refused: {kinds:?}; readiness: {body}");
        }
        let receipts = |traffic: &Traffic| traffic.oracle.all().values().filter(|sent| sent.receipt.is_some()).count();
        let before = receipts(&self.traffic);
        eventually("the senders continue", async || (receipts(&self.traffic) > before).then_some(())).await;
        self.is_alive();
    }

    /// Sends one request of this kind; returns whether it succeeded. Any other response must be a refusal of the protocol.
    pub async fn works(&mut self, kind: &str) -> bool {
        match kind {
            "event" => self.event().await,
            "registration" => self.registers().await,
            "sign-in" => self.asks_for_a_code().await,
            "batch" => self.adds().await,
            other => panic!("there is no {other}"),
        }
    }

    /// A large event, so that the log grows quickly. It is sent until it is taken.
    async fn event(&mut self) -> bool {
        if self.pending.is_none() {
            let large = |event: &mut Value| event["payload"]["content"] = json!("x".repeat(60_000));
            let event = self.own.peek_with(large);
            self.traffic.oracle.sends(&event, 1);
            self.pending = Some(event);
        }
        let event = self.pending.as_ref().unwrap();
        let body = Bytes::from(event.to_string());
        let answer = self.traffic.client.event(&self.server.url, &self.own.machine, body).await;
        let Some(answer) = answer else { return false };
        if is_refused(&answer) {
            return false;
        }
        self.traffic.oracle.receipt(event["event_id"].as_str().unwrap(), &answer.receipt());
        event["hash_chain"]["self"].as_str().unwrap().clone_into(&mut self.own.prev);
        self.own.seq += 1;
        self.pending = None;
        true
    }

    async fn registers(&mut self) -> bool {
        let (uuid, user_cuid) = (self.rng.uuid_v7(Clock::system().now()).to_string(), self.rng.cuid2());
        let body = json!({ "user_cuid": user_cuid, "machine_uuid": uuid });
        let answer = self.post("/api/v1/machines").json(&body);
        let Some(answer) = self.traffic.client.try_send(answer).await else { return false };
        if is_refused(&answer) {
            return false;
        }
        let secret = answer.expect(201)["machine_secret"].as_str().unwrap().to_owned();
        self.registered.push(Machine { user_cuid, uuid, secret });
        true
    }

    async fn asks_for_a_code(&mut self) -> bool {
        self.asked += 1;
        let address = format!("person{}@example.com", self.asked);
        let form = self.post("/signin").header(ORIGIN, &self.server.url);
        let form = form.header("content-type", "application/x-www-form-urlencoded");
        let request = form.body(format!("email=person{}%40example.com", self.asked));
        let Some(answer) = self.traffic.client.try_send(request).await else { return false };
        if is_refused(&answer) {
            return false;
        }
        assert_eq!(answer.status, 303, "{answer:?}");
        self.addresses.insert(address);
        true
    }

    async fn adds(&mut self) -> bool {
        let request = self.post("/v1/batch-add").bearer_auth(&self.key);
        let mut added = notes(1);
        self.asked += 1;
        added["contents"][0]["content"] = json!(format!("Note number {}", self.asked));
        let Ok(response) = request.json(&added).send().await else { return false };
        if matches!(response.status().as_u16(), 424 | 503) {
            return false;
        }
        let mut stream = Stream::open(response).await;
        let end = tokio::time::timeout(HEALED_WITHIN, async {
            let mut kept = None;
            while let Some(message) = stream.next_or_cut().await {
                kept = message["id"].as_str().map(str::to_owned).or(kept);
                if message["type"] == "complete" {
                    return kept;
                }
            }
            None
        });
        // A batch that cannot continue has not succeeded and is not lost: it continues later.
        let Ok(Some(kept)) = end.await else { return false };
        self.kept.push(kept);
        true
    }

    /// Kills the server and starts it again.
    pub async fn starts_again(&mut self) {
        self.server.process.kill();
        self.server = self.home.serve().await;
        self.traffic.url.send_replace(self.server.url.clone());
    }

    /// Reads the activity with the credential of its computer.
    pub async fn reads(&self) {
        let url = format!("{}/api/v1/activity", self.server.url);
        self.traffic.client.get(&url, &self.own.machine).await.expect(200);
    }

    /// Waits until every requested code is in the outbox.
    pub async fn mails_are_there(&self) {
        let outbox = self.home.data().join("outbox");
        eventually("every mail with a code is there", async || {
            let mails = std::fs::read_dir(&outbox).ok()?;
            let mails: String = mails.filter_map(|mail| std::fs::read_to_string(mail.ok()?.path()).ok()).collect();
            self.addresses.iter().all(|address| mails.contains(address)).then_some(())
        })
        .await;
    }

    fn post(&self, path: &str) -> reqwest::RequestBuilder {
        let url = format!("{}{path}", self.server.url);
        self.traffic.client.request(Method::POST, &url, &Credential::None).timeout(HEALED_WITHIN)
    }

    fn is_alive(&self) {
        assert!(!self.senders.is_empty(), "the senders have ended");
        assert_eq!(self.server.process.stdout.text().lines().count(), 1, "the server said more than that it is ready");
    }

    /// Ends the traffic and compares all acknowledged events and notes with the state of the server.
    pub async fn is_whole(&mut self) {
        self.traffic.stop.send_replace(true);
        while let Some(ended) = self.senders.join_next().await {
            ended.unwrap();
        }
        assert_eq!(self.pending, None, "its own event is taken");
        let (client, url) = (&self.traffic.client, &self.server.url);
        self.witness.look(client, url).await;
        let events = compare_activity(&self.traffic).await;
        compare_held(&self.traffic.oracle, &self.home);
        compare_proofs(&self.traffic, &self.witness, 200, &self.rng).await;
        for machine in &self.registered {
            client.get(&format!("{url}/api/v1/activity"), machine).await.expect(200);
        }
        let exported = client.get(&format!("{url}/v1/export"), Credential::Bearer(self.key.clone())).await;
        let exported = String::from_utf8(exported.body.to_vec()).unwrap();
        for kept in &self.kept {
            assert!(exported.contains(kept), "{kept} was acknowledged and is lost");
        }
        self.mails_are_there().await;
        let (machines, codes, batches) = (self.registered.len(), self.addresses.len(), self.kept.len());
        eprintln!("{events} events, {machines} computers, {codes} codes, {batches} batches: none is lost");
        assert!(events > 0 && machines > 0 && codes > 0 && batches > 0, "a run without traffic shows nothing");
    }
}

/// Whether the response is the temporary refusal of the specification.
fn is_refused(answer: &Response) -> bool {
    assert!(!matches!(answer.status, 500..=502 | 504), "{answer:?}");
    matches!(answer.status, 424 | 503)
}
