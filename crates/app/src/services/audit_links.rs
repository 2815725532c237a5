//! Audit links: they show a session or a lane of an account to a reader without an account (`docs/protocol/receipts.md#audit-links`).

use std::sync::Arc;

use actors::upstream::Upstream;
use actors::{InfraError, Unavailable};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use chrono::TimeDelta;
use domain::audit_link::{AuditLink, AuditSubject, LINKS_MAX};
use domain::checkpoint::VerifierKey;
use domain::consent::ConsentLevel;
use domain::ids::{AuditLinkId, EventId, MachineUuid, UserAccountId};
use domain::label::Label;
use domain::lane::Lane;
use domain::log_part::LogPart;
use domain::recorder::Recorders;
use domain::registry::{NoNames, Registry, Summary};
use domain::secret::{Secret, SecretKind};
use proofs::audit_receipt::{AuditReceipt, BuildFault, Selection, build};
use proofs::proof::AuditProof;
use serde::Deserialize;
use serde_json::{Map, Value};
use statistics::contract::{ActivityQuery, RecordScope};
use statistics::log::{LogError, RecordedSession};
use statistics::parts::Logs;
use store::StoreError;

use super::Ports;
use super::activity::scope_of_account;
use super::agent_sessions::{AgentSessionError, AgentSessions};
use super::confirmation::RecentlySignedIn;
use crate::config::Urls;

/// Events of a page.
const PAGE_EVENTS: u16 = 50;

/// Minimum time between two writes of a link's last use.
const USE_WRITTEN_EVERY: TimeDelta = TimeDelta::minutes(1);

/// Creates, reads and ends audit links. Clones share everything.
#[derive(Debug, Clone)]
pub struct AuditLinks {
    ports: Ports,
    upstream: Upstream,
    sessions: AgentSessions,
    registry: Arc<Registry>,
    urls: Arc<Urls>,
}

/// The request for a new link.
#[derive(Debug)]
pub struct NewAuditLink {
    /// Name for the owner and the readers.
    pub name: Label,
    /// The events that it shows.
    pub subject: AuditSubject,
    /// Whether it shows recorded content too.
    pub with_content: bool,
    /// Time until its end.
    pub lasts: TimeDelta,
}

/// Why a link is not created or read.
#[derive(Debug, thiserror::Error)]
pub enum AuditLinkRefusal {
    /// The statistics service is external, and only the embedded log shows sessions and proofs against one checkpoint.
    #[error("the statistics service is external: it has no audit links")]
    External,
    /// The link, its session or the page does not exist.
    #[error("there is no such link, session or page")]
    NotFound,
    /// The account has the maximum number of links.
    #[error("the account has too many audit links")]
    TooMany,
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The store failed.
    #[error(transparent)]
    Infra(#[from] InfraError),
}

impl From<StoreError> for AuditLinkRefusal {
    fn from(error: StoreError) -> Self {
        Self::Infra(error.into())
    }
}

impl From<Unavailable> for AuditLinkRefusal {
    fn from(error: Unavailable) -> Self {
        Self::Infra(error.into())
    }
}

impl From<AgentSessionError> for AuditLinkRefusal {
    fn from(error: AgentSessionError) -> Self {
        match error {
            AgentSessionError::External => Self::External,
            AgentSessionError::InvalidCursor => Self::NotFound,
            AgentSessionError::Log(error) => Self::Log(error),
        }
    }
}

/// A page of the events of a link, newest first. Events that no checkpoint covers yet are absent.
#[derive(Debug, Default)]
pub struct AuditPage {
    /// What the account may see.
    pub scope: RecordScope,
    /// The session, if the link is about one.
    pub session: Option<RecordedSession>,
    /// At most 50 events, newest first.
    pub events: Vec<AuditedEvent>,
    /// Proves the events; `None` if there are none, or if it would be too large.
    pub receipt: Option<AuditReceipt>,
    /// Cursor of the next page.
    pub next: Option<String>,
}

/// An event of a page.
#[derive(Debug)]
pub struct AuditedEvent {
    /// Id of the event.
    pub id: EventId,
    /// The computer that recorded it.
    pub machine: MachineUuid,
    /// The agent kind.
    pub agent: String,
    /// The lane, as the event names it.
    pub lane: String,
    /// The event in a sentence: with content only if the link shows it.
    pub summary: Summary,
    /// Time of the computer's clock, in milliseconds since 1970.
    pub ts_edge_ms: i64,
    /// Time of receipt, in milliseconds since 1970.
    pub received_at_ms: i64,
}

impl AuditLinks {
    /// `sessions` reads the log of `upstream`, and `registry` describes its events. Receipts name the server of `urls`.
    pub fn new(
        ports: Ports,
        upstream: Upstream,
        sessions: AgentSessions,
        registry: Arc<Registry>,
        urls: Arc<Urls>,
    ) -> Self {
        Self { ports, upstream, sessions, registry, urls }
    }

    /// Whether links are possible: only the embedded log has what they show.
    pub fn are_possible(&self) -> bool {
        self.log().is_ok()
    }

    fn log(&self) -> Result<&Logs, AuditLinkRefusal> {
        match &self.upstream {
            Upstream::Embedded { log, .. } => Ok(log),
            Upstream::External(_) => Err(AuditLinkRefusal::External),
        }
    }

    /// Creates a link and returns its secret, which is stored only as a hash.
    #[boxed]
    pub async fn create(
        &self,
        account: UserAccountId,
        new: NewAuditLink,
        _: RecentlySignedIn,
    ) -> Result<Secret, AuditLinkRefusal> {
        let Ports { store, clock, rng } = &self.ports;
        if let AuditSubject::Session(id) = new.subject {
            let scope = scope_of_account(store, &account).await?;
            self.sessions.find(&scope, id).await?.ok_or(AuditLinkRefusal::NotFound)?;
        }
        self.log()?;
        let (now, token) = (clock.now(), Secret::mint(SecretKind::AuditLink, rng));
        let link = AuditLink {
            id: rng.uuid_v7(now).into(),
            account,
            name: new.name,
            subject: new.subject,
            with_content: new.with_content,
            created_at: now,
            expires_at: now + new.lasts,
            last_used_at: None,
        };
        let (store, hash) = (store.clone(), token.hash());
        let added = actors::detached(async move { store.audit_link_create(&link, &hash, LINKS_MAX).await }).await??;
        if added { Ok(token) } else { Err(AuditLinkRefusal::TooMany) }
    }

    /// The links of an account that have not ended, newest first.
    #[boxed]
    pub async fn list(&self, account: &UserAccountId) -> Result<Vec<AuditLink>, StoreError> {
        self.ports.store.audit_links_of_account(account, self.ports.clock.now()).await
    }

    /// Ends a link at once; `false` if the account has no such link.
    #[boxed]
    pub async fn end(&self, id: AuditLinkId, account: UserAccountId) -> Result<bool, InfraError> {
        let store = self.ports.store.clone();
        Ok(actors::detached(async move { store.audit_link_delete(id, &account).await }).await??)
    }

    /// The link with this secret, if it has not ended. The time of its use is written at most once a minute.
    #[boxed]
    pub async fn find(&self, token: &Secret) -> Result<AuditLink, AuditLinkRefusal> {
        let Ports { store, clock, .. } = &self.ports;
        if !token.has_form(SecretKind::AuditLink) {
            return Err(AuditLinkRefusal::NotFound);
        }
        let now = clock.now();
        let link = store.audit_link_by_hash(&token.hash(), now).await?.ok_or(AuditLinkRefusal::NotFound)?;
        let unless_since = now - USE_WRITTEN_EVERY;
        if link.last_used_at.is_none_or(|last| last <= unless_since) {
            let (store, id) = (store.clone(), link.id);
            actors::detached(async move { store.audit_link_used(id, unless_since, now).await }).await??;
        }
        Ok(link)
    }

    /// A page of the events that a link shows, from `cursor` on.
    #[boxed]
    pub async fn read(&self, link: &AuditLink, cursor: Option<&str>) -> Result<AuditPage, AuditLinkRefusal> {
        let log = self.log()?;
        let scope = scope_of_account(&self.ports.store, &link.account).await?;
        let (session, ids, next) = match link.subject {
            AuditSubject::Session(id) => {
                let timeline = self.sessions.timeline(&scope, id, cursor, PAGE_EVENTS).await?;
                let timeline = timeline.ok_or(AuditLinkRefusal::NotFound)?;
                let ids = timeline.events.iter().map(|event| event.event.event_id).collect();
                (Some(timeline.session), ids, timeline.next)
            }
            AuditSubject::Lane { lane, first } => {
                let query = ActivityQuery {
                    limit: Some(PAGE_EVENTS),
                    since: Some(first.begin().timestamp_millis().to_string()),
                    lane: Some(lane),
                    ..ActivityQuery::default()
                };
                let (ids, next) = listed_by_part(log, &scope, &query, cursor).await?;
                (None, ids, next)
            }
        };
        let mut proofs = log.included_proofs(&scope, &ids).await?;
        // The order of the page: a proof may be missing.
        proofs.sort_by_key(|proof| ids.iter().position(|id| *id == proof.event_id));
        let events = proofs.iter().filter_map(|proof| self.described(proof, link.with_content)).collect();
        let session_uuid = session.as_ref().map(|session| session.session);
        let receipt =
            self.receipt(&proofs, &Selection { session_uuid, project_id: None, with_content: link.with_content });
        Ok(AuditPage { scope, session, events, receipt, next })
    }

    fn described(&self, proof: &AuditProof, with_content: bool) -> Option<AuditedEvent> {
        #[derive(Deserialize)]
        struct Recorded {
            event_type: String,
            lane: Lane,
            ts_edge_ms: i64,
            consent_level: ConsentLevel,
            payload: Map<String, Value>,
        }
        let canonical = BASE64_STANDARD.decode(&proof.canonical_b64).ok()?;
        let event: Recorded = serde_json::from_slice(&canonical).ok()?;
        let level = match event.consent_level {
            ConsentLevel::Full if !with_content => ConsentLevel::MetadataOnly,
            level => level,
        };
        let leaf = BASE64_STANDARD.decode(&proof.leaf_b64).ok()?;
        let leaf: proofs::leaf::Leaf<'_> = serde_json::from_slice(&leaf).ok()?;
        Some(AuditedEvent {
            id: proof.event_id,
            machine: proof.chain.machine_id,
            agent: proof.chain.agent_id.clone(),
            lane: event.lane.as_str().to_owned(),
            summary: self.registry.summary(&event.event_type, level, &event.payload, &NoNames),
            ts_edge_ms: event.ts_edge_ms,
            received_at_ms: leaf.received_at_ms,
        })
    }

    fn receipt(&self, proofs: &[AuditProof], selection: &Selection) -> Option<AuditReceipt> {
        let first = proofs.first()?;
        let key: VerifierKey = first.vkey.parse().ok()?;
        let note = first.checkpoint.as_deref()?;
        let path = |proof: &AuditProof, _, _| Ok(proof.inclusion_path.clone().unwrap_or_default());
        let receipt = build(&self.urls.base, &key, note, proofs, path, selection);
        receipt.inspect_err(warn_of).ok()
    }
}

fn warn_of(fault: &BuildFault) {
    tracing::warn!(error = domain::reasons(fault), "the receipt of an audit link could not be built");
}

/// The ids of a page, and the cursor of the next one. A page has events of one part of the log, because its receipt has one checkpoint; the
/// parts follow one after the other, and `N.` before a cursor names part N.
async fn listed_by_part(
    log: &Logs,
    scope: &RecordScope,
    query: &ActivityQuery,
    cursor: Option<&str>,
) -> Result<(Vec<EventId>, Option<String>), AuditLinkRefusal> {
    let (begin, mut within) = match cursor.and_then(|cursor| cursor.split_once('.')) {
        Some((part, within)) => (LogPart::new(part.parse().map_err(|_| AuditLinkRefusal::NotFound)?), Some(within)),
        None => (LogPart::FIRST, cursor),
    };
    let mut parts = scope.shown.parts.clone();
    if parts.is_empty() {
        parts.insert(LogPart::FIRST);
    }
    if cursor.is_some() && !parts.contains(&begin) {
        return Err(AuditLinkRefusal::NotFound);
    }
    for part in parts.range(begin..).copied() {
        let of_part = RecordScope { shown: Recorders { parts: [part].into(), ..scope.shown.clone() }, ..scope.clone() };
        let within = within.take().filter(|within| !within.is_empty()).map(str::to_owned);
        let (ids, next) = listed(log, &of_part, &ActivityQuery { cursor: within, ..query.clone() }).await?;
        let further = parts.range(part..).nth(1);
        let next = match (next, further) {
            (Some(next), _) if part.is_first() => Some(next),
            (Some(next), _) => Some(format!("{part}.{next}")),
            (None, Some(_)) if ids.is_empty() => continue,
            (None, further) => further.map(|further| format!("{further}.")),
        };
        return Ok((ids, next));
    }
    Ok((Vec::new(), None))
}

/// The ids of a page of activity, and the cursor of the next one.
async fn listed(
    log: &Logs,
    scope: &RecordScope,
    query: &ActivityQuery,
) -> Result<(Vec<EventId>, Option<String>), AuditLinkRefusal> {
    #[derive(Deserialize)]
    struct Listed {
        events: Vec<Entry>,
        next_cursor: Option<String>,
    }
    #[derive(Deserialize)]
    struct Entry {
        event_id: EventId,
    }
    let page = log.activity(scope, query).await?;
    // The query differs from a valid one in its cursor only.
    let page: Listed = serde_json::from_slice(&page.body).map_err(|_| AuditLinkRefusal::NotFound)?;
    Ok((page.events.into_iter().map(|entry| entry.event_id).collect(), page.next_cursor))
}
