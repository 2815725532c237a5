//! `attache check` and `migrate`, and how each command reports faults of its arguments and its configuration.

use blackbox::process::Home;
use serde_json::json;

#[test]
fn a_valid_configuration_is_reported_with_its_effect() {
    let home = Home::new().set("http.base_url", "https://attache.example.com");
    let output = home.run(&["check"]);
    let said = output.said();
    for part in ["valid", "127.0.0.1:0", "https://attache.example.com", "SQLite in", "embedded"] {
        assert!(said.contains(part), "{said}");
    }
    let output = home
        .set("database.url", "postgres://ada:hunter2@db.example/attache")
        .set("upstream.url", "https://up.example")
        .run(&["check"]);
    let said = output.said();
    assert!(said.contains("PostgreSQL") && said.contains("https://up.example"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}

#[test]
fn the_url_of_a_database_is_checked_as_it_is_used() {
    let several = "postgres://ada:hunter2@h1:5432,h2:5433/attache?target_session_attrs=read-write";
    Home::new().set("database.url", several).run(&["check"]).said();
    for (url, part) in [
        ("postgres://ada:hunter2@h1:x,h2:5433/attache", "\"x\" is not a port"),
        ("postgres://ada:hunter2@/attache?host=a,b&port=1,2,3", "2 hosts and 3 ports"),
        ("postgres://ada:hunter2@h1/attache?target_session_attrs=standby", "use read-write"),
        ("mysql://ada:hunter2@h1/attache", "does not begin with postgres://"),
    ] {
        for command in ["check", "serve"] {
            let output = Home::new().set("database.url", url).run(&[command]);
            let complaint = output.refused(78, &["database.url: cannot be used", part]);
            assert!(!complaint.contains("hunter2"), "{complaint}");
        }
    }
}

#[test]
fn every_mistake_is_shown_at_once_with_its_line() {
    let home = Home::new().set("events.wrkers", "3");
    let path = home.dir.path().join("broken.toml");
    let text = "[http]\nbind = \"nowhere\"\nbnd = 1\n\n[log]\ncheckpoint_every = \"2s\"\n[actors.intake]\nqueue_max = -1\n[evnts]\nx = 1\n";
    std::fs::write(&path, text).unwrap();
    let mistakes = [
        "broken.toml:2: http.bind: ",
        "broken.toml:3: http.bnd: is not a setting; did you mean http.bind?",
        "broken.toml:8: actors.intake.queue_max: ",
        "broken.toml:9: evnts: is not a setting; did you mean events?",
        "ATTACHE_EVENTS__WRKERS: events.wrkers: is not a setting; did you mean events.workers?",
        "configuration errors",
    ];
    for command in ["check", "serve", "migrate"] {
        let output = home.run(&["--config", path.to_str().unwrap(), command]);
        output.refused(78, &mistakes);
        assert_eq!(output.stdout, "");
    }
    home.run(&["admin", "machine", "list", "--config", path.to_str().unwrap()]).refused(78, &mistakes);
    assert!(!home.data().exists(), "nothing is touched by a configuration that is wrong");
}

#[test]
fn values_that_do_not_go_together_are_mistakes_too() {
    let home = Home::new().set("machines.registration", "key").set("events.third_party_agents", "[\"one\"]");
    home.run(&["check"]).refused(
        78,
        &["machines.enrolment_key: ", "ATTACHE_EVENTS__THIRD_PARTY_AGENTS: events.third_party_agents: exactly six"],
    );
}

#[test]
fn a_registry_that_cannot_be_read_is_refused_with_its_cause() {
    let home = Home::new();
    let registry = home.dir.path().join("registry.toml");
    std::fs::write(&registry, "[events\n").unwrap();
    home.set("events.registry", registry.to_str().unwrap())
        .run(&["check"])
        .refused(78, &["events.registry: the event registry cannot be read: TOML parse error"]);
}

#[test]
fn a_file_that_was_named_must_be_there_and_be_toml() {
    let home = Home::new();
    home.run(&["check", "--config", "nowhere.toml"]).refused(78, &["nowhere.toml: cannot be read", "--config"]);
    std::fs::write(home.dir.path().join("config.toml"), "[http\n").unwrap();
    home.run(&["check"]).refused(78, &["config.toml:1: "]);
    // The file of the working folder counts without being named.
    std::fs::write(home.dir.path().join("config.toml"), "[http]\nauth_name = \"other\"\n").unwrap();
    home.run(&["check"]).said();
    home.run(&["migrate"]).said();
    let cookie = home.run(&["admin", "session", "create", "--email", "ada@example.com"]);
    assert!(cookie.said().starts_with("other.session_token=ses_"), "{cookie:?}");
}

#[test]
fn settings_are_shown_with_their_places_and_secrets_are_not() {
    let home = Home::new().set("actors.ordered.queue_max", "7").set("upstream.token", "hidden");
    let file = "[actors.ordered]\nqueue_max = 8\n[limits]\nsign_ins_per_minute = 9\n[http]\nauth_name = \"other\"\n";
    std::fs::write(home.dir.path().join("config.toml"), file).unwrap();
    let shown = home.run(&["config", "show", "--json"]).json();
    let row = |path: &str| shown.as_array().unwrap().iter().find(|row| row["path"] == path).unwrap().clone();
    let queue = row("actors.ordered.queue_max");
    assert_eq!(
        (&queue["value"], &queue["source"], &queue["change"]),
        (&json!(7), &json!("environment"), &json!("live"))
    );
    assert_eq!((&queue["default"], &queue["file"], &queue["environment"]), (&json!(400), &json!(8), &json!(7)));
    let limit = row("limits.sign_ins_per_minute");
    assert_eq!((&limit["value"], &limit["source"], &limit["environment"]), (&json!(9), &json!("file"), &json!(null)));
    assert_eq!(
        (&row("http.auth_name")["change"], &row("mail.smtp.url")["change"]),
        (&json!("restart"), &json!("never"))
    );
    assert!(row("upstream.token")["value"] == "…" && !shown.to_string().contains("hidden"));
    let section = home.run(&["config", "show", "shutdown"]);
    assert!(section.said().contains("shutdown.lame_duck") && section.said().lines().count() == 3, "{section:?}");
    home.run(&["config", "show", "shut"]).refused(4, &["no setting has this path"]);
    std::fs::write(home.dir.path().join("config.toml"), "[limits]\nsign_ins_per_minute = -1\n").unwrap();
    home.run(&["config", "show"]).refused(78, &["config.toml:2: limits.sign_ins_per_minute"]);
}

#[test]
fn wrong_usage_is_2_and_help_is_help() {
    let home = Home::new();
    for arguments in [
        &["--nonsense"][..],
        &["nonsense"],
        &["admin"],
        &["admin", "machine", "add"],
        &["admin", "machine", "remove", "not-a-uuid"],
        &["admin", "session", "create", "--email", "nobody"],
        &["admin", "held", "list", "--reason", "boredom"],
        &["admin", "held", "show", "x"],
        &["verify"],
        &["keys"],
        &["check", "--config"],
    ] {
        let output = home.run(arguments);
        assert_eq!(output.code, Some(2), "{output:?}");
        assert!(!output.stderr.is_empty(), "{output:?}");
    }
    assert!(home.run(&["--help"]).said().contains("Usage: attache"));
    assert!(home.run(&["--version"]).said().starts_with("attache "));
    assert!(!home.data().exists());
}

#[test]
fn migrate_creates_both_databases_and_changes_nothing_when_repeated() {
    let home = Home::new();
    for _ in 0..2 {
        assert_eq!(home.run(&["migrate"]).said(), "the databases have the current schema");
    }
    let files = std::fs::read_dir(home.data()).unwrap().count();
    assert!(files >= 2, "{files} files");
    assert_eq!(home.run(&["admin", "machine", "list"]).said(), "(none)");
    assert_eq!(home.run(&["admin", "machine", "list", "--json"]).json(), json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn migrate_serve_and_operators_work_on_postgres() {
    let Some(database) = harness::postgres::empty_database().await else { return };
    let home = Home::new().set("database.url", &database.url);
    home.run(&["migrate"]).said();
    home.run(&["migrate"]).said();
    let server = home.serve().await;
    blackbox::flow::machine(&server).await;
    assert_eq!(home.run(&["admin", "machine", "list", "--json"]).json().as_array().unwrap().len(), 1);
    let files: Vec<_> = std::fs::read_dir(home.data()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(
        files.iter().all(|name| name == "checkpoint.json" || name == "operator.sock"),
        "nothing else lives in files: {files:?}"
    );
}

#[test]
fn a_database_that_cannot_be_had_is_named() {
    let home = Home::new();
    std::fs::write(home.data(), "in the way").unwrap();
    for arguments in [&["migrate"][..], &["serve"], &["admin", "agent", "list"], &["keys", "list"]] {
        home.run(arguments).refused(78, &["ATTACHE_DATA__DIR: data.dir: is a file"]);
    }
    // Port 1 has no listener, and the password must not be printed.
    let home = Home::new()
        .set("database.url", "postgres://ada:hunter2@127.0.0.1:1/attache")
        .set("database.acquire_timeout", "1s");
    for arguments in [&["migrate"][..], &["serve"]] {
        let output = home.run(arguments);
        let complaint = output.refused(1, &["the database"]);
        assert!(!complaint.contains("hunter2"), "{complaint}");
    }
}

#[test]
fn a_file_that_is_no_database_is_refused_and_not_changed() {
    let home = Home::new();
    home.run(&["migrate"]).said();
    let files: Vec<_> = std::fs::read_dir(home.data()).unwrap().map(|entry| entry.unwrap().path()).collect();
    for path in &files {
        std::fs::write(path, "this is not a database, it is a letter to whoever reads it\n".repeat(200)).unwrap();
    }
    let before: Vec<_> = files.iter().map(|path| std::fs::read(path).unwrap()).collect();
    home.run(&["serve"]).refused(1, &["attache: "]);
    let after: Vec<_> = files.iter().map(|path| std::fs::read(path).unwrap()).collect();
    assert!(before == after, "the letter was changed");
}

#[test]
fn the_description_of_the_api_is_printed_with_the_configured_addresses() {
    let home = Home::new().set("http.base_url", "https://attache.example.com").set("http.auth_name", "house");
    let document = home.run(&["openapi"]).json();
    assert_eq!(
        (&document["openapi"], &document["servers"][0]["url"]),
        (&"3.1.0".into(), &"https://attache.example.com".into())
    );
    assert_eq!(document["components"]["securitySchemes"]["sessionCookie"]["name"], "__Secure-house.session_token");
    assert_eq!(document["paths"]["/v1/search"].get("servers"), None);
    let apart = home.set("knowledge.base_url", "https://memory.example.com").run(&["openapi"]).json();
    assert_eq!(apart["paths"]["/v1/search"]["servers"][0]["url"], "https://memory.example.com");
}
