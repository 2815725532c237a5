//! Further parts of the log on other PostgreSQL servers (`docs/decisions/0047-log-parts.md`).

use app::config::{LogPartSettings, Settings};
use app::installation::{self, LogStart};
use blackbox::client::Credential;
use blackbox::eventually;
use blackbox::world::{Person, World};
use client::Client;
use client::witness::{Violation, Witness, WitnessError};
use domain::checkpoint::{SignerKey, VerifierKey};
use domain::log_part::LogPart;
use harness::event::{Chain, Machine};
use serde_json::{Value, json};

use crate::http::readiness;

const FURTHER: LogPart = LogPart::new(1);

/// Attached computers, one of each part.
async fn one_of_each(world: &World, person: &Person) -> (Machine, Machine) {
    let (mut near, mut far) = (None, None);
    while near.is_none() || far.is_none() {
        let machine = world.attached_machine(person).await;
        let place = if world.part_of(&machine).await.is_first() { &mut near } else { &mut far };
        *place = Some(machine);
    }
    (near.unwrap(), far.unwrap())
}

fn id(event: &Value) -> &str {
    event["event_id"].as_str().unwrap()
}

/// The events of the computers on the pages of an account.
async fn listed(world: &World, person: &Person) -> usize {
    let (mut found, mut query) = (0, String::from("?limit=2"));
    loop {
        let page = world.activity(person.cookie.clone(), &query).await.expect(200);
        let events = page["events"].as_array().unwrap();
        found += events.iter().filter(|event| event["lane"] == "memory").count();
        let Some(cursor) = page["next_cursor"].as_str() else { return found };
        query = format!("?limit=2&cursor={cursor}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_is_away_refuses_its_own_computers_alone_on_postgres() {
    let Some(cluster) = harness::postgres::cluster().await else { return };
    let further = vec![LogPartSettings { number: 1, url: cluster.url.clone(), weight: 1 }];
    let Some(world) = World::on_parts(0, |settings| settings.log.part = further).await else { return };
    let person = world.person("ada@example.com").await;
    let (near, far) = one_of_each(&world, &person).await;
    let (mut of_near, mut of_far) = (Chain::new(&near), Chain::new(&far));
    for _ in 0..3 {
        world.event(&near, &of_near.next()).await.receipt();
        let event = of_far.next();
        let receipt = world.event(&far, &event).await.receipt();
        assert_eq!(world.event(&far, &event).await.receipt(), receipt, "a resend");
        world.included(&far, id(&event)).await;
        assert_eq!(world.proof(person.cookie.clone(), id(&event)).await.status, 200);
    }
    assert_eq!(listed(&world, &person).await, 6);
    let (client, mut witness) = (Client::new(&::client::Settings::of(&world.url)).unwrap(), Witness::default());
    let keys = client.log_keys().await.unwrap().keys;
    assert_eq!(keys.iter().map(|key| key.log).collect::<Vec<_>>(), [None, Some(FURTHER)]);
    let key: VerifierKey = keys[1].vkey.parse().unwrap();
    assert!(client.observe(&mut witness, &key).await.unwrap().checkpoint.size >= 3);
    let elsewhere = SignerKey::draw("attache/log/p7", world.rng()).unwrap();
    let other = client.observe(&mut Witness::default(), elsewhere.verifier()).await.unwrap_err();
    assert!(matches!(other, WitnessError::Violation(Violation::OtherKey { .. })), "{other:?}");
    // An id is unique in its part.
    let event = of_far.next();
    world.event(&far, &event).await.receipt();
    let same = of_near.next_with(|same| same["event_id"] = event["event_id"].clone());
    world.event(&near, &same).await.receipt();

    cluster.stop("immediate");
    let waiting = of_far.next();
    world.event(&far, &waiting).await.refused(424, "temporarily_unavailable");
    for _ in 0..5 {
        world.event(&near, &of_near.next()).await.receipt();
    }
    let beside = world.beside().await;
    for world in [&world, &beside] {
        let body = eventually("the part is named", async || {
            let (status, body) = readiness(world).await;
            assert_eq!(status, 200, "{body}");
            body["degraded"].as_array()?.iter().any(|degraded| degraded["part"] == "log_parts").then_some(body)
        });
        eprintln!("{}", body.await);
        world.event(&near, &of_near.next()).await.receipt();
        world.event(&far, &waiting).await.refused(424, "temporarily_unavailable");
        world.activity(&near, "").await.expect(200);
        world.activity(&far, "").await.refused(424, "temporarily_unavailable");
        let keys = world.get("/api/v1/audit/keys", &Credential::None).await.expect(200);
        assert_eq!(keys["keys"].as_array().unwrap().len(), 1, "{keys}");
        // An unavailable part is not reported as another log.
        let asked = Client::new(&::client::Settings::of(&world.url)).unwrap();
        let unseen = asked.observe(&mut witness, &key).await.unwrap_err();
        assert!(matches!(unseen, WitnessError::Asking(_)), "{unseen:?}");
    }

    cluster.start();
    for world in [&world, &beside] {
        eventually("the part is back", async || (world.event(&far, &waiting).await.status == 202).then_some(())).await;
        eventually("nothing is degraded", async || {
            let (_, body) = readiness(world).await;
            (body["status"] == json!("ready")).then_some(())
        })
        .await;
        assert_eq!(listed(world, &person).await, 6 + 2 + 5 + 2 + 1);
    }
    world.included(&far, id(&waiting)).await;
    for path in ["/log/p1/checkpoint", "/api/v1/audit/checkpoint?log=1"] {
        assert_eq!(beside.get(path, &Credential::None).await.status, 200, "{path}");
    }
    for path in ["/log/p2/checkpoint", "/log/1/checkpoint", "/log/p1/other", "/api/v1/audit/checkpoint?log=2"] {
        beside.get(path, &Credential::None).await.refused(404, "not_found");
    }
    let observed = client.observe(&mut witness, &key).await.unwrap();
    assert!(observed.checkpoint.size > observed.seen.unwrap().size, "it grew, which the server proved");
}

#[tokio::test(flavor = "multi_thread")]
async fn urls_that_lead_to_another_log_are_refused_on_postgres() {
    let Some(world) = World::on_parts(2, |_| {}).await else { return };
    let Some(other) = World::on_parts(1, |_| {}).await else { return };
    let person = world.person("ada@example.com").await;
    let (_, far) = one_of_each(&world, &person).await;
    world.event(&far, &Chain::new(&far).next()).await.receipt();
    let part = world.part_of(&far).await;
    eventually("its checkpoint is stored", async || {
        world.server.app.store.log_remembered(part).await.unwrap().filter(|log| log.size > 0)
    })
    .await;
    let Some(empty) = harness::postgres::empty_database().await else { return };
    let url = |world: &World, part: usize| world.server.app.settings.log.part[part].url.clone();
    let main = world.server.app.settings.database.url.clone().unwrap();
    let place = usize::from(part.number()) - 1;
    for (urls, words) in [
        (vec![], "the main database knows part 1 of the log, and the configuration does not"),
        (vec![url(&world, 0)], "the main database knows part 2 of the log"),
        (vec![url(&world, 1), url(&world, 0)], r#"leads to the log "attache/log/p2", and not to "attache/log/p1""#),
        (vec![url(&world, 0), url(&world, 0)], r#"leads to the log "attache/log/p1", and not to "attache/log/p2""#),
        (vec![main, url(&world, 1)], r#"leads to the log "attache/log", and not to "attache/log/p1""#),
        (vec![url(&other, 0), url(&world, 1)], "part 1 of the log:"),
        (
            (0..2).map(|number| if number == place { empty.url.clone() } else { url(&world, number) }).collect(),
            "of the log:",
        ),
    ] {
        let mut settings = world.server.app.settings.clone();
        settings.log.part = (1..).zip(urls).map(|(number, url)| LogPartSettings { number, url, weight: 1 }).collect();
        let refused = opened(&world, &settings).await.unwrap_err();
        assert!(refused.contains(words), "{refused} should contain {words}");
    }
    opened(&world, &world.server.app.settings).await.unwrap();
}

/// Opens the parts as another node does; the error in words.
async fn opened(world: &World, settings: &Settings) -> Result<(), String> {
    let mut settings = settings.clone();
    let dir = tempfile::tempdir().unwrap();
    settings.data.dir = dir.path().to_owned();
    let (clock, rng) = (world.clock(), world.rng());
    let (store, service) = installation::open(&settings, clock, rng, LogStart::Continue).await.unwrap();
    let registry = std::sync::Arc::new(settings.registry().unwrap());
    let opened = installation::with_parts(service, &settings, &store, (clock, rng), &registry).await;
    let outcome = match opened {
        Ok((upstream, _)) => {
            upstream.close().await;
            Ok(())
        }
        Err(error) => Err(domain::reasons(&error)),
    };
    store.close().await;
    outcome
}
