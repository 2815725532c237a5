//! The operator's page, on the operator's listener.

use blackbox::world::World;
use serde_json::json;

use crate::browser::{Browser, pages};

pages! {
    async fn the_operator_sees_the_state_of_the_server_and_it_renews_itself(world: World, browser: Browser) {
        let page = format!("http://{}/", world.server.admin_address);
        browser.visit(&page).await;
        for words in ["Ready", "Messages waiting", "No event is held", "Commits events to the embedded log", "No other server uses this database"] {
            browser.sees(words).await;
        }
        browser.look("idle").await;
        // Without a reload: the page requests its data again.
        let machine = world.machine().await;
        world.event(&machine, &json!([1])).await.held("malformed_envelope");
        browser.sees("malformed_envelope").await;
        browser.look("held").await;

        // By keyboard: the page is paused and keeps what it shows.
        browser.tab_to("Do not renew").await;
        browser.type_keys(" ").await;
        assert_eq!(browser.evaluate("return document.querySelector('#pause').checked").await, json!(true));

        browser.without_scripts().await;
        browser.visit(&page).await;
        browser.sees("malformed_envelope").await;
        assert!(!browser.text().await.contains("renews itself"), "without a script it does not");
        browser.look("plain").await;
    }
}
