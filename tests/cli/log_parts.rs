//! Commands on a log of two parts: keys, proofs and checkpoints of each, `attache doctor` and `attache admin log`.

use blackbox::process::{Home, Server};
use blackbox::{eventually, flow};
use harness::event::{Chain, Machine};
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};

use crate::installation::stop;

const FIRST: &str = "attache/log+";
const FURTHER: &str = "attache/log/p1+";

/// A server with a part of its log on another database.
fn home(main: &str, further: &str) -> Home {
    Home::new().set("database.url", main).set("log.part", &format!("[{{number=1,url={further:?}}}]"))
}

/// A computer in the part with such a key, and the id of its first event.
async fn of_part(server: &Server, key: &str) -> (Machine, Chain, String) {
    loop {
        let machine = flow::machine(server).await;
        let mut chain = Chain::new(&machine);
        let event = chain.next();
        flow::event(server, &machine, &event).await.receipt();
        let id = flow::text(&event, "event_id");
        let proof = flow::proof(server, &machine, &id).await;
        if flow::text(&proof, "vkey").starts_with(key) {
            return (machine, chain, id);
        }
    }
}

fn findings(home: &Home, arguments: &[&str]) -> Vec<Value> {
    let output = home.run(&[&["doctor", "--json"], arguments].concat());
    let found: Value = serde_json::from_str(&output.stdout).unwrap();
    found["findings"].as_array().unwrap().iter().filter(|one| one["about"] == "log part").cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_know_the_parts_of_the_log() {
    let Some(main) = harness::postgres::database().await else { return };
    let Some(further) = harness::postgres::empty_database().await else { return };
    let home = home(&main.url, &further.url);
    let found = findings(&home, &[]);
    assert_eq!((found.len(), &found[0]["state"]), (1, &json!("doubtful")), "before the first start: {found:?}");
    let server = home.serve().await;
    let (near, _, of_first) = of_part(&server, FIRST).await;
    let (far, mut chain, of_further) = of_part(&server, FURTHER).await;

    // Each key is pinned once; the key of another part is not taken from the server.
    flow::keep_profile(&home, &server.url, Some(&near), None);
    home.run(&["verify", &of_first]).said();
    flow::edit_profile(&home, |profile| {
        let machine = profile["machine"].as_table_mut().unwrap();
        for (name, value) in [("machine_uuid", &far.uuid), ("secret", &far.secret), ("user_cuid", &far.user_cuid)] {
            machine.insert(name.to_owned(), value.clone().into());
        }
    });
    let refused = home.run(&["verify", &of_further]);
    let reason = refused.refused(1, &["a part of one, whose key is not pinned", "--pin", FURTHER]);
    let key = reason.split('\'').nth(1).unwrap();
    home.run(&["verify", &of_further, "--vkey", key, "--pin"]).said();
    home.run(&["verify", &of_further]).said();
    assert!(flow::profile(&home)["log_key"].as_str().unwrap().starts_with(FIRST));
    assert_eq!(flow::profile(&home)["further_log_keys"], toml::Value::from(vec![key]));
    let profile = home.run(&["profile", "show"]);
    assert!(profile.said().contains(key) && profile.said().contains(FIRST), "{profile:?}");
    for (arguments, parts) in
        [(&["audit", "watch", "--once"][..], 2), (&["audit", "watch", "--once", "--vkey", key], 1)]
    {
        let watched = home.run(arguments);
        assert_eq!(watched.said().matches("events, root").count(), parts, "{watched:?}");
    }
    home.run(&["receipt", "--since", "0", "--output", "receipt.json"]);
    home.run(&["verify", "receipt", "receipt.json"]).said();

    // The operator's view.
    let parts = eventually("both checkpoints are stored", async || {
        let parts = home.run(&["admin", "log", "parts", "--json"]).json();
        let parts = parts["parts"].as_array().unwrap().clone();
        parts.iter().all(|part| part["size"].as_u64().is_some_and(|size| size > 0)).then_some(parts)
    })
    .await;
    let origins = parts.iter().map(|part| (&part["part"], &part["origin"], &part["weight"])).collect::<Vec<_>>();
    let (one, zero) = (json!(1), json!(0));
    assert_eq!(origins, [(&zero, &json!("attache/log"), &one), (&one, &json!("attache/log/p1"), &one)]);
    let table = home.run(&["admin", "log", "parts"]);
    assert!(table.said().contains("attache/log/p1"), "{table:?}");
    for member in [&main.url, &further.url] {
        assert!(!table.said().contains(member.as_str()), "a password could be in it: {table:?}");
    }
    let found = findings(&home, &["--deep"]);
    assert!(found.len() > 2 && found.iter().all(|one| one["state"] == "good"), "{found:?}");

    // An epoch of one part leaves the other as it is.
    home.run(&["admin", "log", "epoch", "--part", "7", "--reason", "none"])
        .refused(1, &["no part 7", "attache admin log parts"]);
    let declared = home.run(&["admin", "log", "epoch", "--part", "1", "--reason", "a drill", "--json"]).json();
    let new = flow::text(&declared, "vkey");
    assert!(new.starts_with("attache/log/p1/epoch-"), "{declared}");
    let event = chain.next();
    flow::event(&server, &far, &event).await.receipt();
    let id = flow::text(&event, "event_id");
    eventually("the part signs with the new key", async || {
        let proof = flow::proof(&server, &far, &id).await;
        (proof["vkey"] == new).then_some(())
    })
    .await;
    home.run(&["verify", &id]).refused(1, &["another epoch of the log than the pinned key", key, &new]);
    home.run(&["verify", &id, "--vkey", &new, "--pin"]).said();
    assert_eq!(flow::profile(&home)["further_log_keys"], toml::Value::from(vec![new.clone()]));
    let event = flow::proof(&server, &near, &of_first).await;
    assert!(flow::text(&event, "vkey").starts_with(FIRST));
    let acts = home.run(&["admin", "act", "list", "--json"]).json();
    let of_epoch = acts.as_array().unwrap().iter().find(|act| act["act"] == "log_epoch").unwrap();
    assert_eq!(of_epoch["after"]["part"], 1, "{acts}");
    let parts = home.run(&["admin", "log", "parts", "--json"]).json();
    assert_eq!(parts["parts"][1]["origin"].as_str(), new.split('+').next(), "{parts}");
    stop(server).await;

    let away = self::home(&main.url, "postgres://nobody@127.0.0.1:1/none");
    let found = findings(&away, &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["state"], "bad");
    assert!(flow::text(&found[0], "found").starts_with("1: "), "{found:?}");
    let planned = away.run(&["migrate", "--dry-run"]);
    assert!(
        planned.stdout.contains("log: schema") && planned.stderr.contains("part 1 of the log is away"),
        "{planned:?}"
    );
    assert_eq!(away.run(&["migrate", "--dry-run", "--json"]).stdout.parse::<Value>().unwrap()["away"], json!([1]));
    let (server, _) = further.url.rsplit_once('/').unwrap();
    let wrong = format!("{server}/wrong");
    self::home(&main.url, &wrong)
        .run(&["serve"])
        .refused(1, &["part 1 of the log", "refuses the connection", "\"wrong\""]);
    let without = Home::new().set("database.url", &main.url);
    let parts = without.run(&["admin", "log", "parts", "--json"]).json();
    assert_eq!((&parts["parts"][1]["part"], &parts["parts"][1]["weight"]), (&json!(1), &json!(null)), "{parts}");
    let swapped = self::home(&main.url, &main.url);
    let found = findings(&swapped, &[]);
    assert!(found.iter().any(|one| one["state"] == "bad"), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_whose_database_is_lost_is_refused_until_its_next_epoch() {
    let Some(main) = harness::postgres::database().await else { return };
    let Some(further) = harness::postgres::empty_database().await else { return };
    let Some(empty) = harness::postgres::empty_database().await else { return };
    let before = home(&main.url, &further.url);
    let server = before.serve().await;
    let (far, mut chain, _) = of_part(&server, FURTHER).await;
    let parts = async || {
        let parts = before.run(&["admin", "log", "parts", "--json"]).json();
        parts["parts"][1]["size"].as_u64().is_some_and(|size| size > 0).then_some(())
    };
    eventually("its checkpoint is stored", parts).await;
    stop(server).await;

    let lost = home(&main.url, &empty.url);
    let epoch = "attache admin log epoch --part 1";
    let found = findings(&lost, &[]);
    assert_eq!((found.len(), &found[0]["state"]), (1, &json!("bad")), "{found:?}");
    assert!(flow::text(&found[0], "found").contains("there is none"), "{found:?}");
    assert!(flow::text(&found[0], "advice").contains(epoch), "{found:?}");
    lost.run(&["serve", "--no-migrate"]).refused(1, &["\"log part 1\" is not up to date", "attache migrate"]);
    let origin = || before.run(&["admin", "log", "parts", "--json"]).json()["parts"][0]["origin"].clone();
    for _ in 0..2 {
        lost.run(&["serve"]).refused(1, &["part 1 of the log", "there is none", epoch]);
        lost.run(&["serve", "--new-log"]).refused(1, &["part 1 of the log", epoch]);
        assert_eq!(origin(), "attache/log", "the refused start has begun no epoch of the first part");
    }
    let epoch =
        |more: &[&str]| lost.run(&[&["admin", "log", "epoch", "--reason", "its disk burnt", "--json"], more].concat());
    epoch(&["--part", "1"]).refused(1, &["the database of part 1 is empty", "--lost"]);
    epoch(&["--part", "0", "--lost"]).refused(1, &["serve --new-log"]);
    before
        .run(&["admin", "log", "epoch", "--reason", "none", "--part", "1", "--lost"])
        .refused(1, &["has the log that the main database remembers"]);
    let server = before.serve().await;
    let mut operator = PgConnection::connect(&main.url).await.unwrap();
    while sqlx::query("SELECT 1 FROM nodes").fetch_optional(&mut operator).await.unwrap().is_none() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    epoch(&["--part", "1", "--lost"]).refused(1, &["stop all nodes first"]);
    stop(server).await;
    let declared = epoch(&["--part", "1", "--lost"]).json();
    assert!(flow::text(&declared, "vkey").starts_with("attache/log/p1/epoch-"), "{declared}");
    let server = lost.serve().await;
    flow::event(&server, &far, &chain.next()).await.refused(409, "chain_conflict");
    chain.begin_epoch();
    flow::event(&server, &far, &chain.next()).await.receipt();
    stop(server).await;
    let found = findings(&lost, &["--deep"]);
    assert!(found.len() > 2 && found.iter().all(|one| one["state"] == "good"), "{found:?}");
}

/// The prefix of the key of the part that has the first event of a chain.
async fn origin_of(server: &Server, machine: &Machine, chain: &mut Chain) -> String {
    let event = chain.next();
    flow::event(server, machine, &event).await.receipt();
    let proof = flow::proof(server, machine, &flow::text(&event, "event_id")).await;
    flow::text(&proof, "vkey").split('+').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_grows_by_one_part_and_by_another() {
    let Some(main) = harness::postgres::empty_database().await else { return };
    let Some(one) = harness::postgres::empty_database().await else { return };
    let Some(two) = harness::postgres::empty_database().await else { return };
    let grown = |further: &[(&str, u32)]| {
        let parts = (1..).zip(further);
        let parts = parts.map(|(number, (url, weight))| format!("{{number={number},url={url:?},weight={weight}}}"));
        let parts = format!("[{}]", parts.collect::<Vec<_>>().join(","));
        Home::new().set("database.url", &main.url).set("log.weight", "0").set("log.part", &parts)
    };
    let mut chains = Vec::new();
    let stages = [
        (Home::new().set("database.url", &main.url), "attache/log"),
        (grown(&[(&one.url, 1)]), "attache/log/p1"),
        (grown(&[(&one.url, 0), (&two.url, 1)]), "attache/log/p2"),
    ];
    let mut operator = PgConnection::connect(&main.url).await.unwrap();
    for (stage, (home, of_new)) in stages.iter().enumerate() {
        if stage > 0 {
            // A node of another version would write events of the part's computers into the first part.
            sqlx::query("UPDATE nodes SET last_beat_at = now()").execute(&mut operator).await.unwrap();
            home.run(&["serve"]).refused(1, &["of the log is new", "runs version 0.0.1", "upgrade or stop it first"]);
            sqlx::query("DELETE FROM nodes").execute(&mut operator).await.unwrap();
        }
        let server = home.serve().await;
        for _ in 0..3 {
            let machine = flow::machine(&server).await;
            let mut chain = Chain::new(&machine);
            assert_eq!(origin_of(&server, &machine, &mut chain).await, *of_new);
            chains.push((machine, chain, *of_new));
        }
        for (machine, chain, origin) in &mut chains {
            assert_eq!(origin_of(&server, machine, chain).await, *origin, "a computer stays in its part");
        }
        let found = home.run(&["doctor", "--deep", "--json"]).json();
        let found = found["findings"].as_array().unwrap();
        let of_logs =
            found.iter().filter(|one| ["log", "log part", "installation"].contains(&one["about"].as_str().unwrap()));
        assert!(of_logs.clone().count() >= 2 && of_logs.clone().all(|one| one["state"] == "good"), "{found:?}");
        let older = r#"INSERT INTO nodes SELECT (jsonb_populate_record(node,
            '{"id":"00000000-0000-7000-8000-000000000000","version":"0.0.1"}')).* FROM nodes node"#;
        eventually("the node beats", async || {
            let mut operator = PgConnection::connect(&main.url).await.unwrap();
            (sqlx::query(older).execute(&mut operator).await.unwrap().rows_affected() == 1).then_some(())
        })
        .await;
        stop(server).await;
    }
    stages[1].0.run(&["serve"]).refused(1, &["the main database knows part 2 of the log"]);
    stages[0].0.run(&["serve"]).refused(1, &["the main database knows part 1 of the log"]);
}
