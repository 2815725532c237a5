//! Compares all acknowledged events with the rows of PostgreSQL, and the responses of all nodes with each other.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use blackbox::client::Credential;
use blackbox::eventually;
use futures_util::TryStreamExt;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use sqlx_macros::FromRow;
use uuid::Uuid;

use crate::archive::Bodies;
use crate::ledger::{Ledger, Sent};
use crate::load::lock;
use crate::merkle::{Hash, is_consistent, leaf, root_of_path, roots, sha256};
use crate::observer::Observer;
use crate::scale::index;
use crate::world::World;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Events with their sources and places.
const EVENTS: &str = "SELECT e.event_id, e.receipt_id, s.machine_id, s.agent_id, s.user_cuid, s.lane, e.chain_epoch, e.seq,
        e.self AS seal, e.received_at_ms, e.leaf_hash, e.canonical, l.leaf_index
    FROM statistics.events e JOIN statistics.sources s ON s.id = e.source_id LEFT JOIN statistics.leaves l ON l.event = e.id
    ORDER BY l.leaf_index, e.id";
const HEADS: &str = "SELECT machine_id, agent_id, seq, self AS seal, event_id FROM statistics.chain_heads";
const TREE: &str =
    "SELECT size, root, checkpoint, (SELECT count(*) FROM statistics.unsequenced) AS waiting FROM statistics.tree";
const USAGE: &str = "SELECT user_cuid, day, memory, retrospectives FROM usage_days WHERE memory + retrospectives > 0";
const HELD: &str = "SELECT event_id, state FROM held_events";
const HELD_TOTALS: &str = "SELECT (SELECT sum(bytes)::BIGINT FROM held_totals),
    (SELECT COALESCE(sum(charged_bytes), 0)::BIGINT FROM held_events WHERE state = 'held')";

/// A row of [`EVENTS`].
#[derive(Debug, FromRow)]
struct StoredEvent {
    event_id: Uuid,
    receipt_id: Uuid,
    machine_id: Uuid,
    agent_id: String,
    user_cuid: String,
    lane: String,
    chain_epoch: i64,
    seq: i64,
    seal: Vec<u8>,
    received_at_ms: i64,
    leaf_hash: Vec<u8>,
    canonical: Vec<u8>,
    leaf_index: Option<i64>,
}

/// A row of [`HEADS`].
#[derive(Debug, FromRow)]
struct Head {
    machine_id: Uuid,
    agent_id: String,
    seq: i64,
    seal: Vec<u8>,
    event_id: Uuid,
}

/// A row of [`TREE`].
#[derive(Debug, FromRow)]
struct Tree {
    size: i64,
    root: Vec<u8>,
    checkpoint: String,
    waiting: i64,
}

/// A link of a chain: its event, its seal and the seal of the previous event.
type Links = BTreeMap<i64, (Uuid, String, String)>;

/// Asserts P1 to P3 and the soundness of the log after a run, from outside of all servers.
pub async fn judge(world: &World) {
    let ledger = lock(&world.load.shared.ledger).clone();
    let (mut events, mut usage) = (0, BTreeMap::new());
    for (url, observer) in world.databases().iter().zip(&world.observers) {
        let of_part = of_part(&ledger, url).await;
        events += of_part.events.len();
        for (day, count) in judge_log(world, observer, url, &of_part).await {
            *usage.entry(day).or_insert(0) += count;
        }
    }
    assert_eq!(events, ledger.events.len(), "the events of each computer are in one part of the log");
    judge_usage(world, &usage).await;
    judge_held(&mut PgConnection::connect(&world.database).await.unwrap(), &ledger).await;
    eprintln!("{} events are held", ledger.held.len());
    assert!(!ledger.held.is_empty(), "a run without traffic shows nothing");
}

/// The sent events of the computers that have events in a part of the log.
async fn of_part(ledger: &Ledger, database: &str) -> Ledger {
    let mut database = PgConnection::connect(database).await.unwrap();
    let there: Vec<Uuid> = sqlx::query_scalar("SELECT DISTINCT machine_id FROM statistics.sources")
        .fetch_all(&mut database)
        .await
        .unwrap();
    let mut of_part = ledger.clone();
    of_part.events.retain(|_, sent| there.contains(&ledger.machines[sent.machine].uuid.parse().unwrap()));
    of_part
}

/// Judges a part of the log; returns its events of each identity and day.
async fn judge_log(world: &World, observer: &Observer, url: &str, ledger: &Ledger) -> BTreeMap<(String, i64), i64> {
    let mut database = PgConnection::connect(url).await.unwrap();
    let size = i64::try_from(ledger.events.len()).unwrap();
    eventually("every event has its place in the tree", async || {
        let mut database = PgConnection::connect(url).await.unwrap();
        let tree: Tree = sqlx::query_as(TREE).fetch_one(&mut database).await.unwrap();
        assert!(tree.size <= size, "the tree has {} leaves, and {size} events were sent", tree.size);
        (tree.size == size && tree.waiting == 0).then_some(())
    })
    .await;
    let mut bodies = match world.files() {
        Some(files) => Some(Bodies::of(&mut database, files).await),
        None => None,
    };
    let (leaves, usage) = judge_events(&mut database, ledger, bodies.as_mut()).await;
    if let Some(Bodies { read, .. }) = bodies {
        eprintln!("part {}: {read} bodies were in the archive only", observer.part);
        assert!(read > 0, "a run without moved bodies shows nothing");
    }
    judge_tree((world, observer), &mut database, &leaves).await;
    let proofs = judge_proofs((world, observer), ledger, &leaves).await;
    let (sizes, looks) = observer.seen();
    let part = observer.part;
    eprintln!(
        "part {part}: {size} events, {} trees in {looks} checkpoints, {proofs} proofs: all is whole",
        sizes.len()
    );
    assert!(size > 0 && sizes.len() > 1 && proofs > 0, "a run without traffic shows nothing");
    usage
}

/// Asserts that each acknowledged event is stored once with its receipt, and that every other event is an act of an operator.
pub async fn judge_stored(world: &World) {
    let mut ledger = lock(&world.load.shared.ledger).clone();
    let mut database = PgConnection::connect(&world.database).await.unwrap();
    let stored: Vec<StoredEvent> = sqlx::query_as(EVENTS).fetch_all(&mut database).await.unwrap();
    let acts: Vec<(Uuid,)> = sqlx::query_as("SELECT id FROM operator_acts").fetch_all(&mut database).await.unwrap();
    let (events, mut others) = (ledger.events.len(), 0);
    for event in stored {
        if let Some(sent) = ledger.events.remove(&event.event_id.to_string()) {
            assert_eq!(Some(event.receipt_id.to_string()), sent.receipt, "{} was acknowledged with it", event.event_id);
        } else {
            assert!(acts.contains(&(event.event_id,)), "{} was never sent, or is stored twice", event.event_id);
            others += 1;
        }
    }
    let lost: Vec<&String> = ledger.events.keys().take(5).collect();
    assert!(lost.is_empty() && events > 0, "acknowledged and lost: {lost:?}, …");
    eprintln!("{events} events and {others} acts: all is whole");
}

/// Each row is an acknowledged event with its receipt, seal and leaf; chains are dense and linked. Returns the hashes of the leaves in the
/// order of the tree, and the events of each identity and day.
async fn judge_events(
    database: &mut PgConnection,
    ledger: &Ledger,
    mut bodies: Option<&mut Bodies>,
) -> (Vec<Hash>, BTreeMap<(String, i64), i64>) {
    let (mut leaves, mut usage, mut seen) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
    let mut chains: BTreeMap<(Uuid, String), Links> = BTreeMap::new();
    let mut rows = sqlx::query_as::<_, StoredEvent>(EVENTS).fetch(&mut *database);
    while let Some(mut event) = rows.try_next().await.unwrap() {
        if let (Some(bodies), Some(place), true) = (&mut bodies, event.leaf_index, event.canonical.is_empty()) {
            event.canonical = bodies.body(place).await;
        }
        let id = event.event_id.to_string();
        let sent = ledger.events.get(&id).unwrap_or_else(|| panic!("{id} was never sent"));
        assert!(seen.insert(event.event_id), "{id} is stored twice");
        assert_eq!(Some(event.receipt_id.to_string()), sent.receipt, "{id} was acknowledged with that receipt");
        assert_eq!(event.machine_id.to_string(), ledger.machines[sent.machine].uuid);
        assert_eq!((event.agent_id.as_str(), event.lane.as_str()), (sent.agent_id.as_str(), "memory"));
        assert_eq!(event.user_cuid, ledger.machines[sent.machine].user_cuid);
        let seal = judge_bytes(&event, sent);
        assert_eq!(event.leaf_index, Some(i64::try_from(leaves.len()).unwrap()), "{id}: places are dense");
        leaves.push(judge_leaf(&event, sent));
        *usage.entry((event.user_cuid, event.received_at_ms.div_euclid(DAY_MS))).or_insert(0) += 1;
        let link = (event.event_id, seal, sent.prev.clone());
        let chain = chains.entry((event.machine_id, event.agent_id)).or_default();
        assert!(chain.insert(event.seq, link).is_none(), "{id}: two events at one position");
    }
    drop(rows);
    let lost: Vec<&String> =
        ledger.events.keys().filter(|id| !seen.contains(&id.parse::<Uuid>().unwrap())).take(5).collect();
    assert_eq!(seen.len(), ledger.events.len(), "acknowledged and lost: {lost:?}, …");
    let heads: Vec<Head> = sqlx::query_as(HEADS).fetch_all(database).await.unwrap();
    let mut heads: BTreeMap<(Uuid, String), Head> =
        heads.into_iter().map(|head| ((head.machine_id, head.agent_id.clone()), head)).collect();
    for (key, links) in chains {
        let mut before = "GENESIS".to_owned();
        for (position, (seq, (id, seal, prev))) in links.iter().enumerate() {
            assert_eq!(*seq, i64::try_from(position).unwrap(), "{key:?} has a gap before {id}");
            assert_eq!(*prev, before, "{key:?} at {seq} does not follow the event before");
            before.clone_from(seal);
        }
        let (newest, (last_id, last_seal, _)) = links.last_key_value().unwrap();
        let head = heads.remove(&key).unwrap_or_else(|| panic!("{key:?} has no head"));
        let found = (head.seq, head.event_id, hex(&head.seal));
        assert_eq!(found, (*newest, *last_id, last_seal.clone()), "the head of {key:?}");
    }
    assert!(heads.is_empty(), "heads of chains without events: {heads:?}");
    (leaves, usage)
}

/// The stored bytes are canonical, hash to the seal and have the position that was sent. Returns the seal as events name it.
fn judge_bytes(event: &StoredEvent, sent: &Sent) -> String {
    let id = event.event_id;
    let seal = hex(&sha256(&event.canonical));
    assert_eq!(seal, sent.seal, "{id}: the seal of the stored bytes");
    assert_eq!(event.seal, sha256(&event.canonical), "{id}: the stored seal");
    let members: Value = serde_json::from_slice(&event.canonical).unwrap();
    assert_eq!(serde_json_canonicalizer::to_vec(&members).unwrap(), event.canonical, "{id}: canonical bytes");
    assert_eq!(members["event_id"], json!(id));
    assert_eq!(members["hash_chain"], json!({ "prev": sent.prev }));
    let position = (u64::try_from(event.chain_epoch).unwrap(), u64::try_from(event.seq).unwrap());
    assert_eq!(position, (0, sent.seq), "{id}");
    seal
}

/// Asserts that the stored hash of the leaf is the hash of the members to which the tree commits.
fn judge_leaf(event: &StoredEvent, sent: &Sent) -> Hash {
    let members = json!({
        "agent_id": event.agent_id,
        "chain_epoch": event.chain_epoch,
        "event_id": event.event_id,
        "machine_id": event.machine_id,
        "prev": sent.prev,
        "receipt_id": event.receipt_id,
        "received_at_ms": event.received_at_ms,
        "self": sent.seal,
        "seq": event.seq,
        "v": 1,
    });
    let hash = leaf(&serde_json_canonicalizer::to_vec(&members).unwrap());
    assert_eq!(event.leaf_hash, hash, "{}: the hash of its leaf", event.event_id);
    hash
}

/// Asserts that the signed root is the root of the leaves, that each checkpoint of a node is of a prefix of this tree, that all nodes
/// publish one key, and that they prove the consistency of checkpoints.
async fn judge_tree((world, observer): (&World, &Observer), database: &mut PgConnection, leaves: &[Hash]) {
    let tree: Tree = sqlx::query_as(TREE).fetch_one(database).await.unwrap();
    let (seen, _) = observer.seen();
    let size = leaves.len() as u64;
    let computed = roots(leaves, seen.keys().copied().chain([size]));
    assert_eq!(tree.root, computed[&size], "the stored root is not that of the leaves");
    assert_eq!(observer.key.open(&tree.checkpoint), (size, computed[&size]), "the stored checkpoint");
    for (size, root) in &seen {
        let computed = computed.get(size).unwrap_or_else(|| panic!("a checkpoint of {size} leaves was shown"));
        assert_eq!(root, computed, "the checkpoint of {size} leaves is of another tree");
    }
    let client = &world.load.shared.client;
    for node in &world.nodes {
        let url = &node.target.url;
        let keys = client.get(&format!("{url}/api/v1/audit/keys"), Credential::None).await.expect(200);
        assert_eq!(keys["keys"].as_array().unwrap().len(), world.observers.len(), "{keys}");
        let key = &keys["keys"][observer.part]["vkey"];
        assert_eq!(*key, json!(observer.key.text), "{url} publishes another key");
        let note = client.get(&observer.checkpoint(url), Credential::None).await;
        assert_eq!(note.status, 200, "{note:?}");
        assert_eq!(observer.sees(url, std::str::from_utf8(&note.body).unwrap()), size, "the tree of {url}");
    }
    let sizes: Vec<(u64, Hash)> = seen.into_iter().filter(|(size, _)| *size > 0).collect();
    // Few enough steps that a soak with thousands of checkpoints ends.
    let steps = sizes.windows(2).step_by(1 + sizes.len() / 500);
    for (step, node) in steps.zip(world.nodes.iter().cycle()) {
        let (older, newer) = (step[0], step[1]);
        let url = observer.consistency(&node.target.url, older.0, newer.0);
        let proof = client.get(&url, Credential::None).await.expect(200);
        let path: Vec<Hash> = proof["proof"].as_array().unwrap().iter().map(digest).collect();
        assert!(is_consistent(older, newer, &path), "{} to {}: {proof}", older.0, newer.0);
    }
}

/// Usage is counted exactly, some time after the last event.
async fn judge_usage(world: &World, counted: &BTreeMap<(String, i64), i64>) {
    eventually("usage is counted", async || {
        let mut database = PgConnection::connect(&world.database).await.unwrap();
        let rows: Vec<(String, i64, i64, i64)> = sqlx::query_as(USAGE).fetch_all(&mut database).await.unwrap();
        let mut usage = BTreeMap::new();
        for (user, day, memory, other) in rows {
            let exact = counted.get(&(user.clone(), day)).copied().unwrap_or(0);
            assert!(
                memory <= exact && other == 0,
                "{user}, day {day}: {memory} and {other} are more than {exact} events"
            );
            usage.insert((user, day), memory);
        }
        (usage == *counted).then_some(())
    })
    .await;
}

/// Each held event is one entry, and their sum is exact.
async fn judge_held(database: &mut PgConnection, ledger: &Ledger) {
    let rows: Vec<(Uuid, String)> = sqlx::query_as(HELD).fetch_all(&mut *database).await.unwrap();
    let mut held = BTreeSet::new();
    for (id, state) in rows {
        assert_eq!(state, "held");
        assert!(held.insert(id.to_string()), "{id} is held twice");
    }
    assert_eq!(held, ledger.held, "held events");
    let (total, sum): (i64, i64) = sqlx::query_as(HELD_TOTALS).fetch_one(database).await.unwrap();
    assert_eq!(total, sum, "the sum of held events");
}

/// Proofs of some events from each node, verified under the pinned key here, and one of each node by the program. Returns their number.
async fn judge_proofs((world, observer): (&World, &Observer), ledger: &Ledger, leaves: &[Hash]) -> usize {
    let ids: Vec<(&String, &Sent)> = ledger.events.iter().collect();
    let root = roots(leaves, [leaves.len() as u64])[&(leaves.len() as u64)];
    let mut proofs = 0;
    for node in &world.nodes {
        for number in 0..world.scale.proofs {
            let (id, sent) = ids[index(&world.rng, ids.len())];
            let machine = &ledger.machines[sent.machine];
            let path = format!("{}/api/v1/audit/verify?event_id={id}", node.target.url);
            let answer = world.load.shared.client.get(&path, machine).await;
            let proof = answer.expect(200);
            let bytes = |name: &str| BASE64_STANDARD.decode(proof[name].as_str().unwrap()).unwrap();
            assert_eq!(proof["status"], "included", "{proof}");
            assert_eq!(proof["receipt_id"], json!(sent.receipt), "{proof}");
            assert_eq!(hex(&sha256(&bytes("canonical_b64"))), sent.seal, "{proof}");
            let members: Value = serde_json::from_slice(&bytes("leaf_b64")).unwrap();
            assert_eq!(
                (&members["self"], &members["receipt_id"]),
                (&json!(sent.seal), &json!(sent.receipt)),
                "{proof}"
            );
            let (size, place) = (proof["tree_size"].as_u64().unwrap(), proof["leaf_index"].as_u64().unwrap());
            let inclusion: Vec<Hash> = proof["inclusion_path"].as_array().unwrap().iter().map(digest).collect();
            assert_eq!(root_of_path(leaf(&bytes("leaf_b64")), place, size, &inclusion), Some(root), "{proof}");
            assert_eq!(observer.key.open(proof["checkpoint"].as_str().unwrap()), (size, root), "{proof}");
            if number == 0 {
                let file = node.home.dir.path().join("proof.json");
                std::fs::write(&file, &answer.body).unwrap();
                node.home.run(&["verify", file.to_str().unwrap(), "--vkey", &observer.key.text]).said();
            }
            proofs += 1;
        }
    }
    proofs
}

/// A hash as the API writes it: 64 hexadecimal digits.
fn digest(value: &Value) -> Hash {
    let text = value.as_str().unwrap();
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    let bytes: Vec<u8> = (0..text.len()).step_by(2).map(byte).collect();
    bytes.try_into().unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}
