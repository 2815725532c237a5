//! Feeds of notifications, for feed readers (`docs/protocol/feeds.md`).

use api::HttpState;
use api::document::Document;
use askama::Template;
use axum::extract::FromRef;
use axum::http::header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY};
use axum::http::{HeaderMap, HeaderName};
use axum::response::{IntoResponse, Response};
use domain::clock::date_time;
use domain::feed::{Feed, FeedEntry, xml_text};
use domain::held::HoldReason;
use domain::ids::{BatchId, EventId, MachineUuid, RegistrationId};
use domain::lane::Lane;
use domain::secret::Secret;
use domain::webhook::NotificationKind;
use serde_json::Value;

use super::Site;
use super::account::activity::held::in_brief;
use super::frame::unrendered;

const MEDIA_TYPE: &str = "application/atom+xml; charset=utf-8";

/// Links from the document do not send its secret URL as referrer, and crawlers do not index it.
const HEADERS: [(HeaderName, &str); 3] = [
    (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("x-robots-tag"), "noindex"),
];

/// A document of RFC 4287.
#[derive(Template)]
#[template(path = "feed.xml")]
struct FeedDocument {
    id: String,
    host: String,
    updated: String,
    own: String,
    page: String,
    entries: Vec<EntryView>,
}

struct EntryView {
    id: String,
    title: String,
    updated: String,
    link: String,
    kind: &'static str,
    content: String,
}

/// The address of a feed, which contains its secret.
pub(super) fn feed_url(site: &Site, token: &str) -> String {
    format!("{}/feeds/{token}", site.urls.base)
}

/// The document of a feed, or 304 if the reader has it.
pub(super) fn show(
    state: &HttpState,
    headers: &HeaderMap,
    token: &Secret,
    feed: &Feed,
    entries: &[FeedEntry],
) -> Response {
    let document = FeedDocument::new(&Site::from_ref(state), token, feed, entries);
    match document.render() {
        Ok(text) => (HEADERS, Document::new(MEDIA_TYPE, text).answer_private(headers)).into_response(),
        Err(error) => unrendered(&error),
    }
}

impl FeedDocument {
    fn new(site: &Site, token: &Secret, feed: &Feed, entries: &[FeedEntry]) -> Self {
        let base = &site.urls.base;
        let updated = entries.first().map_or(feed.created_at, |entry| entry.created_at);
        Self {
            id: feed.id().to_string(),
            host: site.urls.host().to_owned(),
            updated: date_time(updated),
            own: feed_url(site, token.expose()),
            page: format!("{base}/account"),
            entries: entries.iter().map(|entry| EntryView::new(base, entry)).collect(),
        }
    }
}

impl EntryView {
    fn new(base: &str, entry: &FeedEntry) -> Self {
        Self {
            id: entry.notification.to_string(),
            title: xml_text(&title(entry)),
            updated: date_time(entry.created_at),
            link: format!("{base}{}", path(entry)),
            kind: entry.kind.as_str(),
            content: xml_text(&content(&entry.data)),
        }
    }
}

/// A text member of the data; empty if absent.
fn text<'e>(entry: &'e FeedEntry, name: &str) -> &'e str {
    entry.data[name].as_str().unwrap_or_default()
}

fn title(entry: &FeedEntry) -> String {
    let reason = text(entry, "reason");
    match entry.kind {
        NotificationKind::EventHeld => match reason.parse::<HoldReason>() {
            Ok(reason) => format!("An event was held: {}", in_brief(reason).to_lowercase()),
            Err(_) => "An event was held".to_owned(),
        },
        NotificationKind::AgentRevoked => format!("An agent was revoked{}", by(reason)),
        NotificationKind::ComputerDetached => format!("A computer was detached{}", by(reason)),
        NotificationKind::ConsentChanged => match (text(entry, "level"), text(entry, "lane")) {
            (level, "") => format!("A consent level changed to {level}"),
            (level, lane) => match lane.parse::<Lane>() {
                Ok(lane) => format!("A consent level changed to {level} for {}", lane.title()),
                Err(_) => format!("A consent level changed to {level} for the lane {lane}"),
            },
        },
        NotificationKind::BatchDone if text(entry, "state") == "failed" => "A batch of memories failed".to_owned(),
        NotificationKind::BatchDone => "A batch of memories is complete".to_owned(),
        NotificationKind::RuleMatched => match entry.data["events"].as_u64() {
            Some(1) | None => format!("{}: an event matched", text(entry, "rule")),
            Some(events) => format!("{}: {events} events matched", text(entry, "rule")),
        },
    }
}

/// The party that ended an agent or the attachment of a computer.
fn by(reason: &str) -> &'static str {
    match reason {
        "owner" => " by its owner",
        "operator" => " by the operator",
        "confirmed_by_revoked_agent" => " with the agent that confirmed it",
        "agent_revoked" => " with the agent that attached it",
        _ => "",
    }
}

/// The page that shows the fact. An invalid id is not used in a path.
fn path(entry: &FeedEntry) -> String {
    match entry.kind {
        NotificationKind::EventHeld => "/account/activity".to_owned(),
        NotificationKind::AgentRevoked => match text(entry, "agent_id").parse::<RegistrationId>() {
            Ok(agent) => format!("/account/agents/{agent}"),
            Err(_) => "/account".to_owned(),
        },
        NotificationKind::ComputerDetached => match text(entry, "machine_uuid").parse::<MachineUuid>() {
            Ok(machine) => format!("/account/computers/{machine}"),
            Err(_) => "/account".to_owned(),
        },
        NotificationKind::ConsentChanged => "/account/consent".to_owned(),
        NotificationKind::BatchDone => match text(entry, "batch_id").parse::<BatchId>() {
            Ok(batch) => format!("/knowledge/batches/{batch}"),
            Err(_) => "/knowledge".to_owned(),
        },
        NotificationKind::RuleMatched => match text(entry, "event_id").parse::<EventId>() {
            Ok(event) => format!("/account/activity/{event}"),
            Err(_) => "/account/rules".to_owned(),
        },
    }
}

/// The data, a line for each member that has a value.
fn content(data: &Value) -> String {
    let line = |(name, value): (&String, &Value)| match value {
        Value::Null => None,
        Value::String(text) => Some(format!("{name}: {text}")),
        other => Some(format!("{name}: {other}")),
    };
    data.as_object().into_iter().flatten().filter_map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use domain::{Rng, Timestamp};
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    fn entry(kind: NotificationKind, data: Value) -> FeedEntry {
        let created_at = Timestamp::from_timestamp_millis(1_700_000_000_000).unwrap();
        FeedEntry { notification: Uuid::from_u128(1), kind, created_at, data }
    }

    fn document(entries: &[FeedEntry]) -> String {
        FeedDocument {
            id: Uuid::nil().to_string(),
            host: "attache.example.com".to_owned(),
            updated: "2026-01-01T00:00:00.000Z".to_owned(),
            own: "https://attache.example.com/feeds/fdt_x".to_owned(),
            page: "https://attache.example.com/account".to_owned(),
            entries: entries.iter().map(|entry| EntryView::new("https://attache.example.com", entry)).collect(),
        }
        .render()
        .unwrap()
    }

    #[test]
    fn titles_and_links_are_those_of_the_fact() {
        let id = Rng::seeded(1).uuid_v7(Timestamp::UNIX_EPOCH);
        for (kind, data, words, link) in [
            (
                NotificationKind::EventHeld,
                json!({ "reason": "unknown_event_type" }),
                "An event was held: unknown type",
                "/account/activity".to_owned(),
            ),
            (
                NotificationKind::AgentRevoked,
                json!({ "agent_id": id, "reason": "owner" }),
                "An agent was revoked by its owner",
                format!("/account/agents/{id}"),
            ),
            (
                NotificationKind::ComputerDetached,
                json!({ "machine_uuid": id, "reason": "agent_revoked" }),
                "A computer was detached with the agent that attached it",
                format!("/account/computers/{id}"),
            ),
            (
                NotificationKind::ConsentChanged,
                json!({ "level": "off", "lane": "llm", "machine_uuid": null }),
                "A consent level changed to off for Model calls",
                "/account/consent".to_owned(),
            ),
            (
                NotificationKind::BatchDone,
                json!({ "batch_id": "../../signout", "state": "failed" }),
                "A batch of memories failed",
                "/knowledge".to_owned(),
            ),
            (
                NotificationKind::RuleMatched,
                json!({ "rule": "Failures", "events": 3, "event_id": id }),
                "Failures: 3 events matched",
                format!("/account/activity/{id}"),
            ),
        ] {
            let entry = entry(kind, data);
            assert_eq!((title(&entry).as_str(), path(&entry)), (words, link));
        }
    }

    #[test]
    fn hostile_texts_stay_texts() {
        let hostile = "</content></entry>]]><script>&amp;\"'\u{0}\u{8}\u{ffff}";
        let data = json!({ "level": hostile, "lane": hostile, "<b>": hostile, "count": 3 });
        let text = document(&[entry(NotificationKind::ConsentChanged, data)]);
        assert_eq!(text.matches("<entry>").count(), 1);
        assert_eq!(text.matches("</entry>").count(), 1);
        for absent in ["<script", "<b>", "]]>", "\u{0}", "\u{8}", "\u{ffff}"] {
            assert!(!text.contains(absent), "{absent:?}: {text}");
        }
        assert!(text.contains("count: 3"), "{text}");
    }

    #[test]
    fn a_document_has_the_elements_that_rfc_4287_requires() {
        let text = document(&[]);
        assert!(
            text.starts_with("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<feed xmlns=\"http://www.w3.org/2005/Atom\"")
        );
        for element in ["<id>urn:uuid:", "<title>", "<updated>2026-01-01T00:00:00.000Z</updated>", "<author><name>"] {
            assert!(text.contains(element), "{element}: {text}");
        }
    }
}
