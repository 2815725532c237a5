//! `attache add`: the command follows a batch to its end, also if the command or the server is interrupted.

use std::time::Duration;

use serde_json::{Value, json};

use blackbox::flow;
use blackbox::process::{Home, Process};
use blackbox::site::Site;

fn write(home: &Home, name: &str, text: impl AsRef<[u8]>) -> String {
    std::fs::write(home.dir.path().join(name), text).unwrap();
    name.to_owned()
}

/// The batch that the first line names.
async fn batch_of(adding: &Process) -> String {
    assert!(adding.stdout.reach(1).await, "{}", adding.stderr.text());
    let text = adding.stdout.text();
    text.lines().next().unwrap().strip_prefix("batch ").unwrap_or_else(|| panic!("{text}")).to_owned()
}

fn search(home: &Home, query: &str) -> Value {
    home.run(&["search", query, "--limit", "1", "--json"]).json()["results"][0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_pages_and_standard_input_are_added_and_found() {
    let (site, address) = Site::start().await;
    site.put("bees", "<title>Bees</title><p>The honeybee tells its sisters with a dance where the flowers are.</p>");
    let home = flow::beside(Home::new(), address);
    let _server = flow::library(&home).await;
    write(&home, "roses.md", "\n# Roses\n\nPrune roses in March, when the forsythia is in bloom.\n");
    write(&home, "tomatoes.txt", "They want warm soil, a stake, and water at the root.");
    let bees = format!("http://{address}/bees");
    let output = home.run(&["add", "roses.md", &bees, "tomatoes.txt"]);
    let lines: Vec<&str> = output.said().lines().collect();
    assert_eq!((lines.len(), *lines.last().unwrap()), (5, "3 added"), "{output:?}");
    assert!(lines[0].starts_with("batch ") && lines.contains(&&*format!("added    {bees}")), "{output:?}");
    assert_eq!(search(&home, "when do I cut back my roses")["title"], "Roses");
    assert_eq!(search(&home, "warm soil and a stake")["title"], "tomatoes.txt");
    assert_eq!(search(&home, "dance of the honeybee")["url"], bees);

    let text = b"Bread wants a night in the cold.";
    let output = home.run_with_input(&["add", "-", "--title", "Bread", "--json"], text);
    let value = output.json();
    assert_eq!((value["batches"].as_array().unwrap().len(), value["added"].as_array().unwrap().len()), (1, 1));
    assert_eq!((&value["skipped"], &value["failed"]), (&json!([]), &json!([])));
    let results = search(&home, "bread");
    assert_eq!(
        (&results["title"], &results["id"], &results["url"]),
        (&json!("Bread"), &value["added"][0]["id"], &value["added"][0]["url"])
    );
    // The same input again adds no memory.
    let again = home.run_with_input(&["add", "-", "--json"], text).json();
    assert_eq!(again["added"], value["added"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn spaces_are_created_listed_and_named_by_name_or_id() {
    let home = Home::new();
    let _server = flow::library(&home).await;
    let made = home.run(&["space", "create", "Garden", "--json"]).json();
    assert_eq!((&made["name"], &made["isPublic"]), (&json!("Garden"), &json!(false)));
    let output = home.run(&["space", "create", "Open garden", "--public"]);
    assert!(output.said().starts_with("space Open garden is created: "), "{output:?}");
    home.run(&["space", "create", "Garden"]).said();
    let table = home.run(&["space", "list"]);
    assert!(table.said().contains("Open garden") && table.said().contains("owner"), "{table:?}");
    assert_eq!(home.run(&["space", "list", "--json"]).json().as_array().unwrap().len(), 3);
    home.run(&["space", "create", " "]).refused(1, &["invalid_request"]);

    write(&home, "note.md", "Hedgehogs sleep under the leaves.");
    home.run(&["add", "note.md", "--space", "Garden"])
        .refused(1, &["several spaces have the name \"Garden\"", "space list"]);
    home.run(&["add", "note.md", "--space", "Cellar"]).refused(4, &["no space \"Cellar\"", "space create"]);
    home.run(&["add", "note.md", "--space", &flow::uuid()]).refused(5, &["space_forbidden"]);
    home.run(&["add", "note.md", "--space", "Open garden", "--space", &flow::text(&made, "id")]).said();
    let found = |space: &str| home.run(&["search", "hedgehogs", "--space", space, "--json"]).json()["results"].clone();
    assert_eq!(found("Open garden").as_array().unwrap().len(), 1);
    assert_eq!(found(&flow::text(&made, "id")).as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_items_are_listed_and_the_others_are_added() {
    let (_site, address) = Site::start().await;
    let home = flow::beside(Home::new(), address);
    let _server = flow::library(&home).await;
    let list = format!("# pages\nhttp://{address}/text\n\nhttp://{address}/nowhere\nhttp://10.0.0.1/\nnonsense\n");
    write(&home, "list", list);
    let output = home.run(&["add", "--list", "list"]);
    output.refused(1, &["3 items could not be added"]);
    for line in [
        &*format!("added    http://{address}/text"),
        &*format!("failed   http://{address}/nowhere: http_404: "),
        "failed   http://10.0.0.1/: blocked_address: ",
        "failed   nonsense: invalid_url: ",
        "1 added, 3 failed",
    ] {
        assert!(output.stdout.contains(line), "{line}: {output:?}");
    }
    let output = home.run(&["add", "--list", "list", "--json"]);
    output.refused(1, &["3 items could not be added"]);
    let value: Value = serde_json::from_str(&output.stdout).unwrap();
    let mut failed: Vec<_> = value["failed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| (item["index"].as_u64().unwrap(), item["error"].as_str().unwrap()))
        .collect();
    failed.sort_unstable();
    assert_eq!(failed, [(1, "http_404"), (2, "blocked_address"), (3, "invalid_url")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_items_than_a_batch_holds_are_sent_as_several_batches() {
    let home = Home::new();
    let _server = flow::library(&home).await;
    let list: Vec<String> = (0..601).map(|nth| format!("http://10.0.0.1/{nth}")).collect();
    write(&home, "list", list.join("\n"));
    let output = home.run(&["add", "--list", "list", "--json"]);
    output.refused(1, &["601 items could not be added"]);
    let value: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((value["batches"].as_array().unwrap().len(), value["failed"].as_array().unwrap().len()), (2, 601));
    let output = home.run(&["add", "--list", "list"]);
    assert!(
        output.stdout.contains("batch 1 of 2  batch ") && output.stdout.contains("batch 2 of 2  batch "),
        "{output:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn filtered_items_are_reported_and_are_no_failure() {
    let home = Home::new();
    let server = flow::library(&home).await;
    let key = std::fs::read_to_string(flow::profile_folder(&home).join("profile.toml")).unwrap();
    let key = toml::from_str::<toml::Table>(&key).unwrap()["api_key"].as_str().unwrap().to_owned();
    let client = blackbox::client::Client::new();
    let url = format!("{}/v1/settings", server.url);
    let put = client.request(reqwest::Method::PUT, &url, &blackbox::client::Credential::Bearer(key));
    let settings = json!({ "excludeItems": ["sponsored"], "shouldLLMFilter": true });
    client.try_send(put.json(&settings)).await.unwrap().expect(200);
    write(&home, "a.md", "A sponsored note.");
    write(&home, "b.md", "An honest note.");
    let output = home.run(&["add", "a.md", "b.md"]);
    assert!(output.said().ends_with("1 added, 1 skipped") && output.stdout.contains("skipped  item 0: "), "{output:?}");
    let value = home.run(&["add", "a.md", "--json"]).json();
    assert_eq!((value["skipped"][0]["index"].as_u64(), &value["added"]), (Some(0), &json!([])));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_unreadable_files_are_reported_before_anything_is_added() {
    let home = Home::new();
    let _server = flow::library(&home).await;
    write(&home, "good.md", "# Good");
    write(&home, "empty.md", " \n");
    write(&home, "binary.md", [0xff, 0xfe, 0x00]);
    write(&home, "zero.md", "a\0b");
    write(&home, "huge.md", "x".repeat(1024 * 1024 + 1));
    std::fs::create_dir(home.dir.path().join("folder")).unwrap();
    let output = home.run(&[
        "add",
        "good.md",
        "empty.md",
        "binary.md",
        "zero.md",
        "huge.md",
        "example.com",
        "--list",
        "nowhere",
    ]);
    let reasons = [
        "nothing was added:",
        "empty.md: is empty",
        "binary.md: is not UTF-8 text",
        "zero.md: is not text",
        "huge.md: is larger than 1 MiB",
        "example.com: No such file or directory (os error 2); URLs begin with https://",
        "nowhere: No such file",
    ];
    output.refused(1, &reasons);
    home.run(&["add", "good.md", "folder"]).refused(2, &["separate commands"]);
    home.run(&["add", "good.md", "https://example.com/", "good.md", "--title", "x"])
        .refused(1, &["--title requires a single note"]);
    write(&home, "comments", "# nothing\n");
    home.run(&["add", "--list", "comments"]).refused(1, &["the list contains no URL"]);
    home.run(&["add"]).refused(2, &["URL|FILE|FOLDER|-"]);
    home.run(&["add", "good.md", "--join", &flow::uuid()]).refused(2, &["cannot be used with"]);
    assert_eq!(home.run(&["search", "good"]).said(), "no results");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_add_continues_on_the_server_and_can_be_rejoined() {
    let (site, address) = Site::start().await;
    let home = flow::beside(Home::new(), address);
    let _server = flow::library(&home).await;
    write(&home, "note.md", "A note that needs no web server.");
    let gated = format!("http://{address}/gated");
    let mut adding = home.start(&["add", &gated, "note.md"]);
    let batch = batch_of(&adding).await;
    assert!(adding.stdout.reach(2).await);
    adding.signal("INT");
    assert_eq!(adding.exit().await.code(), Some(1));
    for words in [
        "interrupted",
        "continues on the server",
        &*format!("attache add --join {batch}"),
        &*format!("attache add --cancel {batch}"),
    ] {
        assert!(adding.stderr.text().contains(words), "{}", adding.stderr.text());
    }
    assert!(adding.stdout.text().ends_with("1 added\n"), "{}", adding.stdout.text());
    site.open_gate();
    let output = home.run(&["add", "--join", &batch]);
    assert!(output.said().contains(&format!("added    {gated}")) && output.said().ends_with("2 added"), "{output:?}");
    assert_eq!(home.run(&["add", "--join", &batch, "--json"]).json()["added"].as_array().unwrap().len(), 2);

    let silent = format!("http://{address}/silent");
    let mut adding = home.start(&["add", &silent]);
    let batch = batch_of(&adding).await;
    adding.signal("INT");
    assert_eq!(adding.exit().await.code(), Some(1));
    assert_eq!(home.run(&["add", "--cancel", &batch]).said(), format!("batch {batch} is cancelled"));
    let output = home.run(&["add", "--join", &batch]);
    output.refused(1, &["1 item could not be added"]);
    assert!(output.stdout.contains(&format!("failed   {silent}: cancelled: ")), "{output:?}");
    for option in ["--join", "--cancel"] {
        home.run(&["add", option, &flow::uuid()]).refused(4, &["not_found"]);
        home.run(&["add", option, "nonsense"]).refused(2, &[option]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_under_it_is_waited_for() {
    let (site, address) = Site::start().await;
    let (home, _) = flow::at_fixed_address();
    let home = flow::beside(home, address);
    let mut server = flow::library(&home).await;
    write(&home, "note.md", "A note that needs no web server.");
    let gated = format!("http://{address}/gated");
    let mut adding = home.start(&["add", &gated, "note.md", "--json"]);
    // The note is there: half of the batch is done.
    blackbox::eventually("the note is found", async || {
        let found = home.run(&["search", "web server", "--json"]).json();
        (!found["results"].as_array().unwrap().is_empty()).then_some(())
    })
    .await;
    server.process.kill();
    let _server = home.serve().await;
    // The killed server may have requested the page too.
    let gate = tokio::spawn(async move {
        loop {
            site.open_gate();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    assert_eq!(adding.exit().await.code(), Some(0), "{}", adding.stderr.text());
    gate.abort();
    let value: Value = serde_json::from_str(&adding.stdout.text()).unwrap();
    assert_eq!((value["added"].as_array().unwrap().len(), &value["failed"]), (2, &json!([])));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_or_a_key_the_next_step_is_named() {
    let (home, url) = flow::at_fixed_address();
    write(&home, "note.md", "x");
    let commands: [&[&str]; 4] = [&["add", "note.md"], &["search", "x"], &["space", "list"], &["space", "create", "x"]];
    let each = |reasons: &[&str]| {
        for command in commands {
            home.run(command).refused(5, reasons);
        }
    };
    each(&["no API key", "/account/access", "ATTACHE_API_KEY"]);
    flow::keep_profile(&home, &url, None, Some("at_wrong"));
    each(&["keys begin with \"ak_\""]);
    flow::keep_profile(&home, &url, None, Some(&format!("ak_{}", "A".repeat(43))));
    home.run(&["add", "note.md"]).refused(7, &["cannot be reached", "1 item was not sent"]);
    let _server = home.serve().await;
    each(&["unauthorized"]);
}
