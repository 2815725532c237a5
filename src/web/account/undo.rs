//! The pages that ask once more: each names what will be lost, and what will not.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use domain::ids::{ApiKeyId, MachineUuid, RegistrationId};
use serde::Deserialize;

use super::{COMPUTERS_MAX, Owner};
use crate::app::App;
use crate::http::api_keys::end;
use crate::http::named::Named;
use crate::web::{PageError, PageForm, PageLayout, PageResult, Shown, SignedIn, page};

/// Forms that only say yes.
#[derive(Debug, Deserialize)]
pub struct ConfirmForm {}

#[derive(Template)]
#[template(path = "account/undo.html")]
pub(in crate::web) struct UndoPage {
    pub frame: PageLayout,
    pub tab: &'static str,
    pub title: String,
    /// Whose it is, in its own words or by its id.
    pub subject: String,
    pub lost: Vec<String>,
    pub kept: Vec<String>,
    pub button: &'static str,
    pub action: String,
    /// Where whoever thinks better of it goes.
    pub keep: String,
}

/// What a page says will be lost, or will not.
pub(in crate::web) fn lines<const N: usize>(lines: [&str; N]) -> Vec<String> {
    lines.map(str::to_owned).to_vec()
}

/// `GET /account/computers/{machine_uuid}/detach`
pub async fn detach_question(State(app): State<App>, owner: Owner, Named(machine_uuid): Named) -> PageResult {
    let computers =
        app.store.computers_of_account(&owner.account, COMPUTERS_MAX).await.map_err(PageError::store(&app))?;
    let computer = computers.into_iter().find(|computer| computer.machine_uuid.to_string() == machine_uuid);
    let computer = computer.ok_or_else(|| gone(&app, &owner.visitor))?;
    let name = computer.name.unwrap_or_else(|| "this computer".into());
    let frame = PageLayout::new(&app, Some(&owner.visitor));
    Ok(page(
        StatusCode::OK,
        &UndoPage {
            tab: "home",
            title: format!("Detach {name}?"),
            subject: machine_uuid.clone(),
            lost: lines([
                "Its secret stops working at once: it can send nothing more and read nothing.",
                "To come back it has to be registered anew, as a new computer, and be approved again.",
                "The levels of consent that you set for it alone.",
            ]),
            kept: lines([
                "What it has recorded stays in your activity, with its proofs.",
                "Your other computers and agents are not touched.",
            ]),
            button: "Detach it for ever",
            action: format!("{}/account/computers/{machine_uuid}/detach", frame.root),
            keep: format!("{}/account", frame.root),
            frame,
        },
    ))
}

/// `POST /account/computers/{machine_uuid}/detach`
pub async fn detach(
    State(app): State<App>,
    owner: Owner,
    Named(machine_uuid): Named,
    PageForm(ConfirmForm {}): PageForm<ConfirmForm>,
) -> PageResult {
    let machine_uuid: MachineUuid = machine_uuid.parse().map_err(|_| gone(&app, &owner.visitor))?;
    let (store, account) = (app.store.clone(), owner.account.clone());
    let detached = actors::detached(async move { store.machine_detach(machine_uuid, &account).await }).await;
    if detached.map_err(PageError::of(&app))?.map_err(PageError::store(&app))? {
        Ok(back(&app))
    } else {
        Err(gone(&app, &owner.visitor))
    }
}

/// `GET /account/agents/{id}/revoke`
pub async fn revoke_question(State(app): State<App>, owner: Owner, Named(id): Named) -> PageResult {
    let agent_id: RegistrationId = id.parse().map_err(|_| gone(&app, &owner.visitor))?;
    let agent = app.store.registration_by_id(agent_id).await.map_err(PageError::store(&app))?;
    let theirs = agent.is_some_and(|(agent, _)| {
        agent.revoked_at.is_none() && agent.claim.is_some_and(|claim| claim.account == owner.account)
    });
    if !theirs {
        return Err(gone(&app, &owner.visitor));
    }
    let confirmed = app.store.confirmed_by(agent_id).await.map_err(PageError::store(&app))?;
    let frame = PageLayout::new(&app, Some(&owner.visitor));
    let mut lost = lines([
        "Its tokens, its assertions and its claim token stop working at once, for ever.",
        "To come back it has to register anew, and you have to confirm it again.",
    ]);
    if confirmed.agents > 0 {
        lost.push(format!("Agents that it confirmed for you are revoked with it: {}.", confirmed.agents));
    }
    if confirmed.computers > 0 {
        let computers = confirmed.computers;
        lost.push(format!("Computers that it attached for you are detached, and may ask you again: {computers}."));
    }
    Ok(page(
        StatusCode::OK,
        &UndoPage {
            tab: "home",
            title: "Revoke this agent?".into(),
            subject: id.clone(),
            lost,
            kept: lines([
                "What it has done stays in your activity, with its proofs.",
                "Computers and agents that you confirmed yourself are not touched.",
            ]),
            button: "Revoke it for ever",
            action: format!("{}/account/agents/{id}/revoke", frame.root),
            keep: format!("{}/account", frame.root),
            frame,
        },
    ))
}

/// `POST /account/agents/{id}/revoke`
pub async fn revoke(
    State(app): State<App>,
    owner: Owner,
    Named(id): Named,
    PageForm(ConfirmForm {}): PageForm<ConfirmForm>,
) -> PageResult {
    let id: RegistrationId = id.parse().map_err(|_| gone(&app, &owner.visitor))?;
    let revoked = app.claims.revoke(id, Some(owner.account.clone())).await.map_err(PageError::of(&app))?;
    if revoked { Ok(back(&app)) } else { Err(gone(&app, &owner.visitor)) }
}

/// `GET /account/keys/{id}/revoke`
pub async fn revoke_key_question(State(app): State<App>, owner: Owner, Named(id): Named) -> PageResult {
    let now = app.clock.now();
    let key: ApiKeyId = id.parse().map_err(|_| gone(&app, &owner.visitor))?;
    let key = app.store.api_key_of_account(key, &owner.account).await.map_err(PageError::store(&app))?;
    let key = key.filter(|key| key.is_good(now)).ok_or_else(|| gone(&app, &owner.visitor))?;
    let frame = PageLayout::new(&app, Some(&owner.visitor));
    Ok(page(
        StatusCode::OK,
        &UndoPage {
            tab: "access",
            title: format!("Revoke the key {}?", key.name.as_str()),
            subject: id.clone(),
            lost: lines(["Every program that uses it stops working at once, until you give it another key."]),
            kept: lines(["What was added with it stays in your spaces.", "Your other keys are not touched."]),
            button: "Revoke it for ever",
            action: format!("{}/account/keys/{id}/revoke", frame.root),
            keep: format!("{}/account/access", frame.root),
            frame,
        },
    ))
}

/// `POST /account/keys/{id}/revoke`
pub async fn revoke_key(
    State(app): State<App>,
    owner: Owner,
    Named(id): Named,
    PageForm(ConfirmForm {}): PageForm<ConfirmForm>,
) -> PageResult {
    let id: ApiKeyId = id.parse().map_err(|_| gone(&app, &owner.visitor))?;
    let ended = end(&app, id, owner.account.clone()).await.map_err(|error| PageError::api(&app, &error))?;
    if ended {
        Ok(Redirect::to(&format!("{}/account/access", app.root_path())).into_response())
    } else {
        Err(gone(&app, &owner.visitor))
    }
}

fn back(app: &App) -> Response {
    Redirect::to(&format!("{}/account", app.root_path())).into_response()
}

/// What was named is not, or is not theirs: the two look the same.
pub(super) fn gone(app: &App, visitor: &SignedIn) -> PageError {
    PageError::shown(
        app,
        Some(visitor),
        StatusCode::NOT_FOUND,
        Shown {
            title: "There is nothing like this on your account",
            text: "It was removed already, or it was never yours.",
            next: "Your account page shows what there is.",
            link: "/account".into(),
            label: "To your account",
        },
    )
}
