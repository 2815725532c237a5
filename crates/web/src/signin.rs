//! The pages on which a person signs in and out (`docs/decisions/0003-sign-in.md`).
//!
//! 1. The person types an e-mail address. The response does not reveal whether the address has an account.
//! 2. The server mails a code, which is only valid in this browser: the browser stores its ticket.
//! 3. The right code starts a new session, and ends the browser's previous one.
//!
//! A signed-in person may sign in again: some pages require a recent sign-in.

mod known;
mod nearby_mail;
pub mod oidc;
mod pages;

use std::convert::Infallible;
use std::sync::Arc;

use actors::signin::{Browser, Entered, TooMany};
use api::HttpState;
use api::client::ClientAddress;
use api::cookie::{Cookie, Cookies};
use api::error::ApiError;
use app::config::OidcSettings;
use askama::Template;
use axum::extract::{FromRef, FromRequestParts, State};
use axum::http::header::USER_AGENT;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use domain::ids::Email;
use domain::secret::{Secret, SecretKind};
use domain::signin::{ReturnPath, SignInRefusal, Ticket};
use serde::Deserialize;

use self::nearby_mail::{MailFolder, NearbyMail};
pub use self::pages::SignInPages;
use super::visitor::quoted;
use super::{Flash, Moment, PageError, PageForm, PageLayout, PageQuery, PageResult, Visitor, flash, page};

/// `?next=…`
#[derive(Debug, Deserialize)]
pub struct NextQuery {
    next: Option<String>,
}

/// The form for the address.
#[derive(Debug, Deserialize)]
pub struct SignInForm {
    email: String,
    next: Option<String>,
}

/// The form for the code.
#[derive(Debug, Deserialize)]
pub struct CodeForm {
    code: String,
}

/// `?fault=form`: the input does not have the form of a code.
#[derive(Debug, Deserialize)]
pub struct FaultQuery {
    fault: Option<String>,
}

/// The sign-out form, which has no fields.
#[derive(Debug, Deserialize)]
pub struct Nothing {}

#[derive(Template)]
#[template(path = "signin.html")]
struct SignInPage {
    frame: PageLayout,
    email: String,
    next: Option<ReturnPath>,
    /// The fault in the address.
    fault: Option<String>,
    providers: Vec<Provider>,
    /// Whether a first sign-in creates an account.
    makes_accounts: bool,
    /// The addresses that may sign in, if they are limited.
    admitted: Option<String>,
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
    /// Sender of the mail, if one is configured.
    mail_from: Option<String>,
    next: Option<ReturnPath>,
    view: CodeView,
}

enum CodeView {
    /// The form for a code; `fault` is the error of the last code, `folder` is the folder of the mail, for a person at this computer.
    Entry { fault: Option<String>, expires: Moment, folder: Option<MailFolder> },
    /// The attempt has ended.
    Over { title: &'static str, text: &'static str },
}

/// `GET /signin`
pub async fn show(
    State(pages): State<SignInPages>,
    Visitor(visitor): Visitor,
    flash: Flash,
    PageQuery(wish): PageQuery<NextQuery>,
) -> Response {
    let email = visitor.as_ref().map(|visitor| visitor.email.as_str().to_owned()).unwrap_or_default();
    let frame = PageLayout::new(&pages.site, visitor.as_ref()).with_flash(flash);
    page(StatusCode::OK, &sign_in_page(&pages, frame, email, ours(wish.next.as_deref()), None))
}

/// `POST /signin`
pub async fn ask(
    State(pages): State<SignInPages>,
    Visitor(visitor): Visitor,
    ClientAddress(address): ClientAddress,
    headers: HeaderMap,
    PageForm(asked): PageForm<SignInForm>,
) -> PageResult {
    pages.limits.mailed_sign_in(address).map_err(|error| PageError::api(&pages.site, &error))?;
    let next = ours(asked.next.as_deref());
    let Some(email) = asked.email.parse::<Email>().ok().filter(Email::is_mailable) else {
        let fault = Some("This is not an e-mail address. It looks like name@example.com.".to_owned());
        let form = sign_in_page(&pages, PageLayout::new(&pages.site, visitor.as_ref()), asked.email, next, fault);
        return Ok(page(StatusCode::BAD_REQUEST, &form));
    };
    if !pages.settings.admits(&email) {
        let fault = Some(format!("{} may sign in here.", admitted(&pages.settings.domains)));
        let form = sign_in_page(&pages, PageLayout::new(&pages.site, visitor.as_ref()), asked.email, next, fault);
        return Ok(page(StatusCode::FORBIDDEN, &form));
    }
    let previous = ticket_cookie(&headers, &pages);
    let sender = known::asker(&headers, &email, address, &pages);
    match pages.signins.ask(email, next, sender, previous.as_ref()).await.map_err(PageError::of(&pages.site))? {
        Ok(ticket) => {
            let mut response = elsewhere(&pages, "/signin/code");
            pages.cookies.set(Cookie::Ticket, &mut response, ticket.expose());
            Ok(response)
        }
        Err(TooMany { retry_after }) => {
            Err(PageError::api(&pages.site, &ApiError::unavailable("too_many_sign_ins", retry_after)))
        }
    }
}

/// `GET /signin/code`
pub async fn show_code(
    State(pages): State<SignInPages>,
    Visitor(visitor): Visitor,
    NearbyMail(folder): NearbyMail,
    headers: HeaderMap,
    PageQuery(FaultQuery { fault }): PageQuery<FaultQuery>,
) -> PageResult {
    let ticket = match ticket_cookie(&headers, &pages) {
        Some(secret) => pages.signins.ticket(&secret).await.map_err(PageError::of(&pages.site))?,
        None => None,
    };
    let Some(Ticket { email, next, tries, expires_at, .. }) = ticket.clone() else {
        return Ok(elsewhere(&pages, "/signin"));
    };
    let now = pages.site.ports.clock.now();
    let view = match ticket.map_or(Err(SignInRefusal::Expired), |ticket| ticket.may_try(now)) {
        Ok(()) => {
            let fault = match (fault, domain::signin::TRIES_MAX - tries) {
                (Some(_), _) => Some("A code has eight digits. This one was not counted as a try.".to_owned()),
                (None, _) if tries == 0 => None,
                (None, 1) => Some("That is not the code. You can try once more.".to_owned()),
                (None, left) => Some(format!("That is not the code. You can try {left} more times.")),
            };
            CodeView::Entry { fault, expires: Moment::new(expires_at, now), folder }
        }
        Err(why) => over(why),
    };
    let frame = PageLayout::new(&pages.site, visitor.as_ref());
    let (email, mail_from) = (email.as_str().to_owned(), pages.mail_from.clone());
    Ok(page(StatusCode::OK, &CodePage { frame, email, mail_from, next, view }))
}

/// `POST /signin/code`
pub async fn answer(
    State(pages): State<SignInPages>,
    ClientAddress(address): ClientAddress,
    OwnBrowser(browser): OwnBrowser,
    headers: HeaderMap,
    PageForm(CodeForm { code }): PageForm<CodeForm>,
) -> PageResult {
    let Some(ticket) = ticket_cookie(&headers, &pages) else { return Ok(elsewhere(&pages, "/signin")) };
    pages.limits.code_guess(address).map_err(|error| PageError::api(&pages.site, &error))?;
    let Ok(code) = code.parse() else { return Ok(elsewhere(&pages, "/signin/code?fault=form")) };
    match pages.signins.answer(&ticket, code, browser).await.map_err(PageError::of(&pages.site))? {
        // The page shows the reason: by a GET, so that reloading it uses no attempt.
        Err(_) => Ok(elsewhere(&pages, "/signin/code")),
        Ok(Entered { session, email, next }) => {
            let mut response = entered(&pages, &session, next);
            known::remember(&mut response, &headers, &email, &pages);
            pages.cookies.clear(Cookie::Ticket, &mut response);
            Ok(response)
        }
    }
}

/// `POST /signout`
pub async fn leave(
    State(pages): State<SignInPages>,
    Visitor(visitor): Visitor,
    PageForm(Nothing {}): PageForm<Nothing>,
) -> PageResult {
    if let Some(visitor) = visitor {
        pages.sessions.sign_out(visitor.session).await.map_err(PageError::of(&pages.site))?;
    }
    let mut response = elsewhere(&pages, "/signin");
    pages.cookies.clear(Cookie::Session, &mut response);
    flash::set(&mut response, "You are signed out of this browser.");
    Ok(response)
}

/// The facts about the browser that are stored with its session.
#[derive(Debug)]
pub struct OwnBrowser(pub Browser);

impl FromRequestParts<HttpState> for OwnBrowser {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, Infallible> {
        let ClientAddress(address) = ClientAddress::from_request_parts(parts, state).await?;
        let user_agent = parts.headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let cookies: Arc<Cookies> = FromRef::from_ref(state);
        let session = cookies.read(Cookie::Session, &parts.headers).map(|secret| secret.hash());
        Ok(Self(Browser { address: Some(address.to_string()), user_agent, session }))
    }
}

/// Redirects a browser with its new session.
fn entered(pages: &SignInPages, session: &Secret, next: Option<ReturnPath>) -> Response {
    let mut response = elsewhere(pages, next.unwrap_or_default().as_str());
    pages.cookies.set(Cookie::Session, &mut response, session.expose());
    response
}

/// 303 to a path of this server.
fn elsewhere(pages: &SignInPages, path: &str) -> Response {
    Redirect::to(&format!("{}{path}", pages.site.urls.root_path())).into_response()
}

/// The requested page, if it is a page of this server.
fn ours(next: Option<&str>) -> Option<ReturnPath> {
    next?.parse().ok()
}

fn ticket_cookie(headers: &HeaderMap, pages: &SignInPages) -> Option<Secret> {
    let ticket = pages.cookies.read(Cookie::Ticket, headers);
    ticket.filter(|secret| secret.has_form(SecretKind::SignInTicket))
}

fn sign_in_page(
    pages: &SignInPages,
    frame: PageLayout,
    email: String,
    next: Option<ReturnPath>,
    fault: Option<String>,
) -> SignInPage {
    let query = next.as_ref().map(|next| format!("?next={}", quoted(next.as_str()))).unwrap_or_default();
    let provider = |provider: &OidcSettings| Provider {
        label: provider.label.clone(),
        link: format!("{}/signin/oidc/{}{query}", frame.root, provider.name),
    };
    let providers = pages.settings.oidc.iter().map(provider).collect();
    let makes_accounts = pages.settings.create_account;
    let domains = &pages.settings.domains;
    let admitted = (!domains.is_empty()).then(|| admitted(domains));
    SignInPage { frame, email, next, fault, providers, makes_accounts, admitted }
}

/// The addresses that may sign in, as the beginning of a sentence.
fn admitted(domains: &[String]) -> String {
    format!("Only addresses of {}", domains.join(", "))
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
        SignInRefusal::Expired => ("This code has expired", "A code can be used once, within ten minutes."),
    };
    CodeView::Over { title, text }
}
