//! The page on which a person confirms an agent (`docs/protocol/agents.md#registration-states` and `docs/decisions/0005-agents.md`).
//!
//! It shows no data that the agent supplied, and does not confirm without the person: the person types the code from the agent's screen.
//! Confirming requires a recent sign-in, as attaching a computer does.

use std::net::IpAddr;
use std::sync::Arc;

use actors::claim::CompleteError;
use api::HttpState;
use api::client::ClientAddress;
use api::limits::RateLimiters;
use app::services::claims::ClaimConfirmations;
use app::services::confirmation::RecentSignIn;
use askama::Template;
use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use domain::claim::{Attempt, AttemptState, ClaimCode, Registration, RegistrationType, WRONG_TRIES_MAX};
use domain::secret::Secret;
use serde::Deserialize;

use super::network::Network;
use super::visitor::{quoted, sign_in_again, sign_in_path};
use super::{Moment, PageError, PageForm, PageLayout, PageQuery, PageResult, SignedIn, Site, page};

/// The state of these pages.
#[derive(Debug, Clone)]
pub struct ClaimPages {
    site: Site,
    confirmations: ClaimConfirmations,
    recent: RecentSignIn,
    limits: Arc<RateLimiters>,
}

impl FromRef<HttpState> for ClaimPages {
    fn from_ref(state: &HttpState) -> Self {
        Self {
            site: Site::from_ref(state),
            confirmations: FromRef::from_ref(state),
            recent: FromRef::from_ref(state),
            limits: FromRef::from_ref(state),
        }
    }
}

/// `?attempt=…`
#[derive(Debug, Deserialize)]
pub struct ClaimLink {
    attempt: Option<String>,
}

/// The fields of the form.
#[derive(Debug, Deserialize)]
pub struct Confirmation {
    attempt: String,
    user_code: String,
}

#[derive(Template)]
#[template(path = "claim.html")]
struct ClaimPage {
    frame: PageLayout,
    attempt: String,
    look: ClaimView,
    /// Error of the submitted code.
    fault: Option<String>,
    /// Whether the visitor signed in recently enough to confirm.
    fresh: bool,
    /// URL for signing in again, or with another account, and returning here.
    sign_in: String,
}

/// The state of a link, as the page shows it.
enum ClaimView {
    /// A code may be typed.
    Open { requested: Moment, expires: Moment, network: Option<Network>, anonymous: bool },
    /// The visitor has confirmed.
    Confirmed { at: Moment },
    /// The link is for another person.
    OtherPerson,
    /// A newer link replaced it.
    Superseded,
    /// Too many wrong codes were typed.
    Burnt,
    /// The link has expired.
    Expired,
    /// The link is unknown, or its state is private to another person.
    Unknown,
    /// The person has no account.
    NoAccount,
}

impl ClaimView {
    fn status(&self) -> StatusCode {
        match self {
            Self::Open { .. } | Self::Confirmed { .. } => StatusCode::OK,
            Self::OtherPerson | Self::NoAccount => StatusCode::FORBIDDEN,
            Self::Superseded | Self::Burnt | Self::Expired => StatusCode::GONE,
            Self::Unknown => StatusCode::NOT_FOUND,
        }
    }
}

/// `GET /claim?attempt=…`
pub async fn show(
    State(pages): State<ClaimPages>,
    visitor: SignedIn,
    ClientAddress(address): ClientAddress,
    PageQuery(link): PageQuery<ClaimLink>,
) -> PageResult {
    let attempt = link.attempt.unwrap_or_default();
    let look = look(&pages.site, &visitor, address, &attempt).await?;
    Ok(draw(&pages, &visitor, attempt, look.status(), look, None))
}

/// `POST /claim`
pub async fn confirm(
    State(pages): State<ClaimPages>,
    visitor: SignedIn,
    ClientAddress(address): ClientAddress,
    PageForm(form): PageForm<Confirmation>,
) -> PageResult {
    let stale = async || {
        Ok(match look(&pages.site, &visitor, address, &form.attempt).await? {
            ClaimView::Open { .. } => sign_in_again(&pages.site, &format!("/claim?attempt={}", quoted(&form.attempt))),
            // A new sign-in would not reopen the link.
            ended => draw(&pages, &visitor, form.attempt.clone(), ended.status(), ended, None),
        })
    };
    if !pages.recent.is_recent(visitor.signed_in_at) {
        return stale().await;
    }
    let again = async |fault: String| {
        let look = look(&pages.site, &visitor, address, &form.attempt).await?;
        // The view of a burnt or expired link contains the reason.
        let (status, fault) = match &look {
            ClaimView::Open { .. } => (StatusCode::BAD_REQUEST, Some(fault)),
            over => (over.status(), None),
        };
        Ok(draw(&pages, &visitor, form.attempt.clone(), status, look, fault))
    };
    let digits: String = form.user_code.chars().filter(|c| !c.is_whitespace() && *c != '-').collect();
    let Ok(code) = digits.parse::<ClaimCode>() else {
        return again("Type the six digits that the agent shows.".into()).await;
    };
    let Some(account) = visitor.account.clone() else { return again(String::new()).await };
    pages.limits.code_guess(address).map_err(|error| PageError::api(&pages.site, &error))?;
    let confirmer = pages.confirmations.confirmer(visitor.person, visitor.email.clone(), account, visitor.decides());
    let Ok(confirmer) = confirmer else { return stale().await };
    let completed = pages.confirmations.complete(&Secret::presented(&form.attempt), code, confirmer).await;
    match completed.map_err(PageError::of(&pages.site))? {
        Ok(()) => {
            let back = format!("{}/claim?attempt={}", pages.site.urls.root_path(), quoted(&form.attempt));
            Ok(Redirect::to(&back).into_response())
        }
        Err(CompleteError::WrongCode) => {
            let tries = tries_left(&pages.site, &form.attempt).await?;
            let left = if tries == 1 { "1 try is".to_owned() } else { format!("{tries} tries are") };
            again(format!("That is not the code. Look at the agent's screen again: {left} left.")).await
        }
        Err(CompleteError::Expired | CompleteError::EmailMismatch) => again(String::new()).await,
    }
}

fn draw(
    pages: &ClaimPages,
    visitor: &SignedIn,
    attempt: String,
    status: StatusCode,
    look: ClaimView,
    fault: Option<String>,
) -> Response {
    let sign_in = sign_in_path(&pages.site, &format!("/claim?attempt={}", quoted(&attempt)));
    let fresh = pages.recent.is_recent(visitor.signed_in_at);
    page(
        status,
        &ClaimPage { frame: PageLayout::new(&pages.site, Some(visitor)), attempt, look, fault, fresh, sign_in },
    )
}

async fn standing(site: &Site, attempt: &str) -> Result<Option<(Registration, Option<Attempt>)>, PageError> {
    site.agents.of_attempt(&Secret::presented(attempt)).await.map_err(PageError::of(site))
}

async fn look(site: &Site, visitor: &SignedIn, address: IpAddr, attempt: &str) -> Result<ClaimView, PageError> {
    let now = site.ports.clock.now();
    let Some((registration, newest)) = standing(site, attempt).await? else { return Ok(ClaimView::Unknown) };
    if let Some(claim) = &registration.claim {
        let is_visitor = claim.person == visitor.person;
        return Ok(if is_visitor {
            ClaimView::Confirmed { at: Moment::new(claim.at, now) }
        } else {
            ClaimView::Unknown
        });
    }
    let token = Secret::presented(attempt).hash();
    let Some(newest) = newest.filter(|newest| newest.token == token) else { return Ok(ClaimView::Superseded) };
    // The addressee of a link is private, so this check precedes all others that reveal its state.
    if newest.email.as_ref().is_some_and(|bound| *bound != visitor.email) {
        return Ok(ClaimView::OtherPerson);
    }
    Ok(match newest.state {
        AttemptState::Burnt => ClaimView::Burnt,
        AttemptState::Superseded => ClaimView::Superseded,
        AttemptState::Live if newest.has_ended(now) => ClaimView::Expired,
        AttemptState::Completed => ClaimView::Unknown,
        AttemptState::Live if registration.revoked_at.is_some() => ClaimView::Expired,
        AttemptState::Live if visitor.account.is_none() => ClaimView::NoAccount,
        AttemptState::Live => ClaimView::Open {
            requested: Moment::new(registration.created_at, now),
            expires: Moment::new(newest.expires_at, now),
            network: Network::new(registration.ip_address, address, site.urls.is_loopback()),
            anonymous: registration.registration_type == RegistrationType::Anonymous,
        },
    })
}

async fn tries_left(site: &Site, attempt: &str) -> Result<u32, PageError> {
    let newest = standing(site, attempt).await?.and_then(|(_, newest)| newest);
    Ok(newest.map_or(0, |newest| WRONG_TRIES_MAX.saturating_sub(newest.wrong_tries)))
}
