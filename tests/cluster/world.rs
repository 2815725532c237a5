//! Nodes with separate folders and addresses on one PostgreSQL, their senders, and their observer.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use blackbox::client::Client;
use blackbox::process::{Home, Server};
use domain::{Clock, Rng};
use harness::event::{Chain, Machine};
use harness::relay::Relay;
use sqlx::{Connection, PgConnection};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::availability::Availability;
use crate::ledger::Ledger;
use crate::load::{Load, Shared, Target, lock};
use crate::observer::Observer;
use crate::scale::{Scale, rng};

/// Each kind of agent has its own chain on each computer.
const AGENTS: [&str; 8] =
    ["svc-cli", "svc-control-plane", "claude-code", "codex", "cursor", "gemini-cli", "github-copilot", "opencode"];
/// Number of computers that share the chains.
const MACHINES: usize = 3;
/// The computer in the further part of the log, if there is one.
pub const FAR: usize = 1;
/// Number of nodes at the start.
pub const NODES: usize = 3;

/// Pause between two checks of the readiness of each node.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// Longest duration of such a check.
const CHECK_DEADLINE: Duration = Duration::from_secs(1);

/// How the nodes of a test differ from the default.
#[derive(Debug, Clone, Default)]
pub struct Differences {
    /// The library that shifts clocks, and the shift of each node in seconds.
    pub clocks: Option<(PathBuf, [i64; NODES])>,
    /// The database of a further part of the log, as the nodes reach it, and directly.
    pub further: Option<(String, String)>,
    /// Settings of all nodes, in addition to the settings of [`node_home`].
    pub settings: Vec<(&'static str, String)>,
    /// URL of the objects of the log's archive, if the settings have one.
    pub files: Option<String>,
    /// The program of all nodes; `None` for the tested program.
    pub program: Option<PathBuf>,
}

/// A node, its relay to the database, and its server while it runs.
pub struct Node {
    pub home: Home,
    pub public: SocketAddr,
    pub operator: SocketAddr,
    pub relay: Relay,
    pub target: Arc<Target>,
    server: Option<Server>,
}

/// The cluster under load.
pub struct World {
    pub nodes: Vec<Node>,
    pub database: String,
    pub load: Load,
    /// One for each part of the log.
    pub observers: Vec<Arc<Observer>>,
    pub rng: Rng,
    pub scale: Scale,
    differences: Differences,
    addresses: Addresses,
    urls: Arc<Mutex<Vec<String>>>,
    tasks: JoinSet<()>,
}

/// Addresses of one cluster, on which no other program listens: each node has its own loopback address, and can restart with it.
#[derive(Debug, Clone, Copy)]
struct Addresses([u8; 3]);

impl Addresses {
    fn own() -> Self {
        static CLUSTERS: AtomicU8 = AtomicU8::new(0);
        let [.., high, low] = std::process::id().to_be_bytes();
        let cluster = CLUSTERS.fetch_add(1, Ordering::Relaxed);
        Self([(100 + cluster), high, low])
    }

    /// The address with this number, from 1 on.
    fn at(self, number: usize, port: u16) -> SocketAddr {
        let Self([a, b, c]) = self;
        // The last byte has both: low bits of the process and the number of the node.
        let last = (c % 16) * 16 + u8::try_from(number).unwrap();
        SocketAddr::from(([127, a, b ^ (c / 16), last], port))
    }

    fn balancer(self) -> SocketAddr {
        self.at(15, 8080)
    }
}

impl Node {
    /// Starts the server and waits until it is ready.
    pub async fn start(&mut self) {
        self.server = Some(self.home.serve().await);
    }

    /// `kill -9`: the end of the process without a word.
    pub fn kill(&mut self) {
        self.server = None;
    }

    /// Sends a signal by its name, such as `STOP`.
    pub fn signal(&self, name: &str) {
        self.server.as_ref().unwrap().process.signal(name);
    }

    /// Sends SIGTERM, and waits until the process has ended.
    pub async fn terminate(&mut self) {
        let mut server = self.server.take().unwrap();
        server.process.signal("TERM");
        let status = server.process.exit().await;
        assert!(status.success(), "{status}\n{}", server.process.stderr.text());
    }

    /// The test starts to disturb the node.
    pub fn touch(&self) {
        lock(&self.target.availability).touch();
    }
}

impl World {
    /// Starts three nodes and the traffic; returns when each node has acknowledged events.
    pub async fn begin(database: &str, differences: Differences) -> Self {
        let (scale, rng, client) = (Scale::chosen(), rng(), Client::new());
        let addresses = Addresses::own();
        let mut nodes = Vec::new();
        for number in 1..=NODES {
            nodes.push(node(addresses, number, database, &differences).await);
        }
        // The first start makes the tables; the others start together.
        let (first, others) = nodes.split_at_mut(1);
        first[0].start().await;
        let others = others.iter_mut().map(Node::start);
        futures_util::future::join_all(others).await;

        let mut machines: Vec<Machine> = Vec::new();
        for number in 0..=MACHINES {
            loop {
                let uuid = rng.uuid_v7(Clock::system().now()).to_string();
                let machine = client.machine(&nodes[0].target.url, &rng.cuid2(), &uuid).await;
                if differences.further.is_none() || part_of(database, &machine).await == usize::from(number == FAR) {
                    machines.push(machine);
                    break;
                }
            }
        }
        // Each node has chains of each computer.
        let chain = |number: usize| ((number + number / MACHINES) % MACHINES, AGENTS[number / MACHINES % AGENTS.len()]);
        let chains: Vec<(usize, Chain)> = (0..scale.chains.min(MACHINES * AGENTS.len()))
            .map(chain)
            .map(|(machine, agent)| (machine, Chain::of_agent(&machines[machine], agent)))
            .collect();
        let mut observers = Vec::new();
        for part in 0..=usize::from(differences.further.is_some()) {
            observers.push(Arc::new(Observer::pin(&client, &nodes[0].target.url, part).await));
        }
        let targets: Vec<Arc<Target>> = nodes.iter().map(|node| Arc::clone(&node.target)).collect();
        let urls = Arc::new(Mutex::new(targets.iter().map(|target| target.url.clone()).collect()));
        let mut tasks = JoinSet::new();
        for observer in &observers {
            tasks.spawn(Arc::clone(observer).look(client.clone(), Arc::clone(&urls)));
        }
        for node in &nodes {
            tasks.spawn(check(Arc::clone(&node.target), node.operator));
        }
        let holder = machines[MACHINES].clone();
        let shared = Arc::new(Shared {
            client,
            targets: Mutex::new(targets),
            ledger: Mutex::new(Ledger { machines, ..Ledger::default() }),
            balancer: Mutex::default(),
            refused: Mutex::default(),
            waited: Mutex::default(),
            locked: Mutex::default(),
            stop: watch::Sender::new(false),
        });
        let load = Load::start(shared, chains, holder, &rng);
        let database = database.to_owned();
        let mut world = Self { nodes, database, load, observers, rng, scale, differences, addresses, urls, tasks };
        for node in 0..NODES {
            world.recovers(node).await;
        }
        world
    }

    /// The databases of the parts of the log.
    pub fn databases(&self) -> Vec<String> {
        let further = self.differences.further.iter().map(|(_, direct)| direct.clone());
        [self.database.clone()].into_iter().chain(further).collect()
    }

    /// URL of the objects of the log's archive, if it has one.
    pub fn files(&self) -> Option<&str> {
        self.differences.files.as_deref()
    }

    /// The address for a balancer.
    pub fn balancer(&self) -> SocketAddr {
        self.addresses.balancer()
    }

    /// Starts one more node, to which some of the events are sent from then on; returns its number.
    pub async fn join(&mut self) -> usize {
        let mut joining = node(self.addresses, self.nodes.len() + 1, &self.database, &self.differences).await;
        joining.start().await;
        self.tasks.spawn(check(Arc::clone(&joining.target), joining.operator));
        lock(&self.load.shared.targets).push(Arc::clone(&joining.target));
        lock(&self.urls).push(joining.target.url.clone());
        self.nodes.push(joining);
        self.nodes.len() - 1
    }

    /// Traffic for this long.
    pub async fn traffic(&mut self, duration: Duration) {
        let end = Instant::now() + duration;
        while Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(50)).await;
            self.assert_alive();
        }
    }

    /// Fails if a sender or the observer has failed.
    fn assert_alive(&mut self) {
        self.load.assert_alive();
        if let Some(ended) = self.tasks.try_join_next() {
            ended.unwrap();
        }
    }

    /// Waits until the node acknowledges an event after a fault, and marks it as undisturbed; returns the waiting time.
    pub async fn recovers(&mut self, node: usize) -> Duration {
        let target = Arc::clone(&self.nodes[node].target);
        let (begun, before) = (Instant::now(), lock(&target.availability).acknowledged());
        while lock(&target.availability).acknowledged() == before {
            tokio::time::sleep(Duration::from_millis(5)).await;
            self.assert_alive();
            let waited = begun.elapsed();
            // Beyond all deadlines of the server: a connection that is never noticed to be dead would be.
            assert!(waited < 3 * blackbox::TIME_LIMIT, "{} takes no event {waited:?} after the fault", target.url);
        }
        lock(&target.availability).leave();
        begun.elapsed()
    }

    /// The test starts to disturb all nodes.
    pub fn touch(&self) {
        self.nodes.iter().for_each(Node::touch);
    }

    /// Waits until each node of the start acknowledges an event after an act, and prints how long it took.
    pub async fn all_recover(&mut self, act: &str) {
        for node in 0..NODES {
            let recovered = self.recovers(node).await;
            eprintln!("node {node} took an event {recovered:.1?} after {act}");
        }
    }

    /// Prints the longest times in which undisturbed nodes refused events; asserts the promise in a soak, otherwise a generous multiple of
    /// it.
    pub fn assert_available(&self, fault: &str) {
        let (mut refused, mut late) = (Duration::ZERO, Duration::ZERO);
        for node in &self.nodes {
            let (untouched, touched) = lock(&node.target.availability).longest();
            (refused, late) = (refused.max(untouched), late.max(touched));
        }
        let waited = *lock(&self.load.shared.waited);
        eprintln!(
            "{fault}: an untouched node took no event for {refused:.1?} at most; a disturbed one for {late:.1?} while it said that it is \
             ready; an event waited for {waited:.1?} at untouched nodes"
        );
        let most = self.scale.refused_max;
        assert!(
            refused <= most,
            "{fault}: a node that nothing was done to took no event for {refused:.1?}, at most {most:?} is allowed"
        );
    }

    /// Ends the traffic of a run with acts of operators, which are events of the log too, and looks for each acknowledged event.
    pub async fn end_with_acts(mut self, fault: &str) {
        self.load.end().await;
        self.assert_alive();
        self.assert_available(fault);
        self.tasks.shutdown().await;
        crate::judge::judge_stored(&self).await;
    }

    /// Ends the traffic and compares all acknowledged events with the database.
    pub async fn end(mut self, fault: &str) {
        self.load.end().await;
        self.assert_alive();
        if lock(&self.load.shared.balancer).is_none() {
            self.assert_available(fault);
        }
        self.tasks.shutdown().await;
        crate::judge::judge(&self).await;
    }
}

/// A node that has not started yet, with a relay between it and the database.
async fn node(addresses: Addresses, number: usize, database: &str, differences: &Differences) -> Node {
    let relay = Relay::before(database).await;
    let (public, operator) = (addresses.at(number, 8080), addresses.at(number, 8081));
    let mut home = Home::new()
        .set("database.url", &relay.url)
        .set("database.connections_max", "8")
        .set("http.bind", &public.to_string())
        .set("admin.bind", &operator.to_string())
        .set("http.base_url", &format!("http://{}", addresses.balancer()))
        .set("http.connections_per_address_max", "0")
        .set("http.bodies_per_address_max", "0")
        .set("log.checkpoint_every", "200ms");
    if let Some((url, _)) = &differences.further {
        home = home.set("log.part", &format!("[{{number=1,url={url:?}}}]"));
    }
    for (setting, value) in &differences.settings {
        home = home.set(setting, value);
    }
    if let Some((library, shifts)) = &differences.clocks
        && let Some(shift) = shifts.get(number - 1).filter(|shift| **shift != 0)
    {
        home = home.preloading(library).environment("ATTACHE_TEST_CLOCK", &shift.to_string());
    }
    if let Some(program) = &differences.program {
        home.run_program(program);
    }
    let target = Target { url: format!("http://{public}"), availability: Mutex::new(Availability::new()) };
    Node { home, public, operator, relay, target: Arc::new(target), server: None }
}

/// The part of the log that has the events of a computer.
async fn part_of(database: &str, machine: &Machine) -> usize {
    let mut database = PgConnection::connect(database).await.unwrap();
    let id: uuid::Uuid = machine.uuid.parse().unwrap();
    let part: i64 = sqlx::query_scalar("SELECT log_part FROM machines WHERE machine_uuid = $1")
        .bind(id)
        .fetch_one(&mut database)
        .await
        .unwrap();
    usize::try_from(part).unwrap()
}

/// Asks a node for its readiness, as a balancer does.
async fn check(target: Arc<Target>, operator: SocketAddr) {
    loop {
        let answer = tokio::time::timeout(CHECK_DEADLINE, harness::balancer::ready(operator)).await;
        lock(&target.availability).is_ready(matches!(answer, Ok(Ok(true))));
        tokio::time::sleep(CHECK_EVERY).await;
    }
}
