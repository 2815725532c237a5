//! The page of one computer: its name, state and way to end it.

use app::services::labels::Labels;
use app::services::machines::Computer;
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use domain::ids::MachineUuid;
use domain::label::Label;
use serde::Deserialize;

use super::AccountOwner;
use super::consent::{chosen_level, words};
use super::home::{OverviewPages, STRIP_DAYS, state_of, strip_of};
use super::undo::gone;
use crate::strip::DayStrip;
use crate::{Moment, PageError, PageForm, PageLayout, PageResult, Site, page};
use api::named::Named;

#[derive(Template)]
#[template(path = "account/computer.html")]
struct ComputerPage {
    frame: PageLayout,
    tab: &'static str,
    uuid: String,
    name: String,
    label: String,
    /// The name that the computer reported.
    reported: Option<String>,
    identity: String,
    state: &'static str,
    registered: Moment,
    attached: Option<Moment>,
    /// The agent that approved the attachment.
    attached_by: Option<String>,
    last_seen: Moment,
    is_ended: bool,
    /// The person's level for all lanes, in words; `None` if they chose none.
    level: Option<&'static str>,
    strip: DayStrip,
    fault: Option<&'static str>,
}

/// A form with a name; empty removes the name.
#[derive(Debug, Deserialize)]
pub struct LabelForm {
    pub(super) label: String,
}

/// The fault of a name that is too long.
pub(super) const LABEL_FAULT: &str = "A name has at most 100 characters on one line.";

/// `GET /account/computers/{machine_uuid}`
pub async fn show(State(pages): State<OverviewPages>, owner: AccountOwner, Named(machine_uuid): Named) -> PageResult {
    draw(&pages, &owner, &machine_uuid, StatusCode::OK, None).await
}

/// `POST /account/computers/{machine_uuid}`: the account's name for the computer.
pub async fn rename(
    State(pages): State<OverviewPages>,
    State(labels): State<Labels>,
    owner: AccountOwner,
    Named(machine_uuid): Named,
    PageForm(form): PageForm<LabelForm>,
) -> PageResult {
    let site = &pages.site;
    let id: MachineUuid = machine_uuid.parse().map_err(|_| gone(site, &owner.visitor))?;
    let Ok(label) = Label::or_none(&form.label) else {
        return draw(&pages, &owner, &machine_uuid, StatusCode::BAD_REQUEST, Some((form.label, LABEL_FAULT))).await;
    };
    let is_removed = label.is_none();
    let named = labels.name_computer(id, owner.account.clone(), label).await.map_err(PageError::of(site))?;
    if !named {
        return Err(gone(site, &owner.visitor));
    }
    let said = if is_removed { "The name is removed." } else { "The name is saved." };
    Ok(site.to(&format!("/account/computers/{id}"), said))
}

async fn draw(
    pages: &OverviewPages,
    owner: &AccountOwner,
    machine_uuid: &str,
    status: StatusCode,
    fault: Option<(String, &'static str)>,
) -> PageResult {
    let OverviewPages { site, bars, .. } = pages;
    let now = site.ports.clock.now();
    let computer = find(site, owner, machine_uuid).await?;
    let history = bars.history(&owner.account, STRIP_DAYS).await.map_err(PageError::of(site))?;
    let level = chosen_level(site, &owner.account, computer.machine_uuid).await?;
    let own = computer.label.as_ref().map(Label::as_str).unwrap_or_default().to_owned();
    let (label, fault) = fault.map_or((own, None), |(typed, fault)| (typed, Some(fault)));
    Ok(page(
        status,
        &ComputerPage {
            frame: PageLayout::new(site, Some(&owner.visitor)),
            tab: "home",
            name: computer_name(&computer),
            label,
            reported: computer.label.as_ref().and(computer.name.clone()),
            identity: computer.user_cuid.to_string(),
            state: state_of(&computer, now),
            registered: Moment::new(computer.first_seen_at, now),
            attached: computer.attached_at.map(|at| Moment::new(at, now)),
            attached_by: computer.attached_by.map(|agent| agent.to_string()),
            last_seen: Moment::new(computer.last_seen_at, now),
            is_ended: computer.account.is_none(),
            level: level.map(words),
            strip: strip_of(history.iter().filter(|day| day.recorder.machine == computer.machine_uuid), now),
            uuid: computer.machine_uuid.to_string(),
            fault,
        },
    ))
}

/// A computer that is or was attached to the account.
pub(super) async fn find(site: &Site, owner: &AccountOwner, machine_uuid: &str) -> Result<Computer, PageError> {
    let machine: MachineUuid = machine_uuid.parse().map_err(|_| gone(site, &owner.visitor))?;
    let computer = site.machines.of_account(machine, &owner.account).await.map_err(PageError::of(site))?;
    computer.ok_or_else(|| gone(site, &owner.visitor))
}

/// The name of a computer. Without one, the end of its id: the beginning is a time, and similar for computers of one day.
pub(super) fn computer_name(computer: &Computer) -> String {
    computer.shown_name().map_or_else(
        || {
            let uuid = computer.machine_uuid.to_string();
            format!("Computer …{}", &uuid[uuid.len() - 8..])
        },
        str::to_owned,
    )
}
