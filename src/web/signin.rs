//! The pages on which a person signs in and out (`docs/decisions/0007-sign-in-without-passwords.md`).
//!
//! 1. An address is typed. Whether somebody has an account there cannot be seen from any answer.
//! 2. A code comes by mail; it works only in this browser, which keeps a ticket for it.
//! 3. The right code brings a new session; the one that the browser had ends.
//!
//! Whoever is signed in already may do it again: some pages ask for a recent sign-in.

mod known;
pub mod oidc;

use actors::signin::{Browser, Entered, TooMany};
use askama::Template;
use axum::extract::{FromRequestParts, State};
use axum::http::header::USER_AGENT;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use domain::ids::Email;
use domain::secret::{Secret, SecretKind};
use domain::signin::{Next, SignInRefusal, Ticket};
use serde::Deserialize;

use super::cookie::Cookie;
use super::visitor::quoted;
use super::{Moment, PageError, PageForm, PageLayout, PageQuery, PageResult, Visitor, page};
use crate::app::App;
use crate::http::client::ClientAddress;
use crate::http::error::ApiError;

/// `?next=…`
#[derive(Debug, Deserialize)]
pub struct NextQuery {
    next: Option<String>,
}

/// What the first form sends.
#[derive(Debug, Deserialize)]
pub struct SignInForm {
    email: String,
    next: Option<String>,
}

/// What the second form sends.
#[derive(Debug, Deserialize)]
pub struct CodeForm {
    code: String,
}

/// `?fault=form`: what was typed is no code at all.
#[derive(Debug, Deserialize)]
pub struct Fault {
    fault: Option<String>,
}

/// What the sign-out form sends.
#[derive(Debug, Deserialize)]
pub struct Nothing {}

#[derive(Template)]
#[template(path = "signin.html")]
struct SignInPage {
    frame: PageLayout,
    email: String,
    next: Option<Next>,
    /// What is wrong with the address.
    fault: Option<&'static str>,
    providers: Vec<Provider>,
    /// Whether a first sign-in makes an account.
    makes_accounts: bool,
}

struct Provider {
    label: String,
    link: String,
}

#[derive(Template)]
#[template(path = "signin_code.html")]
struct CodePage {
    frame: PageLayout,
    email: String,
    next: Option<Next>,
    view: CodeView,
}

enum CodeView {
    /// A code is to be typed; what was wrong with the last one.
    Entry { fault: Option<String>, expires: Moment },
    /// No code can be typed any more.
    Over { title: &'static str, text: &'static str },
}

/// `GET /signin`
pub async fn show(
    State(app): State<App>,
    Visitor(visitor): Visitor,
    PageQuery(wish): PageQuery<NextQuery>,
) -> Response {
    let email = visitor.as_ref().map(|visitor| visitor.email.as_str().to_owned()).unwrap_or_default();
    let frame = PageLayout::new(&app, visitor.as_ref());
    page(StatusCode::OK, &sign_in_page(&app, frame, email, ours(wish.next.as_deref()), None))
}

/// `POST /signin`
pub async fn ask(
    State(app): State<App>,
    Visitor(visitor): Visitor,
    ClientAddress(address): ClientAddress,
    headers: HeaderMap,
    PageForm(asked): PageForm<SignInForm>,
) -> PageResult {
    app.limits.sign_in(address).map_err(|error| PageError::api(&app, &error))?;
    let next = ours(asked.next.as_deref());
    let Some(email) = asked.email.parse::<Email>().ok().filter(Email::is_mailable) else {
        let fault = Some("This is not an e-mail address. It looks like name@example.com.");
        let shown = sign_in_page(&app, PageLayout::new(&app, visitor.as_ref()), asked.email, next, fault);
        return Ok(page(StatusCode::BAD_REQUEST, &shown));
    };
    let before = ticket_cookie(&headers, &app);
    let sender = known::asker(&headers, &email, address, &app);
    match app.signins.ask(email, next, sender, before.as_ref()).await.map_err(PageError::of(&app))? {
        Ok(ticket) => {
            let mut response = elsewhere(&app, "/signin/code");
            Cookie::Ticket.set(&mut response, ticket.expose(), &app);
            Ok(response)
        }
        Err(TooMany { retry_after }) => {
            Err(PageError::api(&app, &ApiError::unavailable("too_many_sign_ins", retry_after)))
        }
    }
}

/// `GET /signin/code`
pub async fn show_code(
    State(app): State<App>,
    Visitor(visitor): Visitor,
    headers: HeaderMap,
    PageQuery(Fault { fault }): PageQuery<Fault>,
) -> PageResult {
    let ticket = match ticket_cookie(&headers, &app) {
        Some(secret) => app.signins.ticket(&secret).await.map_err(PageError::store(&app))?,
        None => None,
    };
    let Some(Ticket { email, next, tries, expires_at, .. }) = ticket.clone() else {
        return Ok(elsewhere(&app, "/signin"));
    };
    let now = app.clock.now();
    let view = match ticket.map_or(Err(SignInRefusal::Expired), |ticket| ticket.may_try(now)) {
        Ok(()) => {
            let fault = match (fault, domain::signin::TRIES_MAX - tries) {
                (Some(_), _) => Some("A code has eight digits. This one was not counted as a try.".to_owned()),
                (None, _) if tries == 0 => None,
                (None, 1) => Some("That is not the code. You can try once more.".to_owned()),
                (None, left) => Some(format!("That is not the code. You can try {left} more times.")),
            };
            CodeView::Entry { fault, expires: Moment::new(expires_at, now) }
        }
        Err(why) => over(why),
    };
    let frame = PageLayout::new(&app, visitor.as_ref());
    Ok(page(StatusCode::OK, &CodePage { frame, email: email.as_str().to_owned(), next, view }))
}

/// `POST /signin/code`
pub async fn answer(
    State(app): State<App>,
    ClientAddress(address): ClientAddress,
    OwnBrowser(browser): OwnBrowser,
    headers: HeaderMap,
    PageForm(CodeForm { code }): PageForm<CodeForm>,
) -> PageResult {
    let Some(ticket) = ticket_cookie(&headers, &app) else { return Ok(elsewhere(&app, "/signin")) };
    app.limits.code_guess(address).map_err(|error| PageError::api(&app, &error))?;
    let Ok(code) = code.parse() else { return Ok(elsewhere(&app, "/signin/code?fault=form")) };
    match app.signins.answer(&ticket, code, browser).await.map_err(PageError::of(&app))? {
        // The page says why: shown by a GET, so that loading it again spends no try.
        Err(_) => Ok(elsewhere(&app, "/signin/code")),
        Ok(Entered { session, email, next }) => {
            let mut response = entered(&app, &session, next);
            known::remember(&mut response, &headers, &email, &app);
            Cookie::Ticket.clear(&mut response, &app);
            Ok(response)
        }
    }
}

/// `POST /signout`
pub async fn leave(
    State(app): State<App>,
    Visitor(visitor): Visitor,
    PageForm(Nothing {}): PageForm<Nothing>,
) -> PageResult {
    if let Some(visitor) = visitor {
        let (store, now) = (app.store.clone(), app.clock.now());
        let revoked = actors::detached(async move { store.session_revoke(&visitor.session, now).await }).await;
        revoked.map_err(PageError::of(&app))?.map_err(PageError::store(&app))?;
    }
    let mut response = elsewhere(&app, "/signin");
    Cookie::Session.clear(&mut response, &app);
    Ok(response)
}

/// What is kept of the browser with its session.
#[derive(Debug)]
pub struct OwnBrowser(pub Browser);

impl FromRequestParts<App> for OwnBrowser {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Self::Rejection> {
        let ClientAddress(address) = ClientAddress::from_request_parts(parts, app).await?;
        let user_agent = parts.headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let session = Cookie::Session.read(&parts.headers, app).map(|secret| secret.hash());
        Ok(Self(Browser { address: Some(address.to_string()), user_agent, session }))
    }
}

/// A browser goes on with its new session.
fn entered(app: &App, session: &Secret, next: Option<Next>) -> Response {
    let mut response = elsewhere(app, next.unwrap_or_default().as_str());
    Cookie::Session.set(&mut response, session.expose(), app);
    response
}

/// 303 to one of our own paths.
fn elsewhere(app: &App, path: &str) -> Response {
    Redirect::to(&format!("{}{path}", app.root_path())).into_response()
}

/// The page that was asked for, if it is one of ours.
fn ours(next: Option<&str>) -> Option<Next> {
    next?.parse().ok()
}

fn ticket_cookie(headers: &HeaderMap, app: &App) -> Option<Secret> {
    let ticket = Cookie::Ticket.read(headers, app);
    ticket.filter(|secret| secret.has_form(SecretKind::SignInTicket))
}

fn sign_in_page(
    app: &App,
    frame: PageLayout,
    email: String,
    next: Option<Next>,
    fault: Option<&'static str>,
) -> SignInPage {
    let query = next.as_ref().map(|next| format!("?next={}", quoted(next.as_str()))).unwrap_or_default();
    let provider = |provider: &crate::config::OidcSettings| Provider {
        label: provider.label.clone(),
        link: format!("{}/signin/oidc/{}{query}", frame.root, provider.name),
    };
    let providers = app.settings.signin.oidc.iter().map(provider).collect();
    let makes_accounts = app.settings.signin.create_account;
    SignInPage { frame, email, next, fault, providers, makes_accounts }
}

fn over(why: SignInRefusal) -> CodeView {
    let (title, text) = match why {
        SignInRefusal::Superseded => (
            "A newer code was sent",
            "This browser asked for another code since, and only the newest of a browser works. If that was in another window, \
             go on there.",
        ),
        SignInRefusal::Burnt | SignInRefusal::Wrong { .. } => (
            "Too many wrong codes",
            "After five wrong codes this one opens nothing any more, so that nobody can guess. Have a new code sent, and compare \
             every digit.",
        ),
        SignInRefusal::Expired => ("This code has expired", "A code works for ten minutes, and once."),
    };
    CodeView::Over { title, text }
}
