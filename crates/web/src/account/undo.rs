//! The pages that ask for a confirmation: each lists the effects, and the things that stay.

use actors::claim::Claims;
use api::named::Named;
use app::services::api_keys::ApiKeys;
use app::services::machines::Machines;
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use domain::ids::{ApiKeyId, MachineUuid, RegistrationId};
use serde::Deserialize;

use super::AccountOwner;
use crate::{PageError, PageErrorTexts, PageForm, PageLayout, PageResult, SignedIn, Site, page};

/// A form without fields.
#[derive(Debug, Deserialize)]
pub struct ConfirmForm {}

#[derive(Template)]
#[template(path = "account/undo.html")]
pub(crate) struct UndoPage {
    pub frame: PageLayout,
    pub tab: &'static str,
    pub title: String,
    /// The name or id of the object.
    pub subject: String,
    pub lost: Vec<String>,
    pub kept: Vec<String>,
    pub button: &'static str,
    pub action: String,
    /// Target of the link that cancels.
    pub keep: String,
}

/// Lines about effects of a confirmation.
pub(crate) fn lines<const N: usize>(lines: [&str; N]) -> Vec<String> {
    lines.map(str::to_owned).to_vec()
}

/// `GET /account/computers/{machine_uuid}/detach`
pub async fn detach_question(State(site): State<Site>, owner: AccountOwner, Named(machine_uuid): Named) -> PageResult {
    let machine: MachineUuid = machine_uuid.parse().map_err(|_| gone(&site, &owner.visitor))?;
    let computer = site.machines.of_account(machine, &owner.account).await.map_err(PageError::of(&site))?;
    let computer = computer.filter(|computer| computer.account.is_some()).ok_or_else(|| gone(&site, &owner.visitor))?;
    let name = computer.shown_name().unwrap_or("this computer").to_owned();
    let frame = PageLayout::new(&site, Some(&owner.visitor));
    Ok(page(
        StatusCode::OK,
        &UndoPage {
            tab: "home",
            title: format!("Detach {name}?"),
            subject: machine_uuid.clone(),
            lost: lines([
                "Its access: its secret is revoked immediately, and it can no longer send or read anything.",
                "To use it again, register it as a new computer and approve it again.",
                "The key for your memory that it got with `attache login`, if it has one.",
                "The consent levels that you set for this computer.",
            ]),
            kept: lines([
                "Its recorded events stay in your activity, with their proofs.",
                "Your other computers and agents.",
            ]),
            button: "Detach permanently",
            action: format!("{}/account/computers/{machine_uuid}/detach", frame.root),
            keep: format!("{}/account", frame.root),
            frame,
        },
    ))
}

/// `POST /account/computers/{machine_uuid}/detach`
pub async fn detach(
    State(site): State<Site>,
    State(machines): State<Machines>,
    owner: AccountOwner,
    Named(machine_uuid): Named,
    PageForm(ConfirmForm {}): PageForm<ConfirmForm>,
) -> PageResult {
    let machine_uuid: MachineUuid = machine_uuid.parse().map_err(|_| gone(&site, &owner.visitor))?;
    let detached = machines.detach(machine_uuid, owner.account.clone()).await.map_err(PageError::of(&site))?;
    if detached { Ok(back(&site, "The computer is detached.")) } else { Err(gone(&site, &owner.visitor)) }
}

/// `GET /account/agents/{id}/revoke`
pub async fn revoke_question(State(site): State<Site>, owner: AccountOwner, Named(id): Named) -> PageResult {
    let agent_id: RegistrationId = id.parse().map_err(|_| gone(&site, &owner.visitor))?;
    let agent = site.agents.of_account(agent_id, &owner.account).await.map_err(PageError::of(&site))?;
    if agent.is_none_or(|agent| agent.revoked_at.is_some()) {
        return Err(gone(&site, &owner.visitor));
    }
    let confirmed = site.agents.confirmed_by(agent_id).await.map_err(PageError::of(&site))?;
    let frame = PageLayout::new(&site, Some(&owner.visitor));
    let mut lost = lines([
        "Its tokens, its assertions and its claim token stop working at once and permanently.",
        "To use it again, it has to register again, and you have to confirm it again.",
    ]);
    if confirmed.agents > 0 {
        lost.push(format!("Agents that it confirmed for you are revoked with it: {}.", confirmed.agents));
    }
    if confirmed.computers > 0 {
        let computers = confirmed.computers;
        lost.push(format!(
            "Computers that it attached for you are detached, and can request to be attached again: {computers}."
        ));
    }
    Ok(page(
        StatusCode::OK,
        &UndoPage {
            tab: "home",
            title: "Revoke this agent?".into(),
            subject: id.clone(),
            lost,
            kept: lines([
                "Its recorded events stay in your activity, with their proofs.",
                "Computers and agents that you confirmed yourself.",
            ]),
            button: "Revoke permanently",
            action: format!("{}/account/agents/{id}/revoke", frame.root),
            keep: format!("{}/account", frame.root),
            frame,
        },
    ))
}

/// `POST /account/agents/{id}/revoke`
pub async fn revoke(
    State(site): State<Site>,
    State(claims): State<Claims>,
    owner: AccountOwner,
    Named(id): Named,
    PageForm(ConfirmForm {}): PageForm<ConfirmForm>,
) -> PageResult {
    let id: RegistrationId = id.parse().map_err(|_| gone(&site, &owner.visitor))?;
    let revoked = claims.revoke(id, Some(owner.account.clone())).await.map_err(PageError::of(&site))?;
    if revoked { Ok(back(&site, "The agent is revoked.")) } else { Err(gone(&site, &owner.visitor)) }
}

/// `GET /account/keys/{id}/revoke`
pub async fn revoke_key_question(
    State(site): State<Site>,
    State(keys): State<ApiKeys>,
    owner: AccountOwner,
    Named(id): Named,
) -> PageResult {
    let now = site.ports.clock.now();
    let key: ApiKeyId = id.parse().map_err(|_| gone(&site, &owner.visitor))?;
    let key = keys.of_account(key, &owner.account).await.map_err(PageError::of(&site))?;
    let key = key.filter(|key| key.is_good(now)).ok_or_else(|| gone(&site, &owner.visitor))?;
    let frame = PageLayout::new(&site, Some(&owner.visitor));
    Ok(page(
        StatusCode::OK,
        &UndoPage {
            tab: "access",
            title: format!("Revoke the key {}?", key.name.as_str()),
            subject: id.clone(),
            lost: lines(["The access of every program that uses it, until you give the program another key."]),
            kept: lines(["Memories that were added with it stay in your spaces.", "Your other API keys."]),
            button: "Revoke permanently",
            action: format!("{}/account/keys/{id}/revoke", frame.root),
            keep: format!("{}/account/access", frame.root),
            frame,
        },
    ))
}

/// `POST /account/keys/{id}/revoke`
pub async fn revoke_key(
    State(site): State<Site>,
    State(keys): State<ApiKeys>,
    owner: AccountOwner,
    Named(id): Named,
    PageForm(ConfirmForm {}): PageForm<ConfirmForm>,
) -> PageResult {
    let id: ApiKeyId = id.parse().map_err(|_| gone(&site, &owner.visitor))?;
    let revoked = keys.revoke(id, owner.account.clone()).await.map_err(PageError::of(&site))?;
    if revoked { Ok(super::access::back(&site, "The key is revoked.")) } else { Err(gone(&site, &owner.visitor)) }
}

/// Back to the overview, with a message about the change.
fn back(site: &Site, said: &str) -> Response {
    site.to("/account", said)
}

/// The page for an unknown id; ids of other accounts are treated alike.
pub(super) fn gone(site: &Site, visitor: &SignedIn) -> PageError {
    PageError::shown(
        site,
        Some(visitor),
        StatusCode::NOT_FOUND,
        PageErrorTexts {
            title: "Not found in your account",
            text: "It was already removed, or it never belonged to your account.",
            next: "Your account page lists your computers, agents and keys.",
            link: "/account".into(),
            label: "Your account",
        },
    )
}
