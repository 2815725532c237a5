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
use super::{Answer, Frame, Moment, PageForm, PageQuery, Trouble, Visitor, page};
use crate::house::House;
use crate::http::client::ClientAddress;
use crate::http::error::ApiError;

/// `?next=…`
#[derive(Debug, Deserialize)]
pub struct Wish {
    next: Option<String>,
}

/// What the first form sends.
#[derive(Debug, Deserialize)]
pub struct Asked {
    email: String,
    next: Option<String>,
}

/// What the second form sends.
#[derive(Debug, Deserialize)]
pub struct Typed {
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
    frame: Frame,
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
    frame: Frame,
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
pub async fn show(State(house): State<House>, Visitor(visitor): Visitor, PageQuery(wish): PageQuery<Wish>) -> Response {
    let email = visitor.as_ref().map(|visitor| visitor.email.as_str().to_owned()).unwrap_or_default();
    let frame = Frame::new(&house, visitor.as_ref());
    page(StatusCode::OK, &sign_in_page(&house, frame, email, ours(wish.next.as_deref()), None))
}

/// `POST /signin`
pub async fn ask(
    State(house): State<House>,
    Visitor(visitor): Visitor,
    ClientAddress(address): ClientAddress,
    headers: HeaderMap,
    PageForm(asked): PageForm<Asked>,
) -> Answer {
    house.limits.sign_in(address).map_err(|error| Trouble::api(&house, &error))?;
    let next = ours(asked.next.as_deref());
    let Some(email) = asked.email.parse::<Email>().ok().filter(Email::is_mailable) else {
        let fault = Some("This is not an e-mail address. It looks like name@example.com.");
        let shown = sign_in_page(&house, Frame::new(&house, visitor.as_ref()), asked.email, next, fault);
        return Ok(page(StatusCode::BAD_REQUEST, &shown));
    };
    let before = ticket_cookie(&headers, &house);
    let sender = known::asker(&headers, &email, address, &house);
    match house.signins.ask(email, next, sender, before.as_ref()).await.map_err(Trouble::of(&house))? {
        Ok(ticket) => {
            let mut response = elsewhere(&house, "/signin/code");
            Cookie::Ticket.set(&mut response, ticket.expose(), &house);
            Ok(response)
        }
        Err(TooMany { retry_after }) => {
            Err(Trouble::api(&house, &ApiError::unavailable("too_many_sign_ins", retry_after)))
        }
    }
}

/// `GET /signin/code`
pub async fn show_code(
    State(house): State<House>,
    Visitor(visitor): Visitor,
    headers: HeaderMap,
    PageQuery(Fault { fault }): PageQuery<Fault>,
) -> Answer {
    let ticket = match ticket_cookie(&headers, &house) {
        Some(secret) => house.signins.ticket(&secret).await.map_err(Trouble::store(&house))?,
        None => None,
    };
    let Some(Ticket { email, next, tries, expires_at, .. }) = ticket.clone() else {
        return Ok(elsewhere(&house, "/signin"));
    };
    let now = house.clock.now();
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
    let frame = Frame::new(&house, visitor.as_ref());
    Ok(page(StatusCode::OK, &CodePage { frame, email: email.as_str().to_owned(), next, view }))
}

/// `POST /signin/code`
pub async fn answer(
    State(house): State<House>,
    ClientAddress(address): ClientAddress,
    OwnBrowser(browser): OwnBrowser,
    headers: HeaderMap,
    PageForm(Typed { code }): PageForm<Typed>,
) -> Answer {
    let Some(ticket) = ticket_cookie(&headers, &house) else { return Ok(elsewhere(&house, "/signin")) };
    house.limits.code_guess(address).map_err(|error| Trouble::api(&house, &error))?;
    let Ok(code) = code.parse() else { return Ok(elsewhere(&house, "/signin/code?fault=form")) };
    match house.signins.answer(&ticket, code, browser).await.map_err(Trouble::of(&house))? {
        // The page says why: shown by a GET, so that loading it again spends no try.
        Err(_) => Ok(elsewhere(&house, "/signin/code")),
        Ok(Entered { session, email, next }) => {
            let mut response = entered(&house, &session, next);
            known::remember(&mut response, &headers, &email, &house);
            Cookie::Ticket.clear(&mut response, &house);
            Ok(response)
        }
    }
}

/// `POST /signout`
pub async fn leave(
    State(house): State<House>,
    Visitor(visitor): Visitor,
    PageForm(Nothing {}): PageForm<Nothing>,
) -> Answer {
    if let Some(visitor) = visitor {
        let (store, now) = (house.store.clone(), house.clock.now());
        let revoked = actors::detached(async move { store.session_revoke(&visitor.session, now).await }).await;
        revoked.map_err(Trouble::of(&house))?.map_err(Trouble::store(&house))?;
    }
    let mut response = elsewhere(&house, "/signin");
    Cookie::Session.clear(&mut response, &house);
    Ok(response)
}

/// What is kept of the browser with its session.
#[derive(Debug)]
pub struct OwnBrowser(pub Browser);

impl FromRequestParts<House> for OwnBrowser {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, house: &House) -> Result<Self, Self::Rejection> {
        let ClientAddress(address) = ClientAddress::from_request_parts(parts, house).await?;
        let user_agent = parts.headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let session = Cookie::Session.read(&parts.headers, house).map(|secret| secret.hash());
        Ok(Self(Browser { address: Some(address.to_string()), user_agent, session }))
    }
}

/// A browser goes on with its new session.
fn entered(house: &House, session: &Secret, next: Option<Next>) -> Response {
    let mut response = elsewhere(house, next.unwrap_or_default().as_str());
    Cookie::Session.set(&mut response, session.expose(), house);
    response
}

/// 303 to one of our own paths.
fn elsewhere(house: &House, path: &str) -> Response {
    Redirect::to(&format!("{}{path}", house.root_path())).into_response()
}

/// The page that was asked for, if it is one of ours.
fn ours(next: Option<&str>) -> Option<Next> {
    next?.parse().ok()
}

fn ticket_cookie(headers: &HeaderMap, house: &House) -> Option<Secret> {
    let ticket = Cookie::Ticket.read(headers, house);
    ticket.filter(|secret| secret.has_form(SecretKind::SignInTicket))
}

fn sign_in_page(
    house: &House,
    frame: Frame,
    email: String,
    next: Option<Next>,
    fault: Option<&'static str>,
) -> SignInPage {
    let query = next.as_ref().map(|next| format!("?next={}", quoted(next.as_str()))).unwrap_or_default();
    let provider = |provider: &crate::config::OidcSettings| Provider {
        label: provider.label.clone(),
        link: format!("{}/signin/oidc/{}{query}", frame.root, provider.name),
    };
    let providers = house.settings.signin.oidc.iter().map(provider).collect();
    let makes_accounts = house.settings.signin.create_account;
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
