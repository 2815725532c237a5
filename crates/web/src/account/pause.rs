//! Pauses of recording, on the overview and the consent page.

use std::time::Duration;

use app::services::consent::AccountPauses;
use app::services::consent::{Consent, ConsentRefusal};
use app::services::machines::Computer;
use axum::extract::State;
use domain::Timestamp;
use domain::consent::Author;
use domain::ids::MachineUuid;
use serde::Deserialize;

use super::AccountOwner;
use super::computer::computer_name;
use super::undo::gone;
use crate::{Moment, PageError, PageForm, PageResult, Site};

/// The pauses that a page shows.
#[derive(Debug)]
pub(super) struct PauseView {
    /// End of the pause of all computers.
    pub(super) until: Option<Moment>,
    /// Computers that are paused individually.
    pub(super) computers: Vec<PausedComputer>,
}

#[derive(Debug)]
pub(super) struct PausedComputer {
    pub(super) uuid: String,
    pub(super) name: String,
    pub(super) until: Moment,
}

impl PauseView {
    pub(super) fn new(pauses: &AccountPauses, computers: &[Computer], now: Timestamp) -> Self {
        let computer = |(machine, until): &(MachineUuid, Timestamp)| PausedComputer {
            uuid: machine.to_string(),
            name: computers
                .iter()
                .find(|known| known.machine_uuid == *machine)
                .map_or_else(|| machine.to_string(), computer_name),
            until: Moment::new(*until, now),
        };
        Self {
            until: pauses.account.map(|until| Moment::new(until, now)),
            computers: pauses.machines.iter().map(computer).collect(),
        }
    }
}

/// A button of the form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PauseChoice {
    /// Pause for an hour.
    Hour,
    /// Pause for a day.
    Day,
    /// End the pause.
    End,
}

/// The fields of the form.
#[derive(Debug, Deserialize)]
pub struct PauseForm {
    choice: PauseChoice,
    /// The computer to pause; `None` for all.
    machine: Option<MachineUuid>,
}

/// `POST /account/pause`
pub async fn change(
    State(site): State<Site>,
    State(consent): State<Consent>,
    owner: AccountOwner,
    PageForm(PauseForm { choice, machine }): PageForm<PauseForm>,
) -> PageResult {
    let account = Some(&owner.account);
    let length = match choice {
        PauseChoice::Hour => Some(Duration::from_hours(1)),
        PauseChoice::Day => Some(Duration::from_hours(24).min(consent.pause_max())),
        PauseChoice::End => None,
    };
    let changed = match length {
        Some(length) => consent.pause_by_account(account, machine, (Author::Person, None), length).await.map(drop),
        None => consent.continue_by_account(account, machine, Author::Person).await,
    };
    let said = if length.is_some() { "Recording is paused." } else { "The pause has ended." };
    match changed {
        Ok(()) => Ok(site.to("/account/consent", said)),
        Err(ConsentRefusal::Infra(error)) => Err(PageError::of(&site)(error)),
        Err(ConsentRefusal::NoLinkedIdentity) => Ok(site.to("/account/consent", "No computer is attached.")),
        Err(_) => Err(gone(&site, &owner.visitor)),
    }
}
