//! Guides for agents (`docs/protocol/guides.md`, `docs/decisions/0018-names-guides-and-description.md`).
//!
//! `/llms.txt` is the short guide, which A2A and MCP return too; `/auth.md` explains how to get a credential; `/llms-full.txt` is complete.
//! They are rendered once, with the configured URLs, at the start. A test runs every command in them.

pub mod a2a;
pub mod mcp;

use std::sync::Arc;
use std::time::Duration;

use actors::claim::ClaimSettings;
use app::config::{Settings, Urls};
use askama::Template;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::document::Document;

/// The rendered guides.
#[derive(Debug)]
pub struct Guides {
    short: String,
    short_document: Document,
    full: Document,
    auth: Document,
}

impl Guides {
    /// Renders the guides for a server with these base URLs.
    pub fn new(Urls { base, rag }: &Urls, settings: &Settings) -> askama::Result<Self> {
        let agents = settings.events.third_party_agents.join("`, `");
        let lifetimes = Lifetimes::of(&settings.claims);
        let short = written(&Short { base, rag })?;
        Ok(Self {
            short_document: Document::new(PLAIN, short.clone()),
            short,
            full: Document::new(PLAIN, written(&Full { base, rag, agents: &agents, lifetimes: &lifetimes })?),
            auth: Document::new("text/markdown; charset=utf-8", written(&Auth { base, lifetimes: &lifetimes })?),
        })
    }

    /// The short guide, which links to the others.
    pub fn short(&self) -> &str {
        &self.short
    }
}

/// Renders a template and adds the final line break, which askama removes.
fn written(template: &impl Template) -> askama::Result<String> {
    Ok(template.render()? + "\n")
}

const PLAIN: &str = "text/plain; charset=utf-8";

/// `GET /llms.txt`
pub async fn short(State(guides): State<Arc<Guides>>, headers: HeaderMap) -> Response {
    guides.short_document.answer(&headers)
}

/// `GET /llms-full.txt`
pub async fn full(State(guides): State<Arc<Guides>>, headers: HeaderMap) -> Response {
    guides.full.answer(&headers)
}

/// `GET /auth.md`
pub async fn auth(State(guides): State<Arc<Guides>>, headers: HeaderMap) -> Response {
    guides.auth.answer(&headers)
}

#[derive(Debug, Template)]
#[template(path = "llms.txt")]
struct Short<'g> {
    base: &'g str,
    rag: &'g str,
}

#[derive(Debug, Template)]
#[template(path = "llms-full.txt")]
struct Full<'g> {
    base: &'g str,
    rag: &'g str,
    agents: &'g str,
    lifetimes: &'g Lifetimes,
}

#[derive(Debug, Template)]
#[template(path = "auth.md")]
struct Auth<'g> {
    base: &'g str,
    lifetimes: &'g Lifetimes,
}

/// Lifetimes of credentials, as text.
#[derive(Debug)]
struct Lifetimes {
    claim_token: String,
    access_token: String,
    assertion: String,
}

impl Lifetimes {
    fn of(claims: &ClaimSettings) -> Self {
        Self {
            claim_token: in_words(claims.claim_token_valid_for),
            access_token: in_words(claims.access_token_valid_for),
            assertion: in_words(claims.assertion_claimed_valid_for),
        }
    }
}

/// A duration in the largest unit that divides it, such as `24 hours`.
fn in_words(lifetime: Duration) -> String {
    let seconds = lifetime.as_secs();
    let units = [(24 * 60 * 60, "day"), (60 * 60, "hour"), (60, "minute")];
    let whole = units.into_iter().find(|(length, _)| seconds.is_multiple_of(*length));
    let (length, unit) = whole.unwrap_or((1, "second"));
    match seconds / length {
        1 => format!("1 {unit}"),
        count => format!("{count} {unit}s"),
    }
}
