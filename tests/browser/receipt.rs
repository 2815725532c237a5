//! `/verify` with an audit receipt: every vector holds, or fails at the step of the change.

use serde_json::{Value, json};

use crate::browser::{Browser, Role, pages};
use blackbox::world::World;
use harness::vectors::changed;

fn vectors() -> Value {
    serde_json::from_slice(include_bytes!("../vectors/receipt.json")).unwrap()
}

/// Chooses a file on the page, and waits for the result: the steps that fail with their words, and the fault of the form.
async fn chosen(browser: &Browser, file: &Value) -> (Vec<(String, String)>, String) {
    let script = format!(
        "const done = arguments[arguments.length - 1];
        const files = new DataTransfer();
        files.items.add(new File([{}], 'receipt.json', {{ type: 'application/json' }}));
        const input = document.querySelector('input[type=file]');
        input.files = files.files;
        input.dispatchEvent(new Event('change'));
        const [section, alert] = [document.querySelector('#receipt'), document.querySelector('#file-fault')];
        const look = () => {{
            if (section.hidden && alert.textContent === '') return setTimeout(look, 10);
            const failing = [...section.querySelectorAll('[data-step]')].filter((step) => step.dataset.state === 'fails');
            done([failing.map((step) => [step.dataset.step, step.querySelector('[data-says]').textContent]), alert.textContent]);
        }};
        look();",
        json!(file.to_string())
    );
    serde_json::from_value(browser.evaluate_later(&script).await).unwrap()
}

/// The step of the page that checks a member.
fn step(member: &str) -> &str {
    match member {
        "checkpoint" => "signature",
        "vkey" => "key",
        "markdown_digest" => "markdown",
        "hash_alg" | "server" | "events" | "extra" => "form",
        member if member.starts_with("head.") => "head",
        _ => "events",
    }
}

pages! {
    async fn a_receipt_is_checked_in_the_browser_and_fails_where_it_was_changed(world: World, browser: Browser) {
        let _ = world;
        let vectors = vectors();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("receipt.json");
        browser.visit("/verify").await;
        for case in vectors["accepted"].as_array().unwrap() {
            std::fs::write(&path, case["receipt"].to_string()).unwrap();
            browser.visit("/verify").await;
            browser.fill("Key that you trust", vectors["vkey"].as_str().unwrap()).await;
            browser.find(Role::Field, "Proof or receipt file").await.send_keys(path.to_str().unwrap()).await.unwrap();
            browser.sees("Everything was computed in this browser and holds: ").await;
            browser.sees("The key is the one that you trust.").await;
            let markdown = browser.evaluate("return document.querySelector('[data-markdown]').textContent").await;
            assert_eq!(markdown, case["markdown"], "{}", case["name"]);
            browser.evaluate("document.querySelectorAll('#receipt details').forEach((details) => { details.open = true; })").await;
            browser.look(&format!("holds-{}", case["receipt"]["head"]["events"])).await;
        }
        let original = &vectors["accepted"][0]["receipt"];
        for case in vectors["refused"].as_array().unwrap() {
            let (failing, fault) = chosen(browser, &changed(case, original)).await;
            let member = case["member"].as_str().unwrap();
            if member == "schema" {
                assert!(fault.contains("not a receipt of the form audit-receipt/v1"), "{case}: {fault}");
                continue;
            }
            let said = failing.iter().find(|(failed, _)| failed == step(member));
            assert!(said.is_some(), "{} ({member}): {failing:?}", case["name"]);
            if let Some(place) = member.strip_prefix("events[") {
                let number = place.split(']').next().unwrap().parse::<usize>().unwrap() + 1;
                assert!(said.unwrap().1.contains(&format!("Event {number} (")), "{} ({member}): {failing:?}", case["name"]);
            }
            browser.sees("Do not trust it, and ask its author for a new one").await;
        }
        // An event that was changed, with the list of faults.
        let mut file = original.clone();
        file["events"][2]["failed"] = json!(false);
        file["events"][4]["leaf"]["seq"] = json!(77);
        let (failing, _) = chosen(browser, &file).await;
        assert!(failing[0].1.contains("2 of 6 events fail"), "{failing:?}");
        browser.evaluate("document.querySelector('#receipt details').open = true").await;
        browser.sees("failed is false, but it must be true").await;
        browser.look("fails").await;
        // Without a key everything else is checked, and a proof after a receipt hides it.
        browser.fill("Key that you trust", "").await;
        let (failing, _) = chosen(browser, original).await;
        assert!(failing.is_empty(), "{failing:?}");
        browser.sees("Compare the key with the one that you wrote down.").await;
    }
}
