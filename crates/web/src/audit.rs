//! `/audits/{token}`: the events of an audit link, for a reader without an account. The browser checks their receipt.

use std::net::IpAddr;
use std::sync::Arc;

use api::HttpState;
use api::client::ClientAddress;
use api::limits::RateLimiters;
use api::named::Named;
use app::services::agent_sessions::AgentSessions;
use app::services::audit_links::{AuditLinkRefusal, AuditLinks, AuditPage, AuditedEvent};
use askama::Template;
use axum::extract::{FromRef, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderName, StatusCode};
use axum::response::IntoResponse as _;
use chrono::DateTime;
use domain::Timestamp;
use domain::audit_link::{AuditLink, AuditSubject};
use domain::registry::Summary;
use domain::secret::Secret;
use proofs::audit_receipt::AuditReceipt;

use crate::account::activity::computers::Computers;
use crate::account::activity::rows::source;
use crate::account::sessions::facts;
use crate::frame::framed;
use crate::visitor::quoted;
use crate::{CursorQuery, Moment, PageError, PageErrorTexts, PageLayout, PageQuery, PageResult, Site, page};

/// Crawlers do not index the page.
const NO_INDEX: (HeaderName, &str) = (HeaderName::from_static("x-robots-tag"), "noindex");

/// The state of these pages.
#[derive(Debug, Clone)]
pub struct AuditPages {
    site: Site,
    links: AuditLinks,
    sessions: AgentSessions,
    limits: Arc<RateLimiters>,
}

impl FromRef<HttpState> for AuditPages {
    fn from_ref(state: &HttpState) -> Self {
        Self {
            site: Site::from_ref(state),
            links: FromRef::from_ref(state),
            sessions: FromRef::from_ref(state),
            limits: FromRef::from_ref(state),
        }
    }
}

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditView {
    frame: PageLayout,
    name: String,
    subject: String,
    with_content: bool,
    expires: Moment,
    rows: Vec<AuditRow>,
    is_first: bool,
    /// JSON of the receipt, without characters that end a script element.
    receipt: Option<String>,
    download: String,
    next: Option<String>,
}

struct AuditRow {
    id: String,
    summary: Summary,
    lane: String,
    source: String,
    /// Date and time of the computer's clock, in UTC.
    happened: Option<String>,
    received: Option<Moment>,
}

/// `GET /audits/{token}`
pub async fn show(
    State(pages): State<AuditPages>,
    ClientAddress(address): ClientAddress,
    Named(token): Named,
    PageQuery(query): PageQuery<CursorQuery>,
) -> PageResult {
    let AuditPages { site, sessions, .. } = &pages;
    let (link, read) = pages.read(address, &token, &query).await?;
    let now = site.ports.clock.now();
    let computers = Computers::of(site, &link.account, &read.scope).await?;
    let frame = PageLayout::new(site, None);
    let path = format!("{}/audits/{token}", frame.root);
    let at = |cursor: Option<&str>| cursor.map(|cursor| format!("?cursor={}", quoted(cursor))).unwrap_or_default();
    let response = page(
        StatusCode::OK,
        &AuditView {
            name: link.name.as_str().to_owned(),
            subject: subject(&link, &read, sessions, &computers),
            with_content: link.with_content,
            expires: Moment::new(link.expires_at, now),
            rows: read.events.iter().map(|event| AuditRow::of(event, &computers, now)).collect(),
            is_first: query.cursor().is_none(),
            receipt: read.receipt.as_ref().and_then(embedded),
            download: format!("{path}/receipt{}", at(query.cursor())),
            next: read.next.map(|next| format!("{path}{}", at(Some(&next)))),
            frame,
        },
    );
    Ok(([NO_INDEX], response).into_response())
}

/// `GET /audits/{token}/receipt`: the receipt of the page with the same cursor.
pub async fn receipt(
    State(pages): State<AuditPages>,
    ClientAddress(address): ClientAddress,
    Named(token): Named,
    PageQuery(query): PageQuery<CursorQuery>,
) -> PageResult {
    let (_, read) = pages.read(address, &token, &query).await?;
    let bytes = read.receipt.and_then(|receipt| receipt.bytes().ok()).ok_or_else(|| pages.gone())?;
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (CONTENT_DISPOSITION, "attachment; filename=\"attache-receipt.json\""),
        NO_INDEX,
    ];
    Ok(framed((headers, bytes).into_response()))
}

impl AuditPages {
    async fn read(
        &self,
        address: IpAddr,
        token: &str,
        query: &CursorQuery,
    ) -> Result<(AuditLink, AuditPage), PageError> {
        self.limits.link_read(address).map_err(PageError::of(&self.site))?;
        let link = self.links.find(&Secret::presented(token)).await.map_err(|refusal| self.refused(refusal))?;
        let read = self.links.read(&link, query.cursor()).await.map_err(|refusal| self.refused(refusal))?;
        Ok((link, read))
    }

    fn refused(&self, refusal: AuditLinkRefusal) -> PageError {
        match refusal {
            AuditLinkRefusal::NotFound | AuditLinkRefusal::External | AuditLinkRefusal::TooMany => self.gone(),
            AuditLinkRefusal::Infra(error) => PageError::of(&self.site)(error),
            AuditLinkRefusal::Log(error) => {
                tracing::warn!(error = domain::reasons(&error), "the events of an audit link could not be read");
                let shown = PageErrorTexts {
                    title: "The events are not available at the moment",
                    text: "The log does not answer. Nothing is lost.",
                    next: "Reload this page later.",
                    link: "/".into(),
                    label: "Start page",
                };
                PageError::shown(&self.site, None, StatusCode::SERVICE_UNAVAILABLE, shown)
            }
        }
    }

    fn gone(&self) -> PageError {
        let shown = PageErrorTexts {
            title: "This link shows nothing",
            text: "It has ended, its owner has revoked it, or the address is not complete.",
            next: "Ask the person who sent it for a new one.",
            link: "/verify".into(),
            label: "Check a receipt that you have",
        };
        PageError::shown(&self.site, None, StatusCode::NOT_FOUND, shown)
    }
}

impl AuditRow {
    fn of(event: &AuditedEvent, computers: &Computers, now: Timestamp) -> Self {
        let at = DateTime::from_timestamp_millis(event.received_at_ms);
        Self {
            id: event.id.to_string(),
            summary: event.summary.clone(),
            lane: event.lane.clone(),
            happened: DateTime::from_timestamp_millis(event.ts_edge_ms)
                .map(|at| at.format("%-d %B %Y, %H:%M:%S").to_string()),
            source: source(&event.agent, event.machine, computers),
            received: at.map(|at| Moment::new(at, now)),
        }
    }
}

/// What a link shows, in words. The folder of a session is content.
fn subject(link: &AuditLink, read: &AuditPage, sessions: &AgentSessions, computers: &Computers) -> String {
    match (link.subject, &read.session) {
        (AuditSubject::Lane { lane, first }, _) => format!("{} since {first}. {}", lane.title(), lane.meaning()),
        (AuditSubject::Session(_), Some(session)) => {
            let agent = source(&session.agent, session.machine, computers);
            format!("A session of {agent}: {}", facts(session, sessions).join(" · "))
        }
        (AuditSubject::Session(_), None) => "A session".to_owned(),
    }
}

/// The receipt as the text of a script element, which `<` could end.
fn embedded(receipt: &AuditReceipt) -> Option<String> {
    Some(serde_json::to_string(receipt).ok()?.replace('<', "\\u003c"))
}
