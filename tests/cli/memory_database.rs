//! A separate database of the memory: the move, its outage, and commands about it.

use blackbox::client::{Client, Credential};
use blackbox::library::{assert_stored, key_of, notes, rejoin, request};
use blackbox::process::{Home, Server};
use blackbox::stream::Stream;
use blackbox::{eventually, flow};
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::installation::stop;

fn findings(home: &Home, arguments: &[&str]) -> Vec<Value> {
    let output = home.run(&[&["doctor", "--json"], arguments].concat());
    let found: Value = serde_json::from_str(&output.stdout).unwrap();
    found["findings"].as_array().unwrap().iter().filter(|one| one["about"] == "memory database").cloned().collect()
}

async fn add(server: &Server, key: &str, body: &Value) -> Stream {
    Stream::open(request(server, key, Method::POST, "/v1/batch-add").json(body).send().await.unwrap()).await
}

async fn search(server: &Server, key: &str) -> (u16, Value) {
    let body = json!({ "query": "subject7", "limit": 1 });
    let response = request(server, key, Method::POST, "/v1/search").json(&body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// The reason why the memory is degraded, if it is.
async fn degraded(server: &Server) -> Option<String> {
    let ready = Client::new().get(&format!("{}/readyz", server.operator), Credential::None).await.expect(200);
    let parts = ready["degraded"].as_array().cloned().unwrap_or_default();
    parts.iter().find(|part| part["part"] == "memory").map(|part| flow::text(part, "reason"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_moves_and_its_outage_stops_nothing_else() {
    let Some(main) = harness::postgres::database().await else { return };
    let Some(memory) = harness::postgres::cluster().await else { return };
    let home = Home::new().set("database.url", &main.url).set("knowledge.batch.lease", "1s");
    let key = key_of(&home);
    let server = home.serve().await;
    let messages = add(&server, &key, &notes(12)).await.rest().await;
    assert_stored(&server, &key, &messages).await;
    home.run(&["admin", "memory", "move"]).refused(1, &["knowledge.database.url is not set"]);

    let home = home.set("knowledge.database.url", &memory.url);
    eventually("the node has a row", async || {
        let nodes = home.run(&["admin", "node", "list", "--json"]).json();
        (!nodes.as_array().unwrap().is_empty()).then_some(())
    })
    .await;
    home.run(&["admin", "memory", "move"]).refused(1, &["runs", "stop all nodes first"]);
    stop(server).await;
    home.run(&["serve"]).refused(1, &["the main database has memories", "attache admin memory move"]);
    let found = findings(&home, &[]);
    assert_eq!((found.len(), &found[0]["state"]), (1, &json!("bad")), "{found:?}");
    assert!(home.run(&["migrate", "--dry-run"]).said().contains("memory: schema 0"));
    let moved = home.run(&["admin", "memory", "move", "--json", "--reason", "a drill"]).json();
    assert_eq!(moved["rows"]["memories"], 12, "{moved}");
    let acts = home.run(&["admin", "act", "list", "--json"]).json();
    assert_eq!(
        (&acts[0]["act"], &acts[0]["outcome"], &acts[0]["reason"]),
        (&json!("memory_move"), &json!("applied"), &json!("a drill"))
    );
    home.run(&["admin", "memory", "move"]).refused(1, &["already in a separate database"]);

    let mut server = home.serve().await;
    assert_stored(&server, &key, &messages).await;
    assert_eq!(degraded(&server).await, None);
    let found = findings(&home, &["--deep"]);
    assert!(found.len() == 6 && found.iter().all(|one| one["state"] == "good"), "{found:?}");

    // Its server dies: a batch waits, and other requests notice nothing.
    let machine = flow::machine(&server).await;
    let mut chain = harness::event::Chain::new(&machine);
    memory.stop("immediate");
    let stream = add(&server, &key, &json!({ "contents": [{ "content": "A note during the outage" }] })).await;
    let batch = stream.batch.clone();
    flow::event(&server, &machine, &chain.next()).await.receipt();
    assert_eq!(search(&server, &key).await.0, 503);
    let person = flow::session(&home, "ada@example.com");
    let home_page = Client::new().get(&format!("{}/account", server.url), person).await;
    assert_eq!(home_page.status, 200);
    assert!(String::from_utf8_lossy(&home_page.body).contains("Memories are not available at the moment"));
    eventually("the outage is reported", async || degraded(&server).await).await;
    assert_eq!(findings(&home, &[])[0]["state"], "bad");

    // Nor does a start wait for it.
    stop(server).await;
    server = home.serve().await;
    assert!(degraded(&server).await.unwrap().contains("away"));
    flow::event(&server, &machine, &chain.next()).await.receipt();
    assert_eq!(search(&server, &key).await.0, 503);
    memory.start();
    eventually("the memory is found again", async || (search(&server, &key).await.0 == 200).then_some(())).await;
    let rest = rejoin(&server, &key, &batch, None).await.rest().await;
    assert!(rest.iter().any(|message| message["id"].is_string()), "{rest:?}");
    eventually("the outage is over", async || degraded(&server).await.is_none().then_some(())).await;
    stop(server).await;

    let without = Home::new().set("database.url", &main.url);
    without.run(&["serve"]).refused(1, &["the memory is in another database: set knowledge.database.url"]);
    let found = findings(&without, &[]);
    assert_eq!((found.len(), &found[0]["state"]), (1, &json!("bad")), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_returns_is_not_migrated_by_a_start_that_migrates_none() {
    let Some(main) = harness::postgres::database().await else { return };
    let Some(absent) = harness::postgres::cluster().await else { return };
    let mut operator = PgConnection::connect(&absent.url).await.unwrap();
    sqlx::query("CREATE DATABASE part").execute(&mut operator).await.unwrap();
    let (rest, _) = absent.url.rsplit_once('/').unwrap();
    let part = format!("{rest}/part");
    let home = Home::new()
        .set("database.url", &main.url)
        .set("knowledge.database.url", &absent.url)
        .set("log.part", &format!("[{{number=1,url={part:?}}}]"));
    let wrong = Home::new().set("database.url", &main.url).set("knowledge.database.url", &format!("{rest}/wrong"));
    wrong.run(&["serve"]).refused(1, &["knowledge.database.url", "refuses the connection", "\"wrong\""]);
    home.run(&["migrate"]).said();
    let databases = [(&absent.url, "_sqlx_migrations"), (&part, "statistics._sqlx_migrations")];
    // Tables of an older version, which knew another first migration.
    let change = async || {
        for (url, table) in databases {
            let mut connection = PgConnection::connect(url).await.unwrap();
            let change = AssertSqlSafe(format!("UPDATE {table} SET version = -version"));
            sqlx::query(change).execute(&mut connection).await.unwrap();
        }
    };
    change().await;
    absent.stop("fast");
    let mut process = home.start(&["serve", "--no-migrate"]);
    process.ready_line().await;
    absent.start();
    let degraded = async || home.operate(Method::GET, "/readyz", None).await.1["degraded"].to_string();
    eventually("both are refused", async || {
        let is_refused = |text: &str| text.contains("this program needs");
        (is_refused(&degraded().await) && is_refused(&process.stderr.text())).then_some(())
    })
    .await;
    for (url, table) in databases {
        let mut connection = PgConnection::connect(url).await.unwrap();
        let newest = AssertSqlSafe(format!("SELECT MAX(version) FROM {table}"));
        assert_eq!(sqlx::query_scalar::<_, i64>(newest).fetch_one(&mut connection).await.unwrap(), -1, "{table}");
    }
    change().await;
    eventually("both are open", async || {
        let degraded = degraded().await;
        (!degraded.contains("memory") && !degraded.contains("part")).then_some(())
    })
    .await;
    process.signal("TERM");
    assert_eq!(process.exit().await.code(), Some(0), "{}", process.stderr.text());
}
