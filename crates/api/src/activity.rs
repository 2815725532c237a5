//! Activity, read through from the statistics service (`docs/protocol/audit.md`).

use std::collections::BTreeMap;
use std::sync::Arc;

use actors::upstream::Upstream;
use app::config::Urls;
use app::services::activity::{scope_of_account, scope_of_computer};
use axum::extract::State;
use bytes::Bytes;
use domain::envelope::Lane;
use serde::Deserialize;
use serde_json::value::RawValue;
use statistics::contract::{ActivityQuery, RecordScope};
use store::Store;
use store::held::{HeldScope, Unclassified};

use super::auth::{Caller, unauthorized};
use super::error::{ApiError, ApiResult, Code};
use super::passed;
use super::query::ApiQuery;

const LIMIT_DEFAULT: u16 = 100;
const LIMIT_MAX: u16 = 500;
/// Maximum size of `cursor` in UTF-8 bytes.
const CURSOR_BYTES_MAX: usize = 1024;
/// Maximum number of held events on the first page.
const UNCLASSIFIED_MAX: usize = 100;

/// `GET /api/v1/activity`
pub async fn page(
    State(store): State<Store>,
    State(upstream): State<Upstream>,
    State(urls): State<Arc<Urls>>,
    caller: Caller,
    ApiQuery(query): ApiQuery<ActivityParameters>,
) -> ApiResult {
    let query = query.parsed()?;
    let scope = scope(&caller, &store, &urls).await?;
    let mut answer = upstream.activity(&scope, &query).await.map_err(|error| passed::unreachable(&error))?;
    let first_page = query.cursor.is_none() && answer.status.is_success();
    if first_page && is_object(&answer.body) {
        let held = match &caller {
            Caller::Machine { facts, .. } => HeldScope::Machine(facts.machine_uuid),
            other => HeldScope::Account(other.require_account()?.clone()),
        };
        let (entries, truncated) = store.held_unclassified(&held, UNCLASSIFIED_MAX).await?;
        answer.body = with_unclassified(&answer.body, &entries, truncated);
    }
    Ok(passed::response(answer))
}

/// The events visible to the caller.
pub async fn scope(caller: &Caller, store: &Store, urls: &Urls) -> Result<RecordScope, ApiError> {
    if let Caller::Machine { facts, .. } = caller {
        return Ok(scope_of_computer(store, facts).await?);
    }
    // Without an account there is no scope, and the statistics service must not receive a query without a scope.
    let account = caller.account().ok_or_else(|| unauthorized(Code::Unauthorized, true, urls))?;
    Ok(scope_of_account(store, account).await?)
}

/// `?limit&cursor&since&lane`, not yet parsed: each parameter has its own error code.
#[derive(Debug, Deserialize)]
pub struct ActivityParameters {
    limit: Option<String>,
    cursor: Option<String>,
    since: Option<String>,
    lane: Option<String>,
}

impl ActivityParameters {
    fn parsed(self) -> Result<ActivityQuery, ApiError> {
        let Self { limit, cursor, since, lane } = self;
        let limit = page_limit(limit, LIMIT_DEFAULT, LIMIT_MAX)?;
        if cursor.as_ref().is_some_and(|cursor| cursor.len() > CURSOR_BYTES_MAX) {
            return Err(Code::CursorTooLong.into());
        }
        let lane = lane.map(|lane| lane.parse::<Lane>().map_err(|_| Code::LaneNotInEnum)).transpose()?;
        Ok(ActivityQuery { limit: Some(limit), cursor, since, lane, ..ActivityQuery::default() })
    }
}

/// The number of entries of a page: `default` without `limit`, which is from 1 to `max` in decimal digits.
pub fn page_limit(limit: Option<String>, default: u16, max: u16) -> Result<u16, Code> {
    let Some(text) = limit else { return Ok(default) };
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let limit = digits.then(|| text.parse::<u16>().ok()).flatten();
    limit.filter(|limit| (1..=max).contains(limit)).ok_or(Code::InvalidLimit)
}

fn is_object(body: &[u8]) -> bool {
    serde_json::from_slice::<BTreeMap<String, &RawValue>>(body).is_ok()
}

/// Adds the two members; all other bytes of the object stay unchanged.
fn with_unclassified(body: &Bytes, entries: &[Unclassified], truncated: bool) -> Bytes {
    let entries: Vec<wire::activity::Unclassified> = entries.iter().map(described).collect();
    let entries = serde_json::to_value(entries).unwrap_or_default();
    let members = format!(r#""unclassified":{entries},"unclassified_truncated":{truncated}"#);
    let open = body.trim_ascii_end().strip_suffix(b"}").unwrap_or_default();
    let separator: &[u8] = if open.trim_ascii_end().ends_with(b"{") { b"" } else { b"," };
    let spliced = [open, separator, members.as_bytes(), b"}"].concat();
    // If the service sends members with these names too, the object has duplicates: the members of this server replace them.
    let doubled = serde_json::from_slice::<BTreeMap<String, &RawValue>>(body)
        .is_ok_and(|object| object.contains_key("unclassified") || object.contains_key("unclassified_truncated"));
    let single = doubled.then(|| serde_json::from_slice::<BTreeMap<String, Box<RawValue>>>(&spliced).ok()).flatten();
    single.and_then(|object| serde_json::to_vec(&object).ok()).unwrap_or(spliced).into()
}

fn described(entry: &Unclassified) -> wire::activity::Unclassified {
    wire::activity::Unclassified {
        event_id: entry.event_id.as_ref().map(ToString::to_string),
        event_type: entry.event_type.clone(),
        agent_id: entry.agent_id.clone(),
        machine_uuid: entry.machine_uuid.as_ref().map(ToString::to_string),
        reason: entry.reason.as_str().to_owned(),
        received_at: entry.received_at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_of_the_query_has_its_code() {
        let code = |query: &str| {
            serde_urlencoded::from_str::<ActivityParameters>(query).unwrap().parsed().map_err(|error| error.code())
        };
        assert_eq!(code("").unwrap().limit, Some(100));
        assert_eq!(code("limit=500&lane=rsi&since=x&cursor=y").unwrap().lane, Some(Lane::Rsi));
        for limit in ["0", "501", "-1", "+5", "5.0", "", "ten", "99999999999999999999"] {
            assert_eq!(code(&format!("limit={limit}")).unwrap_err(), Code::InvalidLimit, "{limit}");
        }
        assert!(code(&format!("cursor={}", "é".repeat(512).replace('é', "%C3%A9"))).is_ok());
        assert_eq!(
            code(&format!("cursor={}x", "é".repeat(512).replace('é', "%C3%A9"))).unwrap_err(),
            Code::CursorTooLong
        );
        assert_eq!(code("lane=dream").unwrap_err(), Code::LaneNotInEnum);
    }

    #[test]
    fn members_are_added_and_nothing_else_is_touched() {
        let added = |body: &str| {
            String::from_utf8(with_unclassified(&Bytes::from(body.to_owned()), &[], false).to_vec()).unwrap()
        };
        let members = r#""unclassified":[],"unclassified_truncated":false"#;
        assert_eq!(added("{}"), format!("{{{members}}}"));
        assert_eq!(added(" { } \n"), format!(" {{ {members}}}"));
        assert_eq!(
            added(r#"{"b":1e400, "a" : 12345678901234567890123}"#),
            format!(r#"{{"b":1e400, "a" : 12345678901234567890123,{members}}}"#)
        );
        assert_eq!(added(r#"{"unclassified":9,"a":1}"#), format!(r#"{{"a":1,{members}}}"#));
        assert!(!is_object(b"[]") && !is_object(b"{} x") && !is_object(b"<html>") && is_object(b" {\"a\":{}} "));
    }
}
