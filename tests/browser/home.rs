//! Parts of all pages: the home page, error pages, keyboard shortcuts, relative times, and the size of pages.

use chrono::TimeDelta;
use domain::Timestamp;
use serde_json::{Value, json};
use web::Moment;

use crate::browser::{Browser, pages};
use blackbox::client::Credential;
use blackbox::world::World;

/// Ages and terms from 0 seconds to 3 years, close to each change of the unit.
fn spans() -> Vec<i64> {
    let near = [
        30, 60, 90, 3_570, 3_600, 5_400, 84_600, 86_400, 2_592_000, 5_140_800, 5_184_000, 7_776_000, 61_797_600,
        94_672_800,
    ];
    let mut spans: Vec<i64> = near.iter().flat_map(|span| [span - 1, *span, span + 1]).chain(0..3).collect();
    spans.extend((1..400).map(|step| step * 237_277));
    spans.iter().flat_map(|span| [*span, -span]).collect()
}

/// Size in bytes of the page with all its resources.
const WEIGHT: &str = "
    const all = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
    return all.reduce((sum, entry) => sum + entry.encodedBodySize, 0);";

const WEIGHT_MAX: u64 = 60 * 1024;

pages! {
    async fn the_home_page_says_what_this_server_is(_world: World, browser: Browser) {
        browser.visit("/").await;
        browser.sees("See what your agents do").await;
        browser.sees("A code decides who may act").await;
        browser.sees("/auth.md and register with it").await;
        browser.look("home").await;
        // With only the keyboard: the first stop skips the header, and the copy button reports the copy.
        browser.type_keys("\u{e004}").await;
        browser.type_into("To the content", "\n").await;
        browser.tab_to("Sign in").await;
        browser.tab_to("Read the API").await;
        browser.tab_to("Copy").await;
        browser.type_keys("\n").await;
        browser.sees("Copied").await;
        browser.visit("/").await;
        browser.follow("Read the API").await;
        browser.sees("The API").await;
        assert_eq!(browser.path().await, "/docs");
    }

    async fn a_signed_in_person_begins_at_the_account(world: World, browser: Browser) {
        browser.signed_in(&world.person("jo@example.com").await).await;
        browser.visit("/").await;
        browser.sees("Your account").await;
        assert_eq!(browser.path().await, "/account");
        // "/" leads to the search of the knowledge, and there into its field.
        browser.type_keys("/").await;
        browser.type_into("Search", "tide").await;
        assert!(browser.path().await.starts_with("/knowledge"), "{}", browser.path().await);
    }

    async fn errors_have_the_frame_of_a_page(world: World, browser: Browser) {
        browser.visit("/account/nope").await;
        browser.sees("There is no such page").await;
        browser.look("404").await;
        browser.visit("/api/v1/device/token").await;
        browser.sees("This address cannot be opened like that").await;
        browser.look("405").await;
        browser.follow("Start page").await;
        browser.sees("See what your agents do").await;
        browser.visit("/robots.txt").await;
        browser.sees("Disallow: /account").await;
        for icon in ["/favicon.ico", "/apple-touch-icon.png"] {
            browser.visit(icon).await;
            assert!(browser.evaluate("return document.images[0].naturalWidth").await.as_u64().unwrap() >= 16, "{icon}");
        }
        // Programs get JSON.
        world.get("/nope", &Credential::None).await.refused(404, "not_found");
    }

    async fn a_message_is_shown_once(world: World, browser: Browser) {
        browser.signed_in(&world.person("jo@example.com").await).await;
        browser.visit("/account").await;
        browser.press("Sign out").await;
        browser.sees("You are signed out of this browser.").await;
        browser.look("message").await;
        browser.visit("/signin").await;
        assert!(!browser.text().await.contains("You are signed out"), "{}", browser.text().await);
    }

    async fn the_script_and_the_server_write_the_same_times(_world: World, browser: Browser) {
        browser.visit("/").await;
        let spans = spans();
        let script = format!(
            "const done = arguments[arguments.length - 1];
             import(document.querySelector('script[src*=page]').src)
                 .then(({{ relative }}) => done({}.map(relative)), (error) => done([String(error)]));",
            json!(spans)
        );
        let written = browser.evaluate_later(&script).await;
        let written: Vec<&str> = written.as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let now = Timestamp::UNIX_EPOCH + TimeDelta::days(20_000);
        let served: Vec<String> =
            spans.iter().map(|span| Moment::new(now + TimeDelta::seconds(*span), now).relative()).collect();
        assert_eq!(written, served);
    }

    async fn no_page_is_heavier_than_60_kilobytes(world: World, browser: Browser) {
        for path in ["/", "/signin", "/docs"] {
            browser.visit(path).await;
            let weight = browser.evaluate(WEIGHT).await.as_u64().unwrap();
            assert!((1..WEIGHT_MAX).contains(&weight), "{path}: {weight} bytes");
        }
        browser.signed_in(&world.person("jo@example.com").await).await;
        for path in ["/account", "/account/consent", "/account/activity", "/account/access", "/knowledge", "/docs", "/device"] {
            browser.visit(path).await;
            let weight = browser.evaluate(WEIGHT).await.as_u64().unwrap();
            assert!((1..WEIGHT_MAX).contains(&weight), "{path}: {weight} bytes");
        }
    }
}
