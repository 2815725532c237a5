//! The page on which a person attaches a computer (`docs/protocol/computers.md#device-flow`; RFC 8628, sections 3.3 and 5.4).
//!
//! 1. A code is typed, or comes with the link. Looking it up changes nothing but the count of wrong codes, and the page never decides by
//!    itself. The code of a link that may come from a foreign page is not looked up before the person confirms: it could use up guesses.
//! 2. The page shows the computer, its address, the time of the request, and the rights that approval grants. The buttons Deny and
//!    Approve are side by side and equally large.
//! 3. Approving asks for a recent sign-in.

use actors::device::{AnswerError, CodeLookup};
use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect};
use domain::confirm::ConfirmedVia;
use domain::device::{DeviceState, PollState, UserCode};
use serde::Deserialize;
use store::device::{Approver, AskingDevice, OTHERS_MAX};

use super::visitor::{quoted, sign_in_again, sign_in_path};
use super::{Moment, PageError, PageForm, PageLayout, PageQuery, PageResult, SignedIn, page};
use crate::app::App;
use crate::http::client::ClientAddress;
use crate::http::origin;

/// `?user_code=…&page=…`
#[derive(Debug, Deserialize)]
pub struct Link {
    user_code: Option<String>,
    /// Shows that the link is of a page of ours.
    page: Option<String>,
}

/// What a person answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// Attach it.
    Approve,
    /// Do not.
    Deny,
}

/// What the form sends.
#[derive(Debug, Deserialize)]
pub struct Decided {
    user_code: String,
    decision: Decision,
}

#[derive(Template)]
#[template(path = "device.html")]
struct DevicePage {
    frame: PageLayout,
    code: String,
    mark: String,
    view: View,
}

enum View {
    /// The form for a code, or for confirming one that came with a link; `fault` is the error of the last one.
    Entry { fault: Option<&'static str>, came_with_link: bool },
    /// A computer asks.
    Asking { device: Asking, fresh: bool, sign_in: String },
    /// The visitor attached it.
    Attached { device: Asking },
    /// Somebody denied it.
    Denied { device: Asking },
    /// Used up.
    Consumed,
    /// Too many wrong codes.
    Blocked,
    /// It cannot be attached.
    Conflict { why: AnswerError, idle: String },
}

impl View {
    /// The entry of a code, after a code that cannot be used.
    fn faulty(fault: &'static str) -> Self {
        Self::Entry { fault: Some(fault), came_with_link: false }
    }
}

struct Asking {
    name: Option<String>,
    machine_uuid: String,
    identity: String,
    first_seen: Option<Moment>,
    others: Option<String>,
    address: Option<String>,
    asked: Moment,
    expires: Moment,
}

impl Asking {
    fn called(&self) -> &str {
        self.name.as_deref().unwrap_or("The computer")
    }
}

/// `GET /device` and `GET /device?user_code=…`
pub async fn show(
    State(app): State<App>,
    visitor: SignedIn,
    ClientAddress(address): ClientAddress,
    headers: HeaderMap,
    PageQuery(link): PageQuery<Link>,
) -> PageResult {
    let typed = link.user_code.unwrap_or_default();
    let is_empty = typed.trim().is_empty();
    let is_signed = link.page.is_some_and(|page| app.seal.is_mark(PAGE, &whose(&visitor), &page));
    if is_empty || !origin::allows_guess(&headers, is_signed) {
        let view = View::Entry { fault: None, came_with_link: !is_empty };
        return Ok(draw(&app, &visitor, typed.trim().to_owned(), StatusCode::OK, view));
    }
    app.limits.code_guess(address).map_err(|error| PageError::api(&app, &error))?;
    let Ok(user_code) = typed.parse::<UserCode>() else {
        let fault = "A code has eight letters, such as WDJB-MJHT. It has no digits and no vowels.";
        return Ok(draw(&app, &visitor, typed, StatusCode::BAD_REQUEST, View::faulty(fault)));
    };
    let look = app.devices.look(&user_code, visitor.person).await.map_err(PageError::of(&app))?;
    let (status, view) = match look {
        CodeLookup::Wrong => {
            let fault =
                "No computer shows this code. Look at its screen again; after five wrong codes you have to wait.";
            (StatusCode::NOT_FOUND, View::faulty(fault))
        }
        CodeLookup::Blocked => (StatusCode::GONE, View::Blocked),
        CodeLookup::Asking(asking) => asking_view(&app, &visitor, &user_code, *asking),
    };
    Ok(draw(&app, &visitor, user_code.shown(), status, view))
}

/// `POST /device`
pub async fn decide(
    State(app): State<App>,
    visitor: SignedIn,
    ClientAddress(address): ClientAddress,
    headers: HeaderMap,
    PageForm(form): PageForm<Decided>,
) -> PageResult {
    app.limits.code_guess(address).map_err(|error| PageError::api(&app, &error))?;
    let Ok(user_code) = form.user_code.parse::<UserCode>() else {
        let fault = "A code has eight letters, such as WDJB-MJHT.";
        return Ok(draw(&app, &visitor, form.user_code, StatusCode::BAD_REQUEST, View::faulty(fault)));
    };
    let back = format!("/device?user_code={}", quoted(&user_code.shown()));
    let approver = Approver { person: visitor.person, via: ConfirmedVia::Session };
    let answered = if form.decision == Decision::Deny {
        app.devices.deny(&user_code, approver).await
    } else if app.is_recent_sign_in(visitor.signed_in_at) {
        app.devices.approve(&user_code, approver).await.map(|approved| approved.map(drop))
    } else {
        return Ok(sign_in_again(&app, &back));
    };
    match answered.map_err(PageError::of(&app))? {
        // Answered already, perhaps by the same person a moment ago: the page tells how.
        Ok(()) | Err(AnswerError::CodeConsumed) => {
            let page =
                if origin::is_told(&headers) { String::new() } else { format!("&page={}", mark(&app, &visitor)) };
            Ok(Redirect::to(&format!("{}{back}{page}", app.root_path())).into_response())
        }
        Err(why) => {
            Ok(draw(&app, &visitor, user_code.shown(), StatusCode::CONFLICT, View::Conflict { why, idle: idle(&app) }))
        }
    }
}

fn asking_view(app: &App, visitor: &SignedIn, user_code: &UserCode, asking: AskingDevice) -> (StatusCode, View) {
    let now = app.clock.now();
    let AskingDevice { code, name, first_seen_at, others, ip_address } = asking;
    let device = Asking {
        name,
        machine_uuid: code.machine.to_string(),
        identity: code.identity.as_str().to_owned(),
        first_seen: first_seen_at.map(|at| Moment::new(at, now)),
        others: other_computers(others),
        address: ip_address,
        asked: Moment::new(code.created_at, now),
        expires: Moment::new(code.expires_at, now),
    };
    match (code.standing(now), &code.state) {
        (PollState::Pending, _) => {
            let sign_in = sign_in_path(app, &format!("/device?user_code={}", quoted(&user_code.shown())));
            (StatusCode::OK, View::Asking { device, fresh: app.is_recent_sign_in(visitor.signed_in_at), sign_in })
        }
        (_, DeviceState::Claimed { account, .. }) if visitor.account.as_ref() == Some(account) => {
            (StatusCode::OK, View::Attached { device })
        }
        (PollState::Denied, _) => (StatusCode::OK, View::Denied { device }),
        _ => (StatusCode::GONE, View::Consumed),
    }
}

/// How long a computer that was never attached may be idle before it is removed.
fn idle(app: &App) -> String {
    humantime_serde::re::humantime::format_duration(app.settings.janitor.purge.unattached_kept).to_string()
}

/// How many other computers name the identity, in words; none when there is none.
fn other_computers(others: u32) -> Option<String> {
    match others {
        0 => None,
        1 => Some("1 other computer".to_owned()),
        OTHERS_MAX.. => Some(format!("{OTHERS_MAX} other computers or more")),
        _ => Some(format!("{others} other computers")),
    }
}

fn draw(app: &App, visitor: &SignedIn, code: String, status: StatusCode, view: View) -> axum::response::Response {
    let mark = mark(app, visitor);
    page(status, &DevicePage { frame: PageLayout::new(app, Some(visitor)), code, mark, view })
}

/// Purpose of the sealed mark.
const PAGE: &str = "device page";

/// The mark in links of this page. It identifies them for browsers that do not send the origin of a request. Valid for one session.
fn mark(app: &App, visitor: &SignedIn) -> String {
    app.seal.mark(PAGE, &whose(visitor))
}

fn whose(visitor: &SignedIn) -> String {
    visitor.id.to_string()
}
