//! A server as it looks after a month of use.

use std::time::Duration;

use blackbox::client::Credential;
use blackbox::world::{Person, World};
use harness::event::{Chain, Machine};
use serde_json::{Value, json};
use tokio::time::Instant;

const ADA: &str = "ada@example.com";

/// Longer than ten intervals of the operator's page.
const WORK: Duration = Duration::from_secs(105);

/// Days with events.
const DAYS: u64 = 30;

/// Notes: space, title and text.
const NOTES: [(&str, &str, &str); 9] = [
    (
        "Work",
        "Release checklist",
        "Tag the release only after the smoke test on staging is green, and tell support an hour before.",
    ),
    (
        "Work",
        "Incident of 3 November",
        "The queue grew because the worker retried a poisoned message. Quarantine it after three tries.",
    ),
    (
        "Work",
        "Why we left the monorepo script",
        "The script rebuilt everything on each push. Affected packages are now found by the lock file.",
    ),
    ("Work", "Onboarding", "New colleagues get a laptop, a hardware key and the staging account on their first day."),
    ("Garden", "Roses", "Prune roses in March, when the forsythia is in bloom. Cut above a bud that looks outwards."),
    ("Garden", "Tomatoes", "Tomatoes want warm soil, a stake, and water at the root. Take out the side shoots weekly."),
    ("Garden", "Compost", "Two parts brown to one part green, and turn the heap when it cools down."),
    (
        "Reading",
        "Merkle trees",
        "An auditor follows a few hashes from a leaf up to the signed root, and needs none of the other leaves.",
    ),
    (
        "Reading",
        "Device flow",
        "The screen shows a short code; the person types it where they are signed in, and compares who asks.",
    ),
];

/// A server with a month of events, and a person with an account on it.
pub struct Seeded {
    pub world: World,
    pub person: Person,
    device_code: String,
    claim: String,
    event: String,
}

impl Seeded {
    /// Fills a new server.
    pub async fn new() -> Self {
        let world = World::with(|settings| settings.events.unattached.events_per_day = 0).await;
        let person = world.person(ADA).await;
        let laptop = computer(&world, &person, "Ada's laptop").await;
        let runner = computer(&world, &person, "CI runner").await;
        let studio = computer(&world, &person, "Studio").await;
        for _ in 0..2 {
            world.agent_of(&person).await;
        }
        consent(&world, &person, &studio).await;
        let mut chains = [
            Chain::of_agent(&laptop, "claude-code"),
            Chain::of_agent(&studio, "cursor"),
            Chain::of_agent(&runner, "codex"),
            Chain::new(&laptop),
        ];
        let mut dice = Dice(7);
        for day in 0..DAYS {
            for (nth, chain) in chains.iter_mut().enumerate() {
                // Fewer at weekends, and each computer has days off.
                let most = if day % 7 > 4 { 2 } else { [9, 6, 5, 2][nth] };
                for _ in 0..dice.below(most + 1) {
                    world.advance(Duration::from_secs(60 + dice.below(900)));
                    record(&world, chain, &mut dice).await;
                }
            }
            world.advance(Duration::from_hours(9 + dice.below(6)));
        }
        let event = record(&world, &mut chains[0], &mut dice).await;
        hold(&world, &laptop, &mut chains[0]).await;
        // The session of the first day has expired.
        let person = world.person(ADA).await;
        remember(&world, &person).await;
        let phone = register(&world, "Ada's phone").await;
        let device_code = world.device_code(&phone).await.expect(200)["user_code"].as_str().unwrap().to_owned();
        let asked = world.identity(json!({ "type": "service_auth", "login_hint": ADA })).await.expect(200);
        let claim = asked["claim"]["verification_uri"].as_str().unwrap().to_owned();
        Self { world, person, device_code, claim, event }
    }

    /// Sends events for a while, so that the operator's page has a throughput.
    pub async fn work(&self) {
        let (runner, mut dice) = (computer(&self.world, &self.person, "Workstation").await, Dice(11));
        let mut chain = Chain::of_agent(&runner, "opencode");
        let until = Instant::now() + WORK;
        while Instant::now() < until {
            for _ in 0..dice.below(9) {
                record(&self.world, &mut chain, &mut dice).await;
            }
            tokio::time::sleep(Duration::from_millis(400 + dice.below(1800))).await;
        }
    }

    pub fn address(&self, picture: &str) -> String {
        match picture {
            "account" => "/account".into(),
            "activity" => "/account/activity".into(),
            "consent" => "/account/consent".into(),
            "event" => format!("/account/activity/{}", self.event),
            "device" => format!("/device?user_code={}", self.device_code),
            "claim" => self.claim.clone(),
            "knowledge" => "/knowledge?q=when+do+I+cut+back+my+roses".into(),
            "operator" => format!("http://{}/", self.world.server.admin_address),
            other => panic!("{other} has no page"),
        }
    }
}

/// Numbers that look like chance and are the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

async fn register(world: &World, name: &str) -> Machine {
    let (user_cuid, uuid) = (world.rng().cuid2(), world.rng().uuid_v7(world.clock().now()).to_string());
    let body = json!({ "user_cuid": user_cuid, "machine_uuid": uuid, "name": name });
    let registered = world.post("/api/v1/machines", &Credential::None, &body).await.expect(201);
    Machine { user_cuid, uuid, secret: registered["machine_secret"].as_str().unwrap().to_owned() }
}

async fn computer(world: &World, person: &Person, name: &str) -> Machine {
    let machine = register(world, name).await;
    let code = world.device_code(&machine).await.expect(200);
    world.device_approve(&person.cookie, code["user_code"].as_str().unwrap()).await.expect(200);
    world.device_token(code["device_code"].as_str().unwrap()).await.expect(200);
    machine
}

async fn consent(world: &World, person: &Person, studio: &Machine) {
    for body in [
        json!({ "level": "metadata-only" }),
        json!({ "lane": "memory", "level": "full" }),
        json!({ "machine_uuid": studio.uuid, "lane": "rsi", "level": "off" }),
    ] {
        world.post("/api/v1/consent", &person.cookie, &body).await.expect(200);
    }
}

/// Sends the next event of a chain; returns its id.
async fn record(world: &World, chain: &mut Chain, dice: &mut Dice) -> String {
    let kinds: [(&str, &str, Value); 7] = [
        (
            "llm.completed",
            "llm",
            json!({ "model": "claude-sonnet", "input_tokens": 900 + dice.below(9000), "output_tokens": 40 + dice.below(900) }),
        ),
        ("skill.invoked", "skill", json!({ "skill": "edit", "succeeded": true, "duration_ms": 20 + dice.below(400) })),
        (
            "skill.invoked",
            "skill",
            json!({ "skill": "bash", "succeeded": dice.below(9) > 0, "duration_ms": 90 + dice.below(9000) }),
        ),
        ("memory.recalled", "memory", json!({ "results": 1 + dice.below(5), "duration_ms": 8 + dice.below(30) })),
        (
            "memory.stored",
            "memory",
            json!({ "memory_id": format!("m{}", dice.below(400)), "content_bytes": 80 + dice.below(900) }),
        ),
        ("squad.task_completed", "squad", json!({})),
        ("security.blocked", "security", json!({ "rule": "no secrets in a prompt", "action": "removed" })),
    ];
    // The first ones are frequent.
    let place = usize::try_from(dice.below(7).min(dice.below(9))).unwrap();
    let (event_type, lane, payload) = kinds[place].clone();
    let now = world.clock().now();
    let event = chain.next_with(|event| {
        event["event_id"] = world.rng().uuid_v7(now).to_string().into();
        event["event_type"] = event_type.into();
        event["lane"] = lane.into();
        event["payload"] = payload;
        event["ts_edge_ms"] = now.timestamp_millis().into();
        event["consent_level"] = "metadata-only".into();
    });
    let response = world.event(&chain.machine, &event).await.expect(202);
    if response["held"] == true {
        // A level that the person switched off: the chain continues without it.
        chain.seq -= 1;
        event["hash_chain"]["prev"].as_str().unwrap().clone_into(&mut chain.prev);
    }
    event["event_id"].as_str().unwrap().to_owned()
}

/// Two events that are held: an unknown type, and one that was changed on the way.
async fn hold(world: &World, laptop: &Machine, chain: &mut Chain) {
    let mut changed = chain.peek_with(|event| event["payload"] = json!({ "memory_id": "m7" }));
    changed["payload"]["memory_id"] = "m8".into();
    let unknown = chain.peek_with(|event| event["event_type"] = "calendar.read".into());
    for event in [changed, unknown] {
        world.event(laptop, &event).await.expect(202);
    }
}

async fn remember(world: &World, person: &Person) {
    let key = world.key(person, json!({ "name": "claude-code on Ada's laptop", "scopes": ["search", "write"] })).await;
    for space in ["Work", "Garden", "Reading"] {
        let id = world.space(&key, space, false).await;
        let of_space = NOTES.iter().filter(|(of, ..)| *of == space);
        let contents: Vec<Value> =
            of_space.map(|(_, title, content)| json!({ "title": title, "content": content })).collect();
        world.add(&key, json!({ "spaces": [id], "contents": contents })).await.whole().await;
    }
}
