//! Deleted texts leave the files of the data folder (`docs/decisions/0017-retention-and-erasure.md`).

use std::fs;
use std::path::Path;
use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use store::pool::scalar;

use blackbox::browser::Browser;
use blackbox::client::Credential;
use blackbox::eventually;
use blackbox::world::World;

/// The files of a folder and its subfolders that contain a text, in any case: the index of words has stems in lower case.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_with(&path, text));
            continue;
        }
        // The janitor may have removed the file.
        let Ok(bytes) = fs::read(&path) else { continue };
        let bytes = bytes.to_ascii_lowercase();
        if bytes.windows(text.len()).any(|part| part == text.as_bytes()) {
            files.push(path.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    files
}

async fn form(world: &World, cookie: &Credential, path: &str, form: &'static str) -> u16 {
    let request = world.request(Method::POST, path, cookie).header("origin", &world.url);
    world.send(request.header("content-type", "application/x-www-form-urlencoded").body(form)).await.status
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_texts_are_in_no_file_of_the_data_folder() {
    let world = World::with(|settings| {
        settings.janitor.every = Duration::from_millis(50);
        settings.janitor.purge.batch_rows = 50;
    })
    .await;
    let folder = world.dir.path().join("data");
    let (ada, key) = world.librarian("ada@example.com").await;
    let kept = world.notes(&key, &["Quokkas smile, and keptwordqq stays here"]).await;
    assert!(!kept.is_empty());

    // A memory, its title, and the text that another one had before.
    let long = format!("Walrus erasedwordqa {} erasedwordqb", "and much more text of the same memory. ".repeat(500));
    let body = json!({ "contents": [{ "title": "Title erasedwordqc", "content": long }, { "title": "A note", "content": "Old erasedwordqd" }] });
    let messages = world.add(&key, body).await.whole().await;
    let id =
        |nth: u64| messages.iter().find(|message| message["index"] == nth).unwrap()["id"].as_str().unwrap().to_owned();
    // A held event, and another account with its own note, computer and address.
    let machine = world.attached_machine(&ada).await;
    world.event_bytes(&machine, "{\"held\": \"erasedwordqe\"}").await.held("malformed_envelope");
    let (bob, bobs) = world.librarian("erasedwordqf@example.com").await;
    world.notes(&bobs, &["A note with erasedwordqg in it"]).await;
    let bobs_machine = world.attached_machine(&bob).await;
    world.event_bytes(&bobs_machine, "{\"held\": \"erasedwordqh\"}").await.held("malformed_envelope");
    // A sign-in code in a file.
    let browser = Browser::new(&world);
    browser.submit("/signin", &[("email", "erasedwordqi@example.com")]).await;
    let words: Vec<String> = ('a'..='i').map(|letter| format!("erasedwordq{letter}")).collect();
    for word in &words {
        eventually("it is in a file", async || (!files_with(&folder, word).is_empty()).then_some(())).await;
    }

    world.delete(&format!("/v1/memories/{}", id(0)), &key).await.expect(200);
    let change = json!({ "content": "New text" });
    world.send(world.request(Method::PATCH, &format!("/v1/memories/{}", id(1)), &key).json(&change)).await.expect(200);
    let store = &world.server.app.store;
    let sender = Some(store::held::Sender::Machine(machine.uuid.parse().unwrap()));
    for entry in store.held_list(&store::held::HeldFilter { sender, ..Default::default() }, 10).await.unwrap() {
        assert!(store.held_discard(entry.id, world.clock().now()).await.unwrap());
    }
    assert_eq!(form(&world, &bob.cookie, "/account/close", "email=erasedwordqf%40example.com").await, 303);
    // The notice is sent before the clock advances. Sessions, mails and batches have separate retentions: the retention of a mail that is
    // sent after the advance would start only then.
    eventually("the notice is sent", async || {
        (!files_with(&folder.join("outbox"), "your account was closed").is_empty()).then_some(())
    })
    .await;
    eventually("all mails are recorded as sent", async || {
        let unsent = scalar("SELECT COUNT(*) FROM mails WHERE sent_at IS NULL").fetch_one::<i64>(store.pool()).await;
        (unsent.unwrap() == 0).then_some(())
    })
    .await;
    world.advance(Duration::from_hours(41 * 24));
    for word in &words {
        eventually(&format!("{word} is in no file"), async || files_with(&folder, word).is_empty().then_some(())).await;
    }
    assert_eq!(files_with(&folder, "keptwordqq"), ["attache.db"], "the log is empty, and the rest is there");
    let again = world.key(&world.person("ada@example.com").await, json!({ "name": "again" })).await;
    assert_eq!(
        world.found(&again, json!({ "query": "keptwordqq" })).await[0],
        "Quokkas smile, and keptwordqq stays here"
    );
}
