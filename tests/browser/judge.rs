//! Checks that every page must pass.

use std::path::PathBuf;
use std::{env, fs};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::browser::{Browser, Screen};

/// 1280 CSS pixels, enlarged four times.
const REFLOW_WIDTH: u32 = 320;

/// Checks the pages of one test on one screen.
pub struct Judge {
    law: &'static str,
    screen: Screen,
    /// The source of axe-core.
    axe: String,
    /// Folder for pictures of the pages, if they are wanted: taking them is a quarter of the time of a test.
    pictures: Option<PathBuf>,
}

/// Elements that are wider than the screen. A phone zooms out until everything fits, so the width of the page does not show them.
const TOO_WIDE: &str = "
    const width = window.screen.width;
    if (window.innerWidth <= width && document.documentElement.scrollWidth <= width) return [];
    const wide = [...document.body.querySelectorAll('*')]
        .filter((element) => element.getBoundingClientRect().right > width + 1)
        .map((element) => element.outerHTML.slice(0, 160));
    return [`${window.innerWidth} pixels`, ...wide];";

/// Elements with horizontal scrolling inside the page, except commands to copy.
const CUT_OFF: &str = "
    return [...document.querySelectorAll('body *:not(pre, input)')]
        .filter((element) => ['auto', 'scroll', 'hidden'].includes(getComputedStyle(element).overflowX))
        .filter((element) => element.scrollWidth > element.clientWidth + 1)
        .map((element) => element.outerHTML.slice(0, 160));";

/// Touch targets that are lower than 44 pixels, links inside sentences excepted.
const TOO_SMALL: &str = "
    const things = 'button, summary, select, textarea, a.button, input:not([type=hidden], [type=radio], [type=checkbox])';
    return [...document.querySelectorAll(things)]
        .filter((element) => element.checkVisibility() && element.getBoundingClientRect().height < 43.5)
        .map((element) => `${element.getBoundingClientRect().height} px: ${element.outerHTML.slice(0, 160)}`);";

/// All violations that axe-core finds, from minor to critical.
const AXE: &str = "
    const done = arguments[arguments.length - 1];
    axe.run(document, { resultTypes: ['violations'] }).then(
        ({ violations }) => done(violations
            .flatMap(({ id, impact, help, nodes }) => nodes.map((node) =>
                `${impact} ${id}: ${help}\\n    ${node.html}\\n    ${(node.failureSummary || '').replaceAll('\\n', '\\n    ')}`))),
        (error) => done([String(error)]));";

impl Judge {
    /// `None` if axe-core is not installed, which the harness reports.
    pub fn of(law: &'static str, screen: Screen) -> Option<Self> {
        let axe = fs::read_to_string(harness::npm::packages()?.join("node_modules/axe-core/axe.min.js")).unwrap();
        let pictures = env::var_os("ATTACHE_SCREENSHOTS").map(PathBuf::from);
        if let Some(folder) = &pictures {
            fs::create_dir_all(folder).unwrap();
        }
        Some(Self { law, screen, axe, pictures })
    }

    /// Returns the faults of the page in light and dark; stores pictures of it if they are wanted.
    pub async fn faults(&self, browser: &Browser, state: &str) -> Vec<String> {
        let mut faults = Vec::new();
        if browser.evaluate("return typeof axe === 'undefined'").await == json!(true) {
            browser.evaluate(&self.axe).await;
        }
        for theme in ["light", "dark"] {
            let features = json!([
                { "name": "prefers-color-scheme", "value": theme },
                // Colours during a transition have no meaningful contrast.
                { "name": "prefers-reduced-motion", "value": "reduce" },
            ]);
            browser.devtools("Emulation.setEmulatedMedia", json!({ "features": features })).await;
            self.keep_picture(browser, &format!("{}-{state}-{}-{theme}", self.law, self.screen)).await;
            let complaints = lines(&browser.evaluate_later(AXE).await);
            faults.extend(complaints.iter().map(|complaint| format!("axe-core, {theme}: {complaint}")));
        }
        faults.extend(found(browser, "too small to press", TOO_SMALL).await);
        faults.extend(found(browser, "wider than the screen", TOO_WIDE).await);
        if self.screen == Screen::Desktop {
            faults.extend(found(browser, "cut off", CUT_OFF).await);
        } else {
            // WCAG 2.2, 1.4.10: at a zoom of 400 % a page needs no horizontal scrolling.
            let (width, height) = self.screen.size();
            browser.resize(REFLOW_WIDTH, height).await;
            faults.extend(found(browser, "wider than 320 pixels", TOO_WIDE).await);
            browser.resize(width, height).await;
        }
        faults.extend(self.console(browser).await);
        faults
    }

    /// The messages of the console since the last call.
    pub async fn console(&self, browser: &Browser) -> Vec<String> {
        let log = browser.order("se/log", json!({ "type": "browser" })).await;
        let here = browser.address().await;
        let entries = log.as_array().unwrap().iter();
        entries
            .filter(|entry| entry["level"] == "SEVERE" && !is_status_of_the_page(entry, &here))
            .map(|entry| format!("console: {}", entry["message"].as_str().unwrap_or_default()))
            .collect()
    }

    /// Stores a picture of the whole page, beyond the screen.
    async fn keep_picture(&self, browser: &Browser, name: &str) {
        let Some(folder) = &self.pictures else { return };
        let whole = json!({ "format": "png", "captureBeyondViewport": true, "optimizeForSpeed": true });
        let taken = browser.devtools("Page.captureScreenshot", whole).await;
        let picture = STANDARD.decode(taken["data"].as_str().unwrap()).unwrap();
        fs::write(folder.join(format!("{name}.png")), picture).unwrap();
    }
}

/// A page with an error has an error status, which the browser repeats on the console.
fn is_status_of_the_page(entry: &Value, here: &str) -> bool {
    let message = entry["message"].as_str().unwrap_or_default();
    entry["source"] == "network"
        && message.starts_with(&format!("{here} - "))
        && message.contains("responded with a status of 4")
}

/// The results of a script, each with the name of its fault.
async fn found(browser: &Browser, fault: &str, script: &str) -> Vec<String> {
    lines(&browser.evaluate(script).await).iter().map(|element| format!("{fault}: {element}")).collect()
}

fn lines(found: &Value) -> Vec<String> {
    found.as_array().unwrap().iter().map(|line| line.as_str().unwrap_or_default().to_owned()).collect()
}
