//! The pages of activity without a browser: access, filters, files, and members that an external statistics service omits.

use std::time::Duration;

use harness::event::Chain;
use harness::on_sqlite;
use harness::upstream::{Reply, Script, Upstream};
use serde_json::{Value, json};

use blackbox::browser::Browser;
use blackbox::client::Response;
use blackbox::world::World;

fn id(event: &Value) -> String {
    event["event_id"].as_str().unwrap().to_owned()
}

fn text(response: &Response) -> &str {
    std::str::from_utf8(&response.body).unwrap()
}

/// The ids of the events in a page, in its order.
fn shown(page: &str) -> Vec<String> {
    let links = page.split("href=\"/account/activity/").skip(1).filter_map(|rest| rest.split_once('"'));
    links.map(|(id, _)| id.to_owned()).filter(|id| id.len() == 36 && !id.starts_with("export")).collect()
}

on_sqlite! {
    async fn an_event_page_is_for_accounts_that_may_read_the_event(world: World) {
        let person = world.person("ada@example.com").await;
        let stranger = world.person("bob@example.com").await;
        let machine = world.attached_machine(&person).await;
        let event = Chain::new(&machine).next();
        world.event(&machine, &event).await.receipt();
        let path = format!("/account/activity/{}", id(&event));
        assert!(Browser::of(&world, &person).get(&path).await.page(200).contains("a fact"));
        let foreign = Browser::of(&world, &stranger);
        assert!(!foreign.get(&path).await.page(404).contains("a fact"));
        for unknown in ["019b76da-a800-7a67-8a14-94a3f41b0634", "x", "019b76da-a800-4a67-8a14-94a3f41b0634"] {
            foreign.get(&format!("/account/activity/{unknown}")).await.page(404);
        }
        assert!(shown(foreign.get("/account/activity").await.page(200)).is_empty());
        let export = foreign.get("/account/activity/export?format=ndjson").await;
        assert_eq!((export.status, text(&export)), (200, ""));
        assert_eq!(foreign.get("/account/activity/new?after=").await.expect(200), json!({ "count": 0, "more": false }));
        Browser::new(&world).get(&path).await.goes_to(&format!("/signin?next={}", path.replace('/', "%2F").replace('-', "%2D")));
    }

    async fn a_page_and_its_files_have_the_events_that_fit_the_filters(world: World) {
        let person = world.person("ada@example.com").await;
        let (one, two) = (world.attached_machine(&person).await, world.attached_machine(&person).await);
        let (mut first, mut second) = (Chain::new(&one), Chain::of_agent(&two, "codex"));
        let mut sent = Vec::new();
        for number in 0..6 {
            let (machine, event) = if number % 2 == 0 { (&one, first.next()) } else { (&two, second.next()) };
            world.event(machine, &event).await.receipt();
            sent.push(id(&event));
            world.advance(Duration::from_hours(12));
        }
        sent.reverse();
        let page = Browser::of(&world, &person);
        let of = |parity: usize| -> Vec<String> {
            sent.iter().enumerate().filter(|(place, _)| place % 2 == parity).map(|(_, id)| id.clone()).collect()
        };
        let first_day = world.clock().now() - chrono::TimeDelta::hours(72);
        let day = first_day.format("%Y-%m-%d");
        for (filters, expected) in [
            (String::new(), sent.clone()),
            (format!("computer={}", one.uuid), of(1)),
            ("agent=codex".to_owned(), of(0)),
            ("type=memory.stored&lane=memory".to_owned(), sent.clone()),
            ("lane=llm".to_owned(), Vec::new()),
            ("text=CODEX".to_owned(), of(0)),
            (format!("text={}", &sent[3]), vec![sent[3].clone()]),
            (format!("to={day}"), sent.iter().skip(6 - sent_on(&sent, first_day)).cloned().collect()),
        ] {
            let mut on_page = shown(page.get(&format!("/account/activity?{filters}")).await.page(200));
            on_page.dedup();
            assert_eq!(on_page, expected, "{filters}");
            let file = page.get(&format!("/account/activity/export?format=ndjson&{filters}")).await;
            let lines: Vec<Value> = text(&file).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert_eq!(lines.iter().map(id).collect::<Vec<_>>(), expected, "{filters}");
            let file = page.get(&format!("/account/activity/export?format=csv&{filters}")).await;
            assert_eq!(text(&file).lines().count(), expected.len() + 1, "{filters}");
        }
        let file = page.get("/account/activity/export?format=csv").await;
        assert!(file.header("content-disposition").unwrap().starts_with("attachment; filename=\"activity-"));
        assert!(text(&file).starts_with("received_at,event_type,lane,computer,machine_uuid,agent_id,"));
        let after = page.get(&format!("/account/activity/new?after={}", sent[2])).await.expect(200);
        assert_eq!(after, json!({ "count": 2, "more": false }));
    }
}

/// Number of events of the day of `first`, half a day apart from then on.
fn sent_on(sent: &[String], first: domain::Timestamp) -> usize {
    let moments = (0..).zip(sent).map(|(number, _)| first + chrono::TimeDelta::hours(12 * number));
    moments.filter(|at| at.date_naive() == first.date_naive()).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_and_searches_are_limited_and_continue_where_they_stopped() {
    let world = World::with(|settings| {
        settings.activity.page_events = 2;
        settings.activity.search_events_max = 3;
        settings.activity.export_events_max = 4;
    })
    .await;
    let person = world.person("ada@example.com").await;
    let machine = world.attached_machine(&person).await;
    let mut chain = Chain::new(&machine);
    let mut sent = Vec::new();
    for _ in 0..7 {
        let event = chain.next();
        world.event(&machine, &event).await.receipt();
        sent.push(id(&event));
    }
    sent.reverse();
    let page = Browser::of(&world, &person);
    // A filter with an index and one without.
    for filters in ["lane=memory", "type=memory.stored"] {
        let (mut seen, mut path) = (Vec::new(), format!("/account/activity?{filters}"));
        for _ in 0..4 {
            let answer = page.get(&path).await;
            let html = answer.page(200);
            let ids = shown(html);
            assert!(ids.len() <= 2, "{ids:?}");
            seen.extend(ids);
            let next = html
                .split("href=\"")
                .filter_map(|rest| rest.split_once('"'))
                .find(|(link, _)| link.contains("cursor="));
            let Some((next, _)) = next else { break };
            path = next.replace("&#38;", "&").replace("&amp;", "&");
        }
        assert_eq!(seen, sent, "{filters}");
    }
    let file = page.get("/account/activity/export?format=ndjson").await;
    let lines: Vec<&str> = text(&file).lines().collect();
    assert_eq!((lines.len(), lines[4]), (5, "{\"cut_off\":\"there are more events than an export may have\"}"));
    assert!(
        text(&page.get("/account/activity/export?format=csv").await)
            .ends_with("cut off: there are more events than an export may have\r\n")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_reads_what_an_external_statistics_service_gives() {
    let upstream = Upstream::start().await;
    let world = World::over(&upstream, |_| {}).await;
    let person = world.person("ada@example.com").await;
    let machine = world.attached_machine(&person).await;
    let event = |number: u8, kind: &str| {
        json!({ "event_id": format!("019b76da-a800-7a67-8a14-94a3f41b060{number}"), "event_type": kind, "lane": "memory",
            "agent_id": "codex", "machine_uuid": machine.uuid, "received_at": "2026-01-01T00:00:00.000Z" })
    };
    let body = json!({ "events": [event(1, "memory.stored"), event(2, "memory.deleted")], "next_cursor": null });
    upstream.always(Script::reply(Reply::json(200, &body)));
    let page = Browser::of(&world, &person);
    let answer = page.get("/account/activity?type=memory.deleted").await;
    let html = answer.page(200);
    assert!(html.contains("This server uses an external statistics service"), "{html}");
    assert!(!html.contains("Last 30 days"));
    assert_eq!(shown(html), ["019b76da-a800-7a67-8a14-94a3f41b0602"]);
}
