//! `attache admin tap`, and `t` in `attache top`: samples of events until the tap ends.

use std::cell::RefCell;

use blackbox::eventually;
use blackbox::flow;
use blackbox::process::Home;
use blackbox::terminal::Terminal;
use harness::event::Chain;
use serde_json::{Value, json};

const TAP: [&str; 4] = ["admin", "tap", "--reason", "who sends"];

#[tokio::test(flavor = "multi_thread")]
async fn samples_are_printed_until_the_tap_ends() {
    let home = Home::new();
    home.run(&TAP).refused(7, &["no server answers at ", "operator.sock"]);
    let server = home.serve().await;
    let machine = flow::machine(&server).await;
    home.run(&["admin", "tap"]).refused(2, &["--reason"]);
    home.run(&[&TAP[..], &["--for", "2m"]].concat()).refused(1, &["60s at most"]);
    let mut tap = home.start(&[&TAP[..], &["--for", "3s", "--json"]].concat());
    let chain = RefCell::new(Chain::new(&machine));
    let line = eventually("a sample is printed", async || {
        let event = chain.borrow_mut().next();
        flow::event(&server, &machine, &event).await.receipt();
        tap.stdout.text().lines().next().map(str::to_owned)
    })
    .await;
    let sample: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&sample["outcome"], &sample["machine_id"]), (&json!("forwarded"), &json!(machine.uuid)), "{sample}");
    assert_eq!(tap.exit().await.code(), Some(0));
    let acts = home.run(&["admin", "act", "list", "--act", "event_tap", "--json"]).json();
    let acts: Vec<_> = acts.as_array().unwrap().iter().map(|act| (&act["outcome"], &act["reason"])).collect();
    assert_eq!(json!(acts), json!([["applied", "who sends"], ["refused", null]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_live_view_shows_events_until_they_are_hidden() {
    let home = Home::new();
    let server = home.serve().await;
    let machine = flow::machine(&server).await;
    let mut terminal = Terminal::start(&home, &["top"], &[], (80, 24));
    terminal.shows(&["intake", "nothing paused"]).await;
    terminal.press("t");
    terminal.shows(&["show events of the server", "Reason:"]).await;
    terminal.press("who sends\r");
    terminal.shows(&["events, newest last", "no event yet"]).await;
    let chain = RefCell::new(Chain::new(&machine));
    eventually("an event is shown", async || {
        let event = chain.borrow_mut().next();
        flow::event(&server, &machine, &event).await.receipt();
        terminal.text().contains("  forwarded  ").then_some(())
    })
    .await;
    terminal.press("\u{1b}");
    eventually("they are hidden", async || (!terminal.text().contains("newest last")).then_some(())).await;
    terminal.press("Q");
    assert_eq!(terminal.exit().await.code(), Some(0));
}
