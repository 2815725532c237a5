//! The page on which a person attaches a computer (specification, *Device code (computer attachment)*; RFC 8628, sections 3.3 and 5.4).
//!
//! 1. A code is typed, or comes with the link. Looking it up changes nothing, and the page never answers by itself.
//! 2. The page says what asks, from where and since when, and what approving allows. Deny stands beside Approve, as large.
//! 3. Approving asks for a recent sign-in.

use actors::device::{AnswerError, Look};
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use chrono::TimeDelta;
use domain::device::{DeviceState, Standing, UserCode};
use serde::Deserialize;
use store::device::{Approver, AskingDevice, OTHERS_MAX};

use super::visitor::{quoted, sign_in_path};
use super::{Answer, Frame, Moment, PageForm, PageQuery, SignedIn, Trouble, page};
use crate::house::House;
use crate::http::client::ClientAddress;

/// `?user_code=…`
#[derive(Debug, Deserialize)]
pub struct Link {
    user_code: Option<String>,
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
    frame: Frame,
    code: String,
    view: View,
}

enum View {
    /// A code is to be typed; what was wrong with the last one.
    Entry { fault: Option<&'static str> },
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
    State(house): State<House>,
    visitor: SignedIn,
    ClientAddress(address): ClientAddress,
    PageQuery(link): PageQuery<Link>,
) -> Answer {
    let typed = link.user_code.unwrap_or_default();
    if typed.trim().is_empty() {
        return Ok(draw(&house, &visitor, String::new(), StatusCode::OK, View::Entry { fault: None }));
    }
    house.limits.code_guess(address).map_err(|error| Trouble::api(&house, &error))?;
    let Ok(user_code) = typed.parse::<UserCode>() else {
        let fault = Some("A code has eight letters, such as WDJB-MJHT. It has no digits and no vowels.");
        return Ok(draw(&house, &visitor, typed, StatusCode::BAD_REQUEST, View::Entry { fault }));
    };
    let look = house.devices.look(&user_code, visitor.person).await.map_err(Trouble::of(&house))?;
    let (status, view) = match look {
        Look::Wrong => {
            let fault =
                Some("No computer shows this code. Look at its screen again; after five wrong codes you have to wait.");
            (StatusCode::NOT_FOUND, View::Entry { fault })
        }
        Look::Blocked => (StatusCode::GONE, View::Blocked),
        Look::Asking(asking) => asking_view(&house, &visitor, &user_code, *asking),
    };
    Ok(draw(&house, &visitor, user_code.shown(), status, view))
}

/// `POST /device`
pub async fn decide(
    State(house): State<House>,
    visitor: SignedIn,
    ClientAddress(address): ClientAddress,
    PageForm(form): PageForm<Decided>,
) -> Answer {
    house.limits.code_guess(address).map_err(|error| Trouble::api(&house, &error))?;
    let Ok(user_code) = form.user_code.parse::<UserCode>() else {
        let fault = Some("A code has eight letters, such as WDJB-MJHT.");
        return Ok(draw(&house, &visitor, form.user_code, StatusCode::BAD_REQUEST, View::Entry { fault }));
    };
    let back = format!("/device?user_code={}", quoted(&user_code.shown()));
    let approver = Approver { person: visitor.person, via: "session" };
    let answered = if form.decision == Decision::Deny {
        house.devices.deny(&user_code, approver).await
    } else if is_fresh(&house, &visitor) {
        house.devices.approve(&user_code, approver).await.map(|approved| approved.map(drop))
    } else {
        return Ok(Redirect::to(&sign_in_path(&house, &back)).into_response());
    };
    match answered.map_err(Trouble::of(&house))? {
        // Answered already, perhaps by the same person a moment ago: the page tells how.
        Ok(()) | Err(AnswerError::CodeConsumed) => {
            Ok(Redirect::to(&format!("{}{back}", house.root_path())).into_response())
        }
        Err(why) => Ok(draw(
            &house,
            &visitor,
            user_code.shown(),
            StatusCode::CONFLICT,
            View::Conflict { why, idle: idle(&house) },
        )),
    }
}

fn asking_view(house: &House, visitor: &SignedIn, user_code: &UserCode, asking: AskingDevice) -> (StatusCode, View) {
    let now = house.clock.now();
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
        (Standing::Pending, _) => {
            let sign_in = sign_in_path(house, &format!("/device?user_code={}", quoted(&user_code.shown())));
            (StatusCode::OK, View::Asking { device, fresh: is_fresh(house, visitor), sign_in })
        }
        (_, DeviceState::Claimed { account, .. }) if visitor.account.as_ref() == Some(account) => {
            (StatusCode::OK, View::Attached { device })
        }
        (Standing::Denied, _) => (StatusCode::OK, View::Denied { device }),
        _ => (StatusCode::GONE, View::Consumed),
    }
}

/// How long a computer that was never attached may be idle before it is removed.
fn idle(house: &House) -> String {
    humantime_serde::re::humantime::format_duration(house.settings.janitor.purge.unattached_kept).to_string()
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

fn is_fresh(house: &House, visitor: &SignedIn) -> bool {
    let within = TimeDelta::from_std(house.settings.signin.fresh_within).unwrap_or(TimeDelta::MAX);
    visitor.is_fresh(within, house.clock.now())
}

fn draw(house: &House, visitor: &SignedIn, code: String, status: StatusCode, view: View) -> axum::response::Response {
    page(status, &DevicePage { frame: Frame::new(house, Some(visitor)), code, view })
}
