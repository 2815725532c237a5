//! A change of consent, read from the event with which the service reports it.

use domain::consent::ConsentLevel;
use domain::ids::{MachineUuid, RegistrationId};
use serde::Deserialize;

use super::computers::Computers;
use super::rows::lane_title;
use crate::account::consent::words as level_words;

/// The members of the payload that the page of the event explains.
#[derive(Debug, Deserialize)]
pub struct ReportedChange {
    pub level: String,
    pub previous_level: Option<String>,
    pub machine_uuid: Option<MachineUuid>,
    pub lane: Option<String>,
    pub set_by: Option<String>,
    pub agent_id: Option<RegistrationId>,
    pub reason: Option<String>,
}

impl ReportedChange {
    /// Reads the payload of an event.
    pub fn read(event: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Event {
            payload: ReportedChange,
        }
        serde_json::from_slice::<Event>(event).ok().map(|event| event.payload)
    }

    /// The lane, or all.
    pub fn lane_words(&self) -> String {
        self.lane.as_deref().map_or_else(|| "all lanes".to_owned(), lane_title)
    }

    /// The computer, or all.
    pub fn computer_words(&self, computers: &Computers) -> String {
        self.machine_uuid.map_or("all computers", |machine| computers.name(machine)).to_owned()
    }

    /// The level before.
    pub fn before(&self) -> String {
        self.previous_level.as_deref().map_or_else(|| "not set".to_owned(), words)
    }

    /// The new level.
    pub fn after(&self) -> String {
        words(&self.level)
    }

    /// The author of the change.
    pub fn author(&self, computers: &Computers) -> String {
        match (self.set_by.as_deref(), self.agent_id) {
            (Some("person"), _) => "you".to_owned(),
            (Some("computer"), _) => {
                self.machine_uuid.map_or("a computer", |machine| computers.name(machine)).to_owned()
            }
            (_, Some(agent)) => computers.agent(agent),
            _ => "an agent".to_owned(),
        }
    }
}

fn words(level: &str) -> String {
    level
        .parse::<ConsentLevel>()
        .map_or_else(|_| domain::foreign::visible(level), |level| level_words(level).to_owned())
}
