//! The page on which a person attaches a computer (`docs/protocol/computers.md#device-flow`; RFC 8628, sections 3.3 and 5.4).
//!
//! 1. The person types a code, or opens a link with one. A look-up only changes the count of wrong codes, and the page never decides
//!    without the person. The code of a link that may come from a foreign page is not looked up before the person confirms: it could use up
//!    guesses.
//! 2. The page shows the computer, its address, the time of the request, and the rights that approval grants. The buttons Deny and Approve
//!    have the same size. Approve is emphasised if the code was typed, or compared with the computer's.
//! 3. The person chooses how much may be recorded; *No content* is preselected where no level for all computers was chosen yet. An
//!    unchanged choice changes no level (`docs/decisions/0014-consent.md`).
//! 4. A requested key has a box, and a requested agent one per right; initially no box is ticked. One approval covers the ticked boxes
//!    (`docs/decisions/0004-device-codes.md`).
//! 5. Approving requires a recent sign-in.

use std::net::IpAddr;
use std::sync::Arc;

use actors::device::{CodeLookup, Extras};
use api::client::ClientAddress;
use api::limits::RateLimiters;
use api::seal::Seal;
use api::{HttpState, origin};
use app::services::confirmation::RecentSignIn;
use app::services::devices::DeviceApprovals;
use app::services::devices::{AskingDevice, OTHERS_MAX};
use askama::Template;
use axum::extract::{FromRef, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect};
use domain::agent_right::{AgentRight, AgentRights};
use domain::api_key::{ApiKeyScope, KeyConsent};
use domain::consent::ConsentLevel;
use domain::device::approval::ApprovalRefusal;
use domain::device::{DeviceState, PollState, UserCode};
use serde::Deserialize;

use super::account::consent::{chosen_level, words};
use super::network::Network;
use super::visitor::{quoted, sign_in_again, sign_in_path};
use super::{Moment, PageError, PageForm, PageLayout, PageQuery, PageResult, SignedIn, Site, page};

/// The state of these pages.
#[derive(Debug, Clone)]
pub struct DevicePages {
    site: Site,
    devices: DeviceApprovals,
    recent: RecentSignIn,
    limits: Arc<RateLimiters>,
    seal: Seal,
}

impl FromRef<HttpState> for DevicePages {
    fn from_ref(state: &HttpState) -> Self {
        Self {
            site: Site::from_ref(state),
            devices: FromRef::from_ref(state),
            recent: FromRef::from_ref(state),
            limits: FromRef::from_ref(state),
            seal: FromRef::from_ref(state),
        }
    }
}

/// `?user_code=…&page=…`
#[derive(Debug, Deserialize)]
pub struct DeviceLink {
    user_code: Option<String>,
    /// Shows that a page of this server made the link.
    page: Option<String>,
    /// Present if the person typed the code on that page; absent if the code was part of a link.
    typed: Option<String>,
}

/// The decision of a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceDecision {
    /// Attach the computer.
    Approve,
    /// Refuse the computer.
    Deny,
}

/// The fields of the form.
#[derive(Debug, Deserialize)]
pub struct Decided {
    user_code: String,
    decision: DeviceDecision,
    /// Present if the person confirms the requested key.
    with_key: Option<String>,
    /// Present if the computer gets a key that reads the account.
    with_account: Option<String>,
    /// Present for each right that the person gives to the agent on the computer.
    may_read: Option<String>,
    may_set_consent: Option<String>,
    may_confirm_agents: Option<String>,
    may_confirm_computers: Option<String>,
    may_detach_computers: Option<String>,
    /// How much may be recorded.
    consent: Option<ConsentLevel>,
    /// The level that was in force when the form was built; empty or absent if none was chosen.
    consent_was: Option<String>,
}

impl Decided {
    /// The ticked rights of the agent; `None` if no box is ticked, and the agent is not confirmed.
    fn rights(&self) -> Option<AgentRights> {
        let ticked = |right: &AgentRight| match right {
            AgentRight::Read => self.may_read.is_some(),
            AgentRight::SetConsent => self.may_set_consent.is_some(),
            AgentRight::ConfirmAgents => self.may_confirm_agents.is_some(),
            AgentRight::ConfirmComputers => self.may_confirm_computers.is_some(),
            AgentRight::DetachComputers => self.may_detach_computers.is_some(),
            AgentRight::SendEvents => false,
        };
        let rights: AgentRights = AgentRight::ALL.iter().copied().filter(ticked).collect();
        (!rights.is_empty()).then_some(rights)
    }

    /// The level that the person chose, if it differs from the one that was in force.
    fn chosen(&self) -> Option<ConsentLevel> {
        self.consent.filter(|level| self.consent_was.as_deref() != Some(level.as_str()))
    }
}

struct OfferedRight {
    name: String,
    words: &'static str,
}

/// The rights that the page offers, each with a box.
fn offered_rights() -> Vec<OfferedRight> {
    let offered = AgentRight::ALL.iter().filter(|right| **right != AgentRight::SendEvents);
    offered.map(|right| OfferedRight { name: format!("may_{right}"), words: right.words() }).collect()
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
    /// The form for a code, or for confirming the code of a link; `fault` is the error of the last code.
    Entry { fault: Option<&'static str>, came_with_link: bool },
    /// A computer waits for a decision.
    Asking { device: Asking, fresh: bool, typed: bool, sign_in: String },
    /// The visitor attached it.
    Attached { device: Asking },
    /// The computer was denied.
    Denied { device: Asking },
    /// The code was used or has expired.
    Consumed,
    /// Too many wrong codes.
    Blocked,
    /// The computer cannot be attached.
    Conflict { why: ApprovalRefusal, idle: String },
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
    network: Option<Network>,
    asked: Moment,
    expires: Moment,
    /// Permissions of the requested key for the memory; `None` without such a key.
    key: Option<String>,
    /// Whether the requested key reads the account.
    reads_account: bool,
    /// The requested agent.
    agent: Option<AskingTool>,
    /// Whether it is attached to the account of the visitor already.
    is_attached: bool,
    /// The person's level for the computer; `None` if none was chosen.
    level: Option<ConsentLevel>,
}

/// The agent of a tool, as the page shows it.
struct AskingTool {
    name: &'static str,
    title: &'static str,
    id: String,
    /// Whether it acts for the account of the visitor.
    is_theirs: bool,
    /// Rights that the person can give.
    offered: Vec<OfferedRight>,
}

impl Asking {
    fn called(&self) -> &str {
        self.name.as_deref().unwrap_or("The computer")
    }

    /// The levels of the form: value, name, meaning, and whether it is preselected.
    fn levels(&self) -> [(&'static str, &'static str, &'static str, bool); 3] {
        let preselected = self.level.unwrap_or(ConsentLevel::MetadataOnly);
        let meanings = [
            (ConsentLevel::Off, "no events are recorded"),
            (ConsentLevel::MetadataOnly, "what it did, when and for how long, without prompts, answers or files"),
            (ConsentLevel::Full, "with prompts, answers and file contents"),
        ];
        meanings.map(|(level, meaning)| (level.as_str(), words(level), meaning, level == preselected))
    }
}

/// `GET /device` and `GET /device?user_code=…`
pub async fn show(
    State(pages): State<DevicePages>,
    visitor: SignedIn,
    ClientAddress(address): ClientAddress,
    headers: HeaderMap,
    PageQuery(link): PageQuery<DeviceLink>,
) -> PageResult {
    let typed = link.user_code.unwrap_or_default();
    let is_empty = typed.trim().is_empty();
    let is_signed = link.page.is_some_and(|page| pages.seal.is_mark(PAGE, &whose(&visitor), &page));
    if is_empty || !origin::allows_guess(&headers, is_signed) {
        let view = View::Entry { fault: None, came_with_link: !is_empty };
        return Ok(draw(&pages, &visitor, typed.trim().to_owned(), StatusCode::OK, view));
    }
    pages.limits.code_guess(address).map_err(|error| PageError::api(&pages.site, &error))?;
    let Ok(user_code) = typed.parse::<UserCode>() else {
        let fault = "A code has eight letters, such as WDJB-MJHT. It has no digits and no vowels.";
        return Ok(draw(&pages, &visitor, typed, StatusCode::BAD_REQUEST, View::faulty(fault)));
    };
    let look = pages.devices.look(&user_code, visitor.person).await.map_err(PageError::of(&pages.site))?;
    let (status, view) = match look {
        CodeLookup::Wrong => {
            let fault = "No computer shows this code. Check its screen again; after five wrong codes you have to wait.";
            (StatusCode::NOT_FOUND, View::faulty(fault))
        }
        CodeLookup::Blocked => (StatusCode::GONE, View::Blocked),
        CodeLookup::Asking(asking) => {
            let looker = Looker { visitor: &visitor, address, has_typed: is_signed && link.typed.is_some() };
            let level = match &visitor.account {
                Some(account) => chosen_level(&pages.site, account, asking.code.machine).await?,
                None => None,
            };
            asking_view(&pages, &looker, &user_code, *asking, level)
        }
    };
    Ok(draw(&pages, &visitor, user_code.shown(), status, view))
}

/// `POST /device`
pub async fn decide(
    State(pages): State<DevicePages>,
    visitor: SignedIn,
    ClientAddress(address): ClientAddress,
    headers: HeaderMap,
    PageForm(form): PageForm<Decided>,
) -> PageResult {
    pages.limits.code_guess(address).map_err(|error| PageError::api(&pages.site, &error))?;
    let Ok(user_code) = form.user_code.parse::<UserCode>() else {
        let fault = "A code has eight letters, such as WDJB-MJHT.";
        return Ok(draw(&pages, &visitor, form.user_code, StatusCode::BAD_REQUEST, View::faulty(fault)));
    };
    let back = format!("/device?user_code={}", quoted(&user_code.shown()));
    let (person, with, devices) = (visitor.person, visitor.decides(), &pages.devices);
    let answered = match form.decision {
        DeviceDecision::Deny => match devices.denier(person, with) {
            Ok(denier) => devices.deny(&user_code, denier).await,
            Err(_) => return Ok(sign_in_again(&pages.site, &back)),
        },
        DeviceDecision::Approve => match devices.approver(person, with) {
            Ok(approver) => {
                let key = KeyConsent { memory: form.with_key.is_some(), account: form.with_account.is_some() };
                let extras = Extras { key, agent: form.rights(), consent: form.chosen() };
                devices.approve(&user_code, approver, extras).await
            }
            Err(_) => return Ok(sign_in_again(&pages.site, &back)),
        },
    };
    match answered.map_err(PageError::of(&pages.site))? {
        // Already decided, for example by the same form sent twice: the page shows the result.
        Ok(()) | Err(ApprovalRefusal::CodeConsumed) => {
            let page =
                if origin::names_site(&headers) { String::new() } else { format!("&page={}", mark(&pages, &visitor)) };
            Ok(Redirect::to(&format!("{}{back}{page}", pages.site.urls.root_path())).into_response())
        }
        Err(why) => Ok(draw(
            &pages,
            &visitor,
            user_code.shown(),
            StatusCode::CONFLICT,
            View::Conflict { why, idle: idle(&pages) },
        )),
    }
}

/// The person who looks at a code.
struct Looker<'v> {
    visitor: &'v SignedIn,
    address: IpAddr,
    /// Whether the person typed the code on a page of this server, which compares it with the computer's.
    has_typed: bool,
}

fn asking_view(
    pages: &DevicePages,
    looker: &Looker<'_>,
    user_code: &UserCode,
    asking: AskingDevice,
    level: Option<ConsentLevel>,
) -> (StatusCode, View) {
    let now = pages.site.ports.clock.now();
    let Looker { visitor, address, has_typed } = *looker;
    let AskingDevice { code, name, first_seen_at, others, ip_address, key_scopes, is_attached, agent } = asking;
    let device = Asking {
        name,
        machine_uuid: code.machine.to_string(),
        identity: code.identity.as_str().to_owned(),
        first_seen: first_seen_at.map(|at| Moment::new(at, now)),
        others: other_computers(others),
        network: Network::new(ip_address, address, pages.site.urls.is_loopback()),
        asked: Moment::new(code.created_at, now),
        expires: Moment::new(code.expires_at, now),
        reads_account: key_scopes.as_ref().is_some_and(|scopes| scopes.contains(&ApiKeyScope::Account)),
        key: key_scopes.and_then(|scopes| permitted(&scopes)),
        agent: agent.map(|agent| AskingTool {
            name: agent.tool.as_str(),
            title: agent.tool.title(),
            id: agent.registration.to_string(),
            is_theirs: agent.account.is_some() && agent.account == visitor.account,
            offered: offered_rights(),
        }),
        is_attached,
        level,
    };
    match (code.standing(now), &code.state) {
        (PollState::Pending, _) => {
            let sign_in = sign_in_path(&pages.site, &format!("/device?user_code={}", quoted(&user_code.shown())));
            let fresh = pages.recent.is_recent(visitor.signed_in_at);
            (StatusCode::OK, View::Asking { device, fresh, typed: has_typed, sign_in })
        }
        (_, DeviceState::Claimed { account, .. }) if visitor.account.as_ref() == Some(account) => {
            (StatusCode::OK, View::Attached { device })
        }
        (PollState::Denied, _) => (StatusCode::OK, View::Denied { device }),
        _ => (StatusCode::GONE, View::Consumed),
    }
}

/// What a key with these scopes may do in the memory, as the end of a sentence; `None` for nothing.
fn permitted(scopes: &[ApiKeyScope]) -> Option<String> {
    let words: Vec<&str> = scopes
        .iter()
        .filter_map(|scope| match scope {
            ApiKeyScope::Search => Some("search and read everything in it"),
            ApiKeyScope::Write => Some("add to it and delete from it"),
            ApiKeyScope::Settings => Some("change what is kept"),
            ApiKeyScope::Account => None,
        })
        .collect();
    match words.as_slice() {
        [] => None,
        [one] => Some((*one).to_owned()),
        [before @ .., last] => Some(format!("{}, and {last}", before.join(", "))),
    }
}

/// Time without requests after which a computer that was never attached is removed.
fn idle(pages: &DevicePages) -> String {
    humantime_serde::re::humantime::format_duration(pages.devices.unattached_kept()).to_string()
}

/// The number of other computers of the identity, in words; `None` for zero.
fn other_computers(others: u32) -> Option<String> {
    match others {
        0 => None,
        1 => Some("1 other computer".to_owned()),
        OTHERS_MAX.. => Some(format!("{OTHERS_MAX} other computers or more")),
        _ => Some(format!("{others} other computers")),
    }
}

fn draw(
    pages: &DevicePages,
    visitor: &SignedIn,
    code: String,
    status: StatusCode,
    view: View,
) -> axum::response::Response {
    let mark = mark(pages, visitor);
    page(status, &DevicePage { frame: PageLayout::new(&pages.site, Some(visitor)), code, mark, view })
}

/// Purpose of the sealed mark.
const PAGE: &str = "device page";

/// The mark in links of this page. It identifies them for browsers that do not send the origin of a request. Valid for one session.
fn mark(pages: &DevicePages, visitor: &SignedIn) -> String {
    pages.seal.mark(PAGE, &whose(visitor))
}

fn whose(visitor: &SignedIn) -> String {
    visitor.id.to_string()
}
