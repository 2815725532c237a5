//! A server as it looks after a month of use.

use std::time::Duration;

use attache::cli::demo::month::{COMPUTERS, MonthEvent, events};
use blackbox::client::Credential;
use blackbox::eventually;
use blackbox::world::{Person, World};
use chrono::Datelike as _;
use domain::consent::ConsentLevel;
use domain::lane::Lane;
use domain::tool::Tool;
use domain::usage::Day;
use harness::event::{Chain, Machine};
use serde_json::{Value, json};
use tokio::time::Instant;

const ADA: &str = "ada@example.com";

/// Longer than ten intervals of the operator's page.
const WORK: Duration = Duration::from_secs(105);

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
    /// The events of the month.
    pub month: Vec<MonthEvent>,
    device_code: String,
    claim: String,
    event: String,
    session: String,
}

impl Seeded {
    /// Fills a new server.
    pub async fn new() -> Self {
        let world = World::with(|settings| settings.events.unattached.events_per_day = 0).await;
        let begin = Day::of(world.clock().now());
        let monday = Day::from(begin.number() + 7 - i64::from(begin.begin().weekday().num_days_from_monday())).begin();
        world.advance((monday - world.clock().now()).to_std().unwrap());
        let person = world.person(ADA).await;
        let mut chains = Vec::new();
        for (name, agent) in COMPUTERS {
            chains.push(Chain::of_agent(&computer(&world, &person, name).await, agent));
        }
        for _ in 0..2 {
            world.agent_of(&person).await;
        }
        let studio = chains[1].machine.clone();
        consent(&world, &person, &studio).await;
        let month = events();
        let mut event = String::new();
        for recorded in &month {
            world.advance((monday + recorded.at - world.clock().now()).to_std().unwrap_or_default());
            event = record(&world, &mut chains[recorded.computer], recorded).await;
        }
        let laptop = chains[0].machine.clone();
        hold(&world, &laptop, &mut chains[0]).await;
        // The session of the first day has expired.
        let person = world.person(ADA).await;
        let session = newest_session(&world, &person).await;
        remember(&world, &person).await;
        let phone = register(&world, "Ada's phone").await;
        let device_code = world.device_code(&phone).await.expect(200)["user_code"].as_str().unwrap().to_owned();
        let asked = world.identity(json!({ "type": "service_auth", "login_hint": ADA })).await.expect(200);
        let claim = asked["claim"]["verification_uri"].as_str().unwrap().to_owned();
        Self { world, person, month, device_code, claim, event, session }
    }

    /// Sends events for a while, so that the operator's page has a throughput.
    pub async fn work(&self) {
        let mut chain = Chain::of_agent(&computer(&self.world, &self.person, "Workstation").await, "opencode");
        let until = Instant::now() + WORK;
        for recorded in self.month.iter().cycle().take_while(|_| Instant::now() < until) {
            record(&self.world, &mut chain, recorded).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    pub fn address(&self, picture: &str) -> String {
        match picture {
            "account" => "/account".into(),
            "activity" => "/account/activity".into(),
            "consent" => "/account/consent".into(),
            "event" => format!("/account/activity/{}", self.event),
            "session" => format!("/account/sessions/{}", self.session),
            "device" => format!("/device?user_code={}", self.device_code),
            "claim" => self.claim.clone(),
            "knowledge" => "/knowledge?q=when+do+I+cut+back+my+roses".into(),
            "operator" => format!("http://{}/", self.world.server.admin_address),
            other => panic!("{other} has no page"),
        }
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
        json!({ "lane": "llm", "level": "full" }),
        json!({ "lane": "skill", "level": "full" }),
        json!({ "machine_uuid": studio.uuid, "lane": "rsi", "level": "off" }),
    ] {
        world.post("/api/v1/consent", &person.cookie, &body).await.expect(200);
    }
}

/// Sends an event of the month on a chain; returns its id.
async fn record(world: &World, chain: &mut Chain, recorded: &MonthEvent) -> String {
    let level = if recorded.lane == Lane::Security { ConsentLevel::MetadataOnly } else { ConsentLevel::Full };
    let now = world.clock().now();
    let tool: Tool = chain.agent_id.parse().unwrap();
    let event = chain.next_with(|event| {
        event["event_id"] = world.rng().uuid_v7(now).to_string().into();
        event["event_type"] = recorded.event_type.into();
        event["lane"] = recorded.lane.as_str().into();
        event["payload"] = recorded.payload(level).into();
        event["ts_edge_ms"] = now.timestamp_millis().into();
        event["consent_level"] = level.as_str().into();
        event["scope"]["project_id"] = recorded.project.into();
        event["scope"]["session_uuid"] = json!(hooks::session(tool, &recorded.session.to_string()));
    });
    world.event(&chain.machine, &event).await.receipt();
    event["event_id"].as_str().unwrap().to_owned()
}

/// The id of the newest session of Claude Code in the shop.
async fn newest_session(world: &World, person: &Person) -> String {
    eventually("the sessions are added up", async || {
        let page =
            world.get("/api/v1/activity/sessions?agent=claude-code&project=shop", &person.cookie).await.expect(200);
        let session = &page["sessions"][0];
        session["ended_ms"].is_i64().then(|| session["id"].as_str().unwrap().to_owned())
    })
    .await
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
