//! Tests of the checks themselves: each kind of fault is found, and a test does not notice the tests before it in the same browser.

use serde_json::json;

use crate::browser::{Browser, Role, Screen, pages};
use blackbox::world::World;

/// One of each fault, in a separate document.
const FAULTS: [(&str, &str); 6] = [
    ("axe-core, light: critical image-alt", "<img src='data:,'>"),
    ("axe-core, dark: serious color-contrast", "<p style='color: #777; background: #888'>Unreadable</p>"),
    ("wider than the screen", "<p style='width: 2000px'>Wide</p>"),
    ("too small to press", "<button style='height: 20px'>Press</button>"),
    ("console: ", "<script>throw new Error('said by a script')</script>"),
    (
        "console: ",
        "<meta http-equiv='Content-Security-Policy' content=\"style-src 'none'\"><style>p { color: red }</style>",
    ),
];

fn document(content: &str) -> String {
    let head = "<meta name=viewport content='width=device-width, initial-scale=1'><title>A page</title>";
    let whole = format!("<!doctype html><html lang=en>{head}<main><h1>A page</h1>{content}</main></html>");
    format!("data:text/html;charset=utf-8,{}", whole.replace('%', "%25").replace('#', "%23"))
}

pages! {
    async fn every_kind_of_fault_is_found(_world: World, browser: Browser) {
        browser.visit(&document("<p>Faultless</p>")).await;
        assert_eq!(browser.faults("faultless").await, [""; 0]);
        // A fault that is only checked on this kind of screen.
        let own = match browser.screen {
            Screen::Desktop => ("cut off", "<div style='overflow-x: auto'><p style='width: 2000px'>Wide</p></div>"),
            Screen::Phone => ("wider than 320 pixels", "<p style='width: 350px'>Wide</p>"),
        };
        for (fault, content) in FAULTS.into_iter().chain([own]) {
            browser.visit(&document(content)).await;
            let found = browser.faults("faulty").await;
            assert!(found.iter().any(|found| found.starts_with(fault)), "{fault:?} of {content}: {found:?}");
        }
    }

    async fn things_are_found_as_a_screen_reader_names_them(_world: World, browser: Browser) {
        let form = "<label for=mail>E-mail</label> <input id=mail> <label><input type=checkbox> Stay</label>
            <button aria-label='Detach the laptop'>Detach</button> <button hidden>Detach</button> <a href='about:blank'>More</a>";
        browser.visit(&document(form)).await;
        browser.fill("E-mail", "jo@example.com").await;
        browser.choose("Stay").await;
        assert_eq!(browser.find(Role::Field, "E-mail").await.prop("value").await.unwrap().unwrap(), "jo@example.com");
        assert!(browser.find(Role::Choice, "Stay").await.is_selected().await.unwrap());
        assert_eq!(browser.names(Role::Button).await, ["Detach the laptop"]);
        browser.press("Detach").await;
        browser.follow("More").await;
        assert_eq!(browser.address().await, "about:blank");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_test_finds_no_traces_of_the_test_before_it() {
    let world = World::on_sqlite().await;
    for _ in 0..2 {
        let Some(browser) = Browser::open(&world, Screen::Desktop, "traces").await else { return };
        browser.visit("/signin").await;
        let left = browser.evaluate("return [document.cookie, localStorage.length, sessionStorage.length]").await;
        assert_eq!(left, json!(["", 0, 0]));
        browser.evaluate("document.cookie = 'left=1'; localStorage.left = 1; sessionStorage.left = 1").await;
        assert_eq!(browser.evaluate("return document.cookie").await, json!("left=1"));
        browser.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_that_crashed_is_replaced_for_the_next_test() {
    let world = World::on_sqlite().await;
    let Some(crashing) = Browser::open(&world, Screen::Desktop, "crash").await else { return };
    crashing.visit("/signin").await;
    let is_shared = crashing.crash();
    drop(crashing);
    assert_eq!(is_shared, std::env::var_os("ATTACHE_TEST_BROWSERS").is_some());
    let Some(next) = Browser::open(&world, Screen::Desktop, "crash").await else { return };
    next.visit("/signin").await;
    next.close().await;
}
