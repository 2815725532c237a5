//! Commands on a log of two parts: keys, proofs and checkpoints of each, `attache doctor` and `attache admin log`.

use blackbox::process::{Home, Server};
use blackbox::{eventually, flow};
use harness::event::{Chain, Machine};
use serde_json::{Value, json};

use crate::installation::stop;

const FIRST: &str = "attache/log+";
const FURTHER: &str = "attache/log/p1+";

/// A server whose log has a part on another database.
fn home(main: &str, further: &str) -> Home {
    Home::new().set("database.url", main).set("log.part", &format!("[{{number=1,url={further:?}}}]"))
}

/// A computer whose events are in the log with such a key, and the id of its first event.
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
    for arguments in [&["audit", "watch", "--once"][..], &["audit", "watch", "--once", "--vkey", key]] {
        let watched = home.run(arguments);
        assert!(watched.said().contains("events, root"), "{watched:?}");
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
    assert_eq!(flow::profile(&home)["further_log_keys"], toml::Value::from(vec![new]));
    let event = flow::proof(&server, &near, &of_first).await;
    assert!(flow::text(&event, "vkey").starts_with(FIRST));
    stop(server).await;

    let away = self::home(&main.url, "postgres://nobody@127.0.0.1:1/none");
    let found = findings(&away, &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["state"], "bad");
    assert!(flow::text(&found[0], "found").starts_with("1: "), "{found:?}");
    let swapped = self::home(&main.url, &main.url);
    let found = findings(&swapped, &[]);
    assert!(found.iter().any(|one| one["state"] == "bad"), "{found:?}");
}
