//! Rounds of traffic, each of which ends with `kill -9`.

use std::sync::Arc;

use domain::{Clock, Rng};
use harness::upstream::{TOKEN, Upstream};
use sqlx::{Connection, PgConnection};
use tokio::sync::watch;
use tokio::task::JoinSet;

use blackbox::client::Client;
use blackbox::ledger::{Witness, compare_activity, compare_held, compare_proofs, compare_upstream};
use blackbox::oracle::Oracle;
use blackbox::process::{Home, Server};
use blackbox::sender::{Traffic, send};
use harness::event::{Chain, Machine};

/// Each agent kind has its own chain on each machine.
const AGENTS: [&str; 8] =
    ["svc-cli", "svc-control-plane", "claude-code", "codex", "cursor", "gemini-cli", "github-copilot", "opencode"];

pub(crate) struct Scale {
    senders: usize,
    chains: usize,
    pub(crate) rounds: u64,
    /// Maximum number of responses in a round.
    pub(crate) responses: u64,
    proofs: usize,
}

impl Scale {
    pub(crate) fn chosen() -> Self {
        if is_soak() {
            Self { senders: 8, chains: 50, rounds: 100, responses: 1500, proofs: 5000 }
        } else {
            Self { senders: 4, chains: 12, rounds: 5, responses: 150, proofs: 400 }
        }
    }
}

/// Whether this run is a soak.
pub(crate) fn is_soak() -> bool {
    std::env::var("ATTACHE_SOAK").is_ok_and(|value| value == "1")
}

/// The choices of this run; the seed is printed, so that a failure shows it.
fn rng() -> Rng {
    let given = std::env::var("ATTACHE_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = given.unwrap_or_else(|| Rng::system().below(u64::from(u32::MAX)));
    eprintln!("ATTACHE_SEED={seed}");
    Rng::seeded(seed)
}

/// A server, its senders, and the task that kills it.
pub(crate) struct Soak {
    pub(crate) home: Arc<Home>,
    pub(crate) server: Server,
    pub(crate) traffic: Arc<Traffic>,
    senders: JoinSet<()>,
    pub(crate) rng: Rng,
    scale: Scale,
}

impl Soak {
    pub(crate) async fn begin(home: Home, upstream: Option<Arc<Upstream>>) -> Self {
        Self::begin_with(home, upstream, Scale::chosen()).await
    }

    pub(crate) async fn begin_with(home: Home, upstream: Option<Arc<Upstream>>, scale: Scale) -> Self {
        let (rng, client) = (rng(), Client::new());
        let home = Arc::new(home);
        let server = home.serve().await;
        let mut machines: Vec<Machine> = Vec::new();
        for _ in 0..scale.chains.div_ceil(AGENTS.len()) {
            let uuid = rng.uuid_v7(Clock::system().now()).to_string();
            machines.push(client.machine(&server.url, &rng.cuid2(), &uuid).await);
        }
        let mut shares: Vec<Vec<(usize, Chain)>> = vec![Vec::new(); scale.senders];
        for number in 0..scale.chains {
            let machine = number / AGENTS.len();
            let chain = Chain::of_agent(&machines[machine], AGENTS[number % AGENTS.len()]);
            shares[number % scale.senders].push((machine, chain));
        }
        let (url, stop) = (watch::Sender::new(server.url.clone()), watch::Sender::new(false));
        let traffic = Arc::new(Traffic { oracle: Oracle::new(), client, machines, url, stop, upstream });
        let mut senders = JoinSet::new();
        for share in shares {
            senders.spawn(send(Arc::clone(&traffic), share, Rng::seeded(rng.below(u64::MAX))));
        }
        Self { home, server, traffic, senders, rng, scale }
    }

    /// Waits for a random number of responses, so that the kill hits requests in flight.
    pub(crate) async fn traffic(&mut self, answers_max: u64) {
        let more = 1 + self.rng.below(answers_max);
        tokio::select! {
            () = self.traffic.oracle.wait_for_responses(more) => {}
            Some(ended) = self.senders.join_next() => {
                ended.unwrap();
                panic!("a sender stopped before the end");
            }
        }
    }

    /// `kill -9`, now and then once more while the next one starts, and a start on the same data.
    pub(crate) async fn kill_and_restart(&mut self) {
        self.server.process.kill();
        if self.rng.below(3) == 0 {
            let loud = self.home.spawn_with_trace_log();
            let lines = 1 + usize::try_from(self.rng.below(30)).unwrap();
            loud.logged_or_ready(lines).await;
        }
        self.server = self.home.serve().await;
        self.traffic.url.send_replace(self.server.url.clone());
    }

    /// Each event in flight is resent until it is answered.
    async fn end(&mut self) {
        self.traffic.stop.send_replace(true);
        while let Some(ended) = self.senders.join_next().await {
            ended.unwrap();
        }
    }

    async fn run_on_embedded_log(mut self, database: Option<String>) {
        let witness = self.kill_rounds(database.as_deref()).await;
        let (events, held) = self.compare(witness).await;
        eprintln!("{events} events taken, {held} held, {} kills", self.scale.rounds);
    }

    /// Kills the server round after round; returns the witness of its log.
    pub(crate) async fn kill_rounds(&mut self, database: Option<&str>) -> Witness {
        let mut witness = Witness::pin(&self.traffic.client, &self.server.url).await;
        for _ in 0..self.scale.rounds {
            self.traffic(self.scale.responses).await;
            if let Some(database) = database {
                self.terminate_backends(database).await;
            }
            self.traffic(20).await;
            // A terminated backend may still delay a response.
            if database.is_none() {
                witness.look(&self.traffic.client, &self.server.url).await;
            }
            self.kill_and_restart().await;
            witness.look(&self.traffic.client, &self.server.url).await;
        }
        witness
    }

    /// Ends the senders and compares all that was promised with all that is there; returns the numbers of events and of held ones.
    pub(crate) async fn compare(&mut self, mut witness: Witness) -> (usize, usize) {
        self.end().await;
        witness.look(&self.traffic.client, &self.server.url).await;
        let events = compare_activity(&self.traffic).await;
        let held = compare_held(&self.traffic.oracle, &self.home);
        compare_proofs(&self.traffic, &witness, self.scale.proofs, &self.rng).await;
        eprintln!("{} trees seen", witness.seen());
        assert!(events > 0 && held > 0 && witness.seen() > 0, "a run without traffic shows nothing");
        (events, held)
    }

    /// Ends some of the server's connections to its database, one after the other, with traffic in between.
    async fn terminate_backends(&mut self, database: &str) {
        for _ in 0..=self.rng.below(3) {
            let mut connection = PgConnection::connect(database).await.unwrap();
            let others =
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
            let pids: Vec<i32> = sqlx::query_scalar(others).fetch_all(&mut connection).await.unwrap();
            for pid in pids {
                if self.rng.below(2) == 0 {
                    let gone: bool = sqlx::query_scalar("SELECT pg_terminate_backend($1)")
                        .bind(pid)
                        .fetch_one(&mut connection)
                        .await
                        .unwrap();
                    // False if the backend ended before the call.
                    eprintln!("backend {pid} terminated: {gone}");
                }
            }
            connection.close().await.unwrap();
            self.traffic(40).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_acknowledged_events_survive_kills_on_sqlite() {
    // Kills hit the passes that write the indexes, too.
    let home = Home::new().set("log.index_every", "40");
    Soak::begin(home, None).await.run_on_embedded_log(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_acknowledged_events_survive_kills_on_postgres_that_loses_connections() {
    let Some(database) = harness::postgres::database().await else { return };
    let home = Home::new().set("database.url", &database.url);
    Soak::begin(home, None).await.run_on_embedded_log(Some(database.url.clone())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_acknowledged_events_are_in_an_upstream_that_misbehaves() {
    let upstream = Arc::new(Upstream::start().await);
    let home = Home::new()
        .set("upstream.url", &upstream.url())
        .set("upstream.token", TOKEN)
        .set("upstream.timeout", "300ms")
        .set("upstream.breaker.failures", "1000000");
    let mut soak = Soak::begin(home, Some(Arc::clone(&upstream))).await;
    for _ in 0..soak.scale.rounds {
        soak.traffic(soak.scale.responses).await;
        soak.kill_and_restart().await;
    }
    soak.end().await;
    let events = compare_upstream(&soak.traffic);
    let held = compare_held(&soak.traffic.oracle, &soak.home);
    eprintln!("{events} events taken, {held} held, {} kills", soak.scale.rounds);
    assert!(events > 0 && held > 0, "a run without traffic shows nothing");
    upstream.assert_no_surprises();
}
