//! A browser that is controlled as a person would.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fantoccini::Client;
use fantoccini::actions::{InputSource as _, KeyAction, KeyActions};
use fantoccini::elements::{Element, ElementRef};
use fantoccini::key::Key;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::driver::{Driver, Order};
use crate::judge::Judge;
use blackbox::client::Credential;
use blackbox::world::{Person, World};

/// Maximum time in which a page must show an expected text.
const TIME_LIMIT: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// More elements than any page has.
const TABS_MAX: usize = 60;

/// The text that is shown.
const TEXT: &str = r"return document.body.innerText.replaceAll(/[\u00a0\t]/g, ' ')";
/// Calls back after the page has run its scheduled work, such as sending a form.
const TURNS: &str = "const done = arguments[arguments.length - 1]; setTimeout(() => setTimeout(done))";
/// The names and elements of all visible matches of a selector.
const NAMED: &str = "
    return [...document.querySelectorAll(arguments[0])]
        .filter((element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true }))
        .filter((element) => element.getClientRects().length > 0)
        .map((element) => [element.computedName ?? '', element]);";

/// Runs each test on a desktop and on a phone, each with a new server: `World::on_sqlite()`, or the expression after `in`.
macro_rules! pages {
    (in $world_of:path; $($(#[$meta:meta])* async fn $name:ident($world:ident: World, $browser:ident: Browser) $body:block)*) => {$(
        mod $name {
            use super::*;

            $(#[$meta])*
            async fn law($world: &World, $browser: &Browser) $body

            async fn on(screen: crate::browser::Screen) {
                let world = $world_of().await;
                if let Some(browser) = Browser::open(&world, screen, stringify!($name)).await {
                    law(&world, &browser).await;
                    browser.close().await;
                }
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_a_desktop() {
                on(crate::browser::Screen::Desktop).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_a_phone() {
                on(crate::browser::Screen::Phone).await;
            }
        }
    )*};
    ($($laws:tt)*) => { $crate::browser::pages! { in World::on_sqlite; $($laws)* } };
}
pub(crate) use pages;

/// The size and kind of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Screen {
    /// 1280 × 900
    Desktop,
    /// 390 × 844, two dots per pixel
    Phone,
}

impl Screen {
    /// Width and height in CSS pixels.
    pub fn size(self) -> (u32, u32) {
        match self {
            Self::Desktop => (1280, 900),
            Self::Phone => (390, 844),
        }
    }
}

impl fmt::Display for Screen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.size().0)
    }
}

/// The role of an element that a person looks for by its accessible name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Button,
    Link,
    Field,
    Choice,
}

impl Role {
    fn selector(self) -> &'static str {
        match self {
            Self::Button => "button, summary, input[type=submit], [role=button]",
            Self::Link => "a[href]",
            Self::Field => "input:not([type=hidden], [type=radio], [type=checkbox]), textarea, select",
            Self::Choice => "input[type=radio], input[type=checkbox]",
        }
    }
}

/// A window on a server.
pub struct Browser {
    client: Client,
    judge: Judge,
    pub screen: Screen,
    url: String,
    scripts: AtomicBool,
    // Dropped after the client.
    driver: Driver,
}

impl Browser {
    /// An empty window; `None` when there is no browser to test with.
    pub async fn open(world: &World, screen: Screen, law: &'static str) -> Option<Self> {
        let judge = Judge::of(law, screen)?;
        let driver = Driver::start().await?;
        let client = driver.open().await;
        let browser = Self { client, judge, screen, url: world.url.clone(), scripts: AtomicBool::new(true), driver };
        // Another test may have used the browser.
        browser.forget_cookies().await;
        browser.devtools("Network.clearBrowserCache", json!({})).await;
        let storage = json!({ "origin": browser.url, "storageTypes": "all" });
        browser.devtools("Storage.clearDataForOrigin", storage).await;
        let (width, height) = screen.size();
        browser.resize(width, height).await;
        let phone = screen == Screen::Phone;
        browser.devtools("Emulation.setTouchEmulationEnabled", json!({ "enabled": phone })).await;
        browser.devtools("Emulation.setScrollbarsHidden", json!({ "hidden": true })).await;
        Some(browser)
    }

    /// A browser with a session.
    pub async fn signed_in(&self, person: &Person) {
        let Credential::Cookie(pair) = &person.cookie else { panic!("{person:?} has no cookie") };
        let (name, value) = pair.split_once('=').unwrap();
        let cookie = json!({ "name": name, "value": value, "url": self.url, "httpOnly": true, "sameSite": "Lax" });
        self.devtools("Network.setCookie", cookie).await;
    }

    /// From here on pages do without JavaScript.
    pub async fn without_scripts(&self) {
        self.scripts.store(false, Ordering::Relaxed);
        self.allow_scripts(false).await;
    }

    /// Sends forms even if the browser sees that they are not filled as they should be.
    pub async fn without_validation(&self) {
        self.evaluate("for (const form of document.forms) form.noValidate = true").await;
    }

    /// As if the browser had never been anywhere.
    pub async fn forget_cookies(&self) {
        self.devtools("Network.clearBrowserCookies", json!({})).await;
    }

    /// Kills a shared browser, as a crash would; `false` if tests share none.
    pub fn crash(&self) -> bool {
        self.driver.kill_browser()
    }

    /// Ends the session, and fails the test if the console has messages since the last check.
    pub async fn close(self) {
        let faults = self.judge.console(&self).await;
        assert!(faults.is_empty(), "since the last look:\n{}", faults.join("\n"));
        self.client.close().await.unwrap();
    }

    // Actions of a person.

    /// Types an address: a path of the server, or a whole URL.
    pub async fn visit(&self, address: &str) {
        let whole = if address.starts_with('/') { format!("{}{address}", self.url) } else { address.to_owned() };
        self.client.goto(&whole).await.unwrap();
        let (width, _) = self.screen.size();
        assert_eq!(self.evaluate("return screen.width").await, json!(width), "the screen is not as wide as it says");
    }

    pub async fn press(&self, name: &str) {
        self.click(Role::Button, name).await;
        self.settle().await;
    }

    pub async fn follow(&self, name: &str) {
        self.click(Role::Link, name).await;
        self.settle().await;
    }

    pub async fn choose(&self, name: &str) {
        self.click(Role::Choice, name).await;
    }

    /// Clicks in the middle of the screen, as a person scrolls: a bar may cover the element at an edge. A page that renews itself may have
    /// replaced the element since it was found; then the new one is clicked.
    async fn click(&self, role: Role, name: &str) {
        loop {
            let element = self.find(role, name).await;
            let shown = vec![serde_json::to_value(&element).unwrap()];
            let scrolled = self.client.execute("arguments[0].scrollIntoView({ block: 'center' })", shown).await;
            let clicked = match scrolled {
                Ok(_) => element.click().await,
                Err(error) => Err(error),
            };
            match clicked {
                Err(error) if error.to_string().contains("stale element") => {}
                clicked => return clicked.unwrap(),
            }
        }
    }

    /// Replaces the value of a field.
    pub async fn fill(&self, name: &str, text: &str) {
        let field = self.find(Role::Field, name).await;
        field.clear().await.unwrap();
        field.send_keys(text).await.unwrap();
    }

    /// Picks an option of a list.
    pub async fn select(&self, name: &str, option: &str) {
        self.find(Role::Field, name).await.select_by_label(option).await.unwrap();
    }

    /// Waits until the element with this name has the focus, and types.
    pub async fn type_into(&self, name: &str, keys: &str) {
        let deadline = Instant::now() + TIME_LIMIT;
        loop {
            let active = self.client.active_element().await.unwrap();
            let label = self.label(&active).await;
            if label.as_deref() == Some(name) {
                active.send_keys(keys).await.unwrap();
                return self.settle().await;
            }
            assert!(Instant::now() < deadline, "the focus is on {label:?}, not on {name:?}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Types into the focused element.
    pub async fn type_keys(&self, keys: &str) {
        self.client.active_element().await.unwrap().send_keys(keys).await.unwrap();
        self.settle().await;
    }

    /// Waits until the page has started the effect of an action. During a navigation, each command waits for its end.
    async fn settle(&self) {
        if self.scripts.load(Ordering::Relaxed) {
            // Fails if the page is left first, which is no error.
            let _ = self.client.execute_async(TURNS, vec![]).await;
        } else {
            // A page without scripts has no timers.
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Moves the focus with Tab until it is on the element with this name; fails the test if there is none.
    pub async fn tab_to(&self, name: &str) {
        let mut passed = Vec::new();
        for _ in 0..TABS_MAX {
            // As a key of the keyboard: a field for files takes typed text as a path.
            let tab = char::from(Key::Tab);
            let keys = KeyActions::new("keyboard".to_owned());
            let keys = keys.then(KeyAction::Down { value: tab }).then(KeyAction::Up { value: tab });
            self.client.perform_actions(keys).await.unwrap();
            let label = self.label(&self.client.active_element().await.unwrap()).await.unwrap_or_default();
            if label == name {
                return;
            }
            passed.push(label);
        }
        panic!("the focus never comes to {name:?}, but to {passed:?}");
    }

    // Content that a person sees.

    /// Waits until the page contains this text.
    #[track_caller]
    pub fn sees(&self, text: &str) -> impl Future<Output = ()> {
        let told = std::panic::Location::caller();
        async move {
            let deadline = Instant::now() + TIME_LIMIT;
            loop {
                let page = self.text().await;
                if page.contains(text) {
                    return;
                }
                assert!(Instant::now() < deadline, "{told}: the page does not say {text:?}, but:\n{page}");
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    }

    /// The text of the page, with every space a plain one.
    pub async fn text(&self) -> String {
        // The body is briefly missing during a navigation.
        match self.client.execute(TEXT, vec![]).await {
            Ok(Value::String(text)) => text,
            _ => String::new(),
        }
    }

    /// The visible element with this role, and with this name or a name that starts with it.
    ///
    /// # Panics
    /// When there is none, or several, for too long.
    pub async fn find(&self, role: Role, name: &str) -> Element {
        let deadline = Instant::now() + TIME_LIMIT;
        loop {
            let named = self.named(role).await;
            let exact = named.iter().filter(|(label, _)| label == name).count() == 1;
            let mut found: Vec<_> =
                named.iter().filter(|(label, _)| if exact { label == name } else { label.starts_with(name) }).collect();
            if let (Some((_, element)), true) = (found.pop(), found.is_empty()) {
                return element.clone();
            }
            if Instant::now() > deadline {
                let there: Vec<_> = named.iter().map(|(label, _)| label).collect();
                panic!("no single {role:?} {name:?} among {there:?} of:\n{}", self.text().await);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// The names of all visible elements with this role, in the order of the page.
    pub async fn names(&self, role: Role) -> Vec<String> {
        self.named(role).await.into_iter().map(|(name, _)| name).collect()
    }

    async fn named(&self, role: Role) -> Vec<(String, Element)> {
        // The elements are briefly missing during a navigation.
        let Ok(named) = self.client.execute(NAMED, vec![json!(role.selector())]).await else { return Vec::new() };
        // An element is an object with its number under a name of the standard.
        let named: Vec<(String, HashMap<String, String>)> = serde_json::from_value(named).unwrap();
        let element = |number| Element::from_element_id(self.client.clone(), ElementRef::from(number));
        named
            .into_iter()
            .flat_map(|(name, found)| found.into_values().map(move |number| (name.clone(), element(number))))
            .collect()
    }

    /// The accessible name.
    async fn label(&self, element: &Element) -> Option<String> {
        let path = format!("element/{}/computedlabel", &*element.element_id());
        match self.client.issue_cmd(Order { path, body: None }).await {
            Ok(Value::String(label)) => Some(label),
            _ => None,
        }
    }

    /// The whole address of the page.
    pub async fn address(&self) -> String {
        self.client.current_url().await.unwrap().into()
    }

    /// The path and query of the page.
    pub async fn path(&self) -> String {
        let url = self.client.current_url().await.unwrap();
        url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()))
    }

    /// Asserts that the page has no faults, and stores a picture of it as `state`.
    pub async fn look(&self, state: &str) {
        let faults = self.faults(state).await;
        assert!(faults.is_empty(), "{state} at {} pixels:\n{}", self.screen, faults.join("\n"));
    }

    /// The faults of the page in its current state.
    pub async fn faults(&self, state: &str) -> Vec<String> {
        // The checks need scripts. Scripts that were blocked when the page was loaded stay blocked.
        self.allow_scripts(true).await;
        let faults = self.judge.faults(self, state).await;
        self.allow_scripts(self.scripts.load(Ordering::Relaxed)).await;
        faults
    }

    async fn allow_scripts(&self, allowed: bool) {
        self.devtools("Emulation.setScriptExecutionDisabled", json!({ "value": !allowed })).await;
    }

    // Helpers of the judge.

    /// Sets the size of the screen, in CSS pixels.
    pub async fn resize(&self, width: u32, height: u32) {
        let phone = self.screen == Screen::Phone;
        let metrics = json!({
            "width": width, "height": height, "screenWidth": width, "screenHeight": height,
            "deviceScaleFactor": if phone { 2 } else { 1 }, "mobile": phone,
        });
        self.devtools("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    /// One command of the developer tools.
    pub async fn devtools(&self, command: &str, parameters: Value) -> Value {
        self.order("goog/cdp/execute", json!({ "cmd": command, "params": parameters })).await
    }

    /// One command of `WebDriver` that fantoccini has no method for.
    pub async fn order(&self, path: &str, body: Value) -> Value {
        self.client.issue_cmd(Order { path: path.to_owned(), body: Some(body) }).await.unwrap()
    }

    /// Runs a script in the page, which the page's policy does not hinder.
    pub async fn evaluate(&self, script: &str) -> Value {
        self.client.execute(script, vec![]).await.unwrap()
    }

    /// The same with a script that calls back when it is done.
    pub async fn evaluate_later(&self, script: &str) -> Value {
        self.client.execute_async(script, vec![]).await.unwrap()
    }
}
