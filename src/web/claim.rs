//! The page on which a person confirms an agent (`docs/protocol/agents.md#registration-states` and `docs/decisions/0014-claims-of-agents.md`).
//!
//! It shows nothing that the agent supplied, and it never confirms by itself: the code has to be typed from the agent's screen. Confirming
//! asks for a recent sign-in, as attaching a computer does.

use actors::claim::{CompleteError, Confirmer};
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use domain::claim::{Attempt, AttemptState, Registration, RegistrationType, UserCode, WRONG_TRIES_MAX};
use domain::confirm::ConfirmedVia;
use domain::secret::Secret;
use serde::Deserialize;

use super::visitor::{quoted, sign_in_again, sign_in_path};
use super::{Moment, PageError, PageForm, PageLayout, PageQuery, PageResult, SignedIn, page};
use crate::app::App;
use crate::http::client::ClientAddress;

/// `?attempt=…`
#[derive(Debug, Deserialize)]
pub struct Link {
    attempt: Option<String>,
}

/// What the form sends.
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

/// Where the link leads.
enum ClaimView {
    /// A code may be typed.
    Open { requested: Moment, expires: Moment, address: Option<String>, anonymous: bool },
    /// The person who looks has confirmed.
    Confirmed { at: Moment },
    /// Somebody else must confirm.
    OtherPerson,
    /// A newer link took its place.
    Superseded,
    /// Too many wrong codes.
    Burnt,
    /// Too late.
    Expired,
    /// Never was, or is not theirs to know.
    Unknown,
    /// They have no account.
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
pub async fn show(State(app): State<App>, visitor: SignedIn, PageQuery(link): PageQuery<Link>) -> PageResult {
    let attempt = link.attempt.unwrap_or_default();
    let look = look(&app, &visitor, &attempt).await?;
    Ok(draw(&app, &visitor, attempt, look.status(), look, None))
}

/// `POST /claim`
pub async fn confirm(
    State(app): State<App>,
    visitor: SignedIn,
    ClientAddress(address): ClientAddress,
    PageForm(form): PageForm<Confirmation>,
) -> PageResult {
    if !app.is_recent_sign_in(visitor.signed_in_at) {
        return Ok(match look(&app, &visitor, &form.attempt).await? {
            ClaimView::Open { .. } => sign_in_again(&app, &format!("/claim?attempt={}", quoted(&form.attempt))),
            // Signing in again would not open it.
            over => draw(&app, &visitor, form.attempt, over.status(), over, None),
        });
    }
    let again = async |fault: String| {
        let look = look(&app, &visitor, &form.attempt).await?;
        // A burnt or expired link says so itself.
        let (status, fault) = match &look {
            ClaimView::Open { .. } => (StatusCode::BAD_REQUEST, Some(fault)),
            over => (over.status(), None),
        };
        Ok(draw(&app, &visitor, form.attempt.clone(), status, look, fault))
    };
    let digits: String = form.user_code.chars().filter(|c| !c.is_whitespace() && *c != '-').collect();
    let Ok(code) = digits.parse::<UserCode>() else {
        return again("Type the six digits that the agent shows.".into()).await;
    };
    let Some(account) = visitor.account.clone() else { return again(String::new()).await };
    app.limits.code_guess(address).map_err(|error| PageError::api(&app, &error))?;
    let confirmer =
        Confirmer { person: visitor.person, email: visitor.email.clone(), account, via: ConfirmedVia::Session };
    let completed = app.claims.complete(&Secret::presented(&form.attempt), code, confirmer).await;
    match completed.map_err(PageError::of(&app))? {
        Ok(()) => {
            let back = format!("{}/claim?attempt={}", app.root_path(), quoted(&form.attempt));
            Ok(Redirect::to(&back).into_response())
        }
        Err(CompleteError::WrongCode) => {
            let tries = tries_left(&app, &form.attempt).await?;
            let left = if tries == 1 { "1 try is".to_owned() } else { format!("{tries} tries are") };
            again(format!("That is not the code. Look at the agent's screen again: {left} left.")).await
        }
        Err(CompleteError::Expired | CompleteError::EmailMismatch) => again(String::new()).await,
    }
}

fn draw(
    app: &App,
    visitor: &SignedIn,
    attempt: String,
    status: StatusCode,
    look: ClaimView,
    fault: Option<String>,
) -> Response {
    let sign_in = sign_in_path(app, &format!("/claim?attempt={}", quoted(&attempt)));
    let fresh = app.is_recent_sign_in(visitor.signed_in_at);
    page(status, &ClaimPage { frame: PageLayout::new(app, Some(visitor)), attempt, look, fault, fresh, sign_in })
}

async fn standing(app: &App, attempt: &str) -> Result<Option<(Registration, Option<Attempt>)>, PageError> {
    let store = &app.store;
    let owner = store.attempt_owner(&Secret::presented(attempt).hash()).await.map_err(PageError::store(app))?;
    match owner {
        Some(owner) => store.registration_by_id(owner).await.map_err(PageError::store(app)),
        None => Ok(None),
    }
}

async fn look(app: &App, visitor: &SignedIn, attempt: &str) -> Result<ClaimView, PageError> {
    let now = app.clock.now();
    let Some((registration, newest)) = standing(app, attempt).await? else { return Ok(ClaimView::Unknown) };
    if let Some(claim) = &registration.claim {
        let theirs = claim.person == visitor.person;
        return Ok(if theirs { ClaimView::Confirmed { at: Moment::new(claim.at, now) } } else { ClaimView::Unknown });
    }
    let token = Secret::presented(attempt).hash();
    let Some(newest) = newest.filter(|newest| newest.token == token) else { return Ok(ClaimView::Superseded) };
    // Whom a link is for is nobody else's business, so this comes before anything that it says.
    if newest.email.as_ref().is_some_and(|bound| *bound != visitor.email) {
        return Ok(ClaimView::OtherPerson);
    }
    Ok(match newest.state {
        AttemptState::Burnt => ClaimView::Burnt,
        AttemptState::Superseded => ClaimView::Superseded,
        AttemptState::Live if newest.is_over(now) => ClaimView::Expired,
        AttemptState::Completed => ClaimView::Unknown,
        AttemptState::Live if registration.revoked_at.is_some() => ClaimView::Expired,
        AttemptState::Live if visitor.account.is_none() => ClaimView::NoAccount,
        AttemptState::Live => ClaimView::Open {
            requested: Moment::new(registration.created_at, now),
            expires: Moment::new(newest.expires_at, now),
            address: registration.ip_address,
            anonymous: registration.registration_type == RegistrationType::Anonymous,
        },
    })
}

async fn tries_left(app: &App, attempt: &str) -> Result<u32, PageError> {
    let newest = standing(app, attempt).await?.and_then(|(_, newest)| newest);
    Ok(newest.map_or(0, |newest| WRONG_TRIES_MAX.saturating_sub(newest.wrong_tries)))
}
