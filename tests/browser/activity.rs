//! `/account/activity`, the page of one event, and `/verify`: a person finds an event and checks its proof in the browser.

use std::time::Duration;

use serde_json::{Value, json};

use crate::browser::{Browser, Role, Screen, pages};
use blackbox::world::World;
use harness::event::{Chain, Machine};

fn id(event: &Value) -> String {
    event["event_id"].as_str().unwrap().to_owned()
}

fn llm(chain: &mut Chain) -> Value {
    chain.next_with(|event| {
        event["event_type"] = json!("llm.failed");
        event["lane"] = json!("llm");
        event["payload"] = json!({ "model": "m" });
    })
}

async fn recorded(world: &World, machine: &Machine, event: &Value) {
    world.event(machine, event).await.receipt();
    world.included(machine, &id(event)).await;
}

/// The sentences of the page.
async fn rows(browser: &Browser) -> Vec<String> {
    let rows =
        browser.evaluate("return [...document.querySelectorAll('[data-row]')].map((row) => row.textContent)").await;
    serde_json::from_value(rows).unwrap()
}

/// Distance of the first row from the top of the page, and its height, in CSS pixels.
async fn first_row(browser: &Browser) -> (f64, f64) {
    let script =
        "const box = document.querySelector('.event').getBoundingClientRect(); return [box.top + scrollY, box.height]";
    serde_json::from_value(browser.evaluate(script).await).unwrap()
}

/// Whether an event is open next to the list.
async fn is_open(browser: &Browser) -> Value {
    browser.evaluate("return document.querySelector('#drawer').open").await
}

/// State and text of each step of the proof.
async fn steps(browser: &Browser) -> Value {
    browser
        .evaluate(
            "return Object.fromEntries([...document.querySelectorAll('#proof [data-step]')]
                .map((step) => [step.dataset.step, [step.dataset.state, step.querySelector('[data-says]').textContent]]))",
        )
        .await
}

/// The steps that fail, each with its words.
async fn failing(browser: &Browser) -> Vec<(String, String)> {
    let steps = steps(browser).await;
    let failing = steps.as_object().unwrap().iter().filter(|(_, step)| step[0] == "fails");
    failing.map(|(name, step)| (name.clone(), step[1].as_str().unwrap().to_owned())).collect()
}

/// Replaces the first character of a text by another one of the same alphabet.
fn changed(text: &str) -> String {
    let first = if text.starts_with('0') { '1' } else { '0' };
    format!("{first}{}", &text[1..])
}

pages! {
    async fn a_person_finds_an_event_and_opens_it(world: World, browser: Browser) {
        let person = world.person("jo@example.com").await;
        let (one, two) = (world.attached_machine(&person).await, world.attached_machine(&person).await);
        let (mut first, mut second) = (Chain::new(&one), Chain::of_agent(&two, "codex"));
        for _ in 0..5 {
            let event = first.next();
            recorded(world, &one, &event).await;
        }
        world.advance(Duration::from_hours(24));
        let event = llm(&mut second);
        recorded(world, &two, &event).await;
        world.event(&one, &first.peek_with(|event| event["extra"] = json!(1))).await.held("malformed_envelope");
        browser.signed_in(&person).await;
        browser.visit("/account/activity").await;
        browser.sees("Stored a memory").await;
        browser.sees("Failed").await;
        browser.sees("6 events in 30 days, on 2 days").await;
        browser.sees("Today, ").await;
        browser.sees("Yesterday, ").await;
        assert_eq!(rows(browser).await.len(), 6);
        // The first event is in the first window, and rows are low.
        let (top, height) = first_row(browser).await;
        match browser.screen {
            Screen::Desktop => assert!(top < 500.0 && (36.0..=40.0).contains(&height), "{top} {height}"),
            Screen::Phone => assert!(top <= 500.0 && (44.0..=60.0).contains(&height), "{top} {height}"),
        }
        browser.look("activity").await;

        // Held events are one line that opens: reason, fault and the next step.
        assert!(!browser.text().await.contains("Correct the program that sent it"));
        browser.press("1 held event").await;
        browser.sees("extra").await;
        browser.sees("Correct the program that sent it").await;
        browser.look("held").await;

        // The file of the link, and the question that the page asks.
        let lines = browser
            .evaluate_later(
                "const done = arguments[arguments.length - 1];
                const link = document.querySelector('a[href^=\"/account/activity/export\"]');
                fetch(link.href).then((answer) => answer.text()).then((text) => done(text.trimEnd().split('\\r\\n')))",
            )
            .await;
        assert_eq!(lines.as_array().map(Vec::len), Some(7), "{lines}");
        let news = browser.evaluate("return document.querySelector('#news').dataset.news").await;
        assert_eq!(news, "/account/activity/new");

        // A lane, a type, and back. The numbers of the last days follow both.
        browser.follow("Model calls").await;
        assert_eq!(browser.path().await, "/account/activity?lane=llm");
        browser.sees("1 event in 30 days, on 1 day").await;
        assert_eq!(rows(browser).await, ["m"]);
        browser.press("Filters").await;
        browser.select("Type", "memory.stored").await;
        browser.press("Filter").await;
        browser.sees("Nothing fits these filters.").await;
        browser.look("nothing-fits").await;
        browser.follow("Clear all filters").await;
        browser.press("Filters").await;
        browser.select("Type", "memory.stored").await;
        browser.press("Filter").await;
        browser.sees("5 events in 30 days, on 1 day").await;
        browser.look("filtered").await;
        browser.follow("Type: memory.stored").await;

        // The filters agent and text; `/` moves the focus to the text.
        browser.press("Filters").await;
        browser.select("Agent", "codex").await;
        browser.press("Filter").await;
        browser.sees("Agent: codex").await;
        assert_eq!(rows(browser).await, ["m"]);
        browser.follow("Agent: codex").await;
        browser.type_keys("/").await;
        browser.type_into("Text", "LLM.F\n").await;
        browser.sees("Text: LLM.F").await;
        browser.sees("1 event in 30 days, on 1 day").await;
        assert_eq!(rows(browser).await, ["m"]);
        // Words of a sentence, and of the content.
        for text in ["Stored a", "A FACT"] {
            browser.visit(&format!("/account/activity?text={}", text.replace(' ', "+"))).await;
            browser.sees("5 events in 30 days, on 1 day").await;
            assert_eq!(rows(browser).await.len(), 5, "{text}");
        }

        // An open page says that an event arrived.
        browser.visit("/account/activity?agent=codex").await;
        let event = llm(&mut second);
        recorded(world, &two, &event).await;
        browser.sees("1 new event").await;
        browser.look("new").await;
        browser.follow("1 new event").await;
        browser.sees("2 events in 30 days").await;
    }

    async fn an_event_opens_next_to_the_list(world: World, browser: Browser) {
        let person = world.person("jo@example.com").await;
        let machine = world.attached_machine(&person).await;
        let mut chain = Chain::of_agent(&machine, "claude-code");
        let (mut events, payloads) = (Vec::new(), [
            ("skill.invoked", json!({ "activity": "session_started", "skill": "session", "model": "claude-opus-4-8" })),
            ("llm.completed", json!({ "activity": "prompt_submitted", "prompt": "Make the tests pass, then explain what was wrong" })),
            ("skill.invoked", json!({ "activity": "tool_finished", "skill": "Bash", "input": { "command": "cargo test --package engine" }, "succeeded": false, "exit_status": 101, "duration_ms": 1834 })),
            ("skill.invoked", json!({ "activity": "file_edited", "skill": "Edit", "file_path": "/home/jo/engine/src/mill.rs", "succeeded": true, "duration_ms": 12 })),
            ("security.blocked", json!({ "activity": "permission_denied", "skill": "Bash", "rule": "permission_denied", "action": "denied" })),
            ("security.finding", json!({ "activity": "permission_requested", "skill": "WebFetch", "rule": "permission_requested", "severity": "info" })),
            ("llm.completed", json!({ "model": "gpt-5.2", "input_tokens": 9893, "output_tokens": 484, "duration_ms": 3120 })),
        ]);
        for (event_type, payload) in payloads {
            let event = chain.next_with(|event| {
                event["event_type"] = json!(event_type);
                event["lane"] = json!(match event_type.split('.').next() {
                    Some("llm") => "llm",
                    Some("security") => "security",
                    _ => "skill",
                });
                event["payload"] = payload;
            });
            recorded(world, &machine, &event).await;
            events.push(event);
        }
        browser.signed_in(&person).await;
        browser.visit("/account/activity").await;
        let sentences = [
            "gpt-5.2 · 9,893 → 484 tokens · 3.1 s",
            "Asked for permission · WebFetch",
            "Permission denied · Bash",
            "Edited mill.rs · 12 ms",
            "Ran Bash · cargo test --package engine · exit status 101 · 1.8 s",
            "Prompt · Make the tests pass, then explain what was wrong",
            "Session started · claude-opus-4-8",
        ];
        assert_eq!(rows(browser).await, sentences);
        for word in ["Failed", "Blocked", "Waiting"] {
            browser.sees(word).await;
        }
        browser.look("session").await;

        // A click opens the event next to the list; keys go to the next one and close it.
        browser.follow("Edited mill.rs").await;
        browser.sees("/home/jo/engine/src/mill.rs").await;
        browser.sees("Tools · Claude Code on ").await;
        browser.look("drawer").await;
        browser.type_keys("j").await;
        browser.sees("cargo test --package engine").await;
        browser.type_keys("\u{e00c}").await;
        assert_eq!(is_open(browser).await, json!(false));
        let focused = "return document.activeElement.textContent";
        assert_eq!(browser.evaluate(focused).await, sentences[4]);
        browser.type_keys("k").await;
        assert_eq!(browser.evaluate(focused).await, sentences[3]);
        browser.type_keys("\n").await;
        browser.sees("Open with its proof").await;
        assert_eq!(is_open(browser).await, json!(true));
        browser.follow("Open with its proof").await;
        browser.sees("Everything was computed in this browser and holds").await;
        assert_eq!(browser.path().await, format!("/account/activity/{}", id(&events[3])));

        // Without scripts a row leads to the page of its event.
        browser.without_scripts().await;
        browser.visit("/account/activity").await;
        browser.look("without-scripts").await;
        browser.follow("Ran Bash").await;
        assert_eq!(browser.path().await, format!("/account/activity/{}", id(&events[2])));
    }

    async fn the_proof_of_an_event_is_computed_in_the_browser(world: World, browser: Browser) {
        let person = world.person("jo@example.com").await;
        let machine = world.attached_machine(&person).await;
        let mut chain = Chain::new(&machine);
        let mut events = Vec::new();
        for number in 0..5 {
            let event = chain.next_with(|event| {
                event["payload"] = json!({ "memory_id": format!("m{number}"), "content": "<b>1 < 2</b> \u{202e}\n é" });
            });
            recorded(world, &machine, &event).await;
            events.push(event);
        }
        browser.signed_in(&person).await;
        browser.visit(&format!("/account/activity/{}", id(&events[2]))).await;
        browser.sees("Everything was computed in this browser and holds").await;
        let all = steps(browser).await;
        let states: Vec<&Value> = all.as_object().unwrap().values().map(|step| &step[0]).collect();
        assert_eq!(states, [&json!("holds"); 7], "{all}");
        browser.sees("m2").await;
        browser.look("event").await;
        let vkey = world.get("/api/v1/audit/keys", &person.cookie).await.expect(200)["keys"][0]["vkey"].as_str().unwrap().to_owned();
        browser.sees(&format!("attache verify {}.json --vkey '{vkey}'", id(&events[2]))).await;

        // A page that shows another value than the proof is found out.
        browser.evaluate("document.querySelector('[data-pointer=\"/payload/memory_id\"]').textContent = 'm9';
            import(`${document.querySelector('script[src*=\"/proof.js\"]').src}&again`)").await;
        browser.sees("This page shows another value for /payload/memory_id than the proof has").await;
        assert_eq!(failing(browser).await.len(), 1);

        // Along the chain.
        browser.follow("Before").await;
        browser.sees("m1").await;
        browser.follow("After").await;
        browser.sees("m2").await;
        browser.sees("Everything was computed in this browser and holds").await;

        // A change of consent shows the previous and the new level.
        let body = json!({ "level": "full", "machine_uuid": machine.uuid, "lane": "llm" });
        world.post("/api/v1/consent", &person.cookie, &body).await.expect(200);
        browser.visit("/account/activity?type=consent.changed").await;
        browser.sees("not set → Everything, set by you").await;
        browser.follow("Consent for Model calls on ").await;
        browser.sees("What changed").await;
        browser.follow("Open with its proof").await;
        browser.sees("you, in a browser").await;
        browser.sees("Everything was computed in this browser and holds").await;
        browser.look("consent").await;

        // Without scripts the values and the command are there.
        browser.without_scripts().await;
        browser.visit(&format!("/account/activity/{}", id(&events[4]))).await;
        browser.sees("without, use the command below").await;
        browser.sees(events[4]["hash_chain"]["self"].as_str().unwrap()).await;
        browser.look("without-scripts").await;
    }

    async fn a_proof_that_was_changed_fails_where_it_was_changed(world: World, browser: Browser) {
        let person = world.person("jo@example.com").await;
        let machine = world.attached_machine(&person).await;
        let mut chain = Chain::new(&machine);
        let mut events = Vec::new();
        for _ in 0..6 {
            let event = chain.next();
            recorded(world, &machine, &event).await;
            events.push(event);
        }
        let proof = world.included(&machine, &id(&events[1])).await;
        let vkey = proof["vkey"].as_str().unwrap().to_owned();
        let folder = tempfile::tempdir().unwrap();
        let check = async |name: &str, proof: &Value| {
            let file = folder.path().join(format!("{name}.json"));
            std::fs::write(&file, proof.to_string()).unwrap();
            browser.visit("/verify").await;
            browser.fill("Key that you trust", &vkey).await;
            browser.find(Role::Field, "Proof or receipt file").await.send_keys(file.to_str().unwrap()).await.unwrap();
        };
        // Without a session: the page is public, and shows the key to write down.
        browser.visit("/verify").await;
        browser.sees(&vkey).await;
        browser.look("verify").await;
        check("good", &proof).await;
        browser.sees("Everything was computed in this browser and holds").await;
        browser.sees("The key is the one that you trust.").await;
        browser.look("verified").await;

        let text = |name: &str| proof[name].as_str().unwrap().to_owned();
        let content = {
            use base64::Engine as _;
            let engine = base64::prelude::BASE64_STANDARD;
            let bytes = engine.decode(text("canonical_b64")).unwrap();
            let changed = String::from_utf8(bytes).unwrap().replace("a fact", "a farce");
            engine.encode(changed)
        };
        let path = changed(proof["inclusion_path"][1].as_str().unwrap());
        let checkpoint = text("checkpoint");
        let (note, signature) = checkpoint.rsplit_once(' ').unwrap();
        // The first characters are the id of the key; these belong to the signature.
        let signature = format!("{note} {}{}{}", &signature[..20], if &signature[20..21] == "A" { "B" } else { "A" }, &signature[21..]);
        let other_key = "attache/log+8d6f6a2b+AbKhe/J8Xu1VvhwP0VLJYnQOOqA2LaCVVvLK8ltpJy0W";
        for (name, pointer, value, step, reason) in [
            ("content", "/canonical_b64", json!(content), "content", "The content was changed: its SHA-256 is"),
            ("position", "/chain/seq", json!(4), "content", "The position is 4, but it must be 1"),
            ("leaf", "/leaf_hash", json!(changed(&text("leaf_hash"))), "leaf", "The leaf hashes to"),
            ("path", "/inclusion_path/1", json!(path), "path", "The path leads from the leaf to"),
            ("short", "/inclusion_path", json!([proof["inclusion_path"][0]]), "path", "The path ends before the root"),
            ("root", "/root_hash", json!(changed(&text("root_hash"))), "checkpoint", "The proof names the root"),
            ("signature", "/checkpoint", json!(signature), "signature", "The signature does not fit the checkpoint"),
            ("key", "/vkey", json!(other_key), "key", "which is not the one that you trust"),
        ] {
            let mut tampered = proof.clone();
            *tampered.pointer_mut(pointer).unwrap() = value;
            check(name, &tampered).await;
            browser.sees("This proof does not hold").await;
            let failing = failing(browser).await;
            let found = failing.iter().find(|(failed, _)| failed == step);
            assert!(found.is_some_and(|(_, says)| says.contains(reason)), "{name}: {failing:?}");
            // The steps before the place of the change hold.
            if ["content", "path", "root", "signature"].contains(&name) {
                assert_eq!(failing.len(), 1, "{name}: {failing:?}");
                browser.look(name).await;
            }
        }
        for (name, text, fault) in [("words", "not a proof", "This file is not JSON"), ("other", "{}", "is not a proof of the form")] {
            let file = folder.path().join(name);
            std::fs::write(&file, text).unwrap();
            browser.visit("/verify").await;
            browser.find(Role::Field, "Proof or receipt file").await.send_keys(file.to_str().unwrap()).await.unwrap();
            browser.sees(fault).await;
        }
    }
}
