//! Ten questions about a month of a team, each answered from the pages with at most three clicks (`docs/first-hour.md#questions`).

use chrono::TimeDelta;

use crate::browser::{Browser, Screen};
use crate::pictures::seed::Seeded;

/// Maximum number of clicks to an answer.
const CLICKS_MAX: usize = 3;

/// A person who looks for an answer, from the overview on.
struct Search<'b> {
    browser: &'b Browser,
    clicks: usize,
}

impl<'b> Search<'b> {
    async fn begin(browser: &'b Browser) -> Self {
        browser.visit("/account").await;
        Self { browser, clicks: 0 }
    }

    async fn follow(&mut self, name: &str) -> &mut Self {
        self.browser.follow(name).await;
        self.clicks += 1;
        self
    }

    async fn press(&mut self, name: &str) -> &mut Self {
        self.browser.press(name).await;
        self.clicks += 1;
        self
    }

    /// Opens a fold of the page.
    async fn unfold(&mut self, selector: &str) -> &mut Self {
        let script = format!("document.querySelector('{selector}').open = true");
        self.browser.evaluate(&script).await;
        self.clicks += 1;
        self
    }

    /// Opens the first of the links that a selector names.
    async fn open(&mut self, selector: &str) -> &mut Self {
        let script = format!("location.assign(document.querySelector('{selector}').href)");
        self.browser.evaluate(&script).await;
        self.clicks += 1;
        self
    }

    async fn sees(&self, answer: &str) {
        self.browser.sees(answer).await;
        assert!(self.clicks <= CLICKS_MAX, "{answer}: {} clicks", self.clicks);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_questions_about_a_month_are_answered_from_the_pages() {
    let seeded = Seeded::new().await;
    let Some(browser) = Browser::open(&seeded.world, Screen::Desktop, "questions").await else { return };
    browser.signed_in(&seeded.person).await;
    let now = seeded.world.clock().now();
    let monday = now - TimeDelta::days(i64::from(chrono::Datelike::weekday(&now).num_days_from_monday()));
    let day = |number: i64| (monday + TimeDelta::days(number)).format("%Y-%m-%d").to_string();

    // What did Claude change in shop/ on a Tuesday?
    let mut search = Search::begin(&browser).await;
    search.follow("Sessions").await;
    browser.select("Agent", "claude-code").await;
    browser.fill("Project", "shop").await;
    search.press("Filter").await.open(".sessions .item-title a").await.sees("Edited ").await;

    // Which command failed most?
    let mut search = Search::begin(&browser).await;
    search.follow("Activity").await;
    browser.evaluate("document.querySelector('.filter-more').open = true").await;
    browser.select("Result", "failed").await;
    search.press("Filter").await.sees("Most frequent").await;
    let first = browser.evaluate("return document.querySelector('.frequent li').textContent").await;
    assert!(first.as_str().unwrap().starts_with("Ran Bash · npm run e2e "), "{first}");
    browser.look("failures").await;

    // What did Codex cost last week?
    let mut search = Search::begin(&browser).await;
    search.follow("Sessions").await.follow("Costs").await.follow("Last week").await.sees("codex").await;
    browser.look("costs-of-a-week").await;

    // Which project cost the most?
    let mut search = Search::begin(&browser).await;
    search.follow("Sessions").await.follow("Costs").await.sees("By project").await;
    let rows = browser.evaluate("return document.querySelectorAll('[aria-labelledby=projects] tbody tr').length").await;
    assert_eq!(rows, 4);

    // What was an agent not allowed to do?
    let mut search = Search::begin(&browser).await;
    search.follow("Activity").await.follow("Security").await.sees("Permission denied · Bash").await;

    // What did the studio record on a day?
    let mut search = Search::begin(&browser).await;
    search.follow("Activity").await;
    browser.evaluate("document.querySelector('.filter-more').open = true").await;
    browser.select("Computer", "Studio").await;
    browser
        .evaluate(&format!(
            "document.querySelector('#from').value = document.querySelector('#to').value = '{}'",
            day(-3)
        ))
        .await;
    search.press("Filter").await.sees("Cursor on Studio").await;

    // How long did the last session wait for a person?
    let mut search = Search::begin(&browser).await;
    search.follow("Sessions").await.open(".sessions .item-title a").await.sees("Waiting").await;

    // What is held, and why?
    let mut search = Search::begin(&browser).await;
    search.follow("Activity").await.unfold("details.held").await.sees("Next:").await;

    // Who worked on the voucher?
    let mut search = Search::begin(&browser).await;
    search.follow("Activity").await;
    browser.fill("Text", "voucher").await;
    search.press("Find").await.open("#events [data-row]").await.sees("Its session").await;

    // Was this event changed after it was recorded?
    let mut search = Search::begin(&browser).await;
    search
        .follow("Activity")
        .await
        .open("#events [data-row]")
        .await
        .sees("Everything was computed in this browser and holds")
        .await;

    browser.close().await;
}
