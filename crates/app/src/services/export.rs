//! The export of an account as lines of JSON, without secrets (`docs/decisions/0017-retention-and-erasure.md`).

use actors::InfraError;
use actors::upstream::Upstream;
use bytes::Bytes;
use domain::api_key::ApiKey;
use domain::clock::date_time;
use domain::feed::Feed;
use domain::ids::{MemoryId, PersonId, UserAccountId};
use domain::usage::{Day, UsageWindow};
use domain::webhook::Webhook;
use futures_util::stream::{self, Stream};
use serde::Deserialize;
use serde_json::{Value, json};
use statistics::contract::{ActivityQuery, RecordScope};
use store::StoreError;
use store::memory::MemoryScope;
use store::rule::StoredRule;

use super::Ports;
use super::activity::scope_of_account;

const MEMORIES: usize = 20;
const EVENTS: u16 = 200;
/// Maximum number of rows of each other kind.
const ROWS_MAX: usize = 10_000;
/// Maximum length of a memory in characters: unlimited.
const CONTENT_WHOLE: u32 = i32::MAX.unsigned_abs();

/// Exports accounts. Clones share the database.
#[derive(Debug, Clone)]
pub struct AccountExport {
    ports: Ports,
    upstream: Upstream,
}

/// Why an export was interrupted.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
    /// An actor failed.
    #[error("an actor failed")]
    Infra(#[from] InfraError),
    /// The statistics service did not return the recorded events.
    #[error("the statistics service: {0}")]
    Upstream(String),
    /// The sign-in ended during the export.
    #[error("the sign-in ended")]
    SignedOut,
}

#[derive(Debug)]
enum Part {
    Account,
    Memories(Option<MemoryId>),
    Activity(Box<RecordScope>, Option<String>),
    End,
}

/// The members of a page of activity that the export uses.
#[derive(Deserialize)]
struct Page {
    events: Vec<Value>,
    next_cursor: Option<String>,
}

impl AccountExport {
    /// Exports from the store of `ports` and the recorded events of `upstream`.
    pub fn new(ports: Ports, upstream: Upstream) -> Self {
        Self { ports, upstream }
    }

    /// The lines, in parts of bounded size: account, computers, agents, levels, keys, webhooks, feed, rules, sessions, spaces, usage, memories,
    /// events. Each is an object with a member `kind`. After an error the stream ends.
    pub fn lines(
        self,
        account: UserAccountId,
        person: PersonId,
    ) -> impl Stream<Item = Result<Bytes, ExportError>> + Send {
        stream::unfold((self, account, person, Part::Account), |(this, account, person, part)| async move {
            match this.part(&account, person, part).await {
                Ok((_, None)) => None,
                Ok((lines, Some(next))) => Some((Ok(lines), (this, account, person, next))),
                Err(error) => {
                    tracing::error!(error = domain::reasons(&error), "an export was cut off");
                    Some((Err(error), (this, account, person, Part::End)))
                }
            }
        })
    }

    async fn part(
        &self,
        account: &UserAccountId,
        person: PersonId,
        part: Part,
    ) -> Result<(Bytes, Option<Part>), ExportError> {
        match part {
            Part::Account => Ok((lines(&self.account(account, person).await?), Some(Part::Memories(None)))),
            Part::Memories(after) => self.memories(account, after).await,
            Part::Activity(scope, cursor) => self.events(scope, cursor).await,
            Part::End => Ok((Bytes::new(), None)),
        }
    }

    /// Everything but memories and events.
    async fn account(&self, account: &UserAccountId, person: PersonId) -> Result<Vec<Value>, ExportError> {
        let Ports { store, clock, .. } = &self.ports;
        let (now, mut all) = (clock.now(), Vec::new());
        if let Some(row) = store.account_by_id(account).await? {
            all.push(json!({
                "kind": "account",
                "id": row.id,
                "email": row.owner.map(|(_, email)| email.as_str().to_owned()),
                "name": row.name,
                "plan": row.plan.as_str(),
                "balance_cents": row.balance_cents,
                "created_at": date_time(row.created_at),
                "exported_at": date_time(now),
            }));
        }
        let mut computers = store.computers_of_account(account, ROWS_MAX).await?;
        computers.extend(store.computers_ended(account, ROWS_MAX).await?);
        all.extend(computers.into_iter().map(|computer| {
            json!({
                "kind": "computer",
                "machine_uuid": computer.machine_uuid,
                "user_cuid": computer.user_cuid,
                "label": computer.label,
                "name": computer.name,
                "first_seen_at": date_time(computer.first_seen_at),
                "last_seen_at": date_time(computer.last_seen_at),
                "attached_at": computer.attached_at.map(date_time),
            })
        }));
        all.extend(store.agents_of_account(account, ROWS_MAX).await?.into_iter().map(|agent| {
            json!({
                "kind": "agent",
                "id": agent.id,
                "type": agent.registration_type,
                "label": agent.label,
                "address": agent.ip_address,
                "created_at": date_time(agent.created_at),
                "claimed_at": agent.claim.map(|claim| date_time(claim.at)),
                "last_token_at": agent.last_token_at.map(date_time),
                "revoked_at": agent.revoked_at.map(date_time),
            })
        }));
        all.extend(store.consent_of_account(account).await?.into_iter().map(|record| {
            json!({
                "kind": "consent",
                "user_cuid": record.user_cuid,
                "machine_uuid": record.rule.machine,
                "lane": record.rule.lane,
                "level": record.rule.level,
                "set_by": record.rule.set_by,
            })
        }));
        let pauses = store.pauses_of_account(account, now).await?;
        let of_account = pauses.account.map(|until| (None, until));
        let of_machines = pauses.machines.into_iter().map(|(machine, until)| (Some(machine), until));
        all.extend(of_account.into_iter().chain(of_machines).map(
            |(machine, until)| json!({ "kind": "pause", "machine_uuid": machine, "paused_until": date_time(until) }),
        ));
        all.extend(store.api_keys_of_account(account, ROWS_MAX).await?.iter().map(key_line));
        all.extend(store.webhooks_of_account(account, ROWS_MAX).await?.iter().map(webhook_line));
        all.extend(store.feed_of_account(account).await?.iter().map(feed_line));
        all.extend(store.rules_of_account(account).await?.iter().map(rule_line));
        all.extend(
            store.digest_of_account(account).await?.map(|at| json!({ "kind": "digest", "next_at": date_time(at) })),
        );
        all.extend(store.sessions_of_person(person, now, ROWS_MAX).await?.into_iter().map(|session| {
            json!({
                "kind": "session",
                "id": session.id,
                "via": session.via.to_string(),
                "address": session.address,
                "user_agent": session.user_agent,
                "created_at": date_time(session.created_at),
                "last_used_at": date_time(session.last_used_at),
                "expires_at": date_time(session.expires_at),
            })
        }));
        all.extend(store.spaces_of_account(account, ROWS_MAX).await?.into_iter().map(|space| {
            json!({
                "kind": "space",
                "id": space.id,
                "name": space.name.as_str(),
                "is_public": space.is_public,
                "created_at": date_time(space.created_at),
            })
        }));
        let window = UsageWindow { first: Day::from(0), end: Day::of(now).next() };
        let recorders = store.recorders_of_account(account).await?.computers;
        all.extend(store.usage_history(&recorders, window, ROWS_MAX).await?.into_iter().map(|day| {
            json!({
                "kind": "usage",
                "day": day.day.to_string(),
                "machine_uuid": day.recorder.machine,
                "user_cuid": day.recorder.identity,
                "memory_events": day.used.memory,
                "retrospectives": day.used.retrospectives,
            })
        }));
        Ok(all)
    }

    async fn memories(
        &self,
        account: &UserAccountId,
        after: Option<MemoryId>,
    ) -> Result<(Bytes, Option<Part>), ExportError> {
        let store = &self.ports.store;
        let page = store.memories_of(&MemoryScope::Account(account.clone()), after, MEMORIES, CONTENT_WHOLE).await?;
        let next = match page.last().filter(|_| page.len() == MEMORIES) {
            Some(last) => Part::Memories(Some(last.id)),
            None => Part::Activity(Box::new(scope_of_account(store, account).await?), None),
        };
        let line = |memory: store::memory::Memory| {
            json!({
                "kind": "memory",
                "id": memory.id,
                "type": memory.kind.as_str(),
                "title": memory.title,
                "url": memory.url,
                "content": memory.content,
                "spaces": memory.spaces,
                "tags": memory.tags,
                "created_at": date_time(memory.created_at),
                "updated_at": date_time(memory.updated_at),
            })
        };
        Ok((lines(&page.into_iter().map(line).collect::<Vec<_>>()), Some(next)))
    }

    async fn events(
        &self,
        scope: Box<RecordScope>,
        cursor: Option<String>,
    ) -> Result<(Bytes, Option<Part>), ExportError> {
        let query = ActivityQuery { limit: Some(EVENTS), cursor, is_complete: true, ..ActivityQuery::default() };
        let answer = self.upstream.activity(&scope, &query).await;
        let answer = answer.map_err(|error| ExportError::Upstream(error.to_string()))?;
        if !answer.status.is_success() {
            return Err(ExportError::Upstream(answer.status.to_string()));
        }
        let page: Page =
            serde_json::from_slice(&answer.body).map_err(|error| ExportError::Upstream(error.to_string()))?;
        let next = page.next_cursor.map_or(Part::End, |cursor| Part::Activity(scope, Some(cursor)));
        let line = |event: Value| json!({ "kind": "event", "event": event });
        Ok((lines(&page.events.into_iter().map(line).collect::<Vec<_>>()), Some(next)))
    }
}

fn key_line(key: &ApiKey) -> Value {
    json!({
        "kind": "key",
        "id": key.id,
        "name": key.name,
        "scopes": key.scopes,
        "spaces": key.spaces,
        "created_at": date_time(key.created_at),
        "expires_at": key.expires_at.map(date_time),
        "last_used_at": key.last_used_at.map(date_time),
        "revoked_at": key.revoked_at.map(date_time),
    })
}

fn webhook_line(webhook: &Webhook) -> Value {
    json!({
        "kind": "webhook",
        "id": webhook.id,
        "url": webhook.url.as_str(),
        "description": webhook.description,
        "kinds": webhook.kinds,
        "created_at": date_time(webhook.created_at),
        "disabled_at": webhook.disabled.map(|(at, _)| date_time(at)),
    })
}

fn rule_line(StoredRule { rule, state }: &StoredRule) -> Value {
    json!({
        "kind": "rule",
        "id": rule.id,
        "name": rule.name,
        "when": rule.when,
        "mail": rule.outlets.mail,
        "notify": rule.outlets.notify,
        "created_at": date_time(rule.created_at),
        "last_message_at": state.sent_at().map(date_time),
    })
}

fn feed_line(feed: &Feed) -> Value {
    json!({ "kind": "feed", "kinds": feed.kinds, "created_at": date_time(feed.created_at) })
}

fn lines(values: &[Value]) -> Bytes {
    values.iter().fold(String::new(), |lines, value| lines + &value.to_string() + "\n").into()
}
