//! The pages that ask once more: each names what will be lost, and what will not.

use askama::Template;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use domain::ids::{MachineUuid, RegistrationId};
use serde::Deserialize;

use super::{AGENTS_MAX, COMPUTERS_MAX, Owner};
use crate::house::House;
use crate::web::{Answer, Frame, PageForm, Shown, Trouble, page};

/// Forms that only say yes.
#[derive(Debug, Deserialize)]
pub struct Sure {}

#[derive(Template)]
#[template(path = "account/undo.html")]
struct UndoPage {
    frame: Frame,
    tab: &'static str,
    title: String,
    /// Whose it is, in its own words or by its id.
    subject: String,
    lost: &'static [&'static str],
    kept: &'static [&'static str],
    button: &'static str,
    action: String,
}

/// `GET /account/computers/{machine_uuid}/detach`
pub async fn detach_question(State(house): State<House>, owner: Owner, Path(machine_uuid): Path<String>) -> Answer {
    let computers =
        house.store.computers_of_account(&owner.account, COMPUTERS_MAX).await.map_err(Trouble::store(&house))?;
    let computer = computers.into_iter().find(|computer| computer.machine_uuid.to_string() == machine_uuid);
    let computer = computer.ok_or_else(|| gone(&house))?;
    let name = computer.name.unwrap_or_else(|| "this computer".into());
    let frame = Frame::new(&house, Some(&owner.visitor));
    Ok(page(
        StatusCode::OK,
        &UndoPage {
            tab: "home",
            title: format!("Detach {name}?"),
            subject: machine_uuid.clone(),
            lost: &[
                "Its secret stops working at once: it can send nothing more and read nothing.",
                "To come back it has to be registered anew, as a new computer, and be approved again.",
                "The levels of consent that you set for it alone.",
            ],
            kept: &[
                "What it has recorded stays in your activity, with its proofs.",
                "Your other computers and agents are not touched.",
            ],
            button: "Detach it for ever",
            action: format!("{}/account/computers/{machine_uuid}/detach", frame.root),
            frame,
        },
    ))
}

/// `POST /account/computers/{machine_uuid}/detach`
pub async fn detach(
    State(house): State<House>,
    owner: Owner,
    Path(machine_uuid): Path<String>,
    PageForm(Sure {}): PageForm<Sure>,
) -> Answer {
    let machine_uuid: MachineUuid = machine_uuid.parse().map_err(|_| gone(&house))?;
    let (store, account) = (house.store.clone(), owner.account);
    let detached = actors::detached(async move { store.machine_detach(machine_uuid, &account).await }).await;
    if detached.map_err(Trouble::of(&house))?.map_err(Trouble::store(&house))? {
        Ok(back(&house))
    } else {
        Err(gone(&house))
    }
}

/// `GET /account/agents/{id}/revoke`
pub async fn revoke_question(State(house): State<House>, owner: Owner, Path(id): Path<String>) -> Answer {
    let agents = house.store.agents_of_account(&owner.account, AGENTS_MAX).await.map_err(Trouble::store(&house))?;
    let known = agents.iter().any(|agent| agent.id.to_string() == id && agent.revoked_at.is_none());
    if !known {
        return Err(gone(&house));
    }
    let frame = Frame::new(&house, Some(&owner.visitor));
    Ok(page(
        StatusCode::OK,
        &UndoPage {
            tab: "home",
            title: "Revoke this agent?".into(),
            subject: id.clone(),
            lost: &[
                "Its tokens, its assertions and its claim token stop working at once, for ever.",
                "To come back it has to register anew, and you have to confirm it again.",
            ],
            kept: &[
                "What it has done stays in your activity, with its proofs.",
                "Your computers and other agents are not touched.",
            ],
            button: "Revoke it for ever",
            action: format!("{}/account/agents/{id}/revoke", frame.root),
            frame,
        },
    ))
}

/// `POST /account/agents/{id}/revoke`
pub async fn revoke(
    State(house): State<House>,
    owner: Owner,
    Path(id): Path<String>,
    PageForm(Sure {}): PageForm<Sure>,
) -> Answer {
    let id: RegistrationId = id.parse().map_err(|_| gone(&house))?;
    let revoked = house.claims.revoke(id, Some(owner.account)).await.map_err(Trouble::of(&house))?;
    if revoked { Ok(back(&house)) } else { Err(gone(&house)) }
}

fn back(house: &House) -> Response {
    Redirect::to(&format!("{}/account", house.root_path())).into_response()
}

fn gone(house: &House) -> Trouble {
    Trouble::shown(
        house,
        StatusCode::NOT_FOUND,
        Shown {
            title: "There is nothing like this on your account",
            text: "It was removed already, or it was never yours.",
            next: "Your account page shows what there is.",
            link: "/account",
            label: "To your account",
        },
    )
}
