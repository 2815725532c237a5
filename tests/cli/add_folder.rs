//! `attache add FOLDER`: the files of a folder, once each, and again when they change.

use std::path::Path;

use serde_json::json;

use blackbox::eventually;
use blackbox::flow;
use blackbox::process::Home;

fn write(folder: &Path, name: &str, text: impl AsRef<[u8]>) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_run_adds_only_what_changed() {
    let home = Home::new();
    let _server = flow::library(&home).await;
    let folder = home.dir.path().join("notes");
    write(&folder, "bees.md", "# Bees\n\nA honeybee steers by the sun.");
    write(&folder, "sea/tides.txt", "The moon pulls the sea.");
    write(
        &folder,
        "page.html",
        "<title>Bread</title><article><p>Let the dough rest in the cold overnight, then bake it in a closed pot.</p></article>",
    );
    write(&folder, ".hidden/secret.md", "not this");
    write(&folder, "program.rs", "fn main() {}");
    write(&folder, "broken.txt", [0xff, 0xfe, 0x00]);
    let first = home.run(&["add", "notes", "--json"]);
    assert_eq!(first.code, Some(0), "{first:?}");
    assert!(first.stderr.contains("left out: ") && first.stderr.contains("broken.txt: is not UTF-8 text"), "{first:?}");
    let report: serde_json::Value = serde_json::from_str(&first.stdout).unwrap();
    assert_eq!((report["added"].as_array().unwrap().len(), &report["failed"]), (3, &json!([])), "{report}");
    assert!(home.run(&["search", "closed pot for bread"]).said().contains("Bread"));
    assert!(!home.run(&["search", "secret"]).said().contains("not this"));

    std::fs::remove_file(folder.join("broken.txt")).unwrap();
    assert_eq!(home.run(&["add", "notes"]).said(), "nothing to add: 3 files, none of them new or changed");
    write(&folder, "bees.md", "# Bees\n\nA honeybee tells its sisters the way with a dance.");
    let again = home.run(&["add", "notes"]);
    assert!(again.said().ends_with("1 added"), "{again:?}");
    // Added files are recorded per set of spaces.
    let space = flow::text(&home.run(&["space", "create", "Garden", "--json"]).json(), "id");
    assert!(home.run(&["add", "notes", "--space", &space]).said().ends_with("3 added"));
    assert!(home.run(&["add", "notes", "--space", "Garden"]).said().starts_with("nothing to add"));

    home.run(&["add", "notes", "notes/bees.md"]).refused(2, &["separate commands"]);
    home.run(&["add", "notes/bees.md", "--watch"]).refused(2, &["--watch is for folders"]);
    home.run(&["add", "notes", "--watch", "--every", "0"]).refused(2, &["--every"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_folder_is_added_as_it_changes_until_the_command_is_interrupted() {
    let home = Home::new();
    let _server = flow::library(&home).await;
    let folder = home.dir.path().join("notes");
    write(&folder, "bees.md", "# Bees\n\nA honeybee steers by the sun.");
    let mut watching = home.start(&["add", "notes", "--watch", "--every", "1"]);
    eventually("the first file is added", async || watching.stdout.text().contains("1 added").then_some(())).await;
    write(&folder, "tides.md", "# Tides\n\nThe moon pulls the sea.");
    eventually("the second file is added", async || {
        (watching.stdout.text().matches("1 added").count() == 2).then_some(())
    })
    .await;
    assert!(home.run(&["search", "moon"]).said().contains("Tides"));
    watching.signal("INT");
    assert_eq!(watching.exit().await.code(), Some(0), "{}", watching.stderr.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_git_ignores_are_left_out() {
    if std::process::Command::new("git").arg("--version").output().is_err() {
        eprintln!("skipped: there is no git");
        return;
    }
    let home = Home::new().environment("PATH", &std::env::var("PATH").unwrap());
    let _server = flow::library(&home).await;
    let folder = home.dir.path().join("work");
    write(&folder, "notes.md", "# Notes\n\nKept.");
    write(&folder, "build/output.md", "# Output\n\nMade by a program.");
    write(&folder, ".gitignore", "build/\n");
    let made = std::process::Command::new("git").args(["init", "-q"]).current_dir(&folder).status().unwrap();
    assert!(made.success());
    assert!(home.run(&["add", "work"]).said().ends_with("1 added"));
    assert!(!home.run(&["search", "Output"]).said().contains("Made by a program"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_is_imported_once_and_its_faults_are_named_by_line() {
    let home = Home::new();
    let server = flow::library(&home).await;
    write(home.dir.path(), "bees.md", "# Bees\n\nA honeybee steers by the sun.");
    write(home.dir.path(), "tides.md", "# Tides\n\nThe moon pulls the sea.");
    home.run(&["add", "bees.md", "tides.md"]).said();
    let key = flow::profile(&home)["api_key"].as_str().unwrap().to_owned();
    let client = blackbox::client::Client::new();
    let export = client.get(&format!("{}/v1/export", server.url), blackbox::client::Credential::Bearer(key)).await;
    let mut lines = String::from_utf8(export.body.to_vec()).unwrap();
    assert_eq!(lines.lines().count(), 2, "{lines}");

    // Another account, without these memories.
    let create = ["admin", "api-key", "create", "--email", "bob@example.com"];
    let bobs = home.run(&create).said().to_owned();
    flow::edit_profile(&home, |profile| drop(profile.insert("api_key".into(), bobs.into())));
    write(home.dir.path(), "export.ndjson", &lines);
    assert_eq!(home.run(&["import", "export.ndjson"]).said(), "2 added");
    assert!(home.run(&["search", "moon"]).said().contains("Tides"));
    let again = home.run_with_input(&["import", "-", "--json"], lines.as_bytes()).json();
    assert_eq!(again, json!({ "created": 0, "existing": 2, "failed": [] }));

    lines.push_str("\nno JSON\n");
    write(home.dir.path(), "faulty.ndjson", &lines);
    let faulty = home.run(&["import", "faulty.ndjson"]);
    faulty.refused(1, &["1 line could not be imported"]);
    assert!(faulty.stdout.contains("failed  line 4: "), "{faulty:?}");
    home.run(&["import", "nowhere.ndjson"]).refused(4, &["nowhere.ndjson"]);
}
