//! The changes of a running session, for an open page, which then loads its parts again.

use std::time::Duration;

use api::knowledge::stream::{EventStreams, event_of_this_stream};
use api::named::Named;
use app::services::activity::browse::Activity;
use app::services::agent_sessions::AgentSessions;
use axum::extract::State;
use bytes::Bytes;
use futures_util::stream::{self, Stream};
use serde::Deserialize;
use serde_json::json;
use statistics::contract::RecordScope;
use uuid::Uuid;

use super::one::{find, not_found};
use crate::account::AccountOwner;
use crate::{PageError, PageQuery, PageResult, Site};

/// Time between two reads of the session.
const EVERY: Duration = Duration::from_secs(1);

/// `?after`: the number of events that the page shows.
#[derive(Debug, Deserialize)]
pub struct LiveQuery {
    after: i64,
}

/// `GET /account/sessions/{id}/stream`: `{new}`, the number of events since the page was shown, whenever it has changed, until the session
/// ends.
pub async fn stream(
    State(site): State<Site>,
    State(activity): State<Activity>,
    State(sessions): State<AgentSessions>,
    State(streams): State<EventStreams>,
    owner: AccountOwner,
    Named(id): Named,
    PageQuery(LiveQuery { after }): PageQuery<LiveQuery>,
) -> PageResult {
    let access = owner.access();
    let place = streams.place(&access.account).map_err(PageError::of(&site))?;
    let id: Uuid = id.parse().map_err(|_| not_found(&site, &owner))?;
    let scope = activity.scope(&owner.account).await.map_err(PageError::of(&site))?;
    find(&site, &sessions, &scope, &owner, id).await?;
    let watch = SessionWatch { sessions, scope, id, shown: after, seen: after, has_ended: false };
    let signed_out = event_of_this_stream(&json!({ "done": true }).to_string());
    Ok(streams.respond(place, access.credential, watch.events(), signed_out))
}

/// A session that is read again and again.
struct SessionWatch {
    sessions: AgentSessions,
    scope: RecordScope,
    id: Uuid,
    /// Number of events of the page.
    shown: i64,
    /// Number of events of the last message.
    seen: i64,
    has_ended: bool,
}

impl SessionWatch {
    fn events(self) -> impl Stream<Item = Bytes> {
        stream::unfold(self, |mut watch| async move {
            while !watch.has_ended {
                let session = match watch.sessions.find(&watch.scope, watch.id).await {
                    Ok(session) => session?,
                    Err(error) => {
                        // The browser joins again.
                        tracing::warn!(error = domain::reasons(&error), "the event stream of a session ended early");
                        return None;
                    }
                };
                watch.has_ended = session.ended_ms.is_some();
                let events = session.counts.events;
                if events != watch.seen || watch.has_ended {
                    watch.seen = events;
                    let news = json!({ "new": events - watch.shown, "done": watch.has_ended });
                    return Some((event_of_this_stream(&news.to_string()).into(), watch));
                }
                tokio::time::sleep(EVERY).await;
            }
            None
        })
    }
}
